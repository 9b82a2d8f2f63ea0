"""Candidates for f on a falling ridge, and linear functionals of f: means of Σ shares f(points)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import numpy as np

from dualembed.arrays import Booleans, Floats, Integers
from dualembed.linear.clusters import sum_by
from dualembed.spaces.features import FeatureMap, evaluate_functions, moment_features


@dataclasses.dataclass(frozen=True)
class Functional:
    """c(f) = mean over n rows of Σ_j shares_j f(points_j) + constant, with points (n, J, d) and shares (n, J).

    `groups` (n,) are the numbers of the data's groups that the rows belong to, where the rows are a sample as well,
    such as the first states of episodes. They are -1 where the sample is another one, and None where the points are
    not a sample, but what is asked about. `constants` (n,) are 0 where they are left out. `strays` (n, J) say how far
    points are from all that the fit could learn of, by what their coordinates do not show; 0 where they are left out.
    Where rows do not count alike, `mass` (n,) says how much each does, over the mean, and shares have it as a factor.
    """

    points: Floats
    shares: Floats
    groups: Integers | None = None
    constants: Floats | None = None
    strays: Floats | None = None
    mass: Floats | None = None

    @property
    def sampled(self) -> bool:
        """Whether the rows are a sample of the data's own."""
        return self.groups is not None and bool(np.any(self.groups >= 0))

    def rows(self, features: FeatureMap) -> Floats:
        """Each row's Σ_j shares_j ψ(points_j), (n, m)."""
        return moment_features(features, self.points, self.shares)

    def constant(self, into: Integers) -> Floats:
        """The mean of the constants, each way: (K + 2,)."""
        if self.constants is None:
            return np.zeros(int(into.max()) + 3)
        means = self.means(self.constants[:, None], into)[:, 0]
        return np.append(means, means[0])

    def means(self, rows: Floats, into: Integers) -> Floats:
        """The mean of rows (n, m), over all of them and without those of each left-out group: (1 + K, m)."""
        groups = int(into.max()) + 1
        total, count = rows.sum(axis=0), np.full(1 + groups, len(rows))
        sums = np.tile(total, (1 + groups, 1))
        if self.groups is not None:
            inside = self.groups >= 0
            left = into[self.groups[inside]]
            sums[1:] -= sum_by(left, rows[inside], groups)
            count[1:] -= np.bincount(left, minlength=groups)
        # A group that has all the rows leaves none: what is left of the sample is then the sample itself.
        empty = count == 0
        sums[empty], count[empty] = total, len(rows)
        return np.asarray(sums / count[:, None])

    def among(self, rows: Booleans) -> Functional:
        """The same of some of its rows."""
        mass, shares = None, self.shares[rows]
        if self.mass is not None:
            level = float(self.mass[rows].mean())
            mass, shares = self.mass[rows] / level, shares / level
        return Functional(
            self.points[rows],
            shares,
            None if self.groups is None else self.groups[rows],
            None if self.constants is None else self.constants[rows],
            None if self.strays is None else self.strays[rows],
            mass,
        )

    def sampling_variance(self, function: Callable[[Floats], Floats]) -> float:
        """The variance of the functional of f over samples of its rows; 0 where these are given."""
        if self.groups is None or len(self.points) < 2:
            return 0.0
        values = function(self.points.reshape(-1, self.points.shape[2])).reshape(self.shares.shape)
        means = np.sum(self.shares * values, axis=1)
        if self.mass is not None:
            means = means - self.mass * means.mean()  # of a weighted mean the weights are drawn, too
        return float(means.var(ddof=1) / len(values))

    def joined(self, other: Functional | None, into: Integers) -> Functional | None:
        """The mean over the rows of both, this one's in the left-out groups they are in; itself where it is no sample.

        Of a sample that goes on with none, nothing is left.
        """
        if self.groups is None:
            return self
        if other is None or other.groups is None:
            return dataclasses.replace(self, groups=into[self.groups])
        points, shares = np.concatenate([self.points, other.points]), np.concatenate([self.shares, other.shares])
        return Functional(points, shares, np.concatenate([into[self.groups], other.groups]))


class Headline(NamedTuple):
    """The question that matters most: points (n, J, d) with shares (n, J), at the rows (n,) of the data.

    There are no rows where the points are not of the data, but what is asked about.
    """

    points: Floats
    shares: Floats
    rows: Integers | None = None

    def among(self, numbers: Integers) -> Functional:
        """The question as a functional, from the numbers (n,) of the groups that the data's rows are in."""
        return Functional(self.points, self.shares, None if self.rows is None else numbers[self.rows])


class RidgePath(eqx.Module):
    """f in one feature map for a falling ridge: on all rows, without each of K groups, and on all rows debiased."""

    features: FeatureMap
    ridges: Floats  # (E,)
    weights: Floats  # (E, K + 2, m)

    def values(self, points: Floats) -> Floats:
        """f at points (n, d) for every ridge, each way: (E, n, K + 2)."""
        ridges, ways, size = self.weights.shape
        values = evaluate_functions(self.features, self.weights.reshape(-1, size), points)
        return np.moveaxis(values.reshape(len(points), ridges, ways), 0, 1)

    def values_one_way(self, points: Floats, way: int) -> Floats:
        """f at points (n, d) for every ridge: on all rows where `way` is 0, without group k where it is 1 + k."""
        return evaluate_functions(self.features, np.asarray(self.weights)[:, way], points)

    def answers(self, part: Functional, into: Integers) -> Floats:
        """The functional of f, but for its constant, for every ridge, each way: (E, K + 2).

        `into` gives the number below K of the left-out group that each of the data's groups is a part of.
        """
        means = part.means(part.rows(self.features), into)
        each = [*means, means[0]]  # debiased on all rows
        return np.stack([self.weights[:, way] @ vector for way, vector in enumerate(each)], axis=1)
