"""What estimators of one-step transitions share: how transitions are read, fitted to, gone on with and judged by."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.answers import Answer, Findings, Question, Setting
from dualembed.data.coding import Coding, ColumnCoding
from dualembed.data.frames import group_numbers
from dualembed.data.lags import Lag
from dualembed.data.roles import MOST_STATES
from dualembed.data.table import Table
from dualembed.estimators.base import Estimator
from dualembed.estimators.diagnostics import unseen_levels
from dualembed.estimators.learning import RowSample
from dualembed.estimators.weighting import weigh_transitions
from dualembed.linear.averaging import PLACES
from dualembed.linear.candidates import Headline
from dualembed.linear.fit import nearest

CHANCE, FEWEST_STEPS, LOOKED_AT = 3.5, 100, 20_000  # standard errors of a correlation; rows it is looked at in
MOST_LOOKED_AT = 64  # coordinates of the same, such as indicators of levels
DISCOUNT = Setting("discount", "By how much a reward counts less a step later.", default=0.99)
LAGS = (
    Setting("lagtime", "Rows from a state to the next one of its trajectory.", default=1),
    Setting("dt", "How long one row takes; then the unit of times.", default=1.0),
    Setting("reversible", "Count each transition backwards, too, of a sample of the long run.", default=False),
)


class TransitionEstimator(Estimator):
    """An estimator of a function of states, or of states and actions, from transitions."""

    categorical_features: Any
    # The numbers of the levels that rows start with, for each category; nothing is known of them in older models.
    levels_: tuple[tuple[int, ...], ...] | None = None
    left_out_: int = 0  # rows of which it was not known what follows
    # Of estimators of a process, which have them as parameters: see `data.lags`.
    lagtime: Any = 1
    dt: Any = 1.0
    reversible: Any = False

    @abstractmethod
    def _make_problem(self, columns: dict[str, np.ndarray], table: Table) -> Any:
        """The problem of the coded columns `state` and `next_state`, and of others of the data that it needs."""

    def _arranged(self, table: Table) -> Table:
        """The rows in the order of time, with what follows each; over windows of rows where there is a lag."""
        lag = Lag(self.lagtime, self.dt, self.reversible)
        lag.check(table)
        table = super()._arranged(table)
        if lag.plain:
            return table
        reader = self
        if not self.__sklearn_is_fitted__():
            reader = self._copy(fitted=False)
            reader._code(table)
        coding, following = reader.coding_, table.next_states
        points = coding.encode(table.states), coding.encode(following, renamed=True)
        check_alike(*points)
        if self.reversible:
            table = dataclasses.replace(table, columns={**table.columns, "next_states": coding.renamed(following)})
        ends = {"begins": reader._stops(table.states), "stops": reader._stops(table.next_states)}
        return lag.table(table, points, **ends)

    def _stops(self, states: Any) -> np.ndarray | None:
        """Whether a window of rows ends early in these states, (n,): in a target; None where there is none."""
        return None

    def _fit_first(self, table: Table) -> Any:
        """Learn from the first rows; their problem."""
        self._code(table)
        problem, groups = self._problem(table)
        self._set_feature_names(table.states)
        self.left_out_ = table.left_out
        notes = unseen_levels(problem, self._codings())
        self.levels_ = self._levels(problem, ())
        self._solve_problem(problem, groups=groups, headline=self._headline(problem, table))
        self._keep_sample(problem, table)
        notes += self._unordered(table) if table.by_place and table.windows is None else []
        self._add_warnings(notes, effective_rows=_worth(problem))
        return problem

    def _fit_more(self, table: Table) -> Any:
        """Learn from more rows; their problem."""
        problem, groups = self._problem(table)
        if _worth(problem) is not None or self.diagnostics_.effective_rows is not None:
            raise checks.InputError(
                "partial_fit cannot add rows where sample_weight is not whole, since such weights are relative to "
                "those of all rows; fit to all rows"
            )
        self.left_out_ += table.left_out
        if self.levels_ is not None:
            self.levels_ = self._levels(problem, self.levels_)
        self._extend_solution(problem, groups=groups, headline=self._headline(problem, table))
        if self.sample_ is not None:
            self._keep_sample(problem, table)
        return problem

    def _keep_sample(self, problem: Any, table: Table) -> None:
        """Keep some of the places that rows start from, besides earlier ones."""
        points, mass = first_points(problem), problem.source.table.get("mass")
        self.sample_ = RowSample.of(points, points, seed=0, before=self.sample_, weights=mass)

    def _levels(self, problem: Any, before: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        """The numbers of the levels that the problem's rows start with, and those that are known already."""
        points = first_points(problem)
        found = [np.unique(column.numbers_at(points[:, own])).tolist() for column, own in self._categories()]
        return tuple(
            tuple(sorted({*each, *known})) for each, known in zip(found, before or [()] * len(found), strict=True)
        )

    def difference(self, states: Any, other_states: Any) -> Question:
        """The question of the mean of f over states less that over others; of f(s) - f(s0), for one state each.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States s.
        other_states : array-like of shape (m, d) or (m,)
            States s0.

        Returns
        -------
        Question
            For `ask`.
        """
        words = f"the difference of {self.task.symbol} between two sets of states"
        return Question.renamed(self.at(states) - self.at(other_states), words)

    def _categories(self) -> Iterator[tuple[ColumnCoding, slice]]:
        """The categories among the columns, and their coordinates."""
        begin = 0
        for coding in self._codings():
            for column, start in zip(coding.columns, coding.starts, strict=True):
                if column.levels and column.width:
                    yield column, slice(begin + start, begin + start + column.width)
            begin += coding.dimension

    def _unseen(self, points: np.ndarray) -> np.ndarray:
        if self.levels_ is None:
            return super()._unseen(points)
        found, width = np.zeros(len(points), dtype=bool), 0
        for (column, own), known in zip(self._categories(), self.levels_, strict=True):
            found |= ~np.isin(column.numbers_at(points[:, own]), known)
            width += column.width
        places = None if self.paths_ is None else np.asarray(self.paths_.places)
        if places is not None and width == points.shape[1] and len(places) < PLACES:  # which are then all there are
            found |= nearest(points, places, np.ones(width)) > 0.5
        return found.astype(np.float64)

    def _findings(self, headline: Answer) -> Findings:
        found = super()._findings(headline)
        if not self.left_out_:
            return found
        rows = "1 row is" if self.left_out_ == 1 else f"{self.left_out_:,} rows are"
        remark = f"{rows} left out, the last of episodes that did not end, since it is not known what follows."
        facts = {**found.facts, "rows_left_out": self.left_out_}
        return found._replace(facts=facts, remarks=(*found.remarks, remark[0].upper() + remark[1:]))

    def _headline(self, problem: Any, table: Table) -> Headline | None:
        """The question that matters most; None where there is none."""
        return None

    def _fit_codings(self, table: Table) -> dict[str, Coding]:
        tables = table.states, table.next_states
        return {"states": Coding.fit("states", *tables, categorical=self.categorical_features, most=MOST_STATES)}

    def _problem(self, table: Table) -> tuple[Any, np.ndarray | None]:
        """(the problem, the number of each row's episode)."""
        table = self._weighed(table)
        columns = {"state": self.coding_.encode(table.states)}
        columns["next_state"] = self.coding_.encode(table.next_states, renamed=True)
        check_alike(*columns.values())
        if table.sample_weight is not None:
            columns["mass"] = np.asarray(table.sample_weight, dtype=np.float64)
        return self._make_problem(columns, table), self._groups(table, len(columns["state"]))

    def _weighed(self, table: Table) -> Table:
        return weigh_transitions(table)

    @property
    def _units(self) -> str:
        return "episodes or groups"

    def _unordered(self, table: Table) -> list[str]:
        """What it means that states say nothing of those of the next rows."""
        table = self._weighed(table)
        states = self.coding_.encode(table.states), self.coding_.encode(table.next_states, renamed=True)
        return unordered(*states, table.episodes)

    def _groups(self, table: Table, rows: int) -> np.ndarray | None:
        """The number (n,) of each row's group: its episode, where there are no others."""
        found = None if table.episodes is None else group_numbers("episodes", table.episodes, rows)
        return found if table.groups is None else group_numbers("groups", table.groups, rows)


