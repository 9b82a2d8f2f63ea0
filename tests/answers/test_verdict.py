"""Verdicts name the rule that they are by, and warnings what an error is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dualembed as de
from dualembed.answers.answer import Verdict, judge, meaning

FINE: dict[str, Any] = {"negative": 0.0, "outside": 0.0, "relative": 0.1, "finite": True}


def test_an_answer_that_no_rule_is_against_is_solid() -> None:
    assert judge(**FINE) == (Verdict.SOLID, (), ())


@pytest.mark.parametrize(
    ("found", "fragile", "worst"),
    [
        ({"negative": 0.2}, "it is partly extrapolated", {"negative": 0.3}),
        ({"outside": 0.1}, "some of what is asked about lies outside the data", {"outside": 0.6}),
        ({"outside": 0.1, "unseen": 0.1}, "some of what is asked about is shown by no row", None),
        ({"relative": 0.7}, "its error is not small beside the answer", {"relative": 4.0}),
        ({"relative": 0.7, "of_answer": False}, "its error is not small beside all that f varies by", None),
        ({"carried": 0.2}, "a handful of rows or of episodes carry it", None),
        ({"constant": True}, "the data vary in nothing that is asked about", None),
        ({"starts": 2}, "it is taken at few starts", None),
    ],
)
def test_a_verdict_names_the_rule_that_it_is_by(
    found: dict[str, Any], fragile: str, worst: dict[str, Any] | None
) -> None:
    verdict, because, warnings = judge(**{**FINE, **found})
    assert verdict is Verdict.FRAGILE
    assert fragile in meaning(verdict, because)
    assert len(warnings) == 1
    if worst is not None:
        assert judge(**{**FINE, **worst}).verdict is Verdict.NOT_ANSWERABLE


def test_several_rules_are_all_named() -> None:
    verdict, because, _ = judge(**{**FINE, "negative": 0.2, "relative": 5.0})
    assert verdict is Verdict.NOT_ANSWERABLE
    assert meaning(verdict, because) == "it is partly extrapolated, and its error is far larger than the answer"
    _, because, (sentence,) = judge(**{**FINE, "finite": False})
    assert sentence.startswith(because[0])


def test_warnings_say_what_an_error_is_compared_with() -> None:
    (of_answer,) = judge(**{**FINE, "relative": 0.7}).warnings
    (of_f,) = judge(**{**FINE, "relative": 4.0}, of_answer=False).warnings
    assert "0.7 times the answer: the data say little of it" in of_answer
    assert "4.0 times the standard deviation of f over the data, which is more than the answer" in of_f


def test_a_summary_gives_the_rule_and_not_another() -> None:
    rng = np.random.default_rng(0)
    state = rng.normal(size=(3, 100))
    following = 0.5 * state + rng.normal(size=(3, 100))
    runs = np.repeat([0, 1, 2], 100)
    model = de.PolicyEvaluator(0.5).fit(state.ravel(), 5 + state.ravel(), following.ravel(), episodes=runs)
    assert model.value().because == ("a handful of rows or of episodes carry it", "it is taken at few starts")
    assert "which is fragile: a handful of rows or of episodes carry it, and it is taken at few starts." in str(
        model.summary()
    )
