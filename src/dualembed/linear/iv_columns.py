"""Columns, names, weights and labels of a linear model as they were given, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import Floats, Integers
from dualembed.estimates import pluralise

INTERCEPT = "Intercept"


def as_matrix(name: str, value: ArrayLike | None, rows: int | None) -> Floats:
    """The value as (n, q) numbers of float64; (n, 0) where nothing is given."""
    if value is None:
        return np.empty((rows or 0, 0))
    try:
        given = np.asarray(value)
    except Exception as error:
        raise checks.InputError(f"{name} could not be read as an array ({error}); give equal rows of numbers") from None
    if given.dtype.kind not in "iufb" or given.ndim not in (1, 2):
        raise checks.InputError(
            f"{name} must be columns of numbers, not {given.dtype} of shape {given.shape}; encode text as dummies"
        )
    found = given.reshape(len(given), -1).astype(np.float64, copy=False)
    if rows is not None and len(found) != rows:
        raise checks.InputError(f"{name} has {pluralise(len(found), 'row')}, but outcome {rows}; give one a sample")
    if not len(found):
        raise checks.InputError(f"{name} is empty; give at least one row")
    if not np.isfinite(found).all():
        bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
        raise checks.InputError(
            f"{name} has values that are missing or infinite in {pluralise(len(bad), 'row')}, the first of them row "
            f"{bad[0]}; drop or fill those rows"
        )
    return found


def as_names(role: str, letter: str, given: Sequence[str] | None, columns: int) -> tuple[str, ...]:
    """The names that were given, one for each column; else a letter with numbers."""
    if given is None:
        return tuple(f"{letter}{number + 1}" for number in range(columns))
    if isinstance(given, str) or len(given) != columns:
        raise checks.InputError(f"{role}_names must be {columns} names, one for each column, not {given!r}")
    return tuple(str(each) for each in given)


def check_unique(names: Sequence[str]) -> None:
    """Refuse regressors of one name."""
    twice = [name for name in names if names.count(name) > 1 or name == INTERCEPT]
    if twice:
        raise checks.InputError(
            f"{twice[0]} is the name of more than one regressor ({INTERCEPT} is that of the constant); give each a name"
        )


def as_weights(given: ArrayLike | None, rows: int, *, counts: bool) -> Floats | None:
    """Weights of rows, checked; None where none are given."""
    if given is None:
        return None
    found = as_matrix("weights", given, rows)
    if found.shape[1] != 1 or np.any(found < 0) or not np.any(found > 0):
        raise checks.InputError(
            "weights must be one number for each row, none below 0 and some above; check the column"
        )
    if counts and np.any(found != np.round(found)):
        raise checks.InputError("weights that count rows must be whole numbers; give counts=False for other weights")
    return found[:, 0]


def as_labels(name: str, given: Any, rows: int) -> Integers | None:
    """One or two columns of labels as numbers from 0 on; None where none are given."""
    if given is None:
        return None
    found = np.asarray(given)
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2 or len(found) != rows or found.shape[1] not in (1, 2):
        raise checks.InputError(
            f"{name} must be one or two labels for each of the {rows} rows, not an array of shape {np.shape(given)}"
        )
    missing = found != found  # of floats, NaN alone is not itself; None of objects is a label like others
    if np.any(missing):
        raise checks.InputError(f"{name} has missing labels; give every row one, or leave those rows out")
    return recode(found)


def recode(labels: Any) -> Integers:
    """Each column's labels as numbers from 0 on, in sorted order."""
    columns = [
        np.unique(each if each.dtype.kind != "O" else each.astype(str), return_inverse=True)[1] for each in labels.T
    ]
    return np.stack(columns, axis=1).astype(np.int64)
