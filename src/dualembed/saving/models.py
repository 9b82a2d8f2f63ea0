"""Estimators to files and back.

A model file is safetensors, whose one metadata entry holds the format's number, a checksum and the description:

    "dualembed": "3 <sha256 of the number, all that follows and all arrays> <description in JSON>"

Format 1 left the number out of its checksum, and called parts by the modules that they were in; format 2
had an attribute for each table's coding (`migrations`).
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from dualembed import __version__, checks, estimators
from dualembed.estimators.registry import ESTIMATORS
from dualembed.files import write_atomically
from dualembed.saving.encoding import Decoder, Encoder, functions_in, words
from dualembed.saving.migrations import migrate, renew

FORMAT = 3
ENTRY = "dualembed"
LENGTH = 8  # bytes, at the beginning, of the length of the header
BEGINNING = f'{{"__metadata__":{{"{ENTRY}":"'.encode()


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write the estimator, fitted or not, to one file, whole or not at all.

    A function among its parameters, such as a policy, is kept by its name only.

    Parameters
    ----------
    model : estimator
        One of dualembed's estimators.
    path : str or path
        The file; the usual ending is .dualembed.

    Examples
    --------
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
    encoder = Encoder()
    try:
        parameters = {key: encoder.parameter(value, key) for key, value in sorted(model.get_params(deep=False).items())}
        kept = {key: value for key, value in sorted(vars(model).items()) if _is_fitted(key)}
        # Parts that grow with the data say what a file keeps of them.
        kept = {key: value.in_file() if hasattr(value, "in_file") else value for key, value in kept.items()}
        fitted = {key: encoder.value(value, key) for key, value in kept.items()}
    except RecursionError:
        raise checks.InputError(f"the {name} holds something that holds itself, which no file can keep") from None
    rows = int(model.diagnostics_.rows) if "diagnostics_" in fitted else None
    description = {"class": name, "version": __version__, "rows": rows}
    write_atomically(path, packed({**description, "parameters": parameters, "fitted": fitted}, encoder.tensors))


def load(path: str | os.PathLike[str], functions: Mapping[str, Callable[..., Any]] | None = None) -> Any:
    """Read an estimator from a file that `save` has written.

    No code from the file is run, nor any that it names. Arrays of the model cannot be written to.

    Parameters
    ----------
    path : str or path
        The file.
    functions : dict of callables, optional
        Functions that the model had, by the names that `describe(path)["functions"]` lists.

    Returns
    -------
    estimator
        The model.

    Raises
    ------
    InputError
        If the file is no model, or one that this version cannot read.
    """
    number, description, tensors = unpacked(read(path), path)
    decoder = Decoder(tensors, functions or {})
    try:
        model = _built(migrate(description, number), decoder)
    except checks.InputError as error:
        raise checks.InputError(f"{path} cannot be loaded: {error}") from None
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        raise checks.InputError(f"{path} does not describe a model ({error}); save the model again") from error
    strange = sorted(set(functions or {}) - decoder.missing)
    if strange:
        there = ", ".join(sorted(map(str, decoder.missing))) or "none"
        raise checks.InputError(f"the model has no function {strange[0]}; those that it had are: {there}")
    return model


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What is in a model file, without building the model: plain values, fit for JSON.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    dict
        `class`; `parameters`, objects in words; `fitted`, the names of what a fit has left; `rows` that it was fitted
        to (None if unknown); `columns` by name (None without names); `functions` that must be given again; `version` of
        dualembed that wrote it; `format`; and `bytes` of the file.
    """
    data = read(path)
    number, description, tensors = unpacked(data, path)
    try:
        description = migrate(description, number)
        fitted = description["fitted"]
        names = fitted.get("feature_names_in_")
        return {
            "class": description["class"],
            "parameters": {name: words(node, tensors) for name, node in description["parameters"].items()},
            "fitted": sorted(fitted),
            "rows": description["rows"],
            "columns": None if names is None else Decoder(tensors, {}).value(names).tolist(),
            "functions": sorted({*functions_in([*description["parameters"].values(), *fitted.values()])}),
            "version": description["version"],
            "format": number,
            "bytes": len(data),
        }
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise checks.InputError(f"{path} does not describe a model ({error}); save the model again") from error


