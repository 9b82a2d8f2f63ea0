"""A policy's value is a weighted mean of the rewards logged; where few rows have the weight, the fit says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.estimators.cases import small

import dualembed as de
from dualembed.data.table import Table

DISCOUNT = 0.9
EPISODES, STEPS = 60, 10


def walks() -> dict[str, np.ndarray]:
    """Walks from 0 of steps left or right by the toss of a coin."""
    rng = np.random.default_rng(0)
    action = rng.integers(2, size=(EPISODES, STEPS))
    place = np.cumsum(2.0 * action - 1 + 0.3 * rng.normal(size=action.shape), axis=1)
    before = np.concatenate([np.zeros((EPISODES, 1)), place[:, :-1]], axis=1)
    episode = np.repeat(np.arange(EPISODES), STEPS)
    columns = {"states": before.ravel()[:, None], "actions": action.ravel(), "next_states": place.ravel()[:, None]}
    return {**columns, "rewards": 1 / (1 + before.ravel() ** 2), "episodes": episode}


def evaluated(right: float, **recipe: Any) -> de.ActionValueEvaluator:
    """The value of steps to the right with that probability."""

    def policy(states: np.ndarray) -> np.ndarray:
        return np.tile([1 - right, right], (len(states), 1))

    return de.ActionValueEvaluator(DISCOUNT, policy, **recipe).fit(**walks())


def test_the_value_is_the_mean_of_weights_times_rewards() -> None:
    model, log = evaluated(0.5, **small()), walks()
    problem, _ = model._problem(Table.of(**log))
    weights = model.solution_.row_weights(problem, model._mean_features(model.starts_.parts[0][1]))
    # Not exactly, since the fit may be of products across folds and the weights are those of all rows together.
    assert np.mean(weights * log["rewards"]) == pytest.approx(model.value().value, rel=0.05)


def test_a_policy_that_does_what_was_logged_is_no_reason_to_worry() -> None:
    model = evaluated(0.5)
    assert model.value().verdict == "solid"
    assert not model.diagnostics_.warnings


@pytest.mark.parametrize("discount", [0.0, 0.5])
def test_a_small_discount_is_no_reason_to_worry(discount: float) -> None:
    """Only rows near the starts bear on the value then, of the logged policy as of any."""
    model = de.ActionValueEvaluator(discount, lambda states: np.full((len(states), 2), 0.5)).fit(**walks())
    assert model.value().verdict == "solid"


def test_a_policy_that_seldom_does_what_was_logged_is_warned_of() -> None:
    model = evaluated(1.0)
    assert model.value().verdict != "solid"
    (warning,) = (each for each in model.diagnostics_.warnings if "below zero" in each)
    assert "gather data closer to the question" in warning


def test_given_spaces_warn_by_effective_rows() -> None:
    (warning,) = (each for each in evaluated(1.0, **small()).diagnostics_.warnings if "effective rows" in each)
    assert f"effective rows of {EPISODES * STEPS}" in warning
    assert "gather data of a policy closer to it" in warning
