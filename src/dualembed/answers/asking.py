"""How a fit answers a question: its value, its error, and what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dualembed.answers.answer import Answer, judge
from dualembed.answers.question import Question, share_of
from dualembed.linear.fit import LinearFit
from dualembed.linear.functional import Functional
from dualembed.linear.path import mix
from dualembed.spaces.base import Function
from dualembed.spaces.features import evaluate_functions, to_numpy
from dualembed.spaces.linear import LinearFunction
from dualembed.tuning import SEARCH

CONSTANT = 1e-9  # deviation of f over its value, below which it is rounding


def answer_from_paths(
    fit: LinearFit, question: Question, *, returns: Functional | None = None, unseen: np.ndarray | float = 0.0
) -> Answer:
    """The answer to a question, its error, and what it rests on.

    Of the value of the policy that played the data, `returns` of its episodes are another view, which counts too.
    `unseen` is 1 for each of the question's points (N,) that is of a kind which no row shows.
    """
    spread = fit.answer(question.parts)
    if returns is not None:
        spread = mix([spread, fit.answer([(1.0, returns)])], fit.candidates)
    points, coefficients = question.flat()
    beyond = fit.outside(points) + question.strays() + unseen
    sampled = sum(factor**2 * fit.sampling(part) for factor, part in question.parts)
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
    function: Function, spreads: Sequence[Any], question: Question, *, size: float, warnings: tuple[str, ...] = ()
) -> Answer:
    """The answer of a function whose errors come from spreads of its weights, the largest of which counts.

    `size` is the standard deviation of f over the data, by which it may be off at points that stray from them.
    """
    points, coefficients = question.flat()
    value = float(coefficients @ values(function, points))
    fitted = max(spread.average(points, coefficients).stderr for spread in spreads)
    sampled = sum(_sampling_variance(function, factor, part) for factor, part in question.parts)
    away = float(np.abs(coefficients) @ question.strays())
    guessed = size * away if away else 0.0
    stderr = float(np.sqrt(fitted**2 + sampled + guessed**2))
    return Answer(value, stderr, question=question.words, warnings=warnings)


def values(function: Function, points: np.ndarray) -> np.ndarray:
    """The function at points (n, d), in float64."""
    if isinstance(function, LinearFunction):  # without a compilation, and with all digits
        weights = np.asarray(function.weights, dtype=np.float64)
        return evaluate_functions(to_numpy(function.features), weights[None], points)[:, 0]
    return np.asarray(function(points), dtype=np.float64)


def _sampling_variance(function: Function, factor: float, part: Functional) -> float:
    """That of a mean over rows that are a sample themselves; 0 where they are given."""
    if part.groups is None or len(part.points) < 2:
        return 0.0
    flat = part.points.reshape(-1, part.points.shape[2])
    each = np.sum(part.shares * values(function, flat).reshape(part.shares.shape), axis=1)
    return float(factor**2 * each.var(ddof=1) / len(each))
