"""The honest error of a closed form on rows that it was not fitted to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np

from dualembed.deprecation import warn
from dualembed.linear.fit import LinearFit
from dualembed.linear.moment_fit import MomentFit
from dualembed.linear.sums import Sums, gather_moments
from dualembed.linear.system import MomentSystem
from dualembed.problems.base import Problem, finite_data, iter_terms
from dualembed.selection.honest_score import double_terms_of, honest_score, score_of
from dualembed.sources import Dataset, Sample
from dualembed.spaces.features import to_numpy
from dualembed.spaces.linear import LinearFunction

FOLDS = 4
SCORE_FOLDS = 5
FEWEST_NEW = 60  # rows of a part, from which on it is judged before it is learnt from
FEWEST = 2 * SCORE_FOLDS  # groups in a fold, and three times as many rows
ROWS = 40_000  # that are looked at


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


def held_out(problem: Problem, fit: MomentFit, *, groups: Any = None, seed: int = 0) -> HeldOut | None:
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
    sample, labels = _sample(problem, groups, seed)
    folds = _folds(labels, seed)
    if folds is None:
        return None
    sums = gather_moments(problem, fit.primal, fit.dual, folds=FOLDS, groups=folds, sample=sample)
    scores, squared = [], []
    for fold in range(FOLDS):
        own, function = folds == fold, LinearFunction(to_numpy(fit.primal), _weights(sums.without(fold), fit))
        kept = _rows(sample, own)
        scores.append(_score(problem, function, kept, labels[own]))
        squared.append(mean_square(problem, _plain(function), kept))
    shares = np.asarray(sums.count) / sums.rows
    return HeldOut(
        float(shares @ [score.value for score in scores]),
        float(np.sqrt(np.sum((shares * [score.stderr for score in scores]) ** 2))),
        float(shares @ squared),
        sums.residual_variance(_weights(sums, fit)),
        sums.rows,
    )


def held_out_folds(
    problem: Problem, fit: LinearFit, numbers: np.ndarray, *, groups: Any = None, seed: int = 0
) -> HeldOut | None:
    """The same of an average of paths without each fold; `numbers` (n,) say which left-out group a row is in.

    Rows are never multiplied by those of another fold: a function that was fitted without the one has seen the other,
    whose noise it makes up for, and the score would come out below zero.
    """
    source: Any = problem.source
    chosen = source.order(groups)[np.random.default_rng(seed).permutation(source.rows)[:ROWS]]
    labels = np.arange(len(chosen)) if groups is None else _first_come(np.asarray(groups)[chosen])
    folds = fit.folds[numbers[chosen]]
    if not np.all(np.isfinite(fit.fold_weights)):
        return None
    units = [len(np.unique(labels[folds == fold])) for fold in range(len(fit.fold_weights))]
    if min(units) < 2 * SCORE_FOLDS or np.bincount(folds).min() < 6 * SCORE_FOLDS:
        return None
    scores, squared, fitted = [], [], []
    for fold in range(len(units)):
        inside = folds == fold
        terms = double_terms_of(problem, _rows(source.table, chosen[inside]))
        points = terms.points.reshape(-1, terms.points.shape[2])
        own, whole = (values.reshape(terms.weights.shape) for values in fit.judge(points, fold))
        scores.append(score_of(problem, terms, own, folds=SCORE_FOLDS, seed=seed, groups=labels[inside]))
        squared.append(float(np.mean((terms.moment(own) - terms.target) ** 2)))
        fitted.append(float(np.mean((terms.moment(whole) - terms.target) ** 2)))
    shares = np.bincount(folds) / len(folds)
    return HeldOut(
        float(shares @ [score.value for score in scores]),
        float(np.sqrt(np.sum((shares * [score.stderr for score in scores]) ** 2))),
        float(shares @ squared),
        float(shares @ fitted),
        len(chosen),
    )


def held_out_new(problem: Problem, function: LinearFunction, groups: Any) -> HeldOut | None:
    """The honest score on rows that the function has not seen: before they are learnt from. None for few of them."""
    data = finite_data(problem)
    rows = data.rows
    enough = rows if groups is None else 3 * len(np.unique(groups))
    if min(rows, enough) < FEWEST_NEW or not problem.loss.quadratic:
        return None
    score = _score(problem, function, data.table, groups)
    squared = mean_square(problem, _plain(function))
    return HeldOut(score.value, score.stderr, squared, squared, rows)


def held_out_once(
    problem: Problem, fit: Callable[[Problem], Callable[[np.ndarray], Any]], *, groups: Any = None, seed: int = 0
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
    sample, labels = _sample(problem, groups, seed)
    folds = _folds(labels, seed)
    if folds is None:
        return None
    rest, kept = _rows(sample, folds != 0), _rows(sample, folds == 0)
    smaller: Problem = eqx.tree_at(lambda each: each.source, problem, Dataset(**rest))
    function = fit(smaller)
    score = _score(problem, function, kept, labels[folds == 0])
    squared, fitted = (mean_square(problem, function, part) for part in (kept, rest))
    return HeldOut(score.value, score.stderr, squared, fitted, int(np.sum(folds == 0)))


def _score(problem: Problem, function: Callable[[np.ndarray], Any], sample: Sample, labels: np.ndarray) -> Any:
    return honest_score(problem, _plain(function), sample=sample, folds=SCORE_FOLDS, groups=labels)


def _plain(function: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], Any]:
    """The function in NumPy where it is linear in features: nothing is compiled, and no digit lost."""
    if not isinstance(function, LinearFunction):
        return function
    features, weights = function.features, function.weights
    return lambda points: features(points) @ weights


def mean_square(problem: Problem, function: Callable[[np.ndarray], Any], sample: Sample | None = None) -> float:
    """The mean of (moment(f) - y)² over the samples, noise and all."""
    total, rows = 0.0, 0
    for terms in iter_terms(problem, sample):
        values = np.asarray(function(terms.points.reshape(-1, terms.points.shape[-1])), dtype=np.float64)
        moment = np.sum(terms.weights * values.reshape(terms.weights.shape), axis=1) + terms.offset
        total, rows = total + float(np.sum((moment - terms.target) ** 2)), rows + len(moment)
    return total / rows


def _sample(problem: Problem, groups: Any, seed: int) -> tuple[Sample, np.ndarray]:
    """At most `ROWS` rows of the data, the same whatever order they come in, and the number of each one's group."""
    source = problem.source
    if not isinstance(source, Dataset):
        raise RuntimeError("a closed form was fitted to a finite data set")
    chosen = source.order(groups)[np.random.default_rng(seed).permutation(source.rows)[:ROWS]]
    labels = np.arange(len(chosen)) if groups is None else _first_come(np.asarray(groups)[chosen])
    return _rows(source.table, chosen), labels


def _first_come(labels: np.ndarray) -> np.ndarray:
    """The number (n,) of each label, in the order in which they first appear: what they are called does not matter."""
    _, first, number = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[number])


def _folds(labels: np.ndarray, seed: int) -> np.ndarray | None:
    """The fold (n,) of each row, groups together; None where a fold would be too small to be judged."""
    groups = int(labels.max()) + 1
    if groups < FOLDS * FEWEST or len(labels) < 3 * FOLDS * FEWEST:
        return None
    folds = (np.random.default_rng(seed).permutation(groups) % FOLDS)[labels]
    return folds if np.bincount(folds, minlength=FOLDS).min() >= 3 * FEWEST else None


def _rows(sample: Sample, rows: np.ndarray) -> Sample:
    return {name: column[rows] for name, column in sample.items()}


def _weights(sums: Sums, fit: MomentFit) -> np.ndarray:
    """θ of the closed form on these folds, by products across them or of all rows as the fit's are."""
    # The penalty of all rows is over their number.
    penalty = fit.penalty * fit.sums.rows / sums.rows
    sums = sums if fit.sums.groups > 1 else sums.merged()
    return MomentSystem(sums, fit.dual_penalty, noise=fit.noise).weights(penalty)
