"""Models of one effect side by side: their numbers are those of each alone, and the verdict follows the tests."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars
import pytest
from tests.estimators.cases import small

import dualembed as de
from dualembed.baselines import SieveIV
from dualembed.checks import InputError
from dualembed.comparison import ModelComparison
from dualembed.linear import IVDesign, fit_gmm, fit_liml, fit_two_stage

ROWS = 600
RNG = np.random.default_rng(1)
Z, Z2, HIDDEN, NOISE, AGE = RNG.normal(size=(5, ROWS))
PRICE = Z + 0.5 * Z2 + HIDDEN
NAMES = ["least squares", "two-stage least squares", "LIML", "two-step GMM", "sieve", "smooth"]


def frame(f: Callable[[Any], Any] = lambda x: 2 * x, *, hidden: float = 1.0, direct: float = 0.0) -> pd.DataFrame:
    sales = f(PRICE) + hidden * HIDDEN + NOISE + AGE + direct * Z2
    return pd.DataFrame({"price": PRICE, "sales": sales, "tax": Z, "rain": Z2, "age": AGE})


def compared(table: Any, **more: Any) -> ModelComparison:
    pick = table.select if hasattr(table, "select") else table.__getitem__
    options = {"smooth": de.IVRegressor(**small()), "controls": pick(["age"]), **more}
    return de.compare_models(pick(["price"]), table["sales"], instruments=pick(["tax", "rain"]), **options)


@functools.cache
def line() -> ModelComparison:
    return compared(frame())


def test_each_model_has_the_numbers_that_it_has_alone() -> None:
    table, found = frame(), line()
    assert [model.name for model in found.models] == NAMES
    design = IVDesign.of(table.sales, table.price, table.age, instruments=table[["tax", "rain"]])
    plain = IVDesign.of(table.sales, table.price, table.age)
    pairs = [("least squares", fit_two_stage(plain)), ("two-stage least squares", fit_two_stage(design))]
    for name, fit in [*pairs, ("LIML", fit_liml(design)), ("two-step GMM", fit_gmm(design))]:
        assert found[name].results.params["price"] == pytest.approx(fit.params[0], rel=1e-9)
        assert found[name].results.bse["price"] == pytest.approx(fit.std_errors[0], rel=1e-9)
    smooth = de.IVRegressor(**small()).fit(
        table[["price"]], table.sales, instruments=table[["tax", "rain"]], controls=table[["age"]]
    )
    assert found["smooth"].results.params == smooth.params
    again = compared(table, smooth=smooth)  # which is not fitted again
    assert again["smooth"].results.params == smooth.params
    with pytest.raises(KeyError, match="there is no model 'ols'; there are least squares"):
        found["ols"]


def test_a_sieve_of_one_piece_is_cubic_two_stages() -> None:
    """The mean derivative of a cubic is a sum of its coefficients, with errors that are those of two stages."""
    x, z = PRICE, Z
    y = 2 * x + HIDDEN + NOISE

    class One:
        """Splines of one piece."""

        def fit(self, x: Any, y: Any, z: Any) -> Any:
            from dualembed.baselines.spline_fit import BootstrappedFit, SieveSpread, SplineFit
            from dualembed.baselines.splines import AdditiveSplines, even_breaks

            psi, phi = (AdditiveSplines.of(each, 1, degree=3, breaks=even_breaks) for each in (x, z))
            fit = SplineFit.of(psi, phi, x=x, y=y, z=z)
            drawn = BootstrappedFit(psi, fit.weights, np.eye(4), np.zeros((4, 1)))
            return fit.result(SieveSpread((drawn,), 0, 0.0, (4,), (1.0,)))

    found = de.compare_models(x[:, None], y, instruments=z, smooth=de.IVRegressor(**small()), sieve=One())["sieve"]
    cubic = fit_two_stage(IVDesign.of(y, np.stack([x, x**2, x**3], 1), instruments=np.stack([z, z**2, z**3], 1)))
    step = 0.1 * x.std()
    weights = np.array([1.0, 2 * x.mean(), np.mean(3 * x**2 + step**2), 0.0])
    # Beyond the ends of the data, where steps from the outermost rows lead, splines are straight.
    assert found.results.params["x0"] == pytest.approx(weights @ cubic.params, rel=2e-4)
    given = np.sqrt(weights @ cubic.covariance @ weights)
    assert given < found.results.bse["x0"] < 1.3 * given  # the rows are a sample, too


VERDICTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "a line": ({}, "two-stage least squares", "a straight line is not rejected, and least squares is"),
    "no hidden cause": ({"hidden": 0.0}, "two-stage least squares", "more precise where nothing hidden moves price"),
    "a curve": ({"f": lambda x: 2 * x + x**2}, "smooth", "A straight line is rejected"),
    "an invalid instrument": ({"direct": 2.0}, "", "before it is clear which instruments are valid"),
}


def test_a_line_is_not_reported_for_a_curve() -> None:
    found = compared(frame(lambda x: 2 * x + x**2), smooth=de.IVRegressor(primal="linear", dual="linear"))
    assert found.reported == ""
    assert "compare with an f that may bend" in found.verdict


@pytest.mark.parametrize("name", VERDICTS)
def test_the_verdict_follows_the_tests(name: str) -> None:
    settings, reported, words = VERDICTS[name]
    found = compared(frame(**settings))
    assert found.reported == reported
    assert words in found.verdict
    assert found.verdict in str(found)
    if reported:
        lower, upper = found[reported].results.conf_int(0.999)["price"]
        assert lower < 2 + 2 * PRICE.mean() * (name == "a curve") < upper


def test_weak_instruments_are_reported_with_the_set_that_holds() -> None:
    rng = np.random.default_rng(3)
    z, hidden, noise = rng.normal(size=(3, 300))
    x = 0.05 * z + hidden
    found = de.compare_models(x[:, None], x + hidden + noise, instruments=z, smooth=de.IVRegressor(**small()))
    assert found.linear.weak
    assert "The instruments are weak: report two-stage least squares" in found.verdict
    assert "Anderson-Rubin set" in found.verdict


def test_what_is_not_identified_is_not_reported() -> None:
    x = np.stack([PRICE, HIDDEN + AGE], axis=1)
    found = de.compare_models(x, x[:, 0] + HIDDEN, instruments=Z, smooth=de.IVRegressor(**small()))
    assert found.reported == ""
    assert found.verdict == "Report none of these: the instruments do not tell the effects of its columns apart."
    assert "not fitted: 2 endogenous columns (x0, x1) cannot be told apart by 1 instrument" in str(found)
    assert [math.isnan(row["estimate"]) for row in found.records()[:4]] == [False, False, True, True]
    assert found.to_dict()["refused"]["LIML"] == found["LIML"].refusal
    json.dumps(found.to_dict()["tests"])


def test_a_comparison_is_text_a_frame_a_dictionary_and_a_page() -> None:
    found = line()
    rows = found.records(0.9)
    assert {row["model"] for row in rows} == {*NAMES}
    assert [row["model"] for row in rows if row["reported"]] == [found.reported]
    tidy = found.tidy()
    assert isinstance(tidy, pd.DataFrame)
    assert list(tidy.columns)[:4] == ["model", "term", "estimate", "std_error"]
    assert isinstance(compared(polars.from_pandas(frame())).tidy(), polars.DataFrame)
    told = found.to_dict()
    assert told["reported"] == found.reported
    assert {test.get("name") for test in told["tests"]} >= {"Sargan's test", "linearity test"}
    page = found._repr_html_()
    for words in ("<strong>two-stage least squares ✓</strong>", "What one unit of price adds to sales", "Hansen"):
        assert words in page
    text = str(found)
    assert all(name in text for name in NAMES)


def test_several_treatments_and_categories_have_a_row_each() -> None:
    rng = np.random.default_rng(5)
    kind = rng.integers(3, size=ROWS)
    table = frame()
    x = table[["price"]].assign(kind=np.array(list("abc"))[kind])
    y = table.sales + 3.0 * (kind == 2)
    z = table[["tax", "rain"]].assign(kind2=np.array(list("abc"))[kind])
    found = de.compare_models(x, y, instruments=z, controls=table[["age"]], smooth=de.IVRegressor(**small()))
    assert found.columns == ("price", "kind=b", "kind=c")
    assert "LIML" in str(found)
    assert "say" in found["LIML"].refusal  # an instrument that is a column of X leaves no noise to compare with
    for name in (each for each in NAMES if each not in ("least squares", "LIML")):
        assert found[name].results.params["kind=c"] == pytest.approx(3.0, abs=0.5)
    assert "kind=c" in str(found)


def test_clusters_reach_every_model() -> None:
    labels = np.arange(ROWS) // 30
    found = compared(frame(), groups=labels)
    for model in found.models:
        assert "clustered" in model.results.cov_type
        assert model.results.freedom == 19


def test_comparisons_that_cannot_be_made_are_refused() -> None:
    table = frame()
    with pytest.raises(InputError, match="there are none; give instruments"):
        de.compare_models(table[["price"]], table.sales, instruments=None)
    other = de.IVRegressor(**small()).fit(table[["price"]][:100], table.sales[:100], instruments=table[["tax"]][:100])
    with pytest.raises(InputError, match="fitted to 100 rows, and 600 are given"):
        compared(table, smooth=other)
    plain = de.IVRegressor(**small()).fit(table[["price"]], table.sales)
    with pytest.raises(InputError, match="600 rows without instruments"):
        compared(table, smooth=plain)


def test_the_default_sieve_is_the_library_s_own() -> None:
    found = de.compare_models(PRICE[:, None], 2 * PRICE + HIDDEN, instruments=Z, smooth=de.IVRegressor(**small()))
    alone = SieveIV().fit(PRICE, 2 * PRICE + HIDDEN, Z).primal
    step = 0.1 * PRICE.std()
    expected = np.mean(np.asarray(alone(PRICE[:, None] + step)) - np.asarray(alone(PRICE[:, None] - step))) / (2 * step)
    assert found["sieve"].results.params["x0"] == pytest.approx(expected, rel=1e-4)
