"""What a kernel is, the algebra of kernels, and what they compute with, on NumPy and JAX arrays alike."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.arrays import AnyArray, Floats

Pull: TypeAlias = Callable[[Floats], list[Floats]]
"""From weights (n, m) on kernel values to slopes in each hyper-parameter."""

Parameter: TypeAlias = AnyArray
"""A hyper-parameter: one number, or one for each coordinate in a list or an array."""


class Kernel(eqx.Module):
    """A positive definite function k(x, z) of two rows; hyper-parameters are pytree leaves.

    Kernels add and multiply: `Gaussian(1.0) + 2.0 * Polynomial(2)`. NumPy points give NumPy values in their own
    precision; JAX points give JAX values, traced or not.
    """

    __array_ufunc__: ClassVar[None] = None  # so that a NumPy number times a kernel comes to `__rmul__`

    @abc.abstractmethod
    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        """The values k(x_i, z_j).

        Parameters
        ----------
        x : array of shape (n, d)
            Points.
        z : array of shape (m, d)
            Points.

        Returns
        -------
        array of shape (n, m)
            Kernel values.
        """

    def gram_with_slopes(self, x: Floats, z: Floats) -> tuple[Floats, Pull]:
        """The values k(x_i, z_j), and what pulls weights on them back to the hyper-parameters, in float64.

        By default JAX differentiates; kernels that are searched for have their slopes written out.

        Parameters
        ----------
        x : array of shape (n, d)
            Points.
        z : array of shape (m, d)
            Points.

        Returns
        -------
        values : array of shape (n, m)
            Kernel values.
        pull : callable
            From weights W (n, m) to the slopes of Σ W_ij k(x_i, z_j) in the leaves of the kernel, in their order.
        """
        with jax.enable_x64(True):
            doubled = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=jnp.float64), self)
            values, pull = jax.vjp(lambda kernel: kernel.gram(jnp.asarray(x), jnp.asarray(z)), doubled)

        def pulled(weights: Floats) -> list[Floats]:
            with jax.enable_x64(True):
                return [np.asarray(leaf) for leaf in jax.tree.leaves(pull(jnp.asarray(weights)))]

        return np.asarray(values), pulled

    @abc.abstractmethod
    def diagonal(self, x: AnyArray) -> AnyArray:
        """The values k(x_i, x_i).

        Parameters
        ----------
        x : array of shape (n, d)
            Points.

        Returns
        -------
        array of shape (n,)
            Kernel values.
        """

    def __call__(self, x: AnyArray, z: AnyArray) -> AnyArray:
        """The values k(x_i, z_j): the same as `gram`.

        Parameters
        ----------
        x : array of shape (n, d)
            Points.
        z : array of shape (m, d)
            Points.

        Returns
        -------
        array of shape (n, m)
            Kernel values.
        """
        return self.gram(x, z)

    def check(self, dim: int) -> None:
        """Check that the kernel fits points of `dim` coordinates.

        Parameters
        ----------
        dim : int
            Number of coordinates.

        Raises
        ------
        InputError
            If it does not.
        """
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Kernel):
                value.check(dim)
            elif isinstance(value, jax.Array) and value.ndim == 1 and value.shape[0] != dim:
                raise checks.InputError(
                    f"{type(self).__name__} has {value.shape[0]} values of {field.name} for points of {dim} "
                    "coordinate(s); give one number, or one for each coordinate"
                )

    def frequencies(self, key: jax.Array, count: int, dim: int) -> jax.Array:
        """Draws ω with k(x, z) = spectral_mass() * E cos(ω·(x - z)).

        Parameters
        ----------
        key : array
            A JAX key.
        count : int
            Number of draws.
        dim : int
            Number of coordinates d.

        Returns
        -------
        array of shape (count, d)
            Frequencies.

        Raises
        ------
        InputError
            If no spectral measure of the kernel is known.
        """
        raise self._no_spectrum()

    def spectral_mass(self) -> Parameter:
        """The value k(x, x), the same for all x, of a kernel that depends on x - z only.

        Returns
        -------
        float or array
            One number.
        """
        raise self._no_spectrum()

    @property
    def rotation_invariant(self) -> bool:
        """Whether, with bandwidth 1, k(x, z) depends on |x - z| only; `radii` and `stretch` are for those."""
        return False

    def radii(self, key: jax.Array, count: int, dim: int) -> jax.Array:
        """Lengths |ω| of frequencies of the kernel with bandwidth 1.

        With unit vectors e_j spread evenly over the sphere, stretch(radius_j * e_j) are frequencies.

        Parameters
        ----------
        key : array
            A JAX key.
        count : int
            Number of draws.
        dim : int
            Number of coordinates.

        Returns
        -------
        array of shape (count,)
            Lengths.
        """
        raise self._no_spectrum()

    def stretch(self, frequencies: jax.Array) -> jax.Array:
        """Frequencies of this kernel from those of the kernel with bandwidth 1: ω / bandwidth.

        Parameters
        ----------
        frequencies : array of shape (count, d)
            Frequencies of the kernel with bandwidth 1.

        Returns
        -------
        array of shape (count, d)
            Frequencies of this kernel.
        """
        raise self._no_spectrum()

    def _no_spectrum(self) -> checks.InputError:
        return checks.InputError(
            f"{type(self).__name__} has no known spectral measure to draw such random features from; "
            "use the Nystrom or the RKHS space with it"
        )

    def __add__(self, other: Any) -> Kernel:
        """The sum of two kernels."""
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Kernel:
        """The product of two kernels, or of a kernel and a positive number."""
        if isinstance(other, Kernel):
            return Product(self, other)
        is_number = isinstance(other, (int, float, np.ndarray, np.generic, jax.Array))
        return Scaled(self, other) if is_number else NotImplemented

    __rmul__ = __mul__


@final
class Sum(Kernel):
    """The sum left(x, z) + right(x, z); its spectral measure is the mixture of both by mass.

    Parameters
    ----------
    left : Kernel
        First kernel.
    right : Kernel
        Second kernel.
    """

    left: Kernel
    right: Kernel

    def __check_init__(self) -> None:
        _check_parts(self.left, self.right)

    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        return self.left.gram(x, z) + self.right.gram(x, z)

    def gram_with_slopes(self, x: Floats, z: Floats) -> tuple[Floats, Pull]:
        (left, pull_left), (right, pull_right) = (each.gram_with_slopes(x, z) for each in (self.left, self.right))
        return left + right, lambda weights: [*pull_left(weights), *pull_right(weights)]

    def diagonal(self, x: AnyArray) -> AnyArray:
        return self.left.diagonal(x) + self.right.diagonal(x)

    def frequencies(self, key: jax.Array, count: int, dim: int) -> jax.Array:
        choice, left, right = jax.random.split(key, 3)
        share = self.left.spectral_mass() / self.spectral_mass()
        is_left = jax.random.uniform(choice, (count, 1), jnp.float32) < share
        drawn = self.left.frequencies(left, count, dim), self.right.frequencies(right, count, dim)
        return jnp.where(is_left, *drawn)

    def spectral_mass(self) -> Parameter:
        return self.left.spectral_mass() + self.right.spectral_mass()


@final
class Product(Kernel):
    """The product left(x, z) * right(x, z); its frequencies are sums of independent ones of both.

    Parameters
    ----------
    left : Kernel
        First kernel.
    right : Kernel
        Second kernel.
    """

    left: Kernel
    right: Kernel

    def __check_init__(self) -> None:
        _check_parts(self.left, self.right)

    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        return self.left.gram(x, z) * self.right.gram(x, z)

    def diagonal(self, x: AnyArray) -> AnyArray:
        return self.left.diagonal(x) * self.right.diagonal(x)

    def frequencies(self, key: jax.Array, count: int, dim: int) -> jax.Array:
        left, right = jax.random.split(key)
        return self.left.frequencies(left, count, dim) + self.right.frequencies(right, count, dim)

    def spectral_mass(self) -> Parameter:
        return self.left.spectral_mass() * self.right.spectral_mass()


@final
class Scaled(Kernel):
    """The kernel times a number, amplitude * kernel(x, z); its functions vary with the root of the amplitude.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    amplitude : float
        A positive factor.
    """

    kernel: Kernel
    amplitude: Parameter = eqx.field(converter=checks.real)

    def __check_init__(self) -> None:
        _check_parts(self.kernel)
        checks.positive("a kernel's amplitude", self.amplitude)
        checks.single("a kernel's amplitude", self.amplitude)

    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        values = self.kernel.gram(x, z)
        return values * parameter(self.amplitude, values)

    def gram_with_slopes(self, x: Floats, z: Floats) -> tuple[Floats, Pull]:
        values, pull = self.kernel.gram_with_slopes(x, z)
        amplitude = np.asarray(self.amplitude, dtype=np.float64)

        def pulled(weights: Floats) -> list[Floats]:
            own = np.asarray(np.vdot(weights, values)).reshape(amplitude.shape)
            return [*(amplitude * slope for slope in pull(weights)), own]

        return amplitude * values, pulled

    def diagonal(self, x: AnyArray) -> AnyArray:
        values = self.kernel.diagonal(x)
        return values * parameter(self.amplitude, values)

    def frequencies(self, key: jax.Array, count: int, dim: int) -> jax.Array:
        return self.kernel.frequencies(key, count, dim)

    def spectral_mass(self) -> Parameter:
        return self.amplitude * self.kernel.spectral_mass()

    @property
    def rotation_invariant(self) -> bool:
        return self.kernel.rotation_invariant

    def radii(self, key: jax.Array, count: int, dim: int) -> jax.Array:
        return self.kernel.radii(key, count, dim)

    def stretch(self, frequencies: jax.Array) -> jax.Array:
        return self.kernel.stretch(frequencies)


def _column_numbers(columns: Any) -> Any:
    if isinstance(columns, (int, np.integer)):
        return (int(columns),)
    return tuple(columns) if isinstance(columns, (list, tuple, range, np.ndarray)) else columns


@final
class Columns(Kernel):
    """The kernel of some columns alone, kernel(x[columns], z[columns]); other frequencies are zero.

    Parameters
    ----------
    kernel : Kernel
        Kernel on those columns.
    columns : int or sequence of int
        Column numbers, counted from 0.

    Examples
    --------
    >>> from dualembed.kernels import Gaussian
    >>> kernel = Columns(Gaussian(1.0), (0,))
    >>> kernel.gram([[0.0, 5.0]], [[0.0, 7.0]]).tolist()
    [[1.0]]
    """

    kernel: Kernel
    columns: tuple[int, ...] = eqx.field(static=True, converter=_column_numbers)

    def __check_init__(self) -> None:
        _check_parts(self.kernel)
        if not isinstance(self.columns, tuple) or not self.columns:
            raise checks.InputError(f"Columns wants column numbers, such as (0, 2), not {self.columns!r}")
        for column in self.columns:
            checks.count("a column number", column, at_least=0)
        if len(set(self.columns)) < len(self.columns):
            raise checks.InputError(f"Columns wants each column once, not {self.columns!r}")

    def check(self, dim: int) -> None:
        if max(self.columns) >= dim:
            raise checks.InputError(
                f"Columns takes column {max(self.columns)} of points that have {dim} coordinate(s); "
                "columns are counted from 0"
            )
        self.kernel.check(len(self.columns))

    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        xp, x, z = aligned(self, x, z)
        return self.kernel.gram(self._chosen(xp, x), self._chosen(xp, z))

    def diagonal(self, x: AnyArray) -> AnyArray:
        xp, x = aligned(self, x)
        return self.kernel.diagonal(self._chosen(xp, x))

    def _chosen(self, xp: Any, x: AnyArray) -> AnyArray:
        # Slices, unlike an index array, fuse into whatever reads them.
        return xp.stack([x[:, column] for column in self.columns], axis=1)

    def frequencies(self, key: jax.Array, count: int, dim: int) -> jax.Array:
        self.check(dim)
        chosen = self.kernel.frequencies(key, count, len(self.columns))
        return jnp.zeros((count, dim), chosen.dtype).at[:, np.asarray(self.columns)].set(chosen)

    def spectral_mass(self) -> Parameter:
        return self.kernel.spectral_mass()


def _check_parts(*parts: Any) -> None:
    for part in parts:
        checks.instance("each part of a combined kernel", part, Kernel, "such as Gaussian(0.5)")


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


def parameter(value: Parameter, like: AnyArray) -> AnyArray:
    """The hyper-parameter, ready to meet an array without changing its namespace or precision."""
    plain = isinstance(like, np.ndarray) and not checks.traced(value)
    return np.asarray(value, dtype=like.dtype) if plain else value


def inner_products(xp: Any, x: AnyArray, z: AnyArray) -> AnyArray:
    """The products x_i·z_j, shape (n, m), never in the reduced precision that accelerators default to."""
    return x @ z.T if xp is np else jnp.matmul(x, z.T, precision="highest")


def centred(x: AnyArray, z: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Both sets of points seen from the first z, which no kernel of x - z can tell.

    Points far from the origin would lose the digits of their differences as soon as they are divided by a
    bandwidth or squared; subtracted first, they lose none.
    """
    origin = z[:1].sum(axis=0)
    return x - origin, z - origin


def squared_distances(xp: Any, x: AnyArray, z: AnyArray) -> AnyArray:
    """The squared distances |x_i - z_j|^2, shape (n, m), of centred points.

    One coordinate is subtracted directly; several are multiplied out as one matrix product, which in the tiles
    of a kernel expansion runs 1.5 to 3 times as fast from two coordinates on.
    """
    if x.shape[1] == 1:
        return (x - z.T) ** 2
    if xp is np:  # in place: memory for every step would take longer than the steps
        squared: Any = inner_products(np, -2 * x, z)
        squared += (x**2).sum(axis=1)[:, None]
        squared += (z**2).sum(axis=1)
        return np.maximum(squared, 0, out=squared)
    return xp.maximum((x**2).sum(axis=1)[:, None] + (z**2).sum(axis=1) - 2 * inner_products(xp, x, z), 0)


def root(xp: Any, squared: AnyArray) -> AnyArray:
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


def angle(xp: Any, cosine: AnyArray) -> AnyArray:
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
