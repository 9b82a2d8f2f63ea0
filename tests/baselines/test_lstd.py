"""LSTD: the projected Bellman solution, with and without importance weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import dualembed as de
from dualembed import baselines, losses, problems, solvers, sources, spaces
from dualembed.experiments.garnet import Lookup

DISCOUNT = 0.9
TRANSITIONS = np.array([[[2, 1, 1], [0, 4, 0]], [[1, 0, 3], [2, 2, 0]], [[0, 1, 3], [4, 0, 0]]]) / 4
BEHAVIOUR = np.array([[1, 3], [2, 2], [3, 1]]) / 4
TARGET = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
REWARD = np.array([[1.0, -1.0], [0.0, 2.0], [0.5, 3.0]])
VISITS = np.array([3, 1, 2]) / 6
FEATURES = np.array([[1.0, 0.3], [-0.5, 1.0], [2.0, 0.7]])
SPACE = spaces.Basis(Lookup(FEATURES))


def exact_rows() -> dict[str, np.ndarray]:
    """Every transition as often as its probability says, so that means over rows are expectations."""
    rows = []
    for state, action, after in np.ndindex(3, 2, 3):
        chance = VISITS[state] * BEHAVIOUR[state, action] * TRANSITIONS[state, action, after]
        weight = TARGET[state, action] / BEHAVIOUR[state, action]
        rows += [(state, REWARD[state, action], after, weight)] * round(96 * chance)
    assert len(rows) == 96
    return dict(zip(("state", "reward", "next_state", "weight"), np.array(rows).T, strict=True))


def saddle(**options: float) -> de.Saddle:
    data = sources.Dataset(**exact_rows())
    return de.Saddle(problems.PolicyEvaluation(data, DISCOUNT), SPACE, SPACE, **options)


def projected(policy: np.ndarray, ridge: float = 0.0) -> np.ndarray:
    """θ with ΦᵀD (Φθ - r_π - γ P_π Φθ) + ridge θ = 0."""
    moved = FEATURES - DISCOUNT * np.einsum("sa,sat->st", policy, TRANSITIONS) @ FEATURES
    tested = VISITS[:, None] * FEATURES
    return np.linalg.solve(tested.T @ moved + ridge * np.eye(2), tested.T @ np.sum(policy * REWARD, axis=1))


def test_on_exact_statistics_it_is_the_projected_bellman_solution() -> None:
    result = de.solve(0, saddle(), baselines.LSTD())
    np.testing.assert_allclose(result.primal.weights, projected(TARGET), rtol=1e-10)
    assert result.finite


def test_without_weights_it_is_the_acting_policys() -> None:
    result = de.solve(0, saddle(), baselines.LSTD(weighted=False))
    np.testing.assert_allclose(result.primal.weights, projected(BEHAVIOUR), rtol=1e-10)
    assert np.linalg.norm(projected(BEHAVIOUR) - projected(TARGET)) > 0.1


def test_the_ridge_and_the_saddles_penalty_add_up() -> None:
    result = de.solve(0, saddle(primal_penalty=0.2), baselines.LSTD(ridge=0.1))
    np.testing.assert_allclose(result.primal.weights, projected(TARGET, 0.3), rtol=1e-10)


def test_it_is_the_closed_form_whose_dual_has_the_same_features() -> None:
    closed = de.solve(0, saddle(), solvers.ClosedForm(folds=1))
    np.testing.assert_allclose(closed.primal.weights, projected(TARGET), rtol=1e-8)


def test_terminated_transitions_have_no_bootstrap() -> None:
    table = spaces.Basis(lambda s: jnp.concatenate([1 - s, s], axis=1))
    data = sources.Dataset(state=[0, 1], reward=[1.0, 5.0], next_state=[1, 0], terminated=[0, 1])
    result = de.solve(0, de.Saddle(problems.PolicyEvaluation(data, 0.5), table, table), baselines.LSTD())
    np.testing.assert_allclose(result.primal([0, 1]), [1 + 0.5 * 5, 5.0], rtol=1e-6)


def test_features_that_never_occur_get_no_weight() -> None:
    wide = spaces.Basis(lambda s: jnp.concatenate([1 - s, s, 0 * s], axis=1))
    data = sources.Dataset(state=[0, 1], reward=[0.0, 1.0], next_state=[1, 1])
    result = de.solve(0, de.Saddle(problems.PolicyEvaluation(data, 0.5), wide, wide), baselines.LSTD())
    np.testing.assert_allclose(result.primal.weights, [1.0, 2.0, 0.0], atol=1e-12)


def test_it_has_no_dual_and_needs_none() -> None:
    network = de.Saddle(saddle().problem, SPACE, spaces.Network())
    result = de.solve(0, network, baselines.LSTD())
    np.testing.assert_array_equal(result.dual([0.0, 1.0, 2.0]), np.zeros(3))


def invariance() -> de.Saddle:
    data = sources.Dataset(x=[0.0, 1.0], z=[0.1, 0.9], y=[0.0, 1.0])
    line = spaces.Basis(lambda x: x)
    return de.Saddle(problems.Invariance(data), line, line)


def elsewhere() -> de.Saddle:
    def terms(sample: Any) -> Any:
        one = jnp.ones_like(sample["y"])
        return problems.Terms(sample["x"][:, None, None], one[:, None], 0 * one, sample["z"][:, None], sample["y"])

    line = spaces.Basis(lambda x: x)
    return de.Saddle(problems.Moment(sources.Dataset(x=[0.0, 1.0], z=[0.0, 0.9], y=[0.0, 1.0]), terms), line, line)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (invariance, "context must be the first point"),
        (elsewhere, r"contexts that are not, such as \[0.9\]"),
        (lambda: saddle(primal_radius=1.0), "penalties, not primal_radius"),
        (
            lambda: de.Saddle(
                problems.PolicyEvaluation(sources.Dataset(**exact_rows()), DISCOUNT, losses.Huber(1.0)),
                SPACE,
                SPACE,
            ),
            "Huber loss has no closed form",
        ),
    ],
)
def test_what_it_cannot_solve_is_named(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(de.InputError, match=words):
        de.solve(0, make(), baselines.LSTD())


@pytest.mark.parametrize("ridge", [-1.0, float("nan"), "much"])
def test_a_bad_ridge_is_named(ridge: object) -> None:
    with pytest.raises(de.InputError, match="ridge must"):
        baselines.LSTD(ridge=ridge)


def test_several_ridges_are_refused_without_advice_that_cannot_be_followed() -> None:
    with pytest.raises(de.InputError, match=r"ridge must be one number, but its shape is \(2,\)$"):
        baselines.LSTD(ridge=[1.0, 2.0])
