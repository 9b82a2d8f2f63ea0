"""The laws that every loss and its link obey, in float64 unless a claim is about float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dualembed import losses
from dualembed.links import Clipped, Legendre

SIZE = 24
STEP = 1e-6

fractions = arrays(np.float64, SIZE, elements=st.floats(0, 1))
few = settings(max_examples=8, deadline=None, derandomize=True)


class Case(NamedTuple):
    """A loss with the values and targets to try it on, and the places where its slope is not smooth."""

    loss: losses.Loss
    values: tuple[float, float]
    target: Callable[[np.ndarray], np.ndarray]
    kinks: Callable[[np.ndarray], list[np.ndarray]] = lambda y: []


def real(fraction: np.ndarray) -> np.ndarray:
    return 10 * fraction - 5


def label(fraction: np.ndarray) -> np.ndarray:
    return np.where(fraction < 0.5, -1.0, 1.0)


def tally(fraction: np.ndarray) -> np.ndarray:
    return np.floor(12 * fraction)


def huber(threshold: float) -> Case:
    kinks = lambda y: [y - threshold, y + threshold]  # noqa: E731
    return Case(losses.Huber(threshold), (-30, 30), real, kinks)


def smoothed(width: float) -> Case:
    return Case(losses.SmoothedHinge(width), (-30, 30), label, lambda y: [1 / y, (1 - width) / y])


CASES = [
    Case(losses.Square(), (-30, 30), real),
    huber(0.3),
    huber(1.0),
    huber(4.0),
    Case(losses.Logistic(), (-30, 30), label),
    Case(losses.Hinge(), (-30, 30), label, lambda y: [1 / y]),
    smoothed(0.2),
    smoothed(1.0),
    smoothed(3.0),
    Case(losses.SquaredHinge(), (-30, 30), label, lambda y: [1 / y]),
    Case(losses.Pinball(0.5), (-30, 30), real, lambda y: [y]),
    Case(losses.Pinball(0.9), (-30, 30), real, lambda y: [y]),
    Case(losses.Poisson(), (-10, 3), tally),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: repr(case.loss))


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def draws(case: Case, place: np.ndarray, kind: np.ndarray) -> tuple[Any, Any]:
    """Values v and targets y of a case from two arrays of fractions."""
    low, high = case.values
    return jnp.asarray(low + (high - low) * place), jnp.asarray(case.target(kind))


def duals(case: Case, place: np.ndarray, y: Any) -> Any:
    """Dual variables of the closed domain, cut at 25 where it is unbounded."""
    low, high = (jnp.clip(end, -25.0, 25.0) for end in case.loss.domain(y))
    return jnp.minimum(low + (high - low) * place, high)


def away_from_kinks(case: Case, v: Any, y: Any) -> np.ndarray:
    return np.all([np.abs(v - kink) > 4 * STEP for kink in case.kinks(np.asarray(y))] or [v == v], axis=0)


@every_case
@few
@given(fractions, fractions, fractions)
def test_fenchel_young_inequality(case: Any, place: float, other: float, kind: Any) -> None:
    v, y = draws(case, place, kind)
    u = duals(case, other, y)
    gap = case.loss.value(v, y) + case.loss.conjugate(u, y) - u * v
    assert jnp.all(gap >= -1e-10)


@every_case
@few
@given(fractions, fractions)
def test_fenchel_young_is_an_equality_at_the_slope(case: Any, place: float, kind: Any) -> None:
    v, y = draws(case, place, kind)
    u = case.loss.slope(v, y)
    np.testing.assert_allclose(case.loss.value(v, y) + case.loss.conjugate(u, y), u * v, atol=1e-10)


@every_case
def test_biconjugate_is_the_loss(case: Any) -> None:
    fraction = np.linspace(0, 1, 41)
    v, y = draws(case, fraction, np.resize(fraction[::7], 41))
    v = jnp.clip(v, -15.0, 15.0)
    # Cosine spacing crowds the ends of the domain, where the entropies have infinite slope.
    grid = duals(case, (1 - np.cos(np.pi * np.linspace(0, 1, 4001)))[:, None] / 2, y)
    assert jnp.all(grid[0] <= case.loss.slope(v, y))
    assert jnp.all(case.loss.slope(v, y) <= grid[-1])
    supremum = jnp.max(grid * v - case.loss.conjugate(grid, y), axis=0)
    np.testing.assert_allclose(supremum, case.loss.value(v, y), atol=2e-4)


@every_case
@few
@given(fractions, fractions)
def test_slope_lies_between_its_neighbours_and_equals_finite_differences(case: Any, place: float, kind: Any) -> None:
    v, y = draws(case, place, kind)
    loss = case.loss
    difference = (loss.value(v + STEP, y) - loss.value(v - STEP, y)) / (2 * STEP)
    assert jnp.all(loss.slope(v - STEP, y) - 1e-6 <= difference)
    assert jnp.all(difference <= loss.slope(v + STEP, y) + 1e-6)
    smooth = away_from_kinks(case, v, y)
    error = np.where(smooth, loss.slope(v, y) - difference, 0.0)
    np.testing.assert_allclose(error, 0.0, atol=1e-6)


@every_case
@few
@given(fractions, fractions)
def test_slope_is_a_subgradient_everywhere_also_on_kinks(case: Any, place: float, kind: Any) -> None:
    v, y = draws(case, place, kind)
    for start in [v, *case.kinks(y)]:
        line = case.loss.value(start, y) + case.loss.slope(start, y) * (v[::-1] - start)
        assert jnp.all(case.loss.value(v[::-1], y) >= line - 1e-9)


@every_case
@few
@given(fractions, fractions)
def test_curvature_is_the_slope_of_the_slope(case: Any, place: float, kind: Any) -> None:
    v, y = draws(case, place, kind)
    loss = case.loss
    difference = (loss.slope(v + STEP, y) - loss.slope(v - STEP, y)) / (2 * STEP)
    smooth = away_from_kinks(case, v, y)
    error = np.where(smooth, loss.curvature(v, y) - difference, 0.0)
    np.testing.assert_allclose(error, 0.0, atol=1e-7)


@every_case
@few
@given(fractions, fractions)
def test_conjugate_slope_equals_finite_differences_inside_the_domain(case: Any, place: float, kind: Any) -> None:
    y = jnp.asarray(case.target(kind))
    u = duals(case, 0.01 + 0.98 * place, y)
    loss = case.loss
    difference = (loss.conjugate(u + STEP, y) - loss.conjugate(u - STEP, y)) / (2 * STEP)
    np.testing.assert_allclose(loss.conjugate_slope(u, y), difference, atol=1e-6)


@every_case
@few
@given(fractions, fractions)
def test_conjugate_is_finite_on_the_closed_domain_and_infinite_outside(case: Any, place: float, kind: Any) -> None:
    y = jnp.asarray(case.target(kind))
    low, high = case.loss.domain(y)
    assert jnp.all(jnp.isfinite(case.loss.conjugate(duals(case, np.round(place), y), y)))
    for end, beyond in [(low, low - 1e-9 - place), (high, high + 1e-9 + place)]:
        assert jnp.all(jnp.isposinf(case.loss.conjugate(beyond, y)) | jnp.isinf(end))


@every_case
@few
@given(fractions, fractions, fractions)
def test_projection_is_the_nearest_point_of_the_domain(case: Any, place: float, other: float, kind: Any) -> None:
    y = jnp.asarray(case.target(kind))
    u = jnp.asarray(80 * place - 40)
    nearest = case.loss.project(u, y)
    low, high = case.loss.domain(y)
    assert jnp.all((low <= nearest) & (nearest <= high))
    np.testing.assert_array_equal(case.loss.project(nearest, y), nearest)
    assert jnp.all(jnp.abs(u - nearest) <= jnp.abs(u - duals(case, other, y)))


@every_case
@few
@given(fractions, fractions)
def test_slope_lies_in_the_domain_in_both_precisions(case: Any, place: float, kind: Any) -> None:
    for double in (True, False):
        with jax.enable_x64(double):
            v, y = draws(case, 4 * place - 1.5, kind)
            low, high = case.loss.domain(y)
            slope = case.loss.slope(v, y)
            assert jnp.all((low <= slope) & (slope <= high))


@every_case
@few
@given(fractions, fractions)
def test_link_gives_dual_variables_of_the_domain(case: Any, place: float, kind: Any) -> None:
    v, y = draws(case, place, kind)
    for link in [case.loss.link, Clipped(), Legendre()]:
        u = link.dual(case.loss, v, y)
        assert jnp.all(jnp.isfinite(case.loss.conjugate(u, y)))


@every_case
@few
@given(fractions, fractions, fractions)
def test_link_slope_is_the_slope_of_the_payoff_inside_the_domain(
    case: Any, place: float, other: float, kind: Any
) -> None:
    y = jnp.asarray(case.target(kind))
    u = duals(case, 0.01 + 0.98 * place, y)
    moment = jnp.asarray(6 * other - 3)
    # For the Legendre link the v belonging to u is the conjugate's slope.
    legendre = isinstance(case.loss.link, Legendre)
    v = case.loss.conjugate_slope(u, y) if legendre else u
    np.testing.assert_allclose(case.loss.link.dual(case.loss, v, y), u, atol=1e-9)

    def payoff(v: Any) -> Any:
        dual = case.loss.link.dual(case.loss, v, y)
        return dual * moment - case.loss.conjugate(dual, y)

    difference = (payoff(v + STEP) - payoff(v - STEP)) / (2 * STEP)
    np.testing.assert_allclose(case.loss.link.slope(case.loss, v, moment, y), difference, atol=2e-6)


@every_case
@few
@given(fractions, fractions)
def test_legendre_payoff_is_the_loss_at_its_optimum(case: Any, place: float, kind: Any) -> None:
    moment, y = draws(case, place, kind)
    link = Legendre()
    u = link.dual(case.loss, moment, y)
    np.testing.assert_allclose(u * moment - case.loss.conjugate(u, y), case.loss.value(moment, y), atol=1e-10)
    np.testing.assert_array_equal(link.slope(case.loss, moment, moment, y), 0.0)
