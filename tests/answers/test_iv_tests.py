"""Tests of instruments: the numbers of other software, formulas written out, and sets that cover."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas
import pytest
from linearmodels.datasets import mroz
from linearmodels.iv import IV2SLS, IVGMM
from scipy.linalg import eigh, sqrtm
from tests.recorded import DATA, needs_data

from dualembed.answers import (
    anderson_rubin_set,
    anderson_rubin_test,
    effective_f,
    first_stage_tests,
    hansen_test,
    rank_test,
    sargan_test,
    wu_hausman_test,
)
from dualembed.checks import InputError
from dualembed.linear import Clustered, ClusterJackknife, Covariance, IVDesign, Robust, Unadjusted

CONTROLS = ["exper", "expersq", "black", "south", "smsa", "smsa66", *(f"reg66{number}" for number in range(1, 9))]


def schooling(*instruments: str) -> IVDesign:
    """Card's men."""
    men = pandas.read_csv(DATA / "iv" / "card1995.csv")
    names = {"endogenous_names": ["educ"], "instrument_names": instruments}
    return IVDesign.of(men.lwage, men.educ, men[CONTROLS], instruments=men[list(instruments)], **names)


def women() -> tuple[pandas.DataFrame, IVDesign, IV2SLS]:
    """Working women, with schooling by that of their parents and husbands."""
    table = mroz.load().dropna()
    y, w, z = np.log(table.wage), table[["exper", "expersq"]], table[["motheduc", "fatheduc", "huseduc"]]
    ours = IVDesign.of(y, table.educ, w, instruments=z, clusters=table.age, endogenous_names=["educ"])
    return table, ours, IV2SLS(y, w.assign(one=1.0), table.educ, z)


def simulated(seed: int, *, strength: float = 1.0, instruments: int = 3, rows: int = 300, **options: Any) -> IVDesign:
    """An effect of 1 by instruments of a strength, with noise that grows with the first."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, instruments))
    hidden, noise = rng.normal(size=(2, rows))
    x = strength * z.sum(axis=1) + hidden
    return IVDesign.of(x + hidden + noise * (0.5 + np.abs(z[:, 0])), x, instruments=z, **options)


@needs_data
def test_card_has_the_set_of_the_literature() -> None:
    """[0.0249, 0.2847] is that with s² over n - b and χ², as in ivmodels; F, as in R's ivmodel, is a little wider."""
    ours = schooling("nearc4")
    (piece,) = anderson_rubin_set(ours, covariance=Unadjusted(), chi_squared=True).pieces
    np.testing.assert_allclose(piece, [0.02485469086143724, 0.2847206745408055], rtol=1e-9)  # ivmodels 0.10
    (piece,) = anderson_rubin_set(ours, covariance=Unadjusted()).pieces
    np.testing.assert_allclose(piece, [0.02480483596507213, 0.28482359333909246], rtol=1e-9)  # with critical_values="f"
    (piece,) = anderson_rubin_set(schooling("nearc4", "nearc2"), covariance=Unadjusted()).pieces
    np.testing.assert_allclose(piece, [0.05360026100891785, 0.36198079125461113], rtol=1e-9)  # likewise
    np.testing.assert_allclose(rank_test(ours, Unadjusted()).statistic, 13.255785330576105, rtol=1e-9)
    (stage,) = first_stage_tests(ours, Unadjusted())
    np.testing.assert_allclose(stage.statistic, 13.2557853, rtol=1e-8)
    assert stage.sentence.startswith(
        "The first-stage F of the instruments for educ is 13.26 (for noise of one variance); below 10"
    )
    assert not stage.worry


@pytest.mark.parametrize(
    ("errors", "options"),
    [
        (Unadjusted(), {"cov_type": "unadjusted", "debiased": True}),
        (Robust(), {"cov_type": "robust", "debiased": True}),
        (Robust(debiased=False), {"cov_type": "robust"}),
        (Clustered(), {"cov_type": "clustered", "debiased": True}),
    ],
)
def test_first_stages_are_as_in_linearmodels(errors: Covariance, options: dict[str, Any]) -> None:
    table, ours, model = women()
    clusters = {"clusters": table.age.to_numpy()} if "clustered" in options.values() else {}
    theirs = model.fit(**options, **clusters).first_stage.diagnostics.loc["educ"]
    (found,) = first_stage_tests(ours, errors)
    wald = 1 if isinstance(errors, Unadjusted) else 3
    np.testing.assert_allclose(found.statistic * wald, theirs["f.stat"], rtol=1e-8)
    np.testing.assert_allclose(found.partial_r_squared, theirs["partial.rsquared"], rtol=1e-8)
    np.testing.assert_allclose(found.shea_r_squared, theirs["shea.rsquared"], rtol=1e-8)


