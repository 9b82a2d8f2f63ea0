"""Distributions as points of an RKHS, from samples: mean, joint and conditional embeddings, all in float64.

    μ_P = E k(z, ·) ≈ Σ_i w_i k(z_i, ·)            ⟨μ_P, f⟩ = E f(z)
    C   = E k(x, ·) ⊗ l(z, ·)                      ⟨f, C g⟩ = E f(x) g(z)
    μ(x) = E[l(z, ·) | x] ≈ Σ_i β_i(x) l(z_i, ·)   ⟨μ(x), g⟩ = E[g(z) | x]

Smola, Gretton, Song and Schölkopf (2007); Song, Fukumizu and Gretton (2013).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dualembed import checks
from dualembed.kernels import Gaussian, Kernel, median_bandwidth
from dualembed.kernels.arrays import check_single
from dualembed.solvers.statistics import features_at, on_host
from dualembed.spaces.base import FeatureMap, Function, Layout
from dualembed.spaces.linear import LinearFunction, LinearSpace
from dualembed.spaces.nystrom import whitened
from dualembed.spaces.rkhs import KernelFunction

EXACT = 6000  # rows up to which a conditional embedding is computed exactly, at a cost of their cube
TARGETS = 100  # points of z whose kernel functions leave-one-out tries to predict
PENALTIES = np.logspace(-10, 1, 34)
TILE = 1024  # rows of a Gram matrix held at one time

Values = Callable[[np.ndarray], Any] | Any
"""A function of points (n, d), or its values (n,) or (n, p) there."""


class MeanEmbedding(eqx.Module):
    """μ = Σ_i weights_i k(points_i, ·), by default with weights 1/n; called, it has the values μ(x).

    >>> sample = MeanEmbedding(Gaussian(1.0), [0.0, 1.0, 2.0])
    >>> sample.expectation(lambda x: x[:, 0])
    1.0
    """

    kernel: Kernel
    points: np.ndarray  # (n, d)
    weights: np.ndarray  # (n,)

    def __init__(self, kernel: Kernel, points: Any, weights: Any = None) -> None:
        self.kernel, self.points = _kernel("kernel", kernel), _rows("points", points)
        kernel.check(self.points.shape[1])
        self.weights = _weights(weights, len(self.points))

    def __call__(self, xs: Any) -> np.ndarray:
        """Σ_i w_i k(points_i, x), shape (m,)."""
        xs = _rows("xs", xs)
        tiles = [self.kernel.gram(xs[i : i + TILE], self.points) @ self.weights for i in range(0, len(xs), TILE)]
        return np.concatenate(tiles)

    def expectation(self, f: Values) -> Any:
        """Σ_i w_i f(points_i), which for f of the RKHS is ⟨μ, f⟩; (p,) numbers where f has p values."""
        mean = self.weights @ _values("f", f, self.points)
        return float(mean) if mean.ndim == 0 else mean

    def inner(self, other: MeanEmbedding) -> float:
        """⟨μ, μ'⟩ = wᵀ K w', both of one kernel."""
        checks.instance("what an embedding is compared with", other, MeanEmbedding)
        _check_same(self.kernel, other.kernel)
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

    >>> pairs = JointEmbedding(Gaussian(1.0), Gaussian(1.0), [0.0, 1.0], [1.0, 3.0])
    >>> pairs.covariance(lambda x: x[:, 0], lambda z: z[:, 0])
    0.5
    """

    x: MeanEmbedding  # the two marginals, which share their weights
    z: MeanEmbedding

    def __init__(self, x_kernel: Kernel, z_kernel: Kernel, x: Any, z: Any, weights: Any = None) -> None:
        self.x, self.z = MeanEmbedding(x_kernel, x, weights), MeanEmbedding(z_kernel, z, weights)
        _check_equal(x=self.x.points, z=self.z.points)

    def expectation(self, f: Values, g: Values) -> float:
        """Σ_i w_i f(x_i) g(z_i) = ⟨f, C g⟩."""
        return float(self.x.weights @ (_numbers("f", f, self.x.points) * _numbers("g", g, self.z.points)))

    def covariance(self, f: Values, g: Values) -> float:
        """E[f(x) g(z)] - E[f(x)] E[g(z)] under the weights."""
        values = _numbers("f", f, self.x.points), _numbers("g", g, self.z.points)
        return self.expectation(*values) - self.x.expectation(values[0]) * self.z.expectation(values[1])

    def inner(self, other: JointEmbedding) -> float:
        """⟨C, C'⟩ = Σ_ij w_i w'_j k(x_i, x'_j) l(z_i, z'_j), both of one pair of kernels."""
        checks.instance("what a joint embedding is compared with", other, JointEmbedding)
        _check_same(self.x.kernel, other.x.kernel)
        _check_same(self.z.kernel, other.z.kernel)
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


