"""What a policy that is given does at the rows of a log, in all forms that policies come in."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.data.coding import Coding
from dualembed.data.frames import count_rows, first_rows, levels_of
from dualembed.data.policy_forms import (
    Choices,
    RowPolicy,
    at_positions,
    check_shown,
    choices_at,
    form_of,
    is_names,
    named_rows,
    settled,
)
from dualembed.data.roles import MOST_LEVELS
from dualembed.data.table import Table
from dualembed.estimators.policy_values import PolicyValueEstimator
from dualembed.linear.averaging import Groups

MOST_ACTIONS = 512  # of one kind each
AT_ROWS = {"states": "policy", "next_states": "next_policy"}  # columns of a table with what a policy does at its rows


class ActingEstimator(PolicyValueEstimator):
    """An evaluator of actions under a given policy, or under the one that next actions are of."""

    policy: Any
    left_out_groups_: np.ndarray | None = None  # (n,), the number of the left-out group of each row of one step

    @property
    def _derives(self) -> tuple[str, ...]:  # type: ignore[override]
        """Next actions too, where no policy says what they are."""
        return self.task.derives if self.policy is None else ("next_states",)

    @property
    def actions_(self) -> Coding:
        """How actions are coded."""
        return self.schema_.codings["actions"]

    def _fit_codings(self, table: Table) -> dict[str, Coding]:
        """The codings of states and actions: of all actions that the policy may take, seen or not."""
        codings = super()._fit_codings(table)
        tables, discrete = [table.actions], are_discrete(table.actions)
        one_step = self.policy is not None and self._one_step(table)
        if table.next_actions is not None and not one_step:
            tables.append(table.next_actions)
        elif self.policy is None:
            raise checks.InputError(
                "a policy must be given, or the next_actions that it takes at the next states; without next_states "
                "both are those of the next row of the episode"
            )
        else:
            role = "states" if one_step else "next_states"
            choices = self._choices(table, role, codings["states"].renamed(getattr(table, role)))
            discrete = _among(choices, table.actions, discrete)
            if discrete:
                self._check_shown(table, role, choices)
            if discrete and choices.labels is None:
                tables.append(np.asarray(choices.actions)[:, 0])
            elif discrete and not _labels_of(table.actions):
                tables.append(np.asarray(choices.labels))
        most = MOST_ACTIONS if discrete else MOST_LEVELS
        return codings | {"actions": Coding.fit("actions", *tables, categorical=discrete or None, most=most)}

    def _check_shown(self, table: Table, role: str, choices: Choices) -> None:
        """Raise where the policy takes what the log never shows: at starts, or at states that something follows."""
        ended = None if role == "states" else table.ended
        check_shown(choices, table.actions, rows=None if ended is None else ~ended)
        if role != "states" and table.episodes is not None:
            rows = first_rows(table.episodes)
            check_shown(self._choices(table, "states", table.states), table.actions, rows=rows)

    def _completed(self, table: Table) -> Table:
        """With what the policy does at the rows, where it is known there alone; of one step, with next states."""
        columns = dict(table.columns)
        ended = table.ended
        over = ended is not None and bool(ended.all())  # so that it does not matter what the policy does next
        follows = table.next_states is None or over
        policy = named_rows(self.policy, table.source, follows=follows) if self._named(table) else None
        form = at_positions(policy or form_of(self.policy), table.source)
        if isinstance(form, RowPolicy) and "policy" not in columns:
            columns["policy"] = form.states
            if form.next_states is not None or over:
                columns["next_policy"] = form.states if form.next_states is None else form.next_states
            elif table.next_states is not None and self.discount:
                raise checks.InputError(
                    "the policy is a table of what it does at states alone, but its value needs what it does at next "
                    "states too; give a pair of tables, policy=(at_states, at_next_states), or a function of states"
                )
        if self._one_step(table) and table.states is not None:
            # What follows does not count: the row's own state and action stand in its place.
            columns = {"next_states": table.states, "next_actions": table.actions, **columns}
        return dataclasses.replace(table, columns=columns)

    def _named(self, table: Table) -> bool:
        """Whether the policy is given by names of columns, which the table must then have come with."""
        if not is_names(self.policy) or "policy" in table.columns:
            return False
        if table.source is None:
            raise checks.InputError(
                f"policy={self.policy!r} names columns of the log; give the log as one table, fit(log), or the policy "
                "as a pair of tables, (at_states, at_next_states)"
            )
        return True

    def _add_returns(self, problem: Any, labels: Any, groups: Groups) -> None:
        """Keep by what groups each row was left out, where rows are of one step: what it shows is then news to f."""
        self.left_out_groups_ = groups.left_out if not self.discount else None

    def _one_step(self, table: Table) -> bool:
        """Whether nothing follows that counts, and every row is a start of its own."""
        return not self.discount and table.episodes is None

    def _choices(self, table: Table, role: str, states: Any) -> Choices:
        """What the policy does at the states or next states of the rows of a table."""
        rows = count_rows(states)
        if (given := table.columns.get(AT_ROWS[role])) is not None:
            return choices_at(given, rows, _distinct(table.actions))
        return self._asked(states)

    def _asked(self, states: Any) -> Choices:
        """What the policy does at any states."""
        form = form_of(self.policy)
        if form is None or isinstance(form, RowPolicy):
            raise checks.InputError(
                "a policy given by tables or columns is known at the rows of its log alone, with as many rows and no "
                "others; ask about these, or give the policy as a function of states"
            )
        return form.at(states)

    def _policy_actions(self, choices: Choices) -> tuple[np.ndarray, np.ndarray]:
        """(coded actions (n, J, a), probabilities (n, J)) of what the policy does."""
        levels = self.actions_.columns[0].levels if len(self.actions_.columns) == 1 else ()
        found = settled(choices, levels, discrete=bool(levels))
        if found.labels is not None:
            every = self.actions_.encode(np.asarray(found.labels))
            return np.broadcast_to(every, (len(found.shares), *every.shape)), found.shares
        actions = np.asarray(found.actions)
        flat = actions.reshape(-1, *actions.shape[2:])
        return self.actions_.encode(flat).reshape(*found.shares.shape, -1), found.shares


def _labels_of(actions: Any) -> bool:
    """Whether actions are text."""
    return np.asarray(actions.to_numpy() if hasattr(actions, "to_numpy") else actions).dtype.kind in "OUS"


def _distinct(actions: Any) -> list[Any]:
    """The different actions of a log, where they are labels."""
    given = np.asarray(actions.to_numpy() if hasattr(actions, "to_numpy") else actions)
    given = given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given
    return np.unique(levels_of(given).astype(str)).tolist() if given.ndim == 1 and given.dtype.kind in "OUS" else []


def _among(choices: Choices, actions: Any, discrete: bool) -> bool:
    """Whether actions are of one kind each: the log's are, or a policy has probabilities of each of many numbers."""
    if choices.labels is None:
        return discrete and choices.actions is not None and choices.actions.shape[1:] == (1,)
    if discrete or choices.numbered is False:
        return discrete or not np.ndim(actions) > 1
    given = np.asarray(actions.to_numpy() if hasattr(actions, "to_numpy") else actions).astype(np.float64)
    return given.ndim == 1 and len(choices.labels) > MOST_LEVELS and bool(np.all(np.isin(given, choices.labels)))


def are_discrete(actions: Any) -> bool:
    """Whether actions are labels or a few whole numbers."""
    given = np.asarray(actions.to_numpy() if hasattr(actions, "to_numpy") else actions)
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.ndim != 1:
        return False
    if given.dtype.kind not in "iuf":
        return True
    return bool(np.all(given == np.round(given))) and len(np.unique(given)) <= MOST_LEVELS
