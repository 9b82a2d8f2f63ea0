"""Whether instruments move what they are to move: first stages, the effective F, and the rank of all together.

All work in orthonormal coordinates of what is special to the instruments: with Q those columns and v what the
instruments leave of x, the first stage is π = Qᵀx, and Σ_i q_i v_i is what it is off.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import ncx2

from dualembed import checks
from dualembed.answers.iv_tests import SIZE, IVTest, check_noise, f_tail, opened, quadratic
from dualembed.arrays import Floats
from dualembed.estimates import format_number
from dualembed.linear.iv_covariance import Covariance, Unadjusted
from dualembed.linear.iv_design import FactoredDesign, IVDesign

WEAK = 10.0  # first-stage F below which instruments are weak by the usual rule (Staiger and Stock 1997)
BIAS = 0.1  # worst share of the bias of least squares that the test of the effective F allows for


@dataclasses.dataclass(frozen=True)
class FirstStageTest:
    """How far the instruments move one endogenous column, beside the exogenous ones.

    Attributes
    ----------
    column : str
        Name of the endogenous column.
    statistic : float
        Partial F of the instruments; NaN where it cannot be told.
    freedom : tuple of float
        Its degrees of freedom.
    pvalue : float
        Probability of an F as large if they did not move the column at all.
    partial_r_squared : float
        Share of what exogenous columns leave of the column's variance that the instruments explain.
    shea_r_squared : float
        The same of what is special to the column beside the other endogenous ones (Shea 1997).
    worry : bool
        Whether the instruments are weak.
    sentence : str
        What it says, in plain words.
    """

    column: str
    statistic: float
    freedom: tuple[float, ...]
    pvalue: float
    partial_r_squared: float
    shea_r_squared: float
    worry: bool
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def first_stage_tests(design: IVDesign, covariance: Covariance | None = None) -> tuple[FirstStageTest, ...]:
    """The first stage of each endogenous column: its partial F, and the shares of variance.

    F is the Wald statistic over the number of instruments, as is usual. Clustered, it is too large where instruments
    are not far fewer than clusters; its p-value, and whether it is called weak, are those of Hotelling's instead.

    Parameters
    ----------
    design : IVDesign
        The model.
    covariance : Covariance, optional
        Which noise F allows for; by default `Clustered` where the design has clusters, else `Robust`.

    Returns
    -------
    tuple of FirstStageTest
        One for each endogenous column.
    """
    factored, errors = opened(design, covariance)
    stage = Stage.of(factored)
    k = len(stage.moved)
    inner, outer = (np.linalg.inv(each.T @ each) for each in (stage.moved, stage.left_by_controls))
    found = []
    for place, column in enumerate(factored.endogenous_names):
        spread = errors.spread(factored, stage.basis, noise=stage.noise[:, place], columns=factored.exogenous)
        wald = quadratic(stage.moved[:, place], spread)
        if np.isnan(wald):
            freedom, cautious = (float(k), float("nan")), wald
        else:
            scale, second = errors.f_scale(factored, k, columns=factored.exogenous)
            freedom, cautious = (float(k), second), scale * wald
        partial = float(np.sum(stage.moved[:, place] ** 2) / np.sum(stage.left_by_controls[:, place] ** 2))
        shea = float(outer[place, place] / inner[place, place])
        sentence = _first_stage_words(factored, column, wald / k, cautious=cautious, words=errors.words())
        worry, pvalue = not cautious >= WEAK, f_tail(cautious, *freedom)
        found.append(FirstStageTest(column, wald / k, freedom, pvalue, partial, shea, worry, sentence))
    return tuple(found)


def effective_f(design: IVDesign, covariance: Covariance | None = None) -> IVTest:
    """The effective F of one endogenous column, πᵀπ / tr V with V the covariance of π (Montiel Olea and Pflueger 2013).

    Its hypothesis is that two-stage least squares may have more than a tenth of the worst bias. With one instrument it
    is the robust F itself, and the critical value 23.1.

    Parameters
    ----------
    design : IVDesign
        The model.
    covariance : Covariance, optional
        Which noise it allows for; by default `Clustered` where the design has clusters, else `Robust`.

    Returns
    -------
    IVTest
        The test.

    Raises
    ------
    InputError
        If there are several endogenous columns.
    """
    factored, errors = opened(design, covariance)
    _check_one(factored, "the effective F")
    stage = Stage.of(factored)
    spread = errors.spread(factored, stage.basis, noise=stage.noise[:, 0], columns=factored.exogenous)
    trace, slack = float(np.trace(spread)), 1 / BIAS
    moved = float(stage.moved[:, 0] @ stage.moved[:, 0])
    if trace <= np.finfo(float).eps * moved:
        raise checks.InputError(
            f"{factored.endogenous_names[0]} follows from the instruments without any noise, so that it has no "
            "effective F; instruments could not be stronger"
        )
    statistic = moved / trace
    largest = float(np.linalg.eigvalsh(spread)[-1])
    freedom = trace**2 * (1 + 2 * slack) / (float(np.sum(spread**2)) + 2 * slack * trace * largest)
    critical = float(ncx2.ppf(1 - SIZE, freedom, slack * freedom)) / freedom
    pvalue = float(ncx2.sf(statistic * freedom, freedom, slack * freedom))
    beyond = statistic >= critical
    sentence = (
        f"The effective F of {factored.endogenous_names[0]} is {format_number(statistic)} ({errors.words()}), "
        f"{'at least' if beyond else 'below'} the {format_number(critical)} "
        + (
            "from which on two-stage least squares has at most a tenth of the worst bias."
            if beyond
            else "that would rule out a bias of a tenth of the worst case; read the Anderson-Rubin set too."
        )
    )
    return IVTest("effective F", statistic, (freedom,), pvalue, not beyond, sentence)


def rank_test(design: IVDesign, covariance: Covariance | None = None) -> IVTest:
    """Whether the instruments move all endogenous columns, each by itself: the hypothesis is that they do not.

    With `Unadjusted` it is Cragg and Donald's, (n - b) times the least eigenvalue of (Xᵀ M X)⁻¹ Xᵀ P X; with others
    Kleibergen and Paap's rk statistic, the Wald test of the direction of X that is moved least. Either is χ² with
    k - p + 1 degrees of freedom in large samples; the p-value is that of F, and clustered that of Hotelling's. Partial
    F's do not show that one instrument moves two columns in one proportion.

    Parameters
    ----------
    design : IVDesign
        The model.
    covariance : Covariance, optional
        Which noise it allows for; by default `Clustered` where the design has clusters, else `Robust`.

    Returns
    -------
    IVTest
        The test.
    """
    factored, errors = opened(design, covariance)
    stage = Stage.of(factored)
    k, p = stage.moved.shape
    own = factored.triangle[factored.exogenous : -1, factored.exogenous : -1]
    noise = own / np.sqrt(factored.rows - factored.estimated(factored.exogenous))
    check_noise(factored)
    # In units of the noise, the least singular direction is that of Cragg and Donald's least eigenvalue.
    left, _, right = np.linalg.svd(solve_triangular(noise, stage.moved.T, trans="T").T)
    direction = solve_triangular(noise, right[-1])
    across = left[:, p - 1 :]
    spread = errors.spread(factored, stage.basis @ across, noise=stage.noise @ direction, columns=factored.exogenous)
    statistic = quadratic(across.T @ (stage.moved @ direction), spread)
    scale, second = errors.f_scale(factored, k - p + 1, columns=factored.exogenous)
    freedom = (float(k - p + 1), second)
    pvalue = f_tail(scale * statistic, *freedom)
    each = scale * (k - p + 1) * statistic / k  # for each instrument, less what few clusters add
    kind = "Cragg and Donald's" if isinstance(errors, Unadjusted) else "Kleibergen and Paap's"
    names = checks.some(factored.endogenous_names)
    told = f"{kind} statistic is {format_number(statistic)} ({errors.words()})"
    if not pvalue < SIZE:
        sentence = f"{_effects(factored)} not identified: {told}, which it may well be where the instruments do not "
        sentence += (
            f"move {'it' if p == 1 else 'some combination of these'} at all; coefficients and errors mean nothing."
        )
    elif each < WEAK:
        sentence = f"{_effects(factored)} only weakly identified: {told}, {format_number(each)} for each "
        sentence += f"instrument, where less than {WEAK:g} is weak."
    else:
        sentence = f"The instruments move {names}{', each by itself' if p > 1 else ''}: {told}."
    worry = not (pvalue < SIZE and each >= WEAK)
    return IVTest(f"{kind} rank test", statistic, freedom, pvalue, worry, sentence)


@dataclasses.dataclass(frozen=True, eq=False)
class Stage:
    """The first stage in coordinates of what is special to the instruments: π, Q, and what they leave of X."""

    moved: Floats  # (k, p): π = QᵀX
    left_by_controls: Floats  # (k + p, p), with the inner products of what [1 W] leaves of X
    basis: Floats  # (n, k)
    noise: Floats  # (n, p)

    @staticmethod
    def of(factored: FactoredDesign) -> Stage:
        """That of the design."""
        a, b, p = factored.controls, factored.exogenous, factored.endogenous
        triangle = factored.triangle
        moved, left = triangle[a:b, b : b + p], triangle[a : b + p, b : b + p]
        return Stage(moved, left, factored.instrument_basis()[:, a:], factored.unexplained()[:, :p])


def _check_one(factored: FactoredDesign, what: str) -> None:
    if factored.endogenous != 1:
        raise checks.InputError(
            f"{what} is of one endogenous column, but there are {factored.endogenous} "
            f"({checks.some(factored.endogenous_names)}); use rank_test, or leave one endogenous"
        )


def _effects(factored: FactoredDesign) -> str:
    names = checks.some(factored.endogenous_names)
    return f"The effect of {names} is" if factored.endogenous == 1 else f"Together, the effects of {names} are"


def _first_stage_words(factored: FactoredDesign, column: str, statistic: float, *, cautious: float, words: str) -> str:
    if np.isnan(statistic):
        return f"The first-stage F for {column} cannot be told: there are no more clusters than instruments."
    told = f"The first-stage F of the instruments for {column} is {format_number(statistic)} ({words}"
    if cautious < 0.9 * statistic:
        told += f"; {format_number(cautious)} in view of how few clusters there are"
    if cautious < WEAK:
        return f"{told}): below {WEAK:g} they are weak, and t intervals may be wrong; read the Anderson-Rubin set."
    several = ", but with several endogenous columns the rank test decides" if factored.endogenous > 1 else ""
    return f"{told}); below {WEAK:g} they would be weak{several}."
