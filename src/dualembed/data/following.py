"""Which row of a table follows which: by labels of episodes, by time, or by marks of where episodes end."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed.arrays import Floats, Integers
from dualembed.checks import InputError
from dualembed.data.columns import Columns, to_numbers
from dualembed.data.frames import as_column, group_numbers
from dualembed.data.roles import ROLES

if TYPE_CHECKING:
    import pyarrow as pa

REGULAR = 0.8  # share of steps in time that are of one length, from which on a longer one seems to be a gap
ALIKE = 1e-6  # difference of two steps in time, as a share of them, below which it is rounding

LABELS = {"episodes": "episode", "time": "time"}
MARKS = {"terminated": ("terminated", "terminal"), "truncated": ("truncated",)}  # the first that is there counts


@dataclasses.dataclass(frozen=True)
class Following:
    """The rows of which it is known what follows, in the order of time.

    Attributes
    ----------
    rows : array of shape (k,)
        Numbers of these rows.
    after : array of shape (k,)
        The row that follows each; the row itself where nothing does, since the process ended.
    episodes : array of shape (n,)
        The number of each row's episode, of all rows.
    warnings : tuple of str
        What to worry about in the order of rows.
    """

    rows: Integers
    after: Integers
    episodes: Integers
    warnings: tuple[str, ...] = ()

    @property
    def left_out(self) -> int:
        """How many rows lead nowhere that the table shows: the last of episodes that did not end."""
        return len(self.episodes) - len(self.rows)


def following_rows(
    count: int, *, episodes: Any = None, time: Any = None, terminated: Any = None, truncated: Any = None
) -> Following:
    """Which row follows which of so many: the next one of its episode, by time where that is given.

    Without labels episodes end where marks say so.

    >>> found = following_rows(5, episodes=["a", "b", "a", "b", "a"], terminated=[0, 0, 0, 1, 0])
    >>> found.rows.tolist(), found.after.tolist(), found.left_out
    ([0, 2, 1, 3], [2, 4, 3, 3], 1)
    """
    ended, cut = (_marks(name, given, count) for name, given in (("terminated", terminated), ("truncated", truncated)))
    if episodes is None and time is None and not (ended | cut).any():
        raise InputError(
            "next_states must be given, or what says which row follows which: episodes, time, or terminated and "
            "truncated"
        )
    times = np.arange(count) if time is None else as_times(time)
    ranks = group_numbers("time", times, count)
    if episodes is None:
        order = np.argsort(ranks, kind="stable")
        ends = (ended | cut)[order]
        numbers = np.empty(count, dtype=int)
        numbers[order] = np.cumsum(ends) - ends
    else:
        numbers = group_numbers("episodes", episodes, count)
        order = np.lexsort((ranks, numbers))
    own = numbers[order]
    together = np.append(own[1:] == own[:-1], False)
    goes_on = together & ~ended[order] & ~cut[order]
    _check_times(times, ranks, order[np.flatnonzero(together)], order[np.flatnonzero(together) + 1], episodes)
    kept = np.flatnonzero(goes_on | ended[order])
    if not len(kept):
        raise InputError("no row is followed by another of its episode; give next_states, or rows of whole episodes")
    rows, after = order[kept], order[kept + goes_on[kept]]
    notes = () if time is None else _gaps(times, rows[goes_on[kept]], after[goes_on[kept]])
    return Following(rows, after, numbers, notes)


def as_times(given: Any) -> np.ndarray:
    """Times as they are, or as numbers where they are text that reads so: "10" comes after "2"."""
    times = np.asarray(given)
    try:
        return times.astype(np.float64) if times.dtype.kind in "OUS" else times
    except (TypeError, ValueError):
        return times


def _marks(role: str, given: Any, rows: int) -> np.ndarray:
    return np.zeros(rows, dtype=bool) if given is None else as_column(role, given, rows) > 0


def _check_times(times: np.ndarray, ranks: Integers, before: Integers, after: Integers, episodes: Any) -> None:
    """Raise where two rows of an episode have one time, so that either may follow the other."""
    same = ranks[before] == ranks[after]
    if not same.any():
        return
    first, second = int(before[np.argmax(same)]), int(after[np.argmax(same)])
    way = (
        "label episodes"
        if episodes is None
        else "give each row of an episode its own time, or episodes their own labels"
    )
    raise InputError(
        f"rows {first} and {second} both have the time {times[first]}, so that it is not known which follows which; "
        f"{way}, or give next_states"
    )


def _gaps(times: np.ndarray, before: Integers, after: Integers) -> tuple[str, ...]:
    """What to say of steps in time that are longer than nearly all others."""
    if times.dtype.kind not in "iufmM" or not len(before):
        return ()
    steps: Floats = (times[after] - times[before]).astype(np.float64)
    usual = float(np.median(steps))
    longer = steps > (1 + ALIKE) * usual
    if not longer.any() or np.mean(np.abs(steps - usual) <= ALIKE * usual) < REGULAR:
        return ()
    row, following = int(before[np.argmax(longer)]), int(after[np.argmax(longer)])
    return (
        f"{int(longer.sum())} of {len(steps)} rows are followed by one that is later than the usual step, such as time "
        f"{times[row]} by time {times[following]}, and each is taken for a single step; if rows are missing between, "
        "label what comes after a gap as another episode",
    )


def with_next_rows(
    table: pa.Table, columns: Columns, derives: Collection[str]
) -> tuple[pa.Table, Columns, int, tuple[str, ...]]:
    """(a table in Arrow with columns of what follows, all columns by word, rows left out, what to worry about)."""
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
