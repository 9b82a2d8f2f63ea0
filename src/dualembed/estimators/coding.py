"""From tables as people have them to coordinates in which a kernel's distances mean something, and back.

Numbers are standardised, so that their units do not matter. A category becomes an indicator a level, on which a
Gaussian kernel is a delta kernel: 1 for equal levels, and a learnt number below 1 for different ones. Constant
columns and copies of others say nothing more and are left out.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from dualembed import checks

MOST_LEVELS = 64  # of a category


@dataclasses.dataclass(frozen=True)
class Column:
    """How one column is coded: a number by mean and scale, a category by its levels; not at all where it is left out.

    `copy_of` is the number of an earlier column that this one equals; `constant` the one value of a column.
    """

    name: str
    mean: float = 0.0
    scale: float = 1.0
    levels: tuple[Any, ...] = ()
    constant: Any = None
    copy_of: int | None = None

    @property
    def width(self) -> int:
        """The coordinates that it takes."""
        if self.constant is not None or self.copy_of is not None:
            return 0
        return 1 if not self.levels else 1 if len(self.levels) == 2 else len(self.levels)

    def encode(self, values: np.ndarray) -> np.ndarray:
        """Coordinates (n, width)."""
        if not self.width:
            if self.levels:
                self._codes(values)  # which refuses other ones
            return np.empty((len(values), 0))
        if not self.levels:
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
        codes = np.rint(coordinates[:, 0]).astype(int) if self.width == 1 else np.argmax(coordinates, axis=1)
        return np.asarray(self.levels)[codes]

    def _codes(self, values: np.ndarray) -> np.ndarray:
        numbers = {level: number for number, level in enumerate(self.levels)}
        strange = [value for value in values.tolist() if value not in numbers]
        if strange:
            shown = ", ".join(map(repr, self.levels[:6])) + (", ..." if len(self.levels) > 6 else "")
            raise checks.InputError(
                f"column {self.name} has the value {strange[0]!r}, which was not among those it was fitted with "
                f"({shown}); drop such rows, or fit again with them"
            )
        return np.array([numbers[value] for value in values.tolist()], dtype=int)


@dataclasses.dataclass(frozen=True)
class Coding:
    """How a table is coded; `named` says whether its columns came with names of their own."""

    what: str
    columns: tuple[Column, ...]
    named: bool

    @property
    def dimension(self) -> int:
        """The number of coordinates; one, always 0, where every column is left out."""
        return max(1, sum(column.width for column in self.columns))

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    def encode(self, table: Any, *, flat: bool = True, renamed: bool = False) -> np.ndarray:
        """Coordinates (n, dimension) of a table with the same columns; by name, where there are names."""
        columns = self.in_order(table, flat=flat, renamed=renamed)
        coded = [column.encode(values) for column, values in zip(self.columns, columns, strict=True)]
        joined = np.concatenate(coded, axis=1)
        return joined if joined.shape[1] else np.zeros((len(joined), 1))

    def in_order(self, table: Any, *, flat: bool = True, renamed: bool = False) -> list[np.ndarray]:
        """The columns of a table as they are, in the coding's order.

        A table that may be `renamed`, such as next states, is taken in its own order where none of its names is known.
        """
        names, _ = _named_columns(table)
        by_place = names is None or not self.named or (renamed and not set(names) & set(self.names))
        places = [number for number, column in enumerate(self.columns) if column.levels]
        categories = places if by_place else [self.columns[number].name for number in places]
        names, columns = columns_of(table, self.what, flat=flat, categories=categories)
        return self._matched(None if by_place else names, columns)

    def renamed(self, table: Any) -> Any:
        """A table of next states under the names of the states, for functions that know those."""
        names, _ = _named_columns(table)
        if names is None or not self.named or set(names) & set(self.names):
            return table
        if hasattr(table, "set_axis"):  # pandas
            return table.set_axis(self.names, axis=1)
        if hasattr(table, "rename_columns"):  # Arrow
            return table.rename_columns(self.names)
        pairs = dict(zip(names, self.names, strict=True))
        return {pairs[name]: table[name] for name in names} if isinstance(table, dict) else table.rename(pairs)

    def decode(self, points: np.ndarray) -> Any:
        """The table that has these coordinates: an array, or a dictionary of columns where some are categories."""
        found: list[np.ndarray] = []
        start = 0
        for column in self.columns:
            if column.copy_of is not None:
                found.append(found[column.copy_of])
            elif column.constant is not None:
                found.append(np.full(len(points), column.constant))
            else:
                found.append(column.decode(points[:, start : start + column.width]))
                start += column.width
        if any(values.dtype.kind not in "fiub" for values in found):
            return dict(zip(self.names, found, strict=True))
        return np.stack([values.astype(np.float64) for values in found], axis=1)

    def _matched(self, names: list[str] | None, columns: list[np.ndarray]) -> list[np.ndarray]:
        if names is not None:
            missing = [name for name in self.names if name not in names]
            if missing:
                near = difflib.get_close_matches(missing[0], names, n=1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names[:8])}"
                raise checks.InputError(f"{self.what} have no column {missing[0]}, which they were fitted with; {hint}")
            columns = [columns[names.index(name)] for name in self.names]
        if len(columns) != len(self.columns):
            raise checks.InputError(
                f"{self.what} have {len(columns)} columns, but were fitted with {len(self.columns)}: "
                f"{', '.join(self.names[:8])}"
            )
        return columns


def coding_of(
    what: str, *tables: Any, flat: bool = True, categorical: Sequence[Any] | None = None, delta: bool = False
) -> Coding:
    """The coding of tables with the same columns, such as states and next states, by all of their rows.

    `categorical` names (or numbers) columns of numbers that are categories; `delta` says that all are. Without
    `flat` an array of one dimension is refused, as scikit-learn does.
    """
    categories = _categories(categorical, what, tables[0], flat=flat)
    read = [columns_of(table, what, flat=flat, categories=categories, delta=delta) for table in tables]
    names = read[0][0]
    shown = names or [f"x{number}" for number in range(len(read[0][1]))]
    for others, columns in read[1:]:
        if len(columns) != len(shown):
            raise checks.InputError(f"{what} must have {len(shown)} columns everywhere, but some have {len(columns)}")
        if names is not None and others is not None and set(others) == set(names):
            columns[:] = [columns[others.index(name)] for name in names]
    joined = [np.concatenate([columns[number] for _, columns in read]) for number in range(len(shown))]
    return Coding(what, tuple(_columns(shown, joined)), names is not None)


def _categories(categorical: Any, what: str, table: Any, *, flat: bool) -> list[Any]:
    """The names or places of columns that are categories, from names, places or a mask."""
    if categorical is None:
        return []
    given = [] if isinstance(categorical, str) else np.asarray(categorical, dtype=object).ravel().tolist()
    names, columns = _named_columns(table)
    count = len(columns) if names is not None else _array(table, what, flat=flat).shape[1]
    if given and all(isinstance(each, bool) for each in given) and len(given) == count:
        return [place for place, wanted in enumerate(given) if wanted]
    known = {*range(count), *(names or [f"x{number}" for number in range(count)])}
    strange = [each for each in given if isinstance(each, bool) or each not in known]
    if strange or isinstance(categorical, str):
        raise checks.InputError(
            f"categorical_features must be names or places of columns of {what}, or a mask, not {categorical!r}; there "
            f"are {', '.join(map(str, names or range(count)))}"
        )
    return given


def _columns(names: list[str], joined: list[np.ndarray]) -> list[Column]:
    columns: list[Column] = []
    for number, (name, values) in enumerate(zip(names, joined, strict=True)):
        twin = next((k for k in range(number) if _equal(joined[k], values)), None)
        columns.append(Column(name, copy_of=twin) if twin is not None else _column(name, values))
    return columns


def _column(name: str, values: np.ndarray) -> Column:
    if values.dtype.kind != "f":
        levels = tuple(sorted(set(values.tolist()), key=lambda level: (str(type(level)), level)))
        if len(levels) > MOST_LEVELS:
            raise checks.InputError(
                f"column {name} has {len(levels)} different values and is no number; group the rare ones so that there "
                f"are at most {MOST_LEVELS}, or give it as a number"
            )
        return Column(name, levels=levels, constant=levels[0] if len(levels) == 1 else None)
    mean, scale = float(values.mean()), float(values.std())
    if scale <= 1e-12 * max(float(np.abs(values).max()), 1e-300):
        return Column(name, constant=float(values[0]))
    return Column(name, mean, scale)


def _equal(first: np.ndarray, second: np.ndarray) -> bool:
    return first.dtype.kind == second.dtype.kind and bool(np.array_equal(first, second))


def columns_of(
    table: Any, what: str, *, flat: bool = True, categories: Any = (), delta: bool = False
) -> tuple[list[str] | None, list[np.ndarray]]:
    """(names, columns) of anything table-like: floats for numbers, objects for categories; names None for arrays."""
    names, columns = _named_columns(table)
    if names is None:
        array = _array(table, what, flat=flat)
        columns = list(array.T)
    labels = names or [f"x{number}" for number in range(len(columns))]
    wanted = {*categories}
    found = []
    for number, (label, column) in enumerate(zip(labels, columns, strict=True)):
        asked = delta or label in wanted or number in wanted
        found.append(_values(label, column, category=asked))
    if not len(found) or not len(found[0]):
        raise checks.InputError(f"{what} have no rows; give at least one")
    return names, found


def names_of(table: Any) -> list[str] | None:
    """The names of a table's columns, or None where it has none."""
    return _named_columns(table)[0]


