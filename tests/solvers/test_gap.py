"""The duality gap: zero at the saddle point, its definition elsewhere, and the theorem's rate along a run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import dualembed as de
from dualembed import kernels, losses, problems, schedules, solvers, sources, spaces
from dualembed.spaces.linear import LinearFunction

ROWS = 60


def table(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, ROWS)
    z = x + 0.3 * rng.normal(size=ROWS)
    return {"x": x, "z": z, "y": np.sin(3 * x) + 0.1 * rng.normal(size=ROWS)}


def cosines(xs: jax.Array) -> jax.Array:
    return jnp.concatenate([jnp.cos(k * xs[:, :1] + k) for k in range(4)], axis=1)


BASIS = spaces.Basis(cosines)


def saddle(loss: losses.Loss | None = None, data: dict[str, Any] | None = None, **options: Any) -> de.Saddle:
    problem = problems.Invariance(sources.Dataset(**(data or table())), loss or losses.Square())
    return de.Saddle(problem, BASIS, BASIS, **options)


def pair(problem: de.Saddle, theta: np.ndarray, eta: np.ndarray) -> tuple[LinearFunction, Any]:
    """The pair of functions with these weights."""
    layout = spaces.Layout(jnp.zeros((1, 1)), steps=1, batch=1, per_sample=1, capacity=1)
    primal = LinearFunction(BASIS.feature_map(jax.random.key(0), layout), jnp.asarray(theta))
    wide = spaces.Layout(jnp.zeros((1, 2)), steps=1, batch=1, per_sample=1, capacity=1)
    dual = LinearFunction(BASIS.feature_map(jax.random.key(0), wide), jnp.asarray(eta))
    return primal, problem.dual_function(dual)


def features(data: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return tuple(np.asarray(cosines(data[name][:, None]), dtype=np.float64) for name in ("z", "x"))


RULES = {
    "penalties": {"primal_penalty": 0.3, "dual_penalty": 0.1},
    "balls": {"primal_radius": 0.8, "dual_radius": 0.15},
    "both": {"primal_penalty": 0.3, "dual_penalty": 0.1, "primal_radius": 0.8, "dual_radius": 0.15},
    "loose balls": {"primal_radius": 0.8, "dual_radius": 100.0},
}


def best_responses(problem: de.Saddle, theta: np.ndarray, eta: np.ndarray) -> tuple[float, float]:
    """max over u and min over f of the saddle function, by brute force in float64."""
    data = table()
    psi, phi = features(data)

    def value(theta: np.ndarray, eta: np.ndarray) -> float:
        with jax.enable_x64(True):
            u = phi @ eta
            payoff = np.mean(u * (psi @ theta) - np.asarray(problem.loss.conjugate(jnp.asarray(u), data["y"])))
        return (
            payoff + 0.5 * (problem.primal_penalty or 0) * theta @ theta - 0.5 * (problem.dual_penalty or 0) * eta @ eta
        )

    def inside(radius: float | None) -> list[dict[str, Any]]:
        return [] if radius is None else [{"type": "ineq", "fun": lambda w: radius**2 - w @ w}]

    options = {"method": "SLSQP", "options": {"ftol": 1e-14, "maxiter": 500}}
    up = optimize.minimize(lambda w: -value(theta, w), 0.01 * eta, constraints=inside(problem.dual_radius), **options)
    down = optimize.minimize(lambda w: value(w, eta), 0 * theta, constraints=inside(problem.primal_radius), **options)
    return -up.fun, down.fun


@pytest.mark.parametrize("rule", RULES)
def test_the_gap_of_the_square_loss_is_its_definition(rule: str) -> None:
    problem = saddle(**RULES[rule])
    rng = np.random.default_rng(1)
    theta, eta = 0.4 * rng.normal(size=4), 0.05 * rng.normal(size=4)
    gap = solvers.duality_gap(problem, *pair(problem, theta, eta))
    highest, lowest = best_responses(problem, theta, eta)
    np.testing.assert_allclose(gap.best_response_of_dual, highest, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(gap.best_response_of_primal, lowest, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(gap.value, highest - lowest, rtol=1e-5, atol=1e-7)
    assert gap.residual == 0.0


def test_the_gap_is_zero_at_the_saddle_point_and_positive_beside_it() -> None:
    problem = saddle(**RULES["penalties"])
    psi, phi = features(table())
    A, C, b = phi.T @ psi / ROWS, phi.T @ phi / ROWS, phi.T @ table()["y"] / ROWS
    inverse = np.linalg.inv(C + 0.1 * np.eye(4))
    theta = np.linalg.solve(A.T @ inverse @ A + 0.3 * np.eye(4), A.T @ inverse @ b)
    eta = inverse @ (A @ theta - b)
    assert abs(solvers.duality_gap(problem, *pair(problem, theta, eta)).value) < 1e-7
    assert solvers.duality_gap(problem, *pair(problem, theta + 0.1, eta)).value > 1e-3
    assert solvers.duality_gap(problem, *pair(problem, theta, eta + 0.1)).value > 1e-3


@pytest.mark.parametrize("loss", [losses.Huber(0.5), losses.Pinball(0.3)], ids=["huber", "pinball"])
@pytest.mark.parametrize("rule", ["penalties", "both", "balls"])
def test_the_gap_of_other_losses_bounds_the_best_response_tightly(loss: losses.Loss, rule: str) -> None:
    problem = saddle(loss, **RULES[rule])
    rng = np.random.default_rng(1)
    theta, eta = 0.4 * rng.normal(size=4), 0.02 * rng.normal(size=4)
    gap = solvers.duality_gap(problem, *pair(problem, theta, eta))
    # By brute force: the dual variable must stay in the loss's domain at every row.
    data, (psi, phi) = table(), features(table())
    moment = psi @ theta
    low, high = (np.asarray(end) for end in loss.domain(jnp.asarray(data["y"])))
    feasible = optimize.LinearConstraint(phi, low, high)
    ball = [{"type": "ineq", "fun": lambda w: 0.15**2 - w @ w}] if problem.dual_radius else []

    def negative(w: np.ndarray) -> float:
        u = phi @ w
        return -(np.mean(u * (moment - data["y"]) - 0.5 * loss.bend * u**2) - 0.5 * (problem.dual_penalty or 0) * w @ w)

    found = optimize.minimize(
        negative, np.zeros(4), method="SLSQP", constraints=[feasible, *ball], options={"ftol": 1e-14, "maxiter": 500}
    )
    paid = 0.5 * (problem.primal_penalty or 0) * theta @ theta
    assert gap.best_response_of_dual >= -found.fun + paid - 1e-7
    np.testing.assert_allclose(gap.best_response_of_dual, -found.fun + paid, rtol=1e-3, atol=2e-5)
    assert gap.residual < 1e-3


def test_a_long_run_closes_the_gap_of_a_clipped_dual() -> None:
    problem = saddle(losses.Huber(0.6), **RULES["penalties"])
    gaps = []
    for steps in (20, 4000):
        result = de.solve(0, problem, solvers.EmbeddingSGD(steps, ROWS, schedules.InverseSqrt(2.0)))
        gaps.append(solvers.duality_gap(problem, result.primal, result.dual).value)
    assert 0 < gaps[1] < 0.05 * gaps[0], gaps


def test_without_penalty_or_ball_on_f_the_gap_is_infinite_and_says_so() -> None:
    problem = saddle(dual_penalty=0.1)
    gap = solvers.duality_gap(problem, *pair(problem, np.ones(4), np.ones(4)))
    assert gap.value == np.inf
    assert "give primal_penalty or primal_radius" in gap.message


def test_a_kernel_expansion_has_the_gap_of_its_whole_rkhs() -> None:
    data = table()
    kernel = kernels.Gaussian(0.6)
    rules = {"primal_penalty": 0.05, "dual_penalty": 0.05}
    problem = problems.Invariance(sources.Dataset(**data))
    solver = solvers.EmbeddingSGD(300, 20, schedules.OffsetSqrt(1.0))
    gaps = {}
    for name, space in {"rkhs": spaces.RKHS(kernel), "nystrom": spaces.Nystrom(kernel, size=ROWS)}.items():
        both = de.Saddle(problem, space, space, **rules)
        result = de.solve(0, both, solver)
        gaps[name] = solvers.duality_gap(both, result.primal, result.dual).value
    assert 0 < gaps["rkhs"] < 0.1
    np.testing.assert_allclose(gaps["nystrom"], gaps["rkhs"], rtol=2e-2)


def test_a_network_has_no_gap() -> None:
    both = de.Saddle(problems.Invariance(sources.Dataset(**table())), spaces.Network(width=4), BASIS, primal_penalty=1)
    result = de.solve(0, both, solvers.EmbeddingSGD(5, 5))
    with pytest.raises(de.InputError, match="not a member of a linear space"):
        solvers.duality_gap(both, result.primal, result.dual)


def test_the_gap_of_the_averaged_iterate_falls_like_one_over_the_root_of_t() -> None:
    """Constrained form, step γ/√t; samples drawn independently from a table, on which the gap is exact."""
    data = {name: jnp.asarray(column) for name, column in table().items()}
    rules = {"primal_radius": 2.0, "dual_radius": 1.0}

    def draw(key: jax.Array) -> dict[str, jax.Array]:
        row = jax.random.randint(key, (), 0, ROWS)
        return {name: column[row] for name, column in data.items()}

    exact = saddle(data=table(), **rules)
    drawn = de.Saddle(problems.Invariance(sources.Simulator(draw)), BASIS, BASIS, **rules)
    at = [2**k for k in range(7, 16)]
    curves = []
    for seed in range(8):
        probe = solvers.Probe(lambda f, u: solvers.duality_gap(exact, f, u).value, at=at)
        result = de.solve(seed, drawn, solvers.EmbeddingSGD(at[-1], 1, schedules.InverseSqrt(1.0)), probe)
        curves.append([gap for step, gap in zip(result.trace.steps, result.trace.averaged, strict=True) if step in at])
    slope = np.polyfit(np.log(at), np.log(np.mean(curves, axis=0)), 1)[0]
    assert -0.65 < slope < -0.4, (slope, np.mean(curves, axis=0))
