"""Which columns mean what: those named by options, and by well-known names where none is named."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from dualembed.checks import InputError
from dualembed.cli.tasks import FOLLOWING, TABLES, Task, option_of
from dualembed.data.columns import chosen_columns
from dualembed.data.refusal import nearest, some

if TYPE_CHECKING:
    import pyarrow as pa

Columns = dict[str, list[str]]
ENDINGS = ("done", "termina", "absorb")  # in the name of a column that says where nothing follows


def check_options(task: Task, name: str, options: Mapping[str, str | None]) -> None:
    """Raise where an option for columns is given that the task has no use for."""
    idle = [role for role, spec in options.items() if spec is not None and role not in task.arguments]
    if idle:
        used = ", ".join(map(option_of, task.arguments))
        raise InputError(f"{option_of(idle[0])} has no use in {name}, whose columns are {used}; leave it out")
    for role, spec in options.items():
        if spec is not None and not spec.strip() and role in task.needs:
            raise InputError(f"{option_of(role)} is empty, but {name} needs it; name its columns")


def forgotten(task: Task, options: Mapping[str, str | None], columns: Columns, table: pa.Table) -> list[str]:
    """What a table seems to say that no option asks for, in plain words; an empty option is not for getting it."""
    if "terminated" not in task.arguments or "terminated" in columns or options.get("terminated") is not None:
        return []
    used = {name for own in columns.values() for name in own}
    named = [name for name in table.column_names if any(word in name.lower() for word in ENDINGS)]
    found = [name for name in named if name not in used and set(table[name].unique().to_pylist()) == {0, 1}]
    return [
        f"the column {name!r} is not used; if it is 1 where nothing follows, give --terminated {shlex.quote(name)}: "
        "without it rewards are expected beyond the end"
        for name in found[:1]
    ]


def columns_by_role(task: Task, options: Mapping[str, str | None], names: Sequence[str]) -> Columns:
    """The columns of every meaning that the task has a use for and the table has columns of.

    An option that is left out stands for columns of well-known names: state, or state_* for several, and likewise for
    the others; what follows has the names of what it follows with next_ before them. An empty option is for none.
    """
    columns: Columns = {}
    for role in task.arguments:
        spec, taken = options.get(role), [name for own in columns.values() for name in own]
        if spec is None:
            found = _well_known(role, columns, names)
        else:
            found = chosen_columns(names, spec, option_of(role), taken=taken) if spec.strip() else []
        if not found and role in task.needs:
            _refuse_missing(role, columns, names)
        if len(found) > 1 and role not in TABLES:
            raise InputError(f"{option_of(role)} must be one column, not {len(found)} ({some(found)}); name one")
        if found:
            columns[role] = found
    for following, before in FOLLOWING.items():
        if following in columns:
            columns[following] = _paired(columns[before], columns[following], before, following)
    return columns


def _well_known(role: str, columns: Columns, names: Sequence[str]) -> list[str]:
    """The columns that have the names expected for this meaning, none where there are none."""
    if role in FOLLOWING:
        found = [f"next_{name}" for name in columns[FOLLOWING[role]]]
        return found if all(name in names for name in found) else []
    if role in names:
        return [role]
    several = role in TABLES and any(name.startswith(f"{role}_") for name in names)
    return chosen_columns(names, f"{role}_*", option_of(role)) if several else []


def _refuse_missing(role: str, columns: Columns, names: Sequence[str]) -> NoReturn:
    if role in FOLLOWING:
        wanted = [f"next_{name}" for name in columns[FOLLOWING[role]]]
        absent = next(name for name in wanted if name not in names)
    else:
        absent = role
    others = f" (nor any {role}_...)" if role in TABLES and role not in FOLLOWING else ""
    taken = {name for own in columns.values() for name in own}
    raise InputError(
        f"the table has no column {absent!r}{others}, so {option_of(role)} must name what it has instead (there are "
        f"{some(names)}){nearest(absent, [name for name in names if name not in taken])}"
    )


def _paired(before: list[str], following: list[str], first: str, second: str) -> list[str]:
    """The columns that follow, each in the place of the one that it follows; by name, where the names tell."""
    if len(before) != len(following):
        raise InputError(
            f"{option_of(second)} must have a column for each of {option_of(first)}, but there are {len(following)} "
            f"({some(following)}) for {len(before)} ({some(before)})"
        )
    both = [name for name in following if name in before]
    if both:
        raise InputError(
            f"the column {both[0]!r} is named by {option_of(first)} and by {option_of(second)}; name others"
        )
    named = [f"next_{name}" for name in before]
    return named if set(named) == set(following) else following