def _named_columns(table: Any) -> tuple[list[str] | None, list[Any]]:
    """The names and columns of data frames (pandas, polars, Arrow), series with a name, and dictionaries."""
    if hasattr(table, "toarray"):  # a sparse matrix, which may be a dictionary too
        return None, []
    if isinstance(table, dict):
        return [str(name) for name in table], [np.asarray(column) for column in table.values()]
    if hasattr(table, "column_names"):  # Arrow
        return list(table.column_names), [table.column(name).to_numpy() for name in table.column_names]
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        names = list(table.columns)
        if all(isinstance(name, str) for name in names):
            return names, [table[name] for name in names]
        return None, []
    if hasattr(table, "to_numpy") and hasattr(table, "dtype"):  # a series
        name = getattr(table, "name", None)
        return [name if isinstance(name, str) and name else "x0"], [table]
    return None, []


def _array(table: Any, what: str, *, flat: bool) -> np.ndarray:
    if not hasattr(table, "toarray"):  # a sparse matrix is left to be refused
        table = np.asarray(table)
        table = table[:, None] if flat and table.ndim == 1 else table
        if table.ndim == 2 and _labels(table):  # each column a category
            return table.astype(object)
    array: np.ndarray = check_array(table, dtype=np.float64, input_name=what, ensure_min_samples=1)
    return array


