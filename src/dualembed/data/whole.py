"""Tables and lists of episodes that stand in the place of all columns: by the usual names of these."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from dualembed.checks import InputError, some
from dualembed.data.columns import Columns, columns_by_role
from dualembed.data.frames import Frame, count_rows, is_1d, select, stacked_frames
from dualembed.data.logs import is_frame, log
from dualembed.data.policies import numbers
from dualembed.data.roles import ROLES, Kind, Role
from dualembed.data.table import Table, unused_end_marks

LOGGED = ("observations", "actions", "rewards")  # attributes of an episode of other libraries


def named_table(source: Any, roles: Sequence[Role]) -> Table | None:
    """The columns of a frame or a dictionary that have the usual names of these roles; None where no two have.

    >>> named_table({"state": [0.0, 1.0], "reward": [1.0, 2.0]}, [ROLES["states"], ROLES["rewards"]]).rewards
    [1.0, 2.0]
    """
    columns = _usual(source, roles)
    if columns is None or not {"state", "x"} & {*columns} or len(columns) < 2:
        return None
    found = {role.name: _part(source, role, columns[role.word]) for role in ROLES.values() if role.word in columns}
    if "episodes" in found and "episode" not in {role.word for role in roles}:
        found["groups"] = found.pop("episodes")  # the word that groups had once
    return Table(found, warnings=_unused_ends(source, roles, columns), source=source)


def listed_table(source: Any, roles: Sequence[Role]) -> Table | None:
    """The table of a list of episodes, each a frame, a dictionary or an array of states, or of rows; else None.

    Of dictionaries states may be one more than rewards, the last being what the last row led to; a mark that is one for
    the episode is about its last row.

    >>> paths = [np.array([[0.0], [1.0]]), np.array([[2.0], [3.0], [4.0]])]
    >>> listed_table(paths, [ROLES["states"]]).episodes.tolist()
    [0, 0, 1, 1, 1]
    """
    if not isinstance(source, (list, tuple)) or not source:
        return None
    if all(isinstance(each, np.ndarray) and each.ndim in (1, 2) and len(each) for each in source):
        parts = [{"states": each} for each in source]
    elif all(all(hasattr(each, name) for name in LOGGED) for each in source):
        return Table.whole(log(SimpleNamespace(episodes=source)))
    elif all(is_frame(each) for each in source):
        return _frames(source, roles)
    else:
        if all(isinstance(each, dict) and all(map(np.isscalar, each.values())) for each in source):
            return _records(source, roles)
        tables = [_episode(each, roles) for each in source]
        if not all(tables):
            return None
        parts = [each for each in tables if each]
    _check_same(parts)
    joined = {role: _joined(role, [part[role] for part in parts]) for role in parts[0]}
    lengths = [_length(part["states"]) for part in parts]
    return Table({**joined, "episodes": np.repeat(np.arange(len(parts)), lengths)})


def _frames(source: Sequence[Any], roles: Sequence[Role]) -> Table | None:
    """The table of a list of episodes in frames: that of one frame with the rows of all of them, in its own library."""
    used = [_usual(each, roles) or {} for each in source]
    _check_same(used)
    every = [Frame.of(each).names or [] for each in source]
    names = [name for name in every[0] if all(name in own for own in every)]
    table = named_table(stacked_frames([select(each, names) for each in source]), roles)
    if table is None:
        raise InputError(
            f"a list of frames must have columns called {' and '.join(role.word for role in roles[:2])}, but there are "
            f"{some(names)}; rename them"
        )
    labels = np.repeat(np.arange(len(source)), [count_rows(each) for each in source])
    return dataclasses.replace(table, columns={**table.columns, "episodes": labels})


def _check_same(parts: Sequence[Mapping[str, Any]]) -> None:
    """Raise where episodes have other columns than the first."""
    strange = next((number for number, part in enumerate(parts) if {*part} != {*parts[0]}), None)
    if strange is not None:
        raise InputError(
            f"episode {strange} has {', '.join(parts[strange])}, but episode 0 {', '.join(parts[0])}; give all of them "
            "the same columns"
        )


def _records(source: Sequence[dict[str, Any]], roles: Sequence[Role]) -> Table | None:
    """The table of a list of rows, each a dictionary."""
    strange = next((number for number, row in enumerate(source) if {*row} != {*source[0]}), None)
    if strange is not None:
        raise InputError(f"row {strange} has other names than row 0; give all of them the same")
    return named_table({name: [row[name] for row in source] for name in source[0]}, roles)


def _episode(source: Any, roles: Sequence[Role]) -> dict[str, Any] | None:
    """The columns of one episode by role; None where it is no table with states."""
    columns = _usual(source, roles)
    if columns is None or ROLES["states"].word not in columns:
        return None
    found = {role.name: _part(source, role, columns[role.word]) for role in roles if role.word in columns}
    found = {name: _arrays(part) for name, part in found.items() if name != "episodes"}
    if _is_scalar(found["states"]):
        return None  # a row, not an episode
    rows = _length(found["states"])
    lengths = {_length(part) for part in found.values() if not _is_scalar(part)} - {rows}
    if lengths == {rows - 1} and "next_states" not in found:
        found["next_states"] = _rows(found["states"], slice(1, None))
        found["states"] = _rows(found["states"], slice(rows - 1))
        rows -= 1
    for name, part in found.items():
        if _is_scalar(part) and ROLES[name].kind is Kind.MARK:
            found[name] = (np.arange(rows) == rows - 1) * bool(part)
    return found


def _usual(source: Any, roles: Sequence[Role]) -> Columns | None:
    """The columns of the usual names; None where the source is no frame and no dictionary."""
    if isinstance(source, (list, tuple)):
        return None
    if isinstance(source, Mapping):
        names: list[str] | None = [str(name) for name in source]
    else:
        names = None if is_1d(source) else Frame.of(source).names
    return None if names is None else columns_by_role(roles, {}, names, needs=())


def _part(source: Any, role: Role, names: list[str]) -> Any:
    """Columns of a source: a column by itself, or a table where there are several or its name may matter."""
    if names[0] in role.logarithms:
        return np.exp(numbers(names[0], source[names[0]] if isinstance(source, Mapping) else select(source, names[0])))
    if isinstance(source, Mapping):
        return source[names[0]] if len(names) == 1 else {name: source[name] for name in names}
    return select(source, names if role.kind is Kind.TABLE or len(names) > 1 else names[0])


def _unused_ends(source: Any, roles: Sequence[Role], columns: Columns) -> tuple[str, ...]:
    if ROLES["terminated"] not in roles or "terminated" in columns:
        return ()
    used = {name for own in columns.values() for name in own}
    frame = (
        dict(source)
        if isinstance(source, Mapping)
        else {name: select(source, name) for name in Frame.of(source).names or ()}
    )
    others = {name: np.asarray(column) for name, column in frame.items() if name not in used and np.ndim(column) == 1}
    return tuple(
        unused_end_marks({name: column.tolist() for name, column in others.items()}, "that column as terminated=")
    )


def _arrays(part: Any) -> Any:
    """A part of an episode as an array, or as a dictionary of them."""
    if isinstance(part, Mapping):
        return {str(name): np.asarray(column) for name, column in part.items()}
    return np.asarray(part)


def _is_scalar(part: Any) -> bool:
    return not isinstance(part, dict) and np.ndim(part) == 0


def _length(part: Any) -> int:
    return len(next(iter(part.values()))) if isinstance(part, dict) else len(part)


def _rows(part: Any, rows: slice) -> Any:
    return {name: column[rows] for name, column in part.items()} if isinstance(part, dict) else part[rows]


def _joined(role: str, parts: Sequence[Any]) -> Any:
    """A column, or a table, of all episodes."""
    try:
        if isinstance(parts[0], dict):
            return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return np.concatenate(parts)
    except (KeyError, ValueError) as error:
        raise InputError(f"{role} of all episodes must have the same columns ({error})") from None