def test_other_tests_are_as_in_linearmodels() -> None:
    table, ours, model = women()
    theirs = model.fit()
    parts = (model.dependent, model.exog, model.endog, model.instruments)
    for found, their in (
        (wu_hausman_test(ours), theirs.wu_hausman()),
        (sargan_test(ours), theirs.sargan),
        (hansen_test(ours, Robust()), IVGMM(*parts).fit().j_stat),
        (
            hansen_test(ours, Clustered()),
            IVGMM(*parts, weight_type="clustered", clusters=table.age.to_numpy()).fit().j_stat,
        ),
    ):
        np.testing.assert_allclose([found.statistic, found.pvalue], [their.stat, their.pval], rtol=1e-8)
    assert "do not show that hidden causes move educ" in wu_hausman_test(ours).sentence
    regression = model.fit(cov_type="robust", debiased=True).wooldridge_regression
    np.testing.assert_allclose(wu_hausman_test(ours, Robust()).statistic, regression.stat, rtol=1e-8)


def test_weights_change_tests_as_in_linearmodels() -> None:
    table, _, model = women()
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(table))
    parts = (model.dependent, model.exog, model.endog, model.instruments)
    theirs = IV2SLS(*parts, weights=weights).fit()
    z = table[["motheduc", "fatheduc", "huseduc"]]
    ours = IVDesign.of(np.log(table.wage), table.educ, table[["exper", "expersq"]], instruments=z, weights=weights)
    np.testing.assert_allclose(sargan_test(ours).statistic, theirs.sargan.stat, rtol=1e-8)
    np.testing.assert_allclose(wu_hausman_test(ours).statistic, theirs.wu_hausman().stat, rtol=1e-8)


def test_columns_that_instruments_move_in_one_proportion_are_not_identified() -> None:
    """Each column has a huge F of its own, and almost nothing is special to either."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2000, 2))
    hidden = rng.normal(size=(2000, 3))
    x = z[:, :1] * [1.0, 0.9] + 0.002 * z[:, 1:] * [1.0, -1.0] + hidden[:, :2]
    ours = IVDesign.of(x.sum(axis=1) + hidden.sum(axis=1), x, instruments=z, endogenous_names=["price", "adverts"])
    stages = first_stage_tests(ours)
    assert all(each.statistic > 500 and each.shea_r_squared < 0.002 for each in stages)
    assert all("the rank test decides" in each.sentence for each in stages)
    for errors in (Unadjusted(), Robust()):
        found = rank_test(ours, errors)
        assert found.pvalue > 0.05
        assert found.worry
        assert found.sentence.startswith("Together, the effects of price, adverts are not identified")
    weak = IVDesign.of(ours.outcome, x + 0.04 * z[:, 1:] * [1.0, -1.0], instruments=z)
    assert "only weakly identified" in rank_test(weak).sentence
    good = rank_test(IVDesign.of(ours.outcome, x + z[:, 1:] * [1.0, -1.0], instruments=z))
    assert not good.worry
    assert good.sentence.startswith("The instruments move x1, x2, each by itself")


def two_causes(rows: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(y, X, Z, clusters) of two causes and four instruments, with noise of unequal variances."""
    rng = np.random.default_rng(5)
    z, hidden = rng.normal(size=(rows, 4)), rng.normal(size=(rows, 2))
    noise = hidden * (0.5 + np.abs(z[:, :1]))
    x = z @ np.array([[0.3, 0.1], [0.2, 0.2], [0.0, 0.2], [0.1, 0.1]]) + noise
    return x.sum(axis=1) + hidden.sum(axis=1), x, z, rng.integers(40, size=rows)


