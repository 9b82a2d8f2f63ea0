"""The few sums over the data from which every closed form follows; they add up over rows, streams and machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from scipy.linalg import blas

from dualembed.problems.base import TILE, Problem, iter_terms
from dualembed.sources import Sample
from dualembed.spaces.base import FeatureMap
from dualembed.spaces.features import evaluate_features, moment_features, to_numpy


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Sums over rows, in float64, of products of φ (the dual's r features), g = Σ_k w_k ψ(p_k) and t = y - offset.

    Two sets of rows have the sum of their statistics: `a + b`.
    """

    count: int
    cross: np.ndarray  # Σ φ gᵀ, (r, m)
    dual: np.ndarray  # Σ φ φᵀ, (r, r)
    dual_target: np.ndarray  # Σ φ t, (r,)
    primal: np.ndarray  # Σ g gᵀ, (m, m)
    primal_target: np.ndarray  # Σ g t, (m,)
    target: float  # Σ t²

    @staticmethod
    def empty(primal: int, dual: int) -> Statistics:
        """The statistics of no rows."""
        return Statistics(
            0, np.zeros((dual, primal)), np.zeros((dual, dual)), np.zeros(dual), np.zeros((primal, primal)),
            np.zeros(primal), 0.0,
        )  # fmt: skip

    def __add__(self, other: Statistics) -> Statistics:
        """The statistics of both sets of rows."""
        names = [field.name for field in dataclasses.fields(self)]
        return Statistics(*(getattr(self, name) + getattr(other, name) for name in names))

    def residual_variance(self, theta: np.ndarray) -> float:
        """mean (t - θᵀg)², the noise of one moment under the function with weights θ."""
        total = self.target - 2 * theta @ self.primal_target + theta @ self.primal @ theta
        return max(float(total), 0.0) / self.count


def total(parts: Sequence[Statistics]) -> Statistics:
    """The statistics of the rows of all parts together."""
    return sum(parts[1:], start=parts[0])


def gather(
    problem: Problem,
    primal: FeatureMap,
    dual: FeatureMap,
    *,
    sample: Sample | None = None,
    folds: int = 1,
    groups: Any = None,
) -> list[Statistics]:
    """The statistics of each fold in one pass of tiles over the samples: row i is in fold i mod folds.

    With `groups` (n,), labels of rows that depend on each other, it is the number of its group that counts.

    It holds 8 TILE (r + m + 1) bytes of features and 8 (r + m + 1)² for each fold, however many rows there are.
    """
    primal, dual = to_numpy(primal), to_numpy(dual)
    width = dual.size + primal.size + 1
    grams = np.zeros((folds, width, width))
    counts = np.zeros(folds, dtype=int)
    labels = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    # Made once: memory that is new for each tile costs more, page by page, than the cosines written into it.
    tile = np.empty((TILE, width))
    for terms in iter_terms(problem, sample):
        rows = len(terms.target)
        number = counts.sum() + np.arange(rows)
        fold = (number if labels is None else labels[number]) % folds
        order = np.argsort(fold, kind="stable")  # a fold's rows lie together, so that BLAS takes them as one matrix
        joint = _joint_features(primal, dual, jax.tree.map(lambda leaf, order=order: leaf[order], terms), tile[:rows])
        own = np.bincount(fold, minlength=folds)
        counts += own
        for gram, part in zip(grams, np.split(joint, np.cumsum(own)[:-1]), strict=True):
            _add_gram(gram, part)
    return [_statistics(int(count), gram, dual.size) for count, gram in zip(counts, grams, strict=True)]


def _joint_features(primal: FeatureMap, dual: FeatureMap, terms: Any, out: np.ndarray) -> np.ndarray:
    """(φ, g, t) side by side, one row a sample."""
    evaluate_features(dual, terms.context, out[:, : dual.size])
    moment_features(primal, terms.points, terms.weights, out[:, dual.size : -1])
    out[:, -1] = terms.target - terms.offset
    return out


def _add_gram(gram: np.ndarray, rows: np.ndarray) -> None:
    """gram += rowsᵀ rows in place, its lower triangle alone: half the work, and none for adding up."""
    if len(rows):  # BLAS counts by columns: a transpose of C-ordered rows is a view, and no copy is made
        blas.dsyrk(1.0, rows.T, beta=1.0, c=gram.T, overwrite_c=True)


def _statistics(count: int, gram: np.ndarray, dual: int) -> Statistics:
    """The blocks of Σ (φ, g, t)(φ, g, t)ᵀ, of which the lower triangle is there."""
    phi, g = slice(dual), slice(dual, -1)
    return Statistics(
        count, gram[g, phi].T.copy(), _mirrored(gram[phi, phi]), gram[-1, phi].copy(), _mirrored(gram[g, g]),
        gram[-1, g].copy(), float(gram[-1, -1]),
    )  # fmt: skip


def _mirrored(half: np.ndarray) -> np.ndarray:
    """The symmetric matrix with this lower triangle."""
    return np.tril(half) + np.tril(half, -1).T
