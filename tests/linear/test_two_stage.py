"""Linear models with instruments: the numbers of other software, and laws that need none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from linearmodels.datasets import mroz, wage
from linearmodels.iv import IV2SLS, IVLIML
from tests.recorded import DATA, needs_data

from dualembed.checks import InputError
from dualembed.linear import (
    Clustered,
    ClusterJackknife,
    IVDesign,
    Robust,
    Unadjusted,
    fit_liml,
    fit_two_stage,
)
from dualembed.linear.absorbed import count_singletons, effects_rank, remove_effects

CONTROLS = ["exper", "expersq", "black", "south", "smsa", "smsa66", *(f"reg66{number}" for number in range(1, 9))]


def simulated(seed: int = 7, rows: int = 200) -> dict[str, np.ndarray]:
    """y = x / 2 - 0.4 w + effects of firms and years + noise, with x moved by hidden causes and instruments z1, z2.

    The same as what pyfixest was given for the numbers below.
    """
    rng = np.random.default_rng(seed)
    firm, year = rng.integers(12, size=rows), rng.integers(7, size=rows)
    z1, z2, w, hidden, noise = rng.normal(size=(5, rows))
    x = 0.6 * z1 + 0.4 * z2 + 0.3 * w + hidden + 0.2 * firm
    y = 0.5 * x - 0.4 * w + hidden + noise * (1 + 0.5 * np.abs(z1)) + 0.3 * firm + 0.1 * year
    y += rng.normal(size=12)[firm]
    return {"y": y, "x": x, "w": w, "z1": z1, "z2": z2, "firm": firm, "year": year, "region": firm // 3}


def design(table: dict[str, np.ndarray], **options: Any) -> IVDesign:
    """x by z1, with the control w."""
    return IVDesign.of(table["y"], table["x"], table["w"], **{"instruments": table["z1"], **options})


def dummies(labels: np.ndarray) -> np.ndarray:
    return (labels[:, None] == np.unique(labels)[1:]).astype(float)


def close(ours: Any, theirs: Any, rtol: float = 1e-8) -> None:
    """Equal up to a share of the largest: small numbers of the others' come with the rounding of large ones."""
    theirs = np.asarray(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * 1e-2 * np.abs(theirs).max())


ERRORS = [
    (Unadjusted(), {"cov_type": "unadjusted", "debiased": True}),
    (Unadjusted(debiased=False), {"cov_type": "unadjusted"}),
    (Robust(), {"cov_type": "robust", "debiased": True}),
    (Robust(debiased=False), {"cov_type": "robust"}),
]


def schooling(**options: Any) -> tuple[pandas.DataFrame, IVDesign]:
    """Card's men, with schooling by colleges nearby."""
    men = pandas.read_csv(DATA / "iv" / "card1995.csv")
    names = {"endogenous_names": ["educ"], "exogenous_names": CONTROLS}
    return men, IVDesign.of(men.lwage, men.educ, men[CONTROLS], **{"instruments": men.nearc4, **names, **options})


@needs_data
@pytest.mark.parametrize(("errors", "options"), ERRORS)
def test_schooling_is_as_in_linearmodels(errors: Any, options: dict[str, Any]) -> None:
    men, ours = schooling()
    theirs = IV2SLS(men.lwage, men[CONTROLS].assign(one=1.0), men.educ, men.nearc4).fit(**options)
    found, order = fit_two_stage(ours, errors), ["educ", *CONTROLS, "one"]
    assert found.names == ("educ", *CONTROLS, "Intercept")
    close(found.params, theirs.params[order])
    close(found.covariance, theirs.cov.loc[order, order])
    close(found.pvalues, theirs.pvalues[order], rtol=1e-7)
    close(found.conf_int(), theirs.conf_int().loc[order])
    close([found.r_squared, found.rows, found.params[0]], [theirs.rsquared, theirs.nobs, 0.13150384])
    if errors.debiased:
        close(found.residual_variance, theirs.s2)


@needs_data
def test_sampling_weights_are_as_in_linearmodels() -> None:
    men, ours = schooling(instruments=pandas.read_csv(DATA / "iv" / "card1995.csv")[["nearc4", "nearc2"]].to_numpy())
    ours = IVDesign.of(ours.outcome, ours.endogenous, ours.exogenous, instruments=ours.instruments, weights=men.weight)
    order = ["educ", *CONTROLS, "one"]
    parts = (men.lwage, men[CONTROLS].assign(one=1.0), men.educ, men[["nearc4", "nearc2"]])
    for errors, options in ERRORS:
        for model, fit in ((IV2SLS, fit_two_stage), (IVLIML, fit_liml)):
            theirs, found = model(*parts, weights=men.weight).fit(**options), fit(ours, errors)
            close(found.params, theirs.params[order])
            close(found.covariance, theirs.cov.loc[order, order], rtol=1e-7)
            close(found.r_squared, theirs.rsquared)


