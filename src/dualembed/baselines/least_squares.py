"""Methods that solve for all the data at once: LSTD, the kernel Bellman loss, the sample average.

Least-squares temporal differences are by Bradtke and Barto (1996); the kernel Bellman loss, all products of two
samples' moments weighted by a kernel, is by Feng, Li and Liu (2019); the sample average minimises the loss of each
single sample's moment.
"""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax
import numpy as np

from dualembed import checks
from dualembed.arrays import AnyArray, Floats
from dualembed.linear.sums import gather, gather_moments
from dualembed.linear.system import pseudo_inverse
from dualembed.links import Direct
from dualembed.losses import Loss
from dualembed.problems.base import Terms, finite_data, iter_terms
from dualembed.saddle import DualFunction, Saddle
from dualembed.solvers.base import Pair, Probe, Result, Solver, Trace
from dualembed.solvers.closed_form import check, check_penalties, feature_maps, penalty_value
from dualembed.solvers.newton import check_smooth
from dualembed.sources import Sample
from dualembed.spaces.base import Layout
from dualembed.spaces.basis import BasisMap
from dualembed.spaces.features import FeatureMap, evaluate_features, moment_features, to_numpy
from dualembed.spaces.linear import LinearFunction

HALVINGS = 40  # of a step, until it is given up


@final
class LSTD(Solver):
    """Least-squares temporal differences (Bradtke and Barto 1996).

        θ = (A + (ridge + λ1) I)⁻¹ b,   A = E[φ(κ) gᵀ],   b = E[φ(κ) (y - offset)],   g = Σ_k w_k φ(p_k)

    φ are the primal's features. For policy evaluation A = E[ρ φ(s) (φ(s) - γ φ(s'))ᵀ] and b = E[ρ φ(s) r]: the moment
    is made orthogonal to φ itself, which is the fixed point of TD(0). It serves every problem whose context is its
    first point, action values among them. There is no dual: the saddle's is not used, and the result's is the zero
    function.

    Parameters
    ----------
    ridge : float, default=0.0
        Added to the diagonal of A, besides the saddle's primal penalty.
    weighted : bool, default=True
        Whether the column `weight`, the importance weights, is used. Without it this is plain LSTD, which off-policy
        evaluates neither policy.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import dualembed as de
    >>> chain = de.sources.Dataset(state=[0, 1], reward=[0.0, 1.0], next_state=[1, 1])
    >>> table = de.spaces.Basis(lambda s: jnp.concatenate([1 - s, s], axis=1))
    >>> saddle = de.Saddle(de.problems.PolicyEvaluation(chain, 0.5), table, table)
    >>> [round(float(value), 6) for value in de.solve(0, saddle, LSTD()).primal([0, 1])]
    [1.0, 2.0]
    """

    ridge: float | jax.Array = eqx.field(default=0.0, converter=checks.real)
    weighted: bool = eqx.field(default=True, static=True)

    def __check_init__(self) -> None:
        checks.not_negative("ridge", self.ridge)
        checks.single("ridge", self.ridge, hint="")
        checks.instance("weighted", self.weighted, bool)

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """The solution on the whole finite data set, in float64; nothing is iterated, so that a probe sees nothing."""
        check(saddle)
        sample = self._sample(saddle)
        for terms in iter_terms(saddle.problem, sample):
            check_first_point("LSTD", terms)
        features = primal_features(key, saddle)
        rows = finite_data(saddle.problem).rows
        cross, target = gather(saddle.problem, features, np.zeros(rows, dtype=int), count=1, sample=sample).means()
        ridge = (float(self.ridge) + penalty_value(saddle.primal_penalty)) * np.eye(features.size)
        # Where A is singular the least weights are taken: features that never occur say nothing.
        theta = np.linalg.lstsq(cross + ridge, target[:, 0], rcond=None)[0]
        function = LinearFunction(features, theta)
        nothing = DualFunction(LinearFunction(features, np.zeros(features.size)), Direct(), saddle.loss)
        return Result(function, nothing, None, bool(np.all(np.isfinite(theta))), Pair(function, nothing), 1)

    def _sample(self, saddle: Saddle) -> Sample | None:
        """The samples, without their importance weights if these are not wanted."""
        if self.weighted:
            return None
        table = finite_data(saddle.problem).table
        return {name: column for name, column in table.items() if name != "weight"}