class ConditionalEmbedding(eqx.Module):
    """E[g(z) | x] ≈ Σ_i β_i(x) g(z_i) for every g at once, from one ridge regression on x; made by `fit`.

    >>> x = np.linspace(-1, 1, 200)
    >>> fitted = ConditionalEmbedding.fit(Gaussian(0.5), x, x + 1, penalty=1e-6)
    >>> np.round(fitted.expectation(lambda z: z[:, 0], [0.5]), 3).tolist()
    [1.5]
    """

    smoother: Smoother
    z: np.ndarray  # (n, dz)
    penalty: float

    @staticmethod
    def fit(
        on: Kernel | LinearSpace,
        x: Any,
        z: Any,
        penalty: float | None = None,
        *,
        weights: Any = None,
        target_kernel: Kernel | None = None,
        seed: int = 0,
    ) -> ConditionalEmbedding:
        """The embedding from pairs x (n, dx), z (n, dz), exact on a kernel of x or of low rank on a space of features.

        Kernel: β(x*) = (K + nλ)⁻¹ k(x, x*), by Cholesky in O(n³) time and 8n² bytes. Space (Nystrom or Fourier, of m
        features Φ): β(x*) = Φ (ΦᵀΦ + nλ)⁻¹ φ(x*), in O(n m²) and 8nm. Importance weights ρ_i make the regression a
        weighted one, D (DKD + nλ)⁻¹ D k(x, x*) with D = diag √ρ.

        A penalty λ that is not given is the one of PENALTIES with the least leave-one-out error
        Σ_i ρ_i |ψ(z_i) - μ_{-i}(x_i)|², by the exact formula residual / (1 - H_ii) from one decomposition. What is
        predicted, ψ, are orthonormal features of z in the target kernel (by default Gaussian, of the median distance)
        at 100 points of z drawn by the seed.
        """
        x, z = _rows("x", x), _rows("z", z)
        _check_equal(x=x, z=z)
        if penalty is not None:
            checks.positive("penalty", penalty, "leave it out to have it chosen by leave-one-out")
            check_single("penalty", penalty)
        checks.count("seed", seed, at_least=0)
        scales = np.ones(len(x)) if weights is None else np.sqrt(_importance(weights, len(x)))
        choose = _Choice(z, scales, target_kernel, seed)
        if isinstance(on, LinearSpace):
            return _low_rank(on, x, scales, penalty, choose=choose)
        checks.instance("what x is regressed on", on, Kernel, "or a linear space, such as spaces.Nystrom(kernel, 300)")
        return _exact(on, x, scales, penalty, choose=choose)

    def weights(self, xs: Any) -> np.ndarray:
        """β(x*), shape (m, n), for queries (m, dx)."""
        return self.smoother.weights(_rows("xs", xs))

    def expectation(self, g: Values, xs: Any) -> np.ndarray:
        """Σ_i β_i(x*) g(z_i), shape (m,), for g a function or its values at z; (m, p) where it has p values."""
        return self.smoother.apply(_rows("xs", xs), _values("g", g, self.z))

    def regression(self, g: Values) -> Function:
        """x -> Σ_i β_i(x) g(z_i), for one g, as a function that can be differentiated and compiled."""
        return self.smoother.function(_numbers("g", g, self.z))

    def embedding(self, kernel: Kernel, x: Any) -> MeanEmbedding:
        """μ(x*) for one x* (dx,), in the RKHS of a kernel on z."""
        return MeanEmbedding(kernel, self.z, self.weights(np.atleast_1d(np.asarray(x, dtype=np.float64))[None])[0])

    def pushforward(self, kernel: Kernel, marginal: MeanEmbedding) -> MeanEmbedding:
        """The embedding of z where x ~ marginal, Σ_j w_j μ(x_j): the kernel sum rule."""
        return MeanEmbedding(kernel, self.z, marginal.weights @ self.weights(marginal.points))

    def joint_expectation(self, f: Values, g: Values, marginal: MeanEmbedding) -> float:
        """E[f(x) g(z)] where x ~ marginal, Σ_j w_j f(x_j) E[g | x_j]: the kernel chain rule."""
        values = _numbers("f", f, marginal.points)
        return float(marginal.weights @ (values * self.expectation(_numbers("g", g, self.z), marginal.points)))


