"""Transitions over several rows of a trajectory, forwards and backwards, and the groups of rows that they make.

A window starts at a row and leads to the state that follows so many rows later in its trajectory, or to the first state
before that in which the process is stopped. For a Markov process that is a transition as good as a single step: what
was found does not depend on how long windows are.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from dualembed import checks
from dualembed.arrays import Booleans, Floats, Integers
from dualembed.data.frames import as_column, group_numbers, stacked, take
from dualembed.data.table import Table, Windows
from dualembed.tuning import SEARCH

APART = 4  # lags that a block of rows is long, so that what goes on across its ends hardly counts
FEW_BLOCKS = 10  # below which errors by blocks are rough
FEW_WINDOWS = 20  # that do not overlap, below which an answer rests on next to nothing
SUSPICIOUS = 4.0  # standard errors that the means of states and of next states may differ by


class Spans(NamedTuple):
    """Windows from the state of row `starts` to the state that row `ends` leads to, each (w,)."""

    starts: Integers
    ends: Integers
    short: int = 0  # trajectories too short for a window
    paths: int = 1
    longest: int = 0  # transitions of the longest trajectory
    backwards: bool = False


def spans_of(links: Booleans, steps: int, stops: Booleans | None = None) -> Spans:
    """The windows of so many steps over rows (n,), each of which goes on with the next where `links` says so.

    A window ends early at a row that `stops`, where a process enters a target. Rows nearer to the end of a trajectory
    than a window is long are left out, whatever happens there: to keep those that enter the target by then would make
    entries too frequent. But where trajectories themselves end as soon as they enter the target, none going on after
    it, windows end with them, since to leave out the last rows would be to leave out what enters.

    >>> links = np.array([True, True, True, False])
    >>> found = spans_of(links, 2)
    >>> found.starts.tolist(), found.ends.tolist()
    ([0, 1, 2], [1, 2, 3])
    >>> spans_of(links, 2, np.array([False, True, False, False])).ends.tolist()
    [1, 1, 3]
    """
    rows = np.arange(len(links))
    path = np.concatenate([[0], np.cumsum(~links[:-1])])
    last = np.flatnonzero(~links)[path]
    sizes = np.bincount(path)
    ends = rows + steps - 1
    kept = ends <= last
    if stops is not None and stops.any():
        entering = np.flatnonzero(stops)
        following = np.append(entering, ends[-1])[np.searchsorted(entering, rows)]
        ends = np.minimum(ends, following)
        if ends_there(links, stops):
            ends, kept = np.minimum(ends, last), sizes[path] > 0
    missing = np.bincount(path, kept) == 0
    return Spans(rows[kept], ends[kept], int(missing.sum()), len(sizes), int(sizes.max()))


def ends_there(links: Booleans, stops: Booleans) -> bool:
    """Whether trajectories end as soon as they enter the target: none of them goes on after it."""
    return bool(stops.any() and not links[stops].any())


@dataclasses.dataclass(frozen=True)
class Lag:
    """How many rows a transition leads over, how long a row takes, and whether transitions count backwards, too."""

    steps: Any = 1
    dt: Any = 1.0
    reversible: Any = False

    @property
    def plain(self) -> bool:
        """Whether transitions are those of the table."""
        return self.steps == 1 and self.dt == 1 and not self.reversible

    def check(self, table: Table) -> None:
        """Raise where the numbers make no sense, by themselves or with what the table has."""
        checks.count("lagtime", self.steps)
        checks.positive("dt", self.dt, "it is the time from one row to the next")
        checks.single("dt", self.dt, "give the times that rows take as durations=")
        if not isinstance(self.reversible, (bool, np.bool_)):
            raise checks.InputError(f"reversible must be True or False, not {self.reversible!r}")
        if self.steps > 1 and table.next_states is not None and not table.derived:
            raise checks.InputError(
                f"lagtime={self.steps} takes next states so many rows later in a trajectory, but next_states are "
                "given; leave them out and give episodes=, or leave out lagtime and say by dt= how long a step takes"
            )
        if self.dt != 1 and table.durations is not None:
            raise checks.InputError(
                f"dt={self.dt:g} is how long each row takes, but durations are given, too; leave one of them out"
            )

    def table(
        self, table: Table, points: tuple[Floats, Floats], *, stops: Booleans | None, begins: Booleans | None
    ) -> Table:
        """The table of the windows over the rows of an arranged one, whose coded states and next states are `points`.

        `stops` and `begins` (n,) say whether a row ends, and begins, where the process is stopped.
        """
        count = len(points[0])
        links = _links(table, points)
        spans = spans_of(links, self.steps, stops)
        if spans.longest < self.steps:
            raise checks.InputError(
                f"lagtime={self.steps} is longer than every trajectory, the longest of which has {spans.longest + 1} "
                "rows; give a smaller lagtime, or longer trajectories"
            )
        columns = {**table.columns, **self._groups(table, count)}
        columns |= {role: as_column(role, columns[role], count) for role in ("durations",) if role in columns}
        found, entries = self._windows(columns, spans), _entries(spans.ends, stops)
        rows = spans.starts
        notes = _notes(spans, self.steps) + (_few_windows(spans, count) if self.steps > 1 else ())
        if self.steps > 1 and "groups" not in table.columns and "groups" in columns:
            notes += _few_blocks(count, self.steps)
        if self.reversible:
            _check_reversible(links, stops, begins)
            notes += _not_stationary(points, group_numbers("groups", columns.get("groups", table.episodes), count))
            back = spans_of(np.append(links[:-1][::-1], False), self.steps, None if begins is None else begins[::-1])
            back = back._replace(starts=count - 1 - back.starts, ends=count - 1 - back.ends, backwards=True)
            entries += _entries(back.ends, begins)
            # Beside each other, since blocks of rows that follow each other may stand for groups.
            order = np.argsort(np.concatenate([spans.starts, back.ends]), kind="stable")
            turned = self._windows(columns, back)
            found = {role: take(stacked(column, turned[role]), order) for role, column in found.items()}
            rows = np.concatenate([rows, back.starts])[order]
        return dataclasses.replace(
            table,
            columns=found,
            warnings=(*table.warnings, *notes),
            left_out=table.left_out + count - len(spans.starts),
            given=(np.arange(count) if table.given is None else table.given)[rows],
            windows=Windows(entries, self.dt != 1 or table.durations is not None),
        )

    def _groups(self, table: Table, count: int) -> dict[str, Any]:
        """Groups of rows where there are none: blocks longer than a window, unless trajectories are groups enough."""
        if table.groups is not None or (self.steps == 1 and not self.reversible):
            return {}
        if table.episodes is None:
            return {"groups": np.arange(count)}
        labels = group_numbers("episodes", table.episodes, count)
        sizes = np.bincount(labels)
        if len(sizes) >= SEARCH.fewest_groups and sizes.max() <= SEARCH.most_of_rows * count:
            return {}
        blocks = min(max(count // (APART * self.steps), SEARCH.fewest_groups), SEARCH.groups, count)
        numbers = np.empty(count, dtype=int)
        numbers[np.argsort(labels, kind="stable")] = np.arange(count) * blocks // count
        return {"groups": numbers}

    def _windows(self, columns: dict[str, Any], spans: Spans) -> dict[str, Any]:
        """The columns of windows, those of a reversed trajectory where they end before they start."""
        low, high = np.minimum(spans.starts, spans.ends), np.maximum(spans.starts, spans.ends)
        found = {
            role: column if np.isscalar(column) else take(column, spans.starts) for role, column in columns.items()
        }
        first, second = ("next_states", "states") if spans.backwards else ("states", "next_states")
        found["states"], found["next_states"] = take(columns[first], spans.starts), take(columns[second], spans.ends)
        if "durations" in columns:
            until = np.concatenate([[0.0], np.cumsum(columns["durations"])])
            found["durations"] = until[high + 1] - until[low] if self.steps > 1 else columns["durations"][low]
        elif self.dt != 1 or self.steps > 1:
            found["durations"] = self.dt * (high - low + 1.0)
        return found


def _links(table: Table, points: tuple[Floats, Floats]) -> Booleans:
    """Whether each row (n,) is followed by the next one of the table."""
    states, following = points
    links = np.zeros(len(states), dtype=bool)
    if table.derived:
        labels = group_numbers("episodes", table.episodes, len(states))
        links[:-1] = (labels[1:] == labels[:-1]) & np.all(states[1:] == following[:-1], axis=1)
    return links


def _entries(ends: Integers, stops: Booleans | None) -> int:
    """How many rows that windows end with enter a target."""
    return 0 if stops is None else int(stops[np.unique(ends)].sum())


def _notes(spans: Spans, steps: int) -> tuple[str, ...]:
    """What to say of trajectories without a window."""
    if not spans.short:
        return ()
    which = f"{spans.short:,} of {spans.paths:,} trajectories {'are' if spans.short > 1 else 'is'}"
    return (f"{which} no longer than the lag of {steps} rows, and left out",)


def _few_windows(spans: Spans, count: int) -> tuple[str, ...]:
    """What to say where windows are few, or overlap so much that few of them tell anything of their own."""
    windows = len(spans.starts)
    apart = min(windows, round(count / np.mean(spans.ends - spans.starts + 1.0)))
    if apart >= FEW_WINDOWS:
        return ()
    return (
        f"{windows:,} window{'s' if windows > 1 else ''} of the lag, of which about {apart} do not overlap, tell next "
        "to nothing, and errors by them are rough; a smaller lagtime or longer trajectories help",
    )


def _few_blocks(count: int, steps: int) -> tuple[str, ...]:
    """What to say where windows are long for so many rows."""
    blocks = count // (APART * steps)
    if blocks >= FEW_BLOCKS:
        return ()
    return (
        f"a lag of {steps} rows is long for {count:,} rows of few trajectories: errors by {max(blocks, 1)} blocks of "
        "them that hardly depend on each other are rough; a smaller lagtime or more trajectories help",
    )


def _check_reversible(links: Booleans, stops: Booleans | None, begins: Booleans | None) -> None:
    """Raise where rows are surely no sample of the stationary law: where the target is entered but never left."""
    if stops is None or begins is None or not stops.any():
        return
    if not begins.any() or (links.any() and ends_there(links, stops)):
        raise checks.InputError(
            "reversible=True takes transitions backwards, too, which is right only for samples of the stationary law, "
            f"but {int(stops.sum())} rows enter the target and none goes on from there; leave it out, or give "
            "trajectories that go on"
        )


def _not_stationary(points: tuple[Floats, Floats], groups: Integers) -> tuple[str, ...]:
    """What to say where states and next states have means, or mean squares, that differ by more than chance."""
    first, second = (np.concatenate([each, each**2], axis=1) for each in points)
    sums = np.zeros((int(groups.max()) + 1, first.shape[1]))
    np.add.at(sums, groups, second - first)
    size = np.sqrt(np.sum(sums**2, axis=0))
    if len(sums) < SEARCH.fewest_groups or not np.any(np.abs(sums.sum(axis=0)) > SUSPICIOUS * size):
        return ()
    return (
        "states and next states differ in law, by more than chance, so that rows are no sample of the stationary law, "
        "and reversible=True is wrong for them; leave it out",
    )
