"""Questions that are linear in f, and their answers: a number, its error, and how much it rests on."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualembed.answers.anderson_rubin import ConfidenceSet, anderson_rubin_set, anderson_rubin_test
    from dualembed.answers.answer import Answer, Verdict
    from dualembed.answers.average_effects import AverageEffects
    from dualembed.answers.coefficients import Coefficients
    from dualembed.answers.iv_strength import FirstStageTest, effective_f, first_stage_tests, rank_test
    from dualembed.answers.iv_tests import IVTest, hansen_test, sargan_test, wu_hausman_test
    from dualembed.answers.linear_results import LinearResults
    from dualembed.answers.linearity import linearity_test
    from dualembed.answers.question import Question
    from dualembed.answers.subgroups import Subgroups
    from dualembed.answers.summary import Findings, Summary
    from dualembed.answers.task import Fitted, Setting, Task

__all__ = [
    "Answer", "Findings", "Fitted", "Question", "Setting", "Subgroups", "Summary", "Task", "Verdict",
    "AverageEffects", "Coefficients", "ConfidenceSet", "FirstStageTest", "IVTest", "LinearResults",
    "anderson_rubin_set", "anderson_rubin_test", "effective_f", "first_stage_tests", "hansen_test",
    "linearity_test", "rank_test", "sargan_test", "wu_hausman_test",
]  # fmt: skip

# Names are imported when first used, so that the command line can read tasks without NumPy.
_HOMES = {
    "Answer": "answer",
    "Verdict": "answer",
    "AverageEffects": "average_effects",
    "Coefficients": "coefficients",
    "LinearResults": "linear_results",
    "linearity_test": "linearity",
    "Question": "question",
    "Subgroups": "subgroups",
    "Findings": "summary",
    "Summary": "summary",
    "Fitted": "task",
    "Setting": "task",
    "Task": "task",
    **dict.fromkeys(("ConfidenceSet", "anderson_rubin_set", "anderson_rubin_test"), "anderson_rubin"),
    **dict.fromkeys(("FirstStageTest", "effective_f", "first_stage_tests", "rank_test"), "iv_strength"),
    **dict.fromkeys(("IVTest", "hansen_test", "sargan_test", "wu_hausman_test"), "iv_tests"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
