"""`dualembed fit --formula`: columns by a formula, in the place of the options that name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dualembed.answers.task import Task
from dualembed.cli.options import IN_FORMULAS, option_of, takes_formula
from dualembed.data.roles import ROLES

if TYPE_CHECKING:
    import pyarrow as pa


def check_formula(task: Task, text: str, given: Mapping[str, str | None]) -> None:
    """Raise where the task takes no formula, where options name the same columns, or where it cannot be read."""
    from dualembed.checks import InputError
    from dualembed.data.formula import Formula

    if not takes_formula(task):
        raise InputError(f"--formula has no use in {task.name}; leave it out")
    for word in (ROLES[name].word for name in IN_FORMULAS):
        if given.get(word) is not None:
            raise InputError(f"--formula and {option_of(word)} both name columns; leave one of them out")
    if Formula.of(text).absorbed and given.get(ROLES["absorb"].word) is not None:
        raise InputError(f"--formula names factors to absorb, and so does {ROLES['absorb'].option}; leave one out")


def with_terms(text: str, table: pa.Table) -> tuple[pa.Table, dict[str, str]]:
    """(the table with the terms that a formula makes beside its columns, what the options would be that name them)."""
    import pyarrow as pa

    from dualembed.data.formula import Formula

    found = Formula.of(text).read(table)
    options = dict.fromkeys((ROLES[role].word for role in IN_FORMULAS), "")  # none, where the formula has none
    terms: dict[str, Any] = {}
    for role, values in found.table.columns.items():
        part = pa.table({found.outcome: values}) if role == "y" else values
        options[ROLES[role].word] = _listed(part.column_names)
        terms |= {name: part.column(name) for name in part.column_names}
    if found.outcome in table.column_names:
        terms.pop(found.outcome)  # whose cells are refused in their own words, where they are no numbers
    table = table.drop_columns([name for name in terms if name in table.column_names])
    for name, column in terms.items():
        table = table.append_column(name, column)
    return table, options


def _listed(names: list[str]) -> str:
    """Names as an option has them, each in double quotes, for terms hold commas and asterisks."""
    return ",".join('"{}"'.format(name.replace('"', '""')) for name in names)
