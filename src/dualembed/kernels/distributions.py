"""Kernels on distributions: averages of a kernel over a group or over draws, and integrals of powers of densities.

All are inner products of mean embeddings, k(P, Q) = E k(z, z') for independent z ~ P and z' ~ Q, of distributions
that rows of numbers stand for: the orbit of a point, a set of draws, a Gaussian about a point.
"""

from __future__ import annotations

import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.arrays import AnyArray, Floats
from dualembed.kernels.base import Kernel, Parameter, aligned, check_positive, parameter
from dualembed.kernels.stationary import Gaussian
from dualembed.samplers import key_of

BLOCK = 2**20  # kernel values made at one time in NumPy, eight megabytes


def _group(group: Any) -> Any:
    """Matrices in float64, which rotations by other than right angles need; a function as a pytree without leaves."""
    if isinstance(group, (eqx.Module, jax.tree_util.Partial, jax.core.Tracer, str)) or group is None:
        return group
    if callable(group):
        return jax.tree_util.Partial(group)
    try:
        return np.asarray(group, dtype=np.float64)
    except (TypeError, ValueError):  # left for the entrance check to name
        return group


@final
class HaarIntegral(Kernel):
    """A kernel averaged over a group, mean over g, g' of k(g x, g' z): the same at x and g x for every g.

    For an infinite group give as many drawn elements as you can afford (`rotations` draws some): the kernel is still
    positive definite, and invariant up to an error of order 1/√G. Each value costs G² values of k (Haasdonk and
    Burkhardt 2007).

    Parameters
    ----------
    kernel : Kernel
        The kernel k.
    group : array of shape (G, d, d) or callable
        Matrices of all elements, or a function from points (n, d) to orbits (n, G, d), which keeps NumPy arrays NumPy.

    Examples
    --------
    >>> mirror = HaarIntegral(Gaussian(1.0), [[[1.0]], [[-1.0]]])
    >>> bool(mirror.gram([[0.3]], [[2.0]]) == mirror.gram([[-0.3]], [[2.0]]))
    True
    """

    kernel: Kernel
    group: Any = eqx.field(converter=_group)

    def __check_init__(self) -> None:
        checks.instance("HaarIntegral's kernel", self.kernel, Kernel, "such as Gaussian(0.5)")
        if callable(self.group) or checks.traced(self.group):
            return
        shape = np.shape(checks.array("the matrices of a group", self.group))
        if len(shape) != 3 or shape[1] != shape[2]:
            raise checks.InputError(
                f"a group's matrices must have shape (elements, d, d), not {shape}; otherwise give a function from "
                "points (n, d) to their orbits (n, elements, d)"
            )

    def check(self, dim: int) -> None:
        """The matrices must act on points of `dim` coordinates."""
        if not callable(self.group) and self.group.shape[1] != dim:
            raise checks.InputError(
                f"HaarIntegral's matrices act on {self.group.shape[1]} coordinate(s), but the points have {dim}"
            )
        self.kernel.check(dim)

    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        xp, x, z = aligned(self, x, z)
        return mean_gram(self.kernel, self.orbits(xp, x), self.orbits(xp, z))

    def diagonal(self, x: AnyArray) -> AnyArray:
        xp, x = aligned(self, x)
        return mean_diagonal(self.kernel, self.orbits(xp, x))

    def orbits(self, xp: Any, x: AnyArray) -> AnyArray:
        """The images of points under the group.

        Parameters
        ----------
        xp : module
            The namespace to compute in, numpy or jax.numpy.
        x : array of shape (n, d)
            Points.

        Returns
        -------
        array of shape (n, G, d)
            Their images.
        """
        if not callable(self.group):
            return xp.einsum("gij,nj->ngi", xp.asarray(self.group, dtype=x.dtype), x)
        images = xp.asarray(self.group(x), dtype=x.dtype)
        if images.ndim != 3 or images.shape[0] != x.shape[0] or images.shape[2] != x.shape[1]:
            raise checks.InputError(
                f"a group given as a function must turn points {x.shape} into orbits (points, elements, coordinates), "
                f"but gave {images.shape}"
            )
        return images


