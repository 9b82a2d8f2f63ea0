"""What is told of the times to a target besides their means: variances, and means in the long run from a set."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualembed.answers import Answer
from dualembed.data.table import Table
from dualembed.estimators.moves import Moves, Process, require_default, require_single_steps, within
from dualembed.estimators.sets import decoded, members, require_some
from dualembed.estimators.transitions import TransitionEstimator
from dualembed.linear.fit import LinearFit
from dualembed.problems import HittingTime
from dualembed.sources import Dataset


class PassageTimes(TransitionEstimator):
    """An estimator of times until a target is reached, which keeps the transitions that it is fitted to."""

    target: Any
    moves_: Moves | None = None  # models that were saved before they were kept have none
    variance_: LinearFit | None = None  # that of times, once it is asked for

    def variance(self, states: Any, return_std: bool = False) -> Any:
        """The variance of the time to the target from each state, 0 inside it; its root is the standard deviation.

        With h the mean time it is Var(s) = E[(duration + h(s') - h(s))² + Var(s') | s], both of them 0 in the target.
        It is found when it is first asked for, and its standard errors know of those of h.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States.
        return_std : bool, default=False
            Whether to return standard errors, too.

        Returns
        -------
        variances : array of shape (n,)
            Variances, in the square of the unit of the durations.
        errors : array of shape (n,)
            Their standard errors, if `return_std`.
        """
        moves = require_default(self, self.moves_, "the variance of times")
        points, strays = self._coding().locate(states)
        if self.variance_ is None:
            self.variance_ = self._find_variance(moves)
        outside = ~members(self.coding_, states, self.target, "target")
        found, errors = self.variance_.evaluate(points, strays + self._unseen(points))
        found = outside * np.maximum(found, 0.0)
        return (found, outside * errors) if return_std else found

    def from_set(self, condition: Any) -> Answer:
        """The mean time to the target from a set of states, as often in each as the process is there in the long run.

        The law of the long run is made of the transitions, which need not start from it; it is that of states at which
        transitions begin. From a single state it is the hitting time.

        Parameters
        ----------
        condition : callable or array-like
            Any function from states as they are given to `fit` to yes or no (n,), or the states themselves.

        Returns
        -------
        Answer
            The time with its standard error, an interval and a verdict.
        """
        moves = require_default(self, self.moves_, "the mean time from a set")
        require_single_steps(self, "the mean time from a set")
        inside = members(self.coding_, decoded(self.coding_, moves.state), condition, "condition")
        require_some(inside, "the condition")
        process = Process(moves, self._seed())
        times = within(self._mean_times(process).ways(moves.state), [(moves.here > 0, 0.0)])
        found = process.mean(inside[:, None] * times) / process.mean(inside.astype(float))
        return found.answer("the mean time to the target from the set", positive=True)

    def _find_variance(self, moves: Moves) -> LinearFit:
        process = Process(moves, self._seed())
        means = self._mean_times(process)
        ahead = within(means.ways(moves.next_state), [(moves.there > 0, 0.0)])
        squares = (moves.times[:, None] + ahead - means.ways(moves.state)) ** 2
        columns = {"duration": squares[:, 0], "ways": squares - squares[:, :1]}
        return process.solve(_hitting_time(moves, **columns))

    def _mean_times(self, process: Process) -> LinearFit:
        """Mean times, from the groups of rows that what is made of them is from, too."""
        return process.solve(_hitting_time(process.moves, duration=process.moves.times))

    def _fit_first(self, table: Table) -> Any:
        problem = super()._fit_first(table)
        self.moves_ = self._moves(problem, table)
        return problem

    def _fit_more(self, table: Table) -> Any:
        problem = super()._fit_more(table)
        more = self._moves(problem, table)
        self.moves_ = None if self.moves_ is None or more is None else self.moves_.joined(more).sampled(self._seed())
        self.variance_ = None
        return problem

    def _moves(self, problem: Any, table: Table) -> Moves | None:
        """The transitions; None where they count differently."""
        own = problem.source.table
        if "mass" in own:
            return None
        here = members(self.coding_, table.states, self.target, "target").astype(int)
        labels = self._groups(table, len(here))
        moves = Moves(own["state"], own["next_state"], here, own["arrived"].astype(int), labels, own.get("duration"))
        return moves.sampled(self._seed())


def _hitting_time(moves: Moves, **columns: Any) -> HittingTime:
    arrived = (moves.there > 0).astype(float)
    return HittingTime(Dataset(state=moves.state, next_state=moves.next_state, arrived=arrived, **columns))
