"""A function solved for by averaged ridge paths, with all that questions about it need: no row of the data is kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import t as student

from dualembed.arrays import Floats
from dualembed.estimates import Estimate
from dualembed.linear.functional import Functional
from dualembed.linear.path import Average, Estimates
from dualembed.linear.sums import Sums
from dualembed.linear.system import LinearSystem
from dualembed.spaces.features import evaluate_functions
from dualembed.spaces.linear import LinearFunction
from dualembed.spaces.trended import Stack

FAR = 99.0  # percentile of the distance from one row to the nearest other, beyond which a point is outside the data
BLOCK = 2048  # points looked at together


class Overlap(NamedTuple):
    """What an answer rests on: the weights that the data's rows have in it.

    `negative` is the share of weights below zero, which a density ratio has none of: it says how far the features had
    to reach. `effective` is the share of the rows that the weights are worth.
    """

    negative: float
    effective: float


class LinearFit(eqx.Module):
    """f = Σ weights f_candidate, its sums by group, and a sample of the places that the data know of."""

    candidates: Average
    sums: tuple[Sums, ...]  # for each path
    places: Any  # (q, d), a sample of the distinct first points of rows
    visits: Any  # (q,), how many rows each place stands for
    scale: Any  # (d,), by which coordinates are measured
    reach: float  # how far from a place a point of the data may be
    size: float  # the standard deviation of f over the places

    @property
    def function(self) -> LinearFunction:
        """f itself."""
        features, weights = self._whole()
        return LinearFunction(features, weights[0])

    def replicates(self, points: Floats) -> Floats:
        """f at points (n, d) on all rows and without each group, (n, 1 + K)."""
        features, weights = self._whole()
        return evaluate_functions(features, weights, points)

    def _whole(self) -> tuple[Stack, Floats]:
        """All features side by side, and the weights (1 + K, m) of f in them."""
        paths, shares = list(self.candidates.paths), list(self.candidates.weights)
        if self.candidates.offset is not None:
            paths.append(self.candidates.offset)
            shares.append(np.ones(1))
        weights = [
            np.tensordot(each[each > 0], path.weights[each > 0, :-1], axes=1)
            for each, path in zip(shares, paths, strict=True)
        ]
        return Stack(tuple(path.features for path in paths)), np.concatenate(weights, axis=1)

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the errors."""
        return self.candidates.freedom

    def quantile(self, level: float) -> float:
        """How many standard errors an interval of that level reaches to either side."""
        return float(student.ppf(0.5 + level / 2, self.freedom))

    def evaluate(self, points: Floats, beyond: Any = 0.0) -> tuple[Floats, Floats]:
        """(values, standard errors) of f at points (n, d), which may be further `beyond` the data than they show."""
        beyond = np.broadcast_to(beyond, len(points))
        blocks = [slice(start, start + BLOCK) for start in range(0, len(points), BLOCK)]
        found = [self._evaluate(points[block], beyond[block]) for block in blocks]
        values, errors = (np.concatenate(each) for each in zip(*found, strict=True)) if found else (np.zeros(0),) * 2
        return values, errors

    def _evaluate(self, points: Floats, beyond: Floats) -> tuple[Floats, Floats]:
        spread = self.candidates.at(points)
        return spread.value, np.hypot(spread.stderr, self.size * (self.outside(points) + beyond))

    def std(self, points: Any) -> Floats:
        """The standard errors (n,) of f at points (n, d)."""
        return self.evaluate(np.asarray(points, dtype=np.float64))[1]

    def answer(self, parts: Sequence[tuple[float, Functional]]) -> Estimates:
        """The sum of factor times functional of f."""
        return self.candidates.ask(parts)

    @property
    def spreads(self) -> tuple[LinearFit, ...]:
        """What standard errors come from: itself."""
        return (self,)

    def interval(self, points: Any, level: float = 0.95) -> tuple[Floats, Floats]:
        """(lower, upper), each covering f(x) at each point by itself with that probability."""
        values, errors = self.evaluate(np.asarray(points, dtype=np.float64))
        half = self.quantile(level) * errors
        return values - half, values + half

    def average(self, points: Any, weights: Any = None) -> Estimate:
        """The mean of f over the points (or Σ weights_i f(x_i)) with its standard error, the points being given."""
        points = np.asarray(points, dtype=np.float64)
        shares = np.ones(len(points)) if weights is None else np.asarray(weights, dtype=np.float64) * len(points)
        spread = self.answer([(1.0, Functional(points[:, None], shares[:, None]))])
        return Estimate(float(spread.value), float(np.hypot(spread.stderr, self.extrapolation(points, shares))))

    def extrapolation(self, points: Floats, shares: Floats) -> float:
        """What f may be off by at points (n, d) outside the data: one standard deviation of it for each of theirs."""
        return float(self.size * np.mean(np.abs(shares) * self.outside(points)))

    def sampling(self, part: Functional) -> float:
        """The variance of the functional of f over samples of its rows, where these are not the data's own."""
        if part.groups is None or len(part.points) < 2 or np.any(part.groups >= 0):
            return 0.0
        flat = part.points.reshape(-1, part.points.shape[2])
        each = np.sum(part.shares * self.replicates(flat)[:, 0].reshape(part.shares.shape), axis=1)
        return float(each.var(ddof=1) / len(each))

    def outside(self, points: Floats) -> Floats:
        """How far each point (n, d) is from the data, in standard deviations a coordinate; 0 among them."""
        away = nearest(points, np.asarray(self.places), self.scale)
        return np.asarray(np.maximum(away - self.reach, 0.0) / np.sqrt(points.shape[1]))

    def representer(self, part: Functional) -> list[Floats]:
        """ω (m,) for each path: Σ ωᵀφ at a row's first point is the weight of its residual in the functional of f."""
        found = []
        for path, sums, shares in zip(self.candidates.paths, self.sums, self.candidates.weights, strict=True):
            vector = part.rows(path.features).mean(axis=0)
            omega = np.zeros(len(vector))
            means = sums.means()
            for ridge, share in zip(path.ridges, shares, strict=True):
                if share > 0:
                    omega += share * LinearSystem(*means, ridge * sums.mean_square).representer(vector)
            found.append(omega)
        return found

    def density(self, representer: Sequence[Floats], points: Floats) -> Floats:
        """The weights (n,) that rows with these first points (n, d) have."""
        parts = zip(self.candidates.paths, representer, strict=True)
        return np.sum([evaluate_functions(path.features, omega[None], points)[:, 0] for path, omega in parts], axis=0)

    def overlap(self, part: Functional) -> Overlap:
        """What the functional's answer rests on."""
        weights, visits = self.density(self.representer(part), np.asarray(self.places)), np.asarray(self.visits)
        total = max(float(visits @ np.abs(weights)), np.finfo(float).tiny)
        negative = float(visits @ np.maximum(-weights, 0) / total)
        squares = max(float(visits @ weights**2), np.finfo(float).tiny)
        return Overlap(negative, float((visits @ weights) ** 2 / squares / visits.sum()))


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