@final
class MeanOverDraws(Kernel):
    """The inner product of the mean embeddings of two samples: mean over draws a, b of k(x_a, z_b).

    A row holds M draws one after another. With k = ProbabilityProduct(noise) it is ∫ p̂ q̂ between the two samples'
    densities, each smoothed by a Gaussian of that noise: the empirical probability product of power 1.

    Parameters
    ----------
    kernel : Kernel
        The kernel k of two draws.
    dimension : int
        Coordinates of a draw.

    Examples
    --------
    >>> sets = np.array([[0.0, 1.0], [0.0, 2.0]])  # two samples of two numbers
    >>> MeanOverDraws(Gaussian(1.0), 1).gram(sets, sets).shape
    (2, 2)
    """

    kernel: Kernel
    dimension: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        checks.instance("MeanOverDraws's kernel", self.kernel, Kernel, "such as Gaussian(0.5)")
        checks.count("dimension", self.dimension)

    def check(self, dim: int) -> None:
        """A row must hold whole draws."""
        if dim % self.dimension:
            raise checks.InputError(
                f"a row of {dim} number(s) does not hold whole draws of {self.dimension} coordinate(s); flatten draws "
                "(n, M, d) to (n, M * d)"
            )
        self.kernel.check(self.dimension)

    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        # Samples of different sizes may meet, so the two are aligned one by one.
        _, x = aligned(self, x)
        _, z = aligned(self, z)
        return mean_gram(self.kernel, self._draws(x), self._draws(z))

    def diagonal(self, x: AnyArray) -> AnyArray:
        _, x = aligned(self, x)
        return mean_diagonal(self.kernel, self._draws(x))

    def _draws(self, x: AnyArray) -> AnyArray:
        return x.reshape(x.shape[0], -1, self.dimension)


@final
class ProbabilityProduct(Kernel):
    """The kernel ∫ N(s; x, noise² I)^power N(s; z, noise² I)^power ds of two means (Jebara, Kondor and Howard 2004).

    In d coordinates, with power ρ and noise σ (if there is one for each coordinate, their factors multiply),

        k(x, z) = (2πσ²)^(-dρ) (πσ²/ρ)^(d/2) exp(-ρ |x - z|² / (4σ²))

    ρ = 1 is the expected likelihood kernel, (4πσ²)^(-d/2) exp(-|x - z|² / (4σ²)), and ρ = 1/2 the Bhattacharyya
    kernel, exp(-|x - z|² / (8σ²)), with factor 1. It is a Gaussian kernel of bandwidth σ √(2/ρ), and has its
    frequencies.

    Parameters
    ----------
    noise : float or array of shape (d,)
        Standard deviation σ: one number, or one for each coordinate.
    power : float, default=1.0
        The power ρ.

    Examples
    --------
    >>> round(float(ProbabilityProduct(1.0, 0.5).gram([[0.0]], [[2.0]])[0, 0]), 4)  # exp(-4/8)
    0.6065
    """

    noise: Parameter = eqx.field(converter=checks.real)
    power: Parameter = eqx.field(converter=checks.real, default=1.0)

    def __check_init__(self) -> None:
        check_positive(self, "noise", "power")
        checks.single("ProbabilityProduct's power", self.power)

    @property
    def gaussian(self) -> Gaussian:
        """The kernel without its factor."""
        return Gaussian(self.noise * (2 / self.power) ** 0.5)

    def factor(self, dim: int) -> jax.Array:
        """The value k(x, x) = Π_j (2πσ_j²)^(-ρ) (πσ_j²/ρ)^(1/2).

        Parameters
        ----------
        dim : int
            Number of coordinates.

        Returns
        -------
        array
            One number.
        """
        return jnp.exp(self._log_factor(jnp, self.noise, self.power, dim))

    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        values = self.gaussian.gram(x, z)
        return values * self._factor_like(values, np.shape(x)[1])

    def diagonal(self, x: AnyArray) -> AnyArray:
        values = self.gaussian.diagonal(x)
        return values * self._factor_like(values, np.shape(x)[1])

    def _factor_like(self, values: AnyArray, dim: int) -> Any:
        xp = np if isinstance(values, np.ndarray) else jnp
        noise, power = parameter(self.noise, values), parameter(self.power, values)
        return xp.exp(self._log_factor(xp, noise, power, dim))

    @staticmethod
    def _log_factor(xp: Any, noise: Any, power: Any, dim: int) -> Any:
        # In logarithms: the factor of many coordinates leaves float32's range on the way.
        each = -power * xp.log(2 * math.pi * noise**2) + xp.log(math.pi * noise**2 / power) / 2
        return xp.sum(xp.broadcast_to(each, (dim,)))

    def frequencies(self, key: jax.Array, count: int, dim: int) -> jax.Array:
        return self.gaussian.frequencies(key, count, dim)

    def spectral_mass(self) -> Parameter:
        """k(x, x), which depends on the number of coordinates unless power is 1/2."""
        if np.ndim(self.noise) == 1:
            return self.factor(np.shape(self.noise)[0])
        if not checks.traced(self.power) and float(self.power) == 0.5:
            return 1.0
        raise checks.InputError(
            "random features of ProbabilityProduct need the noise of each coordinate, not one number, since its factor "
            "depends on how many there are; give a list, or power 0.5"
        )