@pytest.mark.parametrize("clustered", [False, True])
def test_rank_statistic_is_kleibergen_and_paaps(clustered: bool) -> None:
    """Written out with Kronecker products, as in the paper; with one variance it is Cragg and Donald's eigenvalue."""
    y, x, z, clusters = two_causes()
    rows, k, p = len(y), 4, 2
    ours = IVDesign.of(y, x, instruments=z, clusters=clusters)
    z0, x0 = z - z.mean(axis=0), x - x.mean(axis=0)
    pi = np.linalg.solve(z0.T @ z0, z0.T @ x0)
    v = x0 - z0 @ pi
    sigma = v.T @ v / (rows - k - 1)
    least = eigh(pi.T @ z0.T @ x0, sigma, eigvals_only=True)[0]
    np.testing.assert_allclose(rank_test(ours, Unadjusted()).statistic, least, rtol=1e-8)

    left, right = np.real(sqrtm(z0.T @ z0)), np.real(np.linalg.inv(sqrtm(sigma)))
    theta = left @ pi @ right
    scores = np.einsum("ij,ik->ijk", v @ right, z0 @ np.linalg.inv(left)).reshape(rows, p * k)  # of vec by columns
    factor = rows / (rows - k - 1)
    if clustered:
        scores = np.stack([scores[clusters == each].sum(axis=0) for each in range(40)])
        factor = 40 / 39 * (rows - 1) / (rows - k - 1)
    u, _, vt = np.linalg.svd(theta)
    project = np.kron(vt[1:].T, u[:, 1:])
    vector = project.T @ theta.T.reshape(-1)
    expected = vector @ np.linalg.solve(factor * project.T @ scores.T @ scores @ project, vector)
    found = rank_test(ours, Clustered() if clustered else Robust())
    np.testing.assert_allclose(found.statistic, expected, rtol=1e-8)
    assert found.freedom == ((3, 40 - 3) if clustered else (3, 395))


def test_shea_is_the_partial_share_beside_other_causes() -> None:
    y, x, z, _ = two_causes()
    theirs = IV2SLS(y, np.ones((len(y), 1)), x, z).fit().first_stage.diagnostics
    found = first_stage_tests(IVDesign.of(y, x, instruments=z))
    np.testing.assert_allclose([each.shea_r_squared for each in found], theirs["shea.rsquared"], rtol=1e-8)
    np.testing.assert_allclose([each.partial_r_squared for each in found], theirs["partial.rsquared"], rtol=1e-8)


def test_effective_f_is_the_formula_and_with_one_instrument_the_robust_f() -> None:
    ours = simulated(0, strength=0.2)
    z, x = ours.instruments, ours.endogenous[:, 0]
    q = np.linalg.qr(z - z.mean(axis=0))[0]
    pi = q.T @ (x - x.mean())
    v = x - x.mean() - q @ pi
    variance = 300 / 296 * (q * v[:, None]).T @ (q * v[:, None])
    np.testing.assert_allclose(effective_f(ours).statistic, pi @ pi / np.trace(variance), rtol=1e-8)
    one = simulated(0, instruments=1, strength=0.3)
    found, (stage,) = effective_f(one), first_stage_tests(one)
    np.testing.assert_allclose(found.statistic, stage.statistic, rtol=1e-10)
    assert "the 23.11 " in found.sentence  # the critical value in the paper's table
    homoskedastic = effective_f(simulated(0, instruments=3), Unadjusted())
    np.testing.assert_allclose(homoskedastic.freedom, (3,), rtol=1e-8)


@pytest.mark.parametrize("errors", [Unadjusted(), Robust(), Robust(debiased=False), Clustered()])
@pytest.mark.parametrize("strength", [0.0, 0.06, 0.3])
@pytest.mark.parametrize("instruments", [1, 4])
def test_sets_are_what_the_test_does_not_reject(errors: Covariance, strength: float, instruments: int) -> None:
    """On a grid that is fine near the ends, and far away."""
    for seed in range(4):
        clusters = np.random.default_rng(seed).integers(30, size=300)
        ours = simulated(seed, strength=strength, instruments=instruments, clusters=clusters)
        found = anderson_rubin_set(ours, level=0.9, covariance=errors)
        ends = [end for piece in found.pieces for end in piece if np.isfinite(end)]
        for end in ends:
            np.testing.assert_allclose(anderson_rubin_test(ours, end, errors).pvalue, 0.1, rtol=1e-6)
        grid = [*np.linspace(-5, 5, 60), -1e6, 1e6, *(end + step for end in ends for step in (-1e-6, 1e-6))]
        for value in grid:
            assert (value in found) == (anderson_rubin_test(ours, value, errors).pvalue >= 0.1)


