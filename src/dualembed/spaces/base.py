"""What a solver asks of a function space, the function it becomes, and the averages of growing expansions."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import AnyArray
from dualembed.deprecation import warn
from dualembed.spaces.features import FeatureMap

State = Any


class Layout(eqx.Module):
    """What a space may know before the first step: where it will be used, and how much.

    Parameters
    ----------
    pilot : array of shape (n, d)
        Points like those that the function will be evaluated at; NumPy for closed forms.
    steps : int
        Number of steps.
    batch : int
        Samples per step.
    per_sample : int
        Points per sample.
    capacity : int
        Distinct samples in the whole run.
    complete : bool, default=False
        Whether the pilot is known to hold every sample of the run.
    """

    pilot: AnyArray
    steps: int = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    per_sample: int = eqx.field(static=True)
    capacity: int = eqx.field(static=True)
    complete: bool = eqx.field(default=False, static=True)

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.pilot.shape[-1]

    @property
    def whole(self) -> bool:
        """Deprecated: now `complete`."""
        warn("Layout.whole", "Layout.complete")
        return self.complete


class Regulariser(eqx.Module):
    """A penalty λ/2 |f|², a ball |f| <= radius, both, or neither.

    Parameters
    ----------
    penalty : float, optional
        The penalty λ.
    radius : float, optional
        Radius of the ball.
    """

    penalty: float | jax.Array | None = eqx.field(default=None, converter=checks.real)
    radius: float | jax.Array | None = eqx.field(default=None, converter=checks.real)

    def check(self, name: str) -> None:
        """Check that the penalty is not negative and the radius is positive.

        Parameters
        ----------
        name : str
            Whose they are in the error message, such as "primal".

        Raises
        ------
        InputError
            If one is not.
        """
        if self.penalty is not None:
            checks.not_negative(f"{name}_penalty", self.penalty)
            checks.single(f"{name}_penalty", self.penalty)
        if self.radius is not None:
            checks.positive(f"{name}_radius", self.radius, "leave it out for no norm ball")
            checks.single(f"{name}_radius", self.radius)

    @property
    def idle(self) -> bool:
        """Whether nothing ever shrinks, which saves a pass over the coefficients at each step."""
        return self.penalty is None and self.radius is None

    def shrinkage(self, step: jax.Array) -> jax.Array:
        """The factor 1 - step λ on the old function, at least 0: a step beyond 1/λ must not flip signs.

        Parameters
        ----------
        step : array
            Step size.

        Returns
        -------
        array
            One number.
        """
        return jnp.asarray(1.0) if self.penalty is None else jnp.maximum(1.0 - step * self.penalty, 0.0)

    def projection(self, norm2: jax.Array) -> jax.Array:
        """The factor min(1, radius/|f|) that brings f back into the ball.

        Parameters
        ----------
        norm2 : array
            Squared norm |f|².

        Returns
        -------
        array
            One number.
        """
        if self.radius is None:
            return jnp.asarray(1.0)
        return jnp.minimum(1.0, self.radius / jnp.sqrt(jnp.maximum(norm2, jnp.finfo(norm2.dtype).tiny)))


class Update(eqx.Module):
    """One step as a space sees it: slopes at points, with the values just computed there.

    Attributes
    ----------
    points : array of shape (B, K, d)
        Points of each sample.
    values : array of shape (B, K)
        Values of the function there.
    slopes : array of shape (B, K)
        Slopes of the objective in these values.
    slots : array of shape (B,)
        Where each sample keeps its centres in a growing expansion.
    number : array
        Number of the step, counted from 0.
    """

    points: jax.Array
    values: jax.Array
    slopes: jax.Array
    slots: jax.Array
    number: jax.Array


class Function(eqx.Module):
    """A learnt function: callable on arrays, differentiable, a pytree of its arrays."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Coordinates of a point."""

    @abstractmethod
    def evaluate(self, xs: jax.Array) -> jax.Array:
        """Values at points; pure, for use inside compiled code.

        Parameters
        ----------
        xs : array of shape (n, d)
            Points.

        Returns
        -------
        array of shape (n,)
            Values.
        """

    @abstractmethod
    def norm2(self) -> jax.Array:
        """The squared norm |f|² in its space.

        Returns
        -------
        array
            One number.
        """

    def features_on(self, points: jax.Array) -> FeatureMap:
        """Features with a span that holds every function of the linear space, as far as these points can tell.

        Parameters
        ----------
        points : array of shape (n, d)
            Points.

        Returns
        -------
        FeatureMap
            The features.

        Raises
        ------
        InputError
            If the function's space is not linear.
        """
        raise checks.InputError(
            f"a {type(self).__name__} is not a member of a linear space, so this quantity has no exact form for it; "
            "use the rkhs, fourier, nystrom, doubly_stochastic or basis space"
        )

    def trimmed(self) -> Function:
        """The same function without the unused part of its buffers.

        Returns
        -------
        Function
            The trimmed function.
        """
        return self

    def __call__(self, xs: ArrayLike) -> jax.Array:
        """Values at points, checked, and tiled to bounded memory.

        A function with NumPy numbers, as from a closed form, is evaluated in float64: its weights may be large and
        cancel.

        Parameters
        ----------
        xs : array of shape (n, d) or (n,)
            Points; (n,) numbers if d = 1.

        Returns
        -------
        array of shape (n,)
            Values.
        """
        if checks.traced(xs, self):
            xs = jnp.asarray(xs)
            return self.evaluate(xs[:, None] if xs.ndim == 1 else xs)
        double = any(isinstance(leaf, np.ndarray) and leaf.dtype == np.float64 for leaf in jax.tree.leaves(self))
        with jax.enable_x64(double or jax.config.read("jax_enable_x64")):
            points = checks.points("xs", xs, self.dimension)
            size = points.shape[0]
            # Powers of two: a handful of compiled shapes serves every number of points.
            padded = max(16, 1 << (size - 1).bit_length())
            points = jnp.asarray(np.pad(np.asarray(points), ((0, padded - size), (0, 0)), mode="edge"))
            values = _evaluate(self, points)[:size]
        return jnp.asarray(np.asarray(values)) if double else values


