"""Linearly-solvable control without an end: known average costs and desirabilities, and the control of one process."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from tests.control.chains import EXACT, STATES, TABLE, chain, exact

import dualembed as de
from dualembed import kernels, problems, sources, spaces
from dualembed.checks import InputError
from dualembed.control import AverageCostSolution, average_cost, controlled_sampler


def perron(passive: np.ndarray, cost: np.ndarray, reference: int = 0) -> tuple[float, np.ndarray]:
    """The principal eigenvalue of e^(-q) P and its eigenvector, 1 at the reference."""
    values, vectors = np.linalg.eig(np.exp(-cost)[:, None] * passive)
    first = np.argmax(values.real)
    return float(values[first].real), np.real(vectors[:, first] / vectors[reference, first])


@pytest.mark.parametrize("seed", range(20))
def test_on_a_finite_chain_the_average_cost_is_the_principal_eigenvalue(seed: int) -> None:
    passive, state, following, rng = chain(seed)
    cost = rng.uniform(-0.5, 1, STATES)
    eigenvalue, wanted = perron(passive, cost, reference=2)
    data = sources.Dataset(state=state, next_state=following, cost=cost[state])
    with jax.enable_x64(True):
        # The eigenvalue it comes with is not used.
        found = average_cost(0, de.Saddle(problems.AverageCost(data, 0.3, 2.0), TABLE, TABLE))
        desirability = np.asarray(found.result.primal(np.arange(STATES)))
    assert found.eigenvalue == pytest.approx(eigenvalue, rel=1e-8)
    assert found.average_cost == pytest.approx(-np.log(eigenvalue), abs=1e-8)
    assert np.min(wanted) > 0.01
    np.testing.assert_allclose(desirability, wanted, rtol=1e-8)
    given = problems.AverageCost(data, eigenvalue, 2.0)
    np.testing.assert_allclose(exact(given, np.arange(STATES), "sparse form"), wanted, rtol=1e-8)


def test_a_chain_of_period_two_has_its_positive_eigenvalue() -> None:
    """-λ is an eigenvalue of the same modulus."""
    state = np.tile([0, 1], 36)
    data = sources.Dataset(state=state, next_state=1 - state, cost=np.where(state == 0, 0.2, 0.6))
    found = average_cost(0, de.Saddle(problems.AverageCost(data, 1.0, 0.0), TABLE, TABLE))
    assert found.average_cost == pytest.approx(0.4, abs=1e-8)


def two_classes(*extra: tuple[int, int]) -> sources.Dataset:
    """States 0 and 1 lead to each other at a cost of 0.2, states 2 and 3 at one of 1; and so do the extra steps."""
    steps = np.array([(0, 1), (1, 0), (2, 3), (3, 2), (0, 0), (2, 2), *extra])
    return sources.Dataset(state=steps[:, 0], next_state=steps[:, 1], cost=np.where(steps[:, 0] < 2, 0.2, 1.0))


def test_a_reference_from_which_the_process_does_not_get_to_where_it_costs_least_is_refused() -> None:
    """z is 0 on the costlier of two classes apart, and a normalisation there has no solution."""
    saddle = de.Saddle(problems.AverageCost(two_classes(), 1.0, 2.0), TABLE, TABLE)
    with pytest.raises(InputError, match=r"reference \[2\.0\] is \S+ times its largest .* such as \[[01]\.0\]"):
        average_cost(0, saddle)


@pytest.mark.parametrize(("reference", "extra"), [(0.0, ()), (2.0, ((3, 0),))])
def test_a_reference_in_the_cheaper_class_or_with_a_way_to_it_will_do(
    reference: float, extra: tuple[tuple[int, int], ...]
) -> None:
    found = average_cost(0, de.Saddle(problems.AverageCost(two_classes(*extra), 1.0, reference), TABLE, TABLE))
    assert found.average_cost == pytest.approx(0.2, abs=1e-8)
    values = np.asarray(found.result.primal(np.arange(4.0)))
    assert values[int(reference)] == pytest.approx(1.0, abs=1e-6)
    assert values[0] == pytest.approx(values[1], rel=1e-6)


@pytest.mark.parametrize(("reference", "number"), [(0.2, 2), (0.3, 3), (0.26, 3), (0.5 + 1e-9, 5)])
def test_a_reference_between_states_is_the_nearest_of_them(reference: float, number: int) -> None:
    """0.2 in float32 equals no state, nor does 0.3 equal 3 * 0.1: z would be 1 there, and 0 at every state."""
    passive, state, following, rng = chain(0)
    cost = rng.uniform(-0.5, 1, STATES)
    data = sources.Dataset(state=0.1 * state, next_state=0.1 * following, cost=cost[state])
    eigenvalue, wanted = perron(passive, cost, reference=number)
    points = 0.1 * np.arange(STATES)
    found = average_cost(0, de.Saddle(problems.AverageCost(data, 1.0, reference), TABLE, TABLE))
    np.testing.assert_allclose(found.result.primal(points), wanted, rtol=1e-5)
    given = problems.AverageCost(data, eigenvalue, reference)
    for solver in EXACT:
        np.testing.assert_allclose(exact(given, points, solver), wanted, rtol=1e-5)


@pytest.mark.parametrize("reference", [-0.1, 0.6])
def test_a_reference_outside_the_range_of_the_states_is_refused(reference: float) -> None:
    _, state, following, _ = chain(0)
    data = sources.Dataset(state=0.1 * state, next_state=0.1 * following, cost=0.0 * state)
    nearest = 0.0 if reference < 0 else 0.5
    with pytest.raises(InputError, match=rf"not \[{reference}\], which is outside .*; the nearest is \[{nearest}\]"):
        problems.AverageCost(data, 1.0, reference)


def test_penalties_that_outweigh_the_normalisation_are_named() -> None:
    _, state, following, _ = chain(0)
    data = sources.Dataset(state=state, next_state=following, cost=0.0 * state)
    saddle = de.Saddle(problems.AverageCost(data, 1.0, 2.0), TABLE, TABLE, primal_penalty=100.0)
    with pytest.raises(InputError, match=r"at the reference \[2\.0\], where it should be 1, .*: lower the penalties"):
        average_cost(0, saddle)


# A linear process with quadratic costs: s' ~ N(a s, σ²), q = c s²/2, for which z = exp(-p s²/2).

PULL, VARIANCE, WEIGHT = 0.9, 0.19, 0.3
CURVATURE = brentq(lambda p: p - WEIGHT - p * PULL**2 / (1 + p * VARIANCE), 0, 10)  # the Riccati equation
SHRINK = 1 / (1 + CURVATURE * VARIANCE)


@pytest.fixture(scope="module")
def linear_quadratic() -> AverageCostSolution:
    rng = np.random.default_rng(0)
    state = rng.normal(size=20_000)
    following = PULL * state + np.sqrt(VARIANCE) * rng.normal(size=len(state))
    data = sources.Dataset(state=state, next_state=following, cost=WEIGHT / 2 * state**2)
    smooth = spaces.Nystrom(kernels.Gaussian(2.0), size=40)
    saddle = de.Saddle(problems.AverageCost(data, 1.0, 0.0), smooth, smooth, primal_penalty=1e-8, dual_penalty=1e-8)
    return average_cost(0, saddle)


def test_a_linear_quadratic_process_has_the_average_cost_and_desirability_of_its_riccati_equation(
    linear_quadratic: AverageCostSolution,
) -> None:
    """The cost, 0.0833, within 5 % (3 % here, 0.7 % with two other seeds); z within 0.02 of its largest value."""
    wanted = -0.5 * np.log(SHRINK)
    assert linear_quadratic.average_cost == pytest.approx(wanted, rel=0.05)
    assert linear_quadratic.eigenvalue == pytest.approx(np.sqrt(SHRINK), rel=0.005)
    xs = np.linspace(-2, 2, 41)
    np.testing.assert_allclose(linear_quadratic.result.primal(xs), np.exp(-CURVATURE * xs**2 / 2), atol=0.02)
    assert float(linear_quadratic.result.primal([0.0])[0]) == pytest.approx(1.0, abs=1e-4)


def test_the_control_of_a_linear_quadratic_process_is_the_linear_one(linear_quadratic: AverageCostSolution) -> None:
    """p*(·|s) = N(a s / (1 + pσ²), σ² / (1 + pσ²)); 1,500 draws leave 0.01 to chance in the mean."""

    def passive(key: jax.Array, states: jax.Array) -> jax.Array:
        return PULL * states + np.sqrt(VARIANCE) * jax.random.normal(key, states.shape)

    starts = np.array([-1.5, 0.0, 1.0])
    controlled = controlled_sampler(linear_quadratic.result.primal, passive, draws=64)
    drawn = np.asarray(controlled(jax.random.key(1), jnp.repeat(jnp.asarray(starts), 1500)[:, None]))
    drawn = drawn.reshape(len(starts), 1500)
    np.testing.assert_allclose(drawn.mean(axis=1), SHRINK * PULL * starts, atol=0.035)
    np.testing.assert_allclose(drawn.var(axis=1), SHRINK * VARIANCE, rtol=0.12)
    assert abs(SHRINK * PULL * 1.0 - PULL) > 0.1  # the passive mean is far from it


def test_average_cost_refuses_what_will_not_do_in_one_sentence() -> None:
    data = sources.Dataset(state=[0.0, 1.0], next_state=[1.0, 0.0], cost=[0.0, 0.0])
    with pytest.raises(InputError, match=r"eigenvalue must be positive, not 0\.0; it is e"):
        problems.AverageCost(data, 0.0, 0.0)
    with pytest.raises(InputError, match=r"reference must be one state of shape \(1,\), but has shape \(2,\)"):
        problems.AverageCost(data, 1.0, [0.0, 1.0])
    with pytest.raises(InputError, match="reference must hold numbers"):
        problems.AverageCost(data, 1.0, "a")
    with pytest.raises(InputError, match="reference has 1 NaN"):
        problems.AverageCost(data, 1.0, np.nan)
    with pytest.raises(InputError, match="saddle must be a Saddle, not 3"):
        average_cost(0, 3)
    ends = sources.Dataset(state=[0.0], next_state=[1.0], cost=[0.1], terminal=[1.0], terminal_cost=[0.0])
    saddle = de.Saddle(problems.FirstExit(ends), TABLE, TABLE)
    with pytest.raises(InputError, match=r"needs a problems\.AverageCost; for a process that ends use FirstExit"):
        average_cost(0, saddle)
