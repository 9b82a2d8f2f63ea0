"""Embedding-SGD with a centred dual: it learns only what the context leaves open."""

from __future__ import annotations

from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp

from dualembed import checks
from dualembed.links import Direct
from dualembed.problems.base import Terms
from dualembed.saddle import Saddle
from dualembed.schedules import OffsetSqrt, Schedule
from dualembed.solvers.stochastic import Seen, StochasticSolver


@final
class CentredEmbeddingSGD(StochasticSolver):
    """u(κ) = a_f(κ) + v(κ), with a_f the part of the moment that the context κ determines and v in the dual space:

        f <- f - γ_t mean u(κ) Σ_k w_k ∂f(p_k),   v <- v + γ'_t mean (moment - y - u(κ)) ∂v(κ).

    For the square loss the best u is E[moment - y | κ]. In policy evaluation V(s) is known given s, and the reward is
    where `reward_known` says so; all that is left for v to learn is -discount E[V(s') | s]. The noise of s' makes that
    smooth, so that it may have a wider kernel than V, and steps of less variance. For every f the best v gives the same
    u, and the steps of f are along the same slopes, so that the solution is that of `EmbeddingSGD`; where the context
    determines nothing the two are one. But a_f follows f at once, so that together they are no longer the gradient of
    one function. The result's `dual` is v, and not u: it is no argument for `duality_gap` or `Saddle.value`.

    Where s' is nearly determined by s there is nothing to gain: E[V(s') | s] is then as large and as rough as V, while
    the plain dual learns the residual alone.

    >>> import dualembed as de
    >>> chain = de.sources.Dataset(state=[0, 1], reward=[0.0, 1.0], next_state=[1, 1])
    >>> problem = de.problems.PolicyEvaluation(chain, 0.5, reward_known=True)
    >>> solver = CentredEmbeddingSGD(400, 2, de.schedules.Constant(1.0), de.schedules.Constant(1.0))
    >>> result = de.solve(0, de.Saddle(problem, de.spaces.Table(), de.spaces.Table()), solver)
    >>> [round(float(value), 2) for value in result.last.primal([0, 1])]
    [1.0, 2.0]
    """

    title: ClassVar[str] = "centred Embedding-SGD"

    steps: int = eqx.field(static=True)
    batch: int = eqx.field(default=50, static=True)
    primal_step: Schedule = eqx.field(default_factory=lambda: OffsetSqrt(1.0, 1.0))
    dual_step: Schedule | None = None

    def check(self, saddle: Saddle, terms: Terms) -> None:
        """Raise one clear sentence for another loss, or a link."""
        if not saddle.loss.quadratic:
            raise checks.InputError(
                f"a centred dual is for the square loss, whose best dual is an expectation, not for "
                f"{type(saddle.loss).__name__}; use solvers.EmbeddingSGD"
            )
        if not isinstance(saddle.active_link, Direct):
            raise checks.InputError(
                f"a centred dual has no link, but this saddle has {type(saddle.active_link).__name__}; leave link out"
            )

    def slopes(self, saddle: Saddle, seen: Seen) -> tuple[jax.Array, jax.Array]:
        """u w_k / B, and (moment - y - u) / B."""
        terms = seen.terms
        u = known_part(terms, seen.primal) + seen.dual
        residual = terms.moment(seen.primal) - terms.target
        return u[:, None] * terms.weights / len(u), (residual - u) / len(u)


def known_part(terms: Terms, values: jax.Array) -> jax.Array:
    """Σ_k w_k f(p_k) over the known points, and the offset where it is known, (B,), for values (B, K) of f."""
    known = jnp.asarray(terms.known or (False,) * values.shape[1], dtype=values.dtype)
    return jnp.sum(known * terms.weights * values, axis=1) + (terms.offset if terms.offset_known else 0.0)
