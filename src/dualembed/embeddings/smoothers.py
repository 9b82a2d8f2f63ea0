"""Ridge regression as a linear map from values at the samples to values at queries, and the choice of its penalty."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dualembed import checks
from dualembed.embeddings.values import TILE, kernel_of
from dualembed.kernels import Gaussian, Kernel, median_bandwidth
from dualembed.spaces.base import Function, Layout
from dualembed.spaces.features import FeatureMap, evaluate_features, to_numpy
from dualembed.spaces.linear import LinearFunction, LinearSpace
from dualembed.spaces.nystrom import whitened
from dualembed.spaces.rkhs import KernelFunction

EXACT = 6000  # rows up to which a conditional embedding is computed exactly, at a cost of their cube
TARGETS = 100  # points of z whose kernel functions leave-one-out tries to predict
PENALTIES = np.logspace(-10, 1, 34)


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
        return cho_solve((self.factor, True), evaluate_features(self.features, xs).T).T @ self.design.T

    def apply(self, xs: np.ndarray, values: np.ndarray) -> np.ndarray:
        """weights(xs) @ values, in O(nm + m²)."""
        return evaluate_features(self.features, xs) @ self._coefficients(values)

    def function(self, values: np.ndarray) -> Function:
        """cᵀφ."""
        return LinearFunction(self.features, self._coefficients(values))

    def _coefficients(self, values: np.ndarray) -> np.ndarray:
        return cho_solve((self.factor, True), self.design.T @ values)


class LeaveOneOut:
    """The penalty by leave-one-out, once the smoother's decomposition is known."""

    def __init__(self, z: np.ndarray, scales: np.ndarray, kernel: Kernel | None, seed: int) -> None:
        self.z, self.scales, self.kernel, self.seed = z, scales, kernel, seed

    def __call__(self, left: np.ndarray, strengths: np.ndarray) -> float:
        """λ for the smoother D⁻¹ U diag(e / (e + nλ)) Uᵀ D, with U (n, r) and e given."""
        kernel = Gaussian(median_bandwidth(self.z)) if self.kernel is None else kernel_of("target_kernel", self.kernel)
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


def exact(
    kernel: Kernel, x: np.ndarray, scales: np.ndarray, penalty: float | None, *, choose: LeaveOneOut
) -> tuple[Smoother, float]:
    """(β by Cholesky over all rows, its penalty)."""
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
    return KernelSmoother(kernel, x, scales, _cholesky(gram, len(x), penalty)), float(penalty)


def low_rank(
    space: LinearSpace, x: np.ndarray, scales: np.ndarray, penalty: float | None, *, choose: LeaveOneOut
) -> tuple[Smoother, float]:
    """(β through the space's features, its penalty)."""
    space.check(x.shape[1])
    layout = Layout(x, steps=1, batch=1, per_sample=1, capacity=1)
    features = to_numpy(space.feature_map(jax.random.key(choose.seed), layout))
    design = scales[:, None] * evaluate_features(features, x)
    gram = design.T @ design
    if penalty is None:
        strengths, right = np.linalg.eigh(gram)
        kept = strengths > len(gram) * np.finfo(float).eps * strengths[-1]
        penalty = choose(design @ right[:, kept] / np.sqrt(strengths[kept]), strengths[kept])
    factor = _cholesky(gram, len(x), penalty)
    return FeatureSmoother(features, scales[:, None] * design, factor), float(penalty)


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
