"""Embedding-SGD: stochastic descent in f and ascent in u on the saddle, one sample of each conditional at a time."""

from __future__ import annotations

from typing import ClassVar, final

import equinox as eqx
import jax

from dualembed import checks
from dualembed.saddle import Saddle
from dualembed.schedules import OffsetSqrt, Schedule
from dualembed.solvers.preconditioner import Preconditioner
from dualembed.solvers.stochastic import Seen, StochasticSolver


@final
class EmbeddingSGD(StochasticSolver):
    """`steps` steps on batches of `batch` samples, with a schedule for each player.

    The slopes are batch means. Both players move from the old (f, u):
        f <- Π[f - γ_t (mean u(κ) Σ_k w_k ∂f(p_k) + λ1 f)],   u <- Π[u + γ'_t (mean (moment - loss*'(u)) ∂u(κ) - λ2 u)].
    A `preconditioner` makes both players move in whitened coordinates, in which a badly conditioned saddle takes far
    fewer steps, of size about 1.
    """

    title: ClassVar[str] = "Embedding-SGD"

    steps: int = eqx.field(static=True)
    batch: int = eqx.field(default=50, static=True)
    primal_step: Schedule = eqx.field(default_factory=lambda: OffsetSqrt(1.0, 1.0))
    dual_step: Schedule | None = None
    preconditioner: Preconditioner | None = None

    def __check_init__(self) -> None:
        if self.preconditioner is not None:
            checks.instance("preconditioner", self.preconditioner, Preconditioner, "such as solvers.Preconditioner()")

    def prepared(self, key: jax.Array, saddle: Saddle) -> Saddle:
        """The saddle in whitened coordinates, where there is a preconditioner."""
        return saddle if self.preconditioner is None else self.preconditioner(key, saddle, self.batch)

    def slopes(self, saddle: Saddle, seen: Seen) -> tuple[jax.Array, jax.Array]:
        """The saddle's own, unbiased: their expectation is the gradient of the saddle function."""
        return saddle.slopes(seen.terms, seen.primal, seen.dual)
