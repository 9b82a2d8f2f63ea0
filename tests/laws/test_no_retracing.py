"""Numbers are traced, shapes are not: a new float never compiles again, and sweeps can be vmapped."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualembed as de
from dualembed import kernels, losses, problems, schedules, solvers, sources, spaces
from dualembed.solvers.stochastic import advance, functions

XS = jnp.linspace(-1.0, 1.0, 7)


def draw(key: jax.Array) -> dict[str, jax.Array]:
    x, noise = jax.random.normal(key, (2,))
    return {"x": x, "y": jnp.sin(x), "z": x + 0.1 * noise}


def solved(key: Any, *, bandwidth: Any, rate: Any, penalty: Any, space: str = "rkhs", source: Any) -> de.Result:
    kernel = kernels.Gaussian(bandwidth)
    make = {
        "rkhs": spaces.RKHS,
        "fourier": lambda k: spaces.Fourier(k, size=32),
        "nystrom": lambda k: spaces.Nystrom(k, size=16),
        "doubly": lambda k: spaces.DoublyStochastic(k, block=8),
    }[space]
    problem = problems.Invariance(source, losses.Huber(rate))
    saddle = de.Saddle(problem, make(kernel), make(kernel), primal_penalty=penalty, dual_penalty=penalty)
    return de.solve(key, saddle, solvers.EmbeddingSGD(60, 5, schedules.OffsetSqrt(rate, rate)))


@functools.cache
def rows() -> sources.Dataset:
    return sources.Dataset(**jax.vmap(draw)(jax.random.split(jax.random.key(0), 40)))


@pytest.mark.parametrize("space", ["rkhs", "fourier", "nystrom", "doubly"])
def test_a_changed_float_does_not_compile_again(space: str) -> None:
    data = rows()
    solved(0, bandwidth=0.5, rate=0.3, penalty=0.1, space=space, source=data)
    before = advance._cache_size(), functions._cache_size()
    for number, (bandwidth, rate, penalty) in enumerate([(0.6, 0.4, 0.2), (2, 1, 1), (np.float64(0.7), 0.1, 0.0)]):
        solved(number, bandwidth=bandwidth, rate=rate, penalty=penalty, space=space, source=data)
    assert (advance._cache_size(), functions._cache_size()) == before


@pytest.mark.parametrize("space", ["rkhs", "fourier", "nystrom", "doubly"])
def test_seeds_steps_and_bandwidths_can_be_vmapped(space: str) -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    bandwidths, rates = jnp.asarray([0.4, 0.5, 0.6]), jnp.asarray([0.1, 0.2, 0.3])
    # One space draws from the simulator; the others run alone on what they have been compiled for above.
    source = sources.Simulator(draw) if space == "fourier" else rows()

    def values(key: jax.Array, bandwidth: Any, rate: Any) -> jax.Array:
        return solved(key, bandwidth=bandwidth, rate=rate, penalty=0.1, space=space, source=source).primal(XS)

    together = jax.vmap(values)(keys, bandwidths, rates)
    for number in range(3):
        alone = values(keys[number], float(bandwidths[number]), float(rates[number]))
        # Under vmap landmarks are whitened in float32, which resolves fewer directions.
        np.testing.assert_allclose(together[number], alone, atol=1e-3 if space == "nystrom" else 1e-5)


def test_a_stream_under_vmap_is_refused() -> None:
    stream = sources.Stream([{"x": np.ones(50), "y": np.ones(50), "z": np.ones(50)}])
    with pytest.raises(de.InputError, match="Stream cannot be run under jit or vmap"):
        jax.vmap(lambda rate: solved(0, bandwidth=0.5, rate=rate, penalty=0.1, source=stream).primal(XS))(
            jnp.asarray([0.1, 0.2])
        )
