"""Embeddings of conditional distributions: one ridge regression on x that serves every function of z."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np

from dualembed import checks
from dualembed.embeddings.samples import MeanEmbedding
from dualembed.embeddings.smoothers import LeaveOneOut, Smoother, exact, low_rank
from dualembed.embeddings.values import Values, check_equal, importance_of, numbers_of, rows_of, values_of
from dualembed.kernels import Kernel
from dualembed.kernels.base import check_single
from dualembed.spaces.base import Function
from dualembed.spaces.linear import LinearSpace


class ConditionalEmbedding(eqx.Module):
    """E[g(z) | x] ≈ Σ_i β_i(x) g(z_i) for every g at once, from one ridge regression on x; made by `fit`.

    >>> from dualembed.kernels import Gaussian
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
        x, z = rows_of("x", x), rows_of("z", z)
        check_equal(x=x, z=z)
        if penalty is not None:
            checks.positive("penalty", penalty, "leave it out to have it chosen by leave-one-out")
            check_single("penalty", penalty)
        checks.count("seed", seed, at_least=0)
        scales = np.ones(len(x)) if weights is None else np.sqrt(importance_of(weights, len(x)))
        choose = LeaveOneOut(z, scales, target_kernel, seed)
        if isinstance(on, LinearSpace):
            smoother, chosen = low_rank(on, x, scales, penalty, choose=choose)
            return ConditionalEmbedding(smoother, z, chosen)
        checks.instance("what x is regressed on", on, Kernel, "or a linear space, such as spaces.Nystrom(kernel, 300)")
        smoother, chosen = exact(on, x, scales, penalty, choose=choose)
        return ConditionalEmbedding(smoother, z, chosen)

    def weights(self, xs: Any) -> np.ndarray:
        """β(x*), shape (m, n), for queries (m, dx)."""
        return self.smoother.weights(rows_of("xs", xs))

    def expectation(self, g: Values, xs: Any) -> np.ndarray:
        """Σ_i β_i(x*) g(z_i), shape (m,), for g a function or its values at z; (m, p) where it has p values."""
        return self.smoother.apply(rows_of("xs", xs), values_of("g", g, self.z))

    def regression(self, g: Values) -> Function:
        """x -> Σ_i β_i(x) g(z_i), for one g, as a function that can be differentiated and compiled."""
        return self.smoother.function(numbers_of("g", g, self.z))

    def embedding(self, kernel: Kernel, x: Any) -> MeanEmbedding:
        """μ(x*) for one x* (dx,), in the RKHS of a kernel on z."""
        return MeanEmbedding(kernel, self.z, self.weights(np.atleast_1d(np.asarray(x, dtype=np.float64))[None])[0])

    def pushforward(self, kernel: Kernel, marginal: MeanEmbedding) -> MeanEmbedding:
        """The embedding of z where x ~ marginal, Σ_j w_j μ(x_j): the kernel sum rule."""
        return MeanEmbedding(kernel, self.z, marginal.weights @ self.weights(marginal.points))

    def joint_expectation(self, f: Values, g: Values, marginal: MeanEmbedding) -> float:
        """E[f(x) g(z)] where x ~ marginal, Σ_j w_j f(x_j) E[g | x_j]: the kernel chain rule."""
        values = numbers_of("f", f, marginal.points)
        return float(marginal.weights @ (values * self.expectation(numbers_of("g", g, self.z), marginal.points)))
