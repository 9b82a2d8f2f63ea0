"""GTD2 (Sutton, Maei, Precup, Bhatnagar, Silver, Szepesvári and Wiewiora 2009): one basis for both players."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import equinox as eqx
import jax

from dualembed import checks
from dualembed.baselines.double_sampling import check_square
from dualembed.baselines.lstd import check_first_point
from dualembed.problems.base import Terms
from dualembed.saddle import Saddle
from dualembed.schedules import OffsetSqrt, Schedule
from dualembed.solvers.stochastic import PILOT, Seen, StochasticSolver
from dualembed.spaces.base import FunctionSpace, Layout
from dualembed.spaces.basis import Basis


@final
class GTD2(StochasticSolver):
    """θ <- θ - γ_t u(κ) Σ_k w_k φ(p_k),   η <- η + γ'_t (moment - y - u(κ)) φ(κ),   u = ηᵀφ: batch means, both old.

    For policy evaluation, with δ = r + γ V(s') - V(s) and w = -η, these are the published updates
    θ <- θ + α ρ (φ - γφ')(φᵀw) and w <- w + β (ρδ - φᵀw) φ. It is Embedding-SGD with the primal's features for the dual
    too, so that the moment is made orthogonal to φ alone: the solution is LSTD's. The saddle's own dual space is left
    aside; the context must be the first point.
    """

    title: ClassVar[str] = "GTD2"

    steps: int = eqx.field(static=True)
    batch: int = eqx.field(default=50, static=True)
    primal_step: Schedule = eqx.field(default_factory=lambda: OffsetSqrt(1.0, 1.0))
    dual_step: Schedule | None = None

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
