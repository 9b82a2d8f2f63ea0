"""Where instruments are weak, errors hold however weak they are."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dualembed as de


def fitted(strength: float, seed: int, rows: int = 600) -> de.IVRegressor:
    """A slope of 1; plain regression would say 2."""
    rng = np.random.default_rng(seed)
    z, hidden, noise = rng.normal(size=(3, rows))
    x = strength * z + hidden
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return de.IVRegressor().fit(x, x + hidden + 0.5 * noise, instruments=z)


@pytest.mark.parametrize("strength", [0.0, 0.05, 0.1, 0.15])
def test_intervals_hold_however_weak_instruments_are(strength: float) -> None:
    for seed in range(3):
        lower, upper = fitted(strength, seed).effect(0.0, 1.0).interval()
        assert lower < 1 < upper


def test_an_instrument_that_does_nothing_answers_nothing() -> None:
    model = fitted(0.0, 0)
    answer = model.effect(0.0, 1.0)
    assert answer.verdict == "not answerable"
    assert any("has no end" in warning for warning in model.diagnostics_.warnings)


def test_strong_instruments_are_left_alone() -> None:
    model = fitted(1.0, 0)
    assert not any("weak" in warning for warning in model.diagnostics_.warnings)
    answer = model.effect(0.0, 1.0)
    assert answer.verdict == "solid"
    assert answer.stderr < 0.3


def test_the_error_of_a_slope_reaches_the_far_end_of_the_set() -> None:
    model = fitted(0.12, 1)
    assert model.linear_ is not None
    assert model.linear_.anderson_rubin is not None
    ends = np.array(model.linear_.anderson_rubin.pieces).ravel()
    answer = model.ask(model.mean_derivative(0))
    finite = ends[np.isfinite(ends)]
    lower, upper = answer.interval()
    reach = max(upper - answer.value, answer.value - lower)
    assert reach >= 0.9 * min(np.max(np.abs(finite - answer.value)), 10.0)
