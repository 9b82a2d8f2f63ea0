"""Bands: wider than intervals, by no more than Bonferroni's, of every estimator that has standard errors."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, t
from tests.estimators.cases import ALL, CASES, NEXT, STATE, X, Y, above, fitted, small

import dualembed as de
from dualembed import estimators
from dualembed.estimators.answering import largest_quantile

LEVEL = 0.9
EVERY = ("partial_fit", "predict", "interval", "band", "at", "error", "witness", "consistency_test", "summary", "ask")


@pytest.mark.parametrize("name", estimators.__all__)
def test_every_estimator_has_every_method(name: str) -> None:
    lacking = [method for method in EVERY if not hasattr(getattr(estimators, name), method)]
    assert lacking == []
    fit = inspect.signature(getattr(estimators, name).fit).parameters
    assert "groups" in fit


@ALL
def test_a_band_is_around_all_intervals_and_within_those_of_bonferroni(name: str) -> None:
    model, places = fitted(name), CASES[name][2]
    found = model.predict(*places)
    (low, high), (lower, upper) = model.interval(*places, level=LEVEL), model.band(*places, level=LEVEL)
    assert np.all(lower <= low + 1e-12)
    assert np.all(upper >= high - 1e-12)
    widest = norm.ppf(1 - (1 - LEVEL) / 2 / len(found)) / norm.ppf(0.5 + LEVEL / 2)
    assert np.all(upper - found <= 1.05 * widest * (high - found))
    np.testing.assert_allclose(model.band(*places, level=LEVEL), [lower, upper])


def test_the_band_of_an_averaged_path_grows_with_its_level_and_is_an_interval_at_one_point() -> None:
    rows = np.arange(400)
    model = de.PolicyEvaluator(0.8).fit(STATE[rows], STATE[rows], NEXT[rows], episodes=rows // 10)
    places = np.linspace(-1, 1, 15)
    (low, high), (lower, upper) = model.interval(places), model.band(places)
    ratio = (upper - lower) / (high - low)
    np.testing.assert_allclose(ratio, ratio[0])
    freedom = model.paths_.freedom
    assert 1 < ratio[0] < t.ppf(1 - 0.025 / len(places), freedom) / t.ppf(0.975, freedom)
    one, alone = model.band([0.5]), model.interval([0.5])
    np.testing.assert_allclose(one[1] - one[0], alone[1] - alone[0], rtol=0.1)
    assert np.all(model.band(places, level=0.5)[1] < upper)


def test_the_band_of_times_is_one_of_ratios_and_0_inside_the_target() -> None:
    rows = np.arange(400)
    model = de.HittingTimeRegressor(above).fit(STATE[rows], NEXT[rows], episodes=rows // 10)
    found = model.predict([-1.0, 0.0, 2.0])
    lower, upper = model.band([-1.0, 0.0, 2.0])
    assert (lower[2], upper[2]) == (0, 0)
    free = lower > model.shortest_
    assert free.any()
    np.testing.assert_allclose(upper[free] / found[free], found[free] / lower[free])
    assert np.all(model.interval([-1.0, 0.0])[1] < upper[:2])


def test_the_largest_of_independent_errors_is_that_of_the_normal_distribution() -> None:
    sides = 1 - (1 - LEVEL ** (1 / 20)) / 2
    assert largest_quantile(np.eye(20), LEVEL) == pytest.approx(norm.ppf(sides), rel=0.03)
    assert largest_quantile(np.ones((20, 1)), LEVEL) == pytest.approx(norm.ppf(0.5 + LEVEL / 2), rel=0.06)
    assert largest_quantile(np.ones((20, 1)), LEVEL, freedom=5) == pytest.approx(t.ppf(0.5 + LEVEL / 2, 5), rel=0.06)


def test_fits_without_errors_have_no_band() -> None:
    model: Any = de.InvariantClassifier("noise", draws=2, **small()).fit(X, Y > 0)
    with pytest.raises(de.InputError, match="standard errors are there for square losses"):
        model.band(X[:3])
