"""Names that have moved or changed: old ones lead to the new for one release, with one warning that says where to."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any


class MovedModule(ModuleType):
    """A module that is now another: it has all of that one's public names, and warns when first used."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(old, f"Deprecated: now `{new}`.")
        self._new, self._warned = new, False

    def __getattr__(self, name: str) -> Any:
        # Python itself looks at a module's special names, such as `__path__`, which are not the other's.
        if name.startswith("__") or not hasattr(home := importlib.import_module(self._new), name):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if not self._warned:
            self._warned = True
            warn(self.__name__, self._new)
        return getattr(home, name)


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
