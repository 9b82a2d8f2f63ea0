"""Finite bases: functions of the user's own, straight lines and planes, and tables of points."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from dualembed import checks
from dualembed.arrays import AnyArray, Booleans, Floats, Integers
from dualembed.spaces.base import Layout
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.linear import LinearSpace

SHOWN = 3000  # samples from which on a layout that does not say whether they are the whole may be a part of it


class Basis(LinearSpace):
    """Functions f = wᵀφ for features φ of your own.

    Parameters
    ----------
    function : callable
        A function φ from points (n, d) to features (n, m), written in JAX; a `FeatureMap` is used as it is.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> quadratics = Basis(lambda x: jnp.stack([jnp.ones(len(x)), x[:, 0], x[:, 0] ** 2], axis=1))
    """

    function: Callable[[jax.Array], jax.Array]

    def __init__(self, function: Callable[[jax.Array], jax.Array]) -> None:
        if not callable(function):
            raise checks.InputError(f"a Basis needs a function from points (n, d) to features (n, m), not {function!r}")
        self.function = function if isinstance(function, eqx.Module) else jax.tree_util.Partial(function)

    def check(self, dimension: int) -> None:
        """The function must turn (n, d) points into (n, m) features."""
        if isinstance(self.function, FeatureMap) and self.function.dimension == dimension:
            return
        probe = jax.ShapeDtypeStruct((3, dimension), jnp.zeros(()).dtype)
        try:
            shape = jax.eval_shape(self.function, probe).shape
        except Exception as error:
            raise checks.InputError(f"the basis function failed on points of dimension {dimension}: {error}") from error
        if len(shape) != 2 or shape[0] != 3:
            raise checks.InputError(
                f"the basis function must turn points of shape (n, {dimension}) into features (n, m), "
                f"but 3 points gave shape {shape}"
            )

    def feature_map(self, key: jax.Array, layout: Layout) -> FeatureMap:
        """The function as it is."""
        if isinstance(self.function, FeatureMap):
            return self.function
        size = jax.eval_shape(self.function, layout.pilot).shape[1]
        return BasisMap(self.function, layout.dimension, size)


class BasisMap(FeatureMap):
    """The user's φ."""

    function: Callable[[jax.Array], jax.Array]
    inputs: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.inputs

    @property
    def size(self) -> int:
        """The number of features."""
        return self.outputs

    def __call__(self, xs: AnyArray) -> AnyArray:
        """φ(x)."""
        return self.function(xs)


