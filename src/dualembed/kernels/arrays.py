"""What kernels compute with, on NumPy and JAX arrays alike: aligned points, distances, angles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks

if TYPE_CHECKING:
    from dualembed.kernels.base import Kernel

Parameter = float | jax.Array | np.ndarray
"""A hyper-parameter: one number, or one for each coordinate."""


def aligned(kernel: Kernel, *points: Any) -> tuple[Any, ...]:
    """The namespace to compute in, then the points as floating arrays of it, checked against the kernel.

    NumPy points stay NumPy, also with JAX hyper-parameters (which would make float32 of them), unless those
    are traced: then somebody differentiates with respect to them.
    """
    plain = not any(isinstance(rows, jax.Array) for rows in points) and not checks.traced(kernel)
    xp: Any = np if plain else jnp
    arrays = [xp.asarray(rows) for rows in points]
    if any(rows.ndim != 2 or rows.shape[1] != arrays[0].shape[-1] for rows in arrays):
        shapes = " and ".join(str(rows.shape) for rows in arrays)
        raise checks.InputError(f"a kernel wants points of shape (rows, coordinates), not {shapes}; reshape them")
    kernel.check(arrays[0].shape[1])
    return xp, *(rows if xp.issubdtype(rows.dtype, xp.floating) else rows.astype(float) for rows in arrays)


def parameter(value: Parameter, like: Any) -> Any:
    """The hyper-parameter, ready to meet an array without changing its namespace or precision."""
    plain = isinstance(like, np.ndarray) and not checks.traced(value)
    return np.asarray(value, dtype=like.dtype) if plain else value


def inner_products(xp: Any, x: Any, z: Any) -> Any:
    """The products x_i·z_j, shape (n, m), never in the reduced precision that accelerators default to."""
    return x @ z.T if xp is np else jnp.matmul(x, z.T, precision="highest")


def centred(x: Any, z: Any) -> tuple[Any, Any]:
    """Both sets of points seen from the first z, which no kernel of x - z can tell.

    Points far from the origin would lose the digits of their differences as soon as they are divided by a
    bandwidth or squared; subtracted first, they lose none.
    """
    origin = z[:1].sum(axis=0)
    return x - origin, z - origin


def squared_distances(xp: Any, x: Any, z: Any) -> Any:
    """The squared distances |x_i - z_j|^2, shape (n, m), of centred points.

    One coordinate is subtracted directly; several are multiplied out as one matrix product, which in the tiles
    of a kernel expansion runs 1.5 to 3 times as fast from two coordinates on.
    """
    if x.shape[1] == 1:
        return (x - z.T) ** 2
    return xp.maximum((x**2).sum(axis=1)[:, None] + (z**2).sum(axis=1) - 2 * inner_products(xp, x, z), 0)


def root(xp: Any, squared: Any) -> Any:
    """The square root, with slope 0 instead of infinity at 0."""
    return np.sqrt(squared) if xp is np else _root(squared)


# A rule of its own for the slope: under jit, XLA mistakes the values of nested `where`s with their gradient, the usual
# way to write this, at points that coincide.
@jax.custom_jvp
def _root(squared: jax.Array) -> jax.Array:
    return jnp.sqrt(squared)


@_root.defjvp
def _root_slope(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
    length = jnp.sqrt(primals[0])
    slope = jnp.where(length > 0, 0.5 / jnp.where(length > 0, length, 1.0), 0.0)
    return length, slope * tangents[0]


def angle(xp: Any, cosine: Any) -> Any:
    """The angle in [0, π] of a cosine that rounding may push past ±1, with slope 0 there, not infinity."""
    within = xp.abs(cosine) < 1
    beyond = xp.where(cosine > 0, cosine * 0, cosine * 0 + math.pi)
    return xp.where(within, xp.arccos(xp.where(within, cosine, 0)), beyond)


def check_positive(kernel: Kernel, *names: str) -> None:
    """Raise unless the named hyper-parameters are positive: one number each, or one for each coordinate."""
    for name in names:
        value = getattr(kernel, name)
        label = f"{type(kernel).__name__}'s {name}"
        checks.positive(label, value, "median_bandwidth(points) suggests one" if name == "bandwidth" else "")
        if np.ndim(value) > 1:
            raise checks.InputError(
                f"{label} must be one number or one for each coordinate, but its shape is {np.shape(value)}"
            )


def check_single(name: str, value: Any) -> None:
    """Raise unless the hyper-parameter is one number."""
    if np.ndim(value) != 0:
        raise checks.InputError(f"{name} must be one number, but its shape is {np.shape(value)}")
