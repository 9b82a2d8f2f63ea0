"""B-splines of one or several coordinates as features: tensor products, or sums of functions of one coordinate each."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self, final

import equinox as eqx
import jax
import numpy as np

from dualembed.arrays import AnyArray, Floats
from dualembed.spaces.features import FeatureMap

Breaks = Callable[[Floats, int], Floats]


def even_breaks(column: Floats, segments: int) -> Floats:
    """Equally long pieces from the least value to the largest.

    Parameters
    ----------
    column : array of shape (n,)
        Numbers.
    segments : int
        How many pieces.

    Returns
    -------
    array
        Their ends, in order.
    """
    return np.linspace(column.min(), column.max(), segments + 1)


def quantile_breaks(column: Floats, segments: int) -> Floats:
    """Pieces with equally many values each; fewer where values are tied.

    Parameters
    ----------
    column : array of shape (n,)
        Numbers.
    segments : int
        How many pieces.

    Returns
    -------
    array
        Their ends, in order.
    """
    return np.unique(np.quantile(column, np.linspace(0, 1, segments + 1)))


class Splines(FeatureMap):
    """Functions made of the B-splines of every coordinate; beyond the data's range each goes on as a straight line."""

    breaks: tuple[AnyArray, ...]
    degrees: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, points: Floats, segments: int, *, degree: int, breaks: Breaks) -> Self:
        """Splines on points (n, d); a column of few distinct values has no more functions than values."""
        made = []
        for column in points.T:
            distinct = len(np.unique(column))
            own = min(degree, distinct - 1)
            made.append((breaks(column, min(segments, distinct - own)), own))
        ends, degrees = zip(*made, strict=True)
        return cls(ends, degrees)

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return len(self.degrees)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of B-splines of each coordinate."""
        pairs = zip(self.breaks, self.degrees, strict=True)
        return tuple(len(ends) - 1 + degree if degree else 1 for ends, degree in pairs)

    def __call__(self, xs: AnyArray) -> AnyArray:
        """Features (n, m) at points (n, d); NumPy in, NumPy out."""
        return self.compute(np if isinstance(xs, np.ndarray) else jax.numpy, xs)

    def compute(self, xp: Any, points: AnyArray) -> AnyArray:
        """The same in NumPy or in JAX, whichever is given."""
        columns = zip(range(self.dimension), self.breaks, self.degrees, strict=True)
        return self.combine(xp, [b_splines(xp, points[:, at], ends, degree) for at, ends, degree in columns])

    @staticmethod
    @abstractmethod
    def pieces(count: int, share: float) -> float:
        """Pieces of each coordinate that give as many functions as `count` of each of `share` times as many would."""

    @abstractmethod
    def combine(self, xp: Any, blocks: list[AnyArray]) -> AnyArray:
        """Features from the B-splines (n, size) of every coordinate."""


@final
class TensorSplines(Splines):
    """All products of one B-spline of each coordinate."""

    @property
    def size(self) -> int:
        """The product of the sizes."""
        return math.prod(self.sizes)

    @staticmethod
    def pieces(count: int, share: float) -> float:
        """count^share."""
        return float(count**share)

    def combine(self, xp: Any, blocks: list[AnyArray]) -> AnyArray:
        """φ(x) = ⊗_j b_j(x_j)."""
        product, *others = blocks
        for block in others:
            product = (product[:, :, None] * block[:, None, :]).reshape(len(block), -1)
        return product


@final
class AdditiveSplines(Splines):
    """The constant, and the B-splines of every coordinate but the first of each, which the others and it add up to."""

    @property
    def size(self) -> int:
        """One more than the sum of the sizes less one."""
        return 1 + sum(size - 1 for size in self.sizes)

    @staticmethod
    def pieces(count: int, share: float) -> float:
        """count times share."""
        return count * share

    def combine(self, xp: Any, blocks: list[AnyArray]) -> AnyArray:
        """φ(x) = (1, b_1(x_1), b_2(x_2), ...)."""
        return xp.concatenate([xp.ones_like(blocks[0][:, :1]), *(block[:, 1:] for block in blocks)], axis=1)


def b_splines(xp: Any, column: AnyArray, ends: AnyArray, degree: int) -> AnyArray:
    """The B-splines (n, pieces + degree) of numbers (n,) by the recursion of Cox and de Boor.

        b_i^0 = 1 on [t_i, t_i+1),   r_i^p = b_i^(p-1) / (t_i+p - t_i),
        b_i^p = (x - t_i) r_i^p + (t_i+p+1 - x) r_i+1^p

    Beyond the ends they continue along their slope there: polynomials of degree 3 run away from few points.
    """
    if degree == 0:  # a constant column
        return xp.ones((len(column), 1))
    inner = xp.clip(column, ends[0], ends[-1])[:, None]
    knots = xp.concatenate([xp.repeat(ends[:1], degree), ends, xp.repeat(ends[-1:], degree)])
    piece = xp.clip(xp.searchsorted(ends, inner, side="right") - 1, 0, len(ends) - 2) + degree
    values = xp.where(xp.arange(len(knots) - 1) == piece, 1.0, 0.0)
    slopes = values
    for power in range(1, degree + 1):
        count = len(knots) - 1 - power
        widths = knots[power:] - knots[:-power]
        shares = xp.where(widths > 0, 1 / xp.where(widths > 0, widths, 1.0), 0.0)
        shares = shares[: count + 1] * values
        slopes = power * (shares[:, :-1] - shares[:, 1:])
        values = (inner - knots[:count]) * shares[:, :-1] + (knots[power + 1 :] - inner) * shares[:, 1:]
    return values + slopes * (column[:, None] - inner)
