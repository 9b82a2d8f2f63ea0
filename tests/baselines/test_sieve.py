"""Spline sieves find what npiv finds, say how sure they are, and refuse what they cannot tell."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import BSpline
from tests.recorded import DATA, needs_data

from dualembed.baselines import CrossValidatedSieveIV, SieveIV, TwoStageLeastSquares
from dualembed.baselines.sieve import comparison_points, feasible_fits, smallest_alike, smallest_nearly_best
from dualembed.baselines.spline_fit import SplineFit, bootstrapped
from dualembed.baselines.splines import AdditiveSplines, TensorSplines, b_splines, even_breaks, quantile_breaks
from dualembed.checks import InputError
from dualembed.data import read_table

BREAKS = pytest.mark.parametrize("breaks", [even_breaks, quantile_breaks])


def confounded(n: int, seed: int, curve: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y, z of y = curve(x) + u, with x = z + u / 2 and z and u uniform on [-1, 1]."""
    z, u = np.random.default_rng(seed).uniform(-1, 1, (2, n))
    x = z + u / 2
    return x, curve(x) + u, z


@BREAKS
@pytest.mark.parametrize("degree", [1, 3, 4])
def test_b_splines_are_those_of_scipy(breaks: Any, degree: int) -> None:
    x = np.random.default_rng(0).standard_normal(100)
    ends = breaks(x, 5)
    knots = np.concatenate([np.repeat(ends[0], degree), ends, np.repeat(ends[-1], degree)])
    truth = BSpline.design_matrix(x, knots, degree).toarray()
    assert np.allclose(b_splines(np, x, ends, degree), truth, atol=1e-14)
    assert np.allclose(b_splines(jnp, jnp.asarray(x), jnp.asarray(ends), degree), truth, atol=1e-5)


def test_b_splines_go_on_as_straight_lines_beyond_the_ends() -> None:
    ends = np.asarray([0.0, 1.0, 2.0])
    weights = np.asarray([0.0, 1.0, -1.0, 2.0, 0.5])
    outside = b_splines(np, np.asarray([2.0, 2.5, 3.0, 4.0]), ends, 3) @ weights
    slope = jax.grad(lambda x: (b_splines(jnp, x[None], jnp.asarray(ends), 3) @ weights)[0])(jnp.asarray(1.99999))
    assert np.allclose(np.diff(outside) / [0.5, 0.5, 1.0], slope, rtol=1e-3)
    assert np.allclose(b_splines(np, np.asarray([-7.0, 9.0]), ends, 3).sum(axis=1), 1.0)


def test_tensor_products_hold_products_and_sums_hold_none() -> None:
    points = np.random.default_rng(1).uniform(-1, 1, (300, 2))
    product = points[:, 0] * points[:, 1]
    tensor, additive = (kind.of(points, 2, degree=3, breaks=even_breaks) for kind in (TensorSplines, AdditiveSplines))
    assert (tensor.size, additive.size) == (25, 9)

    def misfit(features: np.ndarray) -> float:
        return float(np.abs(features @ np.linalg.lstsq(features, product, rcond=None)[0] - product).max())

    assert misfit(tensor.compute(np, points)) < 1e-10
    assert misfit(additive.compute(np, points)) > 0.5
    both = points[:, 0] ** 3 + np.abs(points[:, 1])
    features = additive.compute(np, points)
    assert np.linalg.matrix_rank(features) == 9
    assert np.abs(features @ np.linalg.lstsq(features, both, rcond=None)[0] - both).max() < 0.15


def test_a_column_of_few_values_has_as_many_functions_as_values() -> None:
    points = np.stack([np.arange(60) % 2, np.arange(60) % 7, np.full(60, 3.0), np.linspace(0, 1, 60)], axis=1)
    for breaks in (even_breaks, quantile_breaks):
        splines = TensorSplines.of(points.astype(float), 8, degree=3, breaks=breaks)
        assert splines.sizes[:3] == (2, 7, 1)
        assert splines.sizes[3] == 11


@BREAKS
def test_a_cubic_without_noise_is_found_exactly(breaks: Any) -> None:
    rng = np.random.default_rng(2)
    z = rng.uniform(-1, 1, 400)
    x = z + 0.2 * rng.uniform(-1, 1, 400)
    points = np.linspace(-0.9, 0.9, 7)
    for method in (SieveIV(breaks=breaks), CrossValidatedSieveIV(breaks=breaks)):
        result = method.fit(x, 1 + x - 2 * x**3, z)
        assert np.allclose(result.primal(points), 1 + points - 2 * points**3, atol=1e-5)
        assert np.allclose(result.dual(points), 0.0, atol=1e-5)


