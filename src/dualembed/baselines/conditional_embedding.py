"""Two steps with a conditional embedding: first p(z | x) as a regression in an RKHS, then f on what it predicts."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks, kernels
from dualembed.arrays import Floats
from dualembed.baselines.instrumental import sample_arrays
from dualembed.baselines.least_squares import Risk, loss_derivatives, newton_descent
from dualembed.links import Legendre
from dualembed.losses import Loss, Square
from dualembed.saddle import DualFunction
from dualembed.solvers.base import EarlyStopWarning, Pair, Result
from dualembed.solvers.newton import check_smooth
from dualembed.spaces.base import Layout
from dualembed.spaces.features import FeatureMap, evaluate_features, to_numpy
from dualembed.spaces.linear import LinearFunction
from dualembed.spaces.nystrom import Nystrom, whitened

PENALTIES = np.logspace(1, -9, 21)  # of f, falling, so that each solution starts the search for the next
EMBEDDING_PENALTIES = np.logspace(0, -8, 25)
TOLERANCE = 1e-10  # of the gradient, against what the rows could make of it at f = 0
NEWTON_STEPS = 100


@final
class ConditionalEmbeddingTwoStep(eqx.Module):
    """Two steps: embed p(z | x) by a regression in an RKHS, then fit f to what the embedding predicts.

        f = argmin mean loss_y(Σ_j β_j(x_i) f(z_j)) + λ/2 |f|²,   β(x) = (K + nμ)⁻¹ k(x)

    x is the context and z, (n, d) or M draws (n, M, d), what f is a function of, as in `problems.Invariance`. For
    instrumental variables the instrument is the context and the treatment the draw: their letters are swapped there,
    which is why `fit` asks for names. The square loss is solved exactly, other smooth ones by Newton's method, in
    float64. Up to `cap` points both steps are exact in their RKHS, in O(n³) time; beyond, each has `size` landmarks m,
    in O(n m²).

    The dual of the result is loss'_y(v(x)) with v(x) = Σ_j β_j(x) f(z_j): `result.dual.function` is v, the prediction
    of y.

    Parameters
    ----------
    kernel : Kernel, optional
        Kernel of f; by default Gaussian, with each coordinate's deviation times the median distance between the points
        so standardised for bandwidth.
    context_kernel : Kernel, optional
        Kernel of the context; by default Gaussian in the same way.
    loss : Loss, default=Square()
        A smooth loss.
    penalty : float, optional
        Penalty λ; by default that of PENALTIES with the least loss in cross-validation. A held-out y is predicted from
        the other held-out rows by an embedding of their own, so that f is judged at draws it has not seen: judged by
        the embedding it was fitted with, wild functions that average out there would pass.
    embedding_penalty : float, optional
        Penalty μ; by default that of EMBEDDING_PENALTIES with the least leave-one-out error of the first step in the
        RKHS of f.
    folds : int, default=5
        Folds of cross-validation.
    cap : int, default=1000
        Distinct points up to which both steps are exact.
    size : int, default=500
        Landmarks beyond that.
    seed : int, default=0
        Seeds folds and landmarks.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 100)
    >>> result = ConditionalEmbeddingTwoStep().fit(context=x, target=x**2, draws=x)
    >>> round(float(result.primal([0.5])[0]), 2)
    0.25
    """

    kernel: kernels.Kernel | None = None
    context_kernel: kernels.Kernel | None = None
    loss: Loss = eqx.field(default_factory=Square)
    penalty: float | None = eqx.field(default=None, converter=checks.real)
    embedding_penalty: float | None = eqx.field(default=None, converter=checks.real)
    folds: int = eqx.field(default=5, static=True)
    cap: int = eqx.field(default=1000, static=True)
    size: int = eqx.field(default=500, static=True)
    seed: int = eqx.field(default=0, static=True)

    def __check_init__(self) -> None:
        for name in ("kernel", "context_kernel"):
            checks.instance(name, getattr(self, name), (kernels.Kernel, type(None)), "such as kernels.Gaussian(0.5)")
        for name in ("penalty", "embedding_penalty"):
            if getattr(self, name) is not None:
                checks.positive(name, getattr(self, name), "leave it out to have it chosen by cross-validation")
                checks.single(name, getattr(self, name), hint="")
        checks.instance("loss", self.loss, Loss, "such as losses.Square()")
        check_smooth(self.loss)
        for name in ("folds", "cap", "size"):
            checks.count(name, getattr(self, name), at_least=2)
        checks.count("seed", self.seed, at_least=0)

    def fit(self, *, context: ArrayLike, target: ArrayLike, draws: ArrayLike) -> Result:
        """Fit f to samples.

        Parameters
        ----------
        context : array-like of shape (n,) or (n, dx)
            Contexts x.
        target : array-like of shape (n,)
            Targets y.
        draws : array-like of shape (n,), (n, dz) or (n, M, dz)
            One draw of z for each context, or M.

        Returns
        -------
        Result
            The function f as `primal`; its `record` has both penalties.

        Raises
        ------
        InputError
            If there are fewer than two rows a fold and no penalty is given.
        """
        x, y, z = sample_arrays(context=(context, (1, 2)), target=(target, (1,)), draws=(draws, (1, 2, 3)))
        x, z = x.reshape(len(x), -1), z if z.ndim == 3 else z.reshape(len(z), 1, -1)
        self.loss.check_targets(y)
        if self.penalty is None and len(y) < 2 * self.folds:
            raise checks.InputError(
                f"{self.folds}-fold cross-validation needs at least {2 * self.folds} rows, not {len(y)}; give a penalty"
            )
        on_x, on_z = self._features(self.context_kernel, x), self._features(self.kernel, z.reshape(-1, z.shape[-1]))
        phi = evaluate_features(on_x, x)
        psi = evaluate_features(on_z, z.reshape(-1, z.shape[-1])).reshape(*z.shape[:2], -1).mean(axis=1)
        embedding_penalty, penalty = self._penalties(phi, psi, y)
        operator = EmbeddingFirstStage(phi, psi).operator(embedding_penalty)
        (weights,), residual = second_stage(phi @ operator, y, self.loss, [penalty])
        primal, mean = LinearFunction(on_z, weights), LinearFunction(on_x, operator @ weights)
        dual = DualFunction(mean, Legendre(), self.loss)
        finite, message = bool(np.all(np.isfinite(weights))), _stop_message(residual)
        if message:
            warnings.warn(message, EarlyStopWarning, stacklevel=2)
        chosen = {"penalty": penalty, "embedding_penalty": embedding_penalty}
        return Result(primal, dual, None, finite, Pair(primal, dual), 1, message, record=chosen)

    def _features(self, kernel: kernels.Kernel | None, points: Floats) -> FeatureMap:
        """Orthonormal features: of the RKHS on all the points up to the cap, of landmarks beyond it."""
        kernel = median_kernel(points) if kernel is None else kernel
        kernel.check(points.shape[1])
        landmarks = np.unique(points, axis=0)
        if len(landmarks) > self.cap:
            layout = Layout(landmarks, steps=1, batch=1, per_sample=1, capacity=1)
            return to_numpy(Nystrom(kernel, self.size).feature_map(jax.random.key(self.seed), layout))
        features = to_numpy(whitened(kernel, landmarks))
        kept = np.any(features.whitener != 0, axis=0)  # directions lost to rounding are columns of zeros
        return eqx.tree_at(lambda each: each.whitener, features, features.whitener[:, kept])

    def _penalties(self, phi: Floats, psi: Floats, y: Floats) -> tuple[float, float]:
        """(μ, λ): what was given, the rest by leave-one-out and by cross-validation."""
        if self.embedding_penalty is None:
            stage = EmbeddingFirstStage(phi, psi)
            first = float(EMBEDDING_PENALTIES[np.argmin([stage.error(each) for each in EMBEDDING_PENALTIES])])
        else:
            first = float(self.embedding_penalty)
        if self.penalty is not None:
            return first, float(self.penalty)
        errors = np.zeros(len(PENALTIES))
        order = np.random.default_rng(self.seed).permutation(len(y))
        for held in np.array_split(order, self.folds):
            kept = np.setdiff1d(order, held)
            # By the representer theorem a fit in the span of all points is one in the span of the rows it sees.
            path, _ = second_stage(
                phi[kept] @ EmbeddingFirstStage(phi[kept], psi[kept]).operator(first), y[kept], self.loss, PENALTIES
            )
            predicted = EmbeddingFirstStage(phi[held], psi[held] @ np.asarray(path).T).leave_one_out(first)
            errors += np.sum(loss_derivatives(self.loss, predicted, y[held][:, None])[0], axis=0)
        return first, float(PENALTIES[np.nanargmin(errors)])


class EmbeddingFirstStage:
    """The regression of ψ(z) on φ(x), for every penalty from one eigendecomposition of ΦᵀΦ."""

    def __init__(self, phi: Floats, psi: Floats) -> None:
        values, self.vectors = np.linalg.eigh(phi.T @ phi)
        self.values, self.psi = np.maximum(values, 0.0), psi
        self.rotated = phi @ self.vectors
        self.cross = self.rotated.T @ psi

    def operator(self, penalty: float) -> Floats:
        """(ΦᵀΦ + nμ)⁻¹ ΦᵀΨ, (p, q): φ(x)ᵀ times it is the prediction of E[ψ(z) | x]."""
        return self.vectors @ (self.cross / (self.values + len(self.psi) * penalty)[:, None])

    def leave_one_out(self, penalty: float) -> Floats:
        """The prediction of each row from all others, (n, q): (fit - H_ii ψ_i) / (1 - H_ii)."""
        shrunk = 1 / (self.values + len(self.psi) * penalty)
        own = np.minimum(self.rotated**2 @ shrunk, 1 - np.finfo(float).eps)[:, None]
        return (self.rotated @ (shrunk[:, None] * self.cross) - own * self.psi) / (1 - own)

    def error(self, penalty: float) -> float:
        """The leave-one-out error Σ_i |ψ(z_i) - prediction|²."""
        return float(np.sum((self.psi - self.leave_one_out(penalty)) ** 2))


def second_stage(means: Floats, y: Floats, loss: Loss, penalties: Iterable[float]) -> tuple[list[Floats], float]:
    """argmin over w of mean loss_y(means w) + λ/2 |w|² for each λ, and the last one's relative gradient."""
    values, vectors = np.linalg.eigh(means.T @ means)
    # A smoothed embedding has few directions; along the others the penalty keeps w at 0.
    kept = values > 1e-15 * max(float(values[-1]), np.finfo(float).tiny)
    values, vectors = values[kept], vectors[:, kept]
    design = means @ vectors
    if loss.quadratic:
        pull = design.T @ y
        return [vectors @ (pull / (values + len(y) * each)) for each in penalties], 0.0
    path, start, residuals = [], np.zeros(len(values)), [0.0]
    for penalty in penalties:
        risk = Risk(loss, design, y, penalty=penalty)
        start, residuals = newton_descent(risk, start, tolerance=TOLERANCE, steps=NEWTON_STEPS)
        path.append(vectors @ start)
    return path, residuals[-1]


def median_kernel(points: Floats) -> kernels.Gaussian:
    """The Gaussian kernel of each coordinate's deviation times the median distance of standardised points."""
    scale = points.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return kernels.Gaussian(jnp.asarray(scale * kernels.median_bandwidth(points / scale)))


def _stop_message(residual: float) -> str:
    """What went otherwise than planned; empty when nothing did."""
    if residual <= 1e3 * TOLERANCE:
        return ""
    return (
        f"Newton's method in the second step stopped at a relative gradient of {residual:.1e} instead of "
        f"{TOLERANCE:.1e}; raise the penalty"
    )