def test_sets_say_in_words_what_they_are() -> None:
    bounded = anderson_rubin_set(simulated(0, strength=0.5))
    assert bounded.bounded
    assert ", between 0." in bounded.sentence
    kinds = {}
    for seed in range(60):
        found = anderson_rubin_set(simulated(seed, strength=0.05, instruments=1))
        kinds[len(found.pieces), found.bounded] = found
    assert kinds[1, False].sentence.endswith("any number at all: the instruments are too weak to tell.")
    assert "at most" in kinds[2, False].sentence
    assert "or at least" in kinds[2, False].sentence
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 2))
    x = z.sum(axis=1) + rng.normal(size=500)
    empty = anderson_rubin_set(IVDesign.of(x + z[:, 0] + rng.normal(size=500), x, instruments=z))
    assert empty.empty
    assert empty.sentence.startswith("No effect of x1 agrees with all instruments at 95 %")
    assert "contradict each other" in hansen_test(IVDesign.of(x + z[:, 0], x, instruments=z)).sentence


@pytest.mark.parametrize("strength", [0.0, 0.2])
def test_sets_cover_however_weak_the_instruments_are(strength: float) -> None:
    found = [anderson_rubin_set(simulated(seed, strength=strength, rows=200)) for seed in range(300)]
    assert 0.92 < np.mean([1.0 in each for each in found]) < 0.98


def test_sets_of_few_clusters_and_many_instruments_cover() -> None:
    """With five instruments and 15 clusters, χ² would cover in less than three of four cases."""
    clusters = np.arange(300) // 20
    hits, usual = [], []
    for seed in range(300):
        ours = simulated(seed, strength=0.1, instruments=5, clusters=clusters)
        hits.append(1.0 in anderson_rubin_set(ours))
        usual.append(1.0 in anderson_rubin_set(ours, chi_squared=True))
    assert 0.91 < np.mean(hits) < 0.985
    assert np.mean(usual) < 0.75


def test_first_stages_of_few_clusters_are_judged_by_what_is_left_of_them() -> None:
    ours = simulated(1, strength=0.2, instruments=8, clusters=np.arange(300) // 20)
    (found,) = first_stage_tests(ours)
    assert found.statistic > 10
    assert found.worry
    assert "in view of how few clusters there are): below 10 they are weak" in found.sentence
    assert rank_test(ours).worry


def test_first_stages_that_are_weak_or_cannot_be_told_say_so() -> None:
    (weak,) = first_stage_tests(simulated(0, strength=0.02))
    assert weak.worry
    assert "below 10 they are weak, and t intervals may be wrong" in weak.sentence
    few = simulated(0, clusters=np.arange(300) % 3)
    (unknown,) = first_stage_tests(few, ClusterJackknife())
    assert np.isnan(unknown.statistic)
    assert unknown.worry
    assert "cannot be told: there are no more clusters than instruments" in unknown.sentence
    with pytest.raises(InputError, match="3 clusters are too few to test 3 instruments or columns together"):
        anderson_rubin_set(few)
    with pytest.raises(InputError, match="3 clusters and 300 rows are too few to tell how 4 moments"):
        hansen_test(few)


def test_what_has_no_answer_is_refused() -> None:
    y, x, z, _ = two_causes()
    two = IVDesign.of(y, x, instruments=z)
    with pytest.raises(InputError, match=r"the effective F is of one endogenous column, but there are 2 \(x1, x2\)"):
        effective_f(two)
    with pytest.raises(InputError, match="the Anderson-Rubin set is of one endogenous column, but there are 2"):
        anderson_rubin_set(two)
    exact = simulated(0, instruments=1)
    for agreement in (sargan_test, hansen_test):
        with pytest.raises(InputError, match="as many instruments as endogenous columns"):
            agreement(exact)
    tests: list[Any] = [first_stage_tests, rank_test, wu_hausman_test]
    for test in tests:
        with pytest.raises(InputError, match="there is no endogenous column"):
            test(IVDesign.of(y, None, x))
    known = IVDesign.of(y, x[:, 0], instruments=np.stack([x[:, 0], z[:, 0]], axis=1))
    for test in tests[1:]:
        with pytest.raises(InputError, match="say an endogenous column exactly"):
            test(known)
    perfect = IVDesign.of(2 * x[:, 0], x[:, 0], instruments=z)
    tests = [sargan_test, hansen_test, wu_hausman_test, anderson_rubin_set, anderson_rubin_test]
    for test in tests:
        with pytest.raises(InputError, match="the columns say the outcome exactly, and tests need noise"):
            test(perfect)
