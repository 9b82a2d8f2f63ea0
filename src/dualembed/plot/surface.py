"""A fitted function as a figure sees it: named columns in their own units, values, standard errors."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from dualembed import checks
from dualembed.answers.task import Fitted
from dualembed.arrays import Floats
from dualembed.data.coding import Coding
from dualembed.data.roles import ROLES, role_named
from dualembed.data.whole import listed_table, named_table
from dualembed.estimates import format_number
from dualembed.linear.moment_fit import Spread

ROWS = 2000  # of the data that are looked at
BACKGROUND = 400  # of these, over which other columns are averaged
TOLD = 4  # columns of a point that are named
INSIDE = 0.5, 99.5  # percentiles of a column between which it is drawn
GRID = 80  # values of a number
NORMAL = float(norm.ppf(0.975))


@dataclasses.dataclass(frozen=True)
class Axis:
    """A column that a function depends on, and where its coordinates start."""

    name: str
    column: Any
    start: int

    @property
    def levels(self) -> tuple[Any, ...]:
        """Those of a category; none for a number."""
        return tuple(self.column.levels)

    def decode(self, points: np.ndarray) -> np.ndarray:
        """The column's values (n,), in its own units, at coded points (n, d)."""
        values: np.ndarray = self.column.decode(points[:, self.start : self.start + self.column.width])
        return values

    def with_value(self, points: Floats, values: Any) -> Floats:
        """The points (n, d) with the column at `values`, one or (n,)."""
        given = np.empty(len(points), dtype=object if self.levels else np.float64)
        given[:] = values
        moved = points.copy()
        moved[:, self.start : self.start + self.column.width] = self.column.encode(given)
        return moved


def axes_of(codings: Sequence[Coding]) -> list[Axis]:
    """The columns of tables whose coordinates stand side by side; without those that are left out."""
    axes, begin = [], 0
    for coding in codings:
        for name, column, start in zip(column_names(coding), coding.columns, coding.starts, strict=True):
            if column.width:
                axes.append(Axis(name, column, begin + start))
        begin += coding.dimension
    return axes


def column_names(coding: Coding) -> list[str]:
    """The columns' names; without names of their own what they are and their number, but for X, which numbers its."""
    if coding.named or coding.role == "X":
        return list(coding.names)
    single = ROLES[coding.role].word
    return [single] if len(coding.columns) == 1 else [f"{single} {number}" for number in range(len(coding.columns))]


def middle_of(axes: Sequence[Axis], dimension: int | None = None) -> Floats:
    """The point (1, d) at the mean of every number and at the first level of every category."""
    width = max((axis.start + axis.column.width for axis in axes), default=1)
    middle = np.zeros((1, width if dimension is None else dimension))
    for axis in axes:
        if axis.levels:
            middle = axis.with_value(middle, axis.levels[0])
    return middle


def describe_point(axes: Sequence[Axis], point: Floats) -> str:
    """The values of columns at a point (1, d), in words: those of the first, where there are many."""
    values = [axis.decode(point)[0] for axis in axes[:TOLD]]
    texts = [str(each) if axis.levels else format_number(each) for axis, each in zip(axes, values, strict=False)]
    named = [f"{axis.name} = {text}" for axis, text in zip(axes, texts, strict=False)]
    return ", ".join([*named, *(["…"] if len(axes) > TOLD else [])]) or "where nothing varies"


class Dependence(NamedTuple):
    """Values of a function along one column, and their standard errors, where there are some."""

    axis: Axis
    grid: np.ndarray
    values: Floats
    std: Floats | None

    @property
    def marked(self) -> bool:
        """Whether it is of single values, each with a mark: levels, or the two values of a number."""
        return bool(self.axis.levels) or len(self.grid) == 2

    @property
    def names(self) -> list[str]:
        """The grid's values in words."""
        return [str(each) if self.axis.levels else format_number(float(each)) for each in self.grid]

    def half(self, unit: float) -> Floats:
        """Half the length of intervals of so many standard errors."""
        return np.zeros(len(self.values)) if self.std is None else unit * self.std

    def columns(self, unit: float) -> dict[str, list[Any]]:
        """All that is drawn of it, as columns of a table."""
        count, half = len(self.grid), self.half(unit)
        known = self.std is not None
        return {
            "column": [self.axis.name] * count,
            "at": [None] * count if self.axis.levels else [float(each) for each in self.grid],
            "level": [str(each) for each in self.grid] if self.axis.levels else [None] * count,
            "estimate": self.values.tolist(),
            "std_error": self.std.tolist() if self.std is not None else [None] * count,
            "conf_low": (self.values - half).tolist() if known else [None] * count,
            "conf_high": (self.values + half).tolist() if known else [None] * count,
        }


