"""Virtual samples: every draw z of an input x becomes a training sample (z, y) of its own."""

from __future__ import annotations

from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.problems.base import Terms
from dualembed.saddle import Saddle
from dualembed.schedules import OffsetSqrt, Schedule
from dualembed.solvers.stochastic import Seen, StochasticSolver


@final
class VirtualSamples(StochasticSolver):
    """f <- f - γ_t mean Σ_k w_k loss'_y(f(z_k)) ∂f(z_k): plain regression on the draws, E[loss_y(f(z))], with no dual.

    The loss of each f(z) stands where that of their mean E[f(z) | x] belongs, an upper bound by Jensen's inequality
    that more draws do not tighten. It is for moments that are averages of f: the weights of a sample must be positive
    and sum to 1, and its offset must be 0. The result's dual stays the zero function.
    """

    title: ClassVar[str] = "SGD on virtual samples"
    has_dual: ClassVar[bool] = False

    steps: int = eqx.field(static=True)
    batch: int = eqx.field(default=50, static=True)
    primal_step: Schedule = eqx.field(default_factory=lambda: OffsetSqrt(1.0, 1.0))
    dual_step: Schedule | None = None

    def check(self, saddle: Saddle, terms: Terms) -> None:
        """Raise one clear sentence unless every moment is an average of f."""
        if checks.traced(terms):
            return
        weights, offset = np.asarray(terms.weights), np.asarray(terms.offset)
        if np.any(weights <= 0) or not np.allclose(weights.sum(axis=1), 1, atol=1e-5) or np.any(offset != 0):
            raise checks.InputError(
                "virtual samples need moments that are averages of f, with positive weights that sum to 1 and no "
                f"offset, but here the weights of a sample are {weights[0].tolist()} and its offset is {offset[0]:g}; "
                "use baselines.ResidualGradient"
            )

    def slopes(self, saddle: Saddle, seen: Seen) -> tuple[jax.Array, jax.Array]:
        """w_k loss'_y(f(z_k)) / B, and none in the dual."""
        weights, target = seen.terms.weights, seen.terms.target
        slopes = weights * saddle.loss.slope(seen.primal, target[:, None])
        return slopes / len(target), jnp.zeros_like(target)
