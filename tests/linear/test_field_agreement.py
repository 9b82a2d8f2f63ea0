"""Data sets of the field: coefficients, errors and tests are linearmodels' by all its estimators, to six digits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from linearmodels.datasets import birthweight, card, fertility, fringe, jobtraining, meps, mroz, wage
from linearmodels.iv import IV2SLS, IVGMM, IVGMMCUE, IVLIML
from tests.recorded import DATA, needs_data

from dualembed.answers import LinearResults, first_stage_tests, hansen_test, sargan_test, wu_hausman_test
from dualembed.linear import Clustered, IVDesign, Robust, Unadjusted, fit_cue, fit_gmm, fit_liml, fit_two_stage

DIGITS = 1e-6


class Problem(NamedTuple):
    """One textbook's equation."""

    table: pd.DataFrame
    y: str
    exogenous: list[str]
    endogenous: list[str]
    instruments: list[str]
    cluster: str

    @property
    def columns(self) -> list[str]:
        """All columns but the clusters."""
        return [self.y, *self.exogenous, *self.endogenous, *self.instruments]

    def parts(self) -> tuple[Any, ...]:
        """As linearmodels takes them."""
        table = self.table
        exogenous = table[self.exogenous].assign(one=1.0)
        return table[self.y], exogenous, table[self.endogenous], table[self.instruments]

    def design(self) -> IVDesign:
        """The same of this library."""
        table = self.table
        names = {"exogenous_names": self.exogenous, "endogenous_names": self.endogenous}
        parts = table[self.endogenous], table[self.exogenous]
        z = {"instruments": table[self.instruments], "instrument_names": self.instruments}
        return IVDesign.of(table[self.y], *parts, **z, **names, clusters=table[self.cluster], outcome_name=self.y)

    @property
    def order(self) -> list[str]:
        """Names in this library's order."""
        return [*self.endogenous, *self.exogenous, "one"]


def problem(table: Any, y: str, exogenous: str, endogenous: str, *, by: str, cluster: str) -> Problem:
    found = Problem(table, y, exogenous.split(), endogenous.split(), by.split(), cluster)
    kept = table.dropna(subset=[*found.columns, cluster])
    return found._replace(table=kept.astype(dict.fromkeys(found.columns, float)))


def years() -> pd.DataFrame:
    """A sixtieth of Angrist and Krueger's men, with indicators of years, and of quarters in them."""
    men = {name: column[::60] for name, column in np.load(DATA / "iv" / "ak1991.npz").items()}
    table = pd.DataFrame({"lnw": men["lnw"], "s": men["s"], "sob": men["sob"]})
    for year in np.unique(men["yob"]):
        table[f"year{year}"] = (men["yob"] == year) * 1.0
        for quarter in (1, 2, 3):
            table[f"quarter{year}_{quarter}"] = ((men["yob"] == year) & (men["qob"] == quarter)) * 1.0
    return table.rename(columns={f"year{men['yob'].min()}": "first"})


