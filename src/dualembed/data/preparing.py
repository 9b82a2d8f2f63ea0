"""The rows of a file that a fit can use: none that lacks a value, and each with what follows it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from dualembed.data.columns import ORDERS, Columns, to_numbers
from dualembed.data.following import following_rows
from dualembed.data.roles import ROLES, Role
from dualembed.data.table import Table, arguments, complete, fingerprint

if TYPE_CHECKING:
    import pyarrow as pa

LABELS = {"episodes": "episode", "time": "time"}
MARKS = {"terminated": ("terminated", "terminal"), "truncated": ("truncated",)}  # the first that is there counts


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A table whose rows lack nothing, and its columns by the words for their roles.

    `columns` are those that the file has, and `whole` those with what was derived from the next row beside them.
    `dropped` rows lacked a value, and of `left_out` ones it is not known what follows.
    """

    table: pa.Table
    columns: Columns
    whole: Columns
    dropped: int = 0
    left_out: int = 0
    warnings: tuple[str, ...] = ()

    def to_table(self, roles: Sequence[Role], *, needs: Sequence[str], categories: Collection[str]) -> Table:
        """The columns of these roles, with the names of those that the file has."""
        found = arguments(self.table, self.whole, roles, categories=categories)
        names = {role.name: tuple(self.columns[role.word]) for role in ROLES.values() if role.word in self.columns}
        return Table(found, names, self.fingerprint(needs), self.warnings, self.left_out)

    def fingerprint(self, needs: Sequence[str]) -> str:
        """A short text that two tables share only if they have the same numbers in the columns that are fitted to."""
        return fingerprint(self.table, self.whole, needs)


def prepare(table: pa.Table, columns: Columns, *, derives: Collection[str], drop: bool) -> Prepared:
    """The rows that lack nothing, with what follows them: what columns say, or what the next row of the episode does.

    A row that is dropped for want of another value may still be what another leads to.
    """
    if "next_states" not in derives or ROLES["next_states"].word in columns:
        kept, dropped = complete(table, columns, drop=drop)
        return Prepared(kept, columns, columns, dropped)
    placed = {word: columns[word] for word in ORDERS if word in columns}
    if not drop:
        complete(table, columns, drop=False)
    ordered, lost = complete(table, placed, drop=drop)
    with_next, whole, left_out, warnings = _with_next_rows(ordered, columns, derives)
    kept, dropped = complete(with_next, whole, drop=drop)
    return Prepared(kept, columns, whole, lost + dropped, left_out, warnings)


def _with_next_rows(
    table: pa.Table, columns: Columns, derives: Collection[str]
) -> tuple[pa.Table, Columns, int, tuple[str, ...]]:
    """(the table with columns of what follows, all columns by word, rows left out, what to worry about)."""
    import pyarrow as pa

    given: dict[str, Any] = {
        name: table.column(columns[word][0]).to_numpy() for name, word in LABELS.items() if word in columns
    }
    for name, words in MARKS.items():
        word = next((word for word in words if word in columns), None)
        if word is not None:
            given[name] = to_numbers(table, columns[word][0], f"--{word}")
    found = following_rows(table.num_rows, **given)
    whole, following = dict(columns), table.take(pa.array(found.after))
    table = table.take(pa.array(found.rows))
    for role in (ROLES[name] for name in ("next_states", "next_actions") if name in derives):
        before = ROLES[role.follows or ""].word
        if role.word not in columns and before in columns:
            whole[role.word] = []
            for name in columns[before]:
                table, added = _appended(table, f"next_{name}", following.column(name))
                whole[role.word].append(added)
    if LABELS["episodes"] not in columns:
        labels = pa.array(found.episodes[found.rows])
        table, added = _appended(table, LABELS["episodes"], labels)
        whole[LABELS["episodes"]] = [added]
    return table, whole, found.left_out, found.warnings


def _appended(table: pa.Table, name: str, column: Any) -> tuple[pa.Table, str]:
    """(the table with one more column, its name: one that no other column has)."""
    while name in table.column_names:
        name = f"{name}_"
    return table.append_column(name, column), name
