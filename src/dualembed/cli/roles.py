"""Which columns mean what: those named by options, and by well-known names where none is named."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

from dualembed.answers.task import Task
from dualembed.checks import InputError, nearest, some
from dualembed.cli.tasks import option_of
from dualembed.data.columns import select_columns
from dualembed.data.roles import ROLES, Role

if TYPE_CHECKING:
    import pyarrow as pa

Columns = dict[str, list[str]]
ENDINGS = ("done", "termina", "absorb")  # in the name of a column that says where nothing follows


def check_options(task: Task, options: Mapping[str, str | None]) -> None:
    """Raise where an option for columns is given that the task has no use for."""
    words = {role.word: role for role in task.roles}
    idle = [word for word, spec in options.items() if spec is not None and word not in words]
    if idle:
        used = ", ".join(role.option for role in task.roles)
        raise InputError(f"{option_of(idle[0])} has no use in {task.name}, whose columns are {used}; leave it out")
    for word, spec in options.items():
        if spec is not None and not spec.strip() and words[word].name in task.needs:
            raise InputError(f"{words[word].option} is empty, but {task.name} needs it; name its columns")


def forgotten(task: Task, options: Mapping[str, str | None], columns: Columns, table: pa.Table) -> list[str]:
    """What a table seems to say that no option asks for, in plain words; an empty option is not for getting it."""
    if "terminated" not in task.takes or "terminated" in columns or options.get("terminated") is not None:
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
    for role in task.roles:
        spec, taken = options.get(role.word), [name for own in columns.values() for name in own]
        if spec is None:
            found = _well_known(role, columns, names)
        else:
            found = select_columns(names, spec, role.option, taken=taken) if spec.strip() else []
        if not found and role.name in task.needs:
            _refuse_missing(role, columns, names)
        if len(found) > 1 and not role.several:
            raise InputError(f"{role.option} must be one column, not {len(found)} ({some(found)}); name one")
        if found:
            columns[role.word] = found
    for role in task.roles:
        if role.follows is not None and role.word in columns:
            before = ROLES[role.follows]
            columns[role.word] = _paired(columns[before.word], columns[role.word], before, role)
    return columns


def _well_known(role: Role, columns: Columns, names: Sequence[str]) -> list[str]:
    """The columns that have the names expected for this meaning, none where there are none."""
    if role.follows is not None:
        found = _next_names(role, columns)
        return found if all(name in names for name in found) else []
    if role.word in names:
        return [role.word]
    several = role.several and any(name.startswith(f"{role.word}_") for name in names)
    return select_columns(names, f"{role.word}_*", role.option) if several else []


def _next_names(role: Role, columns: Columns) -> list[str]:
    """The names that columns have which follow others."""
    return [f"next_{name}" for name in columns[ROLES[role.follows or ""].word]]


def _refuse_missing(role: Role, columns: Columns, names: Sequence[str]) -> NoReturn:
    absent = role.word
    if role.follows is not None:
        absent = next(name for name in _next_names(role, columns) if name not in names)
    others = f" (nor any {role.word}_...)" if role.several and role.follows is None else ""
    taken = {name for own in columns.values() for name in own}
    raise InputError(
        f"the table has no column {absent!r}{others}, so {role.option} must name what it has instead (there are "
        f"{some(names)}){nearest(absent, [name for name in names if name not in taken])}"
    )


def _paired(before: list[str], following: list[str], first: Role, second: Role) -> list[str]:
    """The columns that follow, each in the place of the one that it follows; by name, where the names tell."""
    if len(before) != len(following):
        raise InputError(
            f"{second.option} must have a column for each of {first.option}, but there are {len(following)} "
            f"({some(following)}) for {len(before)} ({some(before)})"
        )
    both = [name for name in following if name in before]
    if both:
        raise InputError(f"the column {both[0]!r} is named by {first.option} and by {second.option}; name others")
    named = [f"next_{name}" for name in before]
    return named if set(named) == set(following) else following
