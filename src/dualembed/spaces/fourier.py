"""Random Fourier features of a shift-invariant kernel."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.kernels import Kernel
from dualembed.spaces.base import FeatureMap, Layout
from dualembed.spaces.linear import LinearSpace
from dualembed.trigonometry import cosine, sine


class Fourier(LinearSpace):
    """f = wᵀφ with E[φ(x)ᵀφ(z)] = k(x, z): φ_j = √(2 k(0)/m) cos(ω_jᵀx + b_j), frequencies ω from k's spectral measure.

    `pairs` uses √(2 k(0)/m) (cos ω_jᵀx, sin ω_jᵀx) from m/2 frequencies instead, of lower variance for smooth kernels.
    `orthogonal` draws the frequencies in orthogonal blocks (Gaussian and Matérn), of lower variance again.
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

    def __call__(self, xs: Any) -> Any:
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
