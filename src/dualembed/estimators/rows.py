"""What comes with one number or label a row: rewards, marks, weights, episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import assert_all_finite, column_or_1d

from dualembed import checks
from dualembed.policies import numbers


def vector(name: str, values: Any, rows: int) -> np.ndarray:
    """The values (n,) in float64, finite; a single column (n, 1) will do."""
    given = numbers(name, values.to_numpy() if hasattr(values, "to_numpy") else values)
    given = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    if given.shape != (rows,):
        raise checks.InputError(f"{name} must have shape ({rows},), one number a row, but have {given.shape}")
    bad = ~np.isfinite(given)
    if bad.any():
        raise checks.InputError(
            f"{name} must be finite, but are NaN or infinity in {int(bad.sum())} rows, the first of them row "
            f"{int(np.argmax(bad))}; drop or fill them"
        )
    return given


def labels_of(name: str, labels: Any, rows: int) -> np.ndarray | None:
    """The number (n,) of each row's group from 0, or None without labels."""
    if labels is None:
        return None
    given = np.asarray(labels)
    if given.shape != (rows,):
        raise checks.InputError(f"{name} must have shape ({rows},), one label a row, but have {given.shape}")
    return np.unique(given, return_inverse=True)[1]


def starts(labels: Any) -> np.ndarray:
    """The first row of every group."""
    return np.sort(np.unique(np.asarray(labels), return_index=True)[1])


def target(values: Any, rows: int) -> np.ndarray:
    """The target y (n,), as scikit-learn reads it: a single column is taken with a warning."""
    found: np.ndarray = column_or_1d(values, warn=True, dtype=np.float64)
    if len(found) != rows:
        raise checks.InputError(f"X has {rows} rows, but y {len(found)}; give one target a row")
    assert_all_finite(found, input_name="y")
    return found