class FunctionSpace(eqx.Module):
    """A set of functions in which a solver can move."""

    has_ball: ClassVar[bool] = True  # whether projection onto a norm ball is possible

    @abstractmethod
    def check(self, dimension: int) -> None:
        """Check that the space can live on points of that dimension.

        Parameters
        ----------
        dimension : int
            Number of coordinates.

        Raises
        ------
        InputError
            If it cannot.
        """

    def feature_map(self, key: jax.Array, layout: Layout) -> FeatureMap:
        """Features that span the space, or all of it that the pilot points can tell; linear spaces only.

        Parameters
        ----------
        key : array
            A JAX key.
        layout : Layout
            Where the space is used.

        Returns
        -------
        FeatureMap
            The features.

        Raises
        ------
        InputError
            If the space is not linear.
        """
        raise checks.InputError(
            f"a closed form needs a linear space, which {type(self).__name__} is not; "
            "use fourier, nystrom, rkhs or a basis"
        )

    @abstractmethod
    def init(self, key: jax.Array, layout: Layout) -> State:
        """The zero function (a network: its random start), with room for the whole run.

        Parameters
        ----------
        key : array
            A JAX key.
        layout : Layout
            Where the space is used.

        Returns
        -------
        pytree
            The state of the run.
        """

    @abstractmethod
    def evaluate(self, state: State, xs: jax.Array) -> jax.Array:
        """Values of the current function.

        Parameters
        ----------
        state : pytree
            The state of the run.
        xs : array of shape (n, d)
            Points.

        Returns
        -------
        array of shape (n,)
            Values.
        """

    @abstractmethod
    def descend(self, state: State, update: Update, step: jax.Array, regulariser: Regulariser) -> State:
        """One step f <- Π[(1 - step λ) f - step Σ_b slopes_b ∂f(points_b)], which also updates the average of iterates.

        Parameters
        ----------
        state : pytree
            The state of the run.
        update : Update
            Slopes at points.
        step : array
            Step size.
        regulariser : Regulariser
            The penalty λ and the ball that Π projects on.

        Returns
        -------
        pytree
            The state after the step.
        """

    @abstractmethod
    def norm2(self, state: State) -> jax.Array:
        """The squared norm |f|² of the current function.

        Parameters
        ----------
        state : pytree
            The state of the run.

        Returns
        -------
        array
            One number.
        """

    @abstractmethod
    def last(self, state: State) -> Function:
        """The current function.

        Parameters
        ----------
        state : pytree
            The state of the run.

        Returns
        -------
        Function
            The last iterate.
        """

    @abstractmethod
    def averaged(self, state: State) -> Function:
        """The average Σ γ_i f_i / Σ γ_i of the iterates before each step so far.

        Parameters
        ----------
        state : pytree
            The state of the run.

        Returns
        -------
        Function
            The average.
        """


@jax.jit
def _evaluate(function: Function, xs: jax.Array) -> jax.Array:
    """Evaluation in query tiles, so that memory does not grow with the number of points."""
    tile = 1024
    if xs.shape[0] <= tile:
        return function.evaluate(xs)
    return jax.lax.map(function.evaluate, xs.reshape(-1, tile, xs.shape[1])).reshape(-1)


class RunningAverage(eqx.Module):
    """The average of iterates of a growing expansion, from one number a step and no second expansion.

    Step i of size γ_i made f_{i+1} = ratio_i f_i + Δ_i; deltas are the coefficients of Δ_i.
    """

    steps: jax.Array  # (T,) γ_i; zero for steps not taken yet
    ratios: jax.Array  # (T,)
    deltas: jax.Array  # (T, ...)

    @staticmethod
    def empty(count: int, shape: tuple[int, ...], dtype: jnp.dtype) -> RunningAverage:
        """Room for `count` steps whose Δ has coefficients of that shape."""
        return RunningAverage(jnp.zeros(count, dtype), jnp.ones(count, dtype), jnp.zeros((count, *shape), dtype))

    def record(self, number: jax.Array, step: jax.Array, ratio: jax.Array, delta: jax.Array) -> RunningAverage:
        """The average with one more step."""
        return RunningAverage(
            self.steps.at[number].set(step),
            self.ratios.at[number].set(ratio),
            self.deltas.at[number].set(delta),
        )

    def weights(self) -> jax.Array:
        """Weight of each Δ_i in Σ γ_k f_k / Σ γ_k: w_i = γ_{i+1} + ratio_{i+1} w_{i+1}, w_T = 0, then normalised.

        Backwards, because differences of running sums lose every digit in float32 once shrinkage has acted.
        """

        def backward(weight: jax.Array, later: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            step, ratio = later
            return step + ratio * weight, weight

        zero = jnp.zeros((), self.steps.dtype)
        _, weights = jax.lax.scan(backward, zero, (self.steps, self.ratios), reverse=True)
        return weights / jnp.maximum(jnp.sum(self.steps), jnp.finfo(self.steps.dtype).tiny)

    def averages(self) -> jax.Array:
        """The coefficients Δ_i contributes to the average, same shape as deltas."""
        weights = self.weights()
        return self.deltas * weights.reshape(weights.shape + (1,) * (self.deltas.ndim - 1))


SpaceLike: TypeAlias = FunctionSpace | str
"""A space, or the name of one: "auto" leaves the choice to the data, "linear" takes straight lines."""
