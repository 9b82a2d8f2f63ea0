"""The duality gap of a pair (f, u) on given data: how far it can be from the saddle point, with no truth needed."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from dualembed.arrays import Floats
from dualembed.losses import Loss
from dualembed.problems.base import Terms
from dualembed.saddle import DualFunction, Saddle
from dualembed.sources import Sample
from dualembed.spaces.base import Function, Regulariser


class Gap(eqx.Module):
    """The duality gap max_u Φ(f, u) - min_f Φ(f, u).

    It is infinite, and `message` says so, when f is neither penalised nor kept in a ball: Φ is then linear in f and
    has no minimum.

    Attributes
    ----------
    value : float
        The gap, best_response_of_dual - best_response_of_primal.
    best_response_of_dual : float
        The maximum over u, at f.
    best_response_of_primal : float
        The minimum over f, at u.
    residual : float
        Estimate of how far the inner maximisation stayed from its optimum; 0 if it is exact.
    message : str
        Why the gap is infinite; empty otherwise.
    """

    value: float
    best_response_of_dual: float
    best_response_of_primal: float
    residual: float
    message: str = ""


def duality_gap(saddle: Saddle, primal: Function, dual: DualFunction, sample: Sample | None = None) -> Gap:
    """The duality gap of (primal, dual), in float64: how far the pair can be from the saddle point.

    Exact for the square loss. For other losses it is an estimate: the maximum is over the u of the dual's linear
    space that stay in the conjugate's domain, found through its Fenchel dual, any point of which bounds it from above;
    a dual behind a link need not be among them, and its penalty counts the norm before the link. Kernel expansions
    are taken over the whole RKHS, by the representer theorem, at a cost cubic in the number of points.

    Parameters
    ----------
    saddle : Saddle
        The problem with its spaces and penalties.
    primal : Function
        The function f.
    dual : DualFunction
        The dual function u.
    sample : dict of arrays, optional
        Samples; by default the whole finite data set.

    Returns
    -------
    Gap
        The gap and its two parts.
    """
    terms = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=np.float64), saddle.terms(sample))
    moment = _moment(terms, primal)
    u = _dual_variables(saddle, dual, terms)
    with jax.enable_x64(True):
        conjugate = np.asarray(saddle.loss.conjugate(jnp.asarray(u), jnp.asarray(terms.target)))
    highest, residual = _best_dual(saddle, dual.function, terms, moment)
    highest += _paid(saddle.primal_penalty, primal)
    lowest = float(np.mean(u * terms.offset - conjugate)) - _paid(saddle.dual_penalty, dual.function)
    lowest -= support(saddle.primal_regulariser, float(np.linalg.norm(_primal_slope(terms, primal, u))))
    message = ""
    if np.isinf(lowest):
        message = (
            "the gap is infinite because f is neither penalised nor in a ball: give primal_penalty or primal_radius"
        )
    return Gap(highest - lowest, highest, lowest, residual, message)


def support(regulariser: Regulariser, slope_norm: float) -> float:
    """h(g) = max over |θ| <= R of gᵀθ - λ/2 |θ|² for |g| = slope_norm: |g|²/(2λ), or R|g| - λR²/2 on the sphere."""
    penalty = float(regulariser.penalty or 0.0)
    radius = np.inf if regulariser.radius is None else float(regulariser.radius)
    if slope_norm == 0.0:
        return 0.0
    if slope_norm <= penalty * radius:
        return slope_norm**2 / (2 * penalty)
    return radius * slope_norm - penalty * radius**2 / 2 if np.isfinite(radius) else np.inf


def _paid(penalty: Any, function: Function) -> float:
    """λ/2 |f|²."""
    if penalty is None:
        return 0.0
    with jax.enable_x64(True):
        return 0.5 * float(penalty) * float(_double(function).norm2())


def _double(function: Any) -> Any:
    """The function with float64 arrays; to be called, and used, under enable_x64."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, float) if eqx.is_inexact_array_like(leaf) else leaf, function)


def _values(function: Function, xs: Any) -> Floats:
    with jax.enable_x64(True):
        return np.asarray(_double(function)(xs))


def _features(function: Function, xs: Any) -> Floats:
    """Features (n, m) of the function's space at the points, exact for functions seen only there."""
    with jax.enable_x64(True):
        points = jnp.asarray(xs)
        return np.asarray(_double(function).features_on(points)(points))


def _moment(terms: Terms, primal: Function) -> Floats:
    values = _values(primal, terms.points.reshape(-1, terms.points.shape[-1])).reshape(terms.weights.shape)
    return np.sum(terms.weights * values, axis=1) + terms.offset


def _dual_variables(saddle: Saddle, dual: DualFunction, terms: Terms) -> Floats:
    values = _values(dual.function, terms.context)
    with jax.enable_x64(True):
        u = saddle.active_link.dual(saddle.loss, jnp.asarray(values), jnp.asarray(terms.target))
    return np.asarray(u)


