"""The few sums over the data from which every closed form follows; they add up over rows, streams and machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.problems.base import Problem
from dualembed.sources import Dataset, Sample
from dualembed.spaces.base import FeatureMap

TILE = 4096  # rows held as features at one time: 8 TILE (m + r) bytes


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


def gather(
    problem: Problem, primal: FeatureMap, dual: FeatureMap, *, sample: Sample | None = None, folds: int = 1
) -> list[Statistics]:
    """The statistics of each fold (row i is in fold i mod folds) in one pass of tiles over the samples."""
    primal, dual = on_host(primal), on_host(dual)
    found = [Statistics.empty(primal.size, dual.size) for _ in range(folds)]
    start = 0
    # NumPy's cosines and exponentials use one core; two threads make the features of both players at once.
    with ThreadPoolExecutor(2) as threads:
        for terms in double_terms(problem, sample):
            moments = threads.submit(_moment_features, primal, terms)
            phi = threads.submit(_features, dual, terms.context).result()
            g, t = moments.result(), terms.target - terms.offset
            for fold in range(folds):
                chosen = slice((fold - start) % folds, None, folds)
                found[fold] = found[fold] + _products(phi[chosen], g[chosen], t[chosen])
            start += len(t)
    return found


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
        with jax.enable_x64(True):
            tile = {name: jnp.asarray(column[start : start + TILE], dtype=float) for name, column in sample.items()}
            yield jax.tree.map(np.asarray, problem.terms(tile))


def on_host(features: FeatureMap) -> FeatureMap:
    """The same features with float64 NumPy numbers, for products in BLAS."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, dtype=np.float64) if _is_real(leaf) else leaf, features)


def _is_real(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray)) and np.issubdtype(leaf.dtype, np.floating)


def _features(features: FeatureMap, xs: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):  # a basis of the user's own may be written in JAX
        return np.asarray(features(xs))


def _moment_features(features: FeatureMap, terms: Any) -> np.ndarray:
    """g = Σ_k w_k ψ(p_k), (n, m)."""
    rows, count, width = terms.points.shape
    psi = _features(features, terms.points.reshape(rows * count, width)).reshape(rows, count, -1)
    return psi[:, 0] * terms.weights[:, :1] if count == 1 else np.einsum("nk,nkm->nm", terms.weights, psi)


def _products(phi: np.ndarray, g: np.ndarray, t: np.ndarray) -> Statistics:
    return Statistics(len(t), phi.T @ g, phi.T @ phi, phi.T @ t, g.T @ g, g.T @ t, float(t @ t))
