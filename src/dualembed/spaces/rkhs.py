"""The reproducing kernel Hilbert space of a kernel: the paper's growing kernel expansion."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from dualembed import checks
from dualembed.kernels import Kernel
from dualembed.spaces.base import Function, FunctionSpace, Layout, Regulariser, RunningAverage, Update
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.nystrom import whitened

FULL = 6000  # points up to which a closed form takes the whole RKHS on them


class RKHS(FunctionSpace):
    """The RKHS of a kernel: f = Σ_j c_j k(centre_j, ·), to which each step adds its points as centres.

    Memory for a run of T steps of B samples with K points each, N = min(T B, rows of a finite data set):
    4 N K (d + 1) bytes for the expansion and 4 T B (K + 1) for the record behind the average, in float32.
    Over a finite data set later passes add to the coefficients of centres already there.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    """

    kernel: Kernel

    def __check_init__(self) -> None:
        checks.instance("kernel", self.kernel, Kernel, "such as kernels.Gaussian(0.5)")

    def check(self, dimension: int) -> None:
        """The kernel must fit the dimension."""
        self.kernel.check(dimension)

    def feature_map(self, key: jax.Array, layout: Layout) -> FeatureMap:
        """By the representer theorem, the span of the kernel at all the points, at a cost cubic in their number."""
        if layout.pilot.shape[0] > FULL:
            raise checks.InputError(
                f"a closed form over the whole RKHS of {layout.pilot.shape[0]} points costs their cube; "
                f"use Nystrom beyond {FULL}"
            )
        return whitened(self.kernel, layout.pilot)

    def init(self, key: jax.Array, layout: Layout) -> Expansion:
        """The zero function with room for every centre of the run."""
        tile = _tile(layout.batch * layout.per_sample)
        # Whole tiles, so that a slice of centres never runs over the end.
        samples = -(-layout.capacity * layout.per_sample // tile) * tile
        samples = -(-samples // layout.per_sample)
        dtype = layout.pilot.dtype
        return Expansion(
            centres=jnp.zeros((samples, layout.per_sample, layout.dimension), dtype),
            coefficients=jnp.zeros((samples, layout.per_sample), dtype),
            used=jnp.zeros((), jnp.int32),
            norm2=jnp.zeros((), dtype),
            average=RunningAverage.empty(layout.steps, (layout.batch, layout.per_sample), dtype),
            slots=jnp.zeros((layout.steps, layout.batch), jnp.int32),
            tile=tile,
        )

    def evaluate(self, state: Expansion, xs: jax.Array) -> jax.Array:
        """Σ_j c_j k(centre_j, x), over the occupied centres only."""
        return self.last(state).evaluate(xs)

    def descend(self, state: Expansion, update: Update, step: jax.Array, regulariser: Regulariser) -> Expansion:
        """Append -step·slopes at the points; the norm follows in O((B K)²) from the values just computed."""
        points = update.points.reshape(-1, update.points.shape[-1])
        added = -step * update.slopes.reshape(-1)
        shrink = regulariser.shrinkage(step)
        norm2 = self._moved_norm2(state.norm2, points, added, shrink * update.values.reshape(-1), shrink=shrink)
        project = regulariser.projection(norm2)
        delta = (project * added).reshape(update.slopes.shape)
        old = state.coefficients if regulariser.idle else project * shrink * state.coefficients
        return Expansion(
            centres=state.centres.at[update.slots].set(update.points),
            coefficients=old.at[update.slots].add(delta),
            used=jnp.maximum(state.used, jnp.max(update.slots).astype(jnp.int32) + 1),
            norm2=project**2 * norm2,
            average=state.average.record(update.number, step, project * shrink, delta),
            slots=state.slots.at[update.number].set(update.slots.astype(jnp.int32)),
            tile=state.tile,
        )

    def _moved_norm2(
        self, norm2: jax.Array, points: jax.Array, added: jax.Array, values: jax.Array, *, shrink: jax.Array
    ) -> jax.Array:
        """|a f + Δ|² = a² |f|² + 2 Σ_b c_b a f(x_b) + cᵀ K c, with K built a few rows at a time."""
        rows = min(len(points), 1024)
        padding = -len(points) % rows
        blocks = jnp.pad(points, ((0, padding), (0, 0))).reshape(-1, rows, points.shape[1])
        weights = jnp.pad(added, (0, padding)).reshape(-1, rows)
        own = jax.lax.map(lambda part: part[1] @ (self.kernel.gram(part[0], points) @ added), (blocks, weights))
        return jnp.maximum(shrink**2 * norm2 + 2 * jnp.dot(added, values) + jnp.sum(own), 0.0)

    def norm2(self, state: Expansion) -> jax.Array:
        """|f|² as kept up step by step."""
        return state.norm2

    def last(self, state: Expansion) -> KernelFunction:
        """The current expansion."""
        return self._function(state, state.coefficients)

    def averaged(self, state: Expansion) -> KernelFunction:
        """The same centres under averaged coefficients."""
        averages = state.average.averages()
        coefficients = (
            jnp.zeros_like(state.coefficients).at[state.slots.reshape(-1)].add(averages.reshape(-1, averages.shape[-1]))
        )
        return self._function(state, coefficients)

    def _function(self, state: Expansion, coefficients: jax.Array) -> KernelFunction:
        whole = state.coefficients.size // state.tile * state.tile
        centres = state.centres.reshape(-1, state.centres.shape[-1])[:whole]
        used = state.used * state.centres.shape[1]
        return KernelFunction(self.kernel, centres, coefficients.reshape(-1)[:whole], used, tile=state.tile)


class Expansion(eqx.Module):
    """Centres and coefficients in slots, and the record of what each step added."""

    centres: jax.Array  # (N, K, d)
    coefficients: jax.Array  # (N, K)
    used: jax.Array  # occupied slots, always a prefix
    norm2: jax.Array
    average: RunningAverage
    slots: jax.Array  # (T, B): where each step's Δ went
    tile: int = eqx.field(static=True)


class KernelFunction(Function):
    """f = Σ_j coefficients_j k(centres_j, ·); only the first `used` centres count (all, when None)."""

    kernel: Kernel
    centres: jax.Array  # (N, d), N a multiple of tile
    coefficients: jax.Array  # (N,)
    used: jax.Array | None = None
    tile: int = eqx.field(default=1, static=True)

    @property
    def dimension(self) -> int:
        """Coordinates of a centre."""
        return self.centres.shape[1]

    def evaluate(self, xs: jax.Array) -> jax.Array:
        """Σ_j c_j k(x, centre_j), tile by tile so that a tile of kernel values stays in cache."""
        tiles = self.centres.shape[0] // self.tile
        centres = self.centres.reshape(tiles, self.tile, -1)
        coefficients = self.coefficients.reshape(tiles, self.tile)

        def add(number: jax.Array, total: jax.Array) -> jax.Array:
            return total + self.kernel.gram(xs, centres[number]) @ coefficients[number]

        # A loop that ends at the last occupied tile pays nothing for empty slots; a fixed one can be differentiated.
        stop = tiles if self.used is None else -(-self.used // self.tile)
        dtype = jnp.result_type(xs, self.coefficients, self.centres)
        return jax.lax.fori_loop(0, stop, add, jnp.zeros(xs.shape[0], dtype))

    def norm2(self) -> jax.Array:
        """cᵀ K c, computed afresh."""
        return jnp.dot(
            self.coefficients, jax.lax.map(lambda c: self.evaluate(c[None])[0], self.centres, batch_size=256)
        )

    def features_on(self, points: jax.Array) -> FeatureMap:
        """By the representer theorem, the span of the kernel at the points."""
        return whitened(self.kernel, points)

    def trimmed(self) -> KernelFunction:
        """Only the occupied centres, in whole tiles."""
        if self.used is None:
            return self
        kept = max(1, -(-int(self.used) // self.tile)) * self.tile
        return KernelFunction(self.kernel, self.centres[:kept], self.coefficients[:kept], None, tile=self.tile)


def _tile(queries: int) -> int:
    """Centres per tile: about 2^15 kernel values at a time, which stay in a core's cache; 256 to 2048 centres."""
    return max(256, min(2048, 1 << max(1, (1 << 15) // max(queries, 1)).bit_length() - 1))
