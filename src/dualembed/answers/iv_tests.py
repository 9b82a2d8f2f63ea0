"""What to ask of instruments before an effect is believed: do they agree, and did hidden causes move x at all."""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import chi2, f

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.estimates import format_number
from dualembed.linear.gmm import fit_gmm
from dualembed.linear.iv_covariance import Covariance, Unadjusted, default_covariance
from dualembed.linear.iv_design import FactoredDesign, IVDesign
from dualembed.linear.iv_rank import COLLINEAR
from dualembed.linear.two_stage import fit_two_stage, solve_k_class

SIZE = 0.05  # p-value below which a test rejects
NO_INVERSE = 1e-12  # least eigenvalue of a covariance, in terms of the largest, below which it has no inverse


@dataclasses.dataclass(frozen=True)
class IVTest:
    """A test of a linear model with instruments.

    Attributes
    ----------
    name : str
        Name of the test.
    statistic : float
        The statistic; NaN where it cannot be told.
    freedom : tuple of float
        Degrees of freedom: one of χ², two of F.
    pvalue : float
        Probability of a statistic as large if the hypothesis holds.
    worry : bool
        Whether what it says is a reason not to believe an effect.
    sentence : str
        What it says, in plain words.
    """

    name: str
    statistic: float
    freedom: tuple[float, ...]
    pvalue: float
    worry: bool
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def sargan_test(design: IVDesign) -> IVTest:
    """Whether instruments agree with each other: n times the share of the residual that they explain (Sargan 1958).

    It takes noise to have one variance; `hansen_test` does not.

    Parameters
    ----------
    design : IVDesign
        The model, with more instruments than endogenous columns.

    Returns
    -------
    IVTest
        The test, χ² with k - p degrees of freedom.

    Raises
    ------
    InputError
        If there are as many instruments as endogenous columns.
    """
    factored = _overidentified(design)
    noise = _noise(fit_two_stage(design, Unadjusted()).residuals, factored)
    explained = factored.instrument_basis().T @ noise
    statistic = factored.rows * float(explained @ explained) / float(noise @ noise)
    return _agreement("Sargan's", statistic, factored, "for noise of one variance")


def hansen_test(design: IVDesign, covariance: Covariance | None = None) -> IVTest:
    """Whether instruments agree with each other: Hansen's J of the two-step generalised method of moments.

    Parameters
    ----------
    design : IVDesign
        The model, with more instruments than endogenous columns.
    covariance : Covariance, optional
        Which noise it allows for; by default `Clustered` where the design has clusters, else `Robust`.

    Returns
    -------
    IVTest
        The test, χ² with k - p degrees of freedom.

    Raises
    ------
    InputError
        If there are as many instruments as endogenous columns, or too few clusters for the moments.
    """
    factored = _overidentified(design)
    found = fit_gmm(design, covariance)
    return _agreement("Hansen's J", float(found.j_statistic or 0.0), factored, found.errors.words())


def wu_hausman_test(design: IVDesign, covariance: Covariance | None = None) -> IVTest:
    """Whether least squares would do: the hypothesis is that no hidden causes move both X and y.

    It is the F test of what the instruments leave of X, added to the regression of y on X and W.

    Parameters
    ----------
    design : IVDesign
        The model.
    covariance : Covariance, optional
        Which noise it allows for; by default `Unadjusted`, as Wu and Hausman did. With others it is Wooldridge's
        regression test.

    Returns
    -------
    IVTest
        The test, F with p and n - K - p degrees of freedom.
    """
    factored, errors = opened(design, Unadjusted() if covariance is None else covariance)
    b, p, places = factored.exogenous, factored.endogenous, list(factored.regressors)
    check_noise(factored)
    rest = np.zeros((len(factored.triangle), p))
    rest[b:] = factored.triangle[b:, b : b + p]
    q, s = np.linalg.qr(np.concatenate([factored.triangle[:, places], rest], axis=1))
    theta = solve_triangular(s, q.T @ factored.triangle[:, -1])
    columns = np.concatenate([factored.columns[:, places], factored.unexplained()[:, :p]], axis=1)
    noise = factored.columns[:, -1] - columns @ theta
    moves = columns @ solve_triangular(s, solve_triangular(s, np.eye(len(s))[:, -p:], trans="T"))
    spread = errors.spread(factored, moves, noise=noise, columns=len(s))
    freedom = (float(p), errors.freedom(factored, len(s)))
    statistic = quadratic(theta[-p:], spread) / p
    pvalue = f_tail(statistic, *freedom)
    names = checks.some(factored.endogenous_names)
    if pvalue < SIZE:
        sentence = f"Hidden causes move both {names} and the outcome (Wu and Hausman's F {format_number(statistic)}, "
        sentence += f"p = {pvalue:.2g}): least squares would be wrong, if the instruments are right."
    else:
        sentence = f"The data do not show that hidden causes move {names} (Wu and Hausman's F "
        sentence += f"{format_number(statistic)}, p = {pvalue:.2g}): least squares may do, and be more precise."
    return IVTest("Wu and Hausman's test", statistic, freedom, pvalue, False, sentence)


