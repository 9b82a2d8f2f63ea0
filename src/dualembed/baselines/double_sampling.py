"""Double sampling (Baird 1995): residual gradient with a second, independent sample of each conditional."""

from __future__ import annotations

from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp

from dualembed import checks
from dualembed.problems.base import Terms
from dualembed.saddle import Saddle
from dualembed.schedules import OffsetSqrt, Schedule
from dualembed.solvers.stochastic import PILOT, Seen, StochasticSolver
from dualembed.sources import Dataset, Sample

PREFIX = "second_"


@final
class DoubleSampling(StochasticSolver):
    """f <- f - γ_t mean (moment₂ - y) Σ_k w_k ∂f(p_k), moment₂ from a second sample of the same context; no dual.

    Given κ the two samples are independent, so that E[(moment₂ - y) g] = E[E[moment - y | κ] E[g | κ]] is the gradient
    of E[E[moment - y | κ]²] / 2, without bias. It needs what only a simulator can give: for everything that the context
    leaves open, a column second_<column> drawn anew; for policy evaluation these are second_next_state, and
    second_reward, second_terminated and second_weight where those columns are there. Square loss only, since the slope
    of another is not linear in the moment. The result's dual stays the zero function.
    """

    title: ClassVar[str] = "double sampling"
    has_dual: ClassVar[bool] = False

    steps: int = eqx.field(static=True)
    batch: int = eqx.field(default=50, static=True)
    primal_step: Schedule = eqx.field(default_factory=lambda: OffsetSqrt(1.0, 1.0))
    dual_step: Schedule | None = None

    def prepared(self, key: jax.Array, saddle: Saddle) -> Saddle:
        """The saddle as it is, once its samples are known to be double."""
        source = saddle.problem.source
        # Of a finite data set every row is checked, not only those of a pilot.
        sample = source.columns if isinstance(source, Dataset) else source.pilot(key, PILOT)
        check_doubled(sample)
        try:
            saddle.terms(second_sample(sample))
        except checks.InputError as error:
            raise checks.InputError(f"the columns {PREFIX}... do not fit: {error}") from None
        return saddle

    def check(self, saddle: Saddle, terms: Terms) -> None:
        """Raise one clear sentence for any but the square loss."""
        check_square("double sampling", saddle)

    def slopes(self, saddle: Saddle, seen: Seen) -> tuple[jax.Array, jax.Array]:
        """(moment₂ - y) w_k / B, and none in the dual."""
        second = saddle.batch_terms(second_sample(seen.sample))
        values = seen.primal_at(second.points.reshape(-1, second.points.shape[-1])).reshape(second.weights.shape)
        slope = saddle.loss.slope(second.moment(values), second.target)
        return slope[:, None] * seen.terms.weights / len(slope), jnp.zeros_like(slope)


def second_sample(sample: Sample) -> Sample:
    """The sample with every second_<column> in the place of its column."""
    return {name: sample.get(PREFIX + name, column) for name, column in sample.items() if not name.startswith(PREFIX)}


def check_doubled(sample: Sample) -> None:
    """Raise one clear sentence unless there is a second sample, for transitions of all that the state leaves open."""
    doubled = {name.removeprefix(PREFIX) for name in sample if name.startswith(PREFIX)}
    there = ", ".join(sorted(sample))
    if not doubled:
        raise checks.InputError(
            f"double sampling needs columns of a second, independent sample of each context, such as "
            f"second_next_state, but there are only {there}; without them use solvers.EmbeddingSGD"
        )
    strange = sorted(doubled - set(sample))
    if strange:
        raise checks.InputError(f"{PREFIX}{strange[0]} has no {strange[0]} to stand for; there are {there}")
    single = [name for name in ("next_state", "weight", "terminated") if name in sample and name not in doubled]
    if single:
        raise checks.InputError(
            f"double sampling needs a column {PREFIX}{single[0]} that belongs to the second sample as {single[0]} does "
            f"to the first; there are {there}"
        )


def check_square(method: str, saddle: Saddle) -> None:
    """Raise one clear sentence for any but the square loss."""
    if not saddle.loss.quadratic:
        raise checks.InputError(
            f"{method} is for the square loss, not {type(saddle.loss).__name__}; use losses.Square() or "
            "solvers.EmbeddingSGD"
        )