def fish() -> pd.DataFrame:
    table = pd.read_csv(DATA / "iv" / "fulton_fish.csv")
    return table.assign(week=(table.t // 5).astype(int))


def institutions() -> pd.DataFrame:
    table = pd.read_csv(DATA / "iv" / "ajr2001_maketable4.csv").query("baseco == 1")
    return table.assign(place=2 * table.africa + table.asia + 4 * (table.lat_abst > 0.15))


def quarters() -> Problem:
    table = years()
    names = [[name for name in table if name.startswith(each)] for each in ("year", "quarter")]
    return problem(table, "lnw", " ".join(names[0]), "s", by=" ".join(names[1]), cluster="sob")


def with_log(table: pd.DataFrame, column: str) -> pd.DataFrame:
    return table.assign(**{f"log_{column}": np.log(table[column])})


RECORDED: dict[str, Callable[[], Problem]] = {
    "card1995": lambda: problem(
        pd.read_csv(DATA / "iv" / "card1995.csv"), "lwage", "exper expersq black south smsa smsa66 reg662 reg663 "
        "reg664 reg665 reg666 reg667 reg668 reg669", "educ", by="nearc4", cluster="age"),
    "fish": lambda: problem(fish(), "ltotqty", "mon tues wed thurs", "lavgprc", by="wave2 speed2", cluster="week"),
    "institutions": lambda: problem(institutions(), "logpgp95", "lat_abst", "avexpr", by="logem4", cluster="place"),
    "quarters of birth": quarters,
}  # fmt: skip
BUNDLED: dict[str, Callable[[], Problem]] = {
    "card": lambda: problem(
        card.load(), "lwage", "exper expersq black south smsa", "educ", by="nearc4 nearc2", cluster="age"),
    "mroz": lambda: problem(
        with_log(mroz.load().dropna(), "wage"), "log_wage", "exper expersq", "educ",
        by="motheduc fatheduc huseduc", cluster="age"),
    "hours": lambda: problem(
        mroz.load().dropna(), "hours", "educ age kidslt6 nwifeinc", "lwage", by="exper expersq", cluster="age"),
    "wage": lambda: problem(
        with_log(wage.load(), "wage"), "log_wage", "exper", "educ", by="sibs brthord", cluster="age"),
    "two causes": lambda: problem(
        with_log(wage.load(), "wage"), "log_wage", "exper black", "educ IQ", by="sibs meduc feduc KWW", cluster="age"),
    "fringe": lambda: problem(
        fringe.load(), "hrbens", "union white male", "hrearn", by="educ exper expersq", cluster="age"),
    "meps": lambda: problem(
        meps.load(), "ldrugexp", "totchr age female blhisp linc", "hi_empunion", by="ssiratio lowincome multlc firmsz",
        cluster="age"),
    "birthweight": lambda: problem(
        with_log(birthweight.load(), "bwght"), "log_bwght", "male parity", "packs", by="cigprice", cluster="motheduc"),
    "fertility": lambda: problem(
        fertility.load(), "kids", "age agesq black east northcen west", "educ", by="meduc feduc", cluster="year"),
    "job training": lambda: problem(
        jobtraining.load().query("year == 1988"), "clscrap", "union", "chrsemp", by="cgrant", cluster="clemploy"),
}  # fmt: skip
ALL = [*BUNDLED, *(pytest.param(name, marks=needs_data) for name in RECORDED)]


@functools.cache
def case(name: str) -> tuple[Problem, IVDesign]:
    found = (BUNDLED | RECORDED)[name]()
    return found, found.design()


def close(ours: Any, theirs: Any, digits: float = DIGITS) -> None:
    """Equal up to a share of each number, or of a millionth of the largest, which rounding leaves of the others'."""
    theirs = np.asarray(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=digits, atol=1e-6 * digits * np.abs(theirs).max())


def options(given: Problem) -> list[tuple[Any, dict[str, Any]]]:
    """Errors of this library, and what linearmodels calls them."""
    labels = np.unique(given.table[given.cluster], return_inverse=True)[1]
    return [
        (Unadjusted(), {"cov_type": "unadjusted", "debiased": True}),
        (Unadjusted(debiased=False), {"cov_type": "unadjusted"}),
        (Robust(), {"cov_type": "robust", "debiased": True}),
        (Robust(debiased=False), {"cov_type": "robust"}),
        (Clustered(shared_factor=False), {"cov_type": "clustered", "debiased": True, "clusters": labels}),
    ]


@pytest.mark.parametrize("name", ALL)
def test_two_stages_and_likelihood_are_linearmodels(name: str) -> None:
    given, design = case(name)
    for theirs, fit in ((IV2SLS(*given.parts()), fit_two_stage), (IVLIML(*given.parts()), fit_liml)):
        for errors, settings in options(given):
            expected, found = theirs.fit(**settings), fit(design, errors)
            close(found.params, expected.params[given.order])
            close(found.std_errors, expected.std_errors[given.order])
            close(found.covariance, expected.cov.loc[given.order, given.order], 1e-5)
            close(found.r_squared, expected.rsquared)
            if not isinstance(errors, Clustered):  # whose t has as many degrees as clusters here
                close(found.conf_int(), expected.conf_int().loc[given.order])


@pytest.mark.parametrize("name", ALL)
def test_first_stages_and_tests_are_linearmodels(name: str) -> None:
    given, design = case(name)
    model = IV2SLS(*given.parts())
    for errors, settings in options(given):
        theirs = model.fit(**settings).first_stage.diagnostics
        unit = 1 if settings["cov_type"] == "unadjusted" else len(given.instruments)  # else theirs is Wald's χ²
        for stage in first_stage_tests(design, errors):
            row = theirs.loc[stage.column]
            close(stage.statistic * unit, row["f.stat"])
            close([stage.partial_r_squared, stage.shea_r_squared], row[["partial.rsquared", "shea.rsquared"]].to_list())
    plain = model.fit()
    hausman, their = wu_hausman_test(design, Unadjusted()), plain.wu_hausman()
    close([hausman.statistic, hausman.pvalue], [their.stat, their.pval])
    regression = model.fit(cov_type="robust", debiased=True).wooldridge_regression
    close(wu_hausman_test(design, Robust()).statistic * len(given.endogenous), regression.stat)
    if len(given.instruments) == len(given.endogenous):
        return
    sargan = sargan_test(design)
    close([sargan.statistic, sargan.pvalue], [plain.sargan.stat, plain.sargan.pval])
    hansen, moments = hansen_test(design, Robust()), IVGMM(*given.parts()).fit()
    close([hansen.statistic, hansen.pvalue], [moments.j_stat.stat, moments.j_stat.pval])


@pytest.mark.parametrize("name", ALL)
def test_two_steps_are_linearmodels_to_eight_digits(name: str) -> None:
    given, design = case(name)
    found, expected = fit_gmm(design, Robust()), IVGMM(*given.parts()).fit(cov_type="robust", debiased=True)
    close(found.params, expected.params[given.order], 1e-8)
    close(found.std_errors, expected.std_errors[given.order], 1e-8)


@pytest.mark.parametrize("name", ["wage", "hours", pytest.param("fish", marks=needs_data)])
def test_continuous_updating_is_linearmodels(name: str) -> None:
    """Theirs ends where its optimiser, which knows no slopes, sees no more change."""
    given, design = case(name)
    search = {"method": "Nelder-Mead", "options": {"xatol": 1e-12, "fatol": 1e-14, "maxiter": 9000, "maxfev": 9000}}
    found, model = fit_cue(design, Robust()), IVGMMCUE(*given.parts(), center=False)
    start = np.array(found.params)[[given.order.index(each) for each in [*given.exogenous, "one", *given.endogenous]]]
    expected = model.fit(starting=start, opt_options=search, cov_type="robust", debiased=True)
    close(found.params, expected.params[given.order])
    close(found.std_errors, expected.std_errors[given.order])
    assert found.j_statistic <= expected.j_stat.stat * (1 + 1e-10)


@pytest.mark.parametrize("name", ["card", "mroz", "two causes"])
def test_results_hold_the_same_numbers_by_their_names(name: str) -> None:
    given, _ = case(name)
    parts = {"exogenous_names": given.exogenous, "endogenous_names": given.endogenous, "outcome_name": given.y}
    table = given.table
    design = IVDesign.of(
        table[given.y], table[given.endogenous], table[given.exogenous], instruments=table[given.instruments], **parts
    )
    found, expected = LinearResults.of(design), IV2SLS(*given.parts()).fit(cov_type="robust", debiased=True)
    for ours, other in ((each, each) for each in given.order[:-1]):
        close(found.params[ours], expected.params[other])
        close(found.bse[ours], expected.std_errors[other])
        close(found.tstats[ours], expected.tstats[other])
        np.testing.assert_allclose(found.pvalues[ours], expected.pvalues[other], rtol=1e-5, atol=1e-14)
    close(found.rsquared, expected.rsquared)
    close(found.residual_variance, expected.s2)
    assert found.nobs == expected.nobs