@final
class KernelBellmanLoss(Solver):
    """The kernel Bellman loss of all pairs of samples (Feng, Li and Liu 2019), minimised exactly.

        θ = argmin ½ mean_ij m_i k(κ_i, κ_j) m_j + λ1/2 |θ|²,   m = moment - y

    k is the kernel of the dual's space. With k = φᵀφ, A = E[φgᵀ] and b = E[φ (y - offset)] this is θ = (AᵀA + λ1)⁻¹ Aᵀb
    over all pairs, the V-statistic. The U-statistic leaves out the pairs i = j; AᵀA and Aᵀb are then replaced by

        (n AᵀA - E[k(κ, κ) ggᵀ]) / (n - 1),   (n Aᵀb - E[k(κ, κ) g (y - offset)]) / (n - 1).

    It is exact for an RKHS dual of a few thousand rows, and of low rank with Nyström landmarks or random features. The
    loss weighs the error E[m | κ] by the kernel, and so by how often a context occurs. The dual embedding divides that
    out: with indicators for φ this loss minimises Σ_κ p(κ)² E[m | κ]² instead of Σ_κ p(κ) E[m | κ]². The saddle's dual
    penalty plays no part. The dual is the witness mean_i m_i k(κ_i, ·).

    Parameters
    ----------
    unbiased : bool, default=False
        Whether to use the U-statistic.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> import dualembed as de
    >>> chain = de.sources.Dataset(state=[0, 1], reward=[0.0, 1.0], next_state=[1, 1])
    >>> table = de.spaces.Basis(lambda s: jnp.concatenate([1 - s, s], axis=1))
    >>> saddle = de.Saddle(de.problems.PolicyEvaluation(chain, 0.5), table, table)
    >>> [round(float(value), 6) for value in de.solve(0, saddle, KernelBellmanLoss()).primal([0, 1])]
    [1.0, 2.0]
    """

    unbiased: bool = eqx.field(default=False, static=True)

    def __check_init__(self) -> None:
        checks.instance("unbiased", self.unbiased, bool)

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """The minimiser on the whole finite data set, in float64; a probe sees nothing."""
        check(saddle)
        primal, dual = feature_maps(key, saddle)
        sums = gather_moments(saddle.problem, primal, dual)
        rows, cross, target = sums.rows, sums.means()[0], sums.means()[1][:, 0]
        normal, right = cross.T @ cross, cross.T @ target
        if self.unbiased:
            if rows < 2:
                raise checks.InputError("the unbiased kernel Bellman loss needs pairs of rows, and there is only 1 row")
            own_normal, own_right = own_products(saddle, primal, dual)
            normal = (rows * normal - own_normal) / (rows - 1)
            right = (rows * right - own_right) / (rows - 1)
        values, vectors = np.linalg.eigh(normal)
        theta = vectors @ (pseudo_inverse(values, penalty_value(saddle.primal_penalty)) * (vectors.T @ right))
        function = LinearFunction(primal, theta)
        witness = saddle.dual_function(LinearFunction(dual, cross @ theta - target))
        return Result(function, witness, None, bool(np.all(np.isfinite(theta))), Pair(function, witness), 1)


