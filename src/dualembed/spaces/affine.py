"""Straight lines and planes: what two-stage least squares and other linear methods fit."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed.spaces.base import FeatureMap, Layout
from dualembed.spaces.linear import LinearSpace


class Affine(LinearSpace):
    """f(x) = w_0 + w_1 x_1 + ... + w_d x_d.

    >>> Affine().feature_map(jax.random.key(0), Layout(np.zeros((5, 2)), 1, 1, 1, 1))(np.array([[3.0, 4.0]])).tolist()
    [[1.0, 3.0, 4.0]]
    """

    def check(self, dimension: int) -> None:
        """Any dimension will do."""

    def feature_map(self, key: jax.Array, layout: Layout) -> AffineMap:
        """A constant and the coordinates."""
        return AffineMap(layout.dimension)


class AffineMap(FeatureMap):
    """φ(x) = (1, x)."""

    coordinates: int = eqx.field(static=True)

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.coordinates

    @property
    def size(self) -> int:
        """One more."""
        return self.coordinates + 1

    def __call__(self, xs: Any) -> Any:
        """(1, x), shape (n, d + 1)."""
        xp = np if isinstance(xs, np.ndarray) else jnp
        return xp.concatenate([xp.ones((xs.shape[0], 1), xs.dtype), xs], axis=1)
