"""Doubly stochastic features: a step adds a block of fresh random features, redrawn from their seed at every use."""

from __future__ import annotations

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.kernels import Kernel
from dualembed.spaces.base import Function, FunctionSpace, Layout, Regulariser, RunningAverage, Update
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.fourier import WaveMap, frequencies
from dualembed.spaces.nystrom import whitened


class DoublyStochastic(FunctionSpace):
    """Functions f = Σ_i c_iᵀ φ_i: each step adds a block φ_i of random features, redrawn from the seed i, never stored.

    ∂f(x) = k(x, ·) is replaced by its unbiased estimate φ_i(x)ᵀφ_i(·). A run of T steps keeps 8 T·block bytes in
    float32, whatever the dimension. There is no norm ball, because the random function has no exact RKHS norm.

    Parameters
    ----------
    kernel : Kernel
        A kernel with a known spectral measure.
    block : int, default=64
        Features for each step.
    """

    has_ball: ClassVar[bool] = False

    kernel: Kernel
    block: int = eqx.field(default=64, static=True)

    def __check_init__(self) -> None:
        checks.instance("kernel", self.kernel, Kernel, "such as kernels.Gaussian(0.5)")
        checks.count("block", self.block)

    def check(self, dimension: int) -> None:
        """The kernel must fit the dimension and know its spectral measure."""
        self.kernel.check(dimension)
        self.kernel.frequencies(jax.random.key(0), 1, dimension)

    def init(self, key: jax.Array, layout: Layout) -> Blocks:
        """The zero function with room for one block a step."""
        shape, dtype = (layout.steps, self.block), layout.pilot.dtype
        average = RunningAverage.empty(layout.steps, (self.block,), dtype)
        return Blocks(key, jnp.zeros(shape, dtype), jnp.zeros((), jnp.int32), average, layout.dimension)

    def evaluate(self, state: Blocks, xs: jax.Array) -> jax.Array:
        """Σ_i c_iᵀ φ_i(x) over the blocks so far, each redrawn."""
        return self.last(state).evaluate(xs)

    def descend(self, state: Blocks, update: Update, step: jax.Array, regulariser: Regulariser) -> Blocks:
        """Shrink what is there; the new block gets c = -step Σ_b slopes_b φ_i(points_b)."""
        points = update.points.reshape(-1, state.dimension)
        features = draw_block(state.key, update.number, self.kernel, size=self.block, dimension=state.dimension)
        delta = -step * (update.slopes.reshape(-1) @ features(points))
        shrink = regulariser.shrinkage(step)
        old = state.coefficients if regulariser.idle else shrink * state.coefficients
        return Blocks(
            state.key,
            old.at[update.number].set(delta),
            jnp.maximum(state.used, update.number.astype(jnp.int32) + 1),
            state.average.record(update.number, step, shrink, delta),
            state.dimension,
        )

    def norm2(self, state: Blocks) -> jax.Array:
        """See SeededFunction.norm2."""
        return self.last(state).norm2()

    def last(self, state: Blocks) -> SeededFunction:
        """The current coefficients."""
        return SeededFunction(self.kernel, state.key, state.coefficients, state.used, dimension_=state.dimension)

    def averaged(self, state: Blocks) -> SeededFunction:
        """The same seeds under averaged coefficients."""
        return SeededFunction(self.kernel, state.key, state.average.averages(), state.used, dimension_=state.dimension)


class Blocks(eqx.Module):
    """A seed and one row of coefficients for each step."""

    key: jax.Array
    coefficients: jax.Array  # (T, block)
    used: jax.Array
    average: RunningAverage
    dimension: int = eqx.field(static=True)


class SeededFunction(Function):
    """f = Σ_i c_iᵀ φ_i with features redrawn from (key, i)."""

    kernel: Kernel
    key: jax.Array
    coefficients: jax.Array
    used: jax.Array | None = None
    dimension_: int = eqx.field(default=1, static=True)

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.dimension_

    def evaluate(self, xs: jax.Array) -> jax.Array:
        """Blocks redrawn a few at a time, so that no more than that is ever held."""
        count, size = self.coefficients.shape
        tile = min(count, max(1, 512 // size))

        def contribution(number: jax.Array) -> jax.Array:
            # Beyond the end a coefficient row is read again by clamping; its weight is zero.
            weights = jnp.where(number < count, self.coefficients[jnp.minimum(number, count - 1)], 0.0)
            return draw_block(self.key, number, self.kernel, size=size, dimension=self.dimension)(xs) @ weights

        def add(number: jax.Array, total: jax.Array) -> jax.Array:
            return total + jnp.sum(jax.vmap(contribution)(number * tile + jnp.arange(tile)), axis=0)

        stop = -(-(count if self.used is None else self.used) // tile)
        dtype = jnp.result_type(xs, self.coefficients)
        return jax.lax.fori_loop(0, stop, add, jnp.zeros(xs.shape[0], dtype))

    def norm2(self) -> jax.Array:
        """Blocks · Σ c², the Monte-Carlo estimate of |f|² over the frequencies (f = ∫ a(ω) φ_ω dP(ω) has ∫ a² dP)."""
        blocks = self.coefficients.shape[0] if self.used is None else self.used
        return blocks * jnp.sum(self.coefficients**2)

    def features_on(self, points: jax.Array) -> FeatureMap:
        """By the representer theorem, the span of the kernel at the points."""
        return whitened(self.kernel, points)

    def trimmed(self) -> SeededFunction:
        """Only the blocks drawn so far."""
        if self.used is None:
            return self
        kept = self.coefficients[: max(1, int(self.used))]
        return SeededFunction(self.kernel, self.key, kept, None, dimension_=self.dimension_)


def draw_block(key: jax.Array, number: jax.Array, kernel: Kernel, *, size: int, dimension: int) -> WaveMap:
    """The features of block `number`: √(2 k(0)/size) cos(ωᵀx + b), always the same for the same key and number.

    Drawn in float32 whatever precision is in force, because other precisions draw other numbers.
    """
    frequency_key, phase_key = jax.random.split(jax.random.fold_in(key, number))
    waves = frequencies(frequency_key, kernel, size, dimension=dimension)
    phases = jax.random.uniform(phase_key, (size,), jnp.float32, maxval=2 * np.pi)
    return WaveMap(waves, phases, jnp.sqrt(2 * kernel.spectral_mass() / size))
