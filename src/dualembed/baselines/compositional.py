"""Stochastic compositional gradient descent (Wang, Fang and Liu 2017), for a mean that depends on no context."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import equinox as eqx
import jax
import numpy as np

from dualembed import checks
from dualembed.baselines.sample_average import one
from dualembed.links import Direct
from dualembed.problems.base import Terms
from dualembed.saddle import Saddle
from dualembed.schedules import Power, Schedule
from dualembed.solvers.stochastic import Seen, StochasticSolver
from dualembed.spaces.basis import Basis


@final
class SCGD(StochasticSolver):
    """w <- w + β_t (mean moment - w), then f <- f - α_t mean loss'_y(w) Σ_k w_k ∂f(p_k) with the new w.

    It minimises E_y[loss_y(E[moment])]: the inner mean is one number, tracked as f moves, and α must fade faster than
    β for w to keep up: α = a t^(-3/4) and β = b t^(-1/2) as published, `primal_step` and `dual_step` here. Where the
    inner mean depends on a context, one running number cannot stand for it, so that the context must be constant, but
    for the target. The running number is the dual of the result, a constant function in the place of the saddle's own
    dual space; the saddle's dual penalty plays no part.
    """

    title: ClassVar[str] = "SCGD"

    steps: int = eqx.field(static=True)
    batch: int = eqx.field(default=50, static=True)
    primal_step: Schedule = eqx.field(default_factory=lambda: Power(1.0, 0.75))
    dual_step: Schedule | None = eqx.field(default_factory=lambda: Power(1.0, 0.5))

    def prepared(self, key: jax.Array, saddle: Saddle) -> Saddle:
        """The saddle with the constants for its dual space, their values read as they are."""
        return dataclasses.replace(saddle, dual=Basis(one), dual_penalty=None, dual_radius=None, link=Direct())

    def check(self, saddle: Saddle, terms: Terms) -> None:
        """Raise one clear sentence where a column of the context varies and is not the target."""
        if checks.traced(terms):
            return
        context, target = np.asarray(terms.context), np.asarray(terms.target)
        for column in context.T:
            if np.ptp(column) and not np.array_equal(column, target):
                raise checks.InputError(
                    "SCGD tracks one mean for all samples, so that the context must be the same in each, but here it "
                    f"varies from {column.min():g} to {column.max():g}; use solvers.EmbeddingSGD, or "
                    "problems.Unconditional if the samples are unrelated"
                )

    def slopes(self, saddle: Saddle, seen: Seen) -> tuple[jax.Array, jax.Array]:
        """loss'_y(w_new) w_k / B, and (moment - w) / B in the dual, whose step makes that w_new."""
        terms = seen.terms
        pull = terms.moment(seen.primal) - seen.dual
        tracked = seen.dual + self.schedule("dual")(seen.number) * pull.mean()
        slope = saddle.loss.slope(tracked, terms.target)
        return slope[:, None] * terms.weights / len(slope), pull / len(slope)
