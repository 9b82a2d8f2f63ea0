"""Prediction from variations of inputs: f itself, its mean over draws, probabilities."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.estimators.cases import HIDDEN, X, Y, fitted, small

import dualembed as de


def test_an_invariant_prediction_does_not_change_between_calls() -> None:
    model = de.InvariantRegressor("noise", draws=2, random_state=None, **small()).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X[:5]), model.predict(X[:5]))


def test_an_invariant_regressor_learns_the_function_behind_noisy_inputs() -> None:
    rng = np.random.default_rng(4)
    clean = rng.uniform(-2, 2, size=3000)
    noisy = clean + 0.5 * rng.normal(size=3000)
    # y = f(clean), and given the noisy input the clean one is about N(noisy, 0.25): the sampler's distribution.
    model = de.InvariantRegressor(de.samplers.AdditiveNoise(0.5), **small(0.7)).fit(noisy[:, None], np.sin(2 * clean))
    inside = np.linspace(-1, 1, 9)
    blurred = np.abs(model.predict(inside[:, None]) - np.sin(2 * inside)).max()
    itself = np.abs(model.function(inside[:, None]) - np.sin(2 * inside)).max()
    assert itself < 0.5 * blurred


def test_an_invariant_classifier_gives_probabilities() -> None:
    labels = np.where(X[:, 0] + 0.3 * HIDDEN > 0, "yes", "no")
    model = de.InvariantClassifier("noise", draws=2, **small()).fit(X, labels)
    shares = model.predict_proba([[2.0], [-2.0]])
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert shares[0, 1] > 0.9 > 0.1 > shares[1, 1]
    assert model.predict([[2.0], [-2.0]]).tolist() == ["yes", "no"]


def test_time_stamps_are_varied_as_small_numbers_are() -> None:
    """Seconds since 1970 need ten digits: in float32, of seven, all of these would be one of four numbers."""
    seconds = np.random.default_rng(8).uniform(0, 400, size=(200, 1))
    wave = np.sin(seconds[:, 0] / 60)
    small_numbers = de.InvariantRegressor("noise", **small(0.5)).fit(seconds, wave)
    stamps = de.InvariantRegressor("noise", **small(0.5)).fit(1.7e9 + seconds, wave)
    expected = small_numbers.predict(seconds)
    assert np.std(expected) > 0.5
    np.testing.assert_allclose(stamps.predict(1.7e9 + seconds), expected, atol=1e-3)
    np.testing.assert_allclose(stamps.function(1.7e9 + seconds), small_numbers.function(seconds), atol=1e-3)


def test_a_class_that_is_missing_is_named() -> None:
    labels = pd.Series(np.where(X[:, 0] > 0, "yes", "no"), dtype="string")
    labels[7] = pd.NA
    with pytest.raises(de.InputError, match="y lacks a class in row 7"):
        de.InvariantClassifier("noise", draws=2, **small()).fit(X, labels)


def test_a_column_without_a_second_axis_is_asked_about_but_not_fitted_to() -> None:
    model = fitted("invariant")
    np.testing.assert_array_equal(model.predict(X[:5, 0]), model.predict(X[:5]))
    np.testing.assert_array_equal(model.function(pd.Series(X[:5, 0])), model.function(X[:5]))
    series = de.InvariantRegressor("noise", **small()).fit(pd.Series(X[:, 0]), Y)
    np.testing.assert_array_equal(series.predict(X[:5, 0]), model.predict(X[:5]))
    with pytest.raises(de.InputError, match="Reshape your data"):
        de.InvariantRegressor("noise", **small()).fit(X[:, 0], Y)


def test_few_rows_choose_a_penalty_too() -> None:
    x = np.random.default_rng(0).normal(size=(20, 2))
    model = de.InvariantClassifier("noise").fit(x, x[:, 0] > 0)
    assert model.score(x, x[:, 0] > 0) > 0.85
    assert "mean loss" in str(model.selection_)


def clustered(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, y, groups) of sixty groups of ten rows, the noise of which is nearly all the group's."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(60), 10)
    x = rng.normal(size=(600, 1))
    return x, np.sin(x[:, 0]) + rng.normal(size=60)[groups] + 0.2 * rng.normal(size=600), groups


def test_groups_cluster_the_errors_of_an_invariant_regressor() -> None:
    x, y, groups = clustered()
    model = de.InvariantRegressor("noise", **small())
    apart = model.fit(x, y).predict([[0.0]], return_std=True)[1][0]
    together = model.fit(x, y, groups=groups).predict([[0.0]], return_std=True)[1][0]
    assert apart < 0.09 < 0.11 < together < 0.2  # 1 / √60 = 0.13 is the error of the groups' mean alone
    assert model.error(x, y, groups=groups).stderr > 1.3 * model.error(x, y).stderr
    renamed = model.fit(x, y, groups=[f"group {99 - number}" for number in groups])
    assert renamed.predict([[0.0]], return_std=True)[1][0] == pytest.approx(together, rel=0.1)


def test_rows_of_groups_that_come_in_parts_are_clustered_too() -> None:
    x, y, groups = clustered()
    model = de.InvariantRegressor("noise", **small())
    for part in (groups % 2 == 0, groups % 2 == 1):
        model.partial_fit(x[part], y[part], groups=groups[part])
    assert 0.11 < model.predict([[0.0]], return_std=True)[1][0] < 0.2


def test_an_invariant_classifier_holds_groups_out_as_a_whole() -> None:
    x, y, groups = clustered()
    by_row, by_group = (de.InvariantClassifier("noise", draws=2).fit(x, y > 0, groups=each) for each in (None, groups))
    assert by_row.selection_.steps[-1] != by_group.selection_.steps[-1]
    assert by_group.error(x, y > 0, groups=groups).stderr > 1.3 * by_group.error(x, y > 0).stderr
    with pytest.raises(de.InputError, match=r"groups must have shape \(600,\)"):
        by_group.fit(x, y > 0, groups=groups[1:])
