"""Temporal differences: TD(0) (Sutton 1988), and TDC and GTD2, which follow a gradient with one basis for both players.

TDC and GTD2 are by Sutton, Maei, Precup, Bhatnagar, Silver, Szepesvári and Wiewiora (2009).
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import jax
import jax.numpy as jnp

from dualembed import checks
from dualembed.baselines.least_squares import check_first_point
from dualembed.baselines.residual_gradient import check_square
from dualembed.problems.base import Terms
from dualembed.saddle import Saddle
from dualembed.solvers.stochastic import PILOT, Seen, StochasticSolver
from dualembed.spaces.base import FunctionSpace, Layout
from dualembed.spaces.basis import Basis


@final
class TD0(StochasticSolver):
    """TD(0), the semi-gradient of temporal differences (Sutton 1988).

        f <- f - γ_t mean loss'_y(moment) ∂f(p_1)

    The other points are treated as if they did not depend on f. For policy evaluation this is θ <- θ + α ρ δ φ(s) with
    δ = r + γ V(s') - V(s), and its fixed point is LSTD's solution. It is no gradient of anything, and off-policy the
    fixed point may repel: the run then diverges and says so. The context must be the first point. The result's dual
    stays the zero function.

    Parameters
    ----------
    steps : int, default=2000
        Number of steps.
    batch : int, default=50
        Samples per step.
    primal_step : Schedule, default=OffsetSqrt(1.0, 1.0)
        Step sizes of f.
    dual_step : Schedule, optional
        Unused: there is no dual.
    """

    title: ClassVar[str] = "TD(0)"
    has_dual: ClassVar[bool] = False

    def check(self, saddle: Saddle, terms: Terms) -> None:
        """Raise one clear sentence where the context is not the first point."""
        check_first_point("TD(0)", terms)

    def slopes(self, saddle: Saddle, seen: Seen) -> tuple[jax.Array, jax.Array]:
        """loss'_y(moment) / B at the first point, 0 at the others, and none in the dual."""
        terms = seen.terms
        slope = saddle.loss.slope(terms.moment(seen.primal), terms.target)
        return _at_first(slope, terms) / len(slope), jnp.zeros_like(slope)


@final
class TDC(StochasticSolver):
    """TD(0) with a gradient correction (Sutton et al. 2009).

        f <- f - γ_t mean [(moment - y) ∂f(p_1) + u(κ) Σ_{k>1} w_k ∂f(p_k)],   u as in `GTD2`

    For policy evaluation θ <- θ + α ρ (δ φ - γ φ' (φᵀw)) and w <- w + β (ρδ - φᵀw) φ, w = -η. Where u has converged,
    the correction makes this the gradient of the projected Bellman error, so that it settles at LSTD's solution
    off-policy too. The primal's features serve both players, and the saddle's own dual space is not used. The context
    must be the first point, whose weight has mean 1 given the context.

    Parameters
    ----------
    steps : int, default=2000
        Number of steps.
    batch : int, default=50
        Samples per step.
    primal_step : Schedule, default=OffsetSqrt(1.0, 1.0)
        Step sizes of f.
    dual_step : Schedule, optional
        Step sizes of u; by default those of f.
    """

    title: ClassVar[str] = "TDC"

    def prepared(self, key: jax.Array, saddle: Saddle) -> Saddle:
        """The saddle with the primal's features on both sides."""
        return with_shared_features(self.title, key, saddle)

    def check(self, saddle: Saddle, terms: Terms) -> None:
        """Raise one clear sentence for another loss, or where the context is not the first point."""
        check_square("TDC", saddle)
        check_first_point("TDC", terms)

    def slopes(self, saddle: Saddle, seen: Seen) -> tuple[jax.Array, jax.Array]:
        """(moment - y) / B at the first point, u w_k / B at the others; in the dual GTD2's."""
        terms = seen.terms
        own, dual = saddle.slopes(terms, seen.primal, seen.dual)
        slope = terms.moment(seen.primal) - terms.target
        return own.at[:, 0].set(slope / len(slope)), dual


@final
class GTD2(StochasticSolver):
    """Gradient temporal differences, second version (Sutton et al. 2009).

        θ <- θ - γ_t u(κ) Σ_k w_k φ(p_k),   η <- η + γ'_t (moment - y - u(κ)) φ(κ),   u = ηᵀφ

    The updates are batch means, and both use the old values. For policy evaluation, with δ = r + γ V(s') - V(s) and w =
    -η, they are the published θ <- θ + α ρ (φ - γφ')(φᵀw) and w <- w + β (ρδ - φᵀw) φ. This is Embedding-SGD with the
    primal's features for the dual too: the moment is made orthogonal to φ alone, and the solution is LSTD's. The
    saddle's own dual space is not used. The context must be the first point.

    Parameters
    ----------
    steps : int, default=2000
        Number of steps.
    batch : int, default=50
        Samples per step.
    primal_step : Schedule, default=OffsetSqrt(1.0, 1.0)
        Step sizes of f.
    dual_step : Schedule, optional
        Step sizes of u; by default those of f.
    """

    title: ClassVar[str] = "GTD2"

    def prepared(self, key: jax.Array, saddle: Saddle) -> Saddle:
        """The saddle with the primal's features on both sides."""
        return with_shared_features(self.title, key, saddle)

    def check(self, saddle: Saddle, terms: Terms) -> None:
        """Raise one clear sentence for another loss, or where the context is not the first point."""
        check_square("GTD2", saddle)
        check_first_point("GTD2", terms)

    def slopes(self, saddle: Saddle, seen: Seen) -> tuple[jax.Array, jax.Array]:
        """The saddle's own."""
        return saddle.slopes(seen.terms, seen.primal, seen.dual)


def _at_first(slope: jax.Array, terms: Terms) -> jax.Array:
    """The slope (B,) at the first of each sample's points, (B, K), and 0 at the others."""
    return jnp.zeros_like(terms.weights).at[:, 0].set(slope)


def with_shared_features(method: str, key: jax.Array, saddle: Saddle) -> Saddle:
    """The saddle whose two players have the same features, those of its primal; drawn once where they are random."""
    if type(saddle.primal).feature_map is FunctionSpace.feature_map:
        raise checks.InputError(
            f"{method} gives both players the features of a linear space, which {type(saddle.primal).__name__} is not; "
            "use fourier, nystrom, rkhs or a basis, or solvers.EmbeddingSGD"
        )
    terms = saddle.terms(saddle.problem.source.pilot(key, PILOT))
    points = terms.points.reshape(-1, terms.points.shape[-1])
    saddle.primal.check(points.shape[1])
    layout = Layout(points, steps=1, batch=1, per_sample=terms.points.shape[1], capacity=1)
    shared = Basis(saddle.primal.feature_map(key, layout))
    return dataclasses.replace(saddle, primal=shared, dual=shared)
