"""Policy evaluation as terms: by hand, and against chains solved by linear algebra."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualembed as de
from dualembed import problems, sources

STATES, DISCOUNT = 5, 0.9


def transitions(**extra: Any) -> sources.Dataset:
    return sources.Dataset(state=[0.0, 1.0, 2.0], reward=[1.0, -2.0, 4.0], next_state=[1.0, 2.0, 3.0], **extra)


def evaluation(discount: Any = 0.5, **extra: Any) -> problems.Terms:
    source = transitions(**extra)
    return problems.PolicyEvaluation(source, discount).terms(source.columns)


def test_a_transition_says_v_of_s_less_the_discounted_v_of_the_next_less_the_reward() -> None:
    terms = evaluation()
    terms.check()
    np.testing.assert_array_equal(terms.points[:, :, 0], [[0, 1], [1, 2], [2, 3]])
    np.testing.assert_array_equal(terms.weights, [[1, -0.5]] * 3)
    np.testing.assert_array_equal(terms.offset, [-1, 2, -4])
    np.testing.assert_array_equal(terms.context, [[0], [1], [2]])
    np.testing.assert_array_equal(terms.target, [0, 0, 0])
    np.testing.assert_array_equal(terms.moment(jnp.asarray([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]])), [-1, 2.5, -3])
    assert terms.known == (True, False)
    assert not terms.offset_known


def test_a_terminated_transition_has_no_bootstrap() -> None:
    np.testing.assert_array_equal(evaluation(terminated=[0, 1, 0]).weights, [[1, -0.5], [1, 0], [1, -0.5]])


def test_an_importance_weight_multiplies_the_whole_moment_and_leaves_nothing_known() -> None:
    source = transitions(weight=[2.0, 0.0, 0.5], terminated=[0, 0, 1])
    terms = problems.PolicyEvaluation(source, 0.5, reward_known=True).terms(source.columns)
    np.testing.assert_array_equal(terms.weights, [[2, -1], [0, 0], [0.5, 0]])
    np.testing.assert_array_equal(terms.offset, [-2, 0, -2])
    assert terms.known == (False, False)
    assert not terms.offset_known


def test_a_reward_that_the_state_determines_makes_the_offset_known() -> None:
    source = transitions()
    assert problems.PolicyEvaluation(source, 0.5, reward_known=True).terms(source.columns).offset_known


def test_states_may_have_several_columns_and_the_discount_may_be_traced() -> None:
    columns = {"state": jnp.ones((4, 3)), "next_state": jnp.zeros((4, 3)), "reward": jnp.arange(4.0)}
    source = sources.Dataset(**columns)

    @jax.jit
    def weights(discount: jax.Array) -> jax.Array:
        terms = problems.PolicyEvaluation(source, discount).terms(columns)
        assert terms.points.shape == (4, 2, 3)
        return terms.weights

    np.testing.assert_allclose(weights(jnp.asarray(0.25)), [[1, -0.25]] * 4)


def chain(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(transition probabilities by action and state, rewards by action, state and next state, policy)."""
    rng = np.random.default_rng(seed)
    probability = rng.dirichlet(np.ones(STATES), size=(2, STATES))
    return probability, rng.normal(size=(2, STATES, STATES)), rng.dirichlet(np.ones(2), size=STATES)


def minimiser(columns: dict[str, np.ndarray], chance: np.ndarray) -> np.ndarray:
    """argmin over V of max over u of E[u moment - u²/2] with one free value a state, expectations by enumeration."""
    source = sources.Dataset(**columns)
    terms = problems.PolicyEvaluation(source, DISCOUNT).terms(source.columns)
    weights, offset = np.asarray(terms.weights, np.float64), np.asarray(terms.offset, np.float64)
    place = np.asarray(terms.points)[:, :, 0].astype(int)
    of_points = np.einsum("bk,bkj->bj", weights, np.eye(STATES)[place])
    of_context = np.eye(STATES)[np.asarray(terms.context)[:, 0].astype(int)]
    cross, gram = (of_context.T @ (chance[:, None] * side) for side in (of_points, of_context))
    best = np.linalg.solve(gram, cross)
    return np.linalg.solve(cross.T @ best, -best.T @ (of_context.T @ (chance * offset)))