def unordered(state: np.ndarray, following: np.ndarray, episodes: Any) -> list[str]:
    """What it means that states say nothing of those of the next rows, which were taken for what follows.

    Of what is left of them and of their squares without the means of episodes no two have a correlation beyond chance.
    """
    rows = len(state)
    state, following = state[:LOOKED_AT], following[:LOOKED_AT]
    varying = np.sort(np.argsort(state.std(axis=0), kind="stable")[-MOST_LOOKED_AT:])
    state, following = state[:, varying], following[:, varying]
    count, labels = len(state), np.zeros(len(state), dtype=int)
    if episodes is not None:
        labels = group_numbers("episodes", episodes, rows)[:count]
        labels = np.unique(labels, return_inverse=True)[1]
    sizes = np.bincount(labels)
    freedom = count - len(sizes)
    if freedom < FEWEST_STEPS:
        return []

    def shapes(values: np.ndarray) -> np.ndarray:
        centred = np.concatenate([values, (values - values.mean(axis=0)) ** 2], axis=1)
        means = np.stack([np.bincount(labels, column) for column in centred.T], axis=1) / sizes[:, None]
        left = centred - means[labels]
        size = np.sqrt(np.mean(left**2, axis=0))
        return left[:, size > 0] / size[size > 0]

    before, after = shapes(state), shapes(following)
    if not before.shape[1] or not after.shape[1]:
        return []
    # Without its mean a short path leans against itself.
    largest = np.abs(before.T @ after / count).max() - len(sizes) / count
    if largest > CHANCE / np.sqrt(freedom):
        return []
    return [
        "states say nothing of those in the next rows of their episodes, which are taken for what follows: rows may be "
        "out of the order of time; give time=... or --time, or next states"
    ]


def _worth(problem: Any) -> float | None:
    """How many rows of equal weight the problem's are worth; None where all count alike."""
    mass = problem.source.table.get("mass")
    return None if mass is None else float(mass.sum())


def check_alike(states: np.ndarray, next_states: np.ndarray) -> None:
    """Raise unless there are as many next states as states."""
    if len(states) != len(next_states):
        raise checks.InputError(
            f"states have {len(states)} rows, but next_states {len(next_states)}; give one a transition"
        )


def first_points(problem: Any) -> np.ndarray:
    """Where the problem's rows start, (n, d): states, with actions beside them where there are any."""
    table = problem.source.table
    return np.concatenate([table[name] for name in ("state", "action") if name in table], axis=1)