@final
class BatchSAA(Solver):
    """The sample average: the empirical risk of single samples, minimised exactly.

        θ = argmin mean loss_y(gᵀθ + offset) + λ1/2 |θ|²,   g = Σ_k w_k ψ(p_k)

    It takes the loss of a one-sample mean for the loss of the conditional mean, and so pays for the moment's variance
    too: E[loss(m)] instead of E[loss(E[m | κ])]. With M draws for each x the excess falls like 1/M. The square loss is
    solved exactly, others by Newton's method with backtracking in float64, which holds 8 n (m + 2) bytes. There is no
    dual: the saddle's is not used, and the result's is the zero function.

    In reinforcement learning this is Bellman residual minimisation, and `BRM` is its name there.

    Parameters
    ----------
    tolerance : float, default=1e-10
        Newton's method ends when the gradient is at most this times rms |g| · rms loss'_y(offset).
    steps : int, default=100
        Newton steps at most.

    Examples
    --------
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
        checks.single("tolerance", self.tolerance, hint="")
        checks.count("steps", self.steps)

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """The minimiser on the whole finite data set; a probe sees nothing, since the trace is that of the gradient."""
        check_smooth(saddle.loss)
        check_penalties("the sample average", saddle)
        features = primal_features(key, saddle)
        if saddle.loss.quadratic:
            theta, residuals = least_squares_weights(saddle, features), [0.0]
        else:
            risk, start = sample_risk(saddle, features), np.zeros(features.size)
            theta, residuals = newton_descent(risk, start, tolerance=float(self.tolerance), steps=self.steps)
        function = LinearFunction(features, theta)
        nothing = no_dual(saddle)
        rows = finite_data(saddle.problem).rows
        taken = np.arange(len(residuals))
        trace = Trace(taken, taken * rows, residuals, residuals)
        finite = bool(np.all(np.isfinite(theta)))
        pair = Pair(function, nothing)
        return Result(function, nothing, trace, finite, pair, len(residuals) - 1, self._stop_message(residuals))

    def _stop_message(self, residuals: list[float]) -> str:
        """What went otherwise than planned; empty when nothing did."""
        if residuals[-1] <= float(self.tolerance):
            return ""
        return (
            f"the sample average stopped after {len(residuals) - 1} of {self.steps} steps at a relative gradient of "
            f"{residuals[-1]:.1e} instead of {float(self.tolerance):.1e}; raise primal_penalty, steps or tolerance"
        )


BRM = BatchSAA
"""Bellman residual minimisation: the sample average of a problem of reinforcement learning."""


def check_first_point(method: str, terms: Terms) -> None:
    """Raise one clear sentence unless the context of every row is its first point."""
    if checks.traced(terms):
        return
    first, context = np.asarray(terms.points[:, 0]), np.asarray(terms.context)
    if first.shape == context.shape and np.array_equal(first, context):
        return
    differing = "" if first.shape != context.shape else f", such as {context[np.any(first != context, axis=1)][0]}"
    raise checks.InputError(
        f"{method} tests the moment with f's own features, so that the context must be the first point, as in policy "
        f"evaluation; here there are contexts that are not{differing}; use solvers.ClosedForm or solvers.EmbeddingSGD"
    )


def own_products(saddle: Saddle, primal: FeatureMap, dual: FeatureMap) -> tuple[Floats, Floats]:
    """(E[k(κ, κ) ggᵀ], E[k(κ, κ) g (y - offset)]), what the pairs i = j add to the V-statistic n times over."""
    primal, dual = to_numpy(primal), to_numpy(dual)
    normal, right, rows = np.zeros((primal.size, primal.size)), np.zeros(primal.size), 0
    for terms in iter_terms(saddle.problem):
        g = moment_features(primal, terms.points, terms.weights)
        weighted = np.sum(evaluate_features(dual, terms.context) ** 2, axis=1)[:, None] * g
        normal += weighted.T @ g
        right += weighted.T @ (terms.target - terms.offset)
        rows += len(g)
    return normal / rows, right / rows


def least_squares_weights(saddle: Saddle, features: FeatureMap) -> Floats:
    """(E[ggᵀ] + λ1)⁻¹ E[g (y - offset)], the minimiser for the square loss."""
    sums = gather_moments(saddle.problem, features, _constant_map(saddle))
    values, vectors = np.linalg.eigh(np.asarray(sums.primal) / sums.rows)
    inverse = pseudo_inverse(values, penalty_value(saddle.primal_penalty))
    return vectors @ (inverse * (vectors.T @ np.asarray(sums.primal_target)) / sums.rows)


class Risk:
    """mean loss_y(design θ + offset) + penalty/2 |θ|² with its derivatives, in float64."""

    def __init__(
        self, loss: Loss, design: Floats, target: Floats, *, penalty: float, offset: Floats | float = 0.0
    ) -> None:
        self.loss, self.design, self.target, self.penalty, self.offset = loss, design, target, penalty, offset
        self.bulk = float(np.mean(np.sum(design**2, axis=1)))
        slope = loss_derivatives(loss, offset + 0.0 * target, target)[1]
        self.scale = max(float(np.sqrt(self.bulk * np.mean(slope**2))), np.finfo(float).tiny)

    def value(self, theta: Floats) -> float:
        """The risk at θ."""
        value = loss_derivatives(self.loss, self.design @ theta + self.offset, self.target)[0]
        return float(np.mean(value)) + self.penalty / 2 * float(theta @ theta)

    def derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """Its gradient (m,) and second derivatives (m, m) at θ."""
        _, slope, curvature = loss_derivatives(self.loss, self.design @ theta + self.offset, self.target)
        second = (curvature[:, None] * self.design).T @ self.design / len(slope)
        return self.design.T @ slope / len(slope) + self.penalty * theta, second + self.penalty * np.eye(len(theta))


def sample_risk(saddle: Saddle, features: FeatureMap) -> Risk:
    """The risk of the saddle's samples, θ being the weights of the features."""
    tiles = list(iter_terms(saddle.problem))
    design = np.concatenate([moment_features(to_numpy(features), terms.points, terms.weights) for terms in tiles])
    offset, target = (np.concatenate([getattr(terms, name) for terms in tiles]) for name in ("offset", "target"))
    return Risk(saddle.loss, design, target, penalty=penalty_value(saddle.primal_penalty), offset=offset)


