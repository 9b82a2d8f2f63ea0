"""What embeddings are given: points, weights, and functions or their values at points, as float64 and checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np

from dualembed import checks
from dualembed.kernels import Kernel

TILE = 1024  # rows of a Gram matrix held at one time

Values = Callable[[np.ndarray], Any] | Any
"""A function of points (n, d), or its values (n,) or (n, p) there."""


def kernel_of(name: str, kernel: Any) -> Kernel:
    checks.instance(name, kernel, Kernel, "such as kernels.Gaussian(0.5)")
    return kernel


def rows_of(name: str, value: Any) -> np.ndarray:
    """Points (n,) or (n, d) as float64 (n, d), checked."""
    checks.array(name, value, ndim=(1, 2))
    rows = np.asarray(value, dtype=np.float64)
    return rows[:, None] if rows.ndim == 1 else rows


def check_same(one: Kernel, other: Kernel) -> None:
    """Raise unless the two embeddings live in one RKHS: products between two have no meaning."""
    if not eqx.tree_equal(one, other):
        raise checks.InputError(f"embeddings of one kernel can be compared, not those of {one} and {other}")


def check_equal(**columns: np.ndarray) -> None:
    rows = {name: len(column) for name, column in columns.items()}
    if len(set(rows.values())) > 1:
        raise checks.InputError(f"{' and '.join(rows)} need equally many rows, but have {rows}")


def weights_of(weights: Any, rows: int) -> np.ndarray:
    """The weights (n,), 1/n where there are none."""
    if weights is None:
        return np.full(rows, 1.0 / rows)
    if checks.array("weights", weights, ndim=1).shape[0] != rows:
        raise checks.InputError(f"weights must have shape ({rows},), one for each point, but have {np.shape(weights)}")
    return np.asarray(weights, dtype=np.float64)


def importance_of(weights: Any, rows: int) -> np.ndarray:
    """Importance weights, none negative and not all zero."""
    given = weights_of(weights, rows)
    checks.not_negative("the least weight", float(given.min()))
    if not given.any():
        raise checks.InputError("all weights are 0; at least one sample must count")
    return given


def values_of(name: str, f: Values, points: np.ndarray) -> np.ndarray:
    """f at the points, (n,) or (n, p) in float64."""
    given = f(points) if callable(f) else f
    checks.array(f"the values of {name}", given, ndim=(1, 2))
    values = np.asarray(given, dtype=np.float64)
    if len(values) != len(points):
        raise checks.InputError(f"{name} must have one value for each of {len(points)} points, but has {values.shape}")
    return values


def numbers_of(name: str, f: Values, points: np.ndarray) -> np.ndarray:
    """f at the points, one number for each: (n,), or a column of them."""
    values = values_of(name, f, points)
    if values.ndim == 2 and values.shape[1] > 1:
        raise checks.InputError(
            f"{name} must have one number at each point, but has {values.shape[1]}; give its coordinates one by one"
        )
    return values.reshape(len(points))
