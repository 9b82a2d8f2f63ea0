"""Where noise outweighs what the data say, answers are unsure of themselves rather than wrong."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import dualembed as de
from dualembed.estimators.diagnostics import ReliabilityWarning


def test_with_an_irrelevant_instrument_intervals_hold_the_truth() -> None:
    """x does nothing to y, and what hides behind both makes plain regression say 1.6 a unit of x."""
    slopes = [irrelevant(seed) for seed in range(6)]
    assert sum(abs(slope.value) < 2 * slope.stderr for slope in slopes) >= 5
    assert np.median([slope.stderr for slope in slopes]) > 1.6


def irrelevant(seed: int) -> de.Estimate:
    rng = np.random.default_rng(seed)
    instrument, hidden, noise, own = rng.normal(size=(4, 1000))
    x, y = hidden + 0.5 * own, 2 * hidden + noise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        model = de.IVRegressor().fit(x[:, None], y, instruments=instrument[:, None])
    ends = model.coding_.encode(np.array([[1.0], [-1.0]]))
    return model.uncertainty_.average(ends, np.array([0.5, -0.5]))


@pytest.mark.parametrize("seed", [1, 3])
def test_values_of_long_memory_are_not_drawn_towards_plain_regression(seed: int) -> None:
    """V = c0 + c2 s1² on paper; noise of the next state, which the moments share, once made it 10 ± 2 for seed 1."""
    rng = np.random.default_rng(seed)
    discount, stay, memory = 0.99, 0.97, 0.9
    state = rng.normal(size=(600, 2))
    following = memory * state + np.sqrt(1 - memory**2) * rng.normal(size=(600, 2))
    terminated = (rng.uniform(size=600) > stay).astype(float)
    reward = state[:, 0] ** 2 + 0.5 * rng.normal(size=600)
    lasting = discount * stay
    curvature = 1 / (1 - lasting * memory**2)
    level = lasting * curvature * (1 - memory**2) / (1 - lasting)
    model = de.PolicyEvaluator(discount).fit(state, reward, following, terminated=terminated)
    places = np.random.default_rng(9).normal(size=(300, 2))
    truth = level + curvature * places[:, 0] ** 2
    value = model.value(places)
    assert abs(value.value - truth.mean()) < 2 * value.stderr
    assert value.stderr < 0.5 * truth.mean()
    found, stderr = model.predict(places, return_std=True)
    assert np.mean(np.abs(found - truth) < 2 * stderr) > 0.9


def test_where_rows_are_fitted_too_well_the_noise_is_that_of_rows_left_out() -> None:
    """Action values of a process without noise in spaces that can fit nearly every row: what is left is no noise."""
    rng = np.random.default_rng(0)
    state = rng.uniform(-1, 1, size=600)
    action = rng.integers(2, size=600)
    following = np.clip(state + 0.3 * (2 * action - 1), -1, 1)
    reward = (np.abs(state - 0.2) < 0.1).astype(float)

    def policy(states: np.ndarray) -> np.ndarray:
        return (np.asarray(states) < 0.0).astype(int)

    space = de.spaces.Nystrom(de.kernels.Gaussian(0.1), size=200)
    model = de.ActionValueEvaluator(0.9, policy, primal=space, dual=space).fit(state, action, reward, following)
    judged, inflation = model.diagnostics_.held_out, model.solution_.inflation
    assert inflation == pytest.approx(judged.squared / judged.fitted)
    assert inflation > 1.4
    assert any("those of rows left out" in each for each in model.diagnostics_.warnings)
    places = np.linspace(-0.9, 0.9, 100)
    truth = played(places, policy)
    found, stderr = model.predict(places, policy(places), return_std=True)
    wide = np.mean(np.abs(found - truth) < 2 * stderr)
    narrow = np.mean(np.abs(found - truth) < 2 * stderr / np.sqrt(inflation))
    assert wide > narrow


def played(states: np.ndarray, policy: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The rewards that the policy collects, discounted."""
    collected, worth = np.zeros(len(states)), 1.0
    for _ in range(200):
        collected += worth * (np.abs(states - 0.2) < 0.1)
        states = np.clip(states + 0.3 * (2 * policy(states) - 1), -1, 1)
        worth *= 0.9
    return collected


def test_a_fit_to_plain_noise_is_left_as_it_is() -> None:
    rng = np.random.default_rng(1)
    state = rng.normal(size=400)
    space = de.spaces.Nystrom(de.kernels.Gaussian(1.0), size=40)
    model = de.PolicyEvaluator(0.5, primal=space, dual=space).fit(
        state, state + rng.normal(size=400), 0.5 * state + rng.normal(size=400)
    )
    assert model.solution_.inflation == 1
