"""The penalty of the dual is the one that predicts best; noise of moments is seen where it varies, and only there."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import dualembed as de
from dualembed import problems, sources
from dualembed.kernels import Gaussian
from dualembed.linear import Sums, gather_moments
from dualembed.linear.moment_fit import MomentFit
from dualembed.selection import auto
from dualembed.selection.instruments import Instruments, of_unit_norm, orthonormal
from dualembed.selection.penalties import DUAL_RATIOS, choose_noise, prediction_penalty
from dualembed.solvers.base import Choice
from dualembed.spaces.basis import AffineMap, PolynomialMap
from dualembed.spaces.nystrom import whitened

ROWS, FOLDS = 300, 5


def dual(z: np.ndarray) -> Instruments:
    return of_unit_norm(orthonormal(Gaussian(0.7), z, z[:40], tolerance=1e-6))


def sums_of(x: np.ndarray, z: np.ndarray) -> Sums:
    problem = problems.InstrumentalVariables(sources.Dataset(x=x, z=z, y=x[:, 0]))
    return gather_moments(problem, whitened(Gaussian(1.0), np.linspace(-2, 2, 9)[:, None]), dual(z), folds=FOLDS)


def data(strength: float, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(ROWS, 1))
    return strength * np.sin(2 * z) + noise * rng.normal(size=(ROWS, 1)), z


def test_it_minimises_the_error_of_ridge_regression_on_the_folds_left_out() -> None:
    x, z = data(1.0)
    phi = np.asarray(dual(z)(z))[:, 1:]
    g = np.asarray(whitened(Gaussian(1.0), np.linspace(-2, 2, 9)[:, None])(x))
    g = g - g.mean(axis=0)
    largest = np.linalg.eigvalsh(phi.T @ phi / ROWS)[-1]
    fold = np.arange(ROWS) % FOLDS
    errors = []
    for ratio in DUAL_RATIOS:
        error = 0.0
        for left in range(FOLDS):
            some = fold != left
            ridge = Ridge(alpha=ratio * largest * some.sum(), fit_intercept=False).fit(phi[some], g[some])
            error += np.sum((g[~some] - ridge.predict(phi[~some])) ** 2)
        errors.append(error)
    assert 0 < np.argmin(errors) < len(errors) - 1
    found, step = prediction_penalty(sums_of(x, z))
    assert found == pytest.approx(DUAL_RATIOS[np.argmin(errors)] * largest, rel=1e-9)
    assert "by prediction" in str(step)


def test_moments_of_instruments_that_say_nothing_hardly_count() -> None:
    _, step = prediction_penalty(sums_of(*data(0.0)))
    assert step.numbers["that count as"] < 0.2 * step.numbers["moments"]


def test_where_the_context_tells_all_every_moment_counts() -> None:
    """A smooth function of z without noise: only rounding keeps the smallest moments from predicting it."""
    _, step = prediction_penalty(sums_of(*data(1.0, noise=0.0)))
    assert step.numbers["that count as"] > 0.9 * step.numbers["moments"]


def test_a_shift_of_the_moment_changes_nothing() -> None:
    """The constant is among the instruments, and is not penalised with the others."""
    x, z = data(1.0)
    landmarks = np.linspace(-2, 2, 9)[:, None]
    features = whitened(Gaussian(1.0), landmarks)
    plain = sums_of(x, z)
    shift = 1000 * np.ones(features.size)
    # Σ φ of each fold, by the constant among them.
    totals = plain.dual[:, :, 0] / np.sqrt(plain.dual[:, 0, 0] / plain.count)[:, None]
    moved = dataclasses.replace(plain, cross=plain.cross + totals[:, :, None] * shift)
    assert prediction_penalty(moved)[0] == pytest.approx(prediction_penalty(plain)[0], rel=1e-6)


def test_rows_of_one_group_alone_leave_it_none() -> None:
    x, z = data(1.0)
    problem = problems.InstrumentalVariables(sources.Dataset(x=x, z=z, y=x[:, 0]))
    features = whitened(Gaussian(1.0), np.linspace(-2, 2, 9)[:, None])
    sums = gather_moments(problem, features, dual(z), folds=FOLDS, groups=np.zeros(ROWS))
    assert prediction_penalty(sums)[0] == 0.0


def test_instruments_of_unit_norm_are_the_same_functions_and_the_constant_stands_out() -> None:
    z = np.random.default_rng(1).normal(size=(200, 1))
    before = orthonormal(Gaussian(0.7), z, z[:40], tolerance=1e-6)
    found = of_unit_norm(before)
    ratios = np.asarray(found(z)) / np.asarray(before(z))
    np.testing.assert_allclose(ratios, np.broadcast_to(ratios[0], ratios.shape), rtol=1e-6)
    inner = found.transform[1:, 1:]
    gram = np.asarray(found.kernel.gram(found.landmarks, found.landmarks))
    np.testing.assert_allclose(np.diag(inner.T @ gram @ inner), 1.0, rtol=1e-9)
    variances = np.mean(np.asarray(found(z)) ** 2, axis=0)
    assert variances[0] > 50 * variances[1:].max()


def test_the_record_is_a_closed_form_with_that_penalty() -> None:
    x, z = data(1.0)
    result = auto(0, problems.InstrumentalVariables(sources.Dataset(x=x, z=z, y=x[:, 0])))
    assert result.record.saddle.dual_penalty > 0
    again = de.solve(0, result.record.saddle, result.record.solver)
    np.testing.assert_allclose(again.primal(x), result.primal(x), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(again.dual.function(z), result.dual.function(z), rtol=1e-4, atol=1e-5)


NOISY_ROWS = 2000


def noise_of(
    residuals: np.ndarray, z: np.ndarray, groups: np.ndarray | None = None
) -> tuple[np.ndarray | None, Choice]:
    """What is found of the noise where f = 0 leaves these residuals, in instruments that are orthonormal in z."""
    problem = problems.InstrumentalVariables(sources.Dataset(x=z[:, :1], z=z, y=residuals))
    features = AffineMap(1)
    fit = MomentFit(
        features,
        PolynomialMap.orthonormal(z),
        gather_moments(problem, features, PolynomialMap.orthonormal(z)),
        np.zeros(2),
        0.1,
        0.0,
    )
    return choose_noise(problem, fit, groups=groups)


def test_noise_that_varies_with_the_context_is_seen_where_it_is() -> None:
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, size=(NOISY_ROWS, 1))
    noise, choice = noise_of(z[:, 0] * rng.normal(size=NOISY_ROWS), z)
    assert choice.numbers["drawn towards noise of one variance by"] < 0.2
    # E[z² q²] / E[z²] of Legendre's polynomials q = 1, √3 z and √5 (3 z² - 1) / 2.
    np.testing.assert_allclose(np.diag(noise)[:3], [1, 9 / 5, 11 / 7], rtol=0.15)


def test_noise_of_one_variance_is_taken_for_that() -> None:
    shares = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(NOISY_ROWS, 1))
        noise, choice = noise_of(rng.normal(size=NOISY_ROWS), z)
        shares.append(choice.numbers["drawn towards noise of one variance by"])
        if noise is not None:
            np.testing.assert_allclose(noise, np.eye(len(noise)), atol=0.15)
    assert np.mean(shares) > 0.6


def test_noise_is_free_of_the_units_of_the_residuals_and_none_where_there_are_none() -> None:
    rng = np.random.default_rng(1)
    z, e = rng.normal(size=(NOISY_ROWS, 1)), rng.normal(size=NOISY_ROWS)
    once, thousand = (noise_of(scale * np.exp(z[:, 0]) * e, z)[0] for scale in (1.0, 1000.0))
    np.testing.assert_allclose(once, thousand, rtol=1e-9)
    assert noise_of(np.zeros(NOISY_ROWS), z)[0] is None


def test_noise_of_groups_is_that_of_their_sums() -> None:
    """Where 50 rows share their noise and their instruments, moments have 50 times the variance."""
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(400), 50)
    z = rng.normal(size=400)[groups][:, None]
    noise, choice = noise_of(rng.normal(size=400)[groups], z, groups)
    assert choice.answer == "of rows in groups"
    np.testing.assert_allclose(np.diag(noise)[:3], 50, rtol=0.35)


@pytest.mark.parametrize("seed", [2, 10])
def test_few_exact_rows_are_no_obstacle(seed: int) -> None:
    """Residuals of exact data are what the penalty leaves, which varies."""
    x = np.random.default_rng(seed).normal(size=(25, 2))
    assert de.IVRegressor().fit(x, 3 * x[:, 0]).score(x, 3 * x[:, 0]) > 0.9
