"""Columns that f is told to be linear in: by their names or places, their coordinates, and their slopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.data.coding import Coding, ColumnCoding
from dualembed.linear.moment_fit import Spread

WHOLE = "X"  # what stands for all columns of X


class LinearColumn(NamedTuple):
    """A column that f is linear in, and its coordinates."""

    column: ColumnCoding
    coordinates: range


class Slopes(NamedTuple):
    """Slopes in the columns' own units, and their covariance; of a category those of all levels but the first."""

    names: tuple[str, ...]
    values: Floats
    covariance: Floats


def linear_columns(linear: Any, codings: Sequence[Coding], settings: Sequence[Any]) -> list[LinearColumn]:
    """The columns that are named, those of X first; refused where there is no such column, or nothing to choose.

    `settings` are the solver and the spaces, which must be left to be chosen.
    """
    if linear is None:
        return []
    if any(not isinstance(each, str) or each != "auto" for each in settings):
        raise checks.InputError(
            "linear= says what f is like where its space is chosen, but solver=, primal= or dual= choose it already; "
            "leave either out"
        )
    known = every_column(codings)
    names = [each.column.name for each in known]
    own = len(codings[0].columns)
    whole = isinstance(linear, str) and linear == WHOLE and WHOLE not in names
    asked = range(own) if whole else [linear] if isinstance(linear, str | int | np.integer) else list(linear)
    return [known[number] for number in sorted({_number(each, names) for each in asked})]


def every_column(codings: Sequence[Coding]) -> list[LinearColumn]:
    """All columns with their coordinates."""
    # A table without a column that varies has a coordinate all the same.
    offsets = np.cumsum([0, *(coding.dimension for coding in codings)])
    return [
        LinearColumn(column, range(offset + start, offset + start + column.width))
        for offset, coding in zip(offsets, codings, strict=False)
        for column, start in zip(coding.columns, coding.starts, strict=True)
    ]


def origin(codings: Sequence[Coding]) -> Floats:
    """The point (1, d) where numbers are 0 and categories have their first level."""
    point = np.zeros((1, sum(coding.dimension for coding in codings)))
    for column, places in every_column(codings):
        if places:
            point[0, places[0]] = -column.mean / column.scale if not column.levels else float(len(places) > 1)
    return point


def _number(each: Any, names: Sequence[str]) -> int:
    """The place of a column that is named, or numbered."""
    if isinstance(each, int | np.integer) and not isinstance(each, bool) and 0 <= each < len(names):
        return int(each)
    if isinstance(each, str) and each in names:
        return names.index(each)
    hint = checks.nearest(each, names) if isinstance(each, str) else ""
    raise checks.InputError(f"linear= names {each!r}, which is no column of X or controls ({checks.some(names)}){hint}")


def slopes_of(spread: Spread, chosen: Sequence[LinearColumn]) -> Slopes | None:
    """What f changes by along each of the columns, anywhere; None where none of them varies."""
    moves = [move for each in chosen for move in _moves(each, spread.features.dimension)]
    if not moves:
        return None
    ends = [(np.stack([move, 0 * move]), np.array([1.0, -1.0]) / unit) for _, move, unit in moves]
    values = [float(shares @ spread.values(points)) for points, shares in ends]
    return Slopes(tuple(name for name, _, _ in moves), np.array(values), spread.covariance(ends))


def _moves(chosen: LinearColumn, dimension: int) -> list[tuple[str, Floats, float]]:
    """(name, a move of all coordinates (d,), how much of the column it is)."""
    column, places = chosen
    if not places:
        return []
    unit = np.eye(dimension)[list(places)]
    if not column.levels:
        return [(column.name, unit[0], column.scale)]
    steps = unit if len(places) == 1 else unit[1:] - unit[0]
    return [(f"{column.name}={level}", step, 1.0) for level, step in zip(column.levels[1:], steps, strict=True)]
