"""Convex losses loss_y(v), their slopes, and their convex conjugates loss*_y(u) = sup_v (u v - loss_y(v)).

Everything is elementwise and written out by hand, because differentiating through a domain's boundary gives
NaN where the right answer is finite. tests/laws holds the laws that every loss obeys (Fenchel-
Young, biconjugate, slopes).
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logit, xlog1py, xlogy
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.links import Clipped, Direct, Legendre, Link


class Loss(eqx.Module):
    """A loss that is convex in v for each target y, with its conjugate.

    All methods act elementwise and broadcast. Hyper-parameters are pytree leaves.
    """

    quadratic: ClassVar[bool] = False
    """Whether the loss is (y - v)^2 / 2, so that best responses have closed forms."""

    @abc.abstractmethod
    def value(self, v: jax.Array, y: jax.Array) -> jax.Array:
        """The loss loss_y(v).

        Parameters
        ----------
        v : array
            Predictions.
        y : array
            Targets.

        Returns
        -------
        array
            Losses.
        """

    @abc.abstractmethod
    def slope(self, v: jax.Array, y: jax.Array) -> jax.Array:
        """The slope loss'_y(v).

        Parameters
        ----------
        v : array
            Predictions.
        y : array
            Targets.

        Returns
        -------
        array
            Slopes in v; at a kink one of the subgradients.
        """

    @abc.abstractmethod
    def curvature(self, v: jax.Array, y: jax.Array) -> jax.Array:
        """The curvature loss''_y(v).

        Parameters
        ----------
        v : array
            Predictions.
        y : array
            Targets.

        Returns
        -------
        array
            Second derivatives in v; where the slope jumps, that of one side.
        """

    @abc.abstractmethod
    def conjugate(self, u: jax.Array, y: jax.Array) -> jax.Array:
        """The conjugate loss*_y(u) = sup_v (u v - loss_y(v)).

        Parameters
        ----------
        u : array
            Dual variables.
        y : array
            Targets.

        Returns
        -------
        array
            Values, finite on the closed domain and +inf outside.
        """

    @abc.abstractmethod
    def conjugate_slope(self, u: jax.Array, y: jax.Array) -> jax.Array:
        """The slope loss*'_y(u) of the conjugate.

        Parameters
        ----------
        u : array
            Dual variables, inside the domain.
        y : array
            Targets.

        Returns
        -------
        array
            Slopes in u.
        """

    @abc.abstractmethod
    def domain(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The interval on which loss*_y is finite.

        Parameters
        ----------
        y : array
            Targets.

        Returns
        -------
        low : array
            Lower ends, possibly -inf.
        high : array
            Upper ends, possibly +inf.
        """

    @property
    @abc.abstractmethod
    def link(self) -> Link:
        """The link from the dual's values to dual variables that suits this loss."""

    @property
    def stiffness(self) -> float | jax.Array:
        """The curvature with which the `Clipped` link continues the conjugate beyond its domain."""
        return 1.0

    def smoothed(self, v: jax.Array, y: jax.Array, width: float) -> tuple[jax.Array, jax.Array]:
        """The loss with its kinks rounded, by adding width u^2 / 2 to the conjugate; smooth losses stay as they are.

        Parameters
        ----------
        v : array
            Predictions.
        y : array
            Targets.
        width : float
            How far the kinks are rounded.

        Returns
        -------
        value : array
            Losses.
        slope : array
            Slopes in v.
        """
        return self.value(v, y), self.slope(v, y)

    def project(self, u: jax.Array, y: jax.Array) -> jax.Array:
        """The point of the conjugate's domain nearest to u.

        Parameters
        ----------
        u : array
            Dual variables.
        y : array
            Targets.

        Returns
        -------
        array
            Dual variables, clipped to the domain.
        """
        return jnp.clip(u, *self.domain(y))

    def check_targets(self, y: ArrayLike) -> None:
        """Check that every target is a finite number that the loss is defined for.

        Parameters
        ----------
        y : array
            Targets.

        Raises
        ------
        InputError
            If one is not.
        """
        checks.array("the targets", y)


