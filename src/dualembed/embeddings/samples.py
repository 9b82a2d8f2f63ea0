"""Embeddings of samples, of a distribution and of pairs, and checks of what embeddings are given."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.kernels import Kernel

TILE = 1024  # rows of a Gram matrix held at one time
Values = Callable[[Floats], ArrayLike] | ArrayLike
"""A function of points (n, d), or its values (n,) or (n, p) there."""


class MeanEmbedding(eqx.Module):
    """The embedding of a distribution, μ = Σ_i weights_i k(points_i, ·).

    Called with points x, it gives the values μ(x).

    Parameters
    ----------
    kernel : Kernel
        Kernel k.
    points : array-like of shape (n,) or (n, d)
        The sample.
    weights : array-like of shape (n,), optional
        Weights of the points; by default 1/n.

    Examples
    --------
    >>> from dualembed.kernels import Gaussian
    >>> sample = MeanEmbedding(Gaussian(1.0), [0.0, 1.0, 2.0])
    >>> sample.expectation(lambda x: x[:, 0])
    1.0
    """

    kernel: Kernel
    points: Floats  # (n, d)
    weights: Floats  # (n,)

    def __init__(self, kernel: Kernel, points: ArrayLike, weights: ArrayLike | None = None) -> None:
        self.kernel, self.points = check_kernel("kernel", kernel), as_rows("points", points)
        kernel.check(self.points.shape[1])
        self.weights = as_weights(weights, len(self.points))

    def __call__(self, xs: ArrayLike) -> Floats:
        """Evaluate μ(x) = Σ_i w_i k(points_i, x).

        Parameters
        ----------
        xs : array-like of shape (m,) or (m, d)
            Points.

        Returns
        -------
        ndarray of shape (m,)
            The values.
        """
        xs = as_rows("xs", xs)
        tiles = [self.kernel.gram(xs[i : i + TILE], self.points) @ self.weights for i in range(0, len(xs), TILE)]
        return np.concatenate(tiles)

    def expectation(self, f: Values) -> float | Floats:
        """Evaluate the mean Σ_i w_i f(points_i), which for f of the RKHS is ⟨μ, f⟩.

        Parameters
        ----------
        f : callable or array-like
            A function of points (n, d), or its values (n,) or (n, p) at the points.

        Returns
        -------
        float or ndarray of shape (p,)
            The mean; p numbers where f has p values.
        """
        mean = self.weights @ evaluate("f", f, self.points)
        return float(mean) if mean.ndim == 0 else mean

    def inner(self, other: MeanEmbedding) -> float:
        """Evaluate the inner product ⟨μ, μ'⟩ = wᵀ K w'.

        Parameters
        ----------
        other : MeanEmbedding
            An embedding of the same kernel.

        Returns
        -------
        float
            The inner product.
        """
        checks.instance("what an embedding is compared with", other, MeanEmbedding)
        check_same_kernel(self.kernel, other.kernel)
        return float(other(self.points) @ self.weights)

    def norm2(self) -> float:
        """Evaluate the squared norm |μ|².

        Returns
        -------
        float
            The squared norm.
        """
        return self.inner(self)

    def distance(self, other: MeanEmbedding) -> float:
        """Evaluate the maximum mean discrepancy |μ - μ'|.

        It is the largest E_P f - E_Q f over |f| <= 1 for the two samples.

        Parameters
        ----------
        other : MeanEmbedding
            An embedding of the same kernel.

        Returns
        -------
        float
            The discrepancy.
        """
        across = self.inner(other)
        return max(self.norm2() + other.norm2() - 2 * across, 0.0) ** 0.5

    def unbiased_squared_distance(self, other: MeanEmbedding) -> float:
        """Evaluate the squared discrepancy without the pairs of a point and itself.

        It is 0 on average for equal distributions.

        Parameters
        ----------
        other : MeanEmbedding
            An embedding of the same kernel.

        Returns
        -------
        float
            The estimate, which may be negative.

        Raises
        ------
        InputError
            If a sample has fewer than 2 points whose weight is not 0.
        """
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
    """The embedding of pairs, C = Σ_i weights_i k(x_i, ·) ⊗ l(z_i, ·): their uncentred cross-covariance operator.

    Parameters
    ----------
    x_kernel : Kernel
        Kernel k.
    z_kernel : Kernel
        Kernel l.
    x : array-like of shape (n,) or (n, dx)
        First elements of the pairs.
    z : array-like of shape (n,) or (n, dz)
        Second elements.
    weights : array-like of shape (n,), optional
        Weights of the pairs; by default 1/n.

    Examples
    --------
    >>> from dualembed.kernels import Gaussian
    >>> pairs = JointEmbedding(Gaussian(1.0), Gaussian(1.0), [0.0, 1.0], [1.0, 3.0])
    >>> pairs.covariance(lambda x: x[:, 0], lambda z: z[:, 0])
    0.5
    """

    x: MeanEmbedding  # the two marginals, which share their weights
    z: MeanEmbedding

    def __init__(
        self, x_kernel: Kernel, z_kernel: Kernel, x: ArrayLike, z: ArrayLike, weights: ArrayLike | None = None
    ) -> None:
        self.x, self.z = MeanEmbedding(x_kernel, x, weights), MeanEmbedding(z_kernel, z, weights)
        check_equal_rows(x=self.x.points, z=self.z.points)

    def expectation(self, f: Values, g: Values) -> float:
        """Evaluate E[f(x) g(z)] = Σ_i w_i f(x_i) g(z_i) = ⟨f, C g⟩.

        Parameters
        ----------
        f : callable or array-like
            A function of points (n, d), or its values (n,) at the pairs' x.
        g : callable or array-like
            A function of points (n, d), or its values (n,) at the pairs' z.

        Returns
        -------
        float
            The mean of the product.
        """
        return float(self.x.weights @ (evaluate_scalar("f", f, self.x.points) * evaluate_scalar("g", g, self.z.points)))

    def covariance(self, f: Values, g: Values) -> float:
        """Evaluate E[f(x) g(z)] - E[f(x)] E[g(z)] under the weights.

        Parameters
        ----------
        f : callable or array-like
            A function of points (n, d), or its values (n,) at the pairs' x.
        g : callable or array-like
            A function of points (n, d), or its values (n,) at the pairs' z.

        Returns
        -------
        float
            The covariance.
        """
        values = evaluate_scalar("f", f, self.x.points), evaluate_scalar("g", g, self.z.points)
        return self.expectation(*values) - float(self.x.weights @ values[0]) * float(self.z.weights @ values[1])

    def inner(self, other: JointEmbedding) -> float:
        """Evaluate the inner product ⟨C, C'⟩ = Σ_ij w_i w'_j k(x_i, x'_j) l(z_i, z'_j).

        Parameters
        ----------
        other : JointEmbedding
            An embedding of the same kernels.

        Returns
        -------
        float
            The inner product.
        """
        checks.instance("what a joint embedding is compared with", other, JointEmbedding)
        check_same_kernel(self.x.kernel, other.x.kernel)
        check_same_kernel(self.z.kernel, other.z.kernel)
        total = 0.0
        for start in range(0, len(self.x.points), TILE):
            rows = slice(start, start + TILE)
            products = self.x.kernel.gram(self.x.points[rows], other.x.points)
            products = products * self.z.kernel.gram(self.z.points[rows], other.z.points)
            total += float(self.x.weights[rows] @ products @ other.x.weights)
        return total

    def dependence(self) -> float:
        """Evaluate |C - μ_x ⊗ μ_z|², the Hilbert-Schmidt independence criterion (HSIC) for weights that sum to 1.

        Returns
        -------
        float
            The criterion, 0 for independence.
        """
        across = float(self.x.weights @ (self.x(self.x.points) * self.z(self.z.points)))
        return self.inner(self) + self.x.norm2() * self.z.norm2() - 2 * across


def check_kernel(name: str, kernel: Kernel) -> Kernel:
    """The kernel as it is, refused unless it is one."""
    checks.instance(name, kernel, Kernel, "such as kernels.Gaussian(0.5)")
    return kernel


def as_rows(name: str, value: ArrayLike) -> Floats:
    """Points (n,) or (n, d) as float64 (n, d), checked."""
    checks.array(name, value, ndim=(1, 2))
    rows = np.asarray(value, dtype=np.float64)
    return rows[:, None] if rows.ndim == 1 else rows


def check_same_kernel(one: Kernel, other: Kernel) -> None:
    """Raise unless the two embeddings live in one RKHS: products between two have no meaning."""
    if not eqx.tree_equal(one, other):
        raise checks.InputError(f"embeddings of one kernel can be compared, not those of {one} and {other}")


def check_equal_rows(**columns: Floats) -> None:
    """Raise unless the columns have equally many rows."""
    rows = {name: len(column) for name, column in columns.items()}
    if len(set(rows.values())) > 1:
        raise checks.InputError(f"{' and '.join(rows)} need equally many rows, but have {rows}")


def as_weights(weights: ArrayLike | None, rows: int) -> Floats:
    """The weights (n,), 1/n where there are none."""
    if weights is None:
        return np.full(rows, 1.0 / rows)
    if checks.array("weights", weights, ndim=1).shape[0] != rows:
        raise checks.InputError(f"weights must have shape ({rows},), one for each point, but have {np.shape(weights)}")
    return np.asarray(weights, dtype=np.float64)


def as_importance_weights(weights: ArrayLike | None, rows: int) -> Floats:
    """Importance weights, none negative and not all zero."""
    given = as_weights(weights, rows)
    checks.not_negative("the least weight", float(given.min()))
    if not given.any():
        raise checks.InputError("all weights are 0; at least one sample must count")
    return given


def evaluate(name: str, f: Values, points: Floats) -> Floats:
    """f at the points, (n,) or (n, p) in float64."""
    given = f(points) if callable(f) else f
    checks.array(f"the values of {name}", given, ndim=(1, 2))
    values = np.asarray(given, dtype=np.float64)
    if len(values) != len(points):
        raise checks.InputError(f"{name} must have one value for each of {len(points)} points, but has {values.shape}")
    return values


def evaluate_scalar(name: str, f: Values, points: Floats) -> Floats:
    """f at the points, one number for each: (n,), or a column of them."""
    values = evaluate(name, f, points)
    if values.ndim == 2 and values.shape[1] > 1:
        raise checks.InputError(
            f"{name} must have one number at each point, but has {values.shape[1]}; give its coordinates one by one"
        )
    return values.reshape(len(points))
