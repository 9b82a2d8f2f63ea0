"""The saddle of a problem and two spaces: min_f max_u E[u(κ) moment(f) - loss*_y(u(κ))] + λ1/2 |f|² - λ2/2 |u|²."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.links import Link
from dualembed.losses import Loss
from dualembed.problems.base import Problem, Terms
from dualembed.sources import Dataset, Sample, Source
from dualembed.spaces.base import Function, FunctionSpace, Regulariser


class Saddle(eqx.Module):
    """A problem, the space f is sought in (primal) and the space the dual function is sought in.

    Penalties λ1, λ2 and radii of norm balls are optional and independent. `link` says how a value of the dual
    space becomes a dual variable; the loss's own by default.
    """

    problem: Problem
    primal: FunctionSpace
    dual: FunctionSpace
    primal_penalty: float | jax.Array | None = eqx.field(default=None, converter=checks.real, kw_only=True)
    dual_penalty: float | jax.Array | None = eqx.field(default=None, converter=checks.real, kw_only=True)
    primal_radius: float | jax.Array | None = eqx.field(default=None, converter=checks.real, kw_only=True)
    dual_radius: float | jax.Array | None = eqx.field(default=None, converter=checks.real, kw_only=True)
    link: Link | None = eqx.field(default=None, kw_only=True)

    def __check_init__(self) -> None:
        checks.instance("problem", self.problem, Problem, "such as problems.Invariance(source)")
        checks.instance("the problem's source", self.problem.source, Source, "such as sources.Dataset(x=x, y=y, z=z)")
        checks.instance("the problem's loss", self.problem.loss, Loss, "such as losses.Square()")
        checks.instance("link", self.link, (Link, type(None)))
        for name in ("primal", "dual"):
            space = getattr(self, name)
            checks.instance(name, space, FunctionSpace, "such as spaces.RKHS(kernels.Gaussian(0.5))")
            regulariser = getattr(self, f"{name}_regulariser")
            regulariser.check(name)
            if regulariser.radius is not None and not space.has_ball:
                raise checks.InputError(
                    f"{name}_radius cannot be used with {type(space).__name__}, which has no norm ball to project on; "
                    f"use {name}_penalty instead"
                )

    @property
    def primal_regulariser(self) -> Regulariser:
        """λ1 and the radius of f's ball."""
        return Regulariser(self.primal_penalty, self.primal_radius)

    @property
    def dual_regulariser(self) -> Regulariser:
        """λ2 and the radius of u's ball."""
        return Regulariser(self.dual_penalty, self.dual_radius)

    @property
    def loss(self) -> Loss:
        """The problem's loss."""
        return self.problem.loss

    @property
    def active_link(self) -> Link:
        """The link in force."""
        return self.loss.link if self.link is None else self.link

    def slopes(self, terms: Terms, primal: jax.Array, dual: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Slopes of the batch mean of u·moment - loss*(u): in f at each point (B, K), in the dual space (B,).

        primal (B, K) and dual (B,) are the values of the two functions. They are unbiased: their expectation is
        the gradient of the saddle function.
        """
        batch = dual.shape[0]
        u = self.active_link.dual(self.loss, dual, terms.target)
        moment = terms.moment(primal)
        return (
            u[:, None] * terms.weights / batch,
            self.active_link.slope(self.loss, dual, moment, terms.target) / batch,
        )

    def value(self, primal: Function, dual: DualFunction, sample: Sample | None = None) -> float:
        """The saddle function at (primal, dual) on the given samples (by default the whole finite data set)."""
        terms = self.terms(sample)
        values = primal(_flat(terms.points)).reshape(terms.weights.shape)
        u = dual(terms.context, terms.target)
        payoff = jnp.mean(u * terms.moment(values) - self.loss.conjugate(u, terms.target))
        if self.primal_penalty is not None:
            payoff += 0.5 * self.primal_penalty * primal.norm2()
        if self.dual_penalty is not None:
            payoff -= 0.5 * self.dual_penalty * dual.norm2()
        return float(payoff)

    def terms(self, sample: Sample | None = None) -> Terms:
        """The terms of the samples, checked; by default those of the whole finite data set."""
        if sample is None:
            if not isinstance(self.problem.source, Dataset):
                raise checks.InputError("sample must be given: this problem's source is not a finite data set")
            sample = self.problem.source.columns
        else:
            sample = {name: checks.array(name, column) for name, column in sample.items()}
        terms = self.batch_terms(sample)
        terms.check()
        for name in ("points", "weights", "offset", "context", "target"):
            checks.array(f"Terms.{name}", getattr(terms, name))
        if not checks.traced(terms):
            self.loss.check_targets(np.asarray(terms.target))
        return terms

    def batch_terms(self, sample: Sample) -> Terms:
        """The terms of a batch in floating numbers, their values unchecked; for compiled code."""
        terms = self.problem.terms(sample)
        checks.instance("the value of problem.terms(sample)", terms, Terms)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), terms)

    def dual_function(self, function: Function) -> DualFunction:
        """The dual space's function together with the link that makes dual variables of its values."""
        return DualFunction(function, self.active_link, self.loss)

    def without_source(self) -> Saddle:
        """The same rules without the samples, for a compiled loop that gets its batches from a plan."""
        return eqx.tree_at(lambda saddle: saddle.problem.source, self, None)


class DualFunction(eqx.Module):
    """u(κ): the dual variable, close to loss'_y(E[moment | κ]) once learnt; `function` is what the link acts on."""

    function: Function
    link: Link
    loss: Loss

    def __call__(self, context: Any, target: Any = None) -> jax.Array:
        """Dual variables (n,) at contexts (n, c); the target is needed where the link depends on it."""
        values = self.function(context)
        if target is None:
            if self.link.needs_target:
                raise checks.InputError(
                    f"the dual variable of the {type(self.loss).__name__} loss is read with its target; "
                    "call dual(context, target)"
                )
            target = jnp.zeros_like(values)
        target = jnp.asarray(target, dtype=values.dtype)
        if target.shape != values.shape:
            raise checks.InputError(f"target must have shape {values.shape}, but has {target.shape}")
        return self.link.dual(self.loss, values, target)

    def norm2(self) -> jax.Array:
        """|·|² of the function before the link."""
        return self.function.norm2()


def _flat(points: jax.Array) -> jax.Array:
    return points.reshape(-1, points.shape[-1])
