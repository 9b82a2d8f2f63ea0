"""Every estimator by the name of its task. `index.json` has the tasks themselves, for a help that imports no class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dualembed.answers.task import Task
from dualembed.files import write_atomically

ESTIMATORS: dict[str, Any] = {}
"""The classes that have been imported, by the names of their tasks."""

INDEX = Path(__file__).with_name("index.json")


def register(estimator: Any) -> None:
    """Enter a class that has a task of its own."""
    if isinstance(vars(estimator).get("task"), Task):
        ESTIMATORS[estimator.task.name] = estimator


def index_text() -> str:
    """What `index.json` holds: the tasks of the library's own estimators that the command line can fit, in order."""
    from dualembed import estimators

    own = [getattr(estimators, name).task for name in estimators.__all__]
    order = ("policy-evaluation", "action-value", "iv", "hitting-time", "committor", "stationary", "linear-control")
    tasks = sorted((task for task in own if task.examples), key=lambda task: (*order, task.name).index(task.name))
    return json.dumps([task.to_dict() for task in tasks], indent=1, ensure_ascii=False) + "\n"


def write_index() -> None:
    """Write `index.json` anew, as `make format` does."""
    write_atomically(INDEX, index_text())
