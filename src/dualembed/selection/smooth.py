"""Models for smooth losses other than the square: spaces by the square loss, the penalty by the honest score."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import numpy as np

from dualembed.losses import Square
from dualembed.problems.base import Problem
from dualembed.saddle import Saddle
from dualembed.selection.honest_score import honest_score
from dualembed.selection.instruments import kernel_on, orthonormal
from dualembed.selection.record import Record, Step
from dualembed.selection.search import LEVELS, Choice, choose, deviations, landmarks_among, read
from dualembed.solvers.base import Result, solve
from dualembed.solvers.newton import Newton, check_smooth
from dualembed.sources import Dataset
from dualembed.spaces.basis import Basis

FACTORS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # of the square loss's penalty
HELD_OUT = 3  # one row of so many judges the penalties
DUAL_PENALTY = 1e-6  # instruments have unit variance: it only keeps their matrix regular


def smooth(key: jax.Array, problem: Problem, rng: np.random.Generator) -> Result:
    """The solution for the problem's own loss.

    Kernels and bandwidths are those that the square loss would choose for the same targets, whose scale is another one
    (labels ±1 and log-odds): the penalty is chosen among multiples of the square loss's by the honest score of the
    problem's loss on rows held out, and the whole data then solved with it by Newton's method.
    """
    check_smooth(problem.loss)
    square = eqx.tree_at(lambda each: each.loss, problem, Square())
    samples = read(square)
    choice, steps = choose(samples, rng)
    penalties = [factor * choice.variance / len(samples.target) for factor in FACTORS]
    saddle = _saddle(problem, choice, rng)
    held_out = np.arange(len(samples.target)) % HELD_OUT == 0
    training, judging = (_rows(problem, rows) for rows in (~held_out, held_out))
    scores = {}
    for penalty in penalties:
        fitted = Newton().solve(key, _with(saddle, training, penalty), None)
        scores[penalty] = honest_score(judging, fitted.primal).value
    best = min(scores, key=lambda penalty: scores[penalty])
    numbers = {f"honest score with {penalty:.1e}": score for penalty, score in scores.items()}
    steps.append(Step("penalty", f"{best:.3g}", numbers))
    chosen = _with(saddle, problem, best)
    result = solve(key, chosen, Newton())  # which warns where it falls short of its tolerance
    return dataclasses.replace(result, record=Record(tuple(steps), chosen))


def _saddle(problem: Problem, choice: Choice, rng: np.random.Generator) -> Saddle:
    """The chosen space for f, and instruments of the whole context: other losses' dual variables depend on y too."""
    context = read(problem).context
    widths = deviations(context) * np.sqrt(context.shape[1])
    widths[list(choice.columns)] = choice.widths
    kernel = kernel_on(tuple(range(context.shape[1])), widths, context.shape[1])
    level = LEVELS[0]
    centres = landmarks_among(context, min(level.dual, len(context) // 2), rng)
    instruments = orthonormal(kernel, context, centres, tolerance=level.tolerance)
    return Saddle(problem, Basis(choice.features), Basis(instruments), dual_penalty=DUAL_PENALTY)


def _rows(problem: Problem, rows: np.ndarray) -> Problem:
    """The same problem on some rows."""
    source = problem.source
    if not isinstance(source, Dataset):
        raise RuntimeError("the samples were read from a finite data set")
    some = Dataset(**{name: column[rows] for name, column in source.table.items()})
    found: Problem = eqx.tree_at(lambda each: each.source, problem, some)
    return found


def _with(saddle: Saddle, problem: Problem, penalty: float) -> Saddle:
    return Saddle(problem, saddle.primal, saddle.dual, primal_penalty=penalty, dual_penalty=saddle.dual_penalty)
