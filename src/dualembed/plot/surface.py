"""A fitted function as a figure sees it: named columns in their own units, values, standard errors."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.stats import norm

from dualembed import checks
from dualembed.data.roles import ROLES, role_named
from dualembed.linear.spread import Spread

ROWS = 2000  # of the data that are looked at
INSIDE = 0.5, 99.5  # percentiles of a column between which it is drawn
GRID = 80  # values of a number


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
        found: np.ndarray = self.column.decode(points[:, self.start : self.start + self.column.width])
        return found

    def with_value(self, points: np.ndarray, values: Any) -> np.ndarray:
        """The points (n, d) with the column at `values`, one or (n,)."""
        given = np.empty(len(points), dtype=object if self.levels else np.float64)
        given[:] = values
        moved = points.copy()
        moved[:, self.start : self.start + self.column.width] = self.column.encode(given)
        return moved


@dataclasses.dataclass(frozen=True)
class Surface:
    """A function of coded points; `spreads` are what its standard errors come from, the largest of which counts.

    `rows` (n, d) are coded points of the data, or None.
    """

    symbol: str
    axes: tuple[Axis, ...]
    dimension: int
    call: Callable[[np.ndarray], Any]
    spreads: tuple[Spread, ...]
    rows: np.ndarray | None

    @property
    def unit(self) -> float:
        """How many standard errors a 95 % interval reaches to either side."""
        own = getattr(self.spreads[0], "quantile", None) if self.spreads else None
        return float(norm.ppf(0.975) if own is None else own(0.95))

    def evaluate(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """(values, standard errors), each (n,), at points (n, d); None where there are no standard errors."""
        if not self.spreads:
            return np.asarray(self.call(points), dtype=np.float64), None
        lower, upper = self.spreads[0].interval(points)
        return (lower + upper) / 2, np.max([spread.std(points) for spread in self.spreads], axis=0)

    def average(self, points: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, float | None]:
        """(Σ weights_i f(x_i), its standard error), by default the mean."""
        if not self.spreads:
            found = np.asarray(self.call(points), dtype=np.float64)
            return float(found.mean() if weights is None else weights @ found), None
        means = [spread.average(points, weights) for spread in self.spreads]
        return means[0].value, max(mean.stderr for mean in means)

    def background(self, most: int = 200) -> np.ndarray:
        """Points over which other columns are averaged: rows of the data, or their middle (of categories the first)."""
        if self.rows is not None and len(self.axes) > 1:
            return self.rows[:most]
        middle = np.zeros((1, self.dimension))
        for axis in self.axes:
            if axis.levels:
                middle = axis.with_value(middle, axis.levels[0])
        return middle

    def grid(self, axis: Axis, count: int = GRID) -> np.ndarray:
        """Values of a column at which it is drawn: levels, or the data's range, or the mean ± 2 standard deviations."""
        if axis.levels:
            found = np.empty(len(axis.levels), dtype=object)
            found[:] = axis.levels
            return found
        low, high = self.quantiles(axis, INSIDE)
        return np.linspace(low, high, count)

    def quantiles(self, axis: Axis, percentiles: tuple[float, float]) -> tuple[float, float]:
        """Two percentiles of a column of numbers over the data; without data those of a normal column, within ± 2."""
        if self.rows is not None:
            low, high = np.percentile(axis.decode(self.rows), percentiles)
            return float(low), float(high)
        low, high = np.clip(norm.ppf(np.asarray(percentiles) / 100), -2.0, 2.0)
        return axis.column.mean + low * axis.column.scale, axis.column.mean + high * axis.column.scale

    def dependence(self, axis: Axis) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """(grid, means of f with the column at each value of it, their standard errors)."""
        grid, base = self.grid(axis), self.background()
        if len(base) == 1:
            return grid, *self.evaluate(axis.with_value(np.repeat(base, len(grid), axis=0), grid))
        found = [self.average(axis.with_value(base, value)) for value in grid]
        std = None if not self.spreads else np.array([each[1] for each in found], dtype=np.float64)
        return grid, np.array([each[0] for each in found]), std

    def axis(self, column: str) -> Axis:
        """The axis of the column with this name."""
        for axis in self.axes:
            if axis.name == column:
                return axis
        raise checks.InputError(
            f"column {column!r} is none that the function depends on; choose one of "
            f"{', '.join(axis.name for axis in self.axes)}"
        )


