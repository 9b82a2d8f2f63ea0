"""Random Fourier features of a shift-invariant kernel, with a cosine that the CPU can vectorise.

XLA's cosine is exact for huge arguments, which random features do not need, and slow for it: on a matrix of angles one
range reduction and a polynomial run about three times as many a second. In float64 it is the library's own. NumPy's
float64 cosine is slow too, ten times as slow as its float32 one, so NumPy angles lose their turns in float64 and have
their cosine taken in float32: within 1e-7, which moves a closed form's solution by 2e-7 at a penalty of 1e-6.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.arrays import AnyArray, Floats
from dualembed.kernels import Kernel
from dualembed.spaces.base import Layout
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.linear import LinearSpace

# Chebyshev fits of cos r and sin(r)/r as polynomials in r² on |r| <= π, lowest power first.
_COSINE = (9.99999989e-01, -4.99999891e-01, 4.16664892e-02, -1.38878036e-03, 2.47698836e-05, -2.70790308e-07,
           1.72450918e-09)  # fmt: skip
_SINE = (9.99999999e-01, -1.66666659e-01, 8.33332129e-03, -1.98405341e-04, 2.75358500e-06, -2.47288117e-08,
         1.36130989e-10)  # fmt: skip
# 2π in two parts: the first has so few bits that turns * first is exact up to 2^16 turns.
_TURN_HIGH = 6.28125
_TURN_LOW = 2 * np.pi - _TURN_HIGH


class Fourier(LinearSpace):
    """Random Fourier features: f = wᵀφ with E[φ(x)ᵀφ(z)] = k(x, z).

    φ_j = √(2 k(0)/m) cos(ω_jᵀx + b_j), with frequencies ω from the kernel's spectral measure.

    Parameters
    ----------
    kernel : Kernel
        A kernel with a known spectral measure.
    size : int, default=512
        Number of features m.
    pairs : bool, default=False
        Use √(2 k(0)/m) (cos ω_jᵀx, sin ω_jᵀx) of m/2 frequencies, with lower variance for smooth kernels.
    orthogonal : bool, default=False
        Draw frequencies in orthogonal blocks (Gaussian and Matérn), with lower variance again.
    """

    kernel: Kernel
    size: int = eqx.field(default=512, static=True)
    pairs: bool = eqx.field(default=False, static=True)
    orthogonal: bool = eqx.field(default=False, static=True)

    def __check_init__(self) -> None:
        checks.instance("kernel", self.kernel, Kernel, "such as kernels.Gaussian(0.5)")
        checks.count("size", self.size, 2)
        if self.pairs and self.size % 2:
            raise checks.InputError(f"size must be even for sine and cosine pairs, not {self.size}")

    def check(self, dimension: int) -> None:
        """The kernel must fit the dimension and know its spectral measure."""
        self.kernel.check(dimension)
        frequencies(jax.random.key(0), self.kernel, 2, dimension=dimension, orthogonal=self.orthogonal)

    def feature_map(self, key: jax.Array, layout: Layout) -> WaveMap:
        """Frequencies and phases drawn once."""
        count = self.size // 2 if self.pairs else self.size
        frequency_key, phase_key = jax.random.split(key)
        waves = frequencies(frequency_key, self.kernel, count, dimension=layout.dimension, orthogonal=self.orthogonal)
        phases = None if self.pairs else jax.random.uniform(phase_key, (count,), jnp.float32, maxval=2 * np.pi)
        return WaveMap(waves, phases, jnp.sqrt(2 * self.kernel.spectral_mass() / self.size))


class WaveMap(FeatureMap):
    """Cosines with phases, or cosine and sine pairs where there are none."""

    frequencies: jax.Array  # (count, d)
    phases: jax.Array | None  # (count,)
    scale: jax.Array

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.frequencies.shape[1]

    @property
    def size(self) -> int:
        """The number of features."""
        return self.frequencies.shape[0] * (2 if self.phases is None else 1)

    def __call__(self, xs: AnyArray) -> AnyArray:
        """scale · cos(ωᵀx + b), or scale · (cos ωᵀx, sin ωᵀx)."""
        angles = xs @ self.frequencies.T
        if self.phases is None:
            return self.scale * angles.__array_namespace__().concatenate([cosine(angles), sine(angles)], axis=1)
        return self.scale * cosine(angles + self.phases)


def frequencies(key: jax.Array, kernel: Kernel, count: int, *, dimension: int, orthogonal: bool = False) -> jax.Array:
    """`count` draws (count, d) from the kernel's spectral measure, independent or in orthogonal blocks of d."""
    if not orthogonal:
        return kernel.frequencies(key, count, dimension)
    if not kernel.rotation_invariant:
        raise checks.InputError(
            f"orthogonal features need a kernel of the distance alone (Gaussian, Matérn), not {type(kernel).__name__}; "
            "use orthogonal=False"
        )
    blocks = -(-count // dimension)
    direction_key, radius_key = jax.random.split(key)
    squares = jax.random.normal(direction_key, (blocks, dimension, dimension), jnp.float32)
    directions = jnp.linalg.qr(squares)[0].reshape(-1, dimension)[:count]
    return kernel.stretch(directions * kernel.radii(radius_key, count, dimension)[:, None])


def cosine(angle: AnyArray) -> AnyArray:
    """cos(angle), within 2e-6 for |angle| up to 1e4 in float32, within 1e-7 for NumPy arrays."""
    if isinstance(angle, np.ndarray):
        return np.cos(_without_turns(angle)).astype(angle.dtype)
    if angle.dtype != jnp.float32:
        return jnp.cos(angle)
    return _polynomial(_COSINE, _reduced(angle) ** 2)


def sine(angle: AnyArray) -> AnyArray:
    """sin(angle), within 2e-6 for |angle| up to 1e4 in float32, within 1e-7 for NumPy arrays."""
    if isinstance(angle, np.ndarray):
        return np.sin(_without_turns(angle)).astype(angle.dtype)
    if angle.dtype != jnp.float32:
        return jnp.sin(angle)
    reduced = _reduced(angle)
    return reduced * _polynomial(_SINE, reduced**2)


def _without_turns(angle: Floats) -> Floats:
    """The angle less whole turns, reduced in its own precision and handed over in float32."""
    turns = angle * (0.5 / np.pi)
    np.rint(turns, out=turns)
    turns *= 2 * np.pi
    return np.subtract(angle, turns, out=turns).astype(np.float32)


def _reduced(angle: jax.Array) -> jax.Array:
    """The angle less whole turns, in [-π, π] up to rounding."""
    turns = jnp.round(angle * (0.5 / np.pi))
    # Beyond 2^16 turns float32 cannot tell the angle any more; the clip keeps what comes out near [-1, 1]. It leaves
    # room beyond π, where a rounded number of turns may leave the angle.
    return jnp.clip((angle - turns * _TURN_HIGH) - turns * _TURN_LOW, -3.2, 3.2)


def _polynomial(coefficients: tuple[float, ...], x: jax.Array) -> jax.Array:
    """Horner's rule."""
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value