@needs_data
def test_fish_prices_and_institutions_are_as_in_linearmodels() -> None:
    fish = pandas.read_csv(DATA / "iv" / "fulton_fish.csv")
    days = ["mon", "tues", "wed", "thurs"]
    countries = pandas.read_csv(DATA / "iv" / "ajr2001_maketable4.csv").query("baseco == 1")
    for y, w, x, z in (
        (fish.ltotqty, fish[days], fish.lavgprc, fish[["wave2", "speed2"]]),
        (countries.logpgp95, countries[["lat_abst", "africa"]], countries.avexpr, countries.logem4),
    ):
        theirs = IV2SLS(y, w.assign(one=1.0), x, z).fit(debiased=True)
        found, order = fit_two_stage(IVDesign.of(y, x, w, instruments=z)), [x.name, *w.columns, "one"]
        close(found.params, theirs.params[order])
        close(found.covariance, theirs.cov.loc[order, order])


@needs_data
def test_quarters_of_birth_give_the_published_return_to_schooling() -> None:
    """Angrist and Krueger (1991), table V: 0.0891 (0.0161) by thirty instruments; Wald's 0.102 by the first quarter."""
    men = np.load(DATA / "iv" / "ak1991.npz")
    year, quarter = men["yob"], men["qob"]
    z = np.stack([(year == each) & (quarter == part) for each in np.unique(year) for part in (1, 2, 3)], axis=1)
    found = fit_two_stage(IVDesign.of(men["lnw"], men["s"], instruments=z, effects=year), Unadjusted())
    np.testing.assert_allclose([found.params[0], found.std_errors[0]], [0.0891, 0.0161], atol=5e-5)
    wald = fit_two_stage(IVDesign.of(men["lnw"], men["s"], instruments=quarter == 1))
    np.testing.assert_allclose(wald.params[0], 0.1020, atol=5e-5)


@pytest.mark.parametrize("fuller", [0, 1])
def test_wages_of_women_are_as_in_linearmodels(fuller: float) -> None:
    women = mroz.load().dropna()
    y, w = np.log(women.wage), women[["exper", "expersq"]]
    z = women[["motheduc", "fatheduc", "huseduc"]]
    order = ["educ", "exper", "expersq", "one"]
    for errors, options in ERRORS:
        theirs = IVLIML(y, w.assign(one=1.0), women.educ, z, fuller=fuller).fit(**options)
        found = fit_liml(IVDesign.of(y, women.educ, w, instruments=z), errors, fuller=fuller)
        close(found.params, theirs.params[order])
        close(found.covariance, theirs.cov.loc[order, order])


def test_clusters_of_one_and_two_ways_are_as_in_linearmodels() -> None:
    men = wage.load().dropna(subset=["wage", "educ", "exper", "sibs", "brthord"])
    y, w, z = np.log(men.wage), men[["exper"]], men[["sibs", "brthord"]]
    order = ["educ", "exper", "one"]
    for clusters in (men[["age"]], men[["age", "tenure"]]):
        labels = clusters.to_numpy().astype(int)
        for debiased in (True, False):
            theirs = IV2SLS(y, w.assign(one=1.0), men.educ, z).fit(
                cov_type="clustered", clusters=labels, debiased=debiased
            )
            ours = IVDesign.of(y, men.educ, w, instruments=z, clusters=labels)
            found = fit_two_stage(ours, Clustered(debiased=debiased, shared_factor=False))
            close(found.covariance, theirs.cov.loc[order, order])
            assert found.freedom == min(len(np.unique(each)) for each in labels.T) - 1


