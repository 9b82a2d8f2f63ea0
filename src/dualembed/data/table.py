"""`Table`: columns with roles, which is what an estimator is given; and how it is read from a file's columns."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dualembed.checks import InputError, some
from dualembed.data.columns import ORDERS, Columns, missing_rows, names_categories, select_columns, to_numbers
from dualembed.data.following import as_times, following_rows, with_next_rows
from dualembed.data.frames import columns_of, count_rows, group_numbers, names_of, take
from dualembed.data.roles import MOST_LEVELS, MOST_STATES, REFUSED, ROLES, Kind, Role, words_of

if TYPE_CHECKING:
    import pyarrow as pa

# What a function depends on, in their own names.
FEATURES = tuple(ROLES[name] for name in ("states", "X", "instruments", "controls"))

DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+\s*")
NAMED_ENDINGS = ("end", "ends", "ended", "last", "final")  # names of such columns
ENDINGS = ("done", "termina", "absorb")  # in the name of a column that says where nothing follows


class Windows(NamedTuple):
    """What is known of rows that lead over several others: how often these enter a target, and whether they are timed.

    >>> Windows(entries=3, timed=False).entries
    3
    """

    entries: int
    timed: bool


@dataclasses.dataclass(frozen=True)
class Table:
    """Tables and columns as they were given, one sample a row, by their roles; each role is an attribute.

    `names` are those of the columns, by role, where they come from a table with names; `digest` is a short text that
    two tables share only if they have the same values. A fit keeps both in its schema, and `warnings`, what to worry
    about in the table, with its own. `left_out` counts rows that are not there, for nothing is known of what follows,
    and `dropped` those that lacked a value. `actions_taken` are the log's, where only the order of rows is checked by
    them. `derived` says that next states are those of the next row, `by_place` that this was without a time, and
    `windows` is there where rows lead over several. `given` (n,) are the numbers of the rows as they were given, where
    they were put in another order.

    >>> table = Table.of(states=[0.0, 1.0], rewards=[0.0, 2.0])
    >>> table.rewards, table.actions
    ([0.0, 2.0], None)
    """

    columns: Mapping[str, Any]
    names: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    digest: str | None = None
    warnings: tuple[str, ...] = ()
    left_out: int = 0
    source: Any = None
    dropped: int = 0
    actions_taken: Any = None
    by_place: bool = False
    derived: bool = False
    windows: Windows | None = None
    given: np.ndarray | None = None

    @staticmethod
    def of(**columns: Any) -> Table:
        """The table of what is given; None stands for what is not."""
        return Table({role: column for role, column in columns.items() if column is not None})

    @staticmethod
    def whole(source: Any) -> Table | None:
        """The table of a log: what `data.log` reads, or has read; None of anything else.

        >>> Table.whole({"state": [0.0], "reward": [1.0], "next_state": [1.0]}).rewards
        [1.0]
        """
        from dualembed.data.formats import is_bandit
        from dualembed.data.logs import is_log, log

        if isinstance(source, Table):
            return source
        columns = log(source) if is_log(source) else source
        if not isinstance(columns, Mapping) or not {"state", "next_state"} <= set(columns):
            return None
        known = {role.name: columns[role.word] for role in ROLES.values() if role.word in columns}
        # Of a bandit's feedback rows stay as they are, so that policies may be by its names.
        same = columns is source or (isinstance(source, Mapping) and is_bandit(source))
        return Table(known, source=source if same else None)

    def __getattr__(self, role: str) -> Any:
        if role not in ROLES:
            raise AttributeError(f"{role} is no role of columns")
        return self.columns.get(role)

    @property
    def ended(self) -> np.ndarray | None:
        """Whether each row (n,) is one after which nothing follows; None where that is not said, or not in numbers."""
        if self.terminated is None:
            return None
        given = np.asarray(self.terminated)
        try:
            return np.asarray(given.astype(np.float64).reshape(len(given), -1)[:, 0] > 0)
        except (TypeError, ValueError):  # which is refused when marks are read
            return None

    def arranged(self, derives: Collection[str] = ("next_states",)) -> Table:
        """With rows of an episode in the order of time, where that is given, and with next states, where they are not.

        The next state is then that of the episode's next row, and so is the next action if the table `derives` it too.
        Where an episode ends it does not matter, and is the state itself; a row that was cut off has none, and goes.
        """
        derived = self.next_states is None and self.states is not None
        if (self.time is None and not derived) or self.states is None:
            return self
        # Cells are not looked at: some may be missing where rows are to be dropped.
        rows = len(columns_of(self.states, "states")[1][0]) if isinstance(self.states, str) else count_rows(self.states)
        self._check_lengths(rows)
        if not derived:
            labels = np.zeros(rows) if self.episodes is None else group_numbers("episodes", self.episodes, rows)
            return self.taken(np.lexsort((group_numbers("time", as_times(self.time), rows), labels)))
        ends = self.terminal if self.terminated is None else self.terminated
        marks = {"terminated": ends, "truncated": self.truncated}
        if self.episodes is None and self.time is None and not any(mark is not None for mark in marks.values()):
            self._check_done()
        found = following_rows(rows, episodes=self.episodes, time=self.time, **marks)
        kept = dataclasses.replace(self, columns={**self.columns, "episodes": found.episodes}).taken(found.rows)
        columns = {**kept.columns, "next_states": take(self.states, found.after)}
        if "next_actions" in derives and self.next_actions is None and self.actions is not None:
            columns["next_actions"] = take(self.actions, found.after)
        if "policy" in self.columns and "next_policy" not in self.columns:
            columns["next_policy"] = take(self.columns["policy"], found.after)
        notes = (*self.warnings, *found.warnings)
        known = dataclasses.replace(kept, columns=columns, warnings=notes, left_out=found.left_out)
        return dataclasses.replace(known, derived=True, by_place=self.time is None)

    def _check_done(self) -> None:
        """Raise where nothing says which row follows which but a column that does not tell ends from limits."""
        names = [] if self.source is None else names_of(self.source) or []
        done = next((name for name in names if name in REFUSED), None)
        if done is not None:
            raise InputError(
                f"next_states, or what says which row follows which, is missing: of {done!r}, {REFUSED[done]}"
            )

    def _check_lengths(self, rows: int) -> None:
        """Raise where a role has other than so many rows, since rows are taken by their numbers."""
        for role, column in self.columns.items():
            if not np.isscalar(column) and (count := count_rows(column)) != rows:
                raise InputError(f"{role} must have {rows} rows, one for each of the states, but have {count}")

    def taken(self, rows: np.ndarray) -> Table:
        """Some of the rows by their numbers, in that order."""
        columns = {role: column if np.isscalar(column) else take(column, rows) for role, column in self.columns.items()}
        acts = None if self.actions_taken is None else take(self.actions_taken, rows)
        given = rows if self.given is None else self.given[rows]
        return dataclasses.replace(self, columns=columns, actions_taken=acts, given=given)


def unused_end_marks(columns: Mapping[str, Collection[Any]], way: str) -> list[str]:
    """What to say of a column that seems to say where nothing follows: by its name, and by 0 and 1 in it.

    `way` is how it would be given, with a place {} for the name; nothing is said where there is no such column.
    """
    texts = {name: str(name).lower() for name in columns}
    named = [name for name, text in texts.items() if text in NAMED_ENDINGS or any(word in text for word in ENDINGS)]
    return [
        f"the column {name!r} is not used; if it is 1 where nothing follows, give {way.format(shlex.quote(name))}: "
        "without it rewards are expected beyond the end"
        for name in [name for name in named if {*columns[name]} == {0, 1}][:1]
    ]


def categories_in(table: pa.Table, columns: Columns, spec: str | None) -> list[str]:
    """The columns, next states aside, that name categories: those that `spec` says, and those that hold text.

    Text that mostly reads as numbers is no category unless it is said to be: a cell of it is rather wrong.
    """
    known = {name: role for role in FEATURES for name in columns.get(role.word, ())}
    said = select_columns(list(known), spec, "--categorical") if spec and spec.strip() else []
    for name, role in known.items():
        if name not in said and names_categories(table, name):
            _check_few(table, name, role.option)
            said.append(name)
    return said


def _check_few(table: pa.Table, name: str, option: str) -> None:
    """Raise where a column of text has too many different values for categories."""
    levels = list(dict.fromkeys(_labels(table, name).tolist()))
    most = MOST_STATES if option in (ROLES["states"].option, ROLES["next_states"].option) else MOST_LEVELS
    if len(levels) > MOST_LEVELS and all(DECIMAL_COMMA.fullmatch(str(level)) for level in levels[:MOST_LEVELS]):
        raise InputError(
            f"{option} needs numbers, but the column {name!r} holds {levels[0]!r}, with a comma in it; write "
            "decimals with a point"
        )
    if len(levels) > most:
        raise InputError(
            f"{option} needs numbers or at most {most:,} categories, but the column {name!r} holds "
            f"{len(levels):,} different ones, the first {levels[0]!r}; group the rare ones or name another column"
        )


def complete(table: pa.Table, columns: Columns, *, drop: bool) -> tuple[pa.Table, int]:
    """(the table without rows that lack a value, how many these were); refused where there are some not to be dropped.

    What follows the end of an episode and what an end would cost elsewhere do not matter, and may be missing.
    """
    table = _fill_ignored_cells(table, columns)
    used = list(dict.fromkeys(name for names in columns.values() for name in names))
    missing = missing_rows(table, used)
    count = int(missing.sum())
    if not count:
        return table, 0
    if not drop:
        lacking = [name for name in used if missing_rows(table, [name]).any()]
        raise InputError(
            f"{count:,} of {table.num_rows:,} rows lack a number in {some(lacking)} (the first is data row "
            f"{int(missing.argmax()) + 1}); fill them, or drop these rows with --drop-missing"
        )
    if count == table.num_rows:
        raise InputError(
            f"every row lacks a number in one of {some(used)}, so that --drop-missing leaves none; fill them"
        )
    return table.filter(~missing), count


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
        # A word may have another meaning in another task.
        meant = {role.word: role for role in (*ROLES.values(), *roles)}
        names = {meant[word].name: tuple(columns) for word, columns in self.columns.items()}
        derived = "next_state" in self.whole and "next_state" not in self.columns
        return Table(
            found,
            names,
            fingerprint(self.table, self.whole, needs),
            self.warnings,
            self.left_out,
            dropped=self.dropped,
            derived=derived,
            by_place=len(self.whole) > len(self.columns) and ROLES["time"].word not in self.columns,
        )


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
    with_next, whole, left_out, warnings = with_next_rows(ordered, columns, derives)
    kept, dropped = complete(with_next, whole, drop=drop)
    return Prepared(kept, columns, whole, lost + dropped, left_out, warnings)


def arguments(
    table: pa.Table, columns: Columns, wanted: Sequence[Role], *, categories: Collection[str] = ()
) -> dict[str, Any]:
    """What the columns of these roles hold, by the names of a method's arguments."""
    found: dict[str, Any] = {}
    for role in wanted:
        word = next((word for word in words_of(role, wanted) if word in columns), None)
        if word is None:
            continue
        names = columns[word]
        called = names if role.follows is None else columns.get(ROLES[role.follows].word, names)
        if role.kind in (Kind.LABEL, Kind.LABELS):
            found[role.name] = _labels(table, names[0]) if len(names) == 1 else table.select(names)
        elif role.kind is Kind.ACTION:
            found[role.name] = _actions(table, names, called, role.option)
        elif role.kind is Kind.TABLE:
            found[role.name] = _features(table, names, called, option=role.option, categories=categories)
        else:
            values = to_numbers(table, names[0], role.option)
            found[role.name] = np.exp(values) if names[0] in role.logarithms else values
    return found


