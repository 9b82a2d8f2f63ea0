"""Rows of transitions in groups, and candidates of several ridge paths weighed by what groups left out say of them."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgWarning

from dualembed import checks
from dualembed.arrays import Floats, Integers
from dualembed.data.roles import MOST_LEVELS
from dualembed.linear.candidates import Functional, RidgePath
from dualembed.linear.path import Average, solution_path, squared_error
from dualembed.linear.sums import Sums, number_groups
from dualembed.linear.system import LinearSystem
from dualembed.problems.base import Problem, read_terms
from dualembed.spaces.features import FeatureMap
from dualembed.tuning import SEARCH

FEWEST = 5  # rows
PLACES = 1000  # rows that a fit remembers where they are
HOPELESS = 1e6  # standard errors, for what has no value


@dataclasses.dataclass(frozen=True)
class Rows:
    """What n rows say: points (n, K, d), whose last coordinates are an action's, weights (n, K), target (n,)."""

    points: Floats
    weights: Floats
    target: Floats
    actions: int

    def check_enough(self) -> None:
        """Raise where a model cannot be chosen."""
        if len(self.target) < FEWEST:
            raise checks.InputError(f"choosing a model needs at least {FEWEST} rows, not {len(self.target)}; give more")

    def order(self) -> Integers:
        """The rows sorted by what they say, (n,): the same whatever order they come in."""
        points = level_numbers(self.points)
        columns = [self.target, *self.weights.T, *points.reshape(len(self.target), -1).T]
        return np.lexsort(columns)

    def some(self, rows: Integers) -> Rows:
        """Those rows."""
        return Rows(self.points[rows], self.weights[rows], self.target[rows], self.actions)

    @property
    def used(self) -> Floats:
        """The points that the equation speaks of, (N, d)."""
        return self.points[self.weights != 0]


def read_rows(problem: Problem) -> Rows | None:
    """The rows, or None where the context is not the first of several points, as it is for transitions.

    f's own features cannot test the equation then, or it is a plain regression, of which other methods make more.
    """
    terms = read_terms(problem)
    if terms.points.shape[1] == 1 or not np.array_equal(terms.context, terms.points[:, 0]):
        return None
    return Rows(terms.points, terms.weights, terms.target - terms.offset, terms.actions)


class Groups(NamedTuple):
    """Groups of rows that depend on each other, each a part of one of the few that are left out together.

    `numbers` (n,) are those of the rows' groups, `into` (F,) the left-out group of each group, and `units` (K,) how
    many labels each left-out group has, or how many rows where it is not `by_label`.
    """

    numbers: Integers
    into: Integers
    units: Integers
    by_label: bool

    @property
    def shares(self) -> Floats:
        """How much of the data each left-out group is, (K,)."""
        return np.asarray(self.units / self.units.sum())

    @property
    def left_out(self) -> Integers:
        """The number (n,) of each row's left-out group."""
        return np.asarray(self.into[self.numbers])

    def among(self, rows: Integers) -> Groups:
        """Those of some of the rows, or of all in another order."""
        return self._replace(numbers=self.numbers[rows])


def assign_groups(rows: Rows, labels: ArrayLike | None, rng: np.random.Generator) -> Groups:
    """At most forty groups, in at most ten that are left out together.

    Episodes, or whatever `labels` (n,) say, stay together. Where they are fewer than five, or one of them has most of
    the rows, blocks of rows in their order stand for groups. Without labels rows are independent, and are dealt out at
    random, whatever order they come in.
    """
    count = len(rows.target)
    if labels is not None:
        own = number_groups(labels, count)
        sizes = np.bincount(own)
        if len(sizes) >= SEARCH.fewest_groups and sizes.max() <= SEARCH.most_of_rows * count:
            groups = min(SEARCH.groups, len(sizes))
            dealt, into = rng.permutation(len(sizes)) % groups, np.arange(groups) % SEARCH.left_out
            return Groups(dealt[own], into, np.bincount(into[dealt]), True)
    groups = min(SEARCH.groups, count)
    numbers = np.empty(count, dtype=int)
    if labels is None:
        numbers[rows.order()], into = rng.permutation(count) % groups, np.arange(groups) % SEARCH.left_out
    else:
        numbers[np.argsort(own, kind="stable")] = np.arange(count) * groups // count
        into = np.arange(groups) * min(SEARCH.left_out, groups) // groups
    return Groups(numbers, into, np.bincount(into[numbers]), False)