def rotations(key: jax.Array | int, count: int, dimension: int) -> Floats:
    """Rotations drawn uniformly from SO(d): elements for a `HaarIntegral`.

    The orthogonal factor of a Gaussian matrix, its signs settled by the triangular one, is uniform on O(d); swapping
    two columns of those with determinant -1 makes it uniform on SO(d).

    Parameters
    ----------
    key : array or int
        A JAX key or a seed.
    count : int
        Number of rotations.
    dimension : int
        Number of coordinates d, at least 2.

    Returns
    -------
    array of shape (count, d, d)
        Matrices in float64.

    Examples
    --------
    >>> rotations(jax.random.key(0), 5, 3).shape
    (5, 3, 3)
    """
    checks.count("count", count)
    checks.count("dimension", dimension, at_least=2)
    squares = np.asarray(jax.random.normal(key_of(key), (count, dimension, dimension), jnp.float32), dtype=np.float64)
    factors, triangles = np.linalg.qr(squares)
    factors = factors * np.sign(np.diagonal(triangles, axis1=1, axis2=2))[:, None, :]
    mirrored = np.linalg.det(factors) < 0
    factors[mirrored] = factors[mirrored][:, :, [1, 0, *range(2, dimension)]]
    return factors


def mean_gram(kernel: Kernel, x: AnyArray, z: AnyArray) -> AnyArray:
    """mean over a, b of k(x_ia, z_jb), shape (n, m), for x (n, A, d) and z (m, B, d); never an array of all four."""
    if 0 in (x.shape[0], z.shape[0]):
        return (jnp if isinstance(x, jax.Array) else np).zeros((x.shape[0], z.shape[0]), dtype=x.dtype)
    if not isinstance(x, jax.Array) and not isinstance(z, jax.Array) and not checks.traced(kernel):
        return _blockwise(kernel, x, z)
    x, z = jnp.asarray(x), jnp.asarray(z)
    flat = x.reshape(-1, x.shape[-1])

    def add(total: jax.Array, images: jax.Array) -> tuple[jax.Array, None]:
        return total + kernel.gram(flat, images).reshape(x.shape[0], x.shape[1], -1).mean(axis=1), None

    start = jnp.zeros((x.shape[0], z.shape[0]), jnp.result_type(x, z))
    return jax.lax.scan(add, start, jnp.swapaxes(z, 0, 1))[0] / z.shape[1]


def _blockwise(kernel: Kernel, x: Floats, z: Floats) -> Floats:
    """The same in NumPy, so many images of each side at a time that a block of values stays near BLOCK."""
    (n, images_x, dim), (m, images_z, _) = x.shape, z.shape
    some_x = max(1, min(images_x, BLOCK // (n * m)))
    some_z = max(1, min(images_z, BLOCK // (n * m * some_x)))
    total = np.zeros((n, m), dtype=np.result_type(x, z))
    for a in range(0, images_x, some_x):
        left = x[:, a : a + some_x].reshape(-1, dim)
        for b in range(0, images_z, some_z):
            values = kernel.gram(left, z[:, b : b + some_z].reshape(-1, dim))
            total += values.reshape(n, -1, m, values.shape[1] // m).sum(axis=(1, 3))
    return total / (images_x * images_z)


def mean_diagonal(kernel: Kernel, x: AnyArray) -> AnyArray:
    """mean over a, b of k(x_ia, x_ib), shape (n,), for x (n, A, d)."""
    if isinstance(x, jax.Array) or checks.traced(kernel):
        return jax.lax.map(lambda images: kernel.gram(images, images).mean(), jnp.asarray(x), batch_size=64)
    return np.array([kernel.gram(images, images).mean() for images in x], dtype=x.dtype)
