"""From tables as people have them to coordinates in which a kernel's distances mean something, and back.

Numbers are standardised, so that their units do not matter. A category becomes an indicator a level, on which a
Gaussian kernel is a delta kernel: 1 for equal levels, and a learnt number below 1 for different ones. Constant
columns and copies of others say nothing more and are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.data.frames import column_names, columns_of, encoded, kind_of, levels_of, names_of, renamed
from dualembed.data.roles import MOST_LEVELS

MOST_INDICATORS = 100_000_000  # of a category of many levels, in all rows of its tables: their copies take 5 GB
SAME = 1e-6  # difference of two numbers, in their unit, below which it is rounding


@dataclasses.dataclass(frozen=True)
class ColumnCoding:
    """How one column is coded: a number by mean and scale, a category by its levels; not at all where it is left out.

    `copy_of` is the number of an earlier column that this one equals; `constant` the one value of a column. An `unused`
    one was chosen to be left out, among many.
    """

    name: str
    mean: float = 0.0
    scale: float = 1.0
    levels: tuple[Any, ...] = ()
    constant: Any = None
    copy_of: int | None = None
    unused: bool = False

    @property
    def width(self) -> int:
        """The coordinates that it takes."""
        if self.constant is not None or self.copy_of is not None or self.unused:
            return 0
        return 1 if not self.levels else 1 if len(self.levels) == 2 else len(self.levels)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Coordinates (n, width)."""
        if not self.width:
            if self.levels:
                self._codes(values)  # which refuses other ones
            return np.empty((len(values), 0))
        if not self.levels:
            if kind_of(values) != "numbers":
                text = next(value for value in encoded(values)[0] if isinstance(value, str))
                raise checks.InputError(f"column {self.name} has the text {text!r}, but was fitted with numbers")
            return ((np.asarray(values, dtype=np.float64) - self.mean) / self.scale)[:, None]
        codes = self._codes(values)
        if self.width == 1:
            return codes.astype(np.float64)[:, None]
        return np.eye(self.width)[codes]

    def decode(self, coordinates: np.ndarray) -> np.ndarray:
        """The values (n,) from coordinates (n, width)."""
        if not self.levels:
            values = self.mean + self.scale * coordinates[:, 0]
            return np.where(np.abs(values) < 1e-12 * (abs(self.mean) + self.scale), 0.0, values)  # rounding around 0
        return np.asarray(self.levels)[self.numbers_at(coordinates)]

    def numbers_at(self, coordinates: np.ndarray) -> np.ndarray:
        """The numbers (n,) of a category's levels from coordinates (n, width)."""
        return np.rint(coordinates[:, 0]).astype(int) if self.width == 1 else np.argmax(coordinates, axis=1)

    def _codes(self, values: np.ndarray) -> np.ndarray:
        numbers = {level: number for number, level in enumerate(self.levels)}
        distinct, codes = encoded(values)
        strange = [value for value in distinct if value not in numbers]
        if strange:
            shown = ", ".join(map(repr, self.levels[:6])) + (", ..." if len(self.levels) > 6 else "")
            raise checks.InputError(
                f"column {self.name} has the value {strange[0]!r}, which was not among those it was fitted with "
                f"({shown}); drop such rows, or fit again with them"
            )
        return np.array([numbers[value] for value in distinct], dtype=int)[codes]


