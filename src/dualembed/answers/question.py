"""What can be asked of a fitted function, anything that is linear in it, and how it is answered."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.answers.answer import Answer, judge, outside_warning
from dualembed.arrays import Booleans, Floats, Integers
from dualembed.linear.candidates import Functional
from dualembed.linear.fit import LinearFit
from dualembed.linear.path import mix
from dualembed.spaces.base import Function
from dualembed.spaces.features import evaluate_functions, to_numpy
from dualembed.spaces.linear import LinearFunction
from dualembed.tuning import SEARCH

CONSTANT = 1e-9  # deviation of f over its value, below which it is rounding


@dataclasses.dataclass(frozen=True)
class Question:
    """A sum of factors times means of f over some points, in words and in coded points; estimators make them of tables.

    Questions add, subtract and can be multiplied by numbers, and so do their answers.

    Attributes
    ----------
    words : str
        The question in words.
    parts : tuple of (float, Functional)
        Factors, and what each is a factor of.
    """

    words: str
    parts: tuple[tuple[float, Functional], ...]

    @staticmethod
    def mean(
        words: str,
        points: Floats,
        shares: Floats | None = None,
        groups: Integers | None = None,
        strays: Floats | None = None,
        mass: Floats | None = None,
        constants: Floats | None = None,
    ) -> Question:
        """The mean of f over points, or of Σ_j shares_j f(points_j).

        Parameters
        ----------
        words : str
            The question in words.
        points : array of shape (n, d) or (n, J, d)
            Coded points.
        shares : array of shape (n, J), optional
            Weights of f at the J points of a row; by default 1.
        groups : array of shape (n,), optional
            Groups that rows are a sample of; by default rows are taken as given.
        strays : array of shape (n,) or (n, J), optional
            How far points are from all that the fit could learn of, by what they do not show.
        mass : array of shape (n,), optional
            How much each row counts in the mean; by default all alike.
        constants : array of shape (n,), optional
            What each row adds besides f.

        Returns
        -------
        Question
            The question.
        """
        points = points[:, None] if points.ndim == 2 else points
        if not len(points):
            raise checks.InputError("a question needs at least one point to ask about, not an empty table")
        shares = np.ones(points.shape[:2]) if shares is None else shares
        if strays is not None:
            strays = np.broadcast_to(strays[:, None] if strays.ndim == 1 else strays, shares.shape)
        if mass is not None:
            mass = mass / mass.mean()
            shares = mass[:, None] * shares
        return Question(words, ((1.0, Functional(points, shares, groups, constants, strays, mass)),))

    def __add__(self, other: Question) -> Question:
        """Both together."""
        _check(other)
        return Question(f"{self.words} plus {other.words}", self.parts + other.parts)

    def __sub__(self, other: Question) -> Question:
        """The difference of both."""
        _check(other)
        return Question(f"{self.words} minus {other.words}", self.parts + (-1.0 * other).parts)

    def __rmul__(self, factor: float) -> Question:
        """So many times this."""
        checks.number("a factor of a question", factor)
        return Question(f"{factor:g} times {self.words}", tuple((factor * own, part) for own, part in self.parts))

    def __mul__(self, factor: float) -> Question:
        """So many times this."""
        return factor * self

    def __truediv__(self, divisor: float) -> Question:
        """A part of this."""
        checks.number("a divisor of a question", divisor)
        if divisor == 0:
            raise checks.InputError("a question cannot be divided by 0; give another number")
        return (1.0 / divisor) * self

    def __neg__(self) -> Question:
        """The same with the other sign."""
        return -1.0 * self

    def renamed(self, words: str) -> Question:
        """The same question in other words.

        Parameters
        ----------
        words : str
            The words.

        Returns
        -------
        Question
            The question.
        """
        return dataclasses.replace(self, words=words)

    def flat(self) -> tuple[Floats, Floats]:
        """The points of all parts and their coefficients in the sum.

        Returns
        -------
        points : array of shape (N, d)
            Coded points.
        coefficients : array of shape (N,)
            Coefficients of f there.
        """
        points = [part.points.reshape(-1, part.points.shape[2]) for _, part in self.parts]
        coefficients = [(factor * part.shares / len(part.shares)).ravel() for factor, part in self.parts]
        return np.concatenate(points), np.concatenate(coefficients)

    @property
    def constant(self) -> float:
        """What the sum has besides f."""
        return sum(factor * float(np.mean(part.constants)) for factor, part in self.parts if part.constants is not None)

    def among(self, rows: Booleans, words: str) -> Question:
        """The same question about some of its rows, in other words.

        Parameters
        ----------
        rows : array of shape (n,)
            Which of the rows; all parts are of the same ones.
        words : str
            The words.

        Returns
        -------
        Question
            The question.
        """
        return Question(words, tuple((factor, part.among(rows)) for factor, part in self.parts))

    def strays(self) -> Floats:
        """How far each point is from all that the fit could learn of, by what it does not show.

        Returns
        -------
        array of shape (N,)
            Distances.
        """
        parts = [part for _, part in self.parts]
        return np.concatenate(
            [np.zeros(part.shares.size) if part.strays is None else part.strays.ravel() for part in parts]
        )


def share_of(coefficients: Floats, chosen: Booleans) -> float:
    """The share of coefficients (N,), by size, that the chosen ones (N,) have.

    >>> share_of(np.array([1.0, -3.0]), np.array([False, True]))
    0.75
    """
    return float(np.abs(coefficients) @ chosen / max(np.abs(coefficients).sum(), np.finfo(float).tiny))


def _check(other: object) -> None:
    if not isinstance(other, Question):
        raise checks.InputError(f"questions add and subtract, such as model.at(...) - model.at(...); {other!r} is none")


def answer_from_paths(
    fit: LinearFit, question: Question, *, returns: Functional | None = None, unseen: Floats | float = 0.0
) -> Answer:
    """The answer to a question, its error, and what it rests on.

    Of the value of the policy that played the data, `returns` of its episodes are another view, which counts too.
    `unseen` is 1 for each of the question's points (N,) that is of a kind which no row shows.
    """
    spread = fit.candidates.ask(question.parts)
    if returns is not None:
        spread = mix([spread, fit.candidates.ask([(1.0, returns)])], fit.candidates)
    points, coefficients = question.flat()
    beyond = fit.outside(points) + question.strays() + unseen
    # Of the data's own rows the spread knows how they vary.
    others = [(factor, part) for factor, part in question.parts if not part.sampled]
    sampled = sum(factor**2 * part.sampling_variance(lambda xs: fit.replicates(xs)[:, 0]) for factor, part in others)
    guessed = fit.size * (np.abs(coefficients) @ beyond)
    unknowable = SEARCH.digits * abs(float(spread.value))
    stderr = float(np.sqrt(spread.stderr**2 + sampled + guessed**2 + unknowable**2))
    overlaps = [fit.overlap(part) for _, part in question.parts if np.all(part.shares >= 0)]
    negative = max((each.negative for each in overlaps), default=None)
    effective = min((each.effective for each in overlaps), default=None)
    relative = stderr / max(abs(float(spread.value)), fit.size, np.finfo(float).tiny)
    verdict, because, reasons = judge(
        negative=negative,
        outside=share_of(coefficients, beyond > 0),
        unseen=share_of(coefficients, np.broadcast_to(unseen, len(coefficients)) > 0),
        relative=relative,
        of_answer=abs(float(spread.value)) >= fit.size,
        finite=bool(np.isfinite(stderr)),
        carried=spread.carried,
        constant=fit.size <= CONSTANT * abs(float(spread.value)),
        starts=min((len(part.points) for _, part in question.parts if part.sampled), default=None),
    )
    return Answer(
        float(spread.value),
        stderr,
        freedom=float(fit.freedom),
        question=question.words,
        verdict=verdict,
        warnings=reasons,
        negative=negative,
        effective=effective,
        because=because,
    )


def answer_from_spreads(
    function: Function,
    spreads: Sequence[Any],
    question: Question,
    *,
    size: float,
    outside: float = 0.0,
    freedom: float | None = None,
) -> Answer:
    """The answer of a function whose errors come from spreads of its weights, the largest of which counts.

    `size` is the standard deviation of f over the data, by which it may be off at points that stray from them,
    `outside` the share of what is asked about that lies outside the data, and `freedom` the degrees of freedom of the
    errors, where these come from few clusters.
    """
    points, coefficients = question.flat()
    value = float(coefficients @ values(function, points)) + question.constant
    fitted = max(spread.average(points, coefficients).stderr for spread in spreads)
    sampled = sum(
        factor**2 * part.sampling_variance(lambda xs: values(function, xs)) for factor, part in question.parts
    )
    away = float(np.abs(coefficients) @ question.strays())
    guessed = size * away if away else 0.0
    stderr = float(np.sqrt(fitted**2 + sampled + guessed**2))
    if not size:  # by which alone it can be told what is much
        return Answer(value, stderr, freedom=freedom, question=question.words, warnings=outside_warning(outside))
    relative, finite = stderr / max(abs(value), size), bool(np.isfinite(stderr))
    judged = judge(negative=None, outside=outside, relative=relative, of_answer=abs(value) >= size, finite=finite)
    return Answer(
        value,
        stderr,
        freedom=freedom,
        question=question.words,
        verdict=judged.verdict,
        warnings=judged.warnings,
        because=judged.because,
    )


def values(function: Function, points: Floats) -> Floats:
    """The function at points (n, d), in float64."""
    if isinstance(function, LinearFunction):  # without a compilation, and with all digits
        weights = np.asarray(function.weights, dtype=np.float64)
        return evaluate_functions(to_numpy(function.features), weights[None], points)[:, 0]
    return np.asarray(function(points), dtype=np.float64)
