"""Residual gradient (Baird 1995): stochastic descent on the loss of each single sample's moment."""

from __future__ import annotations

from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp

from dualembed.saddle import Saddle
from dualembed.schedules import OffsetSqrt, Schedule
from dualembed.solvers.stochastic import Seen, StochasticSolver


@final
class ResidualGradient(StochasticSolver):
    """f <- f - γ_t mean loss'_y(moment) Σ_k w_k ∂f(p_k): the gradient of E[loss_y(moment)], with no dual.

    Both factors come from one sample, so that it goes where `BatchSAA` (`BRM`) is: with the square loss it minimises
    E[E[moment - y | κ]²] + E[Var(moment | κ)], whose second term pulls f flat wherever the conditional is wide. The
    result's dual stays the zero function.

    Where the problem has M draws for each x (`problems.Invariance` with z of shape (n, M, d)), the moment is their mean
    and the very same rule is the stochastic sample average approximation, `SGDSAA`: less biased as M grows.
    """

    title: ClassVar[str] = "residual gradient"
    has_dual: ClassVar[bool] = False

    steps: int = eqx.field(static=True)
    batch: int = eqx.field(default=50, static=True)
    primal_step: Schedule = eqx.field(default_factory=lambda: OffsetSqrt(1.0, 1.0))
    dual_step: Schedule | None = None

    def slopes(self, saddle: Saddle, seen: Seen) -> tuple[jax.Array, jax.Array]:
        """loss'_y(moment) w_k / B, and none in the dual."""
        terms = seen.terms
        slope = saddle.loss.slope(terms.moment(seen.primal), terms.target)
        return slope[:, None] * terms.weights / len(slope), jnp.zeros_like(slope)


SGDSAA = ResidualGradient
"""The sample average approximation by SGD, with as many draws for each context as the problem's samples have."""