def newton_descent(risk: Risk, start: Floats, *, tolerance: float, steps: int) -> tuple[Floats, list[float]]:
    """(θ, gradients relative to the risk's scale at the start and after each step) of Newton's method."""
    theta = start
    gradient, curvature = risk.derivatives(theta)
    residuals = [float(np.linalg.norm(gradient)) / risk.scale]
    while residuals[-1] > tolerance and len(residuals) <= steps:
        moved = _take_step(risk, theta, gradient, curvature=curvature)
        if moved is None:
            break
        theta = moved
        gradient, curvature = risk.derivatives(theta)
        residuals.append(float(np.linalg.norm(gradient)) / risk.scale)
    return theta, residuals


def loss_derivatives(loss: Loss, v: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """The loss, its slope and its curvature at each v, in float64."""
    with jax.enable_x64(True):
        value, slope, curvature = _derivatives(loss, v, y)
        return np.asarray(value), np.asarray(slope), np.asarray(curvature)


@jax.jit
def _derivatives(loss: Loss, v: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    return loss.value(v, y), loss.slope(v, y), loss.curvature(v, y)


def _take_step(risk: Risk, theta: Floats, gradient: Floats, *, curvature: Floats) -> Floats | None:
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
    return DualFunction(LinearFunction(_constant_map(saddle), np.zeros(1)), Direct(), saddle.loss)


def _constant_map(saddle: Saddle) -> BasisMap:
    """One feature of the context, which is 1."""
    terms = next(iter_terms(saddle.problem))
    return BasisMap(jax.tree_util.Partial(constant_feature), terms.context.shape[1], 1)


def constant_feature(contexts: AnyArray) -> AnyArray:
    """The one feature 1 (n, 1) of contexts (n, c)."""
    return 0 * contexts[:, :1] + 1