def assign_more(rows: Rows, labels: ArrayLike | None, known: Groups, rng: np.random.Generator) -> Groups:
    """The left-out groups of rows that come later, and all units so far; `known` are those of earlier rows.

    A label stays in one group, the groups with the fewest first.
    """
    count, groups = len(rows.target), len(known.units)
    if labels is not None and known.by_label:
        own = number_groups(labels, count)
        order = np.lexsort([rng.random(groups), known.units])
        dealt = order[np.arange(own.max() + 1) % groups]
        numbers, more = dealt[own], np.bincount(dealt, minlength=groups).astype(float)
    else:
        numbers = rng.permutation(count) % groups if labels is None else np.arange(count) * groups // count
        more = np.bincount(numbers, minlength=groups).astype(float)
        if known.by_label:  # as many labels as so many rows had
            more *= float(known.units.sum()) / max(len(known.numbers), 1)
    return Groups(numbers, np.arange(groups), known.units + more, known.by_label)


def level_numbers(points: Floats) -> Floats:
    """The points (..., d), or the numbers (..., 1) of their levels where they are indicators of one of many levels.

    There are as many coordinates as levels, of which sorting would look at every one.

    >>> level_numbers(np.eye(100)[[7, 3]]).ravel().tolist()
    [7.0, 3.0]
    """
    if points.shape[-1] <= MOST_LEVELS or not len(points) or not np.all(points.max(axis=-1) == 1):
        return points
    alone = np.count_nonzero(points, axis=-1) == 1
    return np.argmax(points, axis=-1)[..., None].astype(np.float64) if alone.all() else points


def distinct_points(points: Floats) -> tuple[Floats, Integers]:
    """(the distinct ones of points (n, d), the number (n,) of each point among them)."""
    _, first, numbers = np.unique(level_numbers(points), axis=0, return_index=True, return_inverse=True)
    return points[first], numbers.ravel()


