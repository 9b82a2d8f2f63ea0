"""The few sums over the data from which every closed form follows; they add up over rows, streams and machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from scipy.linalg import blas

from dualembed import checks
from dualembed.problems.base import Problem
from dualembed.sources import Dataset, Sample
from dualembed.spaces.base import FeatureMap

TILE = 4096  # rows held as features at one time: 8 TILE (m + r) bytes
FEWEST = 64  # rows, to which fewer are padded before terms are made of them
BLOCK = 2**16  # features made at one time: half a megabyte, so that what a feature map uses on the way stays in cache


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
    primal, dual = on_host(primal), on_host(dual)
    width = dual.size + primal.size + 1
    grams = np.zeros((folds, width, width))
    counts = np.zeros(folds, dtype=int)
    labels = None if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1]
    # Made once: memory that is new for each tile costs more, page by page, than the cosines written into it.
    tile = np.empty((TILE, width))
    for terms in double_terms(problem, sample):
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
    features_at(dual, terms.context, out[:, : dual.size])
    moment_features(primal, terms, out[:, dual.size : -1])
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


def double_terms(problem: Problem, sample: Sample | None = None) -> Iterator[Any]:
    """The terms of the samples (by default the whole finite data set) in float64 NumPy, tile by tile."""
    if sample is None:
        if not isinstance(problem.source, Dataset):
            raise checks.InputError(
                "a closed form needs a finite data set; give sample, or use a Dataset as the source"
            )
        sample = problem.source.table
    rows = len(next(iter(sample.values())))
    for start in range(0, rows, TILE):
        tile = {name: np.asarray(column[start : start + TILE], dtype=np.float64) for name, column in sample.items()}
        with jax.enable_x64(True):
            yield terms_of(problem, tile)


def terms_of(problem: Problem, sample: Sample) -> Any:
    """The terms of float64 NumPy columns, as NumPy arrays; to be called under `jax.enable_x64(True)`.

    The rows are padded with copies of the first to 2^k or 3 · 2^k of them: for every new number of rows JAX would
    compile each operation of the terms again, and it never gives compiled code back.
    """
    rows = len(next(iter(sample.values())))
    power = max(FEWEST, 1 << (rows - 1).bit_length())
    size = 3 * power // 4 if power > FEWEST and rows <= 3 * power // 4 else power
    more = np.zeros(size - rows, dtype=int)
    padded = {name: jax.device_put(np.concatenate([column, column[more]])) for name, column in sample.items()}

    def own(leaf: Any) -> np.ndarray:
        found = np.asarray(leaf)
        return found[:rows] if found.shape[:1] == (size,) else found  # other shapes are for others to refuse

    return jax.tree.map(own, problem.terms(padded))


def on_host(features: Any) -> Any:
    """The same features with float64 NumPy numbers, for products in BLAS."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, dtype=np.float64) if _is_real(leaf) else leaf, features)


def _is_real(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray)) and np.issubdtype(leaf.dtype, np.floating)


def features_at(features: FeatureMap, xs: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """φ (n, r) at points xs (n, d) in float64, written into `out` where that is given."""
    out = np.empty((len(xs), features.size)) if out is None else out
    for rows, psi in _blocks(features, xs[:, None]):
        out[rows] = psi[:, 0]
    return out


def moment_features(features: FeatureMap, terms: Any, out: np.ndarray | None = None) -> np.ndarray:
    """g = Σ_k w_k ψ(p_k), (n, m), in float64, written into `out` where that is given."""
    out = np.empty((len(terms.points), features.size)) if out is None else out
    for rows, psi in _blocks(features, terms.points):
        if psi.shape[1] == 1:
            np.multiply(terms.weights[rows], psi[:, 0], out=out[rows])
        else:
            np.einsum("nk,nkm->nm", terms.weights[rows], psi, out=out[rows])
    return out


def _blocks(features: FeatureMap, points: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """(rows, features (b, K, m)) of points (n, K, d), a few rows at a time."""
    count, width = points.shape[1:]
    step = max(128, BLOCK // (features.size * count))  # landmarks' features are products, which need some rows
    for start in range(0, len(points), step):
        block = points[start : start + step]
        with jax.enable_x64(True):  # a basis of the user's own may be written in JAX
            psi = np.asarray(features(block.reshape(-1, width)))
        yield slice(start, start + len(block)), psi.reshape(len(block), count, -1)
