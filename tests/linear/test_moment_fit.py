"""Uncertainty: the textbook's standard errors where there is a textbook, and bands that cover as often as they say."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import dualembed as de
from dualembed import problems, solvers, sources, spaces
from dualembed.linear import MomentSystem, Spread
from dualembed.solvers import standard_errors

ROWS = 150
GRID = np.linspace(-2, 2, 9)
LEVEL = 0.95


def line(x: jax.Array) -> jax.Array:
    return jnp.concatenate([jnp.ones_like(x), x], axis=1)


def columns(seed: int, rows: int = ROWS) -> dict[str, np.ndarray]:
    """y = 1 + 2 x + noise that grows with |x|."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    return {"x": x, "z": x, "y": 1 + 2 * x + (0.3 + np.abs(x)) * rng.normal(size=rows)}


def regression(table: dict[str, np.ndarray]) -> de.Saddle:
    """Plain regression: x is its own instrument, so that A = C and θ is that of least squares."""
    problem = problems.InstrumentalVariables(sources.Dataset(**table))
    return de.Saddle(problem, spaces.Basis(line), spaces.Basis(line), primal_penalty=1e-12)


def solved(table: dict[str, np.ndarray]) -> tuple[de.Saddle, solvers.Result]:
    saddle = regression(table)
    return saddle, de.solve(0, saddle, solvers.ClosedForm(folds=1))


@pytest.fixture(scope="module")
def fit() -> tuple[de.Saddle, solvers.Result]:
    return solved(columns(0))


@pytest.fixture(scope="module")
def found(fit: tuple[de.Saddle, solvers.Result]) -> Spread:
    return standard_errors(*fit)


