"""Kernels of the difference x - z (radial, Laplacian, periodic, categorical), and the median bandwidth."""

from __future__ import annotations

import abc
import math
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist

from dualembed import checks
from dualembed.arrays import AnyArray, Floats
from dualembed.kernels.base import (
    Kernel,
    Parameter,
    Pull,
    aligned,
    centred,
    check_positive,
    parameter,
    root,
    squared_distances,
)


class Stationary(Kernel):
    """A kernel of x - z with k(x, x) = 1."""

    def diagonal(self, x: AnyArray) -> AnyArray:
        """Ones, shape (n,)."""
        xp, x = aligned(self, x)
        return xp.ones(x.shape[0], dtype=x.dtype)

    def spectral_mass(self) -> Parameter:
        """One, which is k(x, x)."""
        return 1.0


class Radial(Stationary):
    """A stationary kernel of r = |(x - z) / bandwidth| that is a scale mixture of Gaussians.

    Parameters
    ----------
    bandwidth : float or array of shape (d,)
        Length scale: one number, or one for each coordinate.
    """

    bandwidth: Parameter = eqx.field(converter=checks.real)

    def __check_init__(self) -> None:
        check_positive(self, "bandwidth")

    @abc.abstractmethod
    def profile(self, xp: Any, squared: AnyArray) -> AnyArray:
        """The kernel as a function of r^2.

        Parameters
        ----------
        xp : module
            The namespace to compute in, numpy or jax.numpy.
        squared : array
            Values of r^2.

        Returns
        -------
        array
            Kernel values.
        """

    @abc.abstractmethod
    def mixing(self, key: jax.Array, count: int) -> jax.Array:
        """Draws s such that s * N(0, I) are the frequencies with bandwidth 1.

        Parameters
        ----------
        key : array
            A JAX key.
        count : int
            Number of draws.

        Returns
        -------
        array of shape (count,)
            Scales.
        """

    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        xp, x, z = aligned(self, x, z)
        x, z = centred(x, z)
        bandwidth = parameter(self.bandwidth, x)
        return self.profile(xp, squared_distances(xp, x / bandwidth, z / bandwidth))

    @abc.abstractmethod
    def profile_with_slope(self, squared: Floats) -> tuple[Floats, Floats]:
        """The kernel as a function of r^2, and its slope in r^2.

        Parameters
        ----------
        squared : array
            Values of r^2.

        Returns
        -------
        values : array
            Kernel values.
        slopes : array
            Slopes.
        """

    def gram_with_slopes(self, x: Floats, z: Floats) -> tuple[Floats, Pull]:
        bandwidth = np.asarray(self.bandwidth, dtype=np.float64)
        x, z = (each / bandwidth for each in centred(np.asarray(x), np.asarray(z)))
        values, slopes = self.profile_with_slope(squared_distances(np, x, z))

        def pulled(weights: Floats) -> list[Floats]:
            # r^2 falls by 2 (x_j - z_j)^2 / bandwidth_j with the bandwidth of coordinate j, x and z in units of it.
            pull = weights * slopes
            squares = pull.sum(axis=1) @ x**2 - 2 * np.sum(x * (pull @ z), axis=0) + pull.sum(axis=0) @ z**2
            fall = -2 * squares / bandwidth
            return [fall if bandwidth.ndim else np.asarray(fall.sum())]

        return values, pulled

    def frequencies(self, key: jax.Array, count: int, dim: int) -> jax.Array:
        direction, length = jax.random.split(key)
        return self.stretch(
            jax.random.normal(direction, (count, dim), jnp.float32) * self.mixing(length, count)[:, None]
        )

    @property
    def rotation_invariant(self) -> bool:
        return True

    def radii(self, key: jax.Array, count: int, dim: int) -> jax.Array:
        direction, length = jax.random.split(key)
        chi = jnp.linalg.norm(jax.random.normal(direction, (count, dim), jnp.float32), axis=1)
        return chi * self.mixing(length, count)

    def stretch(self, frequencies: jax.Array) -> jax.Array:
        return frequencies / self.bandwidth


