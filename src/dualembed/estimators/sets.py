"""Which states are in a set that is given as a condition, as points or as labels; and coded states as tables again."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualembed import checks
from dualembed.data.coding import Coding
from dualembed.data.frames import is_1d
from dualembed.problems import arrivals


def members(coding: Coding, states: Any, given: Any, word: str) -> np.ndarray:
    """Whether each state (n,) is in the set; `word` is the parameter that the set was given as."""
    columns = coding.in_order(states, renamed=True)
    if callable(given):
        known = coding.renamed(states)
        known = np.asarray(known) if isinstance(known, list) else known
        inside = np.asarray(
            given(
                np.asarray(known)[:, None] if is_1d(known) else np.asarray(known) if isinstance(known, list) else known
            )
        )
        if inside.shape != (len(columns[0]),):
            raise checks.InputError(
                f"the {word} must say yes or no for each of {len(columns[0])} states, but gave shape {inside.shape}"
            )
        return inside.astype(np.float64) > 0
    if np.size(given) == 0:
        raise checks.InputError(
            f"the {word} is empty; give the states that are in it, or a function from states to yes or no"
        )
    if all(column.dtype.kind == "f" for column in columns):
        if isinstance(given, str):
            raise checks.InputError(
                f"the {word} {given!r} is text, but states are numbers; give a function of states, or "
                f"data.condition({given!r}, {coding.names!r})"
            )
        return arrivals(np.stack(columns, axis=1), given) > 0
    if len(columns) > 1:
        raise checks.InputError(f"with categories among several columns the {word} must be a function of states")
    return np.isin(columns[0], np.atleast_1d(np.asarray(given, dtype=object)))


def require_some(inside: np.ndarray, word: str) -> np.ndarray:
    """The flags (n,) of rows that start in a set; refused where none does."""
    if not inside.any():
        raise checks.InputError(
            f"{word} holds in none of the states of {len(inside):,} rows, so that nothing is known of it; give a set "
            "that some rows start in"
        )
    return inside


def decoded(coding: Coding, points: np.ndarray) -> Any:
    """The states at coded points (n, d) as functions of states take them: a frame where columns have names."""
    table = coding.decode(points)
    if not coding.named:
        return table if not isinstance(table, dict) else np.stack([np.asarray(each) for each in table.values()], axis=1)
    columns = table if isinstance(table, dict) else dict(zip(coding.names, table.T, strict=True))
    try:
        import pandas
    except ImportError:
        import pyarrow

        return pyarrow.table(columns)
    return pandas.DataFrame(columns)
