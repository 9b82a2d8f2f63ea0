"""Step sizes as functions of the step number t = 1, 2, ...; their numbers are leaves, so sweeps can be vmapped."""

from __future__ import annotations

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp

from dualembed import checks


class Schedule(eqx.Module):
    """A rule t -> step size."""

    @abstractmethod
    def __call__(self, t: jax.Array) -> jax.Array:
        """The step size at step t.

        Parameters
        ----------
        t : int or array
            Number of the step, counted from 1.

        Returns
        -------
        array
            Step sizes, in the shape of t.
        """


class Constant(Schedule):
    """The same step size throughout. With rate = c/√T for T steps it is the step of the theorem.

    Parameters
    ----------
    rate : float
        The step size.
    """

    rate: float | jax.Array = eqx.field(converter=checks.real)

    def __check_init__(self) -> None:
        checks.positive("rate", self.rate)
        checks.single("rate", self.rate)

    def __call__(self, t: jax.Array) -> jax.Array:
        """rate."""
        return jnp.asarray(self.rate, dtype=float)


class InverseSqrt(Schedule):
    """Step sizes rate / √t.

    Parameters
    ----------
    rate : float
        Size of the first step.
    """

    rate: float | jax.Array = eqx.field(converter=checks.real)

    def __check_init__(self) -> None:
        checks.positive("rate", self.rate)
        checks.single("rate", self.rate)

    def __call__(self, t: jax.Array) -> jax.Array:
        """rate / √t."""
        return self.rate / jnp.sqrt(jnp.asarray(t, dtype=float))


class Offset(Schedule):
    """A decaying step size, with an offset that keeps the first steps small.

    Parameters
    ----------
    rate : float
        Numerator of the step size.
    offset : float, default=1.0
        What is added to the denominator.
    """

    rate: float | jax.Array = eqx.field(converter=checks.real)
    offset: float | jax.Array = eqx.field(default=1.0, converter=checks.real)

    def __check_init__(self) -> None:
        checks.positive("rate", self.rate)
        checks.single("rate", self.rate)
        checks.not_negative("offset", self.offset)
        checks.single("offset", self.offset)


class OffsetSqrt(Offset):
    """Step sizes rate / (offset + √t), the schedule of the paper's experiments (η and n0 there).

    Parameters
    ----------
    rate : float
        Numerator of the step size.
    offset : float, default=1.0
        What is added to the denominator.

    Examples
    --------
    >>> float(OffsetSqrt(6.0, 1.0)(4))
    2.0
    """

    def __call__(self, t: jax.Array) -> jax.Array:
        """rate / (offset + √t)."""
        return self.rate / (self.offset + jnp.sqrt(jnp.asarray(t, dtype=float)))


class OffsetLinear(Offset):
    """Step sizes rate / (offset + t), for strongly convex objectives (residual gradient and kernel MDP in the paper).

    Parameters
    ----------
    rate : float
        Numerator of the step size.
    offset : float, default=1.0
        What is added to the denominator.
    """

    def __call__(self, t: jax.Array) -> jax.Array:
        """rate / (offset + t)."""
        return self.rate / (self.offset + jnp.asarray(t, dtype=float))


class OffsetPower(Offset):
    """Step sizes rate / (offset + t^power).

    Each of the other schedules is this one at its power, so one sweep can go over all of them.

    Parameters
    ----------
    rate : float
        Numerator of the step size.
    offset : float, default=1.0
        What is added to the denominator.
    power : float, default=0.5
        How fast steps decay.

    Examples
    --------
    >>> float(OffsetPower(6.0, 1.0, 0.5)(4))
    2.0
    """

    power: float | jax.Array = eqx.field(default=0.5, converter=checks.real)

    def __check_init__(self) -> None:
        checks.not_negative("power", self.power)
        checks.single("power", self.power)

    def __call__(self, t: jax.Array) -> jax.Array:
        """rate / (offset + t^power)."""
        return self.rate / (self.offset + jnp.asarray(t, dtype=float) ** self.power)


class Power(Schedule):
    """Step sizes rate / t^power, such as the two time scales t^(-3/4) and t^(-1/2) of compositional gradients.

    Parameters
    ----------
    rate : float
        Size of the first step.
    power : float, default=0.75
        How fast steps decay.

    Examples
    --------
    >>> float(Power(2.0, 0.5)(4))
    1.0
    """

    rate: float | jax.Array = eqx.field(converter=checks.real)
    power: float | jax.Array = eqx.field(default=0.75, converter=checks.real)

    def __check_init__(self) -> None:
        checks.positive("rate", self.rate)
        checks.single("rate", self.rate)
        checks.not_negative("power", self.power)
        checks.single("power", self.power)

    def __call__(self, t: jax.Array) -> jax.Array:
        """rate / t^power."""
        return self.rate * jnp.asarray(t, dtype=float) ** -self.power