@final
class Gaussian(Radial):
    """The Gaussian kernel exp(-r^2 / 2), r = |(x - z) / bandwidth|; Gaussian frequencies.

    Parameters
    ----------
    bandwidth : float or array of shape (d,)
        Length scale: one number, or one for each coordinate.

    Examples
    --------
    >>> Gaussian(1.0).gram([[0.0], [1.0]], [[0.0]]).round(4).tolist()
    [[1.0], [0.6065]]
    """

    def profile(self, xp: Any, squared: AnyArray) -> AnyArray:
        if xp is np:
            scaled = -0.5 * squared
            return np.exp(scaled, out=scaled)
        return xp.exp(-0.5 * squared)

    def profile_with_slope(self, squared: Floats) -> tuple[Floats, Floats]:
        values = np.exp(-0.5 * squared)
        return values, -0.5 * values

    def mixing(self, key: jax.Array, count: int) -> jax.Array:
        return jnp.ones(count)


@final
class Matern32(Radial):
    """The Matérn kernel (1 + s) exp(-s), s = sqrt(3) r, r = |(x - z) / bandwidth|.

    Its frequencies have a t distribution with 3 degrees of freedom.

    Parameters
    ----------
    bandwidth : float or array of shape (d,)
        Length scale: one number, or one for each coordinate.
    """

    def profile(self, xp: Any, squared: AnyArray) -> AnyArray:
        distance = math.sqrt(3) * root(xp, squared)
        return _decaying(1 + distance, distance) if xp is np else (1 + distance) * xp.exp(-distance)

    def profile_with_slope(self, squared: Floats) -> tuple[Floats, Floats]:
        distance = np.sqrt(3 * squared)
        decay = np.exp(-distance)
        return (1 + distance) * decay, -1.5 * decay

    def mixing(self, key: jax.Array, count: int) -> jax.Array:
        return _student_mixing(key, count, 3)


@final
class Matern52(Radial):
    """The Matérn kernel (1 + s + s^2 / 3) exp(-s), s = sqrt(5) r, r = |(x - z) / bandwidth|.

    Its frequencies have a t distribution with 5 degrees of freedom.

    Parameters
    ----------
    bandwidth : float or array of shape (d,)
        Length scale: one number, or one for each coordinate.
    """

    def profile(self, xp: Any, squared: AnyArray) -> AnyArray:
        distance = math.sqrt(5) * root(xp, squared)
        if xp is not np:
            return (1 + distance + 5 / 3 * squared) * xp.exp(-distance)
        line = distance / 3
        line += 1
        line *= distance
        line += 1
        return _decaying(line, distance)

    def profile_with_slope(self, squared: Floats) -> tuple[Floats, Floats]:
        distance = np.sqrt(5 * squared)
        decay = np.exp(-distance)
        line = (1 + distance) * decay
        return line + 5 / 3 * squared * decay, -5 / 6 * line

    def mixing(self, key: jax.Array, count: int) -> jax.Array:
        return _student_mixing(key, count, 5)


def _decaying(line: AnyArray, distance: AnyArray) -> AnyArray:
    """line * exp(-distance) in NumPy, in the place of both."""
    np.exp(np.negative(distance, out=distance), out=distance)
    return np.multiply(line, distance, out=line)


def _student_mixing(key: jax.Array, count: int, freedom: int) -> jax.Array:
    """Draws of sqrt(freedom / chi-squared), which make multivariate t vectors of Gaussian ones."""
    return math.sqrt(freedom) / jnp.linalg.norm(jax.random.normal(key, (count, freedom), jnp.float32), axis=1)


@final
class Laplacian(Stationary):
    """The Laplacian kernel exp(-Σ_j |x_j - z_j| / bandwidth_j); Cauchy frequencies in each coordinate.

    Parameters
    ----------
    bandwidth : float or array of shape (d,)
        Length scale: one number, or one for each coordinate.
    """

    bandwidth: Parameter = eqx.field(converter=checks.real)

    def __check_init__(self) -> None:
        check_positive(self, "bandwidth")

    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        xp, x, z = aligned(self, x, z)
        x, z = centred(x, z)
        bandwidth = parameter(self.bandwidth, x)
        x, z = x / bandwidth, z / bandwidth
        # One coordinate after another: an (n, m, d) array would not fit where the gram matrix does.
        return xp.exp(-sum(xp.abs(x[:, j, None] - z[:, j]) for j in range(x.shape[1])))

    def frequencies(self, key: jax.Array, count: int, dim: int) -> jax.Array:
        return jax.random.cauchy(key, (count, dim), jnp.float32) / self.bandwidth


