"""Confidence sets of an effect that hold however weak the instruments are (Anderson and Rubin 1949).

For a value β of the effect, y - βx is regressed on [1 W Z]: if β is true, the instruments have no part in it. With
g(β) = Qᵀ(y - βx) and S(β) its covariance, the set is where g(β)ᵀ S(β)⁻¹ g(β) is at most a quantile.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
from scipy.linalg import eig
from scipy.optimize import brentq
from scipy.stats import chi2, f

from dualembed import checks
from dualembed.answers.iv_strength import Stage
from dualembed.answers.iv_tests import NO_INVERSE, SIZE, IVTest, check_noise, f_tail
from dualembed.arrays import Floats
from dualembed.estimates import check_level, format_number, pluralise
from dualembed.linear.iv_covariance import Covariance, Unadjusted, default_covariance
from dualembed.linear.iv_design import IVDesign
from dualembed.linear.two_stage import solve_k_class

NEARLY_REAL = 1e-3  # imaginary part, in terms of the size, up to which a root is looked at as a real one


@dataclasses.dataclass(frozen=True)
class ConfidenceSet:
    """The values of an effect that a test does not reject: pieces of the line.

    Attributes
    ----------
    column : str
        Whose effect it is.
    level : float
        Probability that the true effect is within.
    pieces : tuple of (float, float)
        Lower and upper end of each piece, ascending; infinite where there is none. No piece is the empty set.
    sentence : str
        What it says, in plain words.
    """

    column: str
    level: float
    pieces: tuple[tuple[float, float], ...]
    sentence: str

    @property
    def empty(self) -> bool:
        """Whether every value is rejected: the instruments contradict each other."""
        return not self.pieces

    @property
    def bounded(self) -> bool:
        """Whether the set has ends on both sides."""
        return all(np.isfinite(end) for piece in self.pieces for end in piece)

    def __contains__(self, value: float) -> bool:
        return any(lower <= value <= upper for lower, upper in self.pieces)

    def __str__(self) -> str:
        return self.sentence


def anderson_rubin_test(design: IVDesign, value: float = 0.0, covariance: Covariance | None = None) -> IVTest:
    """Anderson and Rubin's test of a value of the effect of the one endogenous column.

    Parameters
    ----------
    design : IVDesign
        The model, with one endogenous column.
    value : float, default=0.0
        The effect that is tested.
    covariance : Covariance, optional
        Which noise it allows for; by default `Clustered` where the design has clusters, else `Robust`.

    Returns
    -------
    IVTest
        The test, F with k and n - b degrees of freedom; clustered it is Hotelling's, with k and G - k.

    Raises
    ------
    InputError
        If there is not one endogenous column, or there are too few clusters for the instruments.
    """
    checks.number("value", value)
    curve = _Curve.of(design, covariance)
    statistic = curve.scale * curve.statistic((value / curve.unit - curve.centre) / curve.width)
    pvalue = f_tail(statistic, curve.count, curve.freedom)
    told = f"(Anderson and Rubin's F {format_number(statistic)}, p = {pvalue:.2g}, {curve.errors.words()})"
    verb = "contradict" if pvalue < SIZE else "do not contradict"
    sentence = f"The data {verb} an effect of {format_number(value)} of {curve.column} {told}, however weak the "
    sentence += "instruments are."
    return IVTest("Anderson and Rubin's test", statistic, (curve.count, curve.freedom), pvalue, False, sentence)


def anderson_rubin_set(
    design: IVDesign, level: float = 0.95, covariance: Covariance | None = None, *, chi_squared: bool = False
) -> ConfidenceSet:
    """The effects of the one endogenous column that Anderson and Rubin's test does not reject.

    It covers the true effect with the stated probability however weak the instruments are. For noise of one variance,
    or one instrument, its ends solve a quadratic equation; else det(c S(β) - g(β) g(β)ᵀ) = 0, a quadratic eigenvalue
    problem.

    Parameters
    ----------
    design : IVDesign
        The model, with one endogenous column.
    level : float, default=0.95
        Probability, between 0 and 1.
    covariance : Covariance, optional
        Which noise it allows for; by default `Clustered` where the design has clusters, else `Robust`.
    chi_squared : bool, default=False
        Whether the quantile is that of χ² with k degrees of freedom over k, rather than of F, which is a little larger.

    Returns
    -------
    ConfidenceSet
        Bounded, unbounded, of several pieces, or empty.

    Raises
    ------
    InputError
        If there is not one endogenous column, or there are too few clusters for the instruments.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z, hidden = rng.normal(size=(2, 500))
    >>> x = z + hidden
    >>> found = anderson_rubin_set(IVDesign.of(x + 2 * hidden, x, instruments=z))
    >>> 1.0 in found, 2.0 in found, found.bounded
    (True, False, True)
    """
    check_level(level)
    curve = _Curve.of(design, covariance)
    bound = float(chi2.ppf(level, curve.count))
    if not chi_squared and np.isfinite(curve.freedom):
        bound = float(f.ppf(level, curve.count, curve.freedom)) / curve.scale
    ends = [end for end in curve.crossings(bound) if np.isfinite(end)]
    inside = [curve.statistic(place) <= bound for place in _between(ends)]
    pieces: list[tuple[float, float]] = []
    for lower, upper, within in zip([-np.inf, *ends], [*ends, np.inf], inside, strict=True):
        if within and pieces and pieces[-1][1] == lower:
            pieces[-1] = (pieces[-1][0], upper)
        elif within:
            pieces.append((lower, upper))
    own = [tuple(float((curve.centre + curve.width * end) * curve.unit) for end in piece) for piece in pieces]
    found = tuple(sorted((min(piece), max(piece)) for piece in own))
    return ConfidenceSet(curve.column, level, found, _set_words(curve.column, level, found, curve.errors.words()))


@dataclasses.dataclass(frozen=True, eq=False)
class _Curve:
    """β -> g(β)ᵀ S(β)⁻¹ g(β) in units of a width about a centre: g = level - β slope, S = S₀ - 2 β S₁ + β² S₂."""

    column: str
    errors: Covariance
    count: float  # instruments
    scale: float  # what makes the statistic an F
    freedom: float  # its second degrees of freedom
    level: Floats  # (k,)
    slope: Floats  # (k,)
    spreads: tuple[Floats, Floats, Floats]  # (k, k) each
    centre: float
    width: float
    unit: float  # of the columns' own coefficient

    @staticmethod
    def of(design: IVDesign, covariance: Covariance | None) -> _Curve:
        """That of the design, about two-stage least squares."""
        factored = design.factored
        if factored.endogenous != 1:
            raise checks.InputError(
                f"the Anderson-Rubin set is of one endogenous column, but there are {factored.endogenous}; "
                "make the others exogenous, or leave them out"
            )
        check_noise(factored)
        errors = default_covariance(factored) if covariance is None else covariance
        a, b = factored.controls, factored.exogenous
        scale, freedom = errors.f_scale(factored, b - a, columns=b)
        stage = Stage.of(factored)
        centre = float(solve_k_class(factored, 1.0)[0][0])
        outcome = factored.unexplained()[:, -1] - centre * stage.noise[:, 0]
        width = np.linalg.norm(outcome) / np.sqrt(factored.rows) / np.linalg.norm(stage.moved)
        width = float(width) if width > 0 else 1.0
        cause = width * stage.noise[:, 0]
        level = factored.triangle[a:b, -1] - centre * stage.moved[:, 0]

        def spread(first: Floats, second: Floats | None = None) -> Floats:
            return errors.spread(factored, stage.basis, noise=first, other=second, columns=b)

        spreads = (spread(outcome), spread(outcome, cause), spread(cause))
        strengths = np.linalg.eigvalsh(spreads[2])
        if strengths[0] <= NO_INVERSE * strengths[-1]:
            raise checks.InputError(
                f"there are too few rows to tell how {pluralise(len(level), 'instrument')} vary with noise; give "
                "fewer instruments, or other errors"
            )
        return _Curve(
            factored.endogenous_names[0], errors, float(b - a), scale, freedom, level,
            width * stage.moved[:, 0], spreads, centre, width, float(factored.back[0, 0]),
        )  # fmt: skip

    def statistic(self, place: float) -> float:
        """The statistic at a place; at infinity that of the first stage."""
        zero, one, two = self.spreads
        if np.isinf(place):
            return float(self.slope @ np.linalg.solve(two, self.slope))
        gap, spread = self.level - place * self.slope, zero - 2 * place * one + place**2 * two
        return float(gap @ np.linalg.solve(spread, gap))

    def crossings(self, bound: float) -> list[float]:
        """Where the statistic crosses the bound, ascending: real roots of det(bound S - g gᵀ)."""
        zero, one, two = self.spreads
        if isinstance(self.errors, Unadjusted) or len(self.level) == 1:
            return self._quadratic_roots(bound)
        free = bound * zero - np.outer(self.level, self.level)
        mixed = np.outer(self.level, self.slope)
        linear = -2 * bound * one + mixed + mixed.T
        square = bound * two - np.outer(self.slope, self.slope)
        k = len(free)
        blank, same = np.zeros((k, k)), np.eye(k)
        found = eig(
            np.block([[blank, same], [-free, -linear]]), np.block([[same, blank], [blank, square]]), right=False
        )
        found = found[np.isfinite(found)]
        near = np.sort(found.real[np.abs(found.imag) <= NEARLY_REAL * (1 + np.abs(found.real))])
        places = _between(list(near))
        signs = [self.statistic(place) - bound for place in places]
        ends = []
        for number, root in enumerate(near):
            if signs[number] * signs[number + 1] < 0:
                ends.append(self._refine(bound, places[number], root, places[number + 1]))
        return ends

    def _quadratic_roots(self, bound: float) -> list[float]:
        """Of one variance, S = s²(β) I: bound s²(β) - g(β)ᵀg(β) = 0."""
        zero, one, two = (float(each[0, 0]) for each in self.spreads)
        square = bound * two - float(self.slope @ self.slope)
        linear = -2 * bound * one + 2 * float(self.level @ self.slope)
        free = bound * zero - float(self.level @ self.level)
        under = linear**2 - 4 * square * free
        if under <= 0:
            return []
        half = -(linear + np.copysign(np.sqrt(under), linear)) / 2  # neither root is a difference of like numbers
        return sorted([half / square if square else np.inf, free / half if half else 0.0])

    def _refine(self, bound: float, lower: float, root: float, upper: float) -> float:
        """The root between two places, to the last digit; beyond the outermost roots the sign is that at infinity."""
        reach = max(1.0, abs(root))
        lower, upper = max(lower, root - reach), min(upper, root + reach)
        if (self.statistic(lower) - bound) * (self.statistic(upper) - bound) >= 0:
            return float(root)  # rounding has it at an end
        return float(brentq(lambda place: self.statistic(place) - bound, lower, upper, xtol=1e-14, rtol=1e-14))


def _between(ends: list[float]) -> list[float]:
    """A place within each of the intervals that the ends make of the line."""
    if not ends:
        return [0.0]
    return [-np.inf, *((lower + upper) / 2 for lower, upper in itertools.pairwise(ends)), np.inf]


def _set_words(column: str, level: float, pieces: tuple[tuple[float, float], ...], words: str) -> str:
    start = f"The effect of {column} is, at {100 * level:g} % ({words}, however weak the instruments), "
    if not pieces:
        return (
            f"No effect of {column} agrees with all instruments at {100 * level:g} % ({words}): they contradict each "
            "other, so that at least one is not valid, or the effect is not linear."
        )
    if pieces == ((-np.inf, np.inf),):
        return start + "any number at all: the instruments are too weak to tell."
    shown = " or ".join(_piece_words(*piece) for piece in pieces)
    if all(np.isfinite(end) for piece in pieces for end in piece):
        return f"{start}{shown}."
    return f"{start}{shown}: the set has no end, since the instruments are too weak to tell how large it is."


def _piece_words(lower: float, upper: float) -> str:
    if np.isinf(lower):
        return f"at most {format_number(upper)}"
    if np.isinf(upper):
        return f"at least {format_number(lower)}"
    return f"between {format_number(lower)} and {format_number(upper)}"