def check_varying(table: pa.Table, columns: Columns) -> None:
    """Raise where every column that a function could depend on has the same value in all rows."""
    for role in (ROLES["states"], ROLES["X"]):
        names = columns.get(role.word, [])
        if names and all(len(table.column(name).unique()) == 1 for name in names):
            raise InputError(
                f"{role.option} has the same value in all {table.num_rows:,} rows ({some(names)}), so that nothing "
                "can be told apart by it; name other columns"
            )


def fingerprint(table: pa.Table, columns: Columns, roles: Sequence[str]) -> str:
    """A short text that two tables share only if they have the same numbers in the columns that are fitted to."""
    digest = hashlib.sha256()
    for role in roles:
        for name in columns.get(ROLES[role].word, ()):
            values = _labels(table, name)
            digest.update(repr(values.tolist()).encode() if values.dtype.kind == "O" else values.tobytes())
    return digest.hexdigest()[:16]


def _features(
    table: pa.Table, names: list[str], called: list[str], *, option: str, categories: Collection[str]
) -> pa.Table:
    import pyarrow as pa

    found = {}
    for name, own in zip(names, called, strict=True):
        if own in categories:
            found[own] = pa.array(_labels(table, name))
        else:
            found[own] = pa.array(_numbers(table, name, own, option))
    return pa.table(found)


