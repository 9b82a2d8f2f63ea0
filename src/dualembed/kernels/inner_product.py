"""Kernels of the products x·z, x·x and z·z: polynomials and infinitely wide layers of neurons."""

from __future__ import annotations

import math
from typing import Any, final

import equinox as eqx
import numpy as np

from dualembed import checks
from dualembed.arrays import AnyArray, Floats
from dualembed.kernels.base import (
    Kernel,
    Parameter,
    Pull,
    aligned,
    angle,
    check_positive,
    inner_products,
    parameter,
)


@final
class Polynomial(Kernel):
    """The polynomial kernel (Σ_j scale_j (x_j - centre_j)(z_j - centre_j) + offset)^degree.

    Parameters
    ----------
    degree : int
        The degree, at least 1.
    offset : float, default=1.0
        The constant, at least 0.
    scale : float or array of shape (d,), default=1.0
        Factor of each coordinate.
    centre : float or array of shape (d,), default=0.0
        What is subtracted from each coordinate.
    """

    degree: int = eqx.field(static=True)
    offset: Parameter = eqx.field(converter=checks.real, default=1.0)
    scale: Parameter = eqx.field(converter=checks.real, default=1.0)
    centre: Parameter = eqx.field(converter=checks.real, default=0.0)

    def __check_init__(self) -> None:
        checks.count("Polynomial's degree", self.degree)
        checks.not_negative("Polynomial's offset", self.offset)
        checks.single("Polynomial's offset", self.offset)
        check_positive(self, "scale")

    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        xp, x, z = aligned(self, x, z)
        centre = parameter(self.centre, x)
        scaled = (x - centre) * parameter(self.scale, x)
        return (inner_products(xp, scaled, z - centre) + parameter(self.offset, x)) ** self.degree

    def gram_with_slopes(self, x: Floats, z: Floats) -> tuple[Floats, Pull]:
        offset, scale, centre = (np.asarray(each, dtype=np.float64) for each in (self.offset, self.scale, self.centre))
        x, z = np.asarray(x) - centre, np.asarray(z) - centre
        line = (scale * x) @ z.T + offset

        def pulled(weights: Floats) -> list[Floats]:
            pull = weights if self.degree == 1 else weights * (self.degree * line ** (self.degree - 1))
            of_scale = np.sum(x * (pull @ z), axis=0)
            of_centre = -scale * (pull.sum(axis=1) @ x + pull.sum(axis=0) @ z)
            slopes = zip((offset, scale, centre), (pull.sum(), of_scale, of_centre), strict=True)
            return [slope if each.ndim else np.asarray(slope.sum()) for each, slope in slopes]

        return line if self.degree == 1 else line**self.degree, pulled

    def diagonal(self, x: AnyArray) -> AnyArray:
        _, x = aligned(self, x)
        squares = parameter(self.scale, x) * (x - parameter(self.centre, x)) ** 2
        return (squares.sum(axis=1) + parameter(self.offset, x)) ** self.degree


@final
class ArcCosine(Kernel):
    """The arc-cosine kernel |x̃|^n |z̃|^n J_n(θ) / π, θ the angle between x̃ = (bias, x / bandwidth) and z̃, n the degree.

    J_0 = π - θ, J_1 = sin θ + (π - θ) cos θ, J_2 = 3 sin θ cos θ + (π - θ)(1 + 2 cos^2 θ): an infinitely
    wide layer of steps, of rectifiers, of squared rectifiers (Cho and Saul, 2009). The bias makes it
    universal on R^d; without one its functions are homogeneous, f(t x) = t^n f(x) for t > 0.

    Parameters
    ----------
    degree : {0, 1, 2}, default=1
        The degree n.
    bandwidth : float or array of shape (d,), default=1.0
        Scale of the coordinates: one number, or one for each.
    bias : float, default=1.0
        The coordinate that all points share.
    """

    degree: int = eqx.field(static=True, default=1)
    bandwidth: Parameter = eqx.field(converter=checks.real, default=1.0)
    bias: Parameter = eqx.field(converter=checks.real, default=1.0)

    def __check_init__(self) -> None:
        if isinstance(self.degree, bool) or self.degree not in (0, 1, 2):
            raise checks.InputError(f"ArcCosine's degree must be 0, 1 or 2, not {self.degree!r}")
        check_positive(self, "bandwidth", "bias")
        checks.single("ArcCosine's bias", self.bias)

    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        xp, x, z = aligned(self, x, z)
        lengths = xp.sqrt(_squared_lengths(self, x)[:, None] * _squared_lengths(self, z))
        cosine = _biased_products(self, xp, x, z=z) / lengths
        theta = angle(xp, cosine)
        if self.degree == 0:
            return 1 - theta / math.pi
        # With cos θ left as it came, the slopes of θ cancel where they would be infinite, at x = z.
        if self.degree == 1:
            return lengths * (xp.sin(theta) + (math.pi - theta) * cosine) / math.pi
        bent = 3 * xp.sin(theta) * cosine + (math.pi - theta) * (1 + 2 * cosine**2)
        return lengths**2 * bent / math.pi

    def diagonal(self, x: AnyArray) -> AnyArray:
        _, x = aligned(self, x)
        return (1, 1, 3)[self.degree] * _squared_lengths(self, x) ** self.degree


@final
class ArcSine(Kernel):
    """The arc-sine kernel (2/π) asin(2 x̃·z̃ / sqrt((1 + 2 x̃·x̃)(1 + 2 z̃·z̃))), x̃ = (bias, x / bandwidth).

    An infinitely wide layer of sigmoids, namely error functions with Gaussian weights (Williams, 1998).

    Parameters
    ----------
    bandwidth : float or array of shape (d,), default=1.0
        Scale of the coordinates: one number, or one for each.
    bias : float, default=1.0
        The coordinate that all points share.
    """

    bandwidth: Parameter = eqx.field(converter=checks.real, default=1.0)
    bias: Parameter = eqx.field(converter=checks.real, default=1.0)

    def __check_init__(self) -> None:
        check_positive(self, "bandwidth", "bias")
        checks.single("ArcSine's bias", self.bias)

    def gram(self, x: AnyArray, z: AnyArray) -> AnyArray:
        xp, x, z = aligned(self, x, z)
        lengths = (1 + 2 * _squared_lengths(self, x))[:, None] * (1 + 2 * _squared_lengths(self, z))
        sine = 2 * _biased_products(self, xp, x, z=z) / xp.sqrt(lengths)
        return 1 - 2 / math.pi * angle(xp, sine)

    def diagonal(self, x: AnyArray) -> AnyArray:
        xp, x = aligned(self, x)
        squared = 2 * _squared_lengths(self, x)
        return 1 - 2 / math.pi * angle(xp, squared / (1 + squared))


def _biased_products(kernel: ArcCosine | ArcSine, xp: Any, x: AnyArray, *, z: AnyArray) -> AnyArray:
    """The products x̃_i·z̃_j, shape (n, m), of x̃ = (bias, x / bandwidth)."""
    bandwidth = parameter(kernel.bandwidth, x)
    return inner_products(xp, x / bandwidth, z / bandwidth) + parameter(kernel.bias, x) ** 2


def _squared_lengths(kernel: ArcCosine | ArcSine, x: AnyArray) -> AnyArray:
    """The products x̃_i·x̃_i, shape (n,)."""
    return ((x / parameter(kernel.bandwidth, x)) ** 2).sum(axis=1) + parameter(kernel.bias, x) ** 2
