"""Embeddings of samples as they are: of a distribution, and of the joint one of pairs."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np

from dualembed import checks
from dualembed.embeddings.values import (
    TILE,
    Values,
    check_equal,
    check_same,
    kernel_of,
    numbers_of,
    rows_of,
    values_of,
    weights_of,
)
from dualembed.kernels import Kernel


class MeanEmbedding(eqx.Module):
    """μ = Σ_i weights_i k(points_i, ·), by default with weights 1/n; called, it has the values μ(x).

    >>> from dualembed.kernels import Gaussian
    >>> sample = MeanEmbedding(Gaussian(1.0), [0.0, 1.0, 2.0])
    >>> sample.expectation(lambda x: x[:, 0])
    1.0
    """

    kernel: Kernel
    points: np.ndarray  # (n, d)
    weights: np.ndarray  # (n,)

    def __init__(self, kernel: Kernel, points: Any, weights: Any = None) -> None:
        self.kernel, self.points = kernel_of("kernel", kernel), rows_of("points", points)
        kernel.check(self.points.shape[1])
        self.weights = weights_of(weights, len(self.points))

    def __call__(self, xs: Any) -> np.ndarray:
        """Σ_i w_i k(points_i, x), shape (m,)."""
        xs = rows_of("xs", xs)
        tiles = [self.kernel.gram(xs[i : i + TILE], self.points) @ self.weights for i in range(0, len(xs), TILE)]
        return np.concatenate(tiles)

    def expectation(self, f: Values) -> Any:
        """Σ_i w_i f(points_i), which for f of the RKHS is ⟨μ, f⟩; (p,) numbers where f has p values."""
        mean = self.weights @ values_of("f", f, self.points)
        return float(mean) if mean.ndim == 0 else mean

    def inner(self, other: MeanEmbedding) -> float:
        """⟨μ, μ'⟩ = wᵀ K w', both of one kernel."""
        checks.instance("what an embedding is compared with", other, MeanEmbedding)
        check_same(self.kernel, other.kernel)
        return float(other(self.points) @ self.weights)

    def norm2(self) -> float:
        """|μ|²."""
        return self.inner(self)

    def distance(self, other: MeanEmbedding) -> float:
        """The maximum mean discrepancy |μ - μ'|, the largest E_P f - E_Q f over |f| <= 1 for the two samples."""
        across = self.inner(other)
        return max(self.norm2() + other.norm2() - 2 * across, 0.0) ** 0.5

    def unbiased_squared_distance(self, other: MeanEmbedding) -> float:
        """The squared discrepancy without the pairs of a point and itself, 0 on average for equal distributions."""
        across = self.inner(other)
        return self._apart() + other._apart() - 2 * across

    def _apart(self) -> float:
        """Σ_{i≠j} w_i w_j k_ij / Σ_{i≠j} w_i w_j."""
        own = self.weights**2
        pairs = float(np.sum(self.weights)) ** 2 - float(np.sum(own))
        if np.count_nonzero(self.weights) < 2 or not abs(pairs) > 1e-12 * float(np.sum(own)):
            raise checks.InputError(
                "an unbiased distance needs at least 2 points in each sample whose weight is not 0, but one sample has "
                f"the weights {self.weights[:5].tolist()}; use distance"
            )
        return (self.norm2() - float(own @ self.kernel.diagonal(self.points))) / pairs


class JointEmbedding(eqx.Module):
    """C = Σ_i weights_i k(x_i, ·) ⊗ l(z_i, ·), the uncentred cross-covariance operator of a sample of pairs.

    >>> from dualembed.kernels import Gaussian
    >>> pairs = JointEmbedding(Gaussian(1.0), Gaussian(1.0), [0.0, 1.0], [1.0, 3.0])
    >>> pairs.covariance(lambda x: x[:, 0], lambda z: z[:, 0])
    0.5
    """

    x: MeanEmbedding  # the two marginals, which share their weights
    z: MeanEmbedding

    def __init__(self, x_kernel: Kernel, z_kernel: Kernel, x: Any, z: Any, weights: Any = None) -> None:
        self.x, self.z = MeanEmbedding(x_kernel, x, weights), MeanEmbedding(z_kernel, z, weights)
        check_equal(x=self.x.points, z=self.z.points)

    def expectation(self, f: Values, g: Values) -> float:
        """Σ_i w_i f(x_i) g(z_i) = ⟨f, C g⟩."""
        return float(self.x.weights @ (numbers_of("f", f, self.x.points) * numbers_of("g", g, self.z.points)))

    def covariance(self, f: Values, g: Values) -> float:
        """E[f(x) g(z)] - E[f(x)] E[g(z)] under the weights."""
        values = numbers_of("f", f, self.x.points), numbers_of("g", g, self.z.points)
        return self.expectation(*values) - self.x.expectation(values[0]) * self.z.expectation(values[1])

    def inner(self, other: JointEmbedding) -> float:
        """⟨C, C'⟩ = Σ_ij w_i w'_j k(x_i, x'_j) l(z_i, z'_j), both of one pair of kernels."""
        checks.instance("what a joint embedding is compared with", other, JointEmbedding)
        check_same(self.x.kernel, other.x.kernel)
        check_same(self.z.kernel, other.z.kernel)
        total = 0.0
        for start in range(0, len(self.x.points), TILE):
            rows = slice(start, start + TILE)
            products = self.x.kernel.gram(self.x.points[rows], other.x.points)
            products = products * self.z.kernel.gram(self.z.points[rows], other.z.points)
            total += float(self.x.weights[rows] @ products @ other.x.weights)
        return total

    def dependence(self) -> float:
        """|C - μ_x ⊗ μ_z|², the Hilbert-Schmidt independence criterion (HSIC) for weights that sum to 1."""
        across = float(self.x.weights @ (self.x(self.x.points) * self.z(self.z.points)))
        return self.inner(self) + self.x.norm2() * self.z.norm2() - 2 * across