def _labels(table: np.ndarray) -> bool:
    return table.dtype.kind in "US" or (table.dtype.kind == "O" and all(isinstance(each, str) for each in table.flat))


def _values(name: str, column: Any, *, category: bool) -> np.ndarray:
    """The column as floats, or as objects where it is a category; refused where something is missing."""
    values = np.asarray(column)
    if values.dtype.kind in "iuf" and not category:
        return _finite(name, values.astype(np.float64))
    if values.dtype.kind == "b" and not category:
        return values.astype(np.float64)  # of two values a standardised number is a delta kernel
    if values.dtype.kind in "mM":
        raise checks.InputError(f"column {name} holds dates; give numbers, such as days since a date of your choice")
    if values.dtype.kind == "O" and not category and all(isinstance(each, (int, float, np.number)) for each in values):
        return _finite(name, values.astype(np.float64))
    objects = values.astype(object)
    missing = [each is None or each != each for each in objects.tolist()]
    if any(missing):
        raise checks.InputError(f"column {name} lacks a value in {sum(missing)} rows; drop or fill them")
    return np.asarray([_plain(each) for each in objects.tolist()] + [None], dtype=object)[:-1]


def _plain(level: Any) -> Any:
    """The level as a Python number or string; whole floats as whole numbers, so that 1 and 1.0 are one level."""
    level = level.item() if isinstance(level, np.generic) else level
    return int(level) if isinstance(level, (bool, float)) and float(level).is_integer() else level


def _finite(name: str, values: np.ndarray) -> np.ndarray:
    bad = int(np.sum(~np.isfinite(values)))
    if bad:
        raise checks.InputError(f"column {name} is NaN or infinity in {bad} rows; drop or fill them")
    return values
