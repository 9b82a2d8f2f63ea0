"""The names of econometrics on a fitted regression: equal to the coefficients of a line, and average effects else."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from linearmodels.iv import IV2SLS
from maketables import ETable
from maketables.extractors import PluginExtractor
from scipy.stats import t
from sklearn.exceptions import NotFittedError
from tests.estimators.cases import small

import dualembed as de
from dualembed.answers import AverageEffects, LinearResults
from dualembed.answers.coefficients import TIDY
from dualembed.checks import InputError

NAMES = ["params", "std_errors", "bse", "tvalues", "tstats", "pvalues", "nobs", "rsquared", "first_stage", "sargan"]
NAMES += ["j_stat", "anderson_rubin", "linearity", "endog_names", "cov_type", "__maketables_coef_table__"]
CALLS = ["conf_int", "cov_params", "tidy", "wu_hausman", "average_effects"]
ROWS = 300


@functools.cache
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    tax, rain, hidden, age = rng.normal(size=(4, ROWS))
    town = rng.choice(["a", "b", "c"], size=ROWS)
    price = tax + 0.5 * rain + hidden + 0.3 * age
    sales = 2 * price + 3 * hidden + age - 1.5 * (town == "c") + rng.normal(size=ROWS)
    return pd.DataFrame({"price": price, "sales": sales, "tax": tax, "rain": rain, "age": age, "town": town})


def fitted(table: Any = None, **settings: Any) -> de.IVRegressor:
    table = frame() if table is None else table
    pick = (lambda names: table.select(names)) if hasattr(table, "select") else (lambda names: table[names])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", de.estimators.diagnostics.ReliabilityWarning)
        return de.IVRegressor(**settings).fit(
            pick(["price"]), table["sales"], instruments=pick(["tax", "rain"]), controls=pick(["age", "town"])
        )


@functools.cache
def line() -> de.IVRegressor:
    return fitted(primal="linear", dual="linear")


@functools.cache
def smooth() -> de.IVRegressor:
    """An f of one column, by the default."""
    table = frame()
    return de.IVRegressor().fit(table[["price"]], table["sales"], instruments=table[["tax"]])


def theirs() -> Any:
    formula = "sales ~ 1 + age + C(town) + [price ~ tax + rain]"
    return IV2SLS.from_formula(formula, frame()).fit(cov_type="robust", debiased=True)


@pytest.mark.parametrize("name", NAMES)
def test_names_wait_for_a_fit(name: str) -> None:
    model = de.IVRegressor()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(model, name)
    assert not hasattr(model, name)  # so that packages of tables do not take it for a result


@pytest.mark.parametrize("name", CALLS)
def test_calls_wait_for_a_fit(name: str) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(de.IVRegressor(), name)()


def test_a_line_has_the_numbers_of_linearmodels() -> None:
    found, expected = line(), theirs()
    names = {
        "price": "price",
        "age": "age",
        "town=b": "C(town)[T.b]",
        "town=c": "C(town)[T.c]",
        "Intercept": "Intercept",
    }
    ends = expected.conf_int()
    for ours, other in names.items():
        assert found.params[ours] == pytest.approx(expected.params[other], rel=1e-8)
        assert found.bse[ours] == pytest.approx(expected.std_errors[other], rel=1e-8)
        assert found.std_errors[ours] == found.bse[ours]
        assert found.tvalues[ours] == found.tstats[ours] == pytest.approx(expected.tstats[other], rel=1e-8)
        assert found.pvalues[ours] == pytest.approx(expected.pvalues[other], rel=1e-6)
        np.testing.assert_allclose(found.conf_int()[ours], ends.loc[other], rtol=1e-7)
    order = list(names.values())
    np.testing.assert_allclose(found.cov_params(), expected.cov.loc[order, order], rtol=1e-7, atol=1e-12)
    assert found.nobs == expected.nobs
    assert found.rsquared == pytest.approx(expected.rsquared, rel=1e-9)
    assert found.sargan.statistic == pytest.approx(expected.sargan.stat, rel=1e-8)
    assert found.first_stage[0].column == "price"
    assert found.wu_hausman().pvalue < 0.05
    assert found.conf_int(alpha=0.1) == found.conf_int(0.9)


def test_numbers_of_a_line_and_of_its_linear_model_are_the_same() -> None:
    found = line()
    assert found.params == found.linear_.params
    effects = found.average_effects()
    assert effects.params == {name: value for name, value in found.params.items() if name != "Intercept"}
    assert effects.std_errors == {name: value for name, value in found.bse.items() if name != "Intercept"}


def test_average_effects_of_a_smooth_f_are_what_ask_answers() -> None:
    found = smooth()
    answer = found.ask(found.mean_derivative("price"))
    assert found.params == {"price": pytest.approx(answer.value, rel=1e-12)}
    assert found.bse == {"price": pytest.approx(answer.stderr, rel=1e-12)}
    assert abs(found.params["price"] - 2) < 3 * found.bse["price"]
    assert found.rsquared is None
    (row,) = found.average_effects().records(0.9)
    assert (row["conf_low"], row["conf_high"]) == pytest.approx(answer.interval(0.9))
    assert found.average_effects() is found.average_effects()  # found once
    assert "price" in str(found.average_effects().summary())


def test_average_effects_know_how_they_vary_together() -> None:
    table = frame()
    model = de.IVRegressor(**small()).fit(table[["price", "age"]], table["sales"])
    effects = model.average_effects()
    total = model.ask(model.mean_derivative("price") + model.mean_derivative("age"))
    spread = float(np.sqrt(effects.covariance.sum()))
    assert spread == pytest.approx(total.stderr, rel=0.02)  # but for what a sample of rows adds
    assert not np.isclose(spread, np.linalg.norm([*effects.std_errors.values()]), rtol=1e-4)


def test_few_clusters_make_intervals_of_student() -> None:
    table, labels = frame(), np.arange(ROWS) // 30
    model = de.IVRegressor(primal="linear", dual="linear").fit(
        table[["price"]], table["sales"], instruments=table[["tax"]], groups=labels
    )
    low, high = model.conf_int()["price"]
    assert (high - low) / 2 == pytest.approx(t.ppf(0.975, 9) * model.bse["price"], rel=1e-9)
    assert "clustered" in model.cov_type


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (lambda: frame(), pd.DataFrame),
        (lambda: polars.from_pandas(frame()), polars.DataFrame),
        (lambda: pyarrow.Table.from_pandas(frame(), preserve_index=False), pyarrow.Table),
    ],
)
def test_tidy_is_a_frame_of_the_callers_library(given: Any, kind: type) -> None:
    model = fitted(given(), primal="linear", dual="linear")
    for found in (model.tidy(), model.linear_.tidy(0.9), model.average_effects().tidy()):
        assert isinstance(found, kind)
        assert tuple(getattr(found, "column_names", None) or found.columns) == TIDY
    assert next(iter(model.tidy()["term"])) == "price" if kind is not pyarrow.Table else True


def test_frames_of_other_libraries_survive_a_file(tmp_path: Any) -> None:
    model = fitted(polars.from_pandas(frame()), primal="linear", dual="linear")
    de.save(model, tmp_path / "model.dualembed")
    again = de.load(tmp_path / "model.dualembed")
    assert isinstance(again.tidy(), polars.DataFrame)
    assert again.params == model.params


def test_one_table_for_a_paper_holds_their_models_and_ours() -> None:
    expected = theirs()
    table = ETable([expected, line(), line().linear_, smooth()])
    tex = table.make(type="tex")
    rows = {
        row.split("&")[0].strip(): [cell.strip() for cell in row.split("&")[1:]]
        for row in tex.split("\n")
        if "&" in row
    }
    cell = rf"\makecell{{{expected.params['price']:.3f}*** \\ ({expected.std_errors['price']:.3f})}}"
    assert [each.removesuffix(r" \\") for each in rows["price"][:3]] == [cell] * 3
    assert f"{smooth().params['price']:.3f}" in rows["price"][3]
    assert r"\multicolumn{4}{c}{sales}" in tex  # one outcome, by its name
    assert [each.removesuffix(r" \\") for each in rows["$R^2$"]] == [*[f"{expected.rsquared:.3f}"] * 3, "-"]
    assert [each.removesuffix(r" \\") for each in rows["Observations"]] == [str(ROWS)] * 4
    assert "price" in table.make(type="gt").as_raw_html()


@pytest.mark.parametrize("make", [line, lambda: line().linear_, smooth, lambda: smooth().average_effects()])
def test_the_protocol_of_tables_says_the_same(make: Any) -> None:
    """For packages that ask for the protocol first, as maketables does of objects unlike statsmodels' results."""
    model, asked = make(), PluginExtractor()
    assert asked.can_handle(model)
    found = asked.coef_table(model)
    assert list(found.columns) == ["b", "se", "t", "p", "ci95l", "ci95u", "ci90l", "ci90u"]
    assert found["b"].to_dict() == model.params
    assert found["se"].to_dict() == model.bse
    assert found.loc["price", ["ci90l", "ci90u"]].tolist() == pytest.approx(model.conf_int(0.9)["price"])
    assert asked.depvar(model) == "sales"
    assert asked.fixef_string(model) is None
    assert asked.var_labels(model) is None
    assert asked.vcov_info(model) == {"vcov_type": "robust to unequal variances", "clustervar": None}
    assert asked.stat(model, "N") == ROWS
    assert asked.stat(model, "se_type") == "robust to unequal variances"
    assert asked.stat(model, "nonsense") is None
    keys = asked.default_stat_keys(model)
    assert all(asked.stat(model, key) is not None for key in keys)
    assert {*keys} <= {*asked.stat_labels(model)}
    if not isinstance(model, AverageEffects):
        strength = (model if isinstance(model, LinearResults) else model.linear_).first_stage[0].statistic
        assert asked.stat(model, "First-stage F") == strength


def test_models_without_errors_say_why_they_have_no_effects() -> None:
    table = frame()
    model = de.IVRegressor(**small()).fit(table[["price"]], table["sales"])
    model.uncertainty_ = None  # as of solvers that know none
    with pytest.raises(InputError, match="average effects have errors where the square loss is solved in closed form"):
        model.average_effects()


def test_the_summary_prints_the_table_of_econometricians() -> None:
    text = str(line().summary())
    for each in (
        "std. error",
        "first-stage F of price",
        "rank test",
        "Sargan",
        "Hansen",
        "Wu and Hausman",
        "linearity",
    ):
        assert each in text
    found = str(smooth().summary())
    assert "beside a straight line by two-stage least squares" in found
    assert "The data do not speak against a straight line" in found
    assert smooth().summary().to_dict()["answer"]["average_effects"] == smooth().average_effects().records()
    whole = line().linear_.summary()
    assert repr(whole) == str(whole) == str(line().linear_)
