"""Columns as people have them: tables of numbers and categories in any form, and single numbers or labels a row."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import pyarrow as pa

from dualembed import checks
from dualembed.data.probabilities import numbers
from dualembed.data.roles import ROLES

BESIDE = ("instruments", "controls", "actions")  # tables beside the one that f is of first


class Frame(NamedTuple):
    """A table's columns as they are, their names where they have any, and which of them are declared categories."""

    names: list[str] | None
    columns: list[Any]
    declared: list[bool]

    @staticmethod
    def of(table: Any) -> Frame:
        """Of data frames and series of any library, and of dictionaries; no columns of an array."""
        if hasattr(table, "toarray"):  # a sparse matrix, which may be a dictionary too
            return Frame(None, [], [])
        if isinstance(table, dict):
            columns = [np.asarray(column) for column in table.values()]
            return Frame([str(name) for name in table], columns, [False] * len(columns))
        known = _narwhals(table)
        if isinstance(known, nw.Series):
            name = known.name if isinstance(known.name, str) and known.name else None
            return Frame(None if name is None else [name], [table], [_is_category(known.dtype)])
        if not isinstance(known, nw.DataFrame) or not all(isinstance(name, str) for name in known.columns):
            return Frame(None, [], [])
        declared = [_is_category(kind) for kind in known.schema.values()]
        return Frame(list(known.columns), [known[name].to_native() for name in known.columns], declared)


def columns_of(
    table: Any, role: str, *, categories: Any = (), categorical: bool = False
) -> tuple[list[str] | None, list[np.ndarray]]:
    """(names, columns) of anything table-like: floats for numbers, objects for categories; names None for arrays.

    `categories` are names and places of columns that are categories whatever they hold; `categorical` says that all
    are.
    """
    names, columns, declared = Frame.of(table)
    if not columns:
        columns = list(_array(table, role).T)
        declared = [False] * len(columns)
    wanted = {*categories}
    found = []
    for number, (label, column) in enumerate(zip(names or default_names(role, len(columns)), columns, strict=True)):
        asked = categorical or label in wanted or number in wanted or declared[number]
        found.append(_values(label, column, category=asked))
    if not len(found) or not len(found[0]):
        raise checks.InputError(f"{role} have no rows; give at least one")
    return names, found


def column_names(table: Any, role: str) -> list[str]:
    """What the columns are called: their names, or those that columns without names have."""
    names, columns, _ = Frame.of(table)
    return names or default_names(role, len(columns) or _array(table, role).shape[1])


def names_of(table: Any) -> list[str] | None:
    """The names of a table's columns, or None where it has none."""
    return Frame.of(table).names


def renamed(table: Any, names: Sequence[str]) -> Any:
    """A table or a series, which has names, with other ones."""
    if isinstance(table, dict):
        return dict(zip(names, table.values(), strict=True))
    known = _narwhals(table)
    if isinstance(known, nw.Series):
        return known.alias(names[0]).to_native()
    return known.rename(dict(zip(known.columns, names, strict=True))).to_native()


def take(table: Any, rows: np.ndarray) -> Any:
    """Some rows of a table or a column, in that order; a frame stays a frame."""
    if isinstance(table, dict):
        return {name: np.asarray(column)[rows] for name, column in table.items()}
    known = table if hasattr(table, "toarray") else _narwhals(table)
    return known[rows].to_native() if isinstance(known, nw.DataFrame | nw.Series) else np.asarray(table)[rows]


def stacked(first: Any, second: Any) -> Any:
    """The rows of two tables, or columns, of the same columns below each other; frames alike in kind stay frames."""
    if isinstance(first, dict):
        return {name: np.concatenate([first[name], second[name]]) for name in first}
    known = first if hasattr(first, "toarray") else _narwhals(first)
    if isinstance(known, nw.DataFrame):
        other = _narwhals(second).select(known.columns)
        if known.schema == other.schema:
            return nw.concat([known, other]).to_native()
        return {name: np.concatenate([known[name].to_numpy(), other[name].to_numpy()]) for name in known.columns}
    return np.concatenate([np.asarray(first), np.asarray(second)])


def stacked_frames(tables: Sequence[Any]) -> Any:
    """The rows of frames of the same columns below each other, in a frame of the first one's library."""
    known = [_narwhals(each) for each in tables]
    if all(each.schema == known[0].schema for each in known):
        return nw.concat(known).to_native()
    columns = {name: np.concatenate([each[name].to_numpy() for each in known]) for name in known[0].columns}
    return nw.from_dict(columns, backend=known[0].implementation).to_native()


def replaced_rows(table: Any, other: Any, rows: np.ndarray) -> Any:
    """A frame or a series with the rows of another in the place of some; None unless both are of one kind."""
    known, more = _narwhals(table), _narwhals(other)
    if isinstance(known, nw.Series) and isinstance(more, nw.Series):
        whole = replaced_rows(known.to_frame().to_native(), more.alias(known.name).to_frame().to_native(), rows)
        return _narwhals(whole)[known.name].to_native()
    if not (isinstance(known, nw.DataFrame) and isinstance(more, nw.DataFrame)) or known.shape != more.shape:
        return None
    both = stacked_frames([table, renamed(other, known.columns)])
    return take(both, np.where(rows, len(rows) + np.arange(len(rows)), np.arange(len(rows))))


