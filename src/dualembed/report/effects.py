"""What moving one column does to the function, other columns as they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dualembed.plot.surface import Axis, Surface

QUARTILES = (25.0, 75.0)
LEVELS = 10  # of a category that are compared with its most frequent one


@dataclasses.dataclass(frozen=True)
class Effect:
    """By how much the mean of f changes as a column moves from `start` to `end`; `note` says why these two."""

    column: str
    start: Any
    end: Any
    value: float
    stderr: float | None
    note: str = ""

    def change(self, number: Callable[[float], str]) -> str:
        """The move in words, with numbers as that function writes them."""
        ends = (number(each) if isinstance(each, float) else str(each) for each in (self.start, self.end))
        return f"{self.column} from {' to '.join(ends)}" + (f" ({self.note})" if self.note else "")


def effects(surface: Surface, *, straight: bool) -> list[Effect]:
    """Those of every column: by one unit if f is a straight line, else between quartiles; of a category by levels.

    A column of two values moves from the one to the other, and each level of a category is compared with its most
    frequent one (without data with its first), the most frequent ones first.
    """
    return [_effect(surface, axis, *move) for axis in surface.axes for move in _moves(surface, axis, straight=straight)]


def unshown(surface: Surface) -> list[str]:
    """For every category of many levels, a sentence that not all are compared."""
    counts = {axis.name: len(axis.levels) - 1 for axis in surface.axes}
    return [
        f"Of {name} the {LEVELS} most frequent of {count} other levels are compared."
        for name, count in counts.items()
        if count > LEVELS
    ]


def _moves(surface: Surface, axis: Axis, *, straight: bool) -> Iterator[tuple[Any, Any, str]]:
    """(start, end, note) of each move of a column that is looked at."""
    if axis.levels:
        first, *others = _by_frequency(surface, axis)
        yield from ((first, other, "") for other in others[:LEVELS])
        return
    two = _two_values(surface, axis)
    if two is not None:
        yield *two, ""
    elif straight:
        yield 0.0, 1.0, "one unit"
    else:
        yield *surface.quantiles(axis, QUARTILES), "quartiles"


def _by_frequency(surface: Surface, axis: Axis) -> list[Any]:
    """The levels of a category, the most frequent first; those that are equally so in their own order."""
    if surface.rows is None:
        return list(axis.levels)
    seen = axis.decode(surface.rows).tolist()
    return sorted(axis.levels, key=lambda level: -seen.count(level))


def _two_values(surface: Surface, axis: Axis) -> tuple[float, float] | None:
    """The two values of a column of numbers that has no others: quartiles of it may well be the same."""
    if surface.rows is None:
        return None
    coded = surface.rows[:, axis.start]
    low, high = float(coded.min()), float(coded.max())
    if low == high or not np.all((coded == low) | (coded == high)):
        return None
    first, second = axis.column.decode(np.array([[low], [high]])).tolist()
    return float(f"{first:.9g}"), float(f"{second:.9g}")  # which coding and decoding may miss by a rounding


def _effect(surface: Surface, axis: Axis, start: Any, end: Any, note: str) -> Effect:
    """The contrast of the means of f at the two ends."""
    base = surface.background()
    points = np.concatenate([axis.with_value(base, end), axis.with_value(base, start)])
    value, stderr = surface.average(points, np.repeat([1.0, -1.0], len(base)) / len(base))
    return Effect(axis.name, start, end, value, stderr, note)
