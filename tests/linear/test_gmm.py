"""Fits by moments: the numbers of linearmodels, and the estimates that they must be in simple cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from linearmodels.datasets import mroz
from linearmodels.iv import IVGMM, IVGMMCUE

from dualembed.checks import InputError
from dualembed.linear import (
    Clustered,
    ClusterJackknife,
    Covariance,
    IVDesign,
    Robust,
    Unadjusted,
    fit_cue,
    fit_gmm,
    fit_liml,
    fit_two_stage,
)

WOMEN = mroz.load().dropna()
PARTS = (
    np.log(WOMEN.wage),
    WOMEN[["exper", "expersq"]].assign(one=1.0),
    WOMEN.educ,
    WOMEN[["motheduc", "fatheduc", "huseduc"]],
)
ORDER = ["educ", "exper", "expersq", "one"]
AGES = WOMEN.age.to_numpy().astype(int)
CASES = [
    (Unadjusted(debiased=False), {"weight_type": "unadjusted"}, {"cov_type": "unadjusted"}),
    (Robust(), {}, {"cov_type": "robust", "debiased": True}),
    (Robust(debiased=False), {}, {"cov_type": "robust"}),
    (
        Clustered(),
        {"weight_type": "clustered", "clusters": AGES},
        {"cov_type": "clustered", "clusters": AGES, "debiased": True},
    ),
]


def design(**options: Any) -> IVDesign:
    y, w, x, z = PARTS
    return IVDesign.of(y, x, w[["exper", "expersq"]], **{"instruments": z, "clusters": AGES, **options})


@pytest.mark.parametrize(("errors", "weighting", "options"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_two_steps_are_as_in_linearmodels(errors: Covariance, weighting: Any, options: Any, weighted: bool) -> None:
    if weighted and isinstance(errors, Unadjusted):
        return  # linearmodels centres the weighted residuals there, whose mean is not 0
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(WOMEN)) if weighted else None
    theirs = IVGMM(*PARTS, weights=weights, **weighting).fit(**options)
    found = fit_gmm(design(weights=weights), errors)
    np.testing.assert_allclose(found.params, theirs.params[ORDER], rtol=1e-8)
    np.testing.assert_allclose(found.covariance, theirs.cov.loc[ORDER, ORDER], rtol=1e-8)
    np.testing.assert_allclose(found.j_statistic, theirs.j_stat.stat, rtol=1e-8)


@pytest.mark.parametrize(("errors", "weighting", "options"), CASES)
def test_continuous_updating_is_as_in_linearmodels(errors: Covariance, weighting: Any, options: Any) -> None:
    """Theirs is found without slopes, and to fewer digits; started at ours, it finds nothing better."""
    model = IVGMMCUE(*PARTS, center=False, **weighting)
    search = {"method": "Nelder-Mead", "options": {"xatol": 1e-13, "fatol": 1e-15, "maxiter": 4000, "maxfev": 4000}}
    theirs = model.fit(opt_options=search, **options)
    found = fit_cue(design(), errors)
    np.testing.assert_allclose(found.params, theirs.params[ORDER], rtol=1e-6)
    np.testing.assert_allclose(found.covariance, theirs.cov.loc[ORDER, ORDER], rtol=1e-6)
    assert found.j_statistic <= theirs.j_stat.stat * (1 + 1e-12)
    np.testing.assert_allclose(found.j_statistic, theirs.j_stat.stat, rtol=1e-9)


def test_moments_of_one_variance_are_two_stages_or_likelihood() -> None:
    for moments, other in ((fit_gmm, fit_two_stage), (fit_cue, fit_liml)):
        found, expected = moments(design(), Unadjusted()), other(design(), Unadjusted())
        np.testing.assert_allclose(found.params, expected.params, rtol=1e-9)


def test_exactly_identified_moments_are_two_stages() -> None:
    one = design(instruments=WOMEN.huseduc)
    expected = fit_two_stage(one, Robust())
    for fit in (fit_gmm, fit_cue):
        found = fit(one, Robust())
        np.testing.assert_allclose(found.params, expected.params, rtol=1e-8)
        np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-8)
        assert found.j_statistic < 1e-12


def test_influence_of_moments_makes_their_covariance() -> None:
    found = fit_gmm(design(), Robust(debiased=False))
    influence = found.influence()
    np.testing.assert_allclose(influence.T @ influence, found.covariance, rtol=1e-10)


def test_moments_that_cannot_be_weighed_are_refused() -> None:
    with pytest.raises(InputError, match="4 clusters and 428 rows are too few to tell how 6 moments vary together"):
        fit_gmm(design(clusters=AGES % 4))
    with pytest.raises(InputError, match="use Clustered for moments"):
        fit_gmm(design(), ClusterJackknife())