# Standard errors of x in pyfixest 0.60 (fixef_rm="none", fixef_tol=1e-13, all else by default), of `simulated()`.
PYFIXEST = {
    ((), ()): 0.29870671431203055,
    ((), ("firm",)): 0.3067760250145497,
    ((), ("firm", "year")): 0.2223517496201525,
    ((), ("region",)): 0.09558765495901332,
    (("firm",), ()): 0.2642313088309026,
    (("firm",), ("firm",)): 0.25130966763028256,
    (("firm",), ("firm", "year")): 0.20874939326362155,
    (("firm",), ("region",)): 0.12428599245211312,
    (("firm",), ("year",)): 0.19657309170959525,
    (("firm", "year"), ()): 0.2632105596071274,
    (("firm", "year"), ("firm",)): 0.24518598879373638,
    (("firm", "year"), ("firm", "year")): 0.2135886976615247,
    (("firm", "year"), ("region",)): 0.09124995024424816,
    (("firm", "year"), ("year",)): 0.21143595001233026,
}


@pytest.mark.parametrize(("effects", "clusters"), PYFIXEST)
def test_errors_with_effects_and_clusters_are_as_in_pyfixest(effects: Any, clusters: Any) -> None:
    table = simulated()
    labels = {
        name: np.stack([table[each] for each in names], axis=1)
        for name, names in (("effects", effects), ("clusters", clusters))
        if names
    }
    found = fit_two_stage(design(table, **labels))
    slope = {(): 0.9199325954034816, ("firm",): 0.8622813248413362, ("firm", "year"): 0.8478219868676546}[effects]
    np.testing.assert_allclose([found.params[0], found.std_errors[0]], [slope, PYFIXEST[effects, clusters]], rtol=1e-8)
    if clusters:
        assert found.freedom == min(len(np.unique(table[each])) for each in clusters) - 1


def test_without_instruments_it_is_least_squares() -> None:
    table = simulated()
    found = fit_two_stage(IVDesign.of(table["y"], table["x"], table["w"], clusters=table["firm"]))
    np.testing.assert_allclose(found.std_errors[0], 0.14276702160678995, rtol=1e-8)  # by pyfixest
    matrix = np.stack([table["x"], table["w"], np.ones(200)], axis=1)
    np.testing.assert_allclose(found.params, np.linalg.lstsq(matrix, table["y"], rcond=None)[0], rtol=1e-10)
    assert found.method == "least squares"
    assert found.names == ("x1", "w1", "Intercept")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("factors", [("firm",), ("firm", "year")])
def test_absorbed_effects_are_those_of_dummies(factors: tuple[str, ...], weighted: bool) -> None:
    table = simulated()
    weights = np.random.default_rng(1).uniform(0.5, 3, size=200) if weighted else None
    w = np.concatenate([table["w"][:, None], *(dummies(table[each]) for each in factors)], axis=1)
    effects = np.stack([table[each] for each in factors], axis=1)
    for errors in (Unadjusted(), Robust()):
        full = fit_two_stage(design({**table, "w": w}, weights=weights), errors)
        found = fit_two_stage(design(table, effects=effects, weights=weights), errors)
        np.testing.assert_allclose(found.params, full.params[:2], rtol=1e-8)
        np.testing.assert_allclose(found.covariance, full.covariance[:2, :2], rtol=1e-8)
        np.testing.assert_allclose(found.residuals, full.residuals, atol=1e-10)
        assert found.freedom == full.freedom
        np.testing.assert_allclose(found.r_squared, full.r_squared, rtol=1e-8)


