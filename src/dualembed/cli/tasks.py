"""The tasks that the command line knows: those of the index, and of other estimators that have been imported."""

from __future__ import annotations

import difflib
import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dualembed.answers.task import Task

INDEX = Path(__file__).parent.parent / "estimators" / "index.json"
PLUG_INS = "dualembed.estimators"  # entry points: the name of a task, and the class that has it


@functools.cache
def _index() -> tuple[Task, ...]:
    """The library's own tasks, without an import of the estimators that they are of."""
    return tuple(Task.from_dict(record) for record in json.loads(INDEX.read_text(encoding="utf-8")))


def known_tasks() -> dict[str, Task]:
    """Every task by its name, in the order in which they are listed."""
    found = {task.name: task for task in _index()}
    registry = sys.modules.get("dualembed.estimators.registry")
    others = {} if registry is None else registry.ESTIMATORS
    return found | {name: each.task for name, each in others.items() if each.task.examples and name not in found}


def load_plug_in(words: Sequence[str]) -> None:
    """Import the estimator of another package whose task is named after `fit`, if it is none of those known."""
    asked = [word for word in words if not word.startswith("-")][:2]
    if len(asked) < 2 or asked[0] != "fit" or asked[1] in known_tasks():
        return
    from importlib.metadata import entry_points

    for point in entry_points(group=PLUG_INS, name=asked[1]):
        point.load()


def task_named(name: str) -> Task:
    """The task of that name, or a refusal with the nearest."""
    tasks = known_tasks()
    if name in tasks:
        return tasks[name]
    near = difflib.get_close_matches(name.lower(), tasks, n=1, cutoff=0.5)
    advice = f"did you mean '{near[0]}'?" if near else f"choose one of: {', '.join(tasks)}"
    from dualembed.checks import InputError

    raise InputError(f"there is no task named '{name}'; {advice}")


def estimator_of(task: Task) -> Any:
    """The class that has the task."""
    from dualembed import estimators  # noqa: F401  (which enters those of the library)
    from dualembed.estimators.registry import ESTIMATORS

    return ESTIMATORS[task.name]


def option_of(name: str) -> str:
    """The option of a setting, or of a role by the word for it.

    >>> option_of("next_state")
    '--next-state'
    """
    return f"--{name.replace('_', '-')}"
