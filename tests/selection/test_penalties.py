"""The dual's penalty is that of the ridge regression which predicts the moment best on folds left out."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import dualembed as de
from dualembed import problems, sources
from dualembed.kernels import Gaussian
from dualembed.linear import Sums, gather_moments
from dualembed.selection import auto
from dualembed.selection.evidence import Instruments, of_unit_norm, orthonormal
from dualembed.selection.penalties import DUAL_RATIOS, prediction_penalty
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
