"""Efficient weights: the noise's variance is found where it varies, and left alone where it does not."""

from __future__ import annotations

import numpy as np
import pytest

import dualembed as de
from dualembed.selection.penalties import Variances, variances
from dualembed.tuning import SEARCH

ROWS = 2000


def truth(contexts: np.ndarray) -> np.ndarray:
    """σ²(κ), between 0.1 and 2.1."""
    return 0.1 + 2 / (1 + np.exp(-3 * contexts[:, 0]))


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-2, 2, (ROWS, 2)), rng.normal(size=ROWS)


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
    assert not variances(contexts, np.zeros(ROWS), np.random.default_rng(0)).helpful


def test_a_group_does_not_vouch_for_itself() -> None:
    # Each group is as noisy as chance would have it: its own rows foretell that, those of other groups cannot.
    rng = np.random.default_rng(0)
    units = np.repeat(np.arange(40), 50)
    contexts = rng.uniform(-2, 2, (40, 2))[units] + 0.01 * rng.normal(size=(ROWS, 2))
    residuals = np.exp(rng.normal(size=40))[units] * rng.normal(size=ROWS)
    assert variances(contexts, residuals, np.random.default_rng(0)).helpful
    assert not variances(contexts, residuals, np.random.default_rng(0), units=units).helpful


@pytest.mark.parametrize("seed", [2, 10])
def test_of_few_rows_no_weights_are_made(seed: int) -> None:
    """Residuals of exact data are what the penalty leaves, which varies; 25 rows are too few to judge weights by."""
    x = np.random.default_rng(seed).normal(size=(25, 2))
    assert de.IVRegressor().fit(x, 3 * x[:, 0]).score(x, 3 * x[:, 0]) > 0.9
