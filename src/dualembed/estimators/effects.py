"""Questions that a regression answers: differences, mean derivatives and average effects of columns."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from dualembed import checks
from dualembed.answers import Question
from dualembed.answers.answer import outside_warning
from dualembed.answers.question import share_of
from dualembed.data.coding import Coding, ColumnCoding
from dualembed.data.frames import levels_of
from dualembed.estimators.base import Estimator
from dualembed.linear.fit import nearest, reach_of
from dualembed.selection.rows import deviations

STEP = 0.01  # of a column's deviation, to either side, over which a derivative is a difference
KEPT, CELLS, FEWEST = 1000, 200_000, 100  # rows that a fit keeps: at most these, fewer where they are wide


@dataclasses.dataclass(frozen=True)
class RowSample:
    """Some of the rows of a fit, all of them where they are few: means over "the data" are means over these.

    `rows` (n, d) are as `Effects` moves them, `points` (n, d') are points of f at the same rows in its coordinates, and
    `lots` (n,) are random numbers: of all rows seen, those with the least are kept.
    """

    rows: np.ndarray
    points: np.ndarray
    lots: np.ndarray
    seen: int

    @staticmethod
    def of(rows: np.ndarray, points: np.ndarray, *, seed: int, before: RowSample | None = None) -> RowSample:
        """A sample of these rows and of those seen before, whatever order they come in."""
        seen, lots = 0 if before is None else before.seen, np.empty(len(rows))
        lots[np.lexsort(rows.T)] = np.random.default_rng([seed, seen]).random(len(rows))
        parts = [(rows, points, lots)]
        if before is not None:
            parts.insert(0, (before.rows, before.points, before.lots))
        rows, points, lots = (np.concatenate(each) for each in zip(*parts, strict=True))
        kept = np.sort(np.argsort(lots)[: min(KEPT, max(FEWEST, CELLS // max(rows.shape[1], 1)))])
        return RowSample(rows[kept], points[kept], lots[kept], seen + len(parts[-1][0]))


class Place(NamedTuple):
    """Where a column is among the coordinates of rows, which are either coded or the column's own numbers."""

    column: ColumnCoding
    coordinates: slice
    coded: bool

    def moved(self, rows: np.ndarray, deviations_: float) -> np.ndarray:
        """The rows with the column moved by so many of its deviations."""
        moved = np.array(rows)
        moved[:, self.coordinates] += deviations_ * (1.0 if self.coded else self.column.scale)
        return moved

    def at(self, level: Any) -> Any:
        """The coordinates of one of the column's levels or numbers."""
        if self.column.levels:
            own = levels_of(np.array([level, None], dtype=object)[:1])
            if own[0] not in self.column.levels:
                known = ", ".join(map(str, self.column.levels[:8]))
                raise checks.InputError(
                    f"column {self.column.name} has no level {level!r}; give two of {known} as treated=... and "
                    "control=..."
                )
            return self.column.encode(own)[0]
        if not isinstance(level, int | float | np.number | np.bool_) or not np.isfinite(level):
            raise checks.InputError(
                f"column {self.column.name} is a number, and {level!r} is none; give numbers as treated=... and "
                "control=..."
            )
        return self.column.encode(np.array([float(level)]))[0] if self.coded else float(level)


class Effects(Estimator):
    """A regression: what f says of moving its columns, row by row, on average over rows."""

    sample_: RowSample | None = None  # of models that were saved before rows were kept there is none
    _moves_coded = True  # whether rows are moved in coded coordinates, or in the columns' own numbers

    @abstractmethod
    def _rows_of(self, X: Any, controls: Any, *, repeated: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(rows (n, d) whose columns can be moved, how far each strays from what the fit could learn of (n,)).

        One row of X may be `repeated` for all rows of the controls.
        """

    @abstractmethod
    def _mean_at(
        self, words: str, rows: np.ndarray, shares: np.ndarray, *, strays: np.ndarray, groups: Any
    ) -> Question:
        """The mean of Σ_j shares_j f(rows_j) over rows (n, J, d)."""

    def _difference(self, first: tuple[Any, Any], second: tuple[Any, Any]) -> Question:
        """f at the first X and controls less f at the second, on average; one row stands for all."""
        sides = [self._rows_of(*side, repeated=True) for side in (first, second)]
        counts = {len(rows) for rows, _ in sides}
        if len(counts) > 1 and 1 not in counts:
            raise checks.InputError(
                "a difference takes as many rows on both sides, or one on either, not "
                f"{len(sides[0][0])} and {len(sides[1][0])}"
            )
        number = max(counts)
        rows, strays = (
            np.stack([np.broadcast_to(side[k], (number, *side[k].shape[1:])) for side in sides], axis=1) for k in (0, 1)
        )
        shares = np.tile([1.0, -1.0], (number, 1))
        return self._mean_at("the difference of f between two sets of rows", rows, shares, strays=strays, groups=None)

    def _mean_derivative(self, column: Any, X: Any, controls: Any) -> Question:
        place = self._place(column)
        if place.column.levels:
            raise checks.InputError(
                f"column {place.column.name} is a category, along which nothing has a derivative; ask for its "
                "average_effect"
            )
        rows, strays, groups = self._asked_rows(X, controls, f"mean_derivative({column!r}, X)")
        both = np.stack([place.moved(rows, step) for step in (STEP, -STEP)], axis=1)
        shares = np.tile(np.array([1.0, -1.0]) / (2 * STEP * place.column.scale), (len(rows), 1))
        words = f"the mean derivative of f along {place.column.name}"
        # What f may be off by outside the data is off on both sides of the step alike, but for a share of it.
        return self._mean_at(words, both, shares, strays=STEP * _twice(strays), groups=groups)

    def _average_effect(self, column: Any, levels: tuple[Any, Any], X: Any, controls: Any) -> Question:
        place = self._place(column)
        rows, strays, groups = self._asked_rows(X, controls, f"average_effect({column!r}, X=...)")
        both = np.repeat(rows[:, None], 2, axis=1)
        for side, level in enumerate(levels):
            both[:, side, place.coordinates] = place.at(level)
        words = f"the average effect of {place.column.name}={levels[0]} against {levels[1]}"
        shares = np.tile([1.0, -1.0], (len(rows), 1))
        return self._mean_at(words, both, shares, strays=_twice(strays), groups=groups)

    def _asked_rows(self, X: Any, controls: Any, call: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """(rows, strays, groups): those given, or those of the fit, which are a sample of what there is."""
        self._coding()
        if X is not None:
            return *self._rows_of(X, controls), None
        if controls is not None:
            raise checks.InputError(f"controls go with X, which is missing; give both, as in {call}, or neither")
        if self.sample_ is None:
            raise checks.InputError(f"this model was saved without rows to take the mean over; give them, as in {call}")
        rows = self.sample_.rows
        return rows, np.zeros(len(rows)), np.full(len(rows), -1)

    def _place(self, column: Any) -> Place:
        """Where a column is that is to be moved, by its name or by its number; refused where it cannot be moved."""
        self._coding()
        known: list[tuple[Coding, Place]] = []
        begin = 0
        for coding in self._codings():
            starts = coding.starts if self._moves_coded else list(range(len(coding.columns)))
            for own, start in zip(coding.columns, starts, strict=True):
                width = own.width if self._moves_coded else 1
                known.append((coding, Place(own, slice(begin + start, begin + start + width), self._moves_coded)))
            begin += coding.dimension if self._moves_coded else len(coding.columns)
        names = [place.column.name for _, place in known]
        whole = isinstance(column, int | np.integer) and not isinstance(column, bool)
        number = int(column) if whole else names.index(column) if column in names else -1
        if not 0 <= number < len(names):
            raise checks.InputError(f"there is no column {column!r} to move; there are {', '.join(names[:12])}")
        _check_moved(*known[number])
        return known[number][1]

    def _worries(self, question: Question) -> tuple[str, ...]:
        if self.sample_ is None:
            return ()
        known, scale = self.sample_.points, deviations(self.sample_.points)
        points, coefficients = question.flat()
        beyond = nearest(points, known, scale) > reach_of(np.unique(known, axis=0), scale)
        return outside_warning(share_of(coefficients, beyond | (question.strays() > 0)))

    def _size(self) -> float:
        return 0.0 if self.sample_ is None else float(np.std(self._predicted(self.sample_.points)))


def _check_moved(coding: Coding, place: Place) -> None:
    """Raise where the fit cannot know what a column does."""
    own = place.column
    if own.constant is not None:
        raise checks.InputError(
            f"column {own.name} was {own.constant} in every row of the fit, so that nothing is known of its effect"
        )
    if own.copy_of is not None:
        twin = coding.columns[own.copy_of].name
        raise checks.InputError(
            f"column {own.name} was a copy of {twin} in the fit, so that their effects cannot be told apart; ask about "
            f"{twin}, which moves both"
        )


def _twice(strays: np.ndarray) -> np.ndarray:
    return np.stack([strays, strays], axis=1)
