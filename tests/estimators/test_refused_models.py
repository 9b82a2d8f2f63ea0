"""What cannot be told is refused, or called not answerable, with the reason; what is left out is named."""

from __future__ import annotations

import datetime
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest
from tests.estimators.cases import small

import dualembed as de
from dualembed.answers import Verdict
from dualembed.checks import InputError

RNG = np.random.default_rng(0)
ROWS = 400
Z, Z2, HIDDEN, NOISE, W = RNG.normal(size=(5, ROWS))
X = Z + HIDDEN
X2 = Z2 + HIDDEN + NOISE
Y = 2 * X + HIDDEN + NOISE
GROUP = RNG.integers(3, size=ROWS)
DUMMIES = pd.DataFrame({name: (number == GROUP) * 1.0 for number, name in enumerate("abc")})
LINE = {"primal": "linear", "dual": "linear"}
DAYS = pd.date_range("2020-01-01", periods=ROWS)


def fitted(settings: dict[str, Any], X: Any, y: Any, **columns: Any) -> de.IVRegressor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", de.estimators.diagnostics.ReliabilityWarning)
        return de.IVRegressor(**settings).fit(X, y, **columns)


@pytest.mark.parametrize(
    "y",
    [
        DAYS,
        pd.Series(DAYS),
        pd.Series(DAYS).dt.tz_localize("UTC"),
        polars.Series("day", DAYS.to_numpy()),
        list(DAYS.date),
        [datetime.datetime(2020, 1, 1)] * ROWS,
        np.arange(ROWS).astype("timedelta64[D]"),
        list(pd.to_timedelta(np.arange(ROWS), unit="D")),
    ],
)
@pytest.mark.parametrize("settings", [LINE, small()])
def test_dates_are_no_outcome(y: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="y holds dates; give numbers"):
        fitted(settings, X[:, None], y, instruments=Z)


@pytest.mark.parametrize("y", [np.full(ROWS, "a"), ["a"] * ROWS, pd.Series(["a"] * ROWS)])
def test_text_is_no_outcome(y: Any) -> None:
    with pytest.raises(InputError, match="y holds text such as 'a'; give numbers"):
        fitted(LINE, X[:, None], y, instruments=Z)


@pytest.mark.parametrize(
    ("y", "name"),
    [(X, "the column price of X"), (Z, "the instrument tax"), (W, "the control age")],
)
@pytest.mark.parametrize("settings", [LINE, small()])
def test_a_copy_of_a_column_is_no_outcome(y: Any, name: str, settings: dict[str, Any]) -> None:
    columns = {"instruments": pd.DataFrame({"tax": Z}), "controls": pd.DataFrame({"age": W})}
    with pytest.raises(InputError, match=f"y is a copy of {name}"):
        fitted(settings, pd.DataFrame({"price": X}), y, **columns)
    fitted(settings, pd.DataFrame({"price": X}), y + 1e-6 * NOISE, **columns)


def test_predictions_of_a_column_by_itself_are_made_with_a_warning() -> None:
    """As scikit-learn's checks ask for them."""
    model = fitted(LINE, pd.DataFrame({"price": X}), X)
    assert model.coef_ == pytest.approx([1.0])
    assert "y is a copy of the column price of X, so that there is nothing to learn" in model.diagnostics_.warnings


APART = np.stack([Z + Z2 + HIDDEN, Z + Z2 + 0.02 * Z2 + HIDDEN + 0.5 * NOISE], axis=1)
UNIDENTIFIED = {
    "two columns, one instrument": (np.stack([X, X2], 1), {"instruments": Z}),
    "an instrument that is a control": (X[:, None], {"instruments": Z, "controls": Z}),
    "a constant instrument": (X[:, None], {"instruments": np.ones(ROWS)}),
    "collinear columns": (np.stack([X, X2, X + X2], 1), {"instruments": np.stack([Z, Z2, Z * Z2], 1)}),
    "two columns that are moved alike": (APART, {"instruments": np.stack([Z, Z2], 1)}),
    "an instrument that moves nothing": (X[:, None], {"instruments": W}),
}


