"""Hitting times and committors of a Markov process, from its one-step transitions alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.data.probabilities import numbers, state_rows
from dualembed.data.trajectories import check_marks, check_not_negative, check_vectors
from dualembed.deprecation import warn
from dualembed.losses import Loss, Square
from dualembed.problems.base import (
    Problem,
    Terms,
    checked_columns,
    columns_of,
    library,
    mass_of,
    optional,
    states_of,
)
from dualembed.sources import Sample, Source

Target = Callable[[Floats], ArrayLike]


class HittingTime(Problem):
    """The mean time until a target: min over h of E[loss(E[h(s,t) - 1 - h(s',t) (s' not in the target) | s, t])].

    Columns are state and next_state (B,) or (B, d); arrived (B,), 1 where s' lies in the target; optional target (B,)
    or (B, dt), the target this row is about, where there are many: h is then a function of (s, t) side by side, and of
    s alone otherwise; optional duration (B,), the time a transition takes, by default 1; optional ways (B, K + 2), what
    is to be added to durations that are made of a fit (`Terms.ways`). `arrivals` and `pairs` make the first columns.

    The infimum is over times of at least 1: at a state of the target h is its mean return time, and the stationary
    probability of a single state t is 1/h(t,t). No whole path to the target needs to be in the data. From where there
    is no way to the target h is infinite, and no function solves the equation: of a table `SparseForm` refuses such
    data, while a closed form gives the compromise of least squares, with a dual that is not zero.

    Parameters
    ----------
    source : Source
        Samples with the columns above.
    loss : Loss, default=Square()
        The loss of the conditional mean of the moment.
    check_reached : bool, default=True
        Whether to refuse data in which nothing arrives; say False if they are a part of more.
    whole : bool, optional
        Deprecated: now `check_reached`.

    Examples
    --------
    >>> from dualembed.sources import Dataset
    >>> data = Dataset(state=[0.0, 1.0], next_state=[1.0, 0.0], arrived=[1, 0])
    >>> HittingTime(data).terms(data.columns).weights.tolist()
    [[1.0, 0.0], [1.0, -1.0]]
    """

    source: Source
    loss: Loss
    check_reached: bool = eqx.field(static=True)
    positive: ClassVar[bool] = True
    unbounded: ClassVar[bool] = True

    def __init__(
        self, source: Source, loss: Loss | None = None, check_reached: bool = True, *, whole: bool | None = None
    ) -> None:
        if whole is not None:
            warn("whole= of HittingTime", "check_reached=")
        self.source = source
        self.loss = Square() if loss is None else loss
        self.check_reached = check_reached if whole is None else whole

    def __check_init__(self) -> None:
        columns = checked_columns(self, "state=..., next_state=..., arrived=...")
        if self.check_reached and columns is not None:
            _check_reached(columns, "arrived", "the target", "its hitting time is infinite, or not in them")

    def terms(self, sample: Sample) -> Terms:
        """Points (s,t), (s',t), weights 1, -(not arrived), offset -duration, context (s,t), target 0."""
        state, next_state = states_of("a hitting-time problem", sample, "arrived")
        check_vectors(sample, "arrived", "duration")
        check_marks(sample, "arrived", "mark with 1 where s' lies in the target")
        check_not_negative(sample, "duration", "it is the time a transition takes")
        xp = library(sample)
        if "target" in sample:
            target = columns_of("target", sample["target"])
            state, next_state = (xp.concatenate([each, target], axis=1) for each in (state, next_state))
        there = xp.asarray(sample["arrived"], dtype=float)
        return Terms(
            points=xp.stack([state, next_state], axis=1),
            weights=xp.stack([xp.ones_like(there), there - 1.0], axis=1),
            offset=-optional(sample, "duration", 1.0),
            context=state,
            target=xp.zeros_like(there),
            known=(True, False),
            offset_known="duration" not in sample,
            mass=mass_of(sample),
            ways=sample.get("ways"),
        )


class Committor(Problem):
    """The probability of B before A: min over q of E[loss(E[q(s) - (s' in B) - q(s') (s' in neither) | s])].

    Columns are state and next_state (B,) or (B, d); arrived (B,), 1 where s' lies in B; returned (B,), 1 where s' lies
    in A. Give the rows with s in neither; from rows inside A or B, q is the probability for the path that leaves at s.

    Parameters
    ----------
    source : Source
        Samples with the columns above.
    loss : Loss, default=Square()
        The loss of the conditional mean of the moment.
    check_reached : bool, default=True
        Whether to refuse data in which nothing arrives in A or in B; say False if they are a part of more.
    """

    source: Source
    loss: Loss = eqx.field(default_factory=Square)
    check_reached: bool = eqx.field(default=True, static=True)

    def __check_init__(self) -> None:
        columns = checked_columns(self, "state=..., next_state=..., arrived=...")
        if columns is not None and self.check_reached:
            for name, which in (("arrived", "B"), ("returned", "A")):
                _check_reached(columns, name, which, "the committor is then constant, or not in them")

    def terms(self, sample: Sample) -> Terms:
        """Points (s, s'), weights 1, -(s' in neither), offset -(s' in B), context s, target 0."""
        state, next_state = states_of("a committor", sample, "arrived", "returned")
        check_vectors(sample, "arrived", "returned")
        for name, which in (("arrived", "B"), ("returned", "A")):
            check_marks(sample, name, f"mark with 1 where s' lies in {which}")
        xp = library(sample)
        there, back = (xp.asarray(sample[name], dtype=float) for name in ("arrived", "returned"))
        if not checks.traced(there, back) and np.any(np.asarray(there) * np.asarray(back)):
            raise checks.InputError("arrived and returned are both 1 in a row, but A and B must not overlap")
        return Terms(
            points=xp.stack([state, next_state], axis=1),
            weights=xp.stack([xp.ones_like(there), there + back - 1.0], axis=1),
            offset=-there,
            context=state,
            target=xp.zeros_like(there),
            known=(True, False),
        )


def arrivals(next_states: ArrayLike, target: Target | ArrayLike) -> Floats:
    """The column arrived: whether s' is in the target.

    Parameters
    ----------
    next_states : array of shape (n, d) or (n,)
        States s'.
    target : callable or array of shape (m, d) or (m,)
        A condition on states (n, d), or a list of states.

    Returns
    -------
    array of shape (n,)
        1 where s' is in the target, 0 elsewhere.

    Examples
    --------
    >>> arrivals([0.0, 1.5], lambda s: s[:, 0] >= 1).tolist()
    [0.0, 1.0]
    >>> arrivals([0, 3, 2], [2, 3]).tolist()
    [0.0, 1.0, 1.0]
    """
    states = state_rows(next_states, name="next_states")
    if callable(target):
        inside = numbers("what the target says", target(states))
        if inside.shape != (len(states),):
            raise checks.InputError(
                f"the target must say yes or no for each of {len(states)} states, not {inside.shape}"
            )
        check_marks({"what the target says": inside}, "what the target says", "say yes or no for each state")
        return inside
    members = state_rows(np.atleast_1d(np.asarray(target)), name="target")
    if members.shape[1] != states.shape[1]:
        raise checks.InputError(f"target states must have {states.shape[1]} coordinate(s), but have {members.shape[1]}")
    return np.any(np.all(states[:, None] == members[None], axis=2), axis=1).astype(float)


def pairs(states: ArrayLike, next_states: ArrayLike, targets: ArrayLike) -> dict[str, Floats]:
    """The columns of every transition with every target state.

    n transitions and T targets give n T rows; a random choice of targets keeps them few.

    Parameters
    ----------
    states : array of shape (n, d) or (n,)
        States s.
    next_states : array of shape (n, d) or (n,)
        States s'.
    targets : array of shape (T, d) or (T,)
        Target states.

    Returns
    -------
    dict of arrays
        The columns state, next_state, target and arrived of a `HittingTime` problem.

    Examples
    --------
    >>> pairs([0, 1], [1, 0], [1])["arrived"].tolist()
    [1.0, 0.0]
    """
    state, following = state_rows(states), state_rows(next_states, name="next_states")
    members = state_rows(targets, name="targets")
    if state.shape != following.shape or members.shape[1] != state.shape[1]:
        raise checks.InputError(
            f"states, next_states and targets need equally many coordinates, but have shapes {state.shape}, "
            f"{following.shape} and {members.shape}"
        )
    count = len(members)
    following, member = np.repeat(following, count, axis=0), np.tile(members, (len(state), 1))
    arrived = np.all(following == member, axis=1).astype(float)
    return {"state": np.repeat(state, count, axis=0), "next_state": following, "target": member, "arrived": arrived}


def _check_reached(columns: Sample, mark: str, which: str, consequence: str) -> None:
    """Raise where a target is never entered; each one, where there are many."""
    marks = columns[mark]
    if checks.traced(marks):
        return
    if not np.any(np.asarray(marks)):
        raise checks.InputError(f"no transition reaches {which}: {consequence}; give more data or another target")
    if "target" in columns:
        targets = np.asarray(columns_of("target", columns["target"]))
        names, row = np.unique(targets, axis=0, return_inverse=True)
        reached = np.bincount(row.ravel(), np.asarray(marks), minlength=len(names)) > 0
        if not reached.all() and len(names) < len(targets):
            lost = names[~reached]
            raise checks.InputError(
                f"no transition reaches the target {lost[0].tolist()} ({len(lost)} of {len(names)} targets): "
                f"{consequence}; leave such targets out"
            )