@dataclasses.dataclass(frozen=True)
class Coding:
    """How the table of a role is coded; `named` says whether its columns came with names of their own."""

    role: str
    columns: tuple[ColumnCoding, ...]
    named: bool

    @classmethod
    def fit(
        cls, role: str, *tables: Any, categorical: Sequence[Any] | bool | None = None, most: int = MOST_LEVELS
    ) -> Coding:
        """The coding of tables with the same columns, such as states and next states, by all of their rows.

        `categorical` names (or numbers) columns of numbers that are categories, or is True where all are. A category
        has at most so many levels where it is all there is, and no more than MOST_LEVELS beside other columns.
        """
        shown, named = column_names(tables[0], role), names_of(tables[0]) is not None
        all_are = categorical is True
        places = [] if all_are else places_of(categorical, shown, role)

        def aligned(table: Any) -> list[np.ndarray]:
            """The columns in the order of the first table's: by name, where both have the same names."""
            own = names_of(table) or []
            alike = named and set(own) == set(shown)
            wanted = [shown[place] for place in places] if alike else places
            _, columns = columns_of(table, role, categories=wanted, categorical=all_are)
            if len(columns) != len(shown):
                raise checks.InputError(
                    f"{role} must have {len(shown)} columns everywhere, but some have {len(columns)}"
                )
            return [columns[own.index(name)] for name in shown] if alike else columns

        read = [aligned(table) for table in tables]
        joined = [_joined(role, name, parts) for name, parts in zip(shown, zip(*read, strict=True), strict=True)]
        return cls(role, tuple(_columns(shown, joined, most)), named)

    @property
    def dimension(self) -> int:
        """The number of coordinates; one, always 0, where every column is left out."""
        return max(1, sum(column.width for column in self.columns))

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def starts(self) -> list[int]:
        """The coordinate at which each column's begin."""
        return np.cumsum([0, *(column.width for column in self.columns)])[:-1].tolist()

    def using(self, coordinates: np.ndarray) -> Coding:
        """The same without columns of numbers whose coordinate the mask (dimension,) leaves out."""
        columns = tuple(
            dataclasses.replace(column, unused=column.unused or bool(column.width and not coordinates[start]))
            if not column.levels
            else column
            for column, start in zip(self.columns, self.starts, strict=True)
        )
        return dataclasses.replace(self, columns=columns)

    def levels_at(self, points: np.ndarray) -> dict[str, set[Any]]:
        """The levels that each category has at coded points (n, dimension)."""
        found = {}
        for column, start in zip(self.columns, self.starts, strict=True):
            if column.levels and column.width:
                numbers = np.unique(column.numbers_at(points[:, start : start + column.width]))
                found[column.name] = {column.levels[number] for number in numbers}
        return found

    def encode(self, table: Any, *, renamed: bool = False) -> np.ndarray:
        """Coordinates (n, dimension) of a table with the same columns; by name, where there are names."""
        return self._encode(self.in_order(table, renamed=renamed))

    def locate(self, table: Any) -> tuple[np.ndarray, np.ndarray]:
        """(coordinates (n, dimension) of a table, how far each row strays from what the fit could learn of (n,))."""
        columns = self.in_order(table)
        return self._encode(columns), self._strays(columns)

    def _encode(self, columns: list[np.ndarray]) -> np.ndarray:
        coded = [column.encode(values) for column, values in zip(self.columns, columns, strict=True)]
        joined = np.concatenate(coded, axis=1)
        return joined if joined.shape[1] else np.zeros((len(joined), 1))

    def _strays(self, values: list[np.ndarray]) -> np.ndarray:
        """How far each row (n,) is from what the fit could learn of, by columns that are left out: 0 for most.

        A constant column with another value, or a copy that is not one, asks about what no row showed. That is 1 for
        each such column, and more the further off it is: in terms of the constant, or of the other column's deviation.
        """
        total = np.zeros(len(values[0]))
        for column, own in zip(self.columns, values, strict=True):
            source = column if column.copy_of is None else self.columns[column.copy_of]
            if column.width or source.unused or (source.levels and column.copy_of is None):
                continue  # it is not left out, or nothing depends on it, or other levels are refused
            if source.levels:
                total += own != values[column.copy_of]  # type: ignore[index]
                continue
            known = source.constant if source.constant is not None else values[column.copy_of]  # type: ignore[index]
            unit = source.scale if source.constant is None else abs(source.constant) or 1.0
            away = np.abs(np.asarray(own, dtype=np.float64) - known) / unit
            total += np.where(away > SAME, 1 + away, 0.0)
        return total

    def in_order(self, table: Any, *, renamed: bool = False) -> list[np.ndarray]:
        """The columns of a table as they are, in the coding's order.

        A table that may be `renamed`, such as next states, is taken in its own order where none of its names is known.
        """
        table = self._stacked(table)
        names = names_of(table)
        by_place = names is None or not self.named or (renamed and not set(names) & set(self.names))
        places = [number for number, column in enumerate(self.columns) if column.levels]
        categories = places if by_place else [self.columns[number].name for number in places]
        given, columns = columns_of(table, self.role, categories=categories)
        names = given or []
        if not by_place:
            missing = [name for name in self.names if name not in names]
            if missing:
                near = checks.nearest_name(missing[0], names)
                hint = f"did you mean {near}?" if near else f"there are {', '.join(names[:8])}"
                raise checks.InputError(f"{self.role} have no column {missing[0]}, which they were fitted with; {hint}")
            columns = [columns[names.index(name)] for name in self.names]
        if len(columns) != len(self.columns):
            raise checks.InputError(
                f"{self.role} have {len(columns)} columns, but were fitted with {len(self.columns)}: "
                f"{', '.join(self.names[:8])}"
            )
        return columns

    def renamed(self, table: Any) -> Any:
        """A table of next states under the names of the states, for functions that know those."""
        table = self._stacked(table)
        names = names_of(table)
        if names is None or not self.named or set(names) & set(self.names):
            return table
        return renamed(table, self.names)

    def _stacked(self, table: Any) -> Any:
        """The rows of all trajectories where the table is a list of such arrays, as `fit` takes it."""
        if not isinstance(table, (list, tuple)) or not all(isinstance(each, np.ndarray) for each in table):
            return table
        rows = {each.ndim for each in table} == {1} and all(len(each) == len(self.columns) for each in table)
        return table if rows or not {each.ndim for each in table} <= {1, 2} or not table else np.concatenate(table)

    def decode(self, points: np.ndarray) -> Any:
        """The table that has these coordinates: an array, or a dictionary of columns where some are categories."""
        found: list[np.ndarray] = []
        for column, start in zip(self.columns, self.starts, strict=True):
            if column.copy_of is not None:
                found.append(found[column.copy_of])
            elif column.constant is not None:
                found.append(np.full(len(points), column.constant))
            elif column.unused:
                found.append(np.full(len(points), column.mean))
            else:
                found.append(column.decode(points[:, start : start + column.width]))
        if any(values.dtype.kind not in "fiub" for values in found):
            return dict(zip(self.names, found, strict=True))
        return np.stack([values.astype(np.float64) for values in found], axis=1)


