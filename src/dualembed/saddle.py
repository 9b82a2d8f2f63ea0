"""The saddle of a problem and two spaces: min_f max_u E[u(κ) moment(f) - loss*_y(u(κ))] + λ1/2 |f|² - λ2/2 |u|²."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.links import Link
from dualembed.losses import Loss
from dualembed.problems.base import Problem, Terms, finite_data
from dualembed.sources import Sample, Source
from dualembed.spaces.base import Function, FunctionSpace, Regulariser


class Saddle(eqx.Module):
    """A problem, the space of f (primal) and the space of the dual function.

    Penalties λ1, λ2 and radii of norm balls are optional and independent of each other.

    Parameters
    ----------
    problem : Problem
        The moments, the loss and the source of samples.
    primal : FunctionSpace
        The space of f.
    dual : FunctionSpace
        The space of the dual function.
    primal_penalty : float, optional
        The penalty λ1, at least 0.
    dual_penalty : float, optional
        The penalty λ2, at least 0.
    primal_radius : float, optional
        Radius of the ball that f is kept in.
    dual_radius : float, optional
        Radius of the ball that the dual function is kept in.
    link : Link, optional
        How values of the dual function become dual variables; by default the loss's own link.

    Examples
    --------
    >>> from dualembed import kernels, problems, sources, spaces
    >>> data = sources.Dataset(x=[[0.0], [1.0]], y=[0.0, 1.0], z=[[0.1], [1.1]])
    >>> space = spaces.RKHS(kernels.Gaussian(0.5))
    >>> saddle = Saddle(problems.Invariance(data), space, space, primal_penalty=0.1)
    >>> saddle.terms().points.shape
    (2, 1, 1)
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
        """The penalty λ1 and the radius of f's ball."""
        return Regulariser(self.primal_penalty, self.primal_radius)

    @property
    def dual_regulariser(self) -> Regulariser:
        """The penalty λ2 and the radius of u's ball."""
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
        """Slopes of the batch mean of u·moment - loss*(u), unbiased for the gradient of the saddle function.

        Parameters
        ----------
        terms : Terms
            The terms of the batch.
        primal : array of shape (B, K)
            Values of f at the points.
        dual : array of shape (B,)
            Values of the dual function at the contexts.

        Returns
        -------
        primal : array of shape (B, K)
            Slopes in f at each point.
        dual : array of shape (B,)
            Slopes in the dual function at each context.
        """
        batch = dual.shape[0]
        u = self.active_link.dual(self.loss, dual, terms.target)
        moment = terms.moment(primal)
        slopes = (
            u[:, None] * terms.weights / batch,
            self.active_link.slope(self.loss, dual, moment, terms.target) / batch,
        )
        return slopes if terms.mass is None else (terms.mass[:, None] * slopes[0], terms.mass * slopes[1])

    def value(self, primal: Function, dual: DualFunction, sample: Sample | None = None) -> float:
        """The saddle function at (primal, dual).

        Parameters
        ----------
        primal : Function
            The function f.
        dual : DualFunction
            The dual function with its link.
        sample : dict of arrays, optional
            Samples to average over; by default the whole finite data set.

        Returns
        -------
        float
            The value, with penalties.
        """
        terms = self.terms(sample)
        values = primal(_flat(terms.points)).reshape(terms.weights.shape)
        u = dual(terms.context, terms.target)
        payoffs = u * terms.moment(values) - self.loss.conjugate(u, terms.target)
        payoff = jnp.mean(payoffs if terms.mass is None else terms.mass * payoffs)
        if self.primal_penalty is not None:
            payoff += 0.5 * self.primal_penalty * primal.norm2()
        if self.dual_penalty is not None:
            payoff -= 0.5 * self.dual_penalty * dual.norm2()
        return float(payoff)

    def terms(self, sample: Sample | None = None) -> Terms:
        """The terms of the samples, checked.

        Parameters
        ----------
        sample : dict of arrays, optional
            Columns; by default the whole finite data set.

        Returns
        -------
        Terms
            Points, weights, offsets, contexts and targets.
        """
        if sample is None:
            sample = finite_data(
                self.problem, "sample must be given: this problem's source is not a finite data set"
            ).columns
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
        """The terms of a batch in floating numbers, not checked, for compiled code.

        Parameters
        ----------
        sample : dict of arrays
            Columns.

        Returns
        -------
        Terms
            Points, weights, offsets, contexts and targets.
        """
        terms = self.problem.terms(sample)
        checks.instance("the value of problem.terms(sample)", terms, Terms)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), terms)

    def dual_function(self, function: Function) -> DualFunction:
        """The function together with the link that makes dual variables of its values.

        Parameters
        ----------
        function : Function
            A member of the dual space.

        Returns
        -------
        DualFunction
            The dual function.
        """
        return DualFunction(function, self.active_link, self.loss)

    def without_source(self) -> Saddle:
        """The same saddle without its samples, for a compiled loop that gets its batches from a plan.

        Returns
        -------
        Saddle
            A copy in which the problem has no source.
        """
        return eqx.tree_at(lambda saddle: saddle.problem.source, self, None)


class DualFunction(eqx.Module):
    """The dual function u(κ), close to loss'_y(E[moment | κ]) once learnt.

    Attributes
    ----------
    function : Function
        The member of the dual space that the link acts on.
    link : Link
        How its values become dual variables.
    loss : Loss
        The problem's loss.
    """

    function: Function
    link: Link
    loss: Loss

    def __call__(self, context: ArrayLike, target: ArrayLike | None = None) -> jax.Array:
        """Dual variables at contexts.

        Parameters
        ----------
        context : array of shape (n, c)
            Contexts.
        target : array of shape (n,), optional
            Targets, needed if the link depends on them.

        Returns
        -------
        array of shape (n,)
            Dual variables.
        """
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
        """The squared norm |·|² of the function before the link.

        Returns
        -------
        array
            One number.
        """
        return self.function.norm2()


def _flat(points: jax.Array) -> jax.Array:
    return points.reshape(-1, points.shape[-1])