def sample_places(points: Floats, visits: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """(some of the distinct points (q, d), how many visits (q,) they had), whatever the order of the points."""
    distinct, number = distinct_points(points)
    visits = np.bincount(number, visits).astype(np.float64)
    if len(distinct) <= PLACES:
        return distinct, visits
    chosen = np.sort(rng.permutation(len(distinct))[:PLACES])
    return distinct[chosen], visits[chosen] * visits.sum() / visits[chosen].sum()


def deviations(columns: Floats) -> Floats:
    """The standard deviation of each column; 1 for a constant one."""
    deviation = columns.std(axis=0)
    return np.where(deviation > 1e-12 * np.maximum(np.abs(columns).max(axis=0), 1e-300), deviation, 1.0)


@dataclasses.dataclass(frozen=True)
class Weighing:
    """How candidates are weighed: what the paths of all kernels share.

    `shares` (K,) is how much of the data each left-out group is, `into` (F,) the left-out group of each group. `probes`
    (q, d) are places at which candidates are weighed, `headline` the question that matters most, where there is one,
    and `positive` and `unbounded` are the problem's.
    """

    shares: Floats
    into: Integers
    offset: RidgePath | None
    probes: Floats
    headline: Functional | None
    positive: bool
    unbounded: bool = False

    def average(
        self, paths: Sequence[RidgePath], weights: Sequence[Floats] = (), influence: Sequence[Floats] = ()
    ) -> Average:
        """The average of these paths."""
        return Average(tuple(paths), tuple(weights), self.shares, self.into, tuple(influence), self.offset)

    def path(self, features: FeatureMap, sums: Sums) -> RidgePath:
        """The ridge path of one kernel, from sums over left-out groups."""
        at = np.asarray(features(self.probes))
        beside = 0.0 if self.offset is None else self.offset.values(self.probes)[0]
        vectors: Floats | None = None
        level: Floats | float = 0.0
        if self.headline is not None:
            vectors = self.headline.means(self.headline.rows(features), self.into)
            vectors = np.concatenate([vectors, vectors[:1]])
            level = 0.0 if self.offset is None else self.offset.answers(self.headline, self.into)[0]

        def looks(weights: Floats) -> list[Floats]:
            answers = [at @ weights.T + beside]
            if vectors is not None:
                answers.append(np.einsum("km,km->k", vectors, weights) + level)
            return [_logarithm(each) for each in answers] if self.positive else answers

        ridges = [each for each in SEARCH.ridges if not self.unbounded or each <= SEARCH.largest_unbounded]
        return solution_path(features, sums, ridges, looks=looks, shares=self.shares)

    def weigh(self, paths: Sequence[RidgePath]) -> list[Floats]:
        """The weights (E,) of each path's candidates, all of them together summing to 1.

        They fall with the square of a candidate's squared error: a geometric mean of that of the headline, which counts
        most if there is one, and of the geometric mean over probes. Of an f that is positive it is the error of the
        logarithm: where f is a long sum, its error grows with it.
        """
        offset = 0.0 if self.offset is None else self.offset.values(self.probes)
        levels = np.concatenate([self._log_error(path.values(self.probes) + offset) for path in paths])
        if self.headline is not None:
            asked = self.average(paths).each([(1.0, self.headline)])
            asked_levels = np.concatenate([self._log_error(each[:, None]) for each in asked])
            levels = (1 - SEARCH.headline) * levels + SEARCH.headline * asked_levels
        finite = np.isfinite(levels)
        least = levels[finite].min(initial=np.inf)
        weights = np.where(finite, np.exp(-2 * (levels - least)), 0.0) if finite.any() else np.ones(len(levels))
        return list(np.split(weights / weights.sum(), np.cumsum([len(path.ridges) for path in paths])[:-1]))

    def _log_error(self, values: Floats) -> Floats:
        """The mean (E,) over questions of the logarithm of squared errors, from a path's values (E, q, K + 2).

        They are the errors of answers, or of their logarithms where f is positive.
        """
        wrong = ~np.all(values > 0, axis=-1) if self.positive else np.zeros(values.shape[:-1], dtype=bool)
        with np.errstate(invalid="ignore"):
            answers = np.log(np.where(wrong[..., None], 1.0, values)) if self.positive else values
            errors = np.maximum(squared_error(answers, self.shares), np.finfo(float).tiny)
        if self.positive:
            # Beside an answer that is not above zero the error of the next one is no measure of anything either.
            errors = np.where(wrong | np.isinf(errors), SEARCH.wrong_sign, np.minimum(errors, SEARCH.wrong_sign))
        return np.log(errors).mean(axis=1)


def probes_among(places: Floats) -> Floats:
    """Some of the places, evenly among them."""
    return places[:: max(1, len(places) // SEARCH.probes)]


def _logarithm(values: Floats) -> Floats:
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
                residual = (fine.target[:, :, 0] - fine.cross @ theta)[groups]
                moves = at @ system.solve(residual.T / fine.count[groups].sum())
                errors[number, way] = np.mean(np.var(moves, axis=1)) * moves.shape[1]
            weights[number, way] = theta
    sound = np.isfinite(errors) & np.isfinite(errors[:, :1]) & np.isfinite(weights).all(axis=2)
    ratios = np.divide(errors, errors[:, :1], out=np.ones_like(errors), where=sound & (errors[:, :1] > 0))
    counts = np.where(sound, shares[used, None] / np.maximum(ratios, 1.0) ** 2, 0.0)
    return np.where(sound[:, :, None], weights, 0.0)[:, 1:], counts[:, 1:]


def excess(average: Average, rows: Rows, groups: Integers) -> list[Floats]:
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
    merits = np.divide(np.maximum(worse.mean(axis=0), 0), stderr, out=np.zeros(len(stderr)), where=stderr > 0)
    merits = np.where(sound, merits, HOPELESS)
    return list(np.split(merits, np.cumsum([len(path.ridges) for path in average.paths])[:-1]))


def _left_out(average: Average, points: Floats, groups: Integers) -> Floats:
    """Every candidate without the row's group at one point a row, (n, E of all paths)."""
    values = np.empty((len(points), sum(len(path.ridges) for path in average.paths)))
    for group in np.unique(groups):
        own = groups == group
        parts = [path.values_one_way(points[own], 1 + group) for path in average.paths]
        offset = 0.0 if average.offset is None else average.offset.values_one_way(points[own], 1 + group)
        values[own] = np.concatenate(parts, axis=1) + offset
    return values


def by_merit(weights: Sequence[Floats], excesses: Sequence[Floats]) -> list[Floats]:
    """The weights, lowered by how much worse candidates are on groups left out, and summing to 1 again."""
    lowered = [own / (1 + worse**2) ** 2 for own, worse in zip(weights, excesses, strict=True)]
    total = sum(float(each.sum()) for each in lowered)
    return [each / total for each in lowered]
