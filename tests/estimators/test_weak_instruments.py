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


@pytest.mark.parametrize("strength", [0.0, 0.1])
def test_intervals_hold_however_weak_instruments_are(strength: float) -> None:
    for seed in range(2):
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


def test_the_interval_of_a_slope_is_as_wide_as_the_set() -> None:
    model = fitted(0.15, 0)
    assert model.linear_ is not None
    assert model.linear_.anderson_rubin is not None
    ((low, high),) = model.linear_.anderson_rubin.pieces
    lower, upper = model.ask(model.mean_derivative(0)).interval()
    assert high - low <= upper - lower + 1e-9
    assert upper - lower == pytest.approx(high - low, rel=0.25)


def test_with_a_weak_instrument_f_is_the_line_of_two_stage_least_squares() -> None:
    for seed in range(2):
        model = fitted(0.15, seed)
        assert model.linear_ is not None
        line = model.linear_.params["x0"]
        assert abs(model.ask(model.mean_derivative(0)).value - line) < 0.5 * model.linear_.std_errors["x0"]


def test_an_instrument_that_moves_x_along_a_curve_alone_is_not_taken_for_a_line() -> None:
    rng = np.random.default_rng(0)
    z, hidden, noise = rng.normal(size=(3, 1000))
    x = 0.35 * z**2 + hidden
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = de.IVRegressor().fit(x, x + hidden + 0.5 * noise, instruments=z)
    assert "lines in instruments" not in str(model.selection_)
    assert abs(model.ask(model.mean_derivative(0)).value - 1) < 0.25


def test_more_rows_do_not_take_back_what_weak_instruments_leave_open() -> None:
    rng = np.random.default_rng(2)
    z, hidden = rng.normal(size=(2, 620))
    x = 0.1 * z + hidden
    columns = [
        {"X": x[rows], "y": (x + hidden)[rows], "instruments": z[rows]} for rows in (slice(600), slice(600, 620))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = de.IVRegressor().fit(**columns[0])
        before = model.ask(model.mean_derivative(0)).stderr
        model.partial_fit(**columns[1])
    assert model.ask(model.mean_derivative(0)).stderr > 0.8 * before
    assert any("instruments are weak" in warning for warning in model.diagnostics_.warnings)