def _primal_slope(terms: Terms, primal: Function, u: Floats) -> Floats:
    """Slope of Φ in the weights of f: mean of u Σ_k w_k ψ(p_k)."""
    features = _features(primal, terms.points.reshape(-1, terms.points.shape[-1]))
    return (u[:, None] * terms.weights).reshape(-1) @ features / len(u)


def _best_dual(saddle: Saddle, dual: Function, terms: Terms, moment: Floats) -> tuple[float, float]:
    """(max over u of mean(u m - loss*(u)) - λ2/2 |u|² within u's ball, bound on the error)."""
    features = _features(dual, terms.context)
    if saddle.loss.quadratic:
        return _best_square(features, moment - terms.target, saddle.dual_regulariser), 0.0
    return _best_general(saddle.loss, features, moment, terms.target, regulariser=saddle.dual_regulariser)


def _best_square(features: Floats, residual: Floats, regulariser: Regulariser) -> float:
    """max over |η| <= R of bᵀη - ½ ηᵀ(C + λ)η by the eigenvalues of C and, on the sphere, the secular equation."""
    n = len(residual)
    # The left singular vectors keep the eigenvalues of C accurate where forming C would square them away.
    left, singular, _ = np.linalg.svd(features / np.sqrt(n), full_matrices=False)
    kept = singular > singular[0] * 1e-13
    curvature = singular[kept] ** 2 + float(regulariser.penalty or 0.0)
    slope = singular[kept] * (left[:, kept].T @ residual) / np.sqrt(n)
    if regulariser.radius is None:
        return float(np.sum(slope**2 / curvature) / 2)
    radius = float(regulariser.radius)

    def excess(shift: float) -> float:
        return float(np.linalg.norm(slope / (curvature + shift))) - radius

    shift = 0.0
    if excess(0.0) > 0:
        shift = optimize.brentq(excess, 0.0, np.linalg.norm(slope) / radius, xtol=1e-300, rtol=1e-14)
    best = slope / (curvature + shift)
    return float(slope @ best - np.sum(curvature * best**2) / 2)


def _best_general(
    loss: Loss, features: Floats, moment: Floats, target: Any, *, regulariser: Regulariser
) -> tuple[float, float]:
    """The same for any loss through min over a of mean loss_y(m - a) + h(mean a φ); any a bounds it from above.

    Without penalty or ball h allows only a orthogonal to the features, and a is projected there. Losses with kinks
    are approached through smooth ones, whose minima bound the maximum from below.
    """
    n = len(moment)
    free = regulariser.radius is None and float(regulariser.penalty or 0.0) == 0.0
    basis = _span(features) if free else np.zeros((n, 0))

    def split(a: Floats) -> Floats:
        return a - basis @ (basis.T @ a)

    def cost(a: Floats) -> tuple[float, Floats]:
        if free:
            return 0.0, np.zeros(n)
        slope = features.T @ a / n
        norm = float(np.linalg.norm(slope))
        return support(regulariser, norm), features @ (slope * _stretch(regulariser, norm)) / n

    def objective(a: Floats, width: float) -> tuple[float, Floats]:
        a = split(a)
        with jax.enable_x64(True):
            parts = loss.smoothed(jnp.asarray(moment - a), jnp.asarray(target), width)
        value, slope = (np.asarray(part) for part in parts)
        paid, paid_slope = cost(a)
        return float(value.mean()) + paid, split(paid_slope - slope / n)

    a, options = np.zeros(n), {"maxiter": 2000, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-10}
    for width in (1e-1, 1e-2, 1e-3, 1e-4):
        minimum = optimize.minimize(objective, a, (width,), "L-BFGS-B", jac=True, options=options)
        a = minimum.x
    with jax.enable_x64(True):
        value = np.asarray(loss.value(jnp.asarray(moment - split(a)), jnp.asarray(target)))
    bound = float(value.mean()) + cost(split(a))[0]
    return bound, bound - minimum.fun + float(np.linalg.norm(minimum.jac) * np.linalg.norm(a))


def _span(features: Floats) -> Floats:
    """An orthonormal basis of the columns' span; columns that depend on others add nothing."""
    left, singular, _ = np.linalg.svd(features, full_matrices=False)
    return left[:, singular > singular[0] * len(singular) * np.finfo(float).eps]


def _stretch(regulariser: Regulariser, norm: float) -> float:
    """|θ|/|g| at the maximiser θ of h(g): 1/λ, or R/|g| on the sphere."""
    inside = 1.0 / max(float(regulariser.penalty or 0.0), 1e-300)
    return inside if regulariser.radius is None else min(inside, float(regulariser.radius) / max(norm, 1e-300))
