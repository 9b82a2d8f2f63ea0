"""The sample average: the loss of each single sample's moment, minimised over the whole data."""

from __future__ import annotations

from typing import Any, final

import equinox as eqx
import jax
import numpy as np

from dualembed import checks
from dualembed.kernels.base import check_single
from dualembed.linear.moments import pseudo_inverse
from dualembed.linear.sums import gather_moments
from dualembed.links import Direct
from dualembed.losses import Loss
from dualembed.problems.base import iter_terms
from dualembed.saddle import DualFunction, Saddle
from dualembed.solvers.base import Pair, Probe, Result, Solver, Trace
from dualembed.solvers.closed_form import check_penalties, number
from dualembed.solvers.newton import check_smooth
from dualembed.spaces.base import Layout
from dualembed.spaces.basis import BasisMap
from dualembed.spaces.features import FeatureMap, moment_features, to_numpy
from dualembed.spaces.linear import LinearFunction

HALVINGS = 40  # of a step, until it is given up


@final
class BatchSAA(Solver):
    """θ = argmin mean loss_y(gᵀθ + offset) + λ1/2 |θ|² with g = Σ_k w_k ψ(p_k): the empirical risk of single samples.

    It takes the loss of a one-sample mean for the loss of the conditional mean, and so pays for the moment's variance
    too: E[loss(m)] instead of E[loss(E[m | κ])]. With M draws for each x the excess falls like 1/M. The square loss is
    solved exactly, others by Newton's method with backtracking in float64, which holds 8 n (m + 2) bytes; it is done
    when the gradient is at most `tolerance` times rms |g| · rms loss'_y(offset). There is no dual: the saddle's is left
    aside and the result's is the zero function.

    In reinforcement learning this is Bellman residual minimisation, and `BRM` is its name there.

    >>> import jax.numpy as jnp
    >>> import dualembed as de
    >>> data = de.sources.Dataset(x=[0.0, 0.0], z=[1.0, 3.0], y=[2.0, 2.0])  # E[z | x] = 2: f(z) = z fits exactly
    >>> line = de.spaces.Basis(lambda z: z)
    >>> saddle = de.Saddle(de.problems.Invariance(data), line, line)
    >>> round(float(de.solve(0, saddle, BatchSAA()).primal([1.0])[0]), 4)  # (1 + 3) 2 / (1 + 9), biased
    0.8
    """

    tolerance: float | jax.Array = eqx.field(default=1e-10, converter=checks.real)
    steps: int = eqx.field(default=100, static=True)

    def __check_init__(self) -> None:
        checks.positive("tolerance", self.tolerance)
        check_single("tolerance", self.tolerance)
        checks.count("steps", self.steps)

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """The minimiser on the whole finite data set; a probe sees nothing, since the trace is that of the gradient."""
        check_smooth(saddle.loss)
        check_penalties("the sample average", saddle)
        features = primal_features(key, saddle)
        if saddle.loss.quadratic:
            theta, residuals = exact(saddle, features), [0.0]
        else:
            theta, residuals = descended(saddle, features, tolerance=float(self.tolerance), steps=self.steps)
        function = LinearFunction(features, theta)
        nothing = no_dual(saddle)
        rows = saddle.problem.source.rows  # type: ignore[attr-defined]  # a Dataset, by `check_penalties`
        taken = np.arange(len(residuals))
        trace = Trace(taken, taken * rows, residuals, residuals)
        finite = bool(np.all(np.isfinite(theta)))
        pair = Pair(function, nothing)
        return Result(function, nothing, trace, finite, pair, len(residuals) - 1, self._epilogue(residuals))

    def _epilogue(self, residuals: list[float]) -> str:
        """What went otherwise than planned; empty when nothing did."""
        if residuals[-1] <= float(self.tolerance):
            return ""
        return (
            f"the sample average stopped after {len(residuals) - 1} of {self.steps} steps at a relative gradient of "
            f"{residuals[-1]:.1e} instead of {float(self.tolerance):.1e}; raise primal_penalty, steps or tolerance"
        )


BRM = BatchSAA
"""Bellman residual minimisation: the sample average of a problem of reinforcement learning."""


def exact(saddle: Saddle, features: FeatureMap) -> np.ndarray:
    """(E[ggᵀ] + λ1)⁻¹ E[g (y - offset)], the minimiser for the square loss."""
    sums = gather_moments(saddle.problem, features, _constant(saddle))
    values, vectors = np.linalg.eigh(np.asarray(sums.primal) / sums.rows)
    inverse = pseudo_inverse(values, number(saddle.primal_penalty))
    return vectors @ (inverse * (vectors.T @ np.asarray(sums.primal_target)) / sums.rows)


