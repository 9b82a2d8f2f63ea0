"""Links: how a value v of the dual's function space becomes the dual variable u, and the payoff's slope in v.

The dual player maximises the payoff J(v) = u(v) * moment - loss*_y(u(v)), with u kept where loss*_y is
finite. A link says what u(v) is; its `slope` is what the dual space ascends along.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar, final

import equinox as eqx
import jax

if TYPE_CHECKING:
    from dualembed.losses import Loss


class Link(eqx.Module):
    """A map from values v of the dual's space to dual variables u, with the slope of the payoff in v.

    The payoff is J(v) = u(v) * moment - loss*_y(u(v)).
    """

    needs_target: ClassVar[bool]
    """Whether `dual` looks at the target, so that the dual variable at a new context needs its y."""

    @abc.abstractmethod
    def dual(self, loss: Loss, v: jax.Array, y: jax.Array) -> jax.Array:
        """The dual variables u(v), elementwise.

        Parameters
        ----------
        loss : Loss
            The problem's loss.
        v : array
            Values of the dual's function.
        y : array
            Targets.

        Returns
        -------
        array
            Dual variables.
        """

    @abc.abstractmethod
    def slope(self, loss: Loss, v: jax.Array, moment: jax.Array, y: jax.Array) -> jax.Array:
        """The slope dJ/dv of the payoff, elementwise.

        Parameters
        ----------
        loss : Loss
            The problem's loss.
        v : array
            Values of the dual's function.
        moment : array
            Moments of the samples.
        y : array
            Targets.

        Returns
        -------
        array
            Slopes in v.
        """


@final
class Direct(Link):
    """The value itself, u = v: for losses with a conjugate that is finite on the whole line."""

    needs_target: ClassVar[bool] = False

    def dual(self, loss: Loss, v: jax.Array, y: jax.Array) -> jax.Array:
        """The value itself, u = v."""
        return v

    def slope(self, loss: Loss, v: jax.Array, moment: jax.Array, y: jax.Array) -> jax.Array:
        """The slope of the payoff, moment - loss*'_y(v)."""
        return moment - loss.conjugate_slope(v, y)


@final
class Clipped(Link):
    """The value clipped to the conjugate's domain, u = project(v): for conjugates with finite slopes.

    Clipping the values of a function is not a projection in its RKHS (the clipped function has left the
    space), so v itself is never clipped. Its slope is that of a conjugate continued beyond its domain by a
    parabola: inside the domain the gradient of the payoff, outside it with a pull back to where v has a
    resting point, at which u = project(v) is the right dual variable. Without the pull v would drift outwards
    for ever wherever the best u lies on the boundary, and in a space of smooth functions drag its neighbours along.

    Logistic and Poisson have infinite conjugate slopes at the ends of their domains: use `Legendre` for them.
    """

    needs_target: ClassVar[bool] = True

    def dual(self, loss: Loss, v: jax.Array, y: jax.Array) -> jax.Array:
        """The nearest point of the conjugate's domain, u = project(v)."""
        return loss.project(v, y)

    def slope(self, loss: Loss, v: jax.Array, moment: jax.Array, y: jax.Array) -> jax.Array:
        """The slope of the continued payoff, moment - loss*'_y(u) - stiffness * (v - u) with u = project(v)."""
        u = loss.project(v, y)
        return moment - loss.conjugate_slope(u, y) - loss.stiffness * (v - u)


@final
class Legendre(Link):
    """The slope of the loss at the value, u = loss'_y(v), which always lies in the conjugate's domain.

    Then v is an estimate of E[moment | context] itself. Since loss*(loss'(v)) = v loss'(v) - loss(v), the
    payoff is J(v) = loss'(v) (moment - v) + loss(v), with slope loss''(v) (moment - v): where the loss
    curves, its only stationary point is v = moment, and there J equals the loss. The price: J is not
    concave in v, so the convergence theorem for saddle points does not cover this link, and v moves slowly
    where the loss is flat.
    """

    needs_target: ClassVar[bool] = True

    def dual(self, loss: Loss, v: jax.Array, y: jax.Array) -> jax.Array:
        """The slope of the loss, u = loss'_y(v)."""
        return loss.slope(v, y)

    def slope(self, loss: Loss, v: jax.Array, moment: jax.Array, y: jax.Array) -> jax.Array:
        """The slope of the payoff, loss''_y(v) * (moment - v)."""
        return loss.curvature(v, y) * (moment - v)