class Smoother(eqx.Module):
    """A linear map from values at the samples to their regression at queries."""

    @abstractmethod
    def weights(self, xs: np.ndarray) -> np.ndarray:
        """The map as a matrix (m, n)."""

    @abstractmethod
    def apply(self, xs: np.ndarray, values: np.ndarray) -> np.ndarray:
        """weights(xs) @ values, without making the matrix."""

    @abstractmethod
    def function(self, values: np.ndarray) -> Function:
        """xs -> weights(xs) @ values, for values (n,)."""


class KernelSmoother(Smoother):
    """k(x*, x) D (DKD + nλ)⁻¹ D."""

    kernel: Kernel
    x: np.ndarray
    scales: np.ndarray  # the diagonal of D
    factor: np.ndarray  # the lower Cholesky factor

    def weights(self, xs: np.ndarray) -> np.ndarray:
        """The map as a matrix (m, n)."""
        scaled = self.scales[:, None] * self.kernel.gram(self.x, xs)
        return (self.scales[:, None] * cho_solve((self.factor, True), scaled)).T

    def apply(self, xs: np.ndarray, values: np.ndarray) -> np.ndarray:
        """weights(xs) @ values, in O(n² + mn)."""
        columns = self._coefficients(values)
        tiles = [self.kernel.gram(xs[i : i + TILE], self.x) @ columns for i in range(0, len(xs), TILE)]
        return np.concatenate(tiles)

    def function(self, values: np.ndarray) -> Function:
        """Σ_i c_i k(x_i, ·)."""
        return KernelFunction(self.kernel, self.x, self._coefficients(values), tile=len(self.x))  # type: ignore[arg-type]

    def _coefficients(self, values: np.ndarray) -> np.ndarray:
        return _scaled(self.scales, cho_solve((self.factor, True), _scaled(self.scales, values)))


class FeatureSmoother(Smoother):
    """φ(x*)ᵀ (ΦᵀD²Φ + nλ)⁻¹ ΦᵀD²."""

    features: FeatureMap
    design: np.ndarray  # D² Φ, (n, m)
    factor: np.ndarray

    def weights(self, xs: np.ndarray) -> np.ndarray:
        """The map as a matrix (m, n)."""
        return cho_solve((self.factor, True), features_at(self.features, xs).T).T @ self.design.T

    def apply(self, xs: np.ndarray, values: np.ndarray) -> np.ndarray:
        """weights(xs) @ values, in O(nm + m²)."""
        return features_at(self.features, xs) @ self._coefficients(values)

    def function(self, values: np.ndarray) -> Function:
        """cᵀφ."""
        return LinearFunction(self.features, self._coefficients(values))

    def _coefficients(self, values: np.ndarray) -> np.ndarray:
        return cho_solve((self.factor, True), self.design.T @ values)


class _Choice:
    """The penalty by leave-one-out, once the smoother's decomposition is known."""

    def __init__(self, z: np.ndarray, scales: np.ndarray, kernel: Kernel | None, seed: int) -> None:
        self.z, self.scales, self.kernel, self.seed = z, scales, kernel, seed

    def __call__(self, left: np.ndarray, strengths: np.ndarray) -> float:
        """λ for the smoother D⁻¹ U diag(e / (e + nλ)) Uᵀ D, with U (n, r) and e given."""
        kernel = Gaussian(median_bandwidth(self.z)) if self.kernel is None else _kernel("target_kernel", self.kernel)
        chosen = np.random.default_rng(self.seed).permutation(len(self.z))[:TARGETS]
        targets = self.scales[:, None] * whitened(kernel, np.unique(self.z[chosen], axis=0))(self.z)
        rotated, squares = left.T @ targets, left**2
        outside, missing = targets - left @ rotated, np.maximum(1 - squares.sum(axis=1), 0.0)

        def error(penalty: float) -> float:
            # 1 - e/(e + nλ) written so that it keeps its digits where it is small.
            kept = len(left) * penalty / (strengths + len(left) * penalty)
            residual = outside + left @ (kept[:, None] * rotated)
            leverage = np.maximum(missing + squares @ kept, np.finfo(float).eps)
            return float(np.sum((residual / leverage[:, None]) ** 2))

        return float(PENALTIES[int(np.argmin([error(each) for each in PENALTIES]))])


