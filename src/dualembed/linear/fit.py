"""A function solved for by averaged ridge paths, with all that questions about it need: no row of the data is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.stats import t as student

from dualembed.arrays import Floats, Integers
from dualembed.estimates import Estimate
from dualembed.linear.averaging import Groups, Rows, Weighing, assign_more, fold_weights, probes_among, sample_places
from dualembed.linear.candidates import Functional, Headline, RidgePath
from dualembed.linear.moment_fit import Spread
from dualembed.linear.path import Average, first_order
from dualembed.linear.sums import Sums, gather
from dualembed.linear.system import LinearSystem
from dualembed.problems.base import Problem
from dualembed.spaces.features import evaluate_functions
from dualembed.spaces.linear import LinearFunction
from dualembed.spaces.nystrom import Stack
from dualembed.tuning import SEARCH

FAR = 99.0  # percentile of the distance from one row to the nearest other, beyond which a point is outside the data
BLOCK = 2048  # points looked at together
FOLD_UNITS = 10  # labels, or rows, of a fold that an honest error is taken on, at least
# Of sums that are kept, so that files do not grow with the number of kernels: numbers, those of a path by itself in
# squares of its features, and directions at least.
MOST_NUMBERS, OF_A_PATH, LEAST_DIRECTIONS = 2_300_000, 5, 64
WITNESS_RIDGES = 10.0 ** np.arange(2, -7, -1)  # as shares of a feature's mean square


class Overlap(NamedTuple):
    """What an answer rests on: the weights that the data's rows have in it.

    `negative` is the share of weights below zero, which a density ratio has none of: it says how far the features had
    to reach. `effective` is the share of the rows that the weights are worth.
    """

    negative: float
    effective: float


class LinearFit(eqx.Module):
    """f = Σ weights f_candidate, its sums by group, and a sample of the places that the data know of.

    `headline` is the question that matters most, where there is one. `units` (K,) are how many labels each left-out
    group has, or how many rows where it is not `by_label`.
    """

    candidates: Average
    sums: tuple[Sums, ...]  # for each path
    places: Floats  # (q, d), a sample of the distinct first points of rows
    visits: Floats  # (q,), how many rows each place stands for
    scale: Floats  # (d,), by which coordinates are measured
    reach: float  # how far from a place a point of the data may be
    size: float  # the standard deviation of f over the places
    headline: Functional | None
    units: Integers  # (K,)
    by_label: bool
    # Until it is judged: the folds (K,) of left-out groups, and weights (P, m) of f without each of P folds.
    folds: Integers | None = None
    fold_weights: Floats | None = None

    @classmethod
    def of(
        cls,
        weighing: Weighing,
        paths: Sequence[RidgePath],
        weights: Sequence[Floats],
        *,
        sums: Sequence[Sums],
        groups: Groups,
        places: Floats,
        visits: Floats,
        scale: Floats,
        judged: bool = False,
    ) -> LinearFit:
        """The fit of the candidates that count; `sums` are those of all groups, for each path, if it is to be judged.

        Otherwise they are those of left-out groups.
        """
        total = sum(float(np.where(each < SEARCH.negligible, 0.0, each).sum()) for each in weights)
        weights = [np.where(each < SEARCH.negligible, 0.0, each) / total for each in weights]
        kept = [number for number, each in enumerate(weights) if each.sum() > 0]
        influence = [first_order(paths[i], weights[i], sums[i], weighing.into) for i in kept]
        average = weighing.average([paths[i] for i in kept], [weights[i] for i in kept], influence)
        most = most_directions([sums[i].target.shape[1] for i in kept], len(groups.units))
        compact = tuple(sums[i].merged(weighing.into).compact(most) for i in kept)
        known = weighing.headline, groups.units, groups.by_label
        folds = _folds(groups.units)
        without = None
        if judged:
            without = fold_weights(average, [sums[i] for i in kept], folds[weighing.into], weighing.probes)
        fit = cls(average, compact, places, visits, scale, reach_of(places, scale), 0.0, *known, folds, without)
        return dataclasses.replace(fit, size=float(np.std(fit.replicates(places)[:, 0])))

    @property
    def rows(self) -> int:
        """How many rows it was fitted to."""
        return int(self.sums[0].count.sum())

    def assign(self, rows: Rows, labels: ArrayLike | None, seed: int) -> Groups:
        """The left-out groups of more rows."""
        known = Groups(np.zeros(self.rows, dtype=int), self.candidates.into, self.units, self.by_label)
        return assign_more(rows, labels, known, np.random.default_rng([seed, self.rows]))

    def extended(
        self, problem: Problem, rows: Rows, groups: Groups, *, headline: Headline | None, seed: int
    ) -> LinearFit:
        """The fit to the problem's rows besides all earlier ones, in the same features; `assign` gives their groups."""
        into, offset = np.asarray(self.candidates.into), self.candidates.offset
        asked = None if headline is None else headline.among(groups.numbers)
        asked = None if self.headline is None else self.headline.joined(asked, into)
        both = np.concatenate([self.places, rows.points[:, 0]])
        visits = np.concatenate([self.visits, np.ones(len(rows.target))])
        places, visits = sample_places(both, visits, np.random.default_rng([seed, self.rows, 1]))
        features = [path.features for path in self.candidates.paths]
        sums = [
            own + gather(problem, each, groups.numbers, count=len(groups.units), offset=offset)
            for own, each in zip(self.sums, features, strict=True)
        ]
        # Of earlier rows only the sums of left-out groups are there, which stand for all groups from now on.
        weighing = Weighing(
            groups.shares, groups.into, offset, probes_among(places), asked, problem.positive, problem.unbounded
        )
        paths = [weighing.path(each, own) for each, own in zip(features, sums, strict=True)]
        weighed = weighing, paths, weighing.weigh(paths)
        return LinearFit.of(*weighed, sums=sums, groups=groups, places=places, visits=visits, scale=self.scale)

    @property
    def function(self) -> LinearFunction:
        """f itself."""
        features, weights = self._whole()
        return LinearFunction(features, weights[0])

    def replicates(self, points: Floats) -> Floats:
        """f at points (n, d) on all rows and without each group, (n, 1 + K)."""
        features, weights = self._whole()
        return evaluate_functions(features, weights, points)

    def ways(self, points: Floats) -> Floats:
        """f at points (n, d) on all rows, without each group, and debiased, (n, K + 2)."""
        features, weights = self._whole(debiased=True)
        return evaluate_functions(features, weights, points)

    def without(self, fold_weights: Floats, points: Floats) -> tuple[Floats, Floats]:
        """f at points (n, d), with the weights (m,) it has without a fold and with those of all rows, (n,) each."""
        features, weights = self._whole()
        without, whole = evaluate_functions(features, np.stack([fold_weights, weights[0]]), points).T
        return without, whole

    def _whole(self, *, debiased: bool = False) -> tuple[Stack, Floats]:
        """All features side by side, and the weights (1 + K, m) of f in them, with the debiased ones (K + 2, m)."""
        last = None if debiased else -1
        paths, shares = list(self.candidates.paths), list(self.candidates.weights)
        if self.candidates.offset is not None:
            paths.append(self.candidates.offset)
            shares.append(np.ones(1))
        weights = [
            np.tensordot(each[each > 0], path.weights[each > 0, :last], axes=1)
            for each, path in zip(shares, paths, strict=True)
        ]
        return Stack(tuple(path.features for path in paths)), np.concatenate(weights, axis=1)

    @property
    def freedom(self) -> int:
        """Degrees of freedom of sampling errors: those of the few left-out groups, which no number of others mends.

        How f really moves without a part of the data is known from them alone; and sums of rewards are skewed.
        """
        return len(self.candidates.shares) - 1

    def quantile(self, level: float) -> float:
        """How many standard errors an interval of that level reaches to either side."""
        return float(student.ppf(0.5 + level / 2, self.freedom))

    def evaluate(self, points: Floats, beyond: Floats | float = 0.0) -> tuple[Floats, Floats]:
        """(values, standard errors) of f at points (n, d), which may be further `beyond` the data than they show."""
        beyond = np.broadcast_to(beyond, len(points))
        blocks = [slice(start, start + BLOCK) for start in range(0, len(points), BLOCK)]
        values, errors = np.empty(len(points)), np.empty(len(points))
        for block in blocks:
            spread = self.candidates.at(points[block])
            values[block] = spread.value
            errors[block] = np.hypot(spread.stderr, self.size * (self.outside(points[block]) + beyond[block]))
        return values, errors

    def std(self, points: ArrayLike) -> Floats:
        """The standard errors (n,) of f at points (n, d)."""
        return self.evaluate(np.asarray(points, dtype=np.float64))[1]

    @property
    def spreads(self) -> tuple[LinearFit, ...]:
        """What standard errors come from: itself."""
        return (self,)

    def interval(self, points: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
        """(lower, upper), each covering f(x) at each point by itself with that probability."""
        values, errors = self.evaluate(np.asarray(points, dtype=np.float64))
        half = self.quantile(level) * errors
        return values - half, values + half

    def average(self, points: ArrayLike, weights: ArrayLike | None = None) -> Estimate:
        """The mean of f over the points (or Σ weights_i f(x_i)) with its standard error, the points being given."""
        points = np.asarray(points, dtype=np.float64)
        shares = np.ones(len(points)) if weights is None else np.asarray(weights, dtype=np.float64) * len(points)
        spread = self.candidates.ask([(1.0, Functional(points[:, None], shares[:, None]))])
        return Estimate(float(spread.value), float(np.hypot(spread.stderr, self.extrapolation(points, shares))))

    def averages(self, points: Floats, less: Floats | None = None) -> tuple[Floats, Floats]:
        """(means of f over each of G sets of points (G, n, d), their standard errors), in one pass.

        With `less` (n, d) they are differences to the mean over those.
        """
        others = np.empty((0, *points.shape[1:])) if less is None else less[None]
        spread = self.candidates.averages(np.concatenate([points, others]), less=less is not None)
        away = self.outside(points.reshape(-1, points.shape[2])).reshape(len(points), -1).mean(axis=1)
        beyond = 0.0 if less is None else float(self.outside(less).mean())
        return spread.value, np.hypot(spread.stderr, self.size * (away + beyond))

    def extrapolation(self, points: Floats, shares: Floats) -> float:
        """What f may be off by at points (n, d) outside the data: one standard deviation of it for each of theirs."""
        return float(self.size * np.mean(np.abs(shares) * self.outside(points)))

    def outside(self, points: Floats) -> Floats:
        """How far each point (n, d) is from the data, in standard deviations a coordinate; 0 among them."""
        away = nearest(points, np.asarray(self.places), self.scale)
        return np.asarray(np.maximum(away - self.reach, 0.0) / np.sqrt(points.shape[1]))

    def witness(self) -> Spread:
        """E[moment(f) - y | context] as groups show it that f was fitted without, with standard errors over groups.

        It is a regression on the features of the kernel that counts most. Its ridge is the one that predicts best what
        a group shows from what the others show.
        """
        leading = int(np.argmax([weights.sum() for weights in self.candidates.weights]))
        path, sums = self.candidates.paths[leading], self.sums[leading]
        sums = sums if sums.directions is None else sums.whole()
        shares = self.candidates.weights[leading] / self.candidates.weights[leading].sum()
        thetas = np.tensordot(shares, path.weights[:, 1:-1], axes=1)
        left = np.stack(
            [
                cross.astype(np.float64) @ theta - target[:, (1 + k) % target.shape[1]]
                for k, (cross, target, theta) in enumerate(zip(sums.cross, sums.target, thetas, strict=True))
            ]
        )
        rows = sums.count.sum()
        values, vectors = np.linalg.eigh(sums.mean_dual)
        pulled = left @ vectors / rows  # (K, m)
        share = (sums.count / rows)[:, None]
        others = (pulled.sum(axis=0) - pulled) / (1 - share)
        errors = []
        for ridge in WITNESS_RIDGES:
            fitted = others / (np.maximum(values, 0) + ridge * sums.mean_square)
            errors.append(np.sum(share * fitted**2 * values - 2 * fitted * pulled))
        ridge = WITNESS_RIDGES[int(np.argmin(errors))] * sums.mean_square
        inverse = vectors / (np.maximum(values, 0) + ridge)
        groups = len(pulled)
        spread = np.sqrt(groups / (groups - 1)) * (pulled - share * pulled.sum(axis=0))
        return Spread(path.features, inverse @ pulled.sum(axis=0), inverse @ spread.T)

    def representer(self, part: Functional) -> list[Floats]:
        """ω (m,) for each path: Σ ωᵀφ at a row's first point is the weight of its residual in the functional of f."""
        return self._representers([part.rows(path.features).mean(axis=0) for path in self.candidates.paths])

    def representers(self, points: Floats) -> list[Floats]:
        """The same of f at each of some points (n, d), (m, n) for each path."""
        identity = [np.eye(path.features.size) for path in self.candidates.paths]
        pairs = zip(self.candidates.paths, identity, strict=True)
        return self._representers([evaluate_functions(path.features, each, points).T for path, each in pairs])

    def _representers(self, vectors: Sequence[Floats]) -> list[Floats]:
        """Those of functionals whose values (m, ...) at the features of each path are given."""
        representers = []
        parts = zip(self.candidates.paths, self.sums, self.candidates.weights, vectors, strict=True)
        for path, sums, shares, vector in parts:
            omega = np.zeros(vector.shape)
            means = sums.means()
            for ridge, share in zip(path.ridges, shares, strict=True):
                if share > 0:
                    omega += share * LinearSystem(*means, ridge * sums.mean_square).representer(vector)
            representers.append(omega)
        return representers

    def density(self, representer: Sequence[Floats], points: Floats) -> Floats:
        """The weights (n, ...) that rows with these first points (n, d) have."""
        parts = zip(self.candidates.paths, representer, strict=True)
        found = [evaluate_functions(path.features, np.atleast_2d(omega.T), points) for path, omega in parts]
        weights = np.asarray(np.sum(found, axis=0))
        return weights[:, 0] if representer[0].ndim == 1 else weights

    def overlap(self, part: Functional) -> Overlap:
        """What the functional's answer rests on."""
        weights, visits = self.density(self.representer(part), np.asarray(self.places)), np.asarray(self.visits)
        total = max(float(visits @ np.abs(weights)), np.finfo(float).tiny)
        negative = float(visits @ np.maximum(-weights, 0) / total)
        squares = max(float(visits @ weights**2), np.finfo(float).tiny)
        return Overlap(negative, float((visits @ weights) ** 2 / squares / visits.sum()))


def most_directions(sizes: ArrayLike, groups: int) -> int:
    """The directions in which products of groups are kept, of paths of these sizes: a fit of many is no larger."""
    sizes = np.asarray(sizes)
    most = np.arange(LEAST_DIRECTIONS, max(sizes.max(), LEAST_DIRECTIONS) + 1)
    each = np.minimum(most[:, None], sizes)
    numbers = np.sum(groups * each**2 + sizes * each * (each < sizes) + OF_A_PATH * sizes**2, axis=1)
    return int(most[numbers <= MOST_NUMBERS].max(initial=LEAST_DIRECTIONS))


def _folds(units: Integers) -> Integers:
    """The fold (K,) of each left-out group, by how many units each has: as many folds as are large enough, up to 4."""
    for count in (4, 3):
        folds = np.arange(len(units)) % count
        if np.bincount(folds, units).min() >= FOLD_UNITS:
            return folds
    return np.arange(len(units)) % 2


def nearest(points: Floats, places: Floats, scale: Floats) -> Floats:
    """The distance (n,) from each point to the nearest place, coordinates being measured by `scale` (d,)."""
    blocks = [points[start : start + BLOCK] / scale for start in range(0, len(points), BLOCK)]
    return np.concatenate([cdist(block, places / scale).min(axis=1) for block in blocks]) if blocks else np.zeros(0)


def reach_of(places: Floats, scale: Floats) -> float:
    """The distance from one place to the nearest other that nearly none exceeds."""
    distances = cdist(places / scale, places / scale)
    np.fill_diagonal(distances, np.inf)
    least = distances.min(axis=1)
    return float(np.percentile(least[np.isfinite(least)], FAR)) if np.isfinite(least).any() else 0.0
