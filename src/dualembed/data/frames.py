"""Columns as people have them: tables of numbers and categories in any form, and single numbers or labels a row."""

from __future__ import annotations

from collections.abc import Hashable
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, column_or_1d

from dualembed import checks
from dualembed.data.policies import numbers


def columns_of(
    table: Any, what: str, *, categories: Any = (), delta: bool = False
) -> tuple[list[str] | None, list[np.ndarray]]:
    """(names, columns) of anything table-like: floats for numbers, objects for categories; names None for arrays.

    `categories` are names and places of columns that are categories whatever they hold; `delta` says that all are.
    """
    names, columns = named_columns(table)
    columns = columns or list(_array(table, what).T)
    wanted = {*categories}
    found = []
    for number, (label, column) in enumerate(zip(names or unnamed(what, len(columns)), columns, strict=True)):
        asked = delta or label in wanted or number in wanted or _declared(column)
        found.append(_values(label, column, category=asked))
    if not len(found) or not len(found[0]):
        raise checks.InputError(f"{what} have no rows; give at least one")
    return names, found


def headings(table: Any, what: str) -> list[str]:
    """What the columns are called: their names, or those that columns without names have."""
    names, columns = named_columns(table)
    return names or unnamed(what, len(columns) or _array(table, what).shape[1])


def names_of(table: Any) -> list[str] | None:
    """The names of a table's columns, or None where it has none."""
    return named_columns(table)[0]


def unnamed(what: str, count: int) -> list[str]:
    """Names for columns that have none: x0, x1, ... of X and of states; of what stands beside them other ones.

    >>> unnamed("X", 2), unnamed("controls", 2), unnamed("instruments", 1)
    (['x0', 'x1'], ['control 0', 'control 1'], ['instrument'])
    """
    if what not in ("instruments", "controls", "actions"):
        return [f"x{number}" for number in range(count)]
    single = what.removesuffix("s")
    return [single] if count == 1 else [f"{single} {number}" for number in range(count)]


def named_columns(table: Any) -> tuple[list[str] | None, list[Any]]:
    """The names and columns of data frames (pandas, polars, Arrow), series and dictionaries; no columns of an array."""
    if hasattr(table, "toarray"):  # a sparse matrix, which may be a dictionary too
        return None, []
    if isinstance(table, dict):
        return _checked([str(name) for name in table]), [np.asarray(column) for column in table.values()]
    if hasattr(table, "column_names"):  # Arrow
        names = _checked(list(table.column_names))
        return names, [table.column(name).to_numpy() for name in names]
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        names = list(table.columns)
        if all(isinstance(name, str) for name in names):
            return _checked(names), [table[name] for name in names]
        return None, []
    if hasattr(table, "to_numpy") and hasattr(table, "dtype"):  # a series
        name = getattr(table, "name", None)
        return [name] if isinstance(name, str) and name else None, [table]
    return None, []


def is_flat(table: Any) -> bool:
    """Whether a table is one column without a second axis: an array or a series of shape (n,), or a list of values."""
    return len(getattr(table, "shape", ())) == 1 or (isinstance(table, list) and np.ndim(table[:1]) == 1)


def kind_of(values: np.ndarray) -> str:
    """ "numbers", "text", or "both"."""
    if values.dtype.kind == "f":
        return "numbers"
    texts = {isinstance(value, str) for value in set(values.tolist())}
    return "both" if len(texts) == 2 else "text" if texts == {True} else "numbers"


def levels_of(values: np.ndarray) -> np.ndarray:
    """The values as objects, Python's own numbers and text; whole floats as whole numbers: 1 and 1.0 are one level."""
    return np.asarray([_plain(value) for value in values.tolist()] + [None], dtype=object)[:-1]


def vector(name: str, values: Any, rows: int) -> np.ndarray:
    """The values (n,) in float64, finite; a single column (n, 1) will do."""
    given = numbers(name, _with_nan(values))
    given = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    if given.shape != (rows,):
        raise checks.InputError(f"{name} must have shape ({rows},), one number a row, but have {given.shape}")
    bad = ~np.isfinite(given)
    if bad.any():
        raise checks.InputError(f"{name} must be finite, but are NaN or infinity in {places(bad)}; drop or fill them")
    return given


def labels_of(name: str, labels: Any, rows: int) -> np.ndarray | None:
    """The number (n,) of each row's group from 0, or None without labels."""
    if labels is None:
        return None
    given = np.asarray(labels)
    if given.shape != (rows,):
        raise checks.InputError(f"{name} must have shape ({rows},), one label a row, but have {given.shape}")
    bad = lacking(given)
    if bad.any():
        raise checks.InputError(f"{name} lack a label in {places(bad)}; label those rows too, or drop them")
    try:
        return np.unique(given, return_inverse=True)[1]
    except TypeError:
        raise checks.InputError(f"{name} must be labels of one kind, all of them text or all numbers") from None


def starts(labels: Any) -> np.ndarray:
    """The first row of every group."""
    return np.sort(np.unique(np.asarray(labels), return_index=True)[1])


