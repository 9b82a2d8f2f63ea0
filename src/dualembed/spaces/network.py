"""Neural networks: the features are learnt jointly with their weights (the paper's dual neural embedding)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from dualembed import checks
from dualembed.spaces.base import Function, FunctionSpace, Layout, Regulariser, Update
from dualembed.spaces.linear import running_average


class Network(FunctionSpace):
    """Neural networks from one point (d,) to one number.

    Slopes are pulled back through the network, then the optimiser acts. The norm that penalties shrink is that of the
    parameters; the average of iterates is the average of parameters.

    Parameters
    ----------
    build : callable, optional
        Function (key, d) that makes an equinox module, or (parameters, apply) with apply(parameters, x); else an MLP.
    width : int, default=64
        Width of the MLP.
    depth : int, default=2
        Hidden layers of the MLP.
    optimiser : optax.GradientTransformation, default=optax.scale_by_adam()
        What is done to the gradient before the solver's schedule multiplies it; optax.identity() for plain steps.
    """

    has_ball: ClassVar[bool] = False

    build: Callable[[jax.Array, int], Any] | None = eqx.field(default=None, static=True)
    width: int = eqx.field(default=64, static=True)
    depth: int = eqx.field(default=2, static=True)
    optimiser: optax.GradientTransformation = eqx.field(default=optax.scale_by_adam(), static=True)

    def __check_init__(self) -> None:
        checks.count("width", self.width)
        checks.count("depth", self.depth, at_least=0)
        if self.build is not None and not callable(self.build):
            raise checks.InputError(f"build must be a function (key, dimension) -> network, not {self.build!r}")
        checks.instance("optimiser", self.optimiser, optax.GradientTransformation, "such as optax.scale_by_adam()")
        if float(self.optimiser.update(jnp.ones(()), self.optimiser.init(jnp.zeros(())), jnp.zeros(()))[0]) < 0:
            raise checks.InputError(
                "optimiser must keep the gradient's sign, because the solver's schedule multiplies and subtracts it; "
                "give optax.scale_by_adam() instead of optax.adam(rate), optax.identity() instead of optax.sgd(rate)"
            )

    def check(self, dimension: int) -> None:
        """The network must turn a point (d,) into one number."""
        try:
            network = self._made(jax.random.key(0), dimension)
            shape = jax.eval_shape(network.evaluate, jax.ShapeDtypeStruct((3, dimension), jnp.zeros(()).dtype)).shape
        except Exception as error:
            raise checks.InputError(f"the network failed on points of dimension {dimension}: {error}") from error
        if shape != (3,):
            raise checks.InputError(f"the network must turn a point into one number, but 3 points gave shape {shape}")

    def init(self, key: jax.Array, layout: Layout) -> Training:
        """A fresh network."""
        network = self._made(key, layout.dimension)
        # The first iterate has yet to be counted, so the average may start anywhere.
        return Training(
            network, network.parameters, jnp.zeros((), layout.pilot.dtype), self.optimiser.init(network.parameters)
        )

    def evaluate(self, state: Training, xs: jax.Array) -> jax.Array:
        """The network at every point."""
        return state.network.evaluate(xs)

    def descend(self, state: Training, update: Update, step: jax.Array, regulariser: Regulariser) -> Training:
        """θ <- (1 - step λ) θ - step · optimiser(Σ_b slopes_b ∂f(points_b)/∂θ)."""
        points = update.points.reshape(-1, update.points.shape[-1])
        parameters = state.network.parameters

        def values(theta: Any) -> jax.Array:
            return state.network.with_parameters(theta).evaluate(points)

        outputs, pull_back = jax.vjp(values, parameters)
        gradient = pull_back(update.slopes.reshape(-1).astype(outputs.dtype))[0]
        direction, optimiser_state = self.optimiser.update(gradient, state.optimiser, parameters)
        shrink = regulariser.shrinkage(step)
        moved = jax.tree.map(
            lambda theta, change: (shrink * theta - step * change).astype(theta.dtype), parameters, direction
        )
        average, total = running_average(state.average, parameters, state.total, step)
        return Training(state.network.with_parameters(moved), average, total, optimiser_state)

    def norm2(self, state: Training) -> jax.Array:
        """Σ θ²."""
        return state.network.norm2()

    def last(self, state: Training) -> NetworkFunction:
        """The current network."""
        return state.network

    def averaged(self, state: Training) -> NetworkFunction:
        """The network at the averaged parameters."""
        return state.network.with_parameters(state.average)

    def _made(self, key: jax.Array, dimension: int) -> NetworkFunction:
        if self.build is None:
            built: Any = eqx.nn.MLP(dimension, "scalar", self.width, self.depth, activation=jax.nn.tanh, key=key)
        else:
            built = self.build(key, dimension)
        if isinstance(built, tuple) and len(built) == 2 and callable(built[1]):
            return NetworkFunction(built[0], jax.tree_util.Partial(built[1]), dimension)
        if not callable(built):
            raise checks.InputError(f"build must return a network or (parameters, apply), not {built!r}")
        parameters, rest = eqx.partition(built, eqx.is_inexact_array)
        buffers, static = eqx.partition(rest, eqx.is_array)
        return NetworkFunction(parameters, _Recombined(buffers, static), dimension)


class Training(eqx.Module):
    """A network, the average of its parameters, and the optimiser's memory."""

    network: NetworkFunction
    average: Any
    total: jax.Array
    optimiser: Any


class _Recombined(eqx.Module):
    """apply(parameters, x) of an equinox network taken apart: what is learnt, other arrays, and what is no array."""

    buffers: Any
    static: Any = eqx.field(static=True)

    def __call__(self, parameters: Any, x: jax.Array) -> jax.Array:
        return eqx.combine(parameters, self.buffers, self.static)(x)


class NetworkFunction(Function):
    """x -> apply(parameters, x)."""

    parameters: Any
    apply: Callable[[Any, jax.Array], jax.Array]
    dimension_: int = eqx.field(static=True)

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.dimension_

    def evaluate(self, xs: jax.Array) -> jax.Array:
        """The network at every point; an output of shape (1,) counts as a number."""
        values = jax.vmap(lambda x: self.apply(self.parameters, x))(xs)
        return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values

    def norm2(self) -> jax.Array:
        """Σ θ² over the parameters."""
        return sum((jnp.sum(leaf**2) for leaf in jax.tree.leaves(self.parameters)), jnp.zeros(()))

    def with_parameters(self, parameters: Any) -> NetworkFunction:
        """The same network with other parameters."""
        return NetworkFunction(parameters, self.apply, self.dimension_)