def _numbers(table: pa.Table, name: str, called: str, option: str) -> np.ndarray:
    """The column's numbers; text is refused with the advice to make it a category."""
    try:
        return to_numbers(table, name, option)
    except InputError as error:
        if not _is_text(table, name):
            raise
        raise InputError(f"{error}, or give --categorical {shlex.quote(called)} if it names categories") from None


def _actions(table: pa.Table, names: list[str], called: list[str], option: str) -> Any:
    """Actions (n,): labels or numbers; or a table of both, for several columns."""
    if len(names) > 1:
        categories = [own for name, own in zip(names, called, strict=True) if names_categories(table, name)]
        return _features(table, names, called, option=option, categories=categories)
    if _is_text(table, names[0]):
        return _labels(table, names[0]).astype(str)
    return to_numbers(table, names[0], option)


def _labels(table: pa.Table, name: str) -> np.ndarray:
    """The column as it is, (n,)."""
    import pyarrow as pa

    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    found: np.ndarray = column.to_numpy()
    return found


def _is_text(table: pa.Table, name: str) -> bool:
    return _labels(table.slice(0, 1), name).dtype.kind in "OU"


def _fill_ignored_cells(table: pa.Table, columns: Columns) -> pa.Table:
    """The table with something in places that do not matter: dropping their rows would drop the ends of episodes."""
    import pyarrow as pa

    for mark, value in (("terminated", 1.0), ("terminal", 0.0)):
        for name, other in _ignored_columns(mark, columns):
            try:
                filled = _filled(table, name, other, where=(columns[mark][0], value))
            except pa.ArrowException:  # text where numbers are needed, which is refused when they are read
                continue
            table = table.set_column(table.column_names.index(name), name, filled)
    return table


def _ignored_columns(mark: str, columns: Columns) -> list[tuple[str, str | None]]:
    """(column, the one to take values from, or None for 0) for what does not matter where the mark says so."""
    if mark not in columns:
        return []
    if mark == "terminal":
        return [(name, None) for name in columns.get("terminal_cost", ())]
    pairs = [zip(columns[following], columns[before], strict=True) for following, before in _followed(columns)]
    return [pair for each in pairs for pair in each]


def _followed(columns: Columns) -> list[tuple[str, str]]:
    return [(role.word, ROLES[role.follows].word) for role in ROLES.values() if role.follows and role.word in columns]


def _filled(table: pa.Table, name: str, other: str | None, *, where: tuple[str, float]) -> Any:
    """The column with another's values, or 0, where it has none and the mark has that value."""
    import pyarrow as pa
    from pyarrow import compute

    mark, value = where
    idle = compute.fill_null(compute.equal(table.column(mark).cast(pa.float64()), value), False)
    column = table.column(name)
    empty = compute.and_(idle, compute.is_null(column, nan_is_null=pa.types.is_floating(column.type)))
    instead = table.column(other).cast(column.type) if other else pa.scalar(0).cast(column.type)
    return compute.if_else(empty, instead, column)
