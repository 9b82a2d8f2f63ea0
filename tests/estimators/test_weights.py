"""Weights of rows: counts are repeated rows, survey weights undo an uneven sample, and their scale says nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from tests.estimators.cases import small

import dualembed as de
from dualembed.estimators.learning import RowSample

RNG = np.random.default_rng(0)
ROWS = 300
INSTRUMENT, HIDDEN, CONTROL = RNG.normal(size=(3, ROWS))
X = (INSTRUMENT + HIDDEN + CONTROL)[:, None]
Y = np.sin(X[:, 0]) + CONTROL + HIDDEN
GROUP = np.arange(ROWS) // 4
COUNT = RNG.integers(0, 4, size=ROWS)
REPEATED = np.repeat(np.arange(ROWS), COUNT)
SURVEY = RNG.uniform(0.3, 3.0, size=ROWS)
POINTS, AT = np.array([[-1.0], [0.5]]), np.array([0.0, 1.0])
COLUMNS = {"instruments": INSTRUMENT, "controls": CONTROL}


def instrumental(**more: Any) -> de.IVRegressor:
    return de.IVRegressor(**{**small(), **more})


def said(model: de.IVRegressor) -> np.ndarray:
    """What a fit says that weights could touch: f and its errors, effects, the witness, the line, the honest error."""
    effect = model.effect(0.0, 1.0)
    found = [*model.predict(POINTS, AT, return_std=True), [effect.value, effect.stderr]]
    found += [*model.witness(AT, AT, return_std=True)]
    if model.linear_ is not None:
        found += [model.linear_.values, np.sqrt(np.diag(model.linear_.covariance))]
    judged = model.diagnostics_.held_out
    return np.concatenate([*found, [] if judged is None else [judged.value, judged.stderr]])


def rows_of(columns: dict[str, Any], rows: Any) -> dict[str, Any]:
    return {name: np.asarray(column)[rows] for name, column in columns.items()}


@pytest.mark.parametrize("groups", [None, GROUP], ids=["rows", "groups"])
def test_a_row_of_weight_k_is_k_equal_rows_in_values_and_in_errors(groups: Any) -> None:
    columns = COLUMNS if groups is None else {**COLUMNS, "groups": groups}
    weighted = instrumental().fit(X, Y, sample_weight=COUNT, **columns)
    repeated = instrumental().fit(X[REPEATED], Y[REPEATED], **rows_of(columns, REPEATED))
    np.testing.assert_array_equal(said(weighted), said(repeated))
    assert weighted.diagnostics_.rows == COUNT.sum()
    assert weighted.error(X, Y, sample_weight=COUNT, **COLUMNS).value == pytest.approx(
        repeated.error(X[REPEATED], Y[REPEATED], **rows_of(COLUMNS, REPEATED)).value
    )


def test_with_everything_left_to_the_data_counts_are_repeated_rows_too() -> None:
    rows = np.arange(60)
    again = np.repeat(rows, COUNT[rows])
    weighted = de.IVRegressor().fit(X[rows], Y[rows], sample_weight=COUNT[rows], **rows_of(COLUMNS, rows))
    repeated = de.IVRegressor().fit(X[again], Y[again], **rows_of(COLUMNS, again))
    np.testing.assert_array_equal(said(weighted), said(repeated))


@pytest.mark.parametrize("weights", [COUNT > 0, np.where(COUNT > 0, SURVEY, 0.0)], ids=["counts", "survey"])
def test_a_row_of_weight_0_is_no_row_whatever_it_holds(weights: np.ndarray) -> None:
    kept = COUNT > 0
    spoilt = np.where(kept, Y, np.nan)
    weighted = instrumental().fit(X, spoilt, sample_weight=weights, **COLUMNS)
    fewer = instrumental().fit(X[kept], Y[kept], sample_weight=weights[kept], **rows_of(COLUMNS, kept))
    np.testing.assert_allclose(said(weighted), said(fewer), rtol=1e-12)


@pytest.mark.parametrize("factor", [7.0, 1e-200, 1e200])
def test_the_scale_of_survey_weights_says_nothing(factor: float) -> None:
    model = instrumental(weighting="survey")  # a large enough number is whole
    once, scaled = (clone(model).fit(X, Y, sample_weight=each, **COLUMNS) for each in (SURVEY, factor * SURVEY))
    np.testing.assert_allclose(said(scaled), said(once), rtol=1e-6)
    assert scaled.diagnostics_.effective_rows == pytest.approx(SURVEY.sum() ** 2 / np.sum(SURVEY**2))
    assert scaled.diagnostics_.rows == ROWS


def test_equal_survey_weights_are_none() -> None:
    plain, equal = (instrumental().fit(X, Y, sample_weight=each, **COLUMNS) for each in (None, np.full(ROWS, 0.3)))
    np.testing.assert_allclose(said(equal), said(plain), rtol=1e-9)
    assert equal.diagnostics_.effective_rows is None


def test_the_line_is_that_of_linearmodels_with_the_same_weights() -> None:
    iv = pytest.importorskip("linearmodels.iv")
    frame = pd.DataFrame({"one": 1.0, "control": CONTROL})
    rival = iv.IV2SLS(Y, frame, X, INSTRUMENT, weights=SURVEY).fit(cov_type="robust", debiased=True)
    model = de.IVRegressor(primal="linear", dual="linear").fit(X, Y, sample_weight=SURVEY, **COLUMNS)
    assert model.linear_ is not None
    names = ["endog", "control", "one"]  # as linearmodels calls them
    np.testing.assert_allclose(model.linear_.values, rival.params[names], rtol=1e-8)
    np.testing.assert_allclose(np.sqrt(np.diag(model.linear_.covariance)), rival.std_errors[names], rtol=1e-8)
    np.testing.assert_allclose(model.coef_, rival.params[names[:2]], rtol=1e-8)
    np.testing.assert_allclose(model.coef_stderr_, rival.std_errors[names[:2]], rtol=1e-8)


def test_shares_of_subgroups_are_weighted_so_that_their_mean_is_the_average_effect() -> None:
    level = (CONTROL > 0).astype(float)
    columns = {"instruments": INSTRUMENT, "controls": np.stack([level, CONTROL], axis=1)}
    model = instrumental().fit(X, Y, sample_weight=SURVEY, **columns)
    groups, average = model.effect(0.0, 1.0, by="control 0"), model.effect(0.0, 1.0)
    assert groups.shares[1] == pytest.approx(SURVEY[level == 1].sum() / SURVEY.sum())
    assert groups.average().value == pytest.approx(average.value)


def test_the_mean_effect_is_that_of_the_weighted_rows() -> None:
    model = instrumental().fit(X, Y, sample_weight=SURVEY, **COLUMNS)
    moved = [model.predict(np.full((ROWS, 1), each), CONTROL) for each in (0.0, 1.0)]
    assert model.effect(0.0, 1.0).value == pytest.approx(np.average(moved[1] - moved[0], weights=SURVEY))


def test_of_many_weighted_rows_those_kept_have_the_mean_of_all() -> None:
    rows = np.random.default_rng(1).normal(size=(60_000, 1))
    weights = np.exp(rows[:, 0])  # of which the weighted mean is 1, and a plain one 0
    parts = slice(0, 30_000), slice(30_000, None)
    sample = None
    for part in parts:
        sample = RowSample.of(rows[part], rows[part], seed=0, weights=weights[part], before=sample)
    assert sample is not None
    assert sample.mass is not None
    assert len(sample.rows) == 10_000
    assert np.average(sample.rows[:, 0], weights=sample.mass) == pytest.approx(1.0, abs=0.04)


def test_the_effect_at_a_row_is_that_row_s_whatever_it_counts() -> None:
    model = instrumental().fit(X, Y, sample_weight=SURVEY, **COLUMNS)
    at_rows = model.effects(0.0, 1.0)
    assert np.ptp(at_rows) > 0.0
    sample = model.sample_
    assert sample is not None
    assert np.average(at_rows, weights=sample.mass) == pytest.approx(model.effect(0.0, 1.0).value)


def stratified(seed: int, rows: int = 600) -> tuple[dict[str, Any], np.ndarray]:
    """(columns, weights) of a sample in which one of two strata of equal size is drawn eight times as often.

    The effect of x is 1 in the one and 2 in the other: 1.5 in the population.
    """
    rng = np.random.default_rng(seed)
    often = rng.random(rows) < 8 / 9
    z, hidden = rng.normal(size=(2, rows))
    x = z + hidden
    y = np.where(often, 1.0, 2.0) * x + hidden + 0.5 * rng.normal(size=rows)
    return {"X": x[:, None], "y": y, "instruments": z}, np.where(often, 1.25, 10.0)


def test_survey_weights_undo_an_uneven_sample_and_intervals_cover() -> None:
    covered, plain = 0, []
    for seed in range(30):
        columns, weights = stratified(seed)
        model = de.IVRegressor(primal="linear", dual="linear")
        answer = clone(model).fit(**columns, sample_weight=weights).effect(0.0, 1.0)
        lower, upper = answer.interval()
        covered += lower <= 1.5 <= upper
        if seed < 4:
            plain.append(model.fit(**columns).effect(0.0, 1.0).value)
    assert covered >= 27
    assert np.mean(plain) < 1.2  # unweighted it is that of the sample


@pytest.mark.parametrize("factor", [1.0, 5.0])
def test_parts_of_survey_weights_are_relative_to_all_of_them(factor: float) -> None:
    first, second = slice(0, 200), slice(200, ROWS)
    model = instrumental(primal="linear", dual="linear")
    for rows in (first, second):
        model.partial_fit(X[rows], Y[rows], sample_weight=factor * SURVEY[rows], **rows_of(COLUMNS, rows))
    whole = instrumental(primal="linear", dual="linear").fit(X, Y, sample_weight=SURVEY, **COLUMNS)
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-8)
    assert model.diagnostics_.effective_rows == pytest.approx(whole.diagnostics_.effective_rows)
    assert model.diagnostics_.rows == ROWS


def test_parts_of_other_weights_than_the_first_are_refused() -> None:
    model = instrumental().fit(X, Y, sample_weight=SURVEY, **COLUMNS)
    with pytest.raises(de.InputError, match="sample_weight must be given with more rows, too"):
        model.partial_fit(X, Y, **COLUMNS)
    model = instrumental().fit(X, Y, **COLUMNS)
    with pytest.raises(de.InputError, match="sample_weight counts rows, but is"):
        model.partial_fit(X, Y, sample_weight=SURVEY, **COLUMNS)


def test_large_whole_numbers_are_said_to_look_like_survey_weights() -> None:
    census = np.full(ROWS, 10.0)
    noted = instrumental().fit(X, Y, sample_weight=census, **COLUMNS)
    assert [note for note in noted.diagnostics_.warnings if "weighting='survey'" in note]
    for weighting, rows in (("frequency", 10 * ROWS), ("survey", ROWS)):
        model = instrumental(weighting=weighting).fit(X, Y, sample_weight=census, **COLUMNS)
        assert not [note for note in model.diagnostics_.warnings if "sample_weight" in note]
        assert model.diagnostics_.rows == rows


WRONG: dict[str, tuple[Any, str]] = {
    "negative": (np.where(np.arange(ROWS) == 3, -1.0, 1.0), "must not be below 0, but is in row 3"),
    "missing": (np.where(np.arange(ROWS) == 3, np.nan, 1.0), "must be finite, but are NaN or infinity in row 3"),
    "all zero": (np.zeros(ROWS), "is zero in every row"),
    "short": (np.ones(ROWS - 1), rf"must have shape \({ROWS},\)"),
    "wide": (np.ones((ROWS, 2)), rf"must have shape \({ROWS},\)"),
    "too many": (np.full(ROWS, 1e6), "more than the 20,000,000 that fit"),
}


@pytest.mark.parametrize("name", WRONG)
def test_weights_that_are_none_are_refused_in_one_sentence(name: str) -> None:
    weights, words = WRONG[name]
    with pytest.raises(de.InputError, match=f"sample_weight.*{words}"):
        instrumental().fit(X, Y, sample_weight=weights, **COLUMNS)


def test_counts_that_are_no_whole_numbers_and_unknown_words_are_refused() -> None:
    with pytest.raises(de.InputError, match="sample_weight counts rows, but is"):
        instrumental(weighting="frequency").fit(X, Y, sample_weight=SURVEY, **COLUMNS)
    with pytest.raises(de.InputError, match="weighting must be one of auto, frequency, survey, not 'census'"):
        instrumental(weighting="census").fit(X, Y, **COLUMNS)


@pytest.mark.parametrize("weights", [COUNT, SURVEY], ids=["counts", "survey"])
def test_frames_lists_and_formulas_have_weights_too(weights: np.ndarray) -> None:
    frame = pd.DataFrame({"x": X[:, 0], "y": Y, "z": INSTRUMENT, "w": weights}, index=np.arange(ROWS)[::-1])
    known = {"sample_weight": frame["w"], "instruments": frame["z"]}
    from_frame = instrumental().fit(frame[["x"]], frame["y"], **known)
    points = pd.DataFrame({"x": POINTS[:, 0]})
    from_lists = instrumental().fit(
        X.tolist(), Y.tolist(), instruments=INSTRUMENT.tolist(), sample_weight=weights.tolist()
    )
    formula = de.IVRegressor.from_formula("y ~ [x ~ z]", frame, sample_weight="w", **small())
    expected = from_lists.predict(POINTS)
    np.testing.assert_allclose(from_frame.predict(points), expected)
    np.testing.assert_allclose(formula.predict(points), expected)


@pytest.mark.parametrize("estimator", [de.InvariantRegressor("noise", **small()), de.InvariantClassifier("noise")])
def test_models_of_variations_have_weights_too(estimator: Any) -> None:
    rows = np.arange(120)
    targets = Y[rows] if isinstance(estimator, de.InvariantRegressor) else Y[rows] > 0
    again = np.repeat(rows, COUNT[rows])
    place = {"primal": "linear", "dual": "linear"} if isinstance(estimator, de.InvariantClassifier) else {}
    models = [clone(estimator).set_params(**place) for _ in range(4)]
    models[0].fit(X[rows], targets, sample_weight=COUNT[rows])
    models[1].fit(X[again], targets[again])
    models[2].fit(X[rows], targets, sample_weight=SURVEY[rows])
    models[3].fit(X[rows], targets, sample_weight=7 * SURVEY[rows])
    found = [model.function(POINTS) for model in models]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[2], found[3], rtol=1e-8)
    assert not np.allclose(found[0], found[2], rtol=1e-3)
