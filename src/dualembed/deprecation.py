"""Names that have moved or changed: old ones lead to the new for one release, with one warning that says where to."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from typing import Any


def moved(old: str, new: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module that is now another: it has all of that one's names, and warns when first used."""
    told: list[str] = []

    def find(name: str) -> Any:
        home = importlib.import_module(new)
        if not hasattr(home, name):
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        if not told:
            told.append(name)
            warn(old, new)
        return getattr(home, name)

    return find


def renamed(module: str, names: dict[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module with old names, each given with the new one, whose value it has; it warns once."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn(f"{module}.{name}", f"{module}.{names[name]}")
        value = getattr(sys.modules[module], names[name])
        setattr(sys.modules[module], name, value)  # the next look-up is an ordinary one
        return value

    return find


def warn(old: str, new: str) -> None:
    """Warn whoever called the caller that the old name is for one release only."""
    warnings.warn(f"{old} is deprecated; use {new}", FutureWarning, stacklevel=3)