@dataclasses.dataclass(frozen=True)
class Schema:
    """How all that was given to a fit is coded, by role, and which columns of a table it was.

    Attributes
    ----------
    codings
        Of the tables, by role.
    names
        The names of columns, by role, where a table with other columns besides was given; else nothing.
    digest
        A short text that two tables share only if they have the same values in these columns; None where none was made.
    """

    codings: dict[str, Coding]
    names: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    digest: str | None = None

    def side_by_side(self, roles: Sequence[str]) -> list[Coding]:
        """The codings of those of the roles that there are, whose coordinates stand side by side."""
        return [self.codings[role] for role in roles if role in self.codings]


def places_of(asked: Any, names: list[str], role: str, *, parameter: str = "categorical_features") -> list[int]:
    """The places of the columns that are asked for, by names, places or a mask."""
    if asked is None:
        return []
    given = [] if isinstance(asked, str) else np.asarray(asked, dtype=object).ravel().tolist()
    if given and all(isinstance(each, bool) for each in given) and len(given) == len(names):
        return [place for place, wanted in enumerate(given) if wanted]
    known = {*range(len(names)), *names}
    if isinstance(asked, str) or any(isinstance(each, bool) or each not in known for each in given):
        raise checks.InputError(
            f"{parameter} must be names or places of columns of {role}, or a mask, not {asked!r}; there are "
            f"{checks.some(names)}"
        )
    return [names.index(each) if isinstance(each, str) else int(each) for each in given]


def _joined(role: str, name: str, parts: Sequence[np.ndarray]) -> np.ndarray:
    """One column of all tables; categories wherever one of them has some."""
    if all(part.dtype.kind == "f" for part in parts):
        return np.concatenate(parts)
    levels = [part if part.dtype.kind == "O" else levels_of(part) for part in parts]
    texts, numbers = ([part for part in levels if kind_of(part) == kind] for kind in ("text", "numbers"))
    if texts and numbers:
        raise checks.InputError(
            f"column {name} of {role} has text in one table, such as {texts[0][0]!r}, and numbers in another, such as "
            f"{numbers[0][0]!r}; write its values alike in both"
        )
    return np.concatenate(levels)


def _columns(names: list[str], joined: list[np.ndarray], most: int = MOST_LEVELS) -> list[ColumnCoding]:
    columns: list[ColumnCoding] = []
    most = most if len(names) == 1 else min(most, MOST_LEVELS)
    for number, (name, values) in enumerate(zip(names, joined, strict=True)):
        twin = next((k for k in range(number) if _equal(joined[k], values)), None)
        columns.append(ColumnCoding(name, copy_of=twin) if twin is not None else _column(name, values, most))
    return columns


def _column(name: str, values: np.ndarray, most: int = MOST_LEVELS) -> ColumnCoding:
    if values.dtype.kind != "f":
        levels = tuple(sorted(set(values.tolist()), key=lambda level: (str(type(level)), level)))
        if len(levels) > most:
            raise checks.InputError(
                f"column {name} has {len(levels):,} different values and is no number; group the rare ones so that "
                f"there are at most {most:,}, or give numbers in its place that say what they are like, such as places"
            )
        if len(levels) > MOST_LEVELS and len(levels) * len(values) > MOST_INDICATORS:
            raise checks.InputError(
                f"column {name} has {len(levels):,} different values, and in so many rows that each level's indicators "
                f"do not fit in memory ({len(levels) * len(values):,}, of {MOST_INDICATORS:,}); group the rare ones, "
                "or give fewer rows"
            )
        return ColumnCoding(name, levels=levels, constant=levels[0] if len(levels) == 1 else None)
    ordered = np.sort(values)  # else sums would depend, by a rounding, on the order of the rows
    mean, scale = float(ordered.mean()), float(ordered.std())
    if scale <= 1e-12 * max(float(np.abs(values).max()), 1e-300):
        return ColumnCoding(name, constant=float(values[0]))
    return ColumnCoding(name, mean, scale)


def _equal(first: np.ndarray, second: np.ndarray) -> bool:
    return first.dtype.kind == second.dtype.kind and bool(np.array_equal(first, second))