def test_one_piece_is_two_stage_least_squares_in_cubics() -> None:
    """With one piece on either side splines are polynomials, of x of degree 3 and of z of degree 3."""
    x, y, z = (each.reshape(len(each), -1) for each in confounded(500, 3, np.sin))
    splines, instruments = (TensorSplines.of(each, 1, degree=3, breaks=even_breaks) for each in (x, z))
    fit = SplineFit.of(splines, instruments, x=x, y=y[:, 0], z=z)
    points = np.linspace(-1, 1, 5)
    polynomial = TwoStageLeastSquares(degree=3).fit(x, y[:, 0], z)
    assert np.allclose(splines.compute(np, points[:, None]) @ fit.weights, polynomial.primal(points), atol=1e-5)
    assert np.allclose(instruments.compute(np, points[:, None]) @ fit.dual_weights, polynomial.dual(points), atol=1e-5)


def test_errors_are_the_robust_sandwich_of_the_textbook() -> None:
    x, y, z = (each.reshape(len(each), -1) for each in confounded(300, 4, np.abs))
    splines, instruments = (
        TensorSplines.of(x, 2, degree=3, breaks=even_breaks),
        TensorSplines.of(z, 4, degree=4, breaks=even_breaks),
    )
    psi, phi = splines.compute(np, x), instruments.compute(np, z)
    projection = phi @ np.linalg.pinv(phi)
    bread = np.linalg.inv(psi.T @ projection @ psi)
    theta = bread @ psi.T @ projection @ y[:, 0]
    scores = (projection @ psi) * (y - psi @ theta[:, None])
    fit = SplineFit.of(splines, instruments, x=x, y=y[:, 0], z=z)
    assert np.allclose(fit.weights, theta, rtol=1e-6)
    (drawn,) = bootstrapped([fit], 20_000, 0)
    assert np.allclose(drawn.covariance, bread @ scores.T @ scores @ bread, rtol=1e-6)
    assert np.allclose(np.diag(np.cov(drawn.moves)) / np.diag(drawn.covariance), 1.0, atol=0.05)
    roots = [np.linalg.svd(each, full_matrices=False)[0] for each in (psi, phi)]
    assert 1 / fit.ill_posedness == pytest.approx(np.linalg.svd(roots[0].T @ roots[1])[1][-1], rel=1e-6)


def test_smooth_functions_get_few_splines_and_rough_ones_more() -> None:
    smooth = SieveIV(draws=199).fit(*confounded(2000, 5, lambda x: x)).uncertainty
    rough = SieveIV(draws=199).fit(*confounded(2000, 5, lambda x: 2 * np.sin(5 * x))).uncertainty
    assert smooth.dimension == smooth.dimensions[0] == 4
    assert rough.dimension > 4
    assert rough.dimension <= rough.dimensions[-2]
    assert len(rough.ill_posedness) == len(rough.dimensions)


def test_the_threshold_is_a_quantile_of_differences_between_dimensions() -> None:
    x, y, z = (each.reshape(len(each), -1) for each in confounded(600, 6, np.sin))
    fits = feasible_fits(SieveIV(), x, y[:, 0], z)[:2]
    drawn = bootstrapped(fits, 499, 0)
    points = comparison_points(x)
    assert points.shape == (50, 1)
    threshold, chosen = smallest_alike(fits, drawn, points)
    psi = [fit.splines.compute(np, points) for fit in fits]
    errors = np.linalg.norm(psi[0] @ fits[0].influence - psi[1] @ fits[1].influence, axis=1)
    largest = np.abs((psi[0] @ drawn[0].moves - psi[1] @ drawn[1].moves) / errors[:, None]).max(axis=0)
    risk = np.sqrt(np.log(5) / 5)
    assert risk > 0.5
    assert threshold == pytest.approx(np.median(largest))
    assert chosen == 0


def test_bands_hold_intervals_and_cover_more_points_by_being_wider() -> None:
    spread = SieveIV().fit(*confounded(1000, 7, np.sin)).uncertainty
    points = np.linspace(-1, 1, 41)
    values, errors = spread.evaluate(points)
    for level in (0.5, 0.95):
        (low, high), (lower, upper) = spread.interval(points, level), spread.band(points, level)
        assert np.allclose((low + high) / 2, values)
        assert np.all(lower < low)
        assert np.all(high < upper)
    assert np.allclose(spread.interval(points)[1] - values, 1.959964 * errors)
    few, many = spread.band(points[:1]), spread.band(points)
    assert many[0][0] < few[0][0]


def test_bands_cover_the_whole_curve_in_nineteen_of_twenty_samples() -> None:
    points = np.linspace(-1.2, 1.2, 25)
    held = []
    for seed in range(20):
        lower, upper = SieveIV(draws=199, seed=seed).fit(*confounded(400, seed, np.sin)).uncertainty.band(points)
        held.append(np.all((lower <= np.sin(points)) & (np.sin(points) <= upper)))
    assert np.sum(held) >= 19


