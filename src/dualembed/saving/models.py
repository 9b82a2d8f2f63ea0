"""Estimators to files and back."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

from dualembed import __version__, checks, estimators
from dualembed.files import write_atomically
from dualembed.saving.building import Builder
from dualembed.saving.container import FORMAT, packed, read, unpacked
from dualembed.saving.describing import Describer
from dualembed.saving.words import functions_in, words


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write the estimator, fitted or not, to one file, whole or not at all; the usual ending is .dualembed.

    A function among its parameters, such as a policy, is kept by its name only.

    >>> import tempfile, numpy as np
    >>> model = estimators.IVRegressor(primal="linear", dual="linear").fit([[0.0], [1.0], [3.0]], [1.0, 3.0, 7.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/line.dualembed")
    ...     again = load(f"{folder}/line.dualembed")
    >>> again.predict([[2.0]]).round(6).tolist()
    [5.0]
    """
    name = type(model).__name__
    if type(model) is not _classes().get(name):
        raise checks.InputError(
            f"save is for the estimators {', '.join(_classes())}, not for {_shown(model)}; of a search or a pipeline "
            "save the estimator inside"
        )
    describer = Describer()
    try:
        parameters = {
            key: describer.parameter(value, key) for key, value in sorted(model.get_params(deep=False).items())
        }
        fitted = {key: describer.value(value, key) for key, value in sorted(vars(model).items()) if _is_fitted(key)}
    except RecursionError:
        raise checks.InputError(f"the {name} holds something that holds itself, which no file can keep") from None
    description = {"class": name, "version": __version__, "rows": _rows(model)}
    write_atomically(path, packed({**description, "parameters": parameters, "fitted": fitted}, describer.tensors))


def load(path: str | os.PathLike[str], functions: Mapping[str, Callable[..., Any]] | None = None) -> Any:
    """The estimator in a file that `save` has written. No code from the file is run, nor any that it names.

    `functions` gives functions again that the model had, by the names that `describe(path)["functions"]` lists. Arrays
    of the model cannot be written to.
    """
    description, tensors = unpacked(read(path), path)
    builder = Builder(tensors, functions or {})
    try:
        model = _built(description, builder)
    except checks.InputError as error:
        raise checks.InputError(f"{path} cannot be loaded: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        raise checks.InputError(f"{path} does not describe a model ({error}); save the model again") from error
    strange = sorted(set(functions or {}) - builder.missing)
    if strange:
        there = ", ".join(sorted(map(str, builder.missing))) or "none"
        raise checks.InputError(f"the model has no function {strange[0]}; those that it had are: {there}")
    return model


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What is in a model file, without building the model: plain values, fit for JSON.

    `class`; `parameters`, objects in words; `fitted`, the names of what a fit has left; `rows` that it was fitted to
    (None if unknown); `columns` by name (None without names); `functions` that must be given again; `version` of
    dualembed that wrote it; `format`; and `bytes` of the file.
    """
    data = read(path)
    description, tensors = unpacked(data, path)
    try:
        fitted = description["fitted"]
        names = fitted.get("feature_names_in_")
        return {
            "class": description["class"],
            "parameters": {name: words(node, tensors) for name, node in description["parameters"].items()},
            "fitted": sorted(fitted),
            "rows": description["rows"],
            "columns": None if names is None else Builder(tensors, {}).value(names).tolist(),
            "functions": sorted({*functions_in([*description["parameters"].values(), *fitted.values()])}),
            "version": description["version"],
            "format": FORMAT,
            "bytes": len(data),
        }
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise checks.InputError(f"{path} does not describe a model ({error}); save the model again") from error


def _built(description: Any, builder: Builder) -> Any:
    """The estimator, made without running its constructor."""
    kind = _classes().get(description["class"])
    if kind is None:
        raise checks.InputError(f"there is no estimator {description['class']}; a newer version may have it")
    # A parameter that is newer than the file has its default, as in a call that does not know it.
    defaults = {key: value.default for key, value in inspect.signature(kind).parameters.items()}
    parameters = {key: builder.value(node) for key, node in description["parameters"].items()}
    fitted = {key: builder.value(node) for key, node in description["fitted"].items()}
    lacking = [key for key, value in defaults.items() if value is inspect.Parameter.empty and key not in parameters]
    strange = [*lacking, *(parameters.keys() - defaults.keys()), *(key for key in fitted if not _is_fitted(key))]
    if strange:
        raise checks.InputError(
            f"{kind.__name__} has another make-up in this version of dualembed ({strange[0]}); use the one it is from"
        )
    model: Any = object.__new__(kind)
    vars(model).update({**defaults, **parameters, **fitted})
    return model


def _classes() -> dict[str, Any]:
    return {name: getattr(estimators, name) for name in estimators.__all__}


def _is_fitted(name: str) -> bool:
    """Whether an attribute of that name is what a fit leaves behind, by scikit-learn's convention."""
    return name.isidentifier() and name.endswith("_") and not name.startswith("_")


def _rows(model: Any) -> int | None:
    rows = getattr(getattr(model, "diagnostics_", None), "rows", None)
    return None if rows is None else int(rows)


def _shown(value: Any) -> str:
    return f"a {type(value).__name__}" if not isinstance(value, type) else f"the class {value.__name__}"
