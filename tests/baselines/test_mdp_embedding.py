"""SGD in an embedded decision process: the algorithm as corrected, and the values it must reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualembed as de
from dualembed import losses, problems, schedules, sources, spaces
from dualembed.baselines import MDPKernelEmbedding, MDPRandomFeatureEmbedding, mdp_embedding
from dualembed.baselines.mdp_embedding import EmbeddedTransitions
from dualembed.checks import InputError
from dualembed.embeddings import ConditionalEmbedding
from dualembed.kernels import Categorical, Gaussian
from dualembed.solvers.base import DivergenceWarning

STATES = 4
COUNTS = np.array([[1, 5, 2, 0], [2, 1, 5, 0], [0, 3, 1, 4], [4, 0, 1, 3]])  # transitions seen from each state
CHAIN, REWARDS = COUNTS / 8, np.array([0.0, 1.0, -1.0, 2.0])
TABLE = Categorical()


@jax.tree_util.Partial
def one_hot(states: jax.Array) -> jax.Array:
    return (states == jnp.arange(STATES)).astype(float)


def chain(**more: np.ndarray) -> dict[str, np.ndarray]:
    """Transitions in which every frequency is the chain's probability exactly."""
    pairs = [(s, t) for s in range(STATES) for t in range(STATES) for _ in range(COUNTS[s, t])]
    state, next_state = np.array(pairs, dtype=float).T
    return {"state": state, "next_state": next_state, "reward": REWARDS[state.astype(int)], **more}


def kernel_rival(**options: Any) -> MDPKernelEmbedding:
    given = {"steps": 600, "batch": 16, "step": schedules.Constant(2.0), **options}
    return MDPKernelEmbedding(TABLE, TABLE, 1e-7, **given)


def feature_rival(**options: Any) -> MDPRandomFeatureEmbedding:
    given = {"steps": 600, "batch": 16, "step": schedules.Constant(2.0), **options}
    return MDPRandomFeatureEmbedding(spaces.Basis(one_hot), spaces.Basis(one_hot), 1e-7, **given)


@pytest.mark.parametrize("rival", [kernel_rival, feature_rival])
def test_on_a_finite_chain_it_reaches_the_exact_value(rival: Any) -> None:
    result = rival().fit(0, problems.PolicyEvaluation(sources.Dataset(**chain()), 0.8))
    exact = np.linalg.solve(np.eye(STATES) - 0.8 * CHAIN, REWARDS)
    np.testing.assert_allclose(result.last.primal(np.arange(STATES)), exact, atol=2e-3)
    averaged = np.asarray(result.primal(np.arange(STATES)))
    assert np.max(np.abs(averaged - exact)) < 0.1 * np.max(np.abs(exact))  # the way there counts in it
    np.testing.assert_allclose(result.last.dual(np.arange(STATES)), 0.0, atol=5e-3)
    assert result.finite
    assert result.steps == 600


@pytest.mark.parametrize("rival", [kernel_rival, feature_rival])
def test_nothing_follows_a_terminated_transition(rival: Any) -> None:
    """Transitions into the last state end the episode there."""
    data = chain()
    ends = (data["next_state"] == 3).astype(float)
    result = rival().fit(0, problems.PolicyEvaluation(sources.Dataset(**data, terminated=ends), 0.8))
    goes_on = CHAIN * [1, 1, 1, 0]
    exact = np.linalg.solve(np.eye(STATES) - 0.8 * goes_on, REWARDS)
    np.testing.assert_allclose(result.last.primal(np.arange(STATES)), exact, atol=2e-3)
    assert np.max(np.abs(exact - np.linalg.solve(np.eye(STATES) - 0.8 * CHAIN, REWARDS))) > 0.5


@pytest.mark.parametrize("rival", [kernel_rival, feature_rival])
def test_what_follows_a_transition_of_several_steps_is_discounted_as_often(rival: Any) -> None:
    """One leap of three steps from state 0 to state 1, which pays 1 and stays: V = (0.5³ · 2, 2)."""
    leap = sources.Dataset(state=[0, 1], reward=[0.0, 1.0], next_state=[1, 1], steps=[3, 1])
    result = rival(steps=400, batch=2, step=schedules.Constant(1.0)).fit(0, problems.PolicyEvaluation(leap, 0.5))
    np.testing.assert_allclose(result.last.primal([0, 1]), [0.25, 2.0], atol=1e-3)
    np.testing.assert_allclose(result.last.dual([0, 1]), 0.0, atol=1e-3)