@pytest.mark.parametrize("name", UNIDENTIFIED)
def test_what_instruments_do_not_identify_is_not_answerable(name: str) -> None:
    x, columns = UNIDENTIFIED[name]
    model = fitted(small(), x, Y, **columns)
    summary = model.summary()
    assert summary.headline.verdict is Verdict.NOT_ANSWERABLE
    assert model.ask(model.mean_derivative(0)).verdict is Verdict.NOT_ANSWERABLE
    assert "nothing about f is answerable" in str(summary)
    assert "the instruments do not" in str(summary).split("\n")[0]


@pytest.mark.parametrize("name", ["two columns that are moved alike", "an instrument that moves nothing"])
def test_lines_that_a_test_of_rank_speaks_against_are_not_answerable(name: str) -> None:
    """Either column may have a large first-stage F by itself."""
    x, columns = UNIDENTIFIED[name]
    model = fitted(LINE, x, Y, **columns)
    if x.shape[1] == 2:
        assert min(stage.statistic for stage in model.first_stage) > 100
    assert model.summary().headline.verdict is Verdict.NOT_ANSWERABLE
    assert "not identified" in str(model.summary())


def test_a_curved_first_stage_may_tell_what_a_line_does_not() -> None:
    """One instrument that moves x up and the other x by its square."""
    x = np.stack([Z + HIDDEN, Z**2 + HIDDEN + NOISE], axis=1)
    model = fitted(small(), x, Y, instruments=Z)
    assert model.linear_ is None
    assert not model.unidentified_
    assert model.summary().headline.verdict is not Verdict.NOT_ANSWERABLE


def test_instruments_that_say_the_column_itself_identify_it() -> None:
    model = fitted(small(), X[:, None], Y, instruments=X)
    assert not model.unidentified_


def test_identified_effects_keep_their_verdict() -> None:
    for settings in (LINE, small()):
        model = fitted(settings, np.stack([X, X2], 1), Y, instruments=np.stack([Z, Z2], 1))
        assert model.summary().headline.verdict is Verdict.SOLID


@pytest.mark.parametrize("columns", [{"instruments": Z}, {}])
def test_collinear_dummies_are_left_out_by_name_and_not_split(columns: dict[str, Any]) -> None:
    y = Y + DUMMIES["a"]
    model = fitted(LINE, pd.DataFrame({"x": X}), y, controls=DUMMIES, **columns)
    assert any("c was left out: it is a combination of a, b" in each for each in model.diagnostics_.warnings)
    names = [*model.linear_.names[:-1], "c"]
    assert names == ["x", "a", "b", "c"]
    np.testing.assert_allclose(model.coef_, [*model.linear_.values[:-1], 0.0], rtol=1e-9)
    np.testing.assert_allclose(model.coef_stderr_[:3], np.sqrt(np.diag(model.linear_.covariance))[:3], rtol=1e-9)
    assert np.isnan(model.coef_stderr_[3])
    assert model.intercept_ == pytest.approx(model.params["Intercept"], rel=1e-9)
    rows = pd.DataFrame({"x": X})
    line = model.intercept_ + np.column_stack([X, DUMMIES]) @ model.coef_
    np.testing.assert_allclose(model.predict(rows, controls=DUMMIES), line, rtol=1e-9, atol=1e-9)
    answer = model.ask(model.average_effect("a", X=rows, controls=DUMMIES))
    assert answer.value == pytest.approx(model.params["a"])
    assert answer.stderr == pytest.approx(model.bse["a"])


def test_one_number_has_one_error_with_categories_too() -> None:
    town = pd.DataFrame({"town": np.array(list("abc"))[GROUP]})
    model = fitted(LINE, pd.DataFrame({"x": X}), Y, instruments=Z, controls=town)
    assert model.coef_names_ == ("x", "town=b", "town=c")
    np.testing.assert_allclose(model.coef_stderr_, [*model.bse.values()][:-1])
    answer = model.ask(model.average_effect("town", "c", "a"))
    assert answer.stderr == pytest.approx(model.bse["town=c"], rel=1e-9)
    assert answer.value == pytest.approx(model.params["town=c"], rel=1e-7)
    assert model.ask(model.mean_derivative("x")).stderr == pytest.approx(model.bse["x"], rel=1e-9)
