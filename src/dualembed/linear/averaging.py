"""Candidates of several ridge paths, weighed by what groups of rows left out say of them."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning

from dualembed.arrays import Floats, Integers
from dualembed.linear.candidates import RidgePath
from dualembed.linear.functional import Functional
from dualembed.linear.path import Average, solution_path, squared_error
from dualembed.linear.rows import Rows
from dualembed.linear.sums import Sums
from dualembed.linear.system import LinearSystem
from dualembed.spaces.features import FeatureMap
from dualembed.tuning import SEARCH

HOPELESS = 1e6  # standard errors, for what has no value


@dataclasses.dataclass(frozen=True)
class Weighing:
    """How candidates are weighed: what the paths of all kernels share.

    `shares` (K,) is how much of the data each left-out group is, `into` (F,) the left-out group of each group. `probes`
    (q, d) are places at which candidates are weighed, `headline` the question that matters most, where there is one,
    and `positive` says whether f is known to be above zero.
    """

    shares: np.ndarray
    into: np.ndarray
    offset: RidgePath | None
    probes: np.ndarray
    headline: Functional | None
    positive: bool

    def average(self, paths: Sequence[RidgePath], weights: Sequence[np.ndarray] = (), influence: Any = ()) -> Average:
        """The average of these paths."""
        return Average(tuple(paths), tuple(weights), self.shares, self.into, tuple(influence), self.offset)

    def path(self, features: FeatureMap, sums: Sums) -> RidgePath:
        """The ridge path of one kernel, from sums over left-out groups."""
        at = np.asarray(features(self.probes))
        beside = 0.0 if self.offset is None else self.offset.values(self.probes)[0]
        vectors: np.ndarray | None = None
        level: Any = 0.0
        if self.headline is not None:
            vectors = self.headline.means(self.headline.rows(features), self.into)
            vectors = np.concatenate([vectors, vectors[:1]])
            level = 0.0 if self.offset is None else self.offset.answers(self.headline, self.into)[0]

        def looks(weights: np.ndarray) -> list[np.ndarray]:
            found = [at @ weights.T + beside]
            if vectors is not None:
                found.append(np.einsum("km,km->k", vectors, weights) + level)
            return [_logarithm(each) for each in found] if self.positive else found

        return solution_path(features, sums, SEARCH.ridges, looks=looks, shares=self.shares)

    def weigh(self, paths: Sequence[RidgePath]) -> list[np.ndarray]:
        """The weights (E,) of each path's candidates, all of them together summing to 1.

        They fall with the square of a candidate's squared error: a geometric mean of that of the headline, which counts
        most if there is one, and of the geometric mean over probes. Of an f that is positive it is the error of the
        logarithm: where f is a long sum, its error grows with it.
        """
        offset = 0.0 if self.offset is None else self.offset.values(self.probes)
        levels = self._log_errors([path.values(self.probes) + offset for path in paths])
        if self.headline is not None:
            asked = self.average(paths).each([(1.0, self.headline)])
            asked_levels = self._log_errors([each[:, None] for each in asked])
            levels = (1 - SEARCH.headline) * levels + SEARCH.headline * asked_levels
        finite = np.isfinite(levels)
        least = levels[finite].min(initial=np.inf)
        weights = np.where(finite, np.exp(-2 * (levels - least)), 0.0) if finite.any() else np.ones(len(levels))
        return list(np.split(weights / weights.sum(), np.cumsum([len(path.ridges) for path in paths])[:-1]))

    def _log_errors(self, values: list[np.ndarray]) -> np.ndarray:
        """The mean of the logarithm of squared errors over questions, from values (E, q, K + 2) on each path."""
        return np.concatenate([np.log(self._squared_errors(each)).mean(axis=1) for each in values])

    def _squared_errors(self, values: np.ndarray) -> np.ndarray:
        """The squared errors (E, q) of answers, or of their logarithms where f is positive."""
        if not self.positive:
            with np.errstate(invalid="ignore"):
                return np.maximum(squared_error(values, self.shares), np.finfo(float).tiny)
        wrong = ~np.all(values > 0, axis=-1)
        logarithms = np.log(np.where(wrong[..., None], 1.0, values))
        errors = np.maximum(squared_error(logarithms, self.shares), np.finfo(float).tiny)
        # Beside an answer that is not above zero the error of the next one is no measure of anything either.
        return np.where(wrong | np.isinf(errors), SEARCH.wrong_sign, np.minimum(errors, SEARCH.wrong_sign))


def probes_among(places: np.ndarray) -> np.ndarray:
    """Some of the places, evenly among them."""
    return places[:: max(1, len(places) // SEARCH.probes)]


def _logarithm(values: np.ndarray) -> np.ndarray:
    """That of values which should be above zero; what is not counts as next to nothing, far from all others."""
    return np.log(np.maximum(values, max(1e-3 * float(np.median(np.abs(values))), np.finfo(float).tiny)))


def fold_weights(average: Average, sums: Sequence[Sums], folds: Integers, probes: Floats) -> Floats:
    """The weights (P, m) of f, in the features of all paths side by side, fitted without each of P folds.

    `folds` (F,) gives the fold of each of the groups that `sums` are of. Candidates that count for little are left out,
    and the known part of f is that of all rows. What the others count for falls with the square of how much larger
    their mean squared error over `probes` (q, d) is without the fold: a small ridge that suits all rows may leave
    a system next to singular where a part of them is gone, and a fit to the rest would have turned it down.
    """
    shares = [np.where(weights < SEARCH.judged_weight, 0.0, weights) for weights in average.weights]
    if not any(each.any() for each in shares):  # of many candidates, none of which counts for much
        shares = list(average.weights)
    found = [
        _without_folds(path, own, fine, folds, probes)
        for path, own, fine in zip(average.paths, shares, sums, strict=True)
    ]
    total = np.sum([counts.sum(axis=0) for _, counts in found], axis=0)
    with np.errstate(invalid="ignore"):  # of a fold without which there is no candidate at all
        parts = [np.einsum("ep,epm->pm", counts / total, weights) for weights, counts in found]
    if average.offset is not None:
        parts.append(np.tile(average.offset.weights[0, 0], (len(parts[0]), 1)))
    return np.concatenate(parts, axis=1)


def _without_folds(
    path: RidgePath, shares: Floats, fine: Sums, folds: Integers, probes: Floats
) -> tuple[Floats, Floats]:
    """(weights (E, P, m) of a path's candidates that have shares, without each of P folds, what each counts (E, P)).

    A candidate's error is the mean over probes of the variance of f, to first order, over the groups that are left.
    """
    few, at = fine.merged(folds), np.asarray(path.features(probes))
    left = [(few.means(), folds >= 0), *((few.means_without(fold), folds != fold) for fold in range(few.groups))]
    used = np.flatnonzero(shares > 0)
    weights, errors = np.zeros((len(used), len(left), path.features.size)), np.zeros((len(used), len(left)))
    for number, candidate in enumerate(used):
        for way, (means, groups) in enumerate(left):
            # What is singular without a fold counts for nothing.
            with warnings.catch_warnings(), np.errstate(over="ignore", invalid="ignore"):
                warnings.simplefilter("ignore", LinAlgWarning)
                system = LinearSystem(*means, path.ridges[candidate] * few.mean_square)
                theta = system.weights()
                residual = fine.target[groups, :, 0] - fine.cross[groups] @ theta
                moves = at @ system.solve(residual.T / fine.count[groups].sum())
                errors[number, way] = np.mean(np.var(moves, axis=1)) * moves.shape[1]
            weights[number, way] = theta
    sound = np.isfinite(errors) & np.isfinite(errors[:, :1]) & np.isfinite(weights).all(axis=2)
    ratios = np.divide(errors, errors[:, :1], out=np.ones_like(errors), where=sound & (errors[:, :1] > 0))
    counts = np.where(sound, shares[used, None] / np.maximum(ratios, 1.0) ** 2, 0.0)
    return np.where(sound[:, :, None], weights, 0.0)[:, 1:], counts[:, 1:]


def excess(average: Average, rows: Rows, groups: np.ndarray) -> list[np.ndarray]:
    """By how many standard errors each candidate is worse than the best on rows of groups left out: (E,) for each path.

    `groups` (n,) are the numbers of the rows' left-out groups.
    """
    points, weights = rows.points, rows.weights
    here = _left_out(average, points[:, 0], groups)
    ahead = np.zeros((len(here), here.shape[1]))
    for point in range(1, points.shape[1]):
        used = weights[:, point] != 0
        ahead[used] += weights[used, point, None] * _left_out(average, points[used, point], groups[used])
    # A candidate that has no value without some group is out of the question.
    sound = np.all(np.isfinite(here) & np.isfinite(ahead), axis=0)
    shares = np.where(sound, np.concatenate(average.weights), 0.0)
    if not shares.any():
        return [np.zeros(len(path.ridges)) for path in average.paths]
    shares = shares / shares.sum()
    here, ahead = np.where(sound, here, 0.0), np.where(sound, ahead, 0.0)
    mean, backup = here @ shares, rows.target - ahead @ shares
    trend = np.concatenate([np.ones((len(mean), 1)), mean[:, None], points[:, 0]], axis=1)
    apart = here - mean[:, None]
    apart -= trend @ np.linalg.lstsq(trend, apart, rcond=None)[0]
    squares = ((backup - mean)[:, None] - apart) ** 2
    numbers = np.unique(groups)
    errors = np.stack([squares[groups == number].mean(axis=0) for number in numbers])
    considered = shares > 1e-4 * shares.max()
    best = int(np.argmin(np.where(considered, errors.mean(axis=0), np.inf)))
    worse = errors - errors[:, [best]]
    stderr = worse.std(axis=0, ddof=1) / np.sqrt(len(numbers))
    found = np.divide(np.maximum(worse.mean(axis=0), 0), stderr, out=np.zeros(len(stderr)), where=stderr > 0)
    found = np.where(sound, found, HOPELESS)
    return list(np.split(found, np.cumsum([len(path.ridges) for path in average.paths])[:-1]))


def _left_out(average: Average, points: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Every candidate without the row's group at one point a row, (n, E of all paths)."""
    found = np.empty((len(points), sum(len(path.ridges) for path in average.paths)))
    for group in np.unique(groups):
        own = groups == group
        parts = [path.values_one_way(points[own], 1 + group) for path in average.paths]
        offset = 0.0 if average.offset is None else average.offset.values_one_way(points[own], 1 + group)
        found[own] = np.concatenate(parts, axis=1) + offset
    return found


def by_merit(weights: Sequence[np.ndarray], excesses: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The weights, lowered by how much worse candidates are on groups left out, and summing to 1 again."""
    lowered = [own / (1 + worse**2) ** 2 for own, worse in zip(weights, excesses, strict=True)]
    total = sum(float(each.sum()) for each in lowered)
    return [each / total for each in lowered]