@final
class Periodic(Stationary):
    """The periodic kernel exp(-2 Σ_j sin^2(π (x_j - z_j) / period_j) / bandwidth_j^2): a Gaussian kernel on circles.

    Its frequencies are multiples of 2π / period: the difference of two Poisson numbers of mean
    1 / (2 bandwidth^2) has the characteristic function exp((cos t - 1) / bandwidth^2).

    Parameters
    ----------
    period : float or array of shape (d,)
        Period of each coordinate.
    bandwidth : float or array of shape (d,), default=1.0
        Length scale on the circle of radius 1.
    """

    period: Parameter = eqx.field(converter=checks.real)
    bandwidth: Parameter = eqx.field(converter=checks.real, default=1.0)

    def __check_init__(self) -> None:
        check_positive(self, "period", "bandwidth")

    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        xp, x, z = aligned(self, x, z)
        x, z = (self._on_circles(xp, rows) for rows in centred(x, z))
        return xp.exp(-0.5 * squared_distances(xp, x, z))

    def _on_circles(self, xp: Any, x: AnyArray) -> AnyArray:
        """Points (cos, sin)(2π x / period) / bandwidth, 2 |sin(π (x - z) / period)| / bandwidth apart."""
        turns = x / parameter(self.period, x)
        angles = 2 * math.pi * (turns - xp.round(turns))
        bandwidth = parameter(self.bandwidth, x)
        return xp.concatenate([xp.cos(angles) / bandwidth, xp.sin(angles) / bandwidth], axis=1)

    def frequencies(self, key: jax.Array, count: int, dim: int) -> jax.Array:
        mean = 0.5 / jnp.square(jnp.broadcast_to(jnp.asarray(self.bandwidth), (count, dim)))
        up, down = (jax.random.poisson(part, mean) for part in jax.random.split(key))
        return 2 * math.pi * (up - down) / self.period


@final
class Categorical(Kernel):
    """1 if x and z agree in all coordinates, otherwise 0; float32 tells whole numbers apart up to 2^24."""

    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        xp, x, z = aligned(self, x, z)
        equal = xp.ones((x.shape[0], z.shape[0]), dtype=bool)
        for j in range(x.shape[1]):
            equal = equal & (x[:, j, None] == z[:, j])
        return equal.astype(x.dtype)

    def diagonal(self, x: AnyArray) -> AnyArray:
        xp, x = aligned(self, x)
        return xp.ones(x.shape[0], dtype=x.dtype)


def median_bandwidth(points: ArrayLike, coefficient: float = 1.0, most: int = 1000, *, seed: int = 0) -> float:
    """A bandwidth for points: the coefficient times the median distance between two of them.

    Pairs that coincide count only while they are the minority.

    Parameters
    ----------
    points : array of shape (n, d) or (n,)
        Points.
    coefficient : float, default=1.0
        Factor on the median.
    most : int, default=1000
        Number of points that are looked at, drawn at random.
    seed : int, default=0
        Seed of that draw.

    Returns
    -------
    float
        The bandwidth.

    Examples
    --------
    >>> median_bandwidth([0.0, 1.0, 3.0])
    2.0
    """
    checks.positive("the coefficient", coefficient)
    checks.count("most", most, at_least=2)
    checks.array("points", points, ndim=(1, 2))
    rows = np.asarray(points, dtype=np.float64)
    rows = rows.reshape(rows.shape[0], -1)
    if rows.shape[0] > most:
        rows = rows[np.random.default_rng(seed).choice(rows.shape[0], most, replace=False)]
    distances = pdist(rows)
    apart = distances[distances > 0]
    if apart.size == 0:
        raise checks.InputError(f"all {rows.shape[0]} point(s) looked at coincide; give a bandwidth")
    median = np.median(distances) or np.median(apart)
    return float(coefficient * median)