def function_surface(model: Any, data: Any = None) -> Surface:
    """The function f that a model has learnt."""
    _check_fitted(model)
    codings = [model.coding_, getattr(model, "actions_", None), getattr(model, "controls_", None)]
    spreads = () if model.uncertainty_ is None else tuple(model.uncertainty_.spreads)
    return _surface(model.task_.label, model, codings, model.function_, spreads, tables_of(model, data))


def witness_surface(model: Any, data: Any = None) -> Surface:
    """The witness: by how much the equation fails in each context."""
    _check_fitted(model)
    if model.witness_ is None:
        raise checks.InputError(
            "the witness has standard errors after a closed form with the square loss only; use solver='auto'"
        )
    inputs = getattr(model, "instruments_", None) or getattr(model, "inputs_", None) or model.coding_
    codings = [inputs, getattr(model, "actions_", None), getattr(model, "controls_", None)]
    tables = tables_of(model, data)
    surface = _surface("remaining error", model, codings, model.dual_.function, (model.witness_,), tables)
    if model.witness_.features.dimension != surface.dimension:
        raise checks.InputError("the witness of this problem depends on y itself besides the columns; ask for none")
    return surface


def tables_of(model: Any, data: Any) -> dict[str, Any]:
    """The data by the names of `fit`'s arguments; a table alone is taken for the first of them."""
    if data is None:
        return {}
    arguments = inspect.signature(model.fit).parameters
    if isinstance(data, Mapping) and {role_named(name) for name in data} <= set(arguments):
        return {role_named(name): table for name, table in data.items() if table is not None}
    return {next(iter(arguments)): data}


def _check_fitted(model: Any) -> None:
    if not hasattr(model, "function_"):
        raise checks.InputError(
            f"{type(model).__name__} has not been fitted, so that there is nothing to show; call fit"
        )


def _surface(
    symbol: str, model: Any, codings: list[Any], call: Any, spreads: tuple[Spread, ...], tables: dict[str, Any]
) -> Surface:
    kept = [coding for coding in codings if coding is not None]
    axes: list[Axis] = []
    start = 0
    for coding in kept:
        at = start
        for name, column in zip(names_of(model, coding), coding.columns, strict=True):
            if column.width:
                axes.append(Axis(name, column, at))
            at += column.width
        start += coding.dimension
    if not axes:
        raise checks.InputError("every column was constant, so that there is nothing to draw along")
    return Surface(symbol, tuple(axes), start, call, spreads, _rows(kept, tables))


def names_of(model: Any, coding: Any) -> list[str]:
    """The columns' names; without names of their own those of X, or what they are and their number."""
    given = getattr(model, "feature_names_in_", ())
    if coding.named or coding.role == "X":
        return list(coding.names)
    if ROLES[coding.role].follows == "X":  # of variations, whose columns are X's
        return [str(name) for name in given] if len(given) == len(coding.columns) else list(coding.names)
    single = ROLES[coding.role].word
    return [single] if len(coding.columns) == 1 else [f"{single} {number}" for number in range(len(coding.columns))]


def _rows(codings: list[Any], tables: dict[str, Any]) -> np.ndarray | None:
    """Coded rows of the data, some at random where there are many; None where a table is missing."""
    sources = [ROLES[coding.role].follows or coding.role for coding in codings]  # variations are coded from X here
    if any(name not in tables for name in sources):
        return None
    coded = np.concatenate([coding.encode(tables[name]) for coding, name in zip(codings, sources, strict=True)], axis=1)
    if len(coded) <= ROWS:
        return coded
    return coded[np.sort(np.random.default_rng(0).choice(len(coded), ROWS, replace=False))]
