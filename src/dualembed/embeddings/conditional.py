"""Embeddings of conditional distributions: one ridge regression on x that serves every function of z."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.embeddings.samples import (
    TILE,
    MeanEmbedding,
    Values,
    as_importance_weights,
    as_rows,
    check_equal_rows,
    check_kernel,
    evaluate,
    evaluate_scalar,
)
from dualembed.kernels import Gaussian, Kernel, median_bandwidth
from dualembed.spaces.base import Function, Layout
from dualembed.spaces.features import FeatureMap, evaluate_features, to_numpy
from dualembed.spaces.linear import LinearFunction, LinearSpace
from dualembed.spaces.nystrom import whitened
from dualembed.spaces.rkhs import KernelFunction

EXACT = 6000  # rows up to which a conditional embedding is computed exactly, at a cost of their cube
TARGETS = 100  # points of z whose kernel functions leave-one-out tries to predict
PENALTIES = np.logspace(-10, 1, 34)


class ConditionalEmbedding(eqx.Module):
    """The embedding of a conditional distribution, from one ridge regression on x that serves every function of z.

        E[g(z) | x] ≈ Σ_i β_i(x) g(z_i)

    It is made by `fit`.

    Parameters
    ----------
    smoother : Smoother
        The map from values at the samples to their regression.
    z : ndarray of shape (n, dz)
        The samples' z.
    penalty : float
        The penalty λ of the regression.

    Examples
    --------
    >>> from dualembed.kernels import Gaussian
    >>> x = np.linspace(-1, 1, 200)
    >>> embedding = ConditionalEmbedding.fit(Gaussian(0.5), x, x + 1, penalty=1e-6)
    >>> np.round(embedding.expectation(lambda z: z[:, 0], [0.5]), 3).tolist()
    [1.5]
    """

    smoother: Smoother
    z: Floats  # (n, dz)
    penalty: float

    @staticmethod
    def fit(
        on: Kernel | LinearSpace,
        x: ArrayLike,
        z: ArrayLike,
        penalty: float | None = None,
        *,
        weights: ArrayLike | None = None,
        target_kernel: Kernel | None = None,
        seed: int = 0,
    ) -> ConditionalEmbedding:
        """Fit the embedding to pairs, exactly on a kernel of x or of low rank on a space of features.

        Kernel: β(x*) = (K + nλ)⁻¹ k(x, x*), by Cholesky in O(n³) time and 8n² bytes. Space (Nystrom or Fourier, of m
        features Φ): β(x*) = Φ (ΦᵀΦ + nλ)⁻¹ φ(x*), in O(n m²) and 8nm. Importance weights ρ_i make the regression a
        weighted one, D (DKD + nλ)⁻¹ D k(x, x*) with D = diag √ρ.

        Parameters
        ----------
        on : Kernel or LinearSpace
            What x is regressed on.
        x : array-like of shape (n,) or (n, dx)
            Conditions.
        z : array-like of shape (n,) or (n, dz)
            One draw for each condition.
        penalty : float, optional
            Penalty λ; by default the one of PENALTIES with the least leave-one-out error Σ_i ρ_i |ψ(z_i) -
            μ_{-i}(x_i)|², by the exact formula residual / (1 - H_ii) from one decomposition. What is predicted, ψ, are
            orthonormal features of z in the target kernel at 100 points of z drawn by the seed.
        weights : array-like of shape (n,), optional
            Importance weights ρ.
        target_kernel : Kernel, optional
            Kernel of z; by default Gaussian, of the median distance.
        seed : int, default=0
            Seeds landmarks, random features and the points of leave-one-out.

        Returns
        -------
        ConditionalEmbedding
            The embedding.

        Raises
        ------
        InputError
            If there are more than EXACT rows on a kernel, or the penalty is too small for rounding.
        """
        x, z = as_rows("x", x), as_rows("z", z)
        check_equal_rows(x=x, z=z)
        if penalty is not None:
            checks.positive("penalty", penalty, "leave it out to have it chosen by leave-one-out")
            checks.single("penalty", penalty, hint="")
        checks.count("seed", seed, at_least=0)
        scales = np.ones(len(x)) if weights is None else np.sqrt(as_importance_weights(weights, len(x)))
        choose = LeaveOneOut(z, scales, target_kernel, seed)
        if isinstance(on, LinearSpace):
            smoother, chosen = feature_smoother(on, x, scales, penalty, choose=choose)
            return ConditionalEmbedding(smoother, z, chosen)
        checks.instance("what x is regressed on", on, Kernel, "or a linear space, such as spaces.Nystrom(kernel, 300)")
        smoother, chosen = kernel_smoother(on, x, scales, penalty, choose=choose)
        return ConditionalEmbedding(smoother, z, chosen)

    def weights(self, xs: ArrayLike) -> Floats:
        """Evaluate the weights β(x*) of all samples.

        Parameters
        ----------
        xs : array-like of shape (m,) or (m, dx)
            Queries.

        Returns
        -------
        ndarray of shape (m, n)
            The weights.
        """
        return self.smoother.weights(as_rows("xs", xs))

    def expectation(self, g: Values, xs: ArrayLike) -> Floats:
        """Evaluate E[g(z) | x*] ≈ Σ_i β_i(x*) g(z_i).

        Parameters
        ----------
        g : callable or array-like
            A function of points (n, d), or its values (n,) or (n, p) at the samples' z.
        xs : array-like of shape (m,) or (m, dx)
            Queries.

        Returns
        -------
        ndarray of shape (m,) or (m, p)
            The conditional means.
        """
        return self.smoother.apply(as_rows("xs", xs), evaluate("g", g, self.z))

    def regression(self, g: Values) -> Function:
        """Make E[g(z) | x] a function of x that can be differentiated and compiled.

        Parameters
        ----------
        g : callable or array-like
            A function of points (n, d), or its values (n,) at the samples' z.

        Returns
        -------
        Function
            The function x -> Σ_i β_i(x) g(z_i).
        """
        return self.smoother.function(evaluate_scalar("g", g, self.z))

    def embedding(self, kernel: Kernel, x: ArrayLike) -> MeanEmbedding:
        """Evaluate μ(x*) for one x*, in the RKHS of a kernel on z.

        Parameters
        ----------
        kernel : Kernel
            Kernel on z.
        x : array-like of shape (dx,)
            One query.

        Returns
        -------
        MeanEmbedding
            The embedding of p(z | x*).
        """
        return MeanEmbedding(kernel, self.z, self.weights(np.atleast_1d(np.asarray(x, dtype=np.float64))[None])[0])

    def pushforward(self, kernel: Kernel, marginal: MeanEmbedding) -> MeanEmbedding:
        """Embed z where x follows a marginal, Σ_j w_j μ(x_j): the kernel sum rule.

        Parameters
        ----------
        kernel : Kernel
            Kernel on z.
        marginal : MeanEmbedding
            The distribution of x.

        Returns
        -------
        MeanEmbedding
            The embedding of z.
        """
        return MeanEmbedding(kernel, self.z, marginal.weights @ self.weights(marginal.points))

    def joint_expectation(self, f: Values, g: Values, marginal: MeanEmbedding) -> float:
        """Evaluate E[f(x) g(z)] where x follows a marginal, Σ_j w_j f(x_j) E[g | x_j]: the kernel chain rule.

        Parameters
        ----------
        f : callable or array-like
            A function of points (n, d), or its values (n,) at the marginal's points.
        g : callable or array-like
            A function of points (n, d), or its values (n,) at the samples' z.
        marginal : MeanEmbedding
            The distribution of x.

        Returns
        -------
        float
            The mean of the product.
        """
        values = evaluate_scalar("f", f, marginal.points)
        return float(marginal.weights @ (values * self.expectation(evaluate_scalar("g", g, self.z), marginal.points)))


class Smoother(eqx.Module):
    """A linear map from values at the samples to their regression at queries."""

    @abstractmethod
    def weights(self, xs: Floats) -> Floats:
        """Make the map a matrix.

        Parameters
        ----------
        xs : array-like of shape (m,) or (m, dx)
            Queries.

        Returns
        -------
        ndarray of shape (m, n)
            The matrix.
        """

    @abstractmethod
    def apply(self, xs: Floats, values: Floats) -> Floats:
        """Evaluate weights(xs) @ values, without making the matrix.

        Parameters
        ----------
        xs : array-like of shape (m,) or (m, dx)
            Queries.
        values : ndarray of shape (n,) or (n, p)
            Values at the samples.

        Returns
        -------
        ndarray of shape (m,) or (m, p)
            The regression at the queries.
        """

    @abstractmethod
    def function(self, values: Floats) -> Function:
        """Make xs -> weights(xs) @ values a function.

        Parameters
        ----------
        values : ndarray of shape (n,)
            Values at the samples.

        Returns
        -------
        Function
            The regression.
        """


class KernelSmoother(Smoother):
    """Kernel ridge regression, k(x*, x) D (DKD + nλ)⁻¹ D.

    Parameters
    ----------
    kernel : Kernel
        Kernel k.
    x : ndarray of shape (n, dx)
        The samples' x.
    scales : ndarray of shape (n,)
        The diagonal of D.
    factor : ndarray of shape (n, n)
        The lower Cholesky factor of DKD + nλ.
    """

    kernel: Kernel
    x: Floats
    scales: Floats  # the diagonal of D
    factor: Floats  # the lower Cholesky factor

    def weights(self, xs: Floats) -> Floats:
        """The map as a matrix (m, n)."""
        scaled = self.scales[:, None] * self.kernel.gram(self.x, xs)
        return (self.scales[:, None] * cho_solve((self.factor, True), scaled)).T

    def apply(self, xs: Floats, values: Floats) -> Floats:
        """weights(xs) @ values, in O(n² + mn)."""
        columns = self._coefficients(values)
        tiles = [self.kernel.gram(xs[i : i + TILE], self.x) @ columns for i in range(0, len(xs), TILE)]
        return np.concatenate(tiles)

    def function(self, values: Floats) -> Function:
        """Σ_i c_i k(x_i, ·)."""
        return KernelFunction(self.kernel, self.x, self._coefficients(values), tile=len(self.x))  # type: ignore[arg-type]

    def _coefficients(self, values: Floats) -> Floats:
        return _scale_rows(self.scales, cho_solve((self.factor, True), _scale_rows(self.scales, values)))


class FeatureSmoother(Smoother):
    """Ridge regression on features, φ(x*)ᵀ (ΦᵀD²Φ + nλ)⁻¹ ΦᵀD².

    Parameters
    ----------
    features : FeatureMap
        Features φ, m of them.
    design : ndarray of shape (n, m)
        The matrix D² Φ.
    factor : ndarray of shape (m, m)
        The lower Cholesky factor of ΦᵀD²Φ + nλ.
    """

    features: FeatureMap
    design: Floats  # D² Φ, (n, m)
    factor: Floats

    def weights(self, xs: Floats) -> Floats:
        """The map as a matrix (m, n)."""
        return cho_solve((self.factor, True), evaluate_features(self.features, xs).T).T @ self.design.T

    def apply(self, xs: Floats, values: Floats) -> Floats:
        """weights(xs) @ values, in O(nm + m²)."""
        return evaluate_features(self.features, xs) @ self._coefficients(values)

    def function(self, values: Floats) -> Function:
        """cᵀφ."""
        return LinearFunction(self.features, self._coefficients(values))

    def _coefficients(self, values: Floats) -> Floats:
        return cho_solve((self.factor, True), self.design.T @ values)


class LeaveOneOut:
    """The penalty by leave-one-out, once the smoother's decomposition is known."""

    def __init__(self, z: Floats, scales: Floats, kernel: Kernel | None, seed: int) -> None:
        self.z, self.scales, self.kernel, self.seed = z, scales, kernel, seed

    def __call__(self, left: Floats, strengths: Floats) -> float:
        """λ for the smoother D⁻¹ U diag(e / (e + nλ)) Uᵀ D, with U (n, r) and e given."""
        kernel = (
            Gaussian(median_bandwidth(self.z)) if self.kernel is None else check_kernel("target_kernel", self.kernel)
        )
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


def kernel_smoother(
    kernel: Kernel, x: Floats, scales: Floats, penalty: float | None, *, choose: LeaveOneOut
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


def feature_smoother(
    space: LinearSpace, x: Floats, scales: Floats, penalty: float | None, *, choose: LeaveOneOut
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


def _cholesky(gram: Floats, rows: int, penalty: float) -> Floats:
    """The lower factor of gram + rows · penalty."""
    shifted = gram.copy()
    shifted.flat[:: len(gram) + 1] += rows * penalty
    try:
        return np.tril(cho_factor(shifted, lower=True)[0])
    except LinAlgError:
        raise checks.InputError(
            f"penalty {penalty!r} is too small for {rows} rows: rounding makes the kernel matrix indefinite; raise it"
        ) from None


def _scale_rows(scales: Floats, values: Floats) -> Floats:
    return scales * values if values.ndim == 1 else scales[:, None] * values
