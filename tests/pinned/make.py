"""What users rely on, recorded in JSON beside this file: `python -m tests.pinned.make` adds what is new.

Records only grow: nothing that is in one is ever taken out.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import json
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cli.tables import columns

import dualembed
from dualembed import estimators
from dualembed.cli import main
from dualembed.data import write_table

NAMES = Path(__file__).with_name("names.json")
KEYS = Path(__file__).with_name("keys.json")

# Arguments of `dualembed fit` for each task, on the table that the tests of the command line share.
TASKS = {
    "policy-evaluation": ["--discount", "0.5"],
    "action-value": ["--discount", "0.5"],
    "iv": ["--x", "price", "--y", "sales", "--instrument", "tax", "--control", "state_b,kind"],
    "hitting-time": ["--target", "state_a > 0.5"],
    "committor": ["--from", "state_a < -1.2", "--to", "state_a > 1.2"],
    "stationary": ["--where", "state_a > 0.5"],
    "linear-control": [],
}


def public_names() -> dict[str, list[str]]:
    """The public names of dualembed and of each of its public modules, sorted."""
    found = {"dualembed": sorted(dualembed.__all__)}
    parts = [name for name in dualembed.__all__ if isinstance(getattr(dualembed, name), types.ModuleType)]
    for name in [*parts, "saving"]:
        found[f"dualembed.{name}"] = sorted(_names_in(importlib.import_module(f"dualembed.{name}")))
    return found


def _names_in(module: types.ModuleType) -> list[str]:
    """Those that the module lists; without a list its own classes and functions."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return [name for name, value in own.items() if getattr(value, "__module__", None) == module.__name__]


def parameters() -> dict[str, list[str]]:
    """The parameters of the estimators' constructors and of their `fit`, in order."""
    found = {}
    for name in sorted(estimators.__all__):
        kind = getattr(estimators, name)
        for shown, function in ((name, kind), (f"{name}.fit", kind.fit)):
            found[shown] = [each for each in inspect.signature(function).parameters if each != "self"]
    return found


def keys_of_fit(task: str) -> list[str]:
    """Where there are values in the document that `dualembed fit` prints for the task, sorted; a list is []."""
    shown = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(shown):
        write_table(columns(), f"{folder}/log.csv")
        words = ["fit", task, f"{folder}/log.csv", "--out", f"{folder}/model.dualembed", *TASKS[task], "--json"]
        assert main(words) == 0
    return sorted({place for place in places(json.loads(shown.getvalue())) if not _depends_on_the_solver(place)})


def places(value: Any, place: str = "") -> Iterator[str]:
    """Where there are values in a document, such as answer, answer.effects[] and answer.effects[].column."""
    if place:
        yield place
    if isinstance(value, dict):
        for name, each in value.items():
            yield from places(each, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        for each in value if any(isinstance(each, dict) for each in value) else ():  # warnings come and go
            yield from places(each, f"{place}[]")


def _depends_on_the_solver(place: str) -> bool:
    """Whether it is one of the numbers that a choice was made by, which differ from solver to solver."""
    return place.startswith("selection[].") and place not in ("selection[].question", "selection[].answer")


def merged(old: dict[str, list[str]], new: dict[str, list[str]]) -> dict[str, list[str]]:
    """The old record with what is new added."""
    return {name: list(dict.fromkeys([*old.get(name, ()), *new.get(name, ())])) for name in {**old, **new}}


def write() -> None:
    """Add to the records what is new."""
    for path, new in (
        (NAMES, {"names": public_names(), "parameters": parameters()}),
        (KEYS, {"keys": {task: keys_of_fit(task) for task in TASKS}}),
    ):
        old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        whole = {part: merged(old.get(part, {}), found) for part, found in new.items()}
        path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