@dataclasses.dataclass(frozen=True)
class Surface:
    """A function of coded points; `spreads` are what its standard errors come from, the largest of which counts.

    `rows` (n, d) are coded points of the data, or None; they are in an order of chance, so that the first of them stand
    for all. `unit` is how many standard errors a 95 % interval reaches to either side, and `sample` are the rows that
    the model itself takes means over, where it keeps some.
    """

    symbol: str
    axes: tuple[Axis, ...]
    dimension: int
    call: Callable[[Floats], Any]
    spreads: tuple[Spread, ...]
    rows: Floats | None
    unit: float = NORMAL
    sample: Floats | None = None

    def evaluate(self, points: Floats) -> tuple[Floats, Floats | None]:
        """(values, standard errors), each (n,), at points (n, d); None where there are no standard errors."""
        if not self.spreads:
            return np.asarray(self.call(points), dtype=np.float64), None
        values, errors = zip(*(spread.evaluate(points) for spread in self.spreads), strict=True)
        return values[0], np.max(errors, axis=0)

    def average(self, points: Floats) -> tuple[float, float | None]:
        """(the mean of f over points (n, d), its standard error)."""
        values, std = self.averages(points[None])
        return float(values[0]), None if std is None else float(std[0])

    def averages(self, points: Floats, less: Floats | None = None) -> tuple[Floats, Floats | None]:
        """(means of f over sets of points (G, n, d), their standard errors), less that over one set (n, d) if given."""
        if not self.spreads:
            means = np.asarray(self.call(points.reshape(-1, points.shape[2])), dtype=np.float64)
            means = means.reshape(len(points), -1).mean(axis=1)
            return means - (0.0 if less is None else np.mean(np.asarray(self.call(less), dtype=np.float64))), None
        found = [spread.averages(points, less) for spread in self.spreads]
        return found[0][0], np.max([errors for _, errors in found], axis=0)

    def background(self) -> Floats:
        """Points over which other columns are averaged: rows of the data, or their middle (of categories the first)."""
        if self.rows is not None and len(self.axes) > 1:
            return self.rows[:BACKGROUND]
        return middle_of(self.axes, self.dimension)

    def grid(self, axis: Axis, count: int = GRID) -> np.ndarray:
        """Values of a column at which it is drawn: levels, or the data's range, or the mean ± 2 standard deviations.

        Of a number with two values these are all.
        """
        if axis.levels:
            values = np.empty(len(axis.levels), dtype=object)
            values[:] = axis.levels
            return values
        if (both := self.both(axis)) is not None:
            return both
        return np.linspace(*self.ends(axis), count)

    def ends(self, axis: Axis) -> tuple[float, float]:
        """Between which values a column of numbers is drawn."""
        return self.quantiles(axis, INSIDE)

    def both(self, axis: Axis) -> np.ndarray | None:
        """The two values of a number that has no others, as 0 and 1; None of other columns."""
        rows = self.rows if self.rows is not None else self.sample
        if rows is None or axis.levels:
            return None
        places = np.unique(rows[:, axis.start])
        if len(places) != 2:
            return None
        moved = np.zeros((2, rows.shape[1]))
        moved[:, axis.start] = places
        return np.array([float(f"{value:.9g}") for value in axis.decode(moved)])  # coding may miss by a rounding

    def quantiles(self, axis: Axis, percentiles: tuple[float, float]) -> tuple[float, float]:
        """Two percentiles of a column of numbers over the data; without data those of a normal column, within ± 2."""
        if self.rows is not None:
            low, high = np.percentile(axis.decode(self.rows), percentiles)
            return float(low), float(high)
        low, high = np.clip(norm.ppf(np.asarray(percentiles) / 100), -2.0, 2.0)
        return axis.column.mean + low * axis.column.scale, axis.column.mean + high * axis.column.scale

    def dependence(self, axis: Axis, count: int = GRID) -> Dependence:
        """f with the column at each value of a grid, averaged over the others."""
        return self.dependences([axis], count)[0]

    def dependences(self, axes: Sequence[Axis], count: int = GRID) -> list[Dependence]:
        """The same for several columns, in one pass over all points of all grids."""
        base = self.background()
        grids = [self.grid(axis, count) for axis in axes]
        values, std = self.averages(_moved(base, axes, grids))
        ends = np.cumsum([len(grid) for grid in grids])[:-1]
        errors = [None] * len(axes) if std is None else np.split(std, ends)
        return [Dependence(*each) for each in zip(axes, grids, np.split(values, ends), errors, strict=True)]

    def contrasts(self, axes: Sequence[Axis], starts: Sequence[Any], count: int = GRID) -> list[Dependence]:
        """By how much f differs from what it is with a column at its start, as it moves, on average over rows."""
        base, found = self.background() if self.sample is None else self.sample, []
        for axis, start in zip(axes, starts, strict=True):
            grid = self.grid(axis, count)
            if not axis.levels and not np.any(np.isclose(grid, start, rtol=1e-9, atol=0)):
                grid = np.sort(np.append(grid, start))
            values, std = self.averages(_moved(base, [axis], [grid]), axis.with_value(base, start))
            found.append(Dependence(axis, grid, values, std))
        return found

    def axis(self, column: str) -> Axis:
        """The axis of the column with this name."""
        for axis in self.axes:
            if axis.name == column:
                return axis
        raise checks.InputError(
            f"column {column!r} is none that the function depends on; choose one of "
            f"{', '.join(axis.name for axis in self.axes)}"
        )