def test_the_values_kept_up_do_not_drift_from_the_weights_over_many_steps() -> None:
    """Constant steps on full batches settle at the exact value, and stay there."""
    problem = problems.PolicyEvaluation(sources.Dataset(**chain()), 0.8)
    result = kernel_rival(steps=20_000, batch=32, step=schedules.Constant(2.0)).fit(0, problem)
    exact = np.linalg.solve(np.eye(STATES) - 0.8 * CHAIN, REWARDS)
    np.testing.assert_allclose(result.last.primal(np.arange(STATES)), exact, atol=2e-5)


def test_the_key_reaches_the_random_features_of_the_embedding() -> None:
    data, queries = wandering()
    transitions = EmbeddedTransitions.of(problems.PolicyEvaluation(sources.Dataset(**data), 0.9))
    few = spaces.Fourier(Gaussian(0.7), size=10)
    rival = MDPRandomFeatureEmbedding(few, few, 1e-2)
    one, other, again = (
        rival.embed(jax.random.key(seed), transitions, transitions)[0].weights(queries) for seed in (0, 1, 0)
    )
    assert np.max(np.abs(one - other)) > 0.01
    np.testing.assert_array_equal(one, again)


def two_actions() -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """Transitions of a policy that takes either action half the time, ρ of one that goes right three times of four.

    In a ring of four states, right and left succeed five times of six (else the state stays); right pays 1, and state 3
    one more. Then the values of the evaluated policy and of the one that acted.
    """
    right, stay = np.roll(np.eye(STATES), 1, axis=1), np.eye(STATES)
    rows, weights = [], []
    for state in range(STATES):
        for action, move in enumerate((-1, 1)):
            targets = [(state + move) % STATES] * 5 + [state]
            rows += [(state, target, float(action == 1) + float(state == 3)) for target in targets]
            weights += [1.5 if action == 1 else 0.5] * 6
    state, next_state, reward = np.array(rows).T
    values = []
    for chance in (0.75, 0.5):
        moves = (5 * (chance * right + (1 - chance) * right.T) + stay) / 6
        values.append(np.linalg.solve(np.eye(STATES) - 0.8 * moves, chance + (np.arange(STATES) == 3)))
    return {"state": state, "next_state": next_state, "reward": reward}, np.array(weights), values[0], values[1]


@pytest.mark.parametrize("rival", [kernel_rival, feature_rival])
def test_importance_weights_give_the_evaluated_policys_value_and_their_absence_the_others(rival: Any) -> None:
    data, weights, target, behaviour = two_actions()
    longer = rival(steps=4000, batch=12, step=schedules.OffsetLinear(400.0, 200.0))

    def value(**columns: np.ndarray) -> np.ndarray:
        problem = problems.PolicyEvaluation(sources.Dataset(**data, **columns), 0.8)
        return np.asarray(longer.fit(0, problem).last.primal(np.arange(STATES)))

    np.testing.assert_allclose(value(weight=weights), target, atol=0.06)
    np.testing.assert_allclose(value(), behaviour, atol=0.06)
    assert np.min(np.abs(target - behaviour)) > 1.0


def test_with_the_same_features_the_two_algorithms_are_one() -> None:
    problem = problems.PolicyEvaluation(sources.Dataset(**chain()), 0.8)
    options = {"steps": 50, "primal_penalty": 0.05, "step": schedules.OffsetSqrt(2.0, 1.0)}
    one, other = kernel_rival(**options).fit(3, problem), feature_rival(**options).fit(3, problem)
    for pair in ((one.primal, other.primal), (one.last.primal, other.last.primal), (one.dual, other.dual)):
        np.testing.assert_allclose(pair[0](np.arange(STATES)), pair[1](np.arange(STATES)), rtol=1e-4, atol=1e-5)


def wandering(rows: int = 60) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(0)
    state = rng.uniform(-1, 1, (rows, 2))
    data = {
        "state": state,
        "next_state": 0.8 * state + 0.2 * rng.normal(size=(rows, 2)),
        "reward": np.exp(-np.sum(state**2, axis=1)),
        "weight": rng.uniform(0.5, 1.5, rows),
        "terminated": (rng.uniform(size=rows) < 0.1).astype(float),
    }
    return data, rng.uniform(-1, 1, (7, 2))


