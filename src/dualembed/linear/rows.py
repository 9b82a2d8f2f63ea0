"""What transitions say, read once: points, weights and targets of rows, their groups and the places they know of."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from dualembed import checks
from dualembed.problems.base import Problem, iter_terms
from dualembed.tuning import SEARCH

FEWEST = 5  # rows
PLACES = 1000  # rows that a fit remembers where they are


@dataclasses.dataclass(frozen=True)
class Rows:
    """What n rows say: points (n, K, d), whose last coordinates are an action's, weights (n, K), target (n,)."""

    points: np.ndarray
    weights: np.ndarray
    target: np.ndarray
    actions: int

    def check_enough(self) -> None:
        """Raise where a model cannot be chosen."""
        if len(self.target) < FEWEST:
            raise checks.InputError(f"choosing a model needs at least {FEWEST} rows, not {len(self.target)}; give more")

    def order(self) -> np.ndarray:
        """The rows sorted by what they say, (n,): the same whatever order they come in."""
        columns = [self.target, *self.weights.T, *self.points.reshape(len(self.target), -1).T]
        return np.lexsort(columns)

    def some(self, rows: np.ndarray) -> Rows:
        """Those rows."""
        return Rows(self.points[rows], self.weights[rows], self.target[rows], self.actions)

    @property
    def used(self) -> np.ndarray:
        """The points that the equation speaks of, (N, d)."""
        return self.points[self.weights != 0]


def read_rows(problem: Problem) -> Rows | None:
    """The rows, or None where the context is not the first of several points, as it is for transitions.

    f's own features cannot test the equation then, or it is a plain regression, of which other methods make more.
    """
    tiles = list(iter_terms(problem))
    if not all(tile.points.shape[1] > 1 and np.array_equal(tile.context, tile.points[:, 0]) for tile in tiles):
        return None
    points, weights, target, offset = (
        np.concatenate([getattr(tile, name) for tile in tiles]) for name in ("points", "weights", "target", "offset")
    )
    return Rows(points, weights, target - offset, tiles[0].actions)


class Groups(NamedTuple):
    """Groups of rows that depend on each other, each a part of one of the few that are left out together.

    `numbers` (n,) are those of the rows' groups, `into` (F,) the left-out group of each group, and `units` (K,) how
    many labels each left-out group has, or how many rows where it is not `by_label`.
    """

    numbers: np.ndarray
    into: np.ndarray
    units: np.ndarray
    by_label: bool

    @property
    def shares(self) -> np.ndarray:
        """How much of the data each left-out group is, (K,)."""
        return np.asarray(self.units / self.units.sum())

    @property
    def left_out(self) -> np.ndarray:
        """The number (n,) of each row's left-out group."""
        return np.asarray(self.into[self.numbers])


def assign_groups(rows: Rows, labels: np.ndarray | None, rng: np.random.Generator) -> Groups:
    """At most forty groups, in at most ten that are left out together.

    Episodes, or whatever `labels` (n,) say, stay together. Where they are fewer than five, or one of them has most of
    the rows, blocks of rows in their order stand for groups. Without labels rows are independent, and are dealt out at
    random, whatever order they come in.
    """
    count = len(rows.target)
    if labels is not None:
        own = np.unique(check_labels(labels, count), return_inverse=True)[1]
        sizes = np.bincount(own)
        if len(sizes) >= SEARCH.fewest_groups and sizes.max() <= SEARCH.most_of_rows * count:
            groups = min(SEARCH.groups, len(sizes))
            dealt, into = rng.permutation(len(sizes)) % groups, np.arange(groups) % SEARCH.left_out
            return Groups(dealt[own], into, np.bincount(into[dealt]), True)
    groups = min(SEARCH.groups, count)
    numbers = np.empty(count, dtype=int)
    if labels is None:
        numbers[rows.order()], into = rng.permutation(count) % groups, np.arange(groups) % SEARCH.left_out
    else:
        numbers[np.argsort(own, kind="stable")] = np.arange(count) * groups // count
        into = np.arange(groups) * min(SEARCH.left_out, groups) // groups
    return Groups(numbers, into, np.bincount(into[numbers]), False)


def assign_more(rows: Rows, labels: np.ndarray | None, known: Groups, rng: np.random.Generator) -> Groups:
    """The left-out groups of rows that come later, and all units so far; `known` are those of earlier rows.

    A label stays in one group, the groups with the fewest first.
    """
    count, groups = len(rows.target), len(known.units)
    if labels is not None and known.by_label:
        own = np.unique(check_labels(labels, count), return_inverse=True)[1]
        order = np.lexsort([rng.random(groups), known.units])
        dealt = order[np.arange(own.max() + 1) % groups]
        numbers, more = dealt[own], np.bincount(dealt, minlength=groups).astype(float)
    else:
        numbers = rng.permutation(count) % groups if labels is None else np.arange(count) * groups // count
        more = np.bincount(numbers, minlength=groups).astype(float)
        if known.by_label:  # as many labels as so many rows had
            more *= float(known.units.sum()) / max(len(known.numbers), 1)
    return Groups(numbers, np.arange(groups), known.units + more, known.by_label)


def check_labels(labels: np.ndarray, rows: int) -> np.ndarray:
    """The labels, refused unless there is one a row."""
    given = np.asarray(labels)
    if given.shape != (rows,):
        raise checks.InputError(f"groups must have shape ({rows},), one label a row, but has {given.shape}")
    return given


def sample_places(points: np.ndarray, visits: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """(some of the distinct points (q, d), how many visits (q,) they had), whatever the order of the points."""
    distinct, number = np.unique(points, axis=0, return_inverse=True)
    visits = np.bincount(number.ravel(), visits)
    if len(distinct) <= PLACES:
        return distinct, visits
    chosen = np.sort(rng.permutation(len(distinct))[:PLACES])
    return distinct[chosen], visits[chosen] * visits.sum() / visits[chosen].sum()


def deviations(columns: np.ndarray) -> np.ndarray:
    """The standard deviation of each column; 1 for a constant one."""
    deviation = columns.std(axis=0)
    return np.where(deviation > 1e-12 * np.maximum(np.abs(columns).max(axis=0), 1e-300), deviation, 1.0)
