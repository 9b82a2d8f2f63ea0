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
