"""GTD2 is Embedding-SGD with one basis for both players: its iterates are those of the published updates."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualembed as de
from dualembed import baselines, kernels, losses, problems, schedules, solvers, sources, spaces
from dualembed.experiments.garnet import Lookup

DISCOUNT, STEPS = 0.9, 300
TABLE = np.array([[1.0, 0.0, 0.2], [0.6, 0.5, -0.1], [0.1, 1.0, 0.4], [-0.3, 0.7, 1.0]])
PRIMAL_STEP, DUAL_STEP = schedules.OffsetSqrt(0.5, 1.0), schedules.InverseSqrt(0.8)


def chain() -> dict[str, np.ndarray]:
    """A walk on four states to the left and to the right, weighted for a policy that prefers the right."""
    rng = np.random.default_rng(0)
    state = rng.integers(0, 4, 60)
    right = rng.uniform(size=60) < 0.5
    return {
        "state": state,
        "reward": np.where(state == 3, 1.0, -0.1),
        "next_state": np.clip(state + np.where(right, 1, -1), 0, 3),
        "weight": np.where(right, 1.6, 0.4),
        "terminated": (state == 0) & ~right,
    }


def saddle(dual: spaces.FunctionSpace | None = None, **options: float) -> de.Saddle:
    space = spaces.Basis(Lookup(TABLE))
    problem = problems.PolicyEvaluation(sources.Dataset(**chain()), DISCOUNT)
    return de.Saddle(problem, space, space if dual is None else dual, **options)


def published(order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """θ and w after each batch of rows, and their averages weighted by the step sizes, from the paper's own updates."""
    data = chain()
    theta, w = np.zeros(3), np.zeros(3)
    sums, totals = [np.zeros(3), np.zeros(3)], [0.0, 0.0]
    for t, rows in enumerate(order, start=1):
        alpha, beta = 0.5 / (1 + np.sqrt(t)), 0.8 / np.sqrt(t)
        sums[0], sums[1] = sums[0] + alpha * theta, sums[1] + beta * w
        totals[0], totals[1] = totals[0] + alpha, totals[1] + beta
        for_theta, for_w = np.zeros(3), np.zeros(3)
        for row in rows:
            phi = TABLE[data["state"][row]]
            after = TABLE[data["next_state"][row]] * (not data["terminated"][row])
            rho = data["weight"][row]
            delta = data["reward"][row] + DISCOUNT * after @ theta - phi @ theta
            for_theta += rho * (phi - DISCOUNT * after) * (phi @ w) / len(rows)
            for_w += (rho * delta - phi @ w) * phi / len(rows)
        theta, w = theta + alpha * for_theta, w + beta * for_w
    return theta, w, sums[0] / totals[0], sums[1] / totals[1]


@pytest.mark.parametrize("batch", [1, 7, 60])
def test_iterates_equal_those_of_the_published_updates_in_double_precision(batch: int) -> None:
    key = jax.random.key(5)
    with jax.enable_x64(True):
        problem = saddle()
        result = de.solve(key, problem, baselines.GTD2(STEPS, batch, PRIMAL_STEP, DUAL_STEP))
        order = problem.problem.source.plan(jax.random.split(key)[1], batch=batch, steps=STEPS).order
    theta, w, mean_theta, mean_w = published(np.asarray(order))
    np.testing.assert_allclose(result.last.primal.weights, theta, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.last.dual.function.weights, -w, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.primal.weights, mean_theta, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.dual.function.weights, -mean_w, rtol=0, atol=1e-12)
    assert np.linalg.norm(theta) > 0.1


def test_it_is_embedding_sgd_with_a_shared_basis_and_whatever_dual_the_saddle_has() -> None:
    settings = (STEPS, 7, PRIMAL_STEP, DUAL_STEP)
    embedded = de.solve(1, saddle(primal_penalty=0.1, dual_penalty=0.2), solvers.EmbeddingSGD(*settings))
    network = saddle(spaces.Network(), primal_penalty=0.1, dual_penalty=0.2)
    found = de.solve(1, network, baselines.GTD2(*settings))
    np.testing.assert_allclose(found.primal.weights, embedded.primal.weights, rtol=1e-5, atol=1e-7)


def test_random_features_are_drawn_once_for_both_players() -> None:
    random = spaces.Fourier(kernels.Gaussian(1.0), size=8)
    problem = problems.PolicyEvaluation(sources.Dataset(**chain()), DISCOUNT)
    result = de.solve(0, de.Saddle(problem, random, random), baselines.GTD2(10, 5))
    points = jnp.arange(4.0)[:, None]
    np.testing.assert_array_equal(result.primal.features(points), result.dual.function.features(points))


def test_over_the_whole_data_it_settles_at_lstds_solution() -> None:
    constant = schedules.Constant(0.5)
    with jax.enable_x64(True):
        problem = saddle()
        exact = de.solve(0, problem, baselines.LSTD())
        found = de.solve(0, problem, baselines.GTD2(30_000, 60, constant, constant))
    np.testing.assert_allclose(found.last.primal.weights, exact.primal.weights, atol=1e-6)


def test_step_sizes_can_be_vmapped() -> None:
    def values(rate: jax.Array) -> jax.Array:
        return de.solve(0, saddle(), baselines.GTD2(50, 5, schedules.InverseSqrt(rate))).primal(jnp.arange(4.0))

    together = jax.vmap(values)(jnp.asarray([0.1, 0.5]))
    np.testing.assert_allclose(together[1], values(jnp.asarray(0.5)), rtol=1e-5)


def test_what_it_cannot_solve_is_named() -> None:
    data = sources.Dataset(**chain())
    huber = de.Saddle(problems.PolicyEvaluation(data, DISCOUNT, losses.Huber(1.0)), saddle().primal, saddle().dual)
    with pytest.raises(de.InputError, match="GTD2 is for the square loss, not Huber"):
        de.solve(0, huber, baselines.GTD2(10))
    line = spaces.Basis(lambda x: x)
    elsewhere = problems.Invariance(sources.Dataset(x=[0.0, 1.0], z=[0.0, 1.0], y=[0.0, 1.0]))
    with pytest.raises(de.InputError, match="context must be the first point"):
        de.solve(0, de.Saddle(elsewhere, line, line), baselines.GTD2(10))