def _inside(loss: Loss, u: jax.Array, y: jax.Array, *, finite: jax.Array) -> jax.Array:
    """The given conjugate values on the domain, +inf outside."""
    low, high = loss.domain(y)
    return jnp.where((u < low) | (u > high), jnp.inf, finite)


class QuadraticConjugate(Loss):
    """A loss with the conjugate u y + bend u^2 / 2 on an interval."""

    @property
    @abc.abstractmethod
    def bend(self) -> float | jax.Array:
        """The curvature of the conjugate, constant on its domain."""

    def conjugate(self, u: jax.Array, y: jax.Array) -> jax.Array:
        return _inside(self, u, y, finite=u * y + self.bend * u**2 / 2)

    def conjugate_slope(self, u: jax.Array, y: jax.Array) -> jax.Array:
        return y + self.bend * u

    def smoothed(self, v: jax.Array, y: jax.Array, width: float) -> tuple[jax.Array, jax.Array]:
        u = self.project((v - y) / (self.bend + width), y)
        return u * (v - y) - (self.bend + width) * u**2 / 2, u

    @property
    def stiffness(self) -> float | jax.Array:
        return self.bend  # one parabola throughout: the dual's values are then a plain regression

    @property
    def link(self) -> Link:
        return Clipped()


class LinearConjugate(QuadraticConjugate):
    """A piecewise linear loss: its conjugate is u y on an interval."""

    @property
    def bend(self) -> float | jax.Array:
        return 0.0

    @property
    def stiffness(self) -> float | jax.Array:
        return 1.0  # any pull back into the domain will do, since the conjugate itself has none

    def curvature(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.zeros_like(v * y)


def _interval(low: Any, high: Any, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The same interval for every target, as floating arrays of the targets' shape."""
    zeros = jnp.zeros_like(y, dtype=jnp.result_type(y, jnp.float32))
    return zeros + low, zeros + high


def _between_zero_and_minus_label(y: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The ends of {u : -1 <= u y <= 0} for labels y = -1 or +1."""
    return jnp.minimum(-y, 0.0), jnp.maximum(-y, 0.0)


def _check_labels(name: str, y: ArrayLike) -> None:
    """Raise unless every target is -1 or +1."""
    if checks.traced(y):
        return
    checks.array("the targets", y)
    labels = np.asarray(y)
    strange = labels[(labels != 1) & (labels != -1)]
    if strange.size == 0:
        return
    zero_one = np.all((labels == 0) | (labels == 1))
    way_out = "convert 0/1 labels by 2 * y - 1" if zero_one else "map one class to -1 and the other to +1"
    raise checks.InputError(f"the {name} loss needs targets -1 or +1, not {strange.flat[0]}; {way_out}")


@final
class Square(QuadraticConjugate):
    """Half the squared error, (y - v)^2 / 2; conjugate u y + u^2 / 2 on the whole line.

    Examples
    --------
    >>> Square().value(3.0, 1.0)
    2.0
    """

    quadratic: ClassVar[bool] = True

    def value(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return (v - y) ** 2 / 2

    def slope(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return v - y

    def curvature(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.ones_like(v - y)

    @property
    def bend(self) -> float | jax.Array:
        return 1.0

    def domain(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return _interval(-jnp.inf, jnp.inf, y)

    @property
    def link(self) -> Link:
        return Direct()


@final
class Huber(QuadraticConjugate):
    """The Huber loss: square up to a residual of `threshold`, linear beyond.

    The conjugate is u y + u^2 / 2 on |u| <= threshold.

    Parameters
    ----------
    threshold : float, default=1.0
        Residual from which on the loss is linear.
    """

    threshold: float | jax.Array = eqx.field(converter=checks.real, default=1.0)

    def __check_init__(self) -> None:
        checks.positive("Huber's threshold", self.threshold)

    def value(self, v: jax.Array, y: jax.Array) -> jax.Array:
        clipped = self.slope(v, y)
        return clipped * (v - y - clipped / 2)

    def slope(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.clip(v - y, -self.threshold, self.threshold)

    def curvature(self, v: jax.Array, y: jax.Array) -> jax.Array:
        residual = v - y
        return jnp.where(jnp.abs(residual) <= self.threshold, jnp.ones_like(residual), 0.0)

    @property
    def bend(self) -> float | jax.Array:
        return 1.0

    def domain(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return _interval(-self.threshold, self.threshold, y)


@final
class Logistic(Loss):
    """The logistic loss log(1 + exp(-y v)) for labels y = -1 or +1.

    The conjugate is t log t + (1 - t) log(1 - t) with t = -u y, on 0 <= t <= 1.
    """

    def value(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.logaddexp(0.0, -y * v)

    def slope(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return -y * jax.nn.sigmoid(-y * v)

    def curvature(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return jax.nn.sigmoid(y * v) * jax.nn.sigmoid(-y * v)

    def conjugate(self, u: jax.Array, y: jax.Array) -> jax.Array:
        # Clipping keeps the branch that `_inside` throws away free of the logarithm of a negative number.
        chance = jnp.clip(-u * y, 0.0, 1.0)
        return _inside(self, u, y, finite=xlogy(chance, chance) + xlog1py(1 - chance, -chance))

    def conjugate_slope(self, u: jax.Array, y: jax.Array) -> jax.Array:
        """The slope -y log(t / (1 - t)), t = -u y: infinite at both ends of the domain."""
        return -y * logit(jnp.clip(-u * y, 0.0, 1.0))

    def domain(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return _between_zero_and_minus_label(y)

    def check_targets(self, y: ArrayLike) -> None:
        _check_labels("logistic", y)

    @property
    def link(self) -> Link:
        return Legendre()


@final
class Hinge(LinearConjugate):
    """The hinge loss max(0, 1 - y v) for labels y = -1 or +1; conjugate u y on -1 <= u y <= 0."""

    def value(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.maximum(0.0, 1 - y * v)

    def slope(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.where(y * v < 1, -y, 0.0)

    def domain(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return _between_zero_and_minus_label(y)

    def check_targets(self, y: ArrayLike) -> None:
        _check_labels("hinge", y)


@final
class SmoothedHinge(QuadraticConjugate):
    """The hinge loss with its kink rounded, for labels y = -1 or +1.

    With r = 1 - y v it is 0 for r <= 0, r^2 / (2 width) up to r = width, and r - width / 2 beyond. The conjugate is
    u y + width u^2 / 2 on -1 <= u y <= 0.

    Parameters
    ----------
    width : float, default=1.0
        Width of the rounded part.
    """

    width: float | jax.Array = eqx.field(converter=checks.real, default=1.0)

    def __check_init__(self) -> None:
        checks.positive("the smoothed hinge's width", self.width, "for no smoothing use Hinge()")

    def value(self, v: jax.Array, y: jax.Array) -> jax.Array:
        shortfall = 1 - y * v
        clipped = jnp.clip(shortfall / self.width, 0.0, 1.0)
        return clipped * (shortfall - self.width * clipped / 2)

    def slope(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return -y * jnp.clip((1 - y * v) / self.width, 0.0, 1.0)

    def curvature(self, v: jax.Array, y: jax.Array) -> jax.Array:
        shortfall = 1 - y * v
        return jnp.where((shortfall >= 0) & (shortfall <= self.width), jnp.ones_like(shortfall) / self.width, 0.0)

    @property
    def bend(self) -> float | jax.Array:
        return self.width

    def domain(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return _between_zero_and_minus_label(y)

    def check_targets(self, y: ArrayLike) -> None:
        _check_labels("smoothed hinge", y)


@final
class SquaredHinge(QuadraticConjugate):
    """The squared hinge loss max(0, 1 - y v)^2 / 2 for labels y = -1 or +1; conjugate u y + u^2 / 2 on u y <= 0."""

    def value(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.maximum(0.0, 1 - y * v) ** 2 / 2

    def slope(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return -y * jnp.maximum(0.0, 1 - y * v)

    def curvature(self, v: jax.Array, y: jax.Array) -> jax.Array:
        margin = y * v
        return jnp.where(margin <= 1, jnp.ones_like(margin), 0.0)

    @property
    def bend(self) -> float | jax.Array:
        return 1.0

    def domain(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.where(y > 0, -jnp.inf, 0.0 * y), jnp.where(y > 0, 0.0 * y, jnp.inf)

    def check_targets(self, y: ArrayLike) -> None:
        _check_labels("squared hinge", y)


@final
class Pinball(LinearConjugate):
    """The quantile loss q max(0, y - v) + (1 - q) max(0, v - y); conjugate u y on -q <= u <= 1 - q.

    Parameters
    ----------
    quantile : float, default=0.5
        The quantile q, between 0 and 1.
    """

    quantile: float | jax.Array = eqx.field(converter=checks.real, default=0.5)

    def __check_init__(self) -> None:
        checks.positive("pinball's quantile", self.quantile, "give a number between 0 and 1")
        if not checks.traced(self.quantile) and not np.all(np.asarray(self.quantile) < 1):
            raise checks.InputError(
                f"pinball's quantile must be below 1, not {self.quantile!r}; give a number between 0 and 1"
            )

    def value(self, v: jax.Array, y: jax.Array) -> jax.Array:
        residual = v - y
        return jnp.maximum(-self.quantile * residual, (1 - self.quantile) * residual)

    def slope(self, v: jax.Array, y: jax.Array) -> jax.Array:
        residual = v - y
        zero = jnp.zeros_like(residual)
        below, above = zero - self.quantile, zero + (1 - self.quantile)
        return jnp.where(residual < 0, below, jnp.where(residual > 0, above, zero))

    def domain(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return _interval(-self.quantile, 1 - self.quantile, y)


@final
class Poisson(Loss):
    """The Poisson loss exp(v) - y v for counts y >= 0 with mean exp(v); conjugate t log t - t, t = u + y, on t >= 0.

    The value is exact, but slope and curvature stop growing at v = `ceiling`: a mean of exp(20), about 5e8,
    is past the counts that float32 tells apart, and without the stop one step from a moderately large v (88
    in float32, or far less once slopes are squared or summed) ends in inf and then NaN.
    """

    ceiling: ClassVar[float] = 20.0

    def value(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.exp(v) - y * v

    def slope(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.exp(jnp.minimum(v, self.ceiling)) - y

    def curvature(self, v: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.exp(jnp.minimum(v, self.ceiling)) + jnp.zeros_like(y)

    def conjugate(self, u: jax.Array, y: jax.Array) -> jax.Array:
        mean = jnp.maximum(u + y, 0.0)
        return _inside(self, u, y, finite=xlogy(mean, mean) - mean)

    def conjugate_slope(self, u: jax.Array, y: jax.Array) -> jax.Array:
        """The slope log(u + y): minus infinity at the end u = -y of the domain."""
        return jnp.log(jnp.maximum(u + y, 0.0))

    def domain(self, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return 0.0 - y, _interval(0.0, jnp.inf, y)[1]

    def check_targets(self, y: ArrayLike) -> None:
        if checks.traced(y):
            return
        checks.array("the targets", y)
        lowest = np.min(np.asarray(y))
        if lowest < 0:
            raise checks.InputError(
                f"the Poisson loss needs counts of at least 0, not {lowest}; drop or fix those rows"
            )

    @property
    def link(self) -> Link:
        return Legendre()


BY_NAME: dict[str, type[Loss]] = {
    "square": Square,
    "huber": Huber,
    "logistic": Logistic,
    "hinge": Hinge,
    "smoothed-hinge": SmoothedHinge,
    "squared-hinge": SquaredHinge,
    "pinball": Pinball,
    "poisson": Poisson,
}