def test_effects_that_hang_together_loosely_are_taken_out_exactly() -> None:
    rng = np.random.default_rng(0)
    worker = np.repeat(np.arange(100), 2)
    factors = np.stack([worker, worker // 2 + np.tile([0, 1], 100) * (worker % 10 == 9)], axis=1)
    columns = rng.normal(size=(200, 3)) + 1e6
    both = np.concatenate([worker[:, None] == np.arange(100), factors[:, 1:] == np.arange(51)], axis=1).astype(float)
    exact = columns - both @ np.linalg.lstsq(both, columns, rcond=None)[0]
    np.testing.assert_allclose(remove_effects(columns, factors, np.ones(200)), exact, atol=1e-8)
    assert effects_rank(factors) == np.linalg.matrix_rank(both)


def test_rows_alone_in_their_level_are_counted_one_after_the_other() -> None:
    factors = np.array([[0, 0], [0, 1], [1, 1], [1, 1], [2, 0]])  # the last is alone, then the first, then the second
    assert count_singletons(factors) == 3
    assert count_singletons(np.array([[0], [0], [1]])) == 1


def test_counts_are_repeated_rows() -> None:
    table = simulated()
    counts = np.random.default_rng(3).integers(4, size=200)
    again = {name: np.repeat(column, counts) for name, column in table.items()}
    for errors, labels in ((Unadjusted(), False), (Robust(), False), (Clustered(), True), (ClusterJackknife(), True)):
        few = design(table, weights=counts, counts=True, clusters=table["firm"] if labels else None)
        many = design(again, clusters=again["firm"] if labels else None)
        found, full = fit_two_stage(few, errors), fit_two_stage(many, errors)
        np.testing.assert_allclose(found.params, full.params, rtol=1e-10)
        np.testing.assert_allclose(found.covariance, full.covariance, rtol=1e-9)
        np.testing.assert_allclose(found.residual_variance, full.residual_variance, rtol=1e-10)
        assert (found.rows, found.freedom) == (full.rows, full.freedom)


def test_weight_0_leaves_a_row_out_and_the_unit_of_weights_does_not_matter() -> None:
    table, weights = simulated(), np.random.default_rng(3).integers(3, size=200).astype(float)
    some = {name: column[weights > 0] for name, column in table.items()}
    found = fit_two_stage(design(table, weights=weights, clusters=table["firm"]))
    left = fit_two_stage(design(some, weights=7 * weights[weights > 0], clusters=some["firm"]))
    np.testing.assert_allclose(found.covariance, left.covariance, rtol=1e-10)
    np.testing.assert_allclose(found.params, left.params, rtol=1e-10)


def test_units_and_places_of_columns_change_nothing_else() -> None:
    table = simulated()
    found = fit_two_stage(design(table))
    moved = {**table, "x": 1e-6 * table["x"] + 3, "w": 1e7 * (table["w"] + 1e3), "z1": 1e-9 * table["z1"] - 5}
    other = fit_two_stage(design(moved))
    np.testing.assert_allclose(other.params[:2] * [1e-6, 1e7], found.params[:2], rtol=1e-6)
    np.testing.assert_allclose(other.std_errors[:2] * [1e-6, 1e7], found.std_errors[:2], rtol=1e-6)


def test_very_large_and_small_numbers_are_only_units() -> None:
    table = simulated()
    found = fit_two_stage(design(table))
    far = {**table, "y": 1e-200 * table["y"], "x": 1e-250 * table["x"], "z1": 1e200 * table["z1"]}
    np.testing.assert_allclose(fit_two_stage(design(far)).params[0], 1e50 * found.params[0], rtol=1e-8)


def test_an_outcome_without_noise_or_without_anything_is_fitted_exactly() -> None:
    table = simulated()
    exact = fit_two_stage(design({**table, "y": 2 * table["x"] + 3}))
    np.testing.assert_allclose(exact.params, [2, 0, 3], atol=1e-12)
    flat = fit_two_stage(design({**table, "y": np.full(200, 7.0)}))
    np.testing.assert_allclose(flat.params, [0, 0, 7], atol=1e-12)


def test_powers_of_a_year_keep_their_digits() -> None:
    rng = np.random.default_rng(0)
    year = np.repeat(np.arange(1990.0, 2001.0), 30)
    powers = np.stack([year, year**2, year**3], axis=1)
    z, hidden, noise = rng.normal(size=(3, len(year)))
    x = z + hidden
    y = x + hidden + noise + 0.01 * (year - 1995) ** 3
    found = fit_two_stage(IVDesign.of(y, x, powers, instruments=z))
    centred = fit_two_stage(
        IVDesign.of(y, x, np.stack([(year - 1995) ** power for power in (1, 2, 3)], 1), instruments=z)
    )
    assert found.dropped == ()
    np.testing.assert_allclose(found.params[[0, 3]], centred.params[[0, 3]], rtol=1e-7)


def test_influence_adds_up_to_nothing_and_its_products_to_the_covariance() -> None:
    table = simulated()
    for labels in (None, table["firm"]):
        for fit in (fit_two_stage, fit_liml):
            errors = Robust(debiased=False) if labels is None else Clustered(debiased=False)
            both = np.stack([table["z1"], table["z2"]], axis=1)
            found = fit(design(table, clusters=labels, instruments=both), errors)
            influence = found.influence(by_cluster=labels is not None)
            assert len(influence) == (200 if labels is None else 12)
            np.testing.assert_allclose(influence.T @ influence, found.covariance, rtol=1e-10)
            if fit is fit_two_stage:
                np.testing.assert_allclose(influence.sum(axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("effects", [False, True])
@pytest.mark.parametrize("instruments", [("z1",), ("z1", "z2"), None])
def test_jackknife_leaves_out_each_cluster(instruments: tuple[str, ...] | None, effects: bool) -> None:
    table = simulated()

    def given(rows: np.ndarray) -> IVDesign:
        part = {name: column[rows] for name, column in table.items()}
        z = None if instruments is None else np.stack([part[each] for each in instruments], axis=1)
        return design(part, instruments=z, clusters=part["region"], effects=part["firm"] if effects else None)

    everything = np.ones(200, dtype=bool)
    found = fit_two_stage(given(everything), ClusterJackknife())
    changes = np.stack([fit_two_stage(given(table["region"] != each)).params - found.params for each in range(4)])
    np.testing.assert_allclose(found.covariance, 3 / 4 * changes.T @ changes, rtol=1e-8)
    assert found.freedom == 3


def test_jackknife_survives_dummies_of_clusters() -> None:
    table = simulated()
    w = np.concatenate([table["w"][:, None], dummies(table["firm"])], axis=1)
    full = fit_two_stage(design({**table, "w": w}, clusters=table["firm"]), ClusterJackknife())
    within = fit_two_stage(design(table, effects=table["firm"], clusters=table["firm"]), ClusterJackknife())
    np.testing.assert_allclose(full.std_errors[:2], within.std_errors, rtol=1e-8)


def test_intervals_of_ten_clusters_cover_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(10), 12)
    covered: list[bool] = []
    first: list[bool] = []
    for _ in range(400):
        common = rng.normal(size=(3, 10))[:, groups]
        z, hidden, noise = rng.normal(size=(3, 120)) + common
        x = z + 0.5 * hidden
        given = IVDesign.of(x + hidden + noise, x, instruments=z, clusters=groups)
        for errors, hits in ((ClusterJackknife(), covered), (Clustered(debiased=False), first)):
            lower, upper = fit_two_stage(given, errors).conf_int()[0]
            hits.append(lower < 1 < upper)
    assert 0.9 < np.mean(covered) < 0.99
    assert np.mean(first) < np.mean(covered)


def test_collinear_controls_are_left_out_by_name() -> None:
    table = simulated()
    every = (table["year"][:, None] == np.arange(7)).astype(float)
    w = np.concatenate([every, np.full((200, 1), 3.0), 2 * table["w"][:, None], table["w"][:, None]], axis=1)
    names = [*(f"year{each}" for each in range(7)), "three", "twice", "once"]
    found = fit_two_stage(design({**table, "w": w}, exogenous_names=names))
    assert [each.name for each in found.dropped] == ["year6", "three", "once"]
    assert "combination of year0, year1, year2" in found.dropped[0].reason
    assert found.dropped[1].reason == "it does not vary"
    assert found.dropped[2].reason == "it says the same as twice"
    assert "once was left out: it says the same as twice" in str(found)
    few = fit_two_stage(design({**table, "w": np.delete(w, [6, 7, 9], axis=1)}))
    np.testing.assert_allclose(found.covariance, few.covariance, rtol=1e-9)


def test_instruments_that_others_say_are_left_out_by_name() -> None:
    table = simulated()
    z = np.stack([table["z1"], table["z2"], table["z1"] - table["z2"] + table["w"]], axis=1)
    found = fit_two_stage(design(table, instruments=z, instrument_names=["rain", "frost", "both"]))
    assert [each.name for each in found.dropped] == ["both"]
    assert found.dropped[0].reason == "it is a combination of w1, rain, frost"
    np.testing.assert_allclose(found.params, fit_two_stage(design(table, instruments=z[:, :2])).params, rtol=1e-10)


TABLE = simulated()
TWO = np.stack([TABLE["x"], TABLE["x"] ** 2], axis=1)
WEIRD = np.stack([TABLE["x"], TABLE["w"] + 2 * TABLE["x"]], axis=1)
BOTH = np.stack([TABLE["z1"], TABLE["z2"]], axis=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"endogenous": TWO}, "2 endogenous columns (x1, x2) cannot be told apart by 1 instrument (z1)"),
        ({"instruments": TABLE["w"]}, "the instrument z1 cannot move anything .* it says the same as w1"),
        ({"instruments": np.ones(200)}, "the instrument z1 cannot move anything .* it does not vary"),
        ({"endogenous": np.ones(200)}, "the endogenous column x1 cannot be told .* it does not vary"),
        ({"endogenous": TABLE["w"] + 1}, "the endogenous column x1 cannot be told .* says the same as w1"),
        ({"endogenous": WEIRD, "instruments": BOTH}, "the endogenous column x2 .* combination of w1, x1; leave one"),
        (
            {"endogenous": TWO, "instruments": np.stack([TABLE["z1"], 3 * TABLE["z1"]], axis=1)},
            "2 endogenous columns .* by 1 instrument, since z2 was left out: it says the same as z1",
        ),
        ({"rows": 3}, "3 rows cannot tell 3 columns .* give more rows, or fewer columns"),
        ({"effects": np.arange(200)}, "it does not vary within the levels of the absorbed effects"),
        (
            {"effects": np.repeat(np.arange(199), [2, *([1] * 198)])},
            "200 rows cannot tell 2 .*, and 199 absorbed effects",
        ),
        ({"instruments": TABLE["region"], "effects": TABLE["firm"]}, "it does not vary within the levels"),
        ({"outcome": np.full(200, np.nan)}, "outcome has values that are missing or infinite in 200 rows"),
        ({"exogenous": TABLE["w"][:50]}, "exogenous has 50 rows, but outcome 200"),
        ({"exogenous": np.array(["a"] * 200)}, "exogenous must be columns of numbers"),
        ({"weights": -TABLE["x"]}, "weights must be one number for each row, none below 0"),
        ({"weights": np.full(200, 0.5), "counts": True}, "must be whole numbers; give counts=False"),
        ({"clusters": TABLE["firm"][:9]}, "clusters must be one or two labels for each of the 200 rows"),
        ({"clusters": np.zeros(200)}, "all rows are of one cluster"),
        ({"endogenous": None, "exogenous": None, "instruments": None, "constant": False}, "there is no column to fit"),
        ({"exogenous_names": ["x1"]}, "x1 is the name of more than one regressor"),
        ({"exogenous_names": ["a", "b"]}, "exogenous_names must be 1 names, one for each column"),
    ],
)
def test_what_cannot_be_told_is_refused_by_name(options: dict[str, Any], words: str) -> None:
    given = {"outcome": TABLE["y"], "endogenous": TABLE["x"], "exogenous": TABLE["w"], "instruments": TABLE["z1"]}
    rows = options.get("rows", 200)
    given = {name: value[:rows] for name, value in given.items()} | {k: v for k, v in options.items() if k != "rows"}
    with pytest.raises(InputError, match=words.replace("(", r"\(").replace(")", r"\)")):
        fit_two_stage(IVDesign.of(**given))


