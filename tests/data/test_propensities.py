"""Propensities estimated from data are near the true ones, and overlap says in plain words when data are too few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dualembed.checks import InputError
from dualembed.data.policies import importance_weights
from dualembed.data.propensities import FLOOR, _chosen, _parts, estimated_propensities, overlap

SLOPES = np.array([[1.0, -0.5, 0.0], [0.0, 0.8, -0.8]])


def softmax(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def linear(states: np.ndarray) -> np.ndarray:
    return softmax(states @ SLOPES)


def quadrants(states: np.ndarray) -> np.ndarray:
    """Which no polynomial of degree 2 gives: a step for each sign."""
    return softmax(2.0 * np.sign(states) @ SLOPES)


def logged(policy: Callable[[np.ndarray], np.ndarray], n: int = 1500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(states, actions that the policy drew, their probabilities)."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(n, 2))
    shares = policy(states)
    actions = np.sum(np.cumsum(shares, axis=1) < rng.random((n, 1)), axis=1)
    return states, actions, shares[np.arange(n), actions]


@pytest.mark.parametrize(("policy", "error"), [(linear, 0.03), (quadrants, 0.08)])
def test_estimates_are_near_the_probabilities_of_a_known_policy(policy: Callable[..., Any], error: float) -> None:
    states, actions, true = logged(policy)
    found = estimated_propensities(states, actions)
    assert np.mean(np.abs(found - true)) < error
    # Σ_a π(a|s) = 1, so that the weights of the even policy have mean 1 where the estimates are calibrated.
    assert np.mean(1 / (3 * found)) == pytest.approx(1.0, abs=0.15)


def test_weights_from_estimates_leave_about_as_many_effective_rows_as_true_ones() -> None:
    states, actions, true = logged(linear)

    def target(rows: np.ndarray) -> np.ndarray:
        return softmax(-0.5 * rows @ SLOPES)

    exact, found = (
        overlap(importance_weights(states, actions, target=target, behaviour=each))
        for each in (true, estimated_propensities(states, actions))
    )
    assert found.effective_sample_size == pytest.approx(exact.effective_sample_size, rel=0.15)
    assert 0.2 < exact.share < 0.8


def test_a_row_does_not_explain_itself() -> None:
    # Actions that have nothing to do with states: whoever fits them in their own rows is too sure of them.
    rng = np.random.default_rng(1)
    states, actions = rng.normal(size=(300, 10)), rng.integers(2, size=300)
    found = estimated_propensities(states, actions)
    assert -np.mean(np.log(found)) > np.log(2) - 0.02


def test_estimates_are_the_same_for_the_same_seed_and_in_any_numbering() -> None:
    states, actions, _ = logged(linear, 300)
    first = estimated_propensities(states, actions, seed=3)
    np.testing.assert_array_equal(first, estimated_propensities(states, actions * 10 - 7, seed=3))
    assert np.any(first != estimated_propensities(states, actions, seed=4))


def test_no_estimate_is_below_the_floor() -> None:
    states, _, _ = logged(linear, 200)
    actions = (states[:, 0] > 0).astype(int)
    actions[np.argmax(states[:, 0])] = 2  # once only: the other folds have not seen it
    found = estimated_propensities(states, actions, folds=3)
    assert found.min() == FLOOR
    assert estimated_propensities(states, actions, folds=3, floor=0.05).min() == 0.05


def test_a_single_action_is_certain() -> None:
    assert estimated_propensities(np.arange(20.0), np.ones(20)).tolist() == [1.0] * 20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": [0.5] * 20}, "only discrete actions have probabilities; put continuous ones into bins"),
        ({"actions": [0] * 19}, r"actions must have shape \(20,\)"),
        ({"folds": 1}, "folds must be a whole number of at least 2"),
        ({"folds": 11}, "11 folds need at least 22 rows, not 20"),
        ({"floor": 0.6}, "floor must be at most 1/2"),
        ({"floor": 0.0}, "floor must be positive"),
        ({"seed": -1}, "seed must be a whole number of at least 0"),
    ],
)
def test_bad_requests_are_refused(change: dict[str, Any], message: str) -> None:
    given = {"actions": [0, 1] * 10, **change}
    with pytest.raises(InputError, match=message):
        estimated_propensities(np.arange(20.0), given.pop("actions"), **given)


def test_equal_weights_are_worth_all_rows() -> None:
    found = overlap(np.full(400, 3.0))
    assert found.effective_sample_size == pytest.approx(400)
    assert (found.share, found.largest, found.top_share, found.warning) == (pytest.approx(1), 1.0, 0.01, "")


def test_a_few_large_weights_are_warned_of() -> None:
    weights = np.ones(1000)
    weights[:5] = 1000.0
    found = overlap(weights)
    # (995 + 5000)² / (995 + 5e6) = 7.19
    assert found.effective_sample_size == pytest.approx(5995**2 / 5_000_995)
    assert found.largest == pytest.approx(1000 / 5.995)
    assert found.top_share == pytest.approx(5005 / 5995)
    assert found.warning.startswith("the weights leave 7 effective rows of 1000 (0.7 %)")


@pytest.mark.parametrize(("rows", "warned"), [(49, True), (50, False)])
def test_fewer_than_fifty_effective_rows_are_warned_of(rows: int, warned: bool) -> None:
    assert bool(overlap(np.ones(rows)).warning) == warned


def test_less_than_a_tenth_of_the_rows_is_warned_of() -> None:
    assert overlap(np.repeat([1.0, 0.0], [99, 901])).warning
    assert not overlap(np.repeat([1.0, 0.0], [100, 900])).warning


@pytest.mark.parametrize("weights", [[np.nan, 1.0], [[1.0], [1.0]], [-1.0, 2.0], [0.0, 0.0], []])
def test_weights_that_are_none_are_refused(weights: list[Any]) -> None:
    with pytest.raises(InputError, match="weights must"):
        overlap(weights)


def test_what_is_told_a_fifth_is_taken_a_fifth_of_the_time() -> None:
    """Of a step that no line gives: trees are too sure or too shy of it, until they are calibrated."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(1200, 2))
    actions = rng.random(1200) < np.where(states[:, 0] * states[:, 1] > 0, 0.8, 0.2)
    found = estimated_propensities(states, actions)
    told = np.where(actions, found, 1 - found)
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.0)):
        rows = (low <= told) & (told < high)
        assert abs(told[rows].mean() - actions[rows].mean()) < 2.5 * 0.5 / np.sqrt(rows.sum())


def test_the_best_classifier_is_tried_calibrated_too() -> None:
    states, actions, _ = logged(quadrants, 400)
    chosen, _ = _chosen(states, actions, _parts(actions, 5, 0), 0, FLOOR)
    assert type(chosen).__name__ == "CalibratedClassifierCV"
    assert type(chosen.estimator).__name__ == "HistGradientBoostingClassifier"
