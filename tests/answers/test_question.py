"""Questions as a small algebra: sums, differences, multiples and parts."""

from __future__ import annotations

import numpy as np
import pytest

import dualembed as de


def test_multiples_and_parts_of_questions_are_those_of_their_answers() -> None:
    rng = np.random.default_rng(0)
    state = rng.normal(size=200)
    model = de.PolicyEvaluator(0.5).fit(state, state, 0.5 * state + rng.normal(size=200))
    question = model.at([1.0])
    once = model.ask(question)
    for asked, factor in ((2 * question, 2.0), (question * 2, 2.0), (question / 4, 0.25), (-question, -1.0)):
        answer = model.ask(asked)
        assert answer.value == pytest.approx(factor * once.value)
        assert answer.stderr == pytest.approx(abs(factor) * once.stderr)
    with pytest.raises(de.InputError, match="cannot be divided by 0"):
        _ = question / 0