def test_instruments_without_any_effect_are_refused_by_name() -> None:
    x, z = np.tile([0.0, 1.0, 0.0, 1.0], 5), np.tile([0.0, 0.0, 1.0, 1.0], 5)
    y = np.random.default_rng(0).normal(size=20)
    with pytest.raises(InputError, match=r"instruments \(rain\), beside the exogenous columns, does not move price"):
        fit_two_stage(IVDesign.of(y, x, instruments=z, endogenous_names=["price"], instrument_names=["rain"]))
    other = np.random.default_rng(1).normal(size=20)
    pair = np.stack([z + x, 2 * z - x], axis=1)  # what the instruments move of either is z
    with pytest.raises(InputError, match="moves x1, x2 in one proportion only"):
        fit_two_stage(IVDesign.of(y, pair, instruments=np.stack([z, (x - 0.5) * (z - 0.5)], axis=1)))
    assert fit_two_stage(IVDesign.of(y, pair, instruments=np.stack([z, other], axis=1))).rows == 20


def test_errors_that_the_design_has_no_clusters_for_are_refused() -> None:
    with pytest.raises(InputError, match="need clusters; give the design some, or use Robust"):
        fit_two_stage(design(TABLE), Clustered())
    two = design(TABLE, clusters=np.stack([TABLE["firm"], TABLE["year"]], axis=1))
    with pytest.raises(InputError, match="clusters of one way"):
        fit_two_stage(two, ClusterJackknife())
    with pytest.raises(InputError, match="absorbed effects to lie within clusters"):
        fit_two_stage(design(TABLE, clusters=TABLE["firm"], effects=TABLE["year"]), ClusterJackknife())
    with pytest.raises(InputError, match="influence by cluster needs clusters"):
        fit_two_stage(design(TABLE)).influence(by_cluster=True)
    with pytest.raises(InputError, match="use Clustered for LIML"):
        fit_liml(design(TABLE, clusters=TABLE["firm"]), ClusterJackknife())


def test_two_ways_never_leave_a_negative_variance() -> None:
    for seed in range(20):
        table = simulated(seed, rows=40)
        two = design(table, clusters=np.stack([table["firm"], table["year"]], axis=1))
        assert np.all(np.diag(fit_two_stage(two).covariance) >= 0)
