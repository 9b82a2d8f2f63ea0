"""One small instance of every function space, for laws that all of them obey."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from dualembed import kernels, spaces
from dualembed.spaces.base import FunctionSpace

KERNEL = kernels.Gaussian(0.8)


def monomials(x: jax.Array) -> jax.Array:
    """1, x, y, ..., and the sum of squares."""
    return jnp.concatenate([jnp.ones((x.shape[0], 1)), x, jnp.sum(x**2, axis=1, keepdims=True)], axis=1)


SPACES: dict[str, FunctionSpace] = {
    "rkhs": spaces.RKHS(KERNEL),
    "fourier": spaces.Fourier(KERNEL, size=32),
    "fourier-pairs": spaces.Fourier(KERNEL, size=32, pairs=True, orthogonal=True),
    "nystrom": spaces.Nystrom(KERNEL, size=8),
    "basis": spaces.Basis(monomials),
    "doubly-stochastic": spaces.DoublyStochastic(KERNEL, block=16),
    "network": spaces.Network(width=8, depth=1, optimiser=optax.identity()),
}
