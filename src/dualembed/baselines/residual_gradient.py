"""Stochastic descent on the loss of samples' own moments: no function of the context is learnt beside f.

Residual gradient and double sampling are Baird's (1995); virtual samples take every draw for a training sample of its
own; SCGD (Wang, Fang and Liu 2017) tracks a mean that depends on no context.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.baselines.least_squares import constant_feature
from dualembed.links import Direct
from dualembed.problems.base import Terms
from dualembed.saddle import Saddle
from dualembed.schedules import Power, Schedule
from dualembed.solvers.stochastic import PILOT, Seen, StochasticSolver
from dualembed.sources import Dataset, Sample
from dualembed.spaces.basis import Basis

PREFIX = "second_"


@final
class ResidualGradient(StochasticSolver):
    """The residual gradient: SGD on the loss of one-sample moments, with no dual (Baird 1995).

        f <- f - γ_t mean loss'_y(moment) Σ_k w_k ∂f(p_k)

    This follows the gradient of E[loss_y(moment)]. Both factors come from one sample, so it goes where `BatchSAA`
    (`BRM`) is. With the square loss it minimises E[E[moment - y | κ]²] + E[Var(moment | κ)]; the second term pulls f
    flat wherever the conditional is wide. The result's dual stays the zero function.

    Where the problem has M draws for each x (`problems.Invariance` with z of shape (n, M, d)), the moment is their
    mean. The same rule is then the stochastic sample average approximation, `SGDSAA`, which is less biased as M grows.

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

    title: ClassVar[str] = "residual gradient"
    has_dual: ClassVar[bool] = False

    def slopes(self, saddle: Saddle, seen: Seen) -> tuple[jax.Array, jax.Array]:
        """loss'_y(moment) w_k / B, and none in the dual."""
        terms = seen.terms
        slope = saddle.loss.slope(terms.moment(seen.primal), terms.target)
        return slope[:, None] * terms.weights / len(slope), jnp.zeros_like(slope)


SGDSAA = ResidualGradient
"""The sample average approximation by SGD, with as many draws for each context as the problem's samples have."""


@final
class DoubleSampling(StochasticSolver):
    """Residual gradient with two independent samples of each context, which has no bias (Baird 1995).

        f <- f - γ_t mean (moment₂ - y) Σ_k w_k ∂f(p_k)

    moment₂ comes from the second sample. Given κ the two are independent, so E[(moment₂ - y) g] = E[E[moment - y | κ]
    E[g | κ]] is the gradient of E[E[moment - y | κ]²] / 2.

    It needs what only a simulator can give: for everything that the context leaves open, a column second_<column> drawn
    anew. For policy evaluation these are second_next_state, and second_reward, second_terminated and second_weight
    where those columns are there. It is for the square loss only, since the slope of another is not linear in the
    moment. The result's dual stays the zero function.

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

    title: ClassVar[str] = "double sampling"
    has_dual: ClassVar[bool] = False

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


@final
class VirtualSamples(StochasticSolver):
    """Plain regression on the draws by SGD, with no dual.

        f <- f - γ_t mean Σ_k w_k loss'_y(f(z_k)) ∂f(z_k)

    It minimises E[loss_y(f(z))]: the loss of each f(z) stands where that of their mean E[f(z) | x] belongs. By Jensen's
    inequality this is an upper bound, and more draws do not tighten it. It is for moments that are averages of f: the
    weights of a sample must be positive and sum to 1, and its offset must be 0. The result's dual stays the zero
    function.

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

    title: ClassVar[str] = "SGD on virtual samples"
    has_dual: ClassVar[bool] = False

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


@final
class SCGD(StochasticSolver):
    """Stochastic compositional gradient descent (Wang, Fang and Liu 2017), for a mean that depends on no context.

        w <- w + β_t (mean moment - w),   f <- f - α_t mean loss'_y(w) Σ_k w_k ∂f(p_k) with the new w

    It minimises E_y[loss_y(E[moment])]. The inner mean is one number, tracked as f moves, and α must fade faster than β
    for w to keep up: α = a t^(-3/4) and β = b t^(-1/2) as published. One running number cannot stand for a mean that
    depends on a context, so the context must be constant, but for the target. The running number is the dual of the
    result, a constant function in place of the saddle's own dual space; the saddle's dual penalty plays no part.

    Parameters
    ----------
    steps : int, default=2000
        Number of steps.
    batch : int, default=50
        Samples per step.
    primal_step : Schedule, default=Power(1.0, 0.75)
        Step sizes α of f.
    dual_step : Schedule, default=Power(1.0, 0.5)
        Steps β of the running mean.
    """

    title: ClassVar[str] = "SCGD"

    primal_step: Schedule = eqx.field(default_factory=lambda: Power(1.0, 0.75))
    dual_step: Schedule | None = eqx.field(default_factory=lambda: Power(1.0, 0.5))

    def prepared(self, key: jax.Array, saddle: Saddle) -> Saddle:
        """The saddle with the constants for its dual space, their values read as they are."""
        return dataclasses.replace(
            saddle, dual=Basis(constant_feature), dual_penalty=None, dual_radius=None, link=Direct()
        )

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
