"""Policies: probabilities, importance weights and next actions, refused with one sentence where they make no sense."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualembed as de
from dualembed.data import policies
from dualembed.problems import ActionValue
from dualembed.solvers import ClosedForm
from dualembed.sources import Dataset
from dualembed.spaces import Basis


def even(states: np.ndarray) -> np.ndarray:
    return np.full((len(states), 2), 0.5)


def right(states: np.ndarray) -> np.ndarray:
    return np.tile([0.2, 0.8], (len(states), 1))


def left(states: np.ndarray) -> np.ndarray:
    return np.tile([1.0, 0.0], (len(states), 1))


STATES, ACTIONS = np.zeros(4), np.array([0, 1, 1, 0])


def test_weights_are_ratios_of_probabilities() -> None:
    found = policies.importance_weights(STATES, ACTIONS, target=right, behaviour=even)
    np.testing.assert_allclose(found, [0.4, 1.6, 1.6, 0.4])
    given = policies.importance_weights(STATES, ACTIONS, target=right, behaviour=np.full(4, 0.5))
    np.testing.assert_allclose(given, found)


def test_weights_are_clipped_and_then_normalised() -> None:
    found = policies.importance_weights(STATES, ACTIONS, target=right, behaviour=even, clip=1.2, self_normalise=True)
    np.testing.assert_allclose(found, np.array([0.4, 1.2, 1.2, 0.4]) / 0.8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": lambda s: np.tile([0.5, 0.6], (len(s), 1))}, "sum to one, but gives .* in row 0"),
        ({"target": lambda s: np.tile([-0.5, 1.5], (len(s), 1))}, "not negative and sum to one"),
        ({"target": lambda s: np.tile([np.nan, 1.0], (len(s), 1))}, "not negative and sum to one"),
        ({"target": lambda s: np.ones(len(s))}, r"shape \(4, actions\)"),
        ({"behaviour": [0.5, 0.5, 0.0, 0.5]}, "above 0 and at most 1, not 0.0 as in row 2"),
        ({"behaviour": [0.5, 0.5, np.nan, 0.5]}, "not nan as in row 2"),
        ({"behaviour": [0.5]}, "one probability a row"),
        ({"actions": [0, 1, 2, 0]}, "whole numbers from 0 to 1, not 2 as in row 2"),
        ({"actions": [0, 1, 0.5, 0]}, "whole numbers from 0 to 1, not 0.5"),
        ({"actions": [0, 1]}, r"actions must have shape \(4,\)"),
        ({"actions": [0, 1, np.nan, 0]}, "whole numbers from 0 to 1, not nan as in row 2"),
        ({"actions": list("abba")}, "actions must be numbers, not <U1"),
        ({"states": list("abba")}, "states must be numbers, not <U1"),
        ({"states": [0.0, np.nan, 0.0, 0.0]}, "states must be finite, but row 1 is nan"),
        ({"behaviour": list("abba")}, "behaviour must be numbers, not <U1"),
        ({"target": lambda s: [[1.0], [0.5, 0.5], [1.0], [1.0]]}, "what the target policy gives could not be read"),
        ({"target": None}, "the target policy must be a function from states .* not None"),
        ({"clip": -1.0}, "clip must be positive"),
        ({"target": left, "actions": [1, 1, 1, 1]}, "never takes a logged action"),
    ],
)
def test_bad_policies_are_refused(change: dict[str, Any], message: str) -> None:
    given = {"states": STATES, "actions": ACTIONS, "target": right, "behaviour": even, **change}
    with pytest.raises(de.InputError, match=message):
        policies.importance_weights(given.pop("states"), given.pop("actions"), **given)


def test_next_probabilities_that_miss_one_are_refused() -> None:
    columns = {"state": [0.0], "action": [0.0], "reward": [0.0], "next_state": [0.0], "next_action": [[0.0, 1.0]]}
    data = Dataset(**columns, next_probability=[[0.5, 0.6]])
    with pytest.raises(de.InputError, match=r"sum to one in every row, but sums to 1\.1 in row 0"):
        ActionValue(data, 0.9)


def test_several_next_actions_need_probabilities() -> None:
    data = Dataset(state=[0.0], action=[0.0], reward=[0.0], next_state=[0.0], next_action=[[0.0, 1.0]])
    with pytest.raises(de.InputError, match="need their probabilities"):
        ActionValue(data, 0.9)


def test_sampled_actions_take_a_seed_and_refuse_what_is_no_policy() -> None:
    drawn = policies.sampled_actions(0, lambda key, s: s + jax.random.normal(key, s.shape), STATES, draws=3)
    assert drawn["next_action"].shape == (4, 3, 1)
    with pytest.raises(de.InputError, match="must be a function from a key and states"):
        policies.sampled_actions(0, None, STATES)
    with pytest.raises(de.InputError, match="must give finite actions"):
        policies.sampled_actions(0, lambda key, s: s + np.nan, STATES)


def test_continuous_next_actions_without_an_axis_for_draws_are_refused_with_the_way_out() -> None:
    two = [[0.0, 1.0]]
    data = Dataset(state=[0.0], action=two, reward=[0.0], next_state=[0.0], next_action=two)
    with pytest.raises(de.InputError, match=r"\(rows, draws, 2\) .*next_action\[:, None, :\]\), but has \(1, 2\)"):
        ActionValue(data, 0.9)


def test_sampled_continuous_actions_give_the_linear_quadratic_action_values() -> None:
    rng = np.random.default_rng(0)
    n, discount, gain, spread = 20_000, 0.9, -0.4, 0.2
    state, action = rng.normal(size=n), rng.normal(size=n)
    following = 0.8 * state + 0.5 * action + 0.1 * rng.normal(size=n)
    drawn = policies.sampled_actions(
        jax.random.key(0), lambda key, s: gain * s + spread * jax.random.normal(key, s.shape), following, draws=4
    )
    data = Dataset(state=state, action=action, reward=-(state**2 + 0.1 * action**2), next_state=following, **drawn)

    def quadratics(x: jax.Array) -> jax.Array:
        s, a = x[:, 0], x[:, 1]
        return jnp.stack([jnp.ones(len(x)), s**2, s * a, a**2], axis=1)

    space = Basis(quadratics)
    found = de.solve(0, de.Saddle(ActionValue(data, discount, reward_known=True), space, space), ClosedForm())
    # V = -(p s² + c) with p = 1 + 0.1 k² + γ p (0.8 + 0.5 k)², and Q = r + γ E[V(s')].
    p = (1 + 0.1 * gain**2) / (1 - discount * (0.8 + 0.5 * gain) ** 2)
    c = (0.1 * spread**2 + discount * p * (0.25 * spread**2 + 0.01)) / (1 - discount)
    constant = -discount * (0.01 * p + c)
    exact = [constant, -(1 + discount * p * 0.64), -discount * p * 0.8, -(0.1 + discount * p * 0.25)]
    # The constant is the mean residual's error times 1/(1 - γ) = 10: a standard error of about 0.02.
    np.testing.assert_allclose(np.asarray(found.primal.weights), exact, atol=0.05)
