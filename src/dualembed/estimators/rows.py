"""What comes with one number or label a row: rewards, marks, weights, episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from dualembed import checks
from dualembed.data.policies import numbers


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