def descended(saddle: Saddle, features: FeatureMap, *, tolerance: float, steps: int) -> tuple[np.ndarray, list[float]]:
    """(θ, relative gradients at the start and after each step) of Newton's method from zero."""
    risk = Risk(saddle, features)
    theta = np.zeros(features.size)
    gradient, curvature = risk.derivatives(theta)
    scale = max(risk.scale, np.finfo(float).tiny)
    residuals = [float(np.linalg.norm(gradient)) / scale]
    while residuals[-1] > tolerance and len(residuals) <= steps:
        moved = _moved(risk, theta, gradient, curvature=curvature)
        if moved is None:
            break
        theta = moved
        gradient, curvature = risk.derivatives(theta)
        residuals.append(float(np.linalg.norm(gradient)) / scale)
    return theta, residuals


class Risk:
    """mean loss_y(gᵀθ + offset) + λ1/2 |θ|² with its derivatives, in float64."""

    def __init__(self, saddle: Saddle, features: FeatureMap) -> None:
        tiles = list(iter_terms(saddle.problem))
        self.loss, self.penalty = saddle.loss, number(saddle.primal_penalty)
        self.g = np.concatenate([moment_features(to_numpy(features), terms.points, terms.weights) for terms in tiles])
        self.offset, self.target = (np.concatenate([getattr(t, name) for t in tiles]) for name in ("offset", "target"))
        self.bulk = float(np.mean(np.sum(self.g**2, axis=1)))
        _, slope, _ = self._rows(self.offset)
        self.scale = float(np.sqrt(self.bulk * np.mean(slope**2)))

    def value(self, theta: np.ndarray) -> float:
        """The risk at θ."""
        value, _, _ = self._rows(self.g @ theta + self.offset)
        return float(np.mean(value)) + self.penalty / 2 * float(theta @ theta)

    def derivatives(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Its gradient (m,) and second derivatives (m, m) at θ."""
        _, slope, curvature = self._rows(self.g @ theta + self.offset)
        rows = len(slope)
        second = (curvature[:, None] * self.g).T @ self.g / rows + self.penalty * np.eye(len(theta))
        return self.g.T @ slope / rows + self.penalty * theta, second

    def _rows(self, moment: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with jax.enable_x64(True):
            value, slope, curvature = _derivatives(self.loss, moment, self.target)
            return np.asarray(value), np.asarray(slope), np.asarray(curvature)


@jax.jit
def _derivatives(loss: Loss, v: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    return loss.value(v, y), loss.slope(v, y), loss.curvature(v, y)


def _moved(risk: Risk, theta: np.ndarray, gradient: np.ndarray, *, curvature: np.ndarray) -> np.ndarray | None:
    """θ after one step, halved until the risk falls, or none where no step lowers it."""
    values, vectors = np.linalg.eigh(curvature)
    # Huber's and the hinges' curvature vanishes far from the data's values; there the step is a gradient's.
    values = np.where(values > 1e-12 * risk.bulk, values, 1e-2 * risk.bulk)
    step = -vectors @ ((vectors.T @ gradient) / values)
    now, fall = risk.value(theta), float(gradient @ step)
    for halvings in range(HALVINGS):
        share = 0.5**halvings
        after = risk.value(theta + share * step)
        # Near the minimum the fall drowns in the rounding of the risk itself, and the full Newton step is right.
        if after <= now + 1e-4 * share * fall + 1e-15 * abs(now):  # NaN compares false
            return theta + share * step
    return None


def primal_features(key: jax.Array, saddle: Saddle) -> FeatureMap:
    """The primal's features placed on the data: those that `solvers.ClosedForm` has from the same key."""
    tiles = [terms.points.reshape(-1, terms.points.shape[-1]) for terms in iter_terms(saddle.problem)]
    points = np.concatenate(tiles)
    saddle.primal.check(points.shape[1])
    primal_key, _ = jax.random.split(key)
    return saddle.primal.feature_map(primal_key, Layout(points, steps=1, batch=1, per_sample=1, capacity=1))


def no_dual(saddle: Saddle) -> DualFunction:
    """The zero function of the context, for a method that has no dual."""
    return DualFunction(LinearFunction(_constant(saddle), np.zeros(1)), Direct(), saddle.loss)


def _constant(saddle: Saddle) -> BasisMap:
    """One feature of the context, which is 1."""
    terms = next(iter_terms(saddle.problem))
    return BasisMap(jax.tree_util.Partial(one), terms.context.shape[1], 1)


def one(contexts: Any) -> Any:
    """The one feature 1 (n, 1) of contexts (n, c)."""
    return 0 * contexts[:, :1] + 1