def steps(labels: Any) -> np.ndarray:
    """How many rows of its group come before each row, (n,).

    >>> steps(["a", "a", "b", "a", "b"]).tolist()
    [0, 1, 0, 2, 1]
    """
    numbers = np.unique(np.asarray(labels), return_inverse=True)[1]
    order = np.argsort(numbers, kind="stable")
    counts = np.bincount(numbers)
    found = np.empty(len(numbers), dtype=int)
    found[order] = np.arange(len(numbers)) - np.repeat(np.cumsum(counts) - counts, counts)
    return found


def target(values: Any, rows: int) -> np.ndarray:
    """The target y (n,), as scikit-learn reads it: a single column is taken with a warning."""
    found: np.ndarray = column_or_1d(_with_nan(values), warn=True, dtype=np.float64)
    if len(found) != rows:
        raise checks.InputError(f"X has {rows} rows, but y {len(found)}; give one target a row")
    bad = ~np.isfinite(found)
    if bad.any():
        raise checks.InputError(f"y is NaN or infinity in {places(bad)}; drop those rows")
    return found


def lacking(values: np.ndarray) -> np.ndarray:
    """Whether each value is missing: None, NaN, or pandas' NaT and NA."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    return np.array([_lacks(value) for value in values.ravel().tolist()], dtype=bool).reshape(values.shape)


def places(bad: np.ndarray) -> str:
    """How many rows, and the first of them, counted from 0.

    >>> places(np.array([False, True, True])), places(np.array([False, True]))
    ('2 rows, the first of them row 1', 'row 1')
    """
    first = f"row {int(np.argmax(bad))}"
    return first if bad.sum() == 1 else f"{int(bad.sum())} rows, the first of them {first}"


def _checked(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise checks.InputError(f"a table has two columns named {twice}; give each a name of its own")
    return names


def _array(table: Any, what: str) -> np.ndarray:
    if not hasattr(table, "toarray"):  # a sparse matrix is left to be refused
        table = np.asarray(table)
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim == 2 and _has_text(table):  # of columns that are looked at one by one
            return table.astype(object)
        table = np.where(lacking(table), np.nan, table) if table.dtype.kind == "O" else table
    array: np.ndarray = check_array(table, dtype=np.float64, input_name=what, ensure_all_finite=False)
    return array


def _has_text(table: np.ndarray) -> bool:
    return table.dtype.kind in "US" or (table.dtype.kind == "O" and any(isinstance(each, str) for each in table.flat))


def _declared(column: Any) -> bool:
    """Whether a column says of itself that it is a category, as pandas' do even where they are numbers."""
    return getattr(getattr(column, "dtype", None), "name", None) == "category"


def _values(name: str, column: Any, *, category: bool) -> np.ndarray:
    """The column as floats, or as objects where it is a category; refused where something is missing."""
    values = np.asarray(column)
    if values.dtype.kind in "iuf" and not category:
        return _finite(name, values.astype(np.float64))
    if values.dtype.kind == "b" and not category:
        return values.astype(np.float64)  # of two values a standardised number is a delta kernel
    if values.dtype.kind in "mM":
        raise checks.InputError(f"column {name} holds dates; give numbers, such as days since a date of your choice")
    distinct = _distinct(name, values)
    if lacking(np.array([*distinct, None], dtype=object)[:-1]).any():
        raise checks.InputError(f"column {name} lacks a value in {places(lacking(values))}; drop or fill them")
    if values.dtype.kind == "O" and not category and all(isinstance(each, (Real, Decimal)) for each in distinct):
        return _finite(name, values.astype(np.float64))
    return values.astype(object) if all(type(each) is str for each in distinct) else levels_of(values)


def _distinct(name: str, values: np.ndarray) -> set[Any]:
    """The values that there are, of which a long column of labels has few."""
    try:
        return set(values.tolist())
    except TypeError:
        strange = next((each for each in values.tolist() if not isinstance(each, Hashable)), values[0])
        raise checks.InputError(
            f"column {name} holds {strange!r}, which is neither a number nor text; encode it"
        ) from None


def _plain(level: Any) -> Any:
    level = level.item() if isinstance(level, np.generic) else level
    return int(level) if isinstance(level, (bool, float)) and float(level).is_integer() else level


def _finite(name: str, values: np.ndarray) -> np.ndarray:
    bad = ~np.isfinite(values)
    if bad.any():
        raise checks.InputError(f"column {name} is NaN or infinity in {places(bad)}; drop or fill them")
    return values


def _lacks(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA says neither yes nor no
        return True
    except ValueError:  # an array is no single value, and not for this to refuse
        return False


def _with_nan(values: Any) -> Any:
    """The values with NaN for what a nullable column or a list lacks; anything else as it is."""
    given = values.to_numpy() if hasattr(values, "to_numpy") else values
    try:
        objects = np.asarray(given)
    except ValueError:  # rows of several lengths, for others to refuse
        return given
    return np.where(lacking(objects), np.nan, objects).tolist() if objects.dtype.kind == "O" else given
