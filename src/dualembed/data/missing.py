"""Rows of a table that lack a value, in any form that tables come in: filled where it does not matter, or dropped."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import numpy as np

from dualembed.arrays import Booleans
from dualembed.checks import InputError, some
from dualembed.data.frames import Frame, columns_of, count_rows, is_missing, names_of, replaced_rows
from dualembed.data.roles import ROLES
from dualembed.data.table import Table

MISSING = ("error", "drop")
PLACES = ("episodes", "time", "terminated", "truncated", "terminal")  # roles that say which row follows which


def handled(table: Table, missing: str, derives: Collection[str]) -> Table:
    """The table, without rows that lack a value where these are to be dropped; `derives` as `Table.arranged` has it.

    A row that is dropped for want of another value may still be what another leads to.
    """
    if missing not in MISSING:
        raise InputError(f"missing must be one of {', '.join(MISSING)}, not {missing!r}")
    if missing == "error":
        return table
    placed, lost = _complete(table, [role for role in PLACES if role in table.columns])
    arranged = placed.arranged(derives)
    kept, dropped = _complete(filled(arranged), list(arranged.columns))
    return dataclasses.replace(kept, dropped=table.dropped + lost + dropped)


def filled(table: Table) -> Table:
    """The table without what does not matter: what follows an end, and cells of what an end costs elsewhere.

    What follows an end is the row itself, whatever is written there: it would move the coding of columns.
    """
    columns, ends = dict(table.columns), table.ended
    if ends is not None and ends.any():
        for role in (role for role in ROLES.values() if role.follows in table.columns and role.name in columns):
            if count_rows(columns[role.name]) == len(ends) == count_rows(columns[role.follows or ""]):
                columns[role.name] = _replaced(columns[role.name], columns[role.follows or ""], ends)
    costs = columns.get("terminal_costs")
    if table.terminal is not None and costs is not None and not np.isscalar(costs):
        goes_on = _is(table.terminal, 0.0)
        if _matters_not(costs, goes_on):
            columns["terminal_costs"] = np.where(goes_on, 0.0, np.asarray(costs, dtype=object)).astype(np.float64)
    return dataclasses.replace(table, columns=columns)


def missing_cells(table: Any) -> Booleans:
    """Whether each row (n,) of a column or a table has nothing, or no number, in any cell.

    >>> missing_cells([1.0, None, float("nan")]).tolist()
    [False, True, True]
    """
    if hasattr(table, "toarray"):  # a sparse matrix has zeros
        return np.zeros(count_rows(table), dtype=bool)
    columns = Frame.of(table).columns
    if columns:
        return np.any([_missing(np.asarray(column)) for column in columns], axis=0)
    return _missing(np.asarray(table))


def _missing(values: np.ndarray) -> Booleans:
    return np.asarray(is_missing(values).reshape(len(values), -1).any(axis=1))


def _complete(table: Table, roles: list[str]) -> tuple[Table, int]:
    """(the table without rows that lack a value in these roles, how many these were)."""
    given = {role: table.columns[role] for role in roles if not np.isscalar(table.columns[role])}
    cells = {role: missing_cells(column) for role, column in given.items()}
    rows = {role: len(each) for role, each in cells.items()}
    if len({*rows.values()}) > 1:
        both = ", but ".join(f"{count} {role}" for role, count in rows.items())
        raise InputError(f"there are {both}; give one a row")
    if not cells:
        return table, 0
    lacking = np.any(list(cells.values()), axis=0)
    if lacking.all():
        raise InputError(
            f"every row lacks a value in one of {some(role for role, each in cells.items() if each.any())}, so that "
            "missing='drop' leaves none; fill them"
        )
    return (table.taken(np.flatnonzero(~lacking)), int(lacking.sum())) if lacking.any() else (table, 0)


def _is(marks: Any, value: float) -> Booleans:
    """Where marks (n,) have a value; not where they are missing."""
    given = np.asarray(marks)
    try:
        return np.asarray(given.astype(np.float64).reshape(len(given), -1)[:, 0] == value)
    except (TypeError, ValueError):  # which is refused when marks are read
        return np.zeros(len(given), dtype=bool)


def _matters_not(column: Any, rows: Booleans) -> bool:
    """Whether cells are missing in some of these rows."""
    return bool(rows.any() and count_rows(column) == len(rows) and (missing_cells(column) & rows).any())


def _replaced(following: Any, before: Any, rows: Booleans) -> Any:
    """What follows, with what was before in its place in these rows."""
    names = names_of(following)
    if (same := replaced_rows(following, before, rows)) is not None:
        return same
    if names is None and names_of(before) is None:
        first, second = np.asarray(before), np.asarray(following)
        return np.where(rows.reshape(-1, *[1] * (second.ndim - 1)), first.reshape(second.shape), second)
    frames = Frame.of(following).columns or list(np.asarray(following).reshape(len(rows), -1).T)
    own = columns_of(before, "states")[1]
    if len(own) != len(frames):
        return following  # which is refused when it is read
    kept = [np.where(rows, first, np.asarray(second)) for first, second in zip(own, frames, strict=True)]
    return kept[0] if names is None or np.ndim(following) == 1 else dict(zip(names, kept, strict=True))