@pytest.mark.parametrize("ending", [False, True])
@pytest.mark.parametrize("off_policy", [False, True])
def test_the_saddles_minimiser_is_the_true_value(ending: bool, off_policy: bool) -> None:
    probability, reward, policy = chain(seed=1)
    behaviour = np.full((STATES, 2), 0.5) if off_policy else policy
    action, state, following = (index.ravel() for index in np.indices(probability.shape))
    columns = {"state": state, "next_state": following, "reward": reward[action, state, following]}
    ends = (following == STATES - 1) & ending
    if ending:
        columns["terminated"] = ends
    if off_policy:
        columns["weight"] = policy[state, action] / behaviour[state, action]
    chance = probability[action, state, following] * behaviour[state, action] / STATES

    on_policy = np.einsum("sa,asn->sn", policy, probability)
    goes_on = np.where((np.arange(STATES) == STATES - 1) & ending, 0.0, 1.0)
    mean_reward = np.einsum("sa,asn,asn->s", policy, probability, reward)
    truth = np.linalg.solve(np.eye(STATES) - DISCOUNT * on_policy * goes_on, mean_reward)
    np.testing.assert_allclose(minimiser(columns, chance), truth, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("discount", "extra", "message"),
    [
        (1.5, {}, "discount must not be above 1"),
        (-0.1, {}, "discount must not be negative"),
        (float("nan"), {}, "discount must be finite"),
        ("high", {}, "discount must be a number"),
        (1.0, {}, "unless a column terminated marks"),
        (1, {"terminated": [0, 0, 0]}, "unless a column terminated marks"),
        (0.5, {"terminated": [0, 2, 0]}, "terminated must be 0 or 1, not 2"),
        (0.5, {"weight": [1.0, -0.5, 1.0]}, "weight must not be negative, not -0.5"),
        (0.5, {"weight": [[1.0], [1.0], [1.0]]}, "weight must have shape"),
        ([0.5, 0.6, 0.7], {}, "discount must be one number"),
        (0.5, {"weight": [0.0, 0.0, 0.0]}, "weight is 0 in every row"),
        (0.5, {"done": [0, 0, 1]}, "column done is not read here: rename it to terminated"),
        (0.5, {"terminals": [0, 0, 1]}, "column terminals is not read here: rename it to terminated"),
        (0.5, {"rho": [1.0, 2.0, 1.0]}, "column rho is not read here: rename it to weight"),
    ],
)
def test_bad_transitions_are_refused_at_the_entrance(discount: Any, extra: dict[str, Any], message: str) -> None:
    with pytest.raises(de.InputError, match=message):
        problems.PolicyEvaluation(transitions(**extra), discount)


def test_a_discount_of_one_will_do_where_episodes_end() -> None:
    assert evaluation(1.0, terminated=[0, 0, 1]).weights[2, 1] == 0


def test_a_column_of_another_name_is_fine_beside_the_right_one() -> None:
    assert evaluation(terminated=[0, 1, 0], done=[0, 1, 1]).weights[1, 1] == 0


@pytest.mark.parametrize("name", ["done", "weights", "steps"])
def test_action_values_refuse_columns_that_they_would_not_read(name: str) -> None:
    source = transitions(action=[0, 1, 0], next_action=[1, 0, 0], **{name: [1, 1, 1]})
    with pytest.raises(de.InputError, match=f"column {name}"):
        problems.ActionValue(source, 0.5)


def test_missing_columns_and_unlike_states_are_named() -> None:
    with pytest.raises(de.InputError, match="reward, next_state missing"):
        problems.PolicyEvaluation(sources.Dataset(state=[1.0]), 0.5)
    unlike = sources.Dataset(state=[[1.0, 2.0]], next_state=[1.0], reward=[0.0])
    with pytest.raises(de.InputError, match="same shape"):
        problems.PolicyEvaluation(unlike, 0.5)
    with pytest.raises(de.InputError, match="source must be a Source"):
        problems.PolicyEvaluation({"state": [1.0]}, 0.5)


def test_a_batch_without_an_ending_is_fine_where_the_data_set_has_one() -> None:
    steps = np.arange(10.0)
    data = sources.Dataset(state=steps, reward=np.ones(10), next_state=steps + 1, terminated=(steps == 9).astype(float))
    problem = problems.PolicyEvaluation(data, 1.0)
    first = {name: column[:5] for name, column in data.columns.items()}
    assert problem.terms(first).weights.shape == (5, 2)