def test_the_kernel_iterates_are_those_of_the_algorithm_written_out() -> None:
    """V as a list of centres, its slope k(s, ·) - γ Σ_i β_i(s) k(s'_i, ·) and its residual V(s) - (r + γ v̄(s))."""
    data, queries = wandering()
    kernel, on = Gaussian(0.5), Gaussian(0.7)
    schedule, penalty, discount = schedules.OffsetSqrt(1.5, 1.0), 0.02, 0.9
    rival = MDPKernelEmbedding(kernel, on, 1e-3, steps=12, batch=8, step=schedule, primal_penalty=penalty)
    problem = problems.PolicyEvaluation(sources.Dataset(**data), discount)
    result = rival.fit(5, problem)
    order = problem.source.plan(jax.random.split(jax.random.key(5), 3)[2], batch=8, steps=12).order
    embedded = ConditionalEmbedding.fit(on, data["state"], data["next_state"], 1e-3, weights=data["weight"])
    goes_on = 1 - data["terminated"]
    centres, coefficients, iterates, rates = np.zeros((0, 2)), np.zeros(0), [], []
    for t, rows in enumerate(np.asarray(order)):
        rate = float(schedule(jnp.asarray(t + 1)))
        iterates.append(kernel.gram(queries, centres) @ coefficients if t else np.zeros(7))
        rates.append(rate)
        seen = data["state"][rows]
        beta = embedded.weights(seen) * goes_on
        value = kernel.gram(seen, centres) @ coefficients if t else np.zeros(8)
        following = kernel.gram(data["next_state"], centres) @ coefficients if t else np.zeros(60)
        residual = data["weight"][rows] * (value - data["reward"][rows] - discount * beta @ following)
        added = [-rate * residual / 8, rate * discount * residual / 8 @ beta]
        centres = np.concatenate([centres, seen, data["next_state"]])
        coefficients = np.concatenate([(1 - rate * penalty) * coefficients, *added])
    last = kernel.gram(queries, centres) @ coefficients
    assert np.max(np.abs(last)) > 0.1
    np.testing.assert_allclose(result.last.primal(queries), last, rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(
        result.primal(queries), np.average(iterates, axis=0, weights=rates), rtol=2e-4, atol=1e-5
    )


def test_the_dual_is_the_bellman_residual_of_the_embedding() -> None:
    data, queries = wandering()
    problem = problems.PolicyEvaluation(sources.Dataset(**data), 0.9)
    result = MDPKernelEmbedding(Gaussian(0.5), Gaussian(0.7), 1e-3, steps=5).fit(0, problem)
    embedded = ConditionalEmbedding.fit(Gaussian(0.7), data["state"], data["next_state"], 1e-3, weights=data["weight"])
    following = data["reward"] + 0.9 * (1 - data["terminated"]) * np.asarray(result.primal(data["next_state"]))
    wanted = np.asarray(result.primal(queries)) - embedded.expectation(following, queries)
    np.testing.assert_allclose(result.dual(queries), wanted, rtol=1e-4, atol=1e-5)


def test_random_features_come_close_to_the_kernel_they_approximate() -> None:
    data, queries = wandering()
    problem = problems.PolicyEvaluation(sources.Dataset(**data), 0.9)
    options = {"steps": 100, "batch": 10, "step": schedules.Constant(0.5)}
    kernel = MDPKernelEmbedding(Gaussian(0.7), Gaussian(0.7), 1e-2, **options).fit(0, problem)
    wide = spaces.Fourier(Gaussian(0.7), size=1000, pairs=True)
    features = MDPRandomFeatureEmbedding(wide, wide, 1e-2, **options).fit(0, problem)
    exact = np.asarray(kernel.last.primal(queries))
    np.testing.assert_allclose(features.last.primal(queries), exact, atol=0.1 * np.max(np.abs(exact)))


def test_at_most_the_cap_is_embedded_and_no_transition_twice() -> None:
    every = EmbeddedTransitions.of(problems.PolicyEvaluation(sources.Dataset(**chain(reward=np.arange(32.0))), 0.8))
    few = every.sample(jax.random.key(0), 10)
    assert len(np.unique(few.reward)) == 10
    np.testing.assert_array_equal(few.state[:, 0], every.state[few.reward.astype(int), 0])
    assert every.sample(jax.random.key(0), None) is every
    problem = problems.PolicyEvaluation(sources.Dataset(**chain()), 0.8)
    assert kernel_rival(cap=10, steps=5).fit(0, problem).dual.function.expected.centres.shape == (10, 1)


def test_a_probe_sees_the_way_there() -> None:
    problem = problems.PolicyEvaluation(sources.Dataset(**chain()), 0.8)
    exact = np.linalg.solve(np.eye(STATES) - 0.8 * CHAIN, REWARDS)

    def error(value: Any, residual: Any) -> float:
        return float(np.max(np.abs(np.asarray(value(np.arange(STATES))) - exact)))

    trace = kernel_rival().fit(0, problem, de.solvers.Probe(error, at=(0, 20, 100))).trace
    assert trace.steps.tolist() == [0, 20, 100, 600]
    assert trace.samples.tolist() == [0, 320, 1600, 9600]
    assert trace.last[0] == pytest.approx(np.max(np.abs(exact)))  # of V = 0
    assert trace.last[1] > 2 * trace.last[2] > 20 * trace.last[3]


def test_a_penalty_left_out_is_chosen_from_the_data() -> None:
    data = {name: np.tile(column, 20) for name, column in chain().items()}
    rival = MDPKernelEmbedding(TABLE, TABLE, steps=600, batch=16, step=schedules.Constant(2.0))
    found = rival.fit(0, problems.PolicyEvaluation(sources.Dataset(**data), 0.8)).last.primal(np.arange(STATES))
    exact = np.linalg.solve(np.eye(STATES) - 0.8 * CHAIN, REWARDS)
    np.testing.assert_allclose(found, exact, atol=0.1 * np.max(np.abs(exact)))


def test_divergence_is_reported_and_what_comes_back_is_finite() -> None:
    problem = problems.PolicyEvaluation(sources.Dataset(**chain()), 0.8)
    with pytest.warns(DivergenceWarning, match=r"diverged at step \d+ of 600.*lower the step sizes"):
        result = kernel_rival(step=schedules.Constant(100.0)).fit(0, problem)
    assert not result.finite
    assert np.all(np.isfinite(result.primal(np.arange(STATES))))
    assert np.all(np.isfinite(result.last.primal(np.arange(STATES))))


def test_a_new_number_compiles_nothing_new() -> None:
    problem = problems.PolicyEvaluation(sources.Dataset(**chain()), 0.8)
    kernel_rival(steps=7).fit(0, problem)
    before = mdp_embedding.advance._cache_size()
    kernel_rival(steps=7, step=schedules.Constant(0.3)).fit(1, problem)
    assert mdp_embedding.advance._cache_size() == before


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MDPKernelEmbedding(TABLE, "rbf"), "embedding_kernel must be a Kernel"),
        (lambda: MDPKernelEmbedding(TABLE, TABLE, 0.0), "penalty must be positive"),
        (lambda: MDPKernelEmbedding(TABLE, TABLE, [1e-3, 1e-2]), r"penalty must be one number.*\(2,\)$"),
        (lambda: MDPKernelEmbedding(TABLE, TABLE, steps=0), "steps must be a whole number"),
        (lambda: MDPKernelEmbedding(TABLE, TABLE, cap=1), "cap must be a whole number of at least 2"),
        (lambda: MDPRandomFeatureEmbedding(TABLE, TABLE), "space must be a LinearSpace"),
        (lambda: kernel_rival().fit(0, "chain"), "problem must be a PolicyEvaluation"),
        (
            lambda: kernel_rival().fit(
                0, problems.PolicyEvaluation(sources.Simulator(lambda key: {"state": 0.0}), 0.8)
            ),
            "source must be a Dataset",
        ),
        (
            lambda: kernel_rival().fit(
                0, problems.PolicyEvaluation(sources.Dataset(**chain()), 0.8, losses.Huber(1.0))
            ),
            "squared Bellman error, not the Huber",
        ),
    ],
)
def test_what_cannot_be_run_is_named(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_a_table_of_weights_too_large_for_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mdp_embedding, "TABLE", 500)
    with pytest.raises(InputError, match="lower cap to 15, or use MDPRandomFeatureEmbedding"):
        kernel_rival().fit(0, problems.PolicyEvaluation(sources.Dataset(**chain()), 0.8))
