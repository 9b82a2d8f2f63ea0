"""A table: one number for each of finitely many points, such as the states of a chain."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from dualembed import checks
from dualembed.spaces.base import FeatureMap, Layout
from dualembed.spaces.linear import LinearSpace

SHOWN = 3000  # samples from which on a layout that does not say whether they are the whole may be a part of it


class Table(LinearSpace):
    """f(x) = its entry for x, |f|² the sum of squares; 0 at points that are not in the table.

    The points are those given, (m,) or (m, d), or every distinct one of the data; a stochastic solver does not show all
    of them if they are many, and asks for them. Values are looked up by equality, so that states should be numbered or
    otherwise exact.

    >>> Table([0, 1, 2]).points.shape
    (3, 1)
    """

    points: np.ndarray | None = None

    def __init__(self, points: Any = None) -> None:
        if points is not None:
            given = np.asarray(checks.array("points", points, ndim=(1, 2)))
            points = _distinct(np.asarray(points, dtype=np.float64).reshape(len(given), -1))[0]
        self.points = points

    def check(self, dimension: int) -> None:
        """Points of the table must have as many coordinates."""
        if self.points is not None and self.points.shape[1] != dimension:
            raise checks.InputError(
                f"the points of the Table have {self.points.shape[1]} coordinate(s), those of the problem {dimension}"
            )

    def feature_map(self, key: jax.Array, layout: Layout) -> TableMap:
        """One indicator for each point."""
        if self.points is not None:
            return TableMap(jnp.asarray(self.points) if isinstance(layout.pilot, jax.Array) else self.points)
        if checks.traced(layout.pilot):
            raise checks.InputError("a Table under jit or vmap needs its points given: Table(points)")
        if not layout.whole:
            self._check_shown(layout)
        distinct = _distinct(np.asarray(layout.pilot))[0]
        return TableMap(jnp.asarray(distinct) if isinstance(layout.pilot, jax.Array) else distinct)

    def _check_shown(self, layout: Layout) -> None:
        """Raise where the pilot may be without some of the points."""
        shown = layout.pilot.shape[0] // layout.per_sample
        if layout.capacity > shown:
            raise checks.InputError(
                f"a Table finds its points in the {shown} samples shown before a "
                f"run, of which there are {layout.capacity}, and may miss some; give them: Table(points)"
            )
        # Closed forms show all the data, in NumPy. A run of few steps meets other rows than those it was shown.
        if isinstance(layout.pilot, jax.Array) and shown >= SHOWN:
            raise checks.InputError(
                f"a Table finds its points in the samples shown before a run, here {shown}, which may be some of "
                "many; give them: Table(points)"
            )


class TableMap(FeatureMap):
    """φ_j(x) = 1 where x is point j, else 0."""

    points: Any  # (m, d), distinct and sorted

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.points.shape[1]

    @property
    def size(self) -> int:
        """The number of points."""
        return self.points.shape[0]

    def __call__(self, xs: Any) -> Any:
        """Indicators (n, m)."""
        same = xs[:, None, 0] == self.points[:, 0]
        for column in range(1, self.dimension):
            same = same & (xs[:, None, column] == self.points[:, column])
        return same.astype(xs.dtype)

    def sparse(self, xs: np.ndarray) -> sparse.csr_array:
        """The same indicators (n, m), one stored number a row at most, by binary search."""
        table = np.asarray(self.points, dtype=np.float64)
        _, number = _distinct(np.concatenate([table, np.asarray(xs, dtype=np.float64)]))
        column = np.full(number.max() + 1, -1)
        column[number[: len(table)]] = np.arange(len(table))
        found = column[number[len(table) :]]
        rows = np.flatnonzero(found >= 0)
        return sparse.csr_array((np.ones(len(rows)), (rows, found[rows])), shape=(len(xs), len(table)))


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the distinct rows in lexical order, the number among them of each row).

    Column by column: to sort numbers is ten times as fast as to sort rows.
    """
    first, number = np.zeros(1, dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        values, rank = np.unique(column, return_inverse=True)
        _, first, number = np.unique(number * len(values) + rank, return_index=True, return_inverse=True)
    return rows[first], number
