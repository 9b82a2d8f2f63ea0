"""What a feature map is, and its values in float64 NumPy, block by block."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dualembed.arrays import AnyArray, Floats

BLOCK = 2**16  # features made at one time: half a megabyte, so that what a feature map uses on the way stays in cache
AT_ONCE = 4096  # points of sets that are averaged over together


class FeatureMap(eqx.Module):
    """A feature map φ from points (n, d) to features (n, m)."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Coordinates of a point."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number m of features."""

    @property
    def free(self) -> float:
        """The share of the rows whose noise is left free, where something was taken out of the features before."""
        return 1.0

    @abstractmethod
    def __call__(self, xs: AnyArray) -> AnyArray:
        """The features of points.

        Parameters
        ----------
        xs : array of shape (n, d)
            Points; NumPy in, NumPy out, once the map's own numbers are NumPy's.

        Returns
        -------
        array of shape (n, m)
            Features.
        """

    def combined(self, xs: Floats, weights: Floats) -> Floats:
        """The functions with weights (p, m) at points (n, d), (n, p), in NumPy."""
        return np.asarray(self(xs)) @ weights.T

    def weighted(self, points: Floats, weights: Floats) -> Floats:
        """Σ_k weights_k φ(points_k), (n, m), of points (n, K, d) and weights (n, K), in NumPy."""
        count, width = points.shape[1:]
        features = np.asarray(self(points.reshape(-1, width))).reshape(len(points), count, -1)
        return weights * features[:, 0] if count == 1 else np.einsum("nk,nkm->nm", weights, features)

    def plain(self) -> FeatureMap:
        """Features that take less time, of which these are sums, as `from_plain` makes them."""
        return self

    def from_plain(self, values: Floats) -> Floats:
        """Sums (..., m) of features over points, from those (..., p) of the plain ones."""
        return values

    def plain_weights(self, weights: Floats) -> Floats:
        """The weights (k, p) that functions with weights (k, m) have in the plain ones."""
        return weights


def to_numpy(features: Any) -> Any:
    """The same features with float64 NumPy numbers, for products in BLAS."""
    return jax.tree.map(lambda leaf: np.asarray(leaf, dtype=np.float64) if _is_real(leaf) else leaf, features)


def _is_real(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray)) and np.issubdtype(leaf.dtype, np.floating)


def evaluate_features(features: FeatureMap, xs: Floats, out: Floats | None = None) -> Floats:
    """φ (n, r) at points xs (n, d) in float64, written into `out` where that is given."""
    out = np.empty((len(xs), features.size)) if out is None else out
    for rows in _blocks(features, len(xs), 1):
        with jax.enable_x64(True):  # a basis of the user's own may be written in JAX
            out[rows] = features(xs[rows])
    return out


def mean_features(features: FeatureMap, points: Floats) -> Floats:
    """The mean of φ over each of G sets of points (G, n, d) in float64, (G, m), some sets at a time."""
    plain = features.plain()
    sets, count, width = points.shape
    out = np.empty((sets, plain.size))
    step = max(AT_ONCE // max(count, 1), 1)
    for start in range(0, sets, step):
        some = points[start : start + step]
        values = evaluate_features(plain, some.reshape(-1, width))
        out[start : start + step] = values.reshape(len(some), count, -1).mean(axis=1)
    return features.from_plain(out)


def sum_features(features: FeatureMap, points: Floats, coefficients: Floats) -> Floats:
    """Σ coefficients_i φ(points_i) in float64, (m,), of points (n, d), some rows at a time."""
    plain, total = features.plain(), np.zeros(features.plain().size)
    for start in range(0, len(points), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        total += coefficients[some] @ evaluate_features(plain, points[some])
    return features.from_plain(total)


def evaluate_functions(features: FeatureMap, weights: Floats, xs: Floats) -> Floats:
    """The functions with weights (p, m) at points xs (n, d), (n, p) in float64, some rows at a time."""
    if len(weights) < features.size:  # functions are few to change, features of all points are not
        features, weights = features.plain(), features.plain_weights(weights)
    out = np.empty((len(xs), len(weights)))
    for rows in _blocks(features, len(xs), 1):
        with jax.enable_x64(True):  # a basis of the user's own may be written in JAX
            out[rows] = features.combined(xs[rows], weights)
    return out


def moment_features(features: FeatureMap, points: Floats, weights: Floats, out: Floats | None = None) -> Floats:
    """g = Σ_k weights_k ψ(points_k), (n, m), of points (n, K, d) in float64, written into `out` where that is given."""
    out = np.empty((len(points), features.size)) if out is None else out
    for rows in _blocks(features, len(points), points.shape[1]):
        with jax.enable_x64(True):
            out[rows] = features.weighted(points[rows], weights[rows])
    return out


def _blocks(features: FeatureMap, rows: int, count: int) -> Iterator[slice]:
    """Some rows at a time, of `count` points each."""
    step = max(512, BLOCK // max(features.size * count, 1))  # landmarks' features are products, which need some rows
    return (slice(start, start + step) for start in range(0, rows, step))
