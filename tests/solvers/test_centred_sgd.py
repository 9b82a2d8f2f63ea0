"""Embedding-SGD with a centred dual."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualembed import checks, kernels, links, losses, problems, schedules, solvers, sources, spaces
from dualembed.saddle import Saddle
from dualembed.solvers.embedding_sgd import known_part
from dualembed.solvers.stochastic import Seen

DISCOUNT = 0.8
STATES = 6


def chain(rows: int, seed: int = 0) -> tuple[sources.Dataset, np.ndarray, np.ndarray]:
    """Transitions of a random chain in the proportions of its matrix P, and P and the rewards."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.ones(STATES), STATES)
    rewards = rng.normal(size=STATES)
    state = np.arange(rows) % STATES
    next_state = np.asarray([rng.choice(STATES, p=moves[each]) for each in state])
    return sources.Dataset(state=state, reward=rewards[state], next_state=next_state), moves, rewards


def empirical(data: sources.Dataset) -> np.ndarray:
    counts = np.zeros((STATES, STATES))
    np.add.at(counts, (data.table["state"].astype(int), data.table["next_state"].astype(int)), 1)
    return counts / counts.sum(axis=1, keepdims=True)


def test_the_value_of_a_chain_is_found_from_single_transitions() -> None:
    data, _, rewards = chain(600)
    problem = problems.PolicyEvaluation(data, DISCOUNT, reward_known=True)
    exact = np.linalg.solve(np.eye(STATES) - DISCOUNT * empirical(data), rewards)
    steps = schedules.Constant(3.0), schedules.Constant(3.0)
    solver = solvers.CentredEmbeddingSGD(3000, 200, *steps)
    result = solvers.solve(0, Saddle(problem, spaces.Table(), spaces.Table()), solver)
    found = np.asarray(result.primal(np.arange(STATES)))
    assert np.max(np.abs(found - exact)) < 0.02 * np.max(np.abs(exact))
    left_open = -DISCOUNT * empirical(data) @ exact
    assert np.max(np.abs(np.asarray(result.dual(np.arange(STATES))) - left_open)) < 0.02 * np.max(np.abs(exact))


def test_at_the_best_v_the_mean_slope_is_the_gradient_of_the_squared_bellman_error() -> None:
    data, _, rewards = chain(600)
    problem = problems.PolicyEvaluation(data, DISCOUNT, reward_known=True)
    saddle = Saddle(problem, spaces.Table(), spaces.Table())
    moves = empirical(data)
    value = np.random.default_rng(1).normal(size=STATES)
    best = -DISCOUNT * moves @ value
    terms = saddle.terms()
    places = np.asarray(terms.points[..., 0], dtype=int)
    seen = Seen({}, terms, jnp.asarray(value[places]), jnp.asarray(best[places[:, 0]]), None, jnp.asarray(1))
    slopes, dual_slopes = solvers.CentredEmbeddingSGD(1).slopes(saddle, seen)
    mean = np.zeros(STATES)
    np.add.at(mean, places, np.asarray(slopes))
    residual = value - rewards - DISCOUNT * moves @ value
    gradient = (np.eye(STATES) - DISCOUNT * moves).T @ residual / STATES
    assert np.allclose(mean, gradient, atol=1e-6)
    by_state = np.zeros(STATES)
    np.add.at(by_state, places[:, 0], np.asarray(dual_slopes))
    assert np.allclose(by_state, 0, atol=1e-6)


def test_where_the_context_determines_nothing_it_is_embedding_sgd() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, 200)
    problem = problems.Invariance(sources.Dataset(x=x, y=np.sin(3 * x), z=x + 0.1))
    space = spaces.Fourier(kernels.Gaussian(0.5), 16)
    saddle = Saddle(problem, space, space)
    found = [
        np.asarray(solvers.solve(0, saddle, make(50, 20, schedules.InverseSqrt(0.5))).primal(x))
        for make in (solvers.EmbeddingSGD, solvers.CentredEmbeddingSGD)
    ]
    assert np.allclose(*found, rtol=1e-5, atol=1e-6)


def test_an_unknown_reward_is_left_to_the_dual() -> None:
    data, *_ = chain(12)
    for known in (False, True):
        terms = problems.PolicyEvaluation(data, DISCOUNT, reward_known=known).terms(data.columns)
        part = known_part(terms, jnp.ones_like(terms.weights))
        assert np.allclose(part, 1.0 + (np.asarray(terms.offset) if known else 0.0))


def test_another_loss_is_refused_in_one_sentence() -> None:
    data, *_ = chain(12)
    problem = problems.PolicyEvaluation(data, DISCOUNT, losses.Huber(1.0))
    with pytest.raises(checks.InputError, match="centred dual is for the square loss"):
        solvers.solve(0, Saddle(problem, spaces.Table(), spaces.Table()), solvers.CentredEmbeddingSGD(10))


def test_it_can_be_vmapped_over_step_sizes() -> None:
    data, *_ = chain(60)
    saddle = Saddle(problems.PolicyEvaluation(data, DISCOUNT), spaces.Table(), spaces.Table())

    def last(rate: jax.Array) -> jax.Array:
        solver = solvers.CentredEmbeddingSGD(20, 10, schedules.Constant(rate))
        return solvers.solve(0, saddle, solver).last.primal.evaluate(jnp.arange(float(STATES))[:, None])

    together = jax.vmap(last)(jnp.asarray([0.1, 0.5]))
    assert np.allclose(together[1], last(jnp.asarray(0.5)), atol=1e-6)


def test_a_link_is_refused_in_one_sentence() -> None:
    data, *_ = chain(12)
    saddle = Saddle(problems.PolicyEvaluation(data, DISCOUNT), spaces.Table(), spaces.Table(), link=links.Legendre())
    with pytest.raises(checks.InputError, match="a centred dual has no link"):
        solvers.solve(0, saddle, solvers.CentredEmbeddingSGD(10))