def count_rows(table: Any) -> int:
    """How many rows a table or a column has."""
    if isinstance(table, dict) and not hasattr(table, "toarray"):
        return len(next(iter(table.values())))
    if hasattr(table, "shape"):
        return int(table.shape[0])
    return len(table) if hasattr(table, "__len__") else len(np.asarray(table))


def select(table: Any, names: Any) -> Any:
    """A column of a frame by its name, or a frame of several by a list of them."""
    known = _narwhals(table)
    return known[names].to_native() if isinstance(names, str) else known.select(names).to_native()


def default_names(role: str, count: int) -> list[str]:
    """Names for columns that have none: x0, x1, ... of X and of states; of what stands beside them other ones.

    >>> default_names("X", 2), default_names("controls", 2), default_names("instruments", 1)
    (['x0', 'x1'], ['control 0', 'control 1'], ['instrument'])
    """
    if role not in BESIDE:
        return [f"x{number}" for number in range(count)]
    word = ROLES[role].word
    return [word] if count == 1 else [f"{word} {number}" for number in range(count)]


def is_1d(table: Any) -> bool:
    """Whether a table is one column without a second axis: an array or a series of shape (n,), or a list of values."""
    return len(getattr(table, "shape", ())) == 1 or (isinstance(table, list) and np.ndim(table[:1]) == 1)


def encoded(values: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """(the different values, the number of each row's (n,)); by Arrow, unless they are of many kinds."""
    try:
        coded = pa.array(values).dictionary_encode("encode")
        return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False)
    except (pa.ArrowException, OverflowError):
        known: dict[Any, int] = {}
        indices = [known.setdefault(value, len(known)) for value in values.tolist()]
        return list(known), np.asarray(indices, dtype=int)


def kind_of(values: np.ndarray) -> str:
    """ "numbers", "text", or "both"."""
    if values.dtype.kind == "f":
        return "numbers"
    texts = {isinstance(value, str) for value in encoded(values)[0]}
    return "both" if len(texts) == 2 else "text" if texts == {True} else "numbers"


def levels_of(values: np.ndarray) -> np.ndarray:
    """The values as objects, Python's own numbers and text; whole floats as whole numbers: 1 and 1.0 are one level."""
    distinct, codes = encoded(values)
    return _objects([_plain(value) for value in distinct])[codes]


def as_column(name: str, values: Any, rows: int) -> np.ndarray:
    """The values (n,) in float64, finite; a single column (n, 1) will do."""
    given = numbers(name, _with_nan(values))
    given = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    if given.shape != (rows,):
        raise checks.InputError(f"{name} must have shape ({rows},), one number a row, but have {given.shape}")
    bad = ~np.isfinite(given)
    if bad.any():
        raise checks.InputError(
            f"{name} must be finite, but are NaN or infinity in {describe_rows(bad)}; drop or fill them"
        )
    return given


def group_numbers(name: str, labels: Any, rows: int) -> np.ndarray:
    """The number (n,) of each row's group, from 0 in the order of their labels."""
    given = np.asarray(labels)
    if given.shape != (rows,):
        raise checks.InputError(f"{name} must have shape ({rows},), one label a row, but have {given.shape}")
    bad = is_missing(given)
    if bad.any():
        raise checks.InputError(
            f"{name} lack a label in {describe_rows(bad)}; label those rows too, or give missing='drop'"
        )
    try:
        return np.unique(given, return_inverse=True)[1]
    except TypeError:
        raise checks.InputError(f"{name} must be labels of one kind, all of them text or all numbers") from None


def first_rows(labels: Any) -> np.ndarray:
    """The first row of every group."""
    return np.sort(np.unique(np.asarray(labels), return_index=True)[1])


def order_at_random(*columns: np.ndarray) -> np.ndarray:
    """An order of rows (n,) at random, but the same rows in the same places whatever order they come in.

    >>> rows = np.array([3.0, 1.0, 2.0])
    >>> again = rows[::-1]
    >>> rows[order_at_random(rows)].tolist() == again[order_at_random(again)].tolist()
    True
    """
    keys = [each for column in columns for each in column.reshape(len(column), -1).T]
    distinct = len(np.unique(keys[0])) == len(keys[0])  # the rule, and sorting by many columns takes its time
    order = np.argsort(keys[0]) if distinct else np.lexsort(keys[::-1])
    return order[np.random.default_rng(0).permutation(len(order))]


