"""Whether public docstrings agree with the code, by numpydoc: `python -m tests.docstrings` lists what does not.

Checked are the public names that `tests/pinned` records, and the public methods of public classes. Parameters are those
of the signature, in its order, each with a type and a description; what is returned is described. A record that users
only read may list its fields as Attributes. A method that overrides a documented one says no more than what is special.
"""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import json
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate
from tests.pinned.make import NAMES, public_names

CHECKS = re.compile("GL0[35678]|GL10|SS0[12346]|PR..|RT0[1345]|YD01")  # left out: see also, examples, moods of verbs
INHERITED = ("GL08", "PR01", "RT01", "YD01", "SS02")  # what an override need not say again; its formula may be all

MOVED = ("policies", "propensities", "trajectories")  # modules that are now in `data`


class _Docstring(Validator):
    """A docstring, in which a record without Parameters has its fields as Attributes."""

    def __init__(self, obj_name: Any) -> None:
        super().__init__(get_doc_object(obj_name, config={"show_class_members": False}))

    @property
    def doc_all_parameters(self) -> dict[str, tuple[str, list[str]]]:
        record = dataclasses.is_dataclass(self.obj) and not self.doc["Parameters"]
        return self._doc_parameters(["Attributes"] if record else ["Parameters", "Other Parameters"])

    @property
    def signature_parameters(self) -> tuple[str, ...]:
        wordless = inspect.isclass(self.obj) and issubclass(self.obj, (enum.Enum, Exception))
        return () if wordless else tuple(name for name in super().signature_parameters if name.strip("*_"))


def public_objects() -> Iterator[Any]:
    """The public classes and functions, each once."""
    seen = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        for module, names in (public_names() | moved_names()).items():
            for name in names:
                value = getattr(importlib.import_module(module), name)
                ours = str(getattr(value, "__module__", "")).startswith("dualembed")
                if (inspect.isclass(value) or inspect.isfunction(value)) and ours and value not in seen:
                    seen.add(value)
                    yield value


def moved_names() -> dict[str, list[str]]:
    """The names of modules that are now in `data`, under which the records have them still."""
    recorded = json.loads(NAMES.read_text(encoding="utf-8"))["names"]
    return {f"dualembed.data.{each}": recorded[f"dualembed.{each}"] for each in MOVED}


def methods(kind: type) -> Iterator[tuple[Any, bool]]:
    """The public methods and properties that the class or its own bases define, and whether each overrides another."""
    for name in dir(kind):
        owners = [each for each in kind.__mro__ if name in vars(each) and each.__module__.startswith("dualembed")]
        if (name.startswith("_") and name != "__call__") or not owners:
            continue
        value = getattr(kind, name)
        if inspect.isroutine(value) or isinstance(value, property):
            yield value, len(owners) > 1


def mistakes(thing: Any, *, overrides: bool = False) -> list[str]:
    """What is wrong with its docstring, each with file and line."""
    found = validate(thing, _Docstring)
    brief = overrides and "Parameters\n" not in (thing.__doc__ or "")
    kept = [each for each in found["errors"] if CHECKS.fullmatch(each[0]) and not (brief and each[0] in INHERITED)]
    name = getattr(thing, "__qualname__", None) or thing.fget.__qualname__
    return [f"{found['file']}:{found['file_line']}: {name}: {code} {what}" for code, what in kept]


def all_mistakes() -> list[str]:
    """Those of everything public, each once, in the order of files and lines."""
    found = set()
    for thing in public_objects():
        found.update(mistakes(thing))
        for method, overrides in methods(thing) if inspect.isclass(thing) else ():
            found.update(mistakes(method, overrides=overrides))
    return sorted(found, key=lambda line: (line.split(":")[0], int(line.split(":")[1])))


if __name__ == "__main__":
    wrong = all_mistakes()
    print("\n".join(wrong) or "All public docstrings agree with the code.")
    sys.exit(bool(wrong))
