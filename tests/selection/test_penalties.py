"""The penalty of the dual is the one that predicts best; efficient weights find noise that varies, and only that."""

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
from dualembed.selection.penalties import DUAL_RATIOS, Variances, prediction_penalty, variances
from dualembed.spaces.nystrom import whitened
from dualembed.tuning import SEARCH

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


def truth(contexts: np.ndarray) -> np.ndarray:
    """σ²(κ), between 0.1 and 2.1."""
    return 0.1 + 2 / (1 + np.exp(-3 * contexts[:, 0]))


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-2, 2, (NOISY_ROWS, 2)), rng.normal(size=NOISY_ROWS)


def found(seed: int, *, even: bool) -> Variances:
    contexts, noise = drawn(seed)
    residuals = noise if even else np.sqrt(truth(contexts)) * noise
    return variances(contexts, residuals, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def uneven() -> list[Variances]:
    return [found(seed, even=False) for seed in range(3)]


def test_strong_heteroscedasticity_is_seen_and_helpful(uneven: list[Variances]) -> None:
    for model in uneven:
        assert model.helpful
        assert model.share >= 0.5
        assert model.gain > 0.1


def test_a_smooth_variance_is_recovered_in_shape_and_size(uneven: list[Variances]) -> None:
    for seed, model in enumerate(uneven):
        wanted = truth(drawn(seed)[0])
        assert np.corrcoef(model.values, wanted)[0, 1] > 0.9
        assert np.mean((model.values - wanted) ** 2) < 0.2 * np.var(wanted)
        assert model.values.mean() == pytest.approx(wanted.mean(), rel=0.1)


def test_the_same_noise_everywhere_asks_for_nothing() -> None:
    models = [found(seed, even=True) for seed in range(5)]
    assert sum(model.share == 0 for model in models) >= 2
    assert not any(model.helpful for model in models)
    for model in models:
        if model.share == 0:
            assert model.gain == 0
            assert np.ptp(model.values) == 0
            assert model.values[0] == pytest.approx(1.0, rel=0.15)
        np.testing.assert_allclose(model.values, 1.0, rtol=0.5)


def test_variances_are_positive_shrunk_and_in_the_units_of_the_residuals() -> None:
    contexts, noise = drawn(0)
    residuals = np.where(contexts[:, 0] > 0, noise, 0.0)  # nothing at all on one half
    model = variances(contexts, residuals, np.random.default_rng(0))
    floor = SEARCH.lowest_variance * np.mean(residuals**2)
    assert np.all(model.values >= floor * (1 - 1e-12))
    assert model.helpful
    scaled = variances(1000 * contexts, 100 * residuals, np.random.default_rng(0))
    np.testing.assert_allclose(scaled.values, 1e4 * model.values, rtol=1e-6)
    assert scaled.share == model.share


def test_a_constant_context_is_no_obstacle() -> None:
    contexts, noise = drawn(1)
    assert not variances(np.ones_like(contexts), noise, np.random.default_rng(0)).helpful


def test_no_residual_at_all_asks_for_nothing() -> None:
    contexts, _ = drawn(1)
    assert not variances(contexts, np.zeros(NOISY_ROWS), np.random.default_rng(0)).helpful


def test_a_group_does_not_vouch_for_itself() -> None:
    # Each group is as noisy as chance would have it: its own rows foretell that, those of other groups cannot.
    rng = np.random.default_rng(0)
    units = np.repeat(np.arange(40), 50)
    contexts = rng.uniform(-2, 2, (40, 2))[units] + 0.01 * rng.normal(size=(NOISY_ROWS, 2))
    residuals = np.exp(rng.normal(size=40))[units] * rng.normal(size=NOISY_ROWS)
    assert variances(contexts, residuals, np.random.default_rng(0)).helpful
    assert not variances(contexts, residuals, np.random.default_rng(0), units=units).helpful


@pytest.mark.parametrize("seed", [2, 10])
def test_of_few_rows_no_weights_are_made(seed: int) -> None:
    """Residuals of exact data are what the penalty leaves, which varies; 25 rows are too few to judge weights by."""
    x = np.random.default_rng(seed).normal(size=(25, 2))
    assert de.IVRegressor().fit(x, 3 * x[:, 0]).score(x, 3 * x[:, 0]) > 0.9