def step_numbers(labels: Any) -> np.ndarray:
    """How many rows of its group come before each row, (n,).

    >>> step_numbers(["a", "a", "b", "a", "b"]).tolist()
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
    from sklearn.utils.validation import column_or_1d  # takes half a second

    _check_numbers(values)
    found: np.ndarray = column_or_1d(_with_nan(values), warn=True, dtype=np.float64)
    if len(found) != rows:
        raise checks.InputError(f"X has {rows} rows, but y {len(found)}; give one target a row")
    bad = ~np.isfinite(found)
    if bad.any():
        raise checks.InputError(f"y is NaN or infinity in {describe_rows(bad)}; drop those rows")
    return found


def _check_numbers(values: Any) -> None:
    """Raise where y holds dates or text, which NumPy would take for numbers, or would not know what to do with."""
    if isinstance(values, Mapping):
        raise checks.InputError(f"y is a dictionary of {len(values)} columns, but must be one column of numbers")
    given = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    first = next((each for each in given.ravel()[:100].tolist() if not _is_missing(each)), 0.0)
    if given.dtype.kind in "mM" or (given.dtype.kind == "O" and hasattr(first, "resolution")):
        raise checks.InputError("y holds dates; give numbers, such as days since a date of your choice")
    if given.dtype.kind in "US" or isinstance(first, str):
        raise checks.InputError(f"y holds text such as {first!r}; give numbers, such as 1 and 0 for yes and no")


def is_missing(values: np.ndarray) -> np.ndarray:
    """Whether each value is missing: None, NaN, or pandas' NaT and NA."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    return np.array([_is_missing(value) for value in values.ravel().tolist()], dtype=bool).reshape(values.shape)


def describe_rows(bad: np.ndarray) -> str:
    """How many rows, and the first of them, counted from 0.

    >>> describe_rows(np.array([False, True, True])), describe_rows(np.array([False, True]))
    ('2 rows, the first of them row 1', 'row 1')
    """
    first = f"row {int(np.argmax(bad))}"
    return first if bad.sum() == 1 else f"{int(bad.sum())} rows, the first of them {first}"


def _narwhals(table: Any) -> Any:
    """A frame or a series as narwhals knows it, whatever library it is of; anything else as it is."""
    if hasattr(table, "__arrow_c_stream__") and hasattr(table, "__arrow_c_array__"):  # a batch of records
        table = pa.table(table)
    try:
        known = nw.from_native(table, pass_through=True, allow_series=True)
    except nw.exceptions.DuplicateError:
        names = [str(name) for name in table.columns]
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise checks.InputError(f"a table has two columns named {twice}; give each a name of its own") from None
    return known.collect() if isinstance(known, nw.LazyFrame) else known


def _is_category(kind: Any) -> bool:
    """Whether a column says of itself that it is a category, as pandas' do even where they are numbers."""
    return isinstance(kind, nw.Categorical | nw.Enum)


def _objects(values: list[Any]) -> np.ndarray:
    """An array (n,) of objects, whatever they are."""
    return np.array([*values, None], dtype=object)[:-1]


def _array(table: Any, role: str) -> np.ndarray:
    if isinstance(table, str):
        raise checks.InputError(
            f"{role} must be a table, not the text {table!r}; give its columns, as in table[[{table!r}]]"
        )
    if not hasattr(table, "toarray"):  # a sparse matrix is left to be refused
        table = np.asarray(table)
        table = table[:, None] if table.ndim == 1 else table
        if table.ndim == 2 and _has_text(table):  # of columns that are looked at one by one
            return table.astype(object)
        table = np.where(is_missing(table), np.nan, table) if table.dtype.kind == "O" else table
    from sklearn.utils.validation import check_array

    if np.asarray(table).dtype.kind in "mM":
        raise checks.InputError(f"{role} holds dates; give numbers, such as days since a date of your choice")
    array: np.ndarray = check_array(table, dtype=np.float64, input_name=role, ensure_all_finite=False)
    return array


def _has_text(table: np.ndarray) -> bool:
    return table.dtype.kind in "US" or (table.dtype.kind == "O" and any(isinstance(each, str) for each in table.flat))


def _values(name: str, column: Any, *, category: bool) -> np.ndarray:
    """The column as floats, or as objects where it is a category; refused where something is missing."""
    values = np.asarray(column)
    if values.dtype.kind in "iuf" and not category:
        return _finite(name, values.astype(np.float64))
    if values.dtype.kind == "b" and not category:
        return values.astype(np.float64)  # of two values a standardised number is a delta kernel
    if values.dtype.kind in "mM":
        raise checks.InputError(f"column {name} holds dates; give numbers, such as days since a date of your choice")
    distinct, codes = _encoded_labels(name, values)
    missing = is_missing(_objects(distinct))
    if missing.any():
        raise checks.InputError(f"column {name} lacks a value in {describe_rows(missing[codes])}; drop or fill them")
    if values.dtype.kind == "O" and not category and all(isinstance(each, (Real, Decimal)) for each in distinct):
        return _finite(name, values.astype(np.float64))
    return _objects([each if type(each) is str else _plain(each) for each in distinct])[codes]


def _encoded_labels(name: str, values: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """The different values and the number of each row's; refused where a value is no label."""
    try:
        return encoded(values)
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
        raise checks.InputError(f"column {name} is NaN or infinity in {describe_rows(bad)}; drop or fill them")
    return values


def _is_missing(value: Any) -> bool:
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
    return np.where(is_missing(objects), np.nan, objects).tolist() if objects.dtype.kind == "O" else given
