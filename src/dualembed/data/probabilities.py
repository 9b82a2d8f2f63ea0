"""Numbers, states and probabilities as they are given, checked; without a look at JAX or at frames."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualembed import checks

TOLERANCE = 1e-5  # by which probabilities may miss 1: float32 policies sum to one no better


def numbers(name: str, values: Any) -> np.ndarray:
    """The values in float64, NaN included; without a look at JAX, for what is asked at every step of a game.

    Parameters
    ----------
    name : str
        What messages call them.
    values : array-like
        Values.

    Returns
    -------
    array
        The numbers.
    """
    try:
        given = np.asarray(values)
    except (TypeError, ValueError):
        raise checks.InputError(f"{name} could not be read as an array; give equal rows of numbers") from None
    if given.dtype.kind not in "iufb":
        raise checks.InputError(f"{name} must be numbers, not {given.dtype}; encode text or objects as numbers first")
    return given.astype(np.float64)


def state_rows(states: Any, *, name: str = "states") -> np.ndarray:
    """States as rows in float64, checked to be finite.

    Parameters
    ----------
    states : array of shape (n, d) or (n,)
        States.
    name : str, default="states"
        What messages call them.

    Returns
    -------
    array of shape (n, d)
        The rows.
    """
    rows = numbers(name, states)
    if rows.ndim not in (1, 2) or not len(rows):
        raise checks.InputError(f"{name} must have shape (rows,) or (rows, dimension), but have {rows.shape}")
    if not np.isfinite(rows).all():
        row = int(np.argwhere(~np.isfinite(rows))[0][0])
        raise checks.InputError(f"{name} must be finite, but row {row} is {rows[row].tolist()}; drop or fill such rows")
    return rows[:, None] if rows.ndim == 1 else rows


def action_numbers(actions: Any, count: int, rows: int, *, name: str = "actions") -> np.ndarray:
    """Discrete actions as whole numbers, checked.

    Parameters
    ----------
    actions : array of shape (n,)
        Actions.
    count : int
        Number of actions; each must be below.
    rows : int
        Number of rows n.
    name : str, default="actions"
        What messages call them.

    Returns
    -------
    array of int of shape (n,)
        The actions.
    """
    given = numbers(name, actions)
    if given.shape != (rows,):
        raise checks.InputError(f"{name} must have shape ({rows},), one number a row, but have {given.shape}")
    bad = ~np.isin(given, np.arange(count))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise checks.InputError(
            f"{name} must be whole numbers from 0 to {count - 1}, not {given[row]:g} as in row {row}"
        )
    return given.astype(np.int64)


def check_distributions(found: np.ndarray, name: str) -> np.ndarray:
    """The probabilities as they are, once each row is known to be a distribution.

    Parameters
    ----------
    found : array of shape (n, A)
        Probabilities.
    name : str
        What messages call them.

    Returns
    -------
    array of shape (n, A)
        The same.

    Raises
    ------
    InputError
        If a row is no distribution.
    """
    wrong = ~(np.all(found >= 0, axis=1) & (np.abs(found.sum(axis=1) - 1) <= TOLERANCE))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise checks.InputError(
            f"{name} must give probabilities that are not negative and sum to one, but gives {found[row].tolist()} "
            f"in row {row}; divide by their sum"
        )
    return found


def check_callable(name: str, policy: Any, what: str) -> None:
    if not callable(policy):
        raise checks.InputError(f"{name} must be a function from {what}, not {policy!r}")