def _built(description: Any, decoder: Decoder) -> Any:
    """The estimator, made without running its constructor."""
    kind = _classes().get(description["class"])
    if kind is None:
        raise checks.InputError(f"there is no estimator {description['class']}; a newer version may have it")
    # A parameter that is newer than the file has its default, as in a call that does not know it.
    defaults = {key: value.default for key, value in inspect.signature(kind).parameters.items()}
    parameters = {key: decoder.value(node) for key, node in description["parameters"].items()}
    fitted = {key: decoder.value(node) for key, node in description["fitted"].items()}
    lacking = [key for key, value in defaults.items() if value is inspect.Parameter.empty and key not in parameters]
    strange = [*lacking, *(parameters.keys() - defaults.keys()), *(key for key in fitted if not _is_fitted(key))]
    if strange:
        raise checks.InputError(
            f"{kind.__name__} has other fields in this version of dualembed ({strange[0]}); use the one it is from"
        )
    model: Any = object.__new__(kind)
    vars(model).update({**defaults, **parameters, **renew(fitted)})
    return model


def _classes() -> dict[str, Any]:
    """Estimators by the names of their classes: the library's own, and those that have been imported besides."""
    own = {name: getattr(estimators, name) for name in estimators.__all__}
    return {each.__name__: each for each in ESTIMATORS.values()} | own


def _is_fitted(name: str) -> bool:
    """Whether an attribute of that name is what a fit leaves behind, by scikit-learn's convention."""
    return name.isidentifier() and name.endswith("_") and not name.startswith("_")


def _shown(value: Any) -> str:
    return f"a {type(value).__name__}" if not isinstance(value, type) else f"the class {value.__name__}"


def packed(description: Any, tensors: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a model file; equal models have equal bytes."""
    text = json.dumps(description, allow_nan=False, separators=(",", ":"))
    entry = f"{FORMAT} {_checksum(FORMAT, text, tensors)} {text}"
    return safetensors.save(dict(tensors), metadata={ENTRY: entry})


def read(path: str | os.PathLike[str]) -> bytes:
    """The bytes of the file at path."""
    file = Path(path)
    if not file.exists():
        raise checks.InputError(f"{file} does not exist; check the path of the model file")
    if not file.is_file():
        raise checks.InputError(f"{file} is not a file; give the path of one that save has written")
    try:
        return file.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise checks.InputError(f"{file} cannot be read ({reason}); check its permissions") from error


def unpacked(data: bytes, path: str | os.PathLike[str]) -> tuple[int, Any, dict[str, np.ndarray]]:
    """(format, description, arrays) of a model file's bytes, refused unless they are whole and of a known format."""
    try:
        number, checksum, text = _entry(_header(data, path), data, path)
        tensors = safetensors.load(data)
        if number < 1 or _checksum(number, text, tensors) != checksum:
            raise ValueError("the checksum does not fit")
        description = json.loads(text)
    except checks.InputError:
        raise
    except (SafetensorError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise checks.InputError(f"{path} is damaged ({error}); copy it again, or save the model again") from None
    for array in tensors.values():
        array.flags.writeable = False
    return number, description, tensors


def _header(data: bytes, path: str | os.PathLike[str]) -> Any:
    """The header of the safetensors file, refused where the file is of another kind or ends within it."""
    start = data[LENGTH : LENGTH + len(BEGINNING)]
    if not start or start != BEGINNING[: len(start)]:
        raise checks.InputError(f"{path} is not a model file of dualembed; give one that save has written")
    end = LENGTH + int.from_bytes(data[:LENGTH], "little")
    if len(data) < end:
        raise _cut_off(path)
    return json.loads(data[LENGTH:end])


def _entry(header: Any, data: bytes, path: str | os.PathLike[str]) -> tuple[int, str, str]:
    """(format, checksum, description), refused where the format is newer or the arrays are not all there."""
    number, checksum, text = header["__metadata__"][ENTRY].split(" ", 2)
    if int(number) > FORMAT:
        raise checks.InputError(
            f"{path} has format {number}, and this version of dualembed reads formats up to {FORMAT}; use a newer one"
        )
    ends = [array["data_offsets"][1] for name, array in header.items() if name != "__metadata__"]
    if len(data) < LENGTH + int.from_bytes(data[:LENGTH], "little") + max(ends, default=0):
        raise _cut_off(path)
    return int(number), checksum, text


def _checksum(number: int, text: str, tensors: Mapping[str, np.ndarray]) -> str:
    covered = text if number == 1 else f"{number} {text}"
    digest = hashlib.sha256(covered.encode("utf-8", "surrogatepass"))
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(repr((name, array.dtype.str, array.shape)).encode("utf-8", "surrogatepass"))
        digest.update(array.tobytes())
    return digest.hexdigest()


def _cut_off(path: str | os.PathLike[str]) -> checks.InputError:
    return checks.InputError(f"{path} is cut off; copy it again, or save the model again")
