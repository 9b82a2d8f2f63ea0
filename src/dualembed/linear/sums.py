"""Sums over the rows of each of a few groups: all that a closed form and its errors need of any number of rows."""

from __future__ import annotations

import dataclasses

import numpy as np

from dualembed.linear.candidates import RidgePath
from dualembed.problems.base import Problem, iter_terms
from dualembed.sources import Sample
from dualembed.spaces.base import FeatureMap
from dualembed.spaces.features import moment_features, to_numpy


@dataclasses.dataclass(frozen=True)
class Sums:
    """Sums of products of φ = ψ(context), g = Σ_k w_k ψ(p_k) and the target t = y - offset, group by group.

    Rows that depend on each other are in one group, so that what is left of the data without a group is independent of
    it. Two sets of rows have the sum of their sums, `a + b`.
    """

    count: np.ndarray  # rows of each group, (K,)
    cross: np.ndarray  # Σ φ gᵀ, (K, m, m)
    target: np.ndarray  # Σ φ tᵀ, (K, m, T), the T columns being targets of as many equations
    dual: np.ndarray  # Σ φ φᵀ of all groups, (m, m)
    remainder: np.ndarray | float = 0.0  # of Σ φ gᵀ over all groups, that rounding of the groups' own has lost

    def __add__(self, other: Sums) -> Sums:
        """The sums over both sets of rows."""
        mine, others = (
            [np.asarray(getattr(sums, field.name), dtype=np.float64) for field in dataclasses.fields(Sums)]
            for sums in (self, other)
        )
        return Sums(*(a + b for a, b in zip(mine, others, strict=True)))

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.count)

    @property
    def mean_square(self) -> float:
        """The mean square of a feature over all rows: what a ridge is measured by."""
        return float(np.trace(self.dual, dtype=np.float64) / (self.count.sum() * len(self.dual)))

    def means(self) -> tuple[np.ndarray, np.ndarray]:
        """(E[φgᵀ], E[φtᵀ]) over all rows."""
        rows = self.count.sum()
        return self._total() / rows, self.target.sum(axis=0) / rows

    def means_without(self, group: int) -> tuple[np.ndarray, np.ndarray]:
        """(E[φgᵀ], E[φtᵀ]) over the rows of all groups but one."""
        rows = self.count.sum() - self.count[group]
        return (self._total() - self.cross[group]) / rows, (self.target.sum(axis=0) - self.target[group]) / rows

    def merged(self, into: np.ndarray) -> Sums:
        """The same of fewer groups, `into` (K,) being the numbers of those that each group becomes a part of."""
        count = int(into.max()) + 1

        def added(values: np.ndarray) -> np.ndarray:
            total = np.zeros((count, *values.shape[1:]))
            np.add.at(total, into, values)
            return total

        return dataclasses.replace(self, count=added(self.count), cross=added(self.cross), target=added(self.target))

    def compact(self) -> Sums:
        """The same in half the memory, and the total of the groups' products all but as it is."""
        small = self.cross.astype(np.float32)
        # What rounding loses of the total is so little that single precision is enough for it.
        remainder = (self._total() - small.sum(axis=0, dtype=np.float64)).astype(np.float32)
        return dataclasses.replace(self, cross=small, dual=self.dual.astype(np.float32), remainder=remainder)

    def _total(self) -> np.ndarray:
        return np.asarray(self.cross.sum(axis=0, dtype=np.float64) + self.remainder)


def gather(
    problem: Problem,
    features: FeatureMap,
    groups: np.ndarray,
    *,
    count: int,
    offset: RidgePath | None = None,
    sample: Sample | None = None,
) -> Sums:
    """The sums of the problem's rows, whose groups are numbered (n,) below `count`, in one pass of tiles.

    The context must be the first point of a row, as it is for transitions: the features test the equation that they
    are to solve. An `offset` is a part of f that is known already: the targets are what it leaves of t on all rows, and
    without each group.
    """
    features, start = to_numpy(features), 0
    size, columns = features.size, 1 if offset is None else offset.weights.shape[1] - 1
    found = Sums(
        np.zeros(count), np.zeros((count, size, size)), np.zeros((count, size, columns)), np.zeros((size, size))
    )
    for terms in iter_terms(problem, sample):
        own = groups[start : start + len(terms.target)]
        start += len(own)
        phi = np.asarray(features(terms.points[:, 0]))
        g = terms.weights[:, :1] * phi + moment_features(features, terms.points[:, 1:], terms.weights[:, 1:])
        target = (terms.target - terms.offset)[:, None]
        if offset is not None:
            target = target - moment_features(offset.features, terms.points, terms.weights) @ offset.weights[0, :-1].T
        order = np.argsort(own, kind="stable")  # a group's rows lie together, so that BLAS takes them as one matrix
        phi, g, target = phi[order], g[order], target[order]
        found.dual[...] += phi.T @ phi
        ends = np.cumsum(np.bincount(own, minlength=count))
        for group, (first, last) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if first < last:
                found.count[group] += last - first
                found.cross[group] += phi[first:last].T @ g[first:last]
                found.target[group] += phi[first:last].T @ target[first:last]
    return found