def _moved(base: Floats, axes: Sequence[Axis], grids: Sequence[np.ndarray]) -> Floats:
    """The rows (n, d) once for each value of each grid, with the column at it: (G, n, d)."""
    return np.stack([axis.with_value(base, value) for axis, grid in zip(axes, grids, strict=True) for value in grid])


def function_surface(model: Fitted, data: Any = None) -> Surface:
    """The function f that a model has learnt."""
    _check_fitted(model)
    spreads = () if model.uncertainty_ is None else tuple(model.uncertainty_.spreads)
    tables = tables_of(model, data)
    surface = _surface(model.task_.label, model._point_codings(), model.function_, spreads, tables)
    sample = None if model.sample_ is None else model.sample_.points
    return dataclasses.replace(surface, unit=model._quantile(0.95), sample=sample)


def witness_surface(model: Fitted, data: Any = None) -> Surface:
    """The witness: by how much the equation fails in each context."""
    _check_fitted(model)
    if model.witness_ is None:
        raise checks.InputError(
            "the witness has standard errors after a closed form with the square loss only; use solver='auto'"
        )
    tables = tables_of(model, data)
    surface = _surface("remaining error", model._context_codings(), model.dual_.function, (model.witness_,), tables)
    if model.witness_.features.dimension != surface.dimension:
        raise checks.InputError("the witness of this problem depends on y itself besides the columns; ask for none")
    return surface


def tables_of(model: Fitted, data: Any) -> dict[str, Any]:
    """The data by the names of `fit`'s arguments; a table alone is all of them, as fit takes it, or the first."""
    if data is None:
        return {}
    arguments = inspect.signature(model.fit).parameters
    if isinstance(data, Mapping) and {role_named(name) for name in data} <= set(arguments):
        return {role_named(name): table for name, table in data.items() if table is not None}
    roles = [ROLES[name] for name in arguments if name in ROLES]
    whole = named_table(data, roles) or listed_table(data, roles)
    return {next(iter(arguments)): data} if whole is None else dict(whole.columns)


def _check_fitted(model: Fitted) -> None:
    if not model.__sklearn_is_fitted__():
        raise checks.InputError(
            f"{type(model).__name__} has not been fitted, so that there is nothing to show; call fit"
        )


def _surface(
    symbol: str, codings: Sequence[Coding], call: Any, spreads: tuple[Any, ...], tables: Mapping[str, Any]
) -> Surface:
    axes = axes_of(codings)
    if not axes:
        raise checks.InputError("every column was constant, so that there is nothing to draw along")
    dimension = sum(coding.dimension for coding in codings)
    return Surface(symbol, tuple(axes), dimension, call, spreads, _rows(codings, tables))


def _rows(codings: Sequence[Coding], tables: Mapping[str, Any]) -> Floats | None:
    """Coded rows of the data, at random and no more than are looked at; None where a table is missing.

    The draw is by what rows are, not by where they stand.
    """
    if any(coding.role not in tables for coding in codings):
        return None
    coded = np.concatenate([coding.encode(tables[coding.role]) for coding in codings], axis=1)
    order = np.lexsort(coded.T)
    return coded[order[np.random.default_rng(0).permutation(len(coded))[:ROWS]]]
