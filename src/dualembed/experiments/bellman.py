"""Bellman errors of value functions in processes whose next state is normal around a known mean.

The paper squares a mean of V over 100 drawn next states, which adds discount² Var(V(s') | s) / 100. Here E[V(s') | s]
is exact for functions of Gaussian kernels and of waves; for others it is estimated, and the excess taken off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualembed import kernels, sources
from dualembed.spaces.base import Function
from dualembed.spaces.fourier import WaveMap
from dualembed.spaces.linear import LinearFunction
from dualembed.spaces.nystrom import LandmarkMap
from dualembed.spaces.rkhs import KernelFunction

TEST_SEED = 20_160_711  # no training seed that anybody would choose
TEST_STATES = 1000
NEXT_STATES = 100
BLOCK = 500  # transitions drawn side by side
# Of simulators: they are long programs that run for a second, and more would cost more than it saves.
LITTLE_OPTIMISED = {"xla_backend_optimization_level": 1}
SOME_STATES = 200  # of them, for rough errors and for the variance of V(s')

Value = Callable[[Any], Any]


class Tested(NamedTuple):
    """States (n, d) with their rewards (n,) and the means of their next states (n, d)."""

    states: np.ndarray
    rewards: np.ndarray
    next_means: np.ndarray


@dataclass(frozen=True)
class Process:
    """A decision process under its policy: s' ~ N(next_mean(s), deviation² I), all functions of one state (d,).

    `reward` is what V sums up, discounted, whether it is a gain or a cost. `quadrature(V, means)` is E[V(s')] (n,) for
    means (n, d), where a process has one for any V.
    """

    draw_state: Callable[[jax.Array], jax.Array]
    next_mean: Callable[[jax.Array], jax.Array]
    reward: Callable[[jax.Array], jax.Array]
    deviation: float
    discount: float
    quadrature: Callable[[Value, np.ndarray], np.ndarray] | None = None
    states: np.ndarray | None = None  # on which errors are measured, where they are not to be drawn

    def draw(self, key: jax.Array) -> dict[str, jax.Array]:
        """One transition: state (d,), reward, next_state (d,)."""
        state_key, noise_key = jax.random.split(key)
        state = self.draw_state(state_key)
        noise = self.deviation * jax.random.normal(noise_key, state.shape)
        return {"state": state, "reward": self.reward(state), "next_state": self.next_mean(state) + noise}

    def dataset(self, n: int, seed: int) -> sources.Dataset:
        """n independent transitions; the last few data sets are kept, since methods of a trial share one."""
        return self._datasets(n, seed)

    @cached_property
    def _datasets(self) -> Callable[[int, int], sources.Dataset]:
        return lru_cache(maxsize=4)(lambda n, seed: sources.Dataset(**self._drawn(n, seed)))

    def _drawn(self, n: int, seed: int) -> dict[str, np.ndarray]:
        """Transitions, drawn in blocks: a block stays in the processor's cache, and one program serves all sizes."""
        keys = jax.random.split(jax.random.key(seed), -(-n // BLOCK) * BLOCK).reshape(-1, BLOCK)
        blocks = [jax.tree.map(np.asarray, self._draw_block(each)) for each in keys]
        return {name: np.concatenate([block[name] for block in blocks])[:n] for name in blocks[0]}

    @cached_property
    def _draw_block(self) -> Callable[[jax.Array], dict[str, jax.Array]]:
        return jax.jit(jax.vmap(self.draw), compiler_options=LITTLE_OPTIMISED)

    def test_states(self, count: int = TEST_STATES) -> np.ndarray:
        """States (count, d) on which errors are measured, the same for everybody."""
        return self.states[:count] if self.states is not None else self._drawn(count, TEST_SEED)["state"]

    def tested(self, states: np.ndarray) -> Tested:
        """What is known at the states."""
        return Tested(np.asarray(states), *map(np.asarray, self._known(jnp.asarray(states))))

    @cached_property
    def _known(self) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
        known = jax.vmap(lambda state: (self.reward(state), self.next_mean(state)))
        return jax.jit(known, compiler_options=LITTLE_OPTIMISED)

    @cached_property
    def _usual(self) -> Tested:
        return self.tested(self.test_states())

    @cached_property
    def _some(self) -> Tested:
        return Tested(*(rows[:SOME_STATES] for rows in self._usual))

    def msbe(self, function: Value, states: np.ndarray | None = None) -> float:
        """Mean over the states of (V(s) - R(s) - discount E[V(s') | s])², without bias.

        Where E[V(s') | s] can only be estimated it may come out slightly negative at a perfect V.
        """
        return self._msbe(function, self._usual if states is None else self.tested(states))

    def rough_msbe(self, function: Value) -> float:
        """The same on the first 200 test states."""
        return self._msbe(function, self._some)

    def _msbe(self, function: Value, tested: Tested) -> float:
        expected, excess = self._expected(function, tested)
        residual = _at(function, tested.states) - tested.rewards - self.discount * expected
        return float(np.mean(residual**2 - self.discount**2 * excess))

    def plug_in_msbe(self, function: Value) -> float:
        """What the paper's figure is in expectation: the MSBE, and discount² Var(V(s') | s) / 100 on top of it.

        The variance is that at the first 200 states.
        """
        _, excess = self._sampled(function, self._some)
        return self.msbe(function) + self.discount**2 * float(np.mean(excess))

    def _expected(self, function: Value, tested: Tested) -> tuple[np.ndarray, np.ndarray]:
        """(E[V(s') | s], by how much the square of that exceeds the true one on average), both (n,)."""
        average = smoothed(function, self.deviation)
        if average is not None:
            return _at(average, tested.next_means), np.zeros(len(tested.rewards))
        if self.quadrature is not None:
            return self.quadrature(function, tested.next_means), np.zeros(len(tested.rewards))
        return self._sampled(function, tested)

    def _sampled(self, function: Value, tested: Tested) -> tuple[np.ndarray, np.ndarray]:
        """The mean (n,) of V over drawn next states, and the variance of that mean."""
        means = tested.next_means
        noise = np.random.default_rng(TEST_SEED).standard_normal((NEXT_STATES, *means.shape))
        following = (means + self.deviation * noise).reshape(-1, means.shape[1])
        values = _at(function, following).reshape(NEXT_STATES, -1)
        return values.mean(axis=0), values.var(axis=0, ddof=1) / NEXT_STATES


def smoothed(function: Value, deviation: float) -> Function | None:
    """x -> E[f(x + e)] for e ~ N(0, deviation² I), where it is known exactly, or None.

    A Gaussian of bandwidth σ becomes one of √(σ² + deviation²), Π_j σ_j / √(σ_j² + deviation²) times as high; a wave of
    frequency ω keeps its shape and loses the factor exp(-deviation² |ω|² / 2).
    """
    match function:
        case KernelFunction(kernel=kernels.Gaussian()):
            wider, height = _widened(function.kernel, deviation, function.dimension)
            return KernelFunction(
                wider, function.centres, height * function.coefficients, function.used, tile=function.tile
            )
        case LinearFunction(features=LandmarkMap(kernel=kernels.Gaussian()) as features):
            wider, height = _widened(features.kernel, deviation, features.dimension)
            return LinearFunction(LandmarkMap(wider, features.landmarks, features.whitener), height * function.weights)
        case LinearFunction(features=WaveMap() as features):
            kept = jnp.exp(-0.5 * deviation**2 * jnp.sum(features.frequencies**2, axis=1))
            kept = kept if features.phases is not None else jnp.concatenate([kept, kept])
            return LinearFunction(features, kept * function.weights)
    return None


def _widened(kernel: Any, deviation: float, dimension: int) -> tuple[kernels.Gaussian, float]:
    """(the kernel averaged over normal noise, but for its height; that height)."""
    widths = np.broadcast_to(np.asarray(kernel.bandwidth, dtype=np.float64), (dimension,))
    wider = np.sqrt(widths**2 + deviation**2)
    return kernels.Gaussian(wider), float(np.prod(widths / wider))


def _at(function: Value, points: np.ndarray) -> np.ndarray:
    return np.asarray(function(points), dtype=np.float64)
