"""Which classes model files may hold: dataclasses, modules and named tuples of dualembed and of equinox.nn."""

from __future__ import annotations

import dataclasses
import importlib
import re
from typing import Any

from dualembed import checks

# Not the command line and the experiments: importing them is to run or to need something.
ALLOWED = re.compile(r"dualembed(?!\.cli\b|\.experiments\b)(\.[a-z]\w*)+|equinox\.nn(\._?[a-z]\w*)+")
# Pairs of functions, which are kept by name as functions are.
PAIRS = ("optax._src.base:GradientTransformation", "optax._src.base:GradientTransformationExtraArgs")


def class_name(kind: type) -> str | None:
    """ "module:name" of a class that files may hold, else None."""
    name = f"{kind.__module__}:{kind.__qualname__}"
    allowed = ALLOWED.fullmatch(kind.__module__) and kind.__qualname__.isidentifier()
    return name if (allowed or name in PAIRS) and _has_fields(kind) else None


def class_named(name: str) -> type:
    """The class of that name, refused unless files may hold it; nothing but a module's import is run."""
    module, _, own = name.partition(":")
    if (ALLOWED.fullmatch(module) and own.isidentifier()) or name in PAIRS:
        try:
            found = getattr(importlib.import_module(module), own, None)
        except ImportError:
            found = None
        if isinstance(found, type) and class_name(found) == name:
            return found
    raise checks.InputError(f"there is no part {name} of a model in this version of dualembed; use the one it is from")


def fields_of(kind: Any) -> dict[str, Any]:
    """The names of the class's fields, each with its default, `dataclasses.MISSING` where there is none."""
    if issubclass(kind, tuple):
        return {name: kind._field_defaults.get(name, dataclasses.MISSING) for name in kind._fields}
    return {field.name: field.default for field in dataclasses.fields(kind)}


def instance_of(kind: type, values: dict[str, Any]) -> Any:
    """An object of the class with these values of its fields, made without running any code of the class."""
    defaults = fields_of(kind)
    strange = sorted(values.keys() - defaults.keys())
    lacking = sorted(
        name for name, default in defaults.items() if name not in values and default is dataclasses.MISSING
    )
    if strange or lacking:
        raise checks.InputError(
            f"{kind.__name__} has another make-up in this version of dualembed "
            f"({', '.join(strange + lacking)}); use the one it is from"
        )
    whole = {**defaults, **values}
    if issubclass(kind, tuple):
        return tuple.__new__(kind, whole.values())
    made = object.__new__(kind)
    for name, value in whole.items():
        object.__setattr__(made, name, value)
    return made


def _has_fields(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