def textbook() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(coefficients, classical covariance, White's covariance HC0) of least squares, the variance being RSS / n."""
    table = columns(0)
    design = np.stack([np.ones(ROWS), table["x"]], axis=1)
    inverse = np.linalg.inv(design.T @ design)
    beta = inverse @ design.T @ table["y"]
    residual = table["y"] - design @ beta
    classical = residual @ residual / ROWS * inverse
    return beta, classical, inverse @ (design.T * residual**2) @ design @ inverse


def errors(covariance: np.ndarray) -> np.ndarray:
    at = np.stack([np.ones(len(GRID)), GRID], axis=1)
    return np.sqrt(np.einsum("ij,jk,ik->i", at, covariance, at))


def test_in_plain_regression_they_are_those_of_white(found: Spread) -> None:
    np.testing.assert_allclose(found.std(GRID), errors(textbook()[2]), rtol=1e-6)
    assert found.std([2.0])[0] > 1.2 * errors(textbook()[1])[-1]  # the noise grows with |x|


def test_with_noise_of_one_variance_they_are_the_classical_ones(fit: tuple[de.Saddle, solvers.Result]) -> None:
    closed = fit[1].closed
    variance = closed.residual_variance
    root = closed.system.error(closed.penalty, variance * closed.sums.mean_dual, variance=variance)
    np.testing.assert_allclose(root @ root.T, textbook()[1], rtol=1e-6)


@pytest.mark.parametrize("penalty", [1e-6, 0.02, 1.0, 50.0])
def test_with_noise_of_one_variance_and_a_penalty_they_are_the_posteriors(fit: Any, penalty: float) -> None:
    """(σ² / n)(N + λ1)⁻¹: what the penalty hides and what the sample adds make up the posterior of the ridge."""
    sums = fit[1].closed.sums
    system = MomentSystem(sums)
    root = system.error(penalty, 1.7 * sums.mean_dual, variance=1.7)
    posterior = 1.7 / ROWS * np.linalg.inv(system.products[0] + penalty * np.eye(2))
    np.testing.assert_allclose(root @ root.T, posterior, rtol=1e-8)


def test_intervals_are_normal_ones_around_the_function(fit: Any, found: Spread) -> None:
    f = np.asarray(fit[1].primal(GRID))
    np.testing.assert_allclose(found.weights, textbook()[0], rtol=1e-8)
    np.testing.assert_allclose(found.values(GRID), f, rtol=1e-5, atol=1e-6)
    for level in (0.5, LEVEL):
        lower, upper = found.interval(GRID, level)
        np.testing.assert_allclose((lower + upper) / 2, f, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose((upper - lower) / 2, norm.ppf((1 + level) / 2) * found.std(GRID), rtol=1e-9)


def test_the_average_over_one_point_is_the_function_there(fit: Any, found: Spread) -> None:
    for x in (-1.5, 0.7):
        estimate = found.average([x])
        assert estimate.value == pytest.approx(float(fit[1].primal([x])[0]), rel=1e-6)
        assert estimate.stderr == pytest.approx(found.std([x])[0], rel=1e-12)


def test_a_contrast_is_a_slope_with_the_standard_error_of_a_slope(found: Spread) -> None:
    beta, _, white = textbook()
    estimate = found.average([1.0, 0.0], weights=[1.0, -1.0])
    assert estimate.value == pytest.approx(beta[1], rel=1e-8)
    assert estimate.stderr == pytest.approx(np.sqrt(white[1, 1]), rel=1e-6)
    middle = found.average(GRID)
    assert middle.stderr == pytest.approx(np.sqrt(white[0, 0]), rel=1e-6)  # the grid's mean is zero


def test_a_band_contains_the_interval_and_grows_with_its_level(found: Spread) -> None:
    inner, outer = found.interval(GRID, LEVEL), found.band(GRID, LEVEL)
    assert np.all(outer[0] < inner[0])
    assert np.all(inner[1] < outer[1])
    narrow = found.band(GRID, 0.5)
    assert np.all(outer[0] < narrow[0])
    assert np.all(narrow[1] < outer[1])
    again = found.band(GRID, LEVEL)
    assert np.array_equal(outer[0], again[0])
    half = (outer[1] - outer[0]) / 2 / found.std(GRID)
    assert np.ptp(half) < 1e-9
    assert half[0] < np.sqrt(5.99) * 1.05  # Scheffé's band for a line, all of it, is the widest there can be


def test_the_band_at_one_point_is_its_interval(found: Spread) -> None:
    (lower,), (upper,) = found.band([0.5], LEVEL, draws=20_000)
    wanted = found.interval([0.5], LEVEL)
    assert upper - lower == pytest.approx(float(wanted[1][0] - wanted[0][0]), rel=0.03)


def test_a_band_covers_the_whole_line_about_as_often_as_it_says() -> None:
    covered, pointwise = [], []
    for seed in range(100):
        spread = standard_errors(*solved(columns(1000 + seed)))
        truth = 1 + 2 * GRID
        lower, upper = spread.band(GRID, LEVEL, draws=300)
        covered.append(bool(np.all((lower <= truth) & (truth <= upper))))
        lower, upper = spread.interval(GRID, LEVEL)
        pointwise.append(np.mean((lower <= truth) & (truth <= upper)))
    assert np.mean(covered) >= 0.85
    assert np.mean(pointwise) >= 0.85


def test_copies_of_rows_in_one_group_each_tell_no_more_than_the_rows_do(found: Spread) -> None:
    copies = {name: np.repeat(column, 3) for name, column in columns(0).items()}
    saddle, result = solved(copies)
    grouped = standard_errors(saddle, result, groups=np.repeat(np.arange(ROWS), 3))
    fooled = standard_errors(saddle, result)
    np.testing.assert_allclose(grouped.std(GRID), found.std(GRID), rtol=1e-6)
    np.testing.assert_allclose(fooled.std(GRID), found.std(GRID) / np.sqrt(3), rtol=1e-6)


def test_groups_of_one_row_change_nothing_and_labels_are_only_names(fit: Any, found: Spread) -> None:
    labels = np.random.default_rng(0).permutation(ROWS) * 7 - 300
    alone = standard_errors(*fit, groups=labels)
    np.testing.assert_allclose(alone.std(GRID), found.std(GRID), rtol=1e-9)
    named = standard_errors(*fit, groups=labels.astype(str))
    np.testing.assert_allclose(named.std(GRID), alone.std(GRID), rtol=1e-9)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda spread: spread.interval(GRID, 1.0), "level must lie between 0 and 1"),
        (lambda spread: spread.band(GRID, 0.0), "level must lie between 0 and 1"),
        (lambda spread: spread.band(GRID, draws=0), "draws must be a whole number"),
        (lambda spread: spread.average(GRID, [1.0]), r"weights must have shape \(9,\)"),
        (lambda spread: spread.std(np.zeros((4, 2))), r"points must have shape \(n, 1\)"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(act: Callable[[Spread], Any], words: str, found: Spread) -> None:
    with pytest.raises(de.InputError, match=words) as refusal:
        act(found)
    assert "\n" not in str(refusal.value)


PENALTY = 0.02


def mixed(priors: list[tuple[float, np.ndarray]], noise: float = 1.0) -> tuple[Spread, np.ndarray]:
    """Errors under these priors of the line's weights around the identity's, and what they are computed from.

    `noise` is that of moments, against the n λ that the penalty stands for.
    """
    table = columns(0)
    _, result = solved(table)
    sums, features = result.closed.sums, result.closed.primal
    system = MomentSystem(sums)
    theta = system.weights(PENALTY)
    design = np.stack([np.ones(ROWS), table["x"]], axis=1)
    scores = noise * ROWS * PENALTY * sums.mean_dual
    return Spread(
        features, theta, system.mixed_error(PENALTY, scores, theta, [(0.0, *prior) for prior in priors])
    ), design


def test_under_uncertain_priors_they_are_those_of_the_mixture_around_the_function() -> None:
    """Against Bayesian linear regression by the book, noise of variance n λ, and the law of total variance."""
    priors = [(0.3, np.diag([4.0, 0.25])), (0.7, np.array([[1.0, 0.5], [0.5, 2.0]]))]
    found, design = mixed(priors)
    y = columns(0)["y"]
    total = np.zeros((2, 2))
    for probability, prior in priors:
        covariance = np.linalg.inv(design.T @ design / (ROWS * PENALTY) + np.linalg.inv(prior))
        move = covariance @ design.T @ y / (ROWS * PENALTY) - found.weights
        total += probability * (covariance + np.outer(move, move))
    np.testing.assert_allclose(found.root @ found.root.T, total, rtol=1e-6)


def test_weights_under_uncertain_priors_are_the_mean_of_those_under_each() -> None:
    """Against Bayesian linear regression by the book, with noise of variance n λ."""
    table = columns(0)
    design = np.stack([np.ones(ROWS), table["x"]], axis=1)
    priors = [(0.3, 0.0, np.diag([4.0, 0.25])), (0.7, 0.0, np.array([[1.0, 0.5], [0.5, 2.0]]))]
    means = [
        np.linalg.solve(design.T @ design + ROWS * PENALTY * np.linalg.inv(prior), design.T @ table["y"])
        for *_, prior in priors
    ]
    found = MomentSystem(solved(table)[1].closed.sums).mixed_weights(PENALTY, priors)
    np.testing.assert_allclose(found, 0.3 * means[0] + 0.7 * means[1], rtol=1e-6)


def test_a_certain_prior_gives_its_own_posterior_and_doubt_adds_the_distance_of_the_functions() -> None:
    found, design = mixed([(1.0, np.eye(2))])
    alone = np.linalg.inv(design.T @ design / (ROWS * PENALTY) + np.eye(2))
    np.testing.assert_allclose(found.root @ found.root.T, alone, rtol=1e-6)
    priors = 0.2 * np.eye(2), 5.0 * np.eye(2)
    doubtful, _ = mixed([(0.5, prior) for prior in priors])
    own = [np.linalg.inv(design.T @ design / (ROWS * PENALTY) + np.linalg.inv(prior)) for prior in priors]
    assert np.all(doubtful.std(GRID) > errors(sum(own) / 2))


def test_noise_beyond_what_the_penalty_takes_it_for_widens_errors_and_less_narrows_them() -> None:
    priors = [(0.5, np.eye(2)), (0.5, 3 * np.eye(2))]
    low, middle, high = (mixed(priors, noise)[0].std(GRID) for noise in (0.1, 1.0, 4.0))
    assert np.all(low < middle)
    assert np.all(middle < high)


def test_only_closed_forms_have_standard_errors(fit: tuple[de.Saddle, solvers.Result]) -> None:
    saddle, result = fit
    other: Any = dataclasses.replace(result, closed=None)
    with pytest.raises(de.InputError, match=r"closed-form results in linear spaces; use solvers\.ClosedForm"):
        standard_errors(saddle, other)
