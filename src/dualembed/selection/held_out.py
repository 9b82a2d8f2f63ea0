"""The honest error of a closed form on rows that it was not fitted to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from dualembed.arrays import Booleans, Floats, Integers
from dualembed.deprecation import warn
from dualembed.estimates import pluralise
from dualembed.linear.clusters import is_two_way
from dualembed.linear.fit import LinearFit
from dualembed.linear.moment_fit import MomentFit
from dualembed.linear.sums import Sums, gather_moments, number_groups
from dualembed.linear.system import MomentSystem
from dualembed.problems.base import Problem, finite_data
from dualembed.selection.honest_score import Score, checked_terms, mean_of, score_of, values_at
from dualembed.sources import Dataset, Sample
from dualembed.spaces.features import to_numpy
from dualembed.spaces.linear import LinearFunction

FOLDS = 4
SCORE_FOLDS = 5
FEWEST_NEW = 60  # rows of a part, from which on it is judged before it is learnt from
FEWEST = 2 * SCORE_FOLDS  # groups in a fold, and three times as many rows
ROWS = 20_000  # that are looked at: 40,000 took 4 s, more than many fits, for errors 0.7 times as large


@dataclasses.dataclass(frozen=True)
class HeldOut:
    """What functions fitted without a fold show on it.

    Attributes
    ----------
    value : float
        The honest score, an estimate of E[E[m | κ]²].
    stderr : float
        Its standard error.
    squared : float
        The mean of m², which the noise of single samples is part of.
    fitted : float
        That of the rows the function was fitted to.
    rows : int
        Rows that were judged.
    """

    value: float
    stderr: float
    squared: float
    fitted: float
    rows: int

    @property
    def inconclusive(self) -> bool:
        """Whether it could be anything from zero to all of `squared`, between which it must lie."""
        return 2 * self.stderr >= self.squared

    @property
    def vague(self) -> bool:
        """Deprecated: now `inconclusive`."""
        warn("HeldOut.vague", "HeldOut.inconclusive")
        return self.inconclusive


def held_out(problem: Problem, fit: MomentFit, *, groups: ArrayLike | None = None, seed: int = 0) -> HeldOut | None:
    """The honest score of closed forms like the fit, each on a fold that it was not fitted to.

    The features and penalties are the fit's, chosen on all rows: what is left out of a fit is the solution alone.
    Data sets of more than 40,000 rows are judged by 40,000 of them.

    Parameters
    ----------
    problem : Problem
        A problem on a finite data set.
    fit : MomentFit
        The closed form, `result.closed`.
    groups : array of shape (n,), optional
        Labels of rows that depend on each other, such as episodes, which stay in one fold.
    seed : int, default=0
        Seed of the folds.

    Returns
    -------
    HeldOut or None
        The score; None for few rows.
    """
    chosen, labels = _choose_rows(problem, groups, seed)
    folds = _folds(labels, seed)
    if folds is None:
        return None
    sample = _rows(finite_data(problem).table, chosen)
    sums = gather_moments(problem, fit.primal, fit.dual, folds=FOLDS, groups=folds, sample=sample)
    fitted, parts = sums.residual_variance(_weights(sums, fit)), []
    for fold in range(FOLDS):
        own, function = folds == fold, LinearFunction(to_numpy(fit.primal), _weights(sums.without(fold), fit))
        score, squared = _judge(problem, _plain(function), _rows(sample, own), labels[own])
        parts.append(HeldOut(score.value, score.stderr, squared, fitted, int(own.sum())))
    return _together(parts)


def held_out_folds(
    problem: Problem, fit: LinearFit, numbers: Integers, *, groups: ArrayLike | None = None, seed: int = 0
) -> HeldOut | None:
    """The same of an average of paths without each fold; `numbers` (n,) say which left-out group a row is in.

    Rows are never multiplied by those of another fold: a function that was fitted without the one has seen the other,
    whose noise it makes up for, and the score would come out below zero.
    """
    chosen, labels = _choose_rows(problem, groups, seed)
    if fit.folds is None or fit.fold_weights is None or not np.all(np.isfinite(fit.fold_weights)):
        return None
    folds = fit.folds[numbers[chosen]]
    units = [len(np.unique(labels[folds == fold])) for fold in range(len(fit.fold_weights))]
    if min(units) < 2 * SCORE_FOLDS or np.bincount(folds).min() < 6 * SCORE_FOLDS:
        return None
    parts = []
    for fold in range(len(units)):
        inside = folds == fold
        terms = checked_terms(problem, _rows(finite_data(problem).table, chosen[inside]))
        points = terms.points.reshape(-1, terms.points.shape[2])
        both = [values.reshape(terms.weights.shape) for values in fit.without(fit.fold_weights[fold], points)]
        score = score_of(problem, terms, both[0], folds=SCORE_FOLDS, seed=seed, groups=labels[inside])
        squared, fitted = (
            float(np.average((terms.moment(values) - terms.target) ** 2, weights=terms.mass)) for values in both
        )
        parts.append(HeldOut(score.value, score.stderr, squared, fitted, int(inside.sum())))
    return _together(parts)


def why_unjudged(problem: Problem, groups: ArrayLike | None, *, units: str = "groups", folds: int = FOLDS) -> str:
    """The one reason why there is no honest error of a fit to these rows in so many folds, with the number needed.

    `units` is what groups of rows are called. Fits that need no others for it, and new rows, are judged in two folds.

    >>> from dualembed.problems import InstrumentalVariables
    >>> few = InstrumentalVariables(Dataset(x=np.zeros(9), y=np.zeros(9), z=np.zeros(9)))
    >>> why_unjudged(few, None)
    '9 rows, 120 are needed'
    >>> why_unjudged(few, np.arange(9), units="episodes", folds=2)
    '9 episodes, 20 are needed'
    """
    if not problem.loss.quadratic:
        return f"the loss is {type(problem.loss).__name__}, and it is known for the square loss alone"
    rows, fewest = finite_data(problem).rows, folds * FEWEST
    count = rows if groups is None else len(np.unique(groups))
    if groups is not None and count < fewest:
        return f"{count:,} {units if count > 1 else 'group'}, {fewest} are needed"
    if rows < 3 * fewest:
        return f"{pluralise(rows, 'row')}, {3 * fewest:,} are needed"
    return f"the {units} are so unequal that one of {folds} parts has too few rows, and {3 * FEWEST} are needed in each"


def held_out_new(problem: Problem, function: LinearFunction, groups: ArrayLike | None) -> HeldOut | None:
    """The honest score on rows that the function has not seen: before they are learnt from. None for few of them."""
    data = finite_data(problem)
    rows = data.rows
    enough = rows if groups is None else 3 * len(np.unique(number_groups(groups, rows)))
    if min(rows, enough) < FEWEST_NEW or not problem.loss.quadratic:
        return None
    score, squared = _judge(problem, _plain(function), data.table, groups)
    return HeldOut(score.value, score.stderr, squared, squared, rows)


def held_out_once(
    problem: Problem,
    fit: Callable[[Problem], Callable[[Floats], Any]],
    *,
    groups: ArrayLike | None = None,
    seed: int = 0,
) -> HeldOut | None:
    """The honest score of one function, fitted to three quarters of the rows and judged on the fourth.

    Parameters
    ----------
    problem : Problem
        A problem on a finite data set.
    fit : callable
        Function from a problem to a function of points (n, d).
    groups : array of shape (n,), optional
        Labels of rows that depend on each other, such as episodes, which stay together.
    seed : int, default=0
        Seed of the split.

    Returns
    -------
    HeldOut or None
        The score; None for few rows.
    """
    chosen, labels = _choose_rows(problem, groups, seed)
    folds = _folds(labels, seed)
    if folds is None:
        return None
    sample = _rows(finite_data(problem).table, chosen)
    rest, kept = _rows(sample, folds != 0), _rows(sample, folds == 0)
    smaller: Problem = eqx.tree_at(lambda each: each.source, problem, Dataset(**rest))
    function = fit(smaller)
    score, squared = _judge(problem, function, kept, labels[folds == 0])
    terms = checked_terms(problem, rest)
    fitted = mean_of((terms.moment(values_at(function, terms.points)) - terms.target) ** 2, terms.mass)
    return HeldOut(score.value, score.stderr, squared, fitted, int(np.sum(folds == 0)))


def _judge(
    problem: Problem, function: Callable[[Floats], Any], sample: Sample, labels: ArrayLike | None
) -> tuple[Score, float]:
    """The honest score on samples that f has not seen, and the mean of (moment(f) - y)² there, noise and all."""
    terms = checked_terms(problem, sample)
    values = values_at(function, terms.points)
    score = score_of(problem, terms, values, folds=SCORE_FOLDS, groups=labels)
    return score, float(np.average((terms.moment(values) - terms.target) ** 2, weights=terms.mass))


def _together(parts: list[HeldOut]) -> HeldOut:
    """What several folds show, each counted by its rows."""
    rows = [part.rows for part in parts]
    shares = np.array(rows) / sum(rows)
    value, squared, fitted = (
        float(shares @ [getattr(part, name) for part in parts]) for name in ("value", "squared", "fitted")
    )
    stderr = float(np.sqrt(np.sum((shares * [part.stderr for part in parts]) ** 2)))
    return HeldOut(value, stderr, squared, fitted, sum(rows))


def _plain(function: LinearFunction) -> Callable[[Floats], Any]:
    """The function in NumPy: nothing is compiled, and no digit lost."""
    return lambda points: function.features(points) @ function.weights


def _choose_rows(problem: Problem, groups: ArrayLike | None, seed: int) -> tuple[Integers, Integers]:
    """At most `ROWS` rows of the data, the same whatever order they come in, and the number of each one's group.

    Groups are numbered in the order in which they first appear: what they are called does not matter.
    """
    source = finite_data(problem)
    labels = None if groups is None else np.asarray(groups)
    labels = number_groups(labels, source.rows) if is_two_way(labels) else labels
    chosen = source.order(labels)[np.random.default_rng(seed).permutation(source.rows)[:ROWS]]
    if labels is None:
        return chosen, np.arange(len(chosen))
    _, first, number = np.unique(labels[chosen], return_index=True, return_inverse=True)
    return chosen, np.argsort(np.argsort(first))[number]


def _folds(labels: Integers, seed: int) -> Integers | None:
    """The fold (n,) of each row, groups together; None where a fold would be too small to be judged."""
    groups = int(labels.max()) + 1
    if groups < FOLDS * FEWEST or len(labels) < 3 * FOLDS * FEWEST:
        return None
    folds = (np.random.default_rng(seed).permutation(groups) % FOLDS)[labels]
    return folds if np.bincount(folds, minlength=FOLDS).min() >= 3 * FEWEST else None


def _rows(sample: Sample, rows: Integers | Booleans) -> Sample:
    return {name: column[rows] for name, column in sample.items()}


def _weights(sums: Sums, fit: MomentFit) -> Floats:
    """θ of the closed form on these folds, by products across them or of all rows as the fit's are."""
    # The penalty of all rows is over their number.
    penalty = fit.penalty * fit.sums.rows / sums.rows
    sums = sums if fit.sums.groups > 1 else sums.merged()
    return MomentSystem(sums, fit.dual_penalty, noise=fit.noise).weights(penalty)
