"""Questions that are linear in f, and their answers: a number, its error, and how much it rests on."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualembed.answers.answer import Answer, Verdict
    from dualembed.answers.question import Question
    from dualembed.answers.summary import Findings, Summary
    from dualembed.answers.task import Fitted, Setting, Task

__all__ = ["Answer", "Findings", "Fitted", "Question", "Setting", "Summary", "Task", "Verdict"]

# Names are imported when first used, so that the command line can read tasks without NumPy.
_HOMES = {
    "Answer": "answer",
    "Verdict": "answer",
    "Question": "question",
    "Findings": "summary",
    "Summary": "summary",
    "Fitted": "task",
    "Setting": "task",
    "Task": "task",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
