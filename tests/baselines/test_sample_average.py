"""The sample average: exact for the square loss, a minimum for the others, and as biased as it must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import dualembed as de
from dualembed import baselines, losses, problems, solvers, sources, spaces
from dualembed.baselines.least_squares import least_squares_weights, newton_descent, primal_features, sample_risk

CUBIC = spaces.Basis(lambda z: jnp.concatenate([z**k for k in range(4)], axis=1))
ROWS = 200


def table(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, ROWS)
    return {"x": x, "z": x + 0.3 * rng.normal(size=ROWS), "y": np.sin(3 * x) + 0.1 * rng.normal(size=ROWS)}


def saddle(loss: losses.Loss, columns: dict[str, np.ndarray], penalty: float | None = None) -> de.Saddle:
    return de.Saddle(problems.Invariance(sources.Dataset(**columns), loss), CUBIC, CUBIC, primal_penalty=penalty)


@pytest.mark.parametrize("penalty", [None, 0.25])
def test_for_the_square_loss_it_is_ridge_regression_on_the_moments(penalty: float | None) -> None:
    columns = table()
    g = np.stack([columns["z"] ** k for k in range(4)], axis=1)
    wanted = np.linalg.solve(g.T @ g / ROWS + (penalty or 0) * np.eye(4), g.T @ columns["y"] / ROWS)
    result = de.solve(0, saddle(losses.Square(), columns, penalty), baselines.BatchSAA())
    np.testing.assert_allclose(result.primal.weights, wanted, rtol=1e-9)


def test_newton_on_the_square_loss_takes_one_step_to_the_exact_solution() -> None:
    problem = saddle(losses.Square(), table(), 0.25)
    features = primal_features(jax.random.key(0), problem)
    theta, gradients = newton_descent(sample_risk(problem, features), np.zeros(4), tolerance=1e-12, steps=5)
    np.testing.assert_allclose(theta, least_squares_weights(problem, features), rtol=1e-10)
    assert len(gradients) == 2


LOSSES = {
    "huber": (losses.Huber(0.2), lambda y: y),
    "far": (losses.Huber(0.05), lambda y: y + 100),  # at zero no row has any curvature
    "logistic": (losses.Logistic(), np.sign),
    "smoothed-hinge": (losses.SmoothedHinge(0.5), np.sign),
    "squared-hinge": (losses.SquaredHinge(), np.sign),
    "poisson": (losses.Poisson(), lambda y: np.floor(np.exp(2 + 2 * y))),
}


@pytest.mark.parametrize("name", LOSSES)
def test_other_losses_are_minimised_as_a_general_optimiser_finds(name: str) -> None:
    loss, targets = LOSSES[name]
    columns = table()
    columns["y"] = targets(columns["y"])
    result = de.solve(0, saddle(loss, columns, 1e-3), baselines.BatchSAA())
    assert result.message == ""
    g = np.stack([columns["z"] ** k for k in range(4)], axis=1)

    def risk(theta: np.ndarray) -> float:
        with jax.enable_x64(True):
            return float(np.mean(loss.value(jnp.asarray(g @ theta), jnp.asarray(columns["y"])))) + 5e-4 * theta @ theta

    found = np.asarray(result.primal.weights)
    other = minimize(risk, found + 0.1, method="BFGS", options={"gtol": 1e-7})
    assert risk(found) <= other.fun + 1e-12 * abs(other.fun)
    np.testing.assert_allclose(found, other.x, rtol=1e-3, atol=1e-3)


def test_bellman_residual_minimisation_goes_to_its_biased_fixed_point() -> None:
    """From state 0 to 1 or 2 with equal chance, then on for ever: V(s') varies, and its variance is paid for."""
    states, after = [0, 0, 1, 2], [1, 2, 1, 2]
    data = sources.Dataset(state=states, reward=[0.0, 0.0, 1.0, -1.0], next_state=after)
    features = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])  # V(2) = -V(1): the value lies in their span
    basis = spaces.Basis(lambda s: jnp.asarray(features)[s[:, 0].astype(int)])
    problem = de.Saddle(problems.PolicyEvaluation(data, 0.5), basis, basis)
    g = features[states] - 0.5 * features[after]
    wanted = np.linalg.solve(g.T @ g, g.T @ np.array([0.0, 0.0, 1.0, -1.0]))
    found = de.solve(0, problem, baselines.BRM())
    np.testing.assert_allclose(found.primal.weights, wanted, atol=1e-12)
    # By hand: mean of (v0 ± v1/2)² and (v1/2 - 1)², twice each, is least at v0 = 0, v1 = 1; the value is v1 = 2.
    np.testing.assert_allclose(wanted, [0.0, 1.0], atol=1e-12)
    indicators = spaces.Basis(lambda s: jnp.eye(3)[s[:, 0].astype(int)])
    embedded = de.solve(0, de.Saddle(problem.problem, basis, indicators), solvers.ClosedForm(folds=1))
    np.testing.assert_allclose(embedded.primal.weights, [0.0, 2.0], atol=1e-10)


def test_more_draws_for_each_x_lessen_the_bias() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 2000)
    line = spaces.Basis(lambda z: z)
    slopes = []
    for draws in (1, 4, 16):
        z = x[:, None, None] + rng.normal(size=(2000, draws, 1))
        data = sources.Dataset(x=x, z=z, y=x)  # E[z | x] = x: the truth is 1
        result = de.solve(0, de.Saddle(problems.Invariance(data), line, line), baselines.BatchSAA())
        slopes.append(float(result.primal([1.0])[0]))
    expected = [(1 / 3) / (1 / 3 + 1 / draws) for draws in (1, 4, 16)]
    np.testing.assert_allclose(slopes, expected, atol=0.03)


def test_the_result_has_the_zero_function_for_a_dual() -> None:
    result = de.solve(0, saddle(losses.Logistic(), {**table(), "y": np.sign(table()["y"])}, 0.1), baselines.BatchSAA())
    np.testing.assert_array_equal(result.dual(np.ones((3, 2)), np.ones(3)), np.zeros(3))


def test_brm_is_another_name_of_the_same_solver() -> None:
    assert baselines.BRM is baselines.BatchSAA


def test_too_few_steps_are_reported() -> None:
    columns = {**table(), "y": np.sign(table()["y"])}
    with pytest.warns(solvers.EarlyStopWarning, match="stopped after 2 of 2 steps"):
        result = de.solve(0, saddle(losses.Logistic(), columns, 1e-3), baselines.BatchSAA(steps=2))
    assert result.steps == 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: saddle(losses.Pinball(0.5), table()), "needs a smooth loss"),
        (
            lambda: de.Saddle(problems.Invariance(sources.Dataset(**table())), CUBIC, CUBIC, primal_radius=1.0),
            "penalties, not primal_radius",
        ),
        (
            lambda: de.Saddle(problems.Invariance(sources.Dataset(**table())), spaces.Network(), CUBIC),
            "needs a linear space",
        ),
    ],
)
def test_what_it_cannot_solve_is_named(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(de.InputError, match=words):
        de.solve(0, make(), baselines.BatchSAA())