def test_two_treatments_and_two_instruments_are_told_apart() -> None:
    rng = np.random.default_rng(8)
    z, u = rng.uniform(-1, 1, (2000, 2)), rng.uniform(-1, 1, 2000)
    x = z + 0.4 * u[:, None]
    points = rng.uniform(-0.7, 0.7, (50, 2))
    truth = points[:, 0] * points[:, 1]
    tensor = SieveIV(draws=199).fit(x, x[:, 0] * x[:, 1] + 2 * u, z)
    assert np.mean((tensor.primal(points) - truth) ** 2) < 0.02
    lower, upper = tensor.uncertainty.band(points)
    assert np.all((lower < truth) & (truth < upper))
    additive = SieveIV(basis=AdditiveSplines, draws=199).fit(x, x[:, 0] ** 2 - x[:, 1] + 2 * u, z)
    assert np.mean((additive.primal(points) - points[:, 0] ** 2 + points[:, 1]) ** 2) < 0.02
    assert additive.uncertainty.dimension < tensor.uncertainty.dimension


def test_plain_regression_takes_the_same_splines_on_both_sides() -> None:
    x = np.random.default_rng(9).uniform(-1, 1, 400)
    y = np.abs(x) + 0.1 * np.random.default_rng(10).standard_normal(400)
    result = SieveIV(draws=199).fit(x, y, x)
    spread = result.uncertainty
    psi = result.primal.features.compute(np, x[:, None])
    assert np.allclose(spread.evaluate(x)[0], psi @ np.linalg.lstsq(psi, y, rcond=None)[0])
    assert spread.ill_posedness[0] == pytest.approx(1.0)


def test_the_least_dimension_is_kept_where_even_that_is_too_ill_posed() -> None:
    rng = np.random.default_rng(11)
    x, y, z = rng.standard_normal((3, 100))  # the instrument is irrelevant
    spread = SieveIV(draws=99).fit(x, y, z).uncertainty
    assert spread.dimension == 4
    assert np.all(np.isfinite(spread.band([0.0, 1.0])))


def test_cross_validation_takes_the_smallest_of_what_folds_cannot_tell_apart() -> None:
    errors = np.asarray([[3.0, 1.0, 0.9, 1.0], [3.2, 1.1, 1.2, 1.1], [3.1, 1.2, 1.1, 0.9]])
    assert np.argmin(errors.mean(axis=0)) == 3
    assert smallest_nearly_best(errors[:, :3]) == 1
    assert smallest_nearly_best(errors[:, :1]) == 0


def test_cross_validation_needs_more_pieces_for_waves() -> None:
    x, y, z = confounded(2000, 12, lambda x: 3 * np.sin(5 * x))
    spread = CrossValidatedSieveIV(draws=99).fit(x, y, z).uncertainty
    assert spread.dimension > 5
    assert np.all(np.diff(spread.dimensions) > 0)
    points = np.linspace(-1, 1, 21)
    error, cubic = (
        np.mean((values - 3 * np.sin(5 * points)) ** 2)
        for values in (spread.evaluate(points)[0], TwoStageLeastSquares(3).fit(x, y, z).primal(points))
    )
    assert error < cubic / 4


@pytest.mark.parametrize("method", [SieveIV(), CrossValidatedSieveIV()])
def test_too_few_instruments_or_rows_are_refused(method: Any) -> None:
    x, y, z = confounded(200, 13, np.sin)
    with pytest.raises(InputError, match="4 splines of x and 2 of z"):
        method.fit(x, y, z > 0)
    with pytest.raises(InputError, match="at most half as many as there are rows"):
        method.fit(x[:9], y[:9], z[:9])
    with pytest.raises(InputError, match="equally many rows"):
        method.fit(x, y, z[:9])


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="draws"):
        SieveIV(draws=0)
    with pytest.raises(InputError, match="folds"):
        CrossValidatedSieveIV(folds=1)
    spread = SieveIV(draws=9).fit(*confounded(200, 14, np.sin)).uncertainty
    with pytest.raises(InputError, match="level"):
        spread.band([0.0], level=1.0)
    with pytest.raises(InputError, match="shape"):
        spread.interval([[0.0, 1.0]])


@needs_data
def test_the_engel_curve_of_food_is_that_of_npiv() -> None:
    table = read_table(DATA / "iv" / "engel95.csv")
    x, y, z = (np.asarray(table[name], dtype=float) for name in ("logexp", "food", "logwages"))
    points = np.asarray([4.75, 5.46, 6.18])
    result = SieveIV().fit(x, y, z)
    values, errors = result.uncertainty.evaluate(points)
    # From moderndid 0.2.0, a port of npiv, to all digits that it prints; its bands have other draws.
    assert np.allclose(values, [0.24742746, 0.20678771, 0.15658119], atol=5e-9)
    assert np.allclose(errors, [0.01009044, 0.00431776, 0.0088519], atol=5e-9)
    assert np.allclose(result.primal(points), values, atol=1e-6)
    lower, upper = result.uncertainty.band(points)
    assert np.allclose(lower, [0.209, 0.190, 0.123], atol=0.005)
    assert np.allclose(upper, [0.286, 0.223, 0.190], atol=0.005)
    quantiles = SieveIV(breaks=quantile_breaks).fit(x, y, z).uncertainty.evaluate(points)
    assert np.allclose(
        quantiles, [[0.24641426, 0.20747642, 0.15499642], [0.01129795, 0.00523568, 0.01092414]], atol=5e-9
    )