def _exact(
    kernel: Kernel, x: np.ndarray, scales: np.ndarray, penalty: float | None, *, choose: _Choice
) -> ConditionalEmbedding:
    """β by Cholesky over all rows."""
    if len(x) > EXACT:
        raise checks.InputError(
            f"an exact conditional embedding of {len(x)} rows costs their cube; beyond {EXACT} give a space of "
            "features, such as spaces.Nystrom(kernel, 500)"
        )
    kernel.check(x.shape[1])
    gram = np.asarray(kernel.gram(x, x), dtype=np.float64) * scales[:, None] * scales
    if penalty is None:
        strengths, left = np.linalg.eigh(gram)
        penalty = choose(left, np.maximum(strengths, 0.0))
    return ConditionalEmbedding(
        KernelSmoother(kernel, x, scales, _cholesky(gram, len(x), penalty)), choose.z, float(penalty)
    )


def _low_rank(
    space: LinearSpace, x: np.ndarray, scales: np.ndarray, penalty: float | None, *, choose: _Choice
) -> ConditionalEmbedding:
    """β through the space's features."""
    space.check(x.shape[1])
    layout = Layout(x, steps=1, batch=1, per_sample=1, capacity=1)
    features = on_host(space.feature_map(jax.random.key(choose.seed), layout))
    design = scales[:, None] * features_at(features, x)
    gram = design.T @ design
    if penalty is None:
        strengths, right = np.linalg.eigh(gram)
        kept = strengths > len(gram) * np.finfo(float).eps * strengths[-1]
        penalty = choose(design @ right[:, kept] / np.sqrt(strengths[kept]), strengths[kept])
    factor = _cholesky(gram, len(x), penalty)
    return ConditionalEmbedding(FeatureSmoother(features, scales[:, None] * design, factor), choose.z, float(penalty))


def _cholesky(gram: np.ndarray, rows: int, penalty: float) -> np.ndarray:
    """The lower factor of gram + rows · penalty."""
    shifted = gram.copy()
    shifted.flat[:: len(gram) + 1] += rows * penalty
    try:
        return np.tril(cho_factor(shifted, lower=True)[0])
    except LinAlgError:
        raise checks.InputError(
            f"penalty {penalty!r} is too small for {rows} rows: rounding makes the kernel matrix indefinite; raise it"
        ) from None


def _scaled(scales: np.ndarray, values: np.ndarray) -> np.ndarray:
    return scales * values if values.ndim == 1 else scales[:, None] * values


def _kernel(name: str, kernel: Any) -> Kernel:
    checks.instance(name, kernel, Kernel, "such as kernels.Gaussian(0.5)")
    return kernel


def _rows(name: str, value: Any) -> np.ndarray:
    """Points (n,) or (n, d) as float64 (n, d), checked."""
    checks.array(name, value, ndim=(1, 2))
    rows = np.asarray(value, dtype=np.float64)
    return rows[:, None] if rows.ndim == 1 else rows


def _check_same(one: Kernel, other: Kernel) -> None:
    """Raise unless the two embeddings live in one RKHS: products between two have no meaning."""
    if not eqx.tree_equal(one, other):
        raise checks.InputError(f"embeddings of one kernel can be compared, not those of {one} and {other}")


def _check_equal(**columns: np.ndarray) -> None:
    rows = {name: len(column) for name, column in columns.items()}
    if len(set(rows.values())) > 1:
        raise checks.InputError(f"{' and '.join(rows)} need equally many rows, but have {rows}")


def _weights(weights: Any, rows: int) -> np.ndarray:
    """The weights (n,), 1/n where there are none."""
    if weights is None:
        return np.full(rows, 1.0 / rows)
    if checks.array("weights", weights, ndim=1).shape[0] != rows:
        raise checks.InputError(f"weights must have shape ({rows},), one for each point, but have {np.shape(weights)}")
    return np.asarray(weights, dtype=np.float64)


def _importance(weights: Any, rows: int) -> np.ndarray:
    """Importance weights, none negative and not all zero."""
    given = _weights(weights, rows)
    checks.not_negative("the least weight", float(given.min()))
    if not given.any():
        raise checks.InputError("all weights are 0; at least one sample must count")
    return given


def _values(name: str, f: Values, points: np.ndarray) -> np.ndarray:
    """f at the points, (n,) or (n, p) in float64."""
    given = f(points) if callable(f) else f
    checks.array(f"the values of {name}", given, ndim=(1, 2))
    values = np.asarray(given, dtype=np.float64)
    if len(values) != len(points):
        raise checks.InputError(f"{name} must have one value for each of {len(points)} points, but has {values.shape}")
    return values


def _numbers(name: str, f: Values, points: np.ndarray) -> np.ndarray:
    """f at the points, one number for each: (n,), or a column of them."""
    values = _values(name, f, points)
    if values.ndim == 2 and values.shape[1] > 1:
        raise checks.InputError(
            f"{name} must have one number at each point, but has {values.shape[1]}; give its coordinates one by one"
        )
    return values.reshape(len(points))