def opened(design: IVDesign, covariance: Covariance | None) -> tuple[FactoredDesign, Covariance]:
    """The factored design and its errors; refused without endogenous columns."""
    factored = design.factored
    if not factored.endogenous:
        raise checks.InputError("there is no endogenous column, and nothing to ask of instruments; give some of both")
    return factored, default_covariance(factored) if covariance is None else covariance


def check_noise(factored: FactoredDesign) -> None:
    """Refuse an endogenous column that the instruments say exactly, and an outcome that the model does."""
    left = np.abs(np.diag(factored.triangle))[factored.exogenous : -1]
    if left.size == 0 or left.min() <= COLLINEAR:
        raise checks.InputError("the instruments say an endogenous column exactly; make it an exogenous one")
    theta = solve_k_class(factored, 1.0)[0]
    left = factored.triangle[:, -1] - factored.triangle[:, list(factored.regressors)] @ theta
    if np.linalg.norm(left) <= COLLINEAR:
        raise checks.InputError("the columns say the outcome exactly, and tests need noise; check how it was made")


def _overidentified(design: IVDesign) -> FactoredDesign:
    factored, _ = opened(design, None)
    if len(factored.instrument_names) == factored.endogenous:
        raise checks.InputError(
            f"there are as many instruments as endogenous columns ({factored.endogenous}), so that they cannot but "
            "agree; give more instruments to test them"
        )
    check_noise(factored)
    return factored


def _agreement(name: str, statistic: float, factored: FactoredDesign, words: str) -> IVTest:
    freedom = float(len(factored.instrument_names) - factored.endogenous)
    pvalue = float(chi2.sf(statistic, freedom))
    told = f"({name} statistic {format_number(statistic)}, p = {pvalue:.2g}, {words})"
    if pvalue < SIZE:
        sentence = f"The instruments contradict each other {told}: at least one moves the outcome by another way."
    else:
        sentence = f"The instruments agree with each other {told}, which they might also do if all were wrong alike."
    return IVTest(f"{name} test", statistic, (freedom,), pvalue, pvalue < SIZE, sentence)


def _noise(residuals: Floats, factored: FactoredDesign) -> Floats:
    return np.sqrt(factored.weights) * residuals / factored.scale


def quadratic(values: Floats, spread: Floats) -> float:
    """valuesᵀ spread⁻¹ values; NaN where clusters are too few for the spread to have an inverse."""
    scale = np.sqrt(np.maximum(np.diag(spread), np.finfo(float).tiny))
    strengths = np.linalg.eigvalsh(spread / np.outer(scale, scale))
    if strengths[0] <= NO_INVERSE * strengths[-1]:
        return float("nan")
    return float(values @ np.linalg.solve(spread, values))


def f_tail(statistic: float, first: float, second: float) -> float:
    """P(F > statistic), of χ² over its degrees of freedom where the second are infinite."""
    return float(chi2.sf(first * statistic, first) if np.isinf(second) else f.sf(statistic, first, second))