class Affine(LinearSpace):
    """Affine functions f(x) = w_0 + w_1 x_1 + ... + w_d x_d.

    Examples
    --------
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

    def __call__(self, xs: AnyArray) -> AnyArray:
        """(1, x), shape (n, d + 1)."""
        xp = np if isinstance(xs, np.ndarray) else jnp
        return xp.concatenate([xp.ones((xs.shape[0], 1), xs.dtype), xs], axis=1)


class PolynomialMap(FeatureMap):
    """φ(x) = transformᵀ monomials(z), z = (x - centre)/scale: polynomials, orthonormal on data, degree by degree."""

    exponents: tuple[tuple[int, ...], ...] = eqx.field(static=True)  # p times d
    centre: AnyArray  # (d,)
    scale: AnyArray  # (d,)
    transform: AnyArray  # (p, p), upper triangular

    @staticmethod
    def orthonormal(
        points: Floats,
        *,
        last: Sequence[int] = (),
        straight: Sequence[int] = (),
        most: int = 35,
        most_powers: int = 100,
        exponents: Sequence[tuple[int, ...]] | None = None,
    ) -> PolynomialMap:
        """All monomials up to degree 3, or 2, if they are at most `most`.

        Of more columns there are their own powers only, if these are at most `most_powers`, else their first. What the
        data cannot tell from those before it, such as the square of a column of 0 and 1, is left out. Of one degree,
        those of the columns `last` come last: what the others leave of them. Of columns that are `straight` there is
        the first power alone, which comes after all powers of the others. Those of given `exponents` are taken instead.
        """
        centre, scale = points.mean(axis=0), points.std(axis=0)
        scale = np.where(scale > 1e-12 * np.maximum(np.abs(points).max(axis=0), 1e-300), scale, 1.0)
        found = _exponents(points.shape[1], most, most_powers) if exponents is None else exponents
        exponents = [each for each in found if sum(each) == 1 or not any(each[column] for column in straight)]
        exponents.sort(
            key=lambda each: (
                any(each[column] for column in straight),
                sum(each),
                any(each[column] for column in last),
            )
        )
        values = _monomials((points - centre) / scale, exponents)
        sizes = np.sqrt(np.mean(values**2, axis=0))
        sizes = np.where(sizes > 0, sizes, 1.0)
        kept: list[int] = []
        basis = np.empty((len(points), 0))
        for number, column in enumerate((values / sizes).T):
            left = column - basis @ (basis.T @ column)
            left -= basis @ (basis.T @ left)  # once more, for what rounding has left
            norm = float(np.linalg.norm(left))
            if norm > 1e-6 * np.sqrt(len(points)) and len(kept) < len(points):
                kept.append(number)
                basis = np.concatenate([basis, (left / norm)[:, None]], axis=1)
        upper = np.linalg.qr(values[:, kept] / sizes[kept], mode="r")
        transform = np.linalg.inv(upper) * np.sqrt(len(points)) / sizes[kept][:, None]
        chosen = tuple(exponents[number] for number in kept)
        return PolynomialMap(chosen, centre, scale, transform * np.sign(np.diag(transform)))

    def with_columns(self, columns: Sequence[int]) -> Booleans:
        """Whether each feature is of a monomial with one of these columns, (p,)."""
        return np.array([any(each[column] for column in columns) for each in self.exponents])

    @property
    def degrees(self) -> Integers:
        """The degree (p,) of each feature."""
        return np.array([sum(each) for each in self.exponents])

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return len(self.exponents[0])

    @property
    def size(self) -> int:
        """The number of features."""
        return len(self.exponents)

    def __call__(self, xs: AnyArray) -> AnyArray:
        """The features (n, p) at points (n, d)."""
        return _monomials((xs - self.centre) / self.scale, self.exponents) @ self.transform


def _exponents(dimension: int, most: int, most_powers: int) -> list[tuple[int, ...]]:
    """Exponents of monomials, the lower degrees first."""
    for degree in (3, 2):
        if math.comb(dimension + degree, degree) <= most:
            products = [
                each
                for total in range(degree + 1)
                for each in itertools.combinations_with_replacement(range(dimension), total)
            ]
            return [tuple(each.count(column) for column in range(dimension)) for each in products]
    powers = range(1, 4 if 1 + 3 * dimension <= most_powers else 2)
    alone = [
        tuple(power * (column == own) for column in range(dimension)) for power in powers for own in range(dimension)
    ]
    return [(0,) * dimension, *alone]


def _monomials(zs: AnyArray, exponents: Sequence[tuple[int, ...]]) -> AnyArray:
    """Products of powers (n, p) of coordinates (n, d)."""
    xp = np if isinstance(zs, np.ndarray) else jnp
    columns = []
    for each in exponents:
        column = xp.ones(len(zs), zs.dtype)
        for coordinate, power in enumerate(each):
            if power:
                column = column * zs[:, coordinate] ** power
        columns.append(column)
    return xp.stack(columns, axis=1)


class Table(LinearSpace):
    """One value for each point of a table, and 0 elsewhere; |f|² is the sum of squares.

    Values are looked up by equality, so states should be numbered or otherwise exact.

    Parameters
    ----------
    points : array of shape (m, d) or (m,), optional
        The points; by default all distinct ones of the data. A stochastic solver sees only some and needs them given.

    Examples
    --------
    >>> Table([0, 1, 2]).points.shape
    (3, 1)
    """

    points: Floats | None = None

    def __init__(self, points: ArrayLike | None = None) -> None:
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
        if not layout.complete:
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

    points: AnyArray  # (m, d), distinct and sorted

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.points.shape[1]

    @property
    def size(self) -> int:
        """The number of points."""
        return self.points.shape[0]

    def __call__(self, xs: AnyArray) -> AnyArray:
        """Indicators (n, m)."""
        same = xs[:, None, 0] == self.points[:, 0]
        for column in range(1, self.dimension):
            same = same & (xs[:, None, column] == self.points[:, column])
        return same.astype(xs.dtype)

    def sparse(self, xs: Floats) -> sparse.csr_array:
        """The same indicators (n, m), one stored number a row at most, by binary search."""
        table = np.asarray(self.points, dtype=np.float64)
        _, number = _distinct(np.concatenate([table, np.asarray(xs, dtype=np.float64)]))
        column = np.full(number.max() + 1, -1)
        column[number[: len(table)]] = np.arange(len(table))
        columns = column[number[len(table) :]]
        rows = np.flatnonzero(columns >= 0)
        return sparse.csr_array((np.ones(len(rows)), (rows, columns[rows])), shape=(len(xs), len(table)))


def _distinct(rows: Floats) -> tuple[Floats, Integers]:
    """(the distinct rows in lexical order, the number among them of each row).

    Column by column: to sort numbers is ten times as fast as to sort rows.
    """
    first, number = np.zeros(1, dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        values, rank = np.unique(column, return_inverse=True)
        _, first, number = np.unique(number * len(values) + rank, return_index=True, return_inverse=True)
    return rows[first], number
