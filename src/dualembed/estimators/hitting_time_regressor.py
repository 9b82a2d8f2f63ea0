"""How long a Markov process takes to reach a target, from its one-step transitions."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.answers import Answer, Findings, Question, Setting, Task
from dualembed.data.frames import as_column
from dualembed.data.table import Table
from dualembed.estimates import pluralise
from dualembed.estimators.learning import RowSample
from dualembed.estimators.passage_times import PassageTimes
from dualembed.estimators.sets import members
from dualembed.estimators.transitions import LAGS
from dualembed.problems import HittingTime
from dualembed.solvers.base import SolverLike
from dualembed.sources import Dataset
from dualembed.spaces.base import SpaceLike

FEW_ARRIVALS = 10  # transitions into the target, below which times are little more than a guess


class HittingTimeRegressor(PassageTimes):
    """The hitting time h(s): the mean number of steps from s until a target is reached, from transitions (s, s').

    Inside the target h is 0; from elsewhere a step that ends in the target counts, so h is at least 1. `return_time` is
    the time until the target is entered from inside, too. No path needs to reach the target from everywhere, but some
    transitions must enter it.

    Parameters
    ----------
    target : callable or array-like
        A condition, any function from states as they are given to `fit` to yes or no (n,), or the target states
        themselves, points or labels.
    lagtime : int, default=1
        Rows of a trajectory that a transition leads over, where `fit` is given trajectories. Windows of so many rows
        overlap, and end where the target is entered, so that a Markov process has the same times at any lag; where what
        is seen of a process is not Markov, times settle as the lag grows.
    dt : float, default=1.0
        How long one row takes, in the unit that times are to have.
    reversible : bool, default=False
        Whether the process is known to be reversible and `fit` is given a sample of its stationary law: long
        trajectories, or pairs whose first states are drawn from that law. Each transition then counts backwards, too,
        in one group with itself. It is wrong for trajectories that start where someone chose, or that end as they reach
        the target: these are refused, and means that differ between states and next states are warned of.
    solver : {"auto", "closed-form", "embedding-sgd"} or Solver, default="auto"
        How the saddle is solved.
    primal : {"auto", "linear"} or FunctionSpace, default="auto"
        Space of f, in standardised columns; by default chosen from the data.
    dual : {"auto", "linear"} or FunctionSpace, default="auto"
        Space of the witness, likewise.
    categorical_features : array-like, optional
        Names or places of columns that are categories, or a mask, besides those that are by their type.
    random_state : int or RandomState, default=0
        Seed of the choice of the model.

    Attributes
    ----------
    function_ : Function
        The function f, in coded coordinates.
    dual_ : DualFunction
        The witness, in coded coordinates.
    schema_ : Schema
        How columns are coded.
    selection_ : Selection
        What was chosen, and why.
    diagnostics_ : Diagnostics
        How far to trust the fit.
    arrivals_ : int
        Transitions that end in the target.
    departures_ : int
        Transitions that start in it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> state = rng.uniform(size=2000)  # the next state is uniform whatever the state: h = 1 / P(s' > 0.5)
    >>> model = HittingTimeRegressor(lambda s: s[:, 0] > 0.5, primal="linear", dual="linear")
    >>> model = model.fit(state, rng.uniform(size=2000))
    >>> bool(np.abs(model.predict([0.2, 0.4]) - 2).max() < 0.2)
    True
    >>> model.predict([0.9]).tolist(), bool(abs(model.return_time([0.9])[0] - 2) < 0.2)
    ([0.0], True)
    """

    task = Task(
        "hitting-time",
        "the mean time, or number of steps, until a target is reached",
        title="Time to a target",
        question="How many steps does the process take on average, from each state, until it reaches the target? The "
        "data are single steps; no path need lead all the way.",
        function="the hitting time h(s): the expected number of steps from state s to the target, with the one that "
        "enters it; inside the target it is 0, and what figures show there is the time of return",
        equation="the time from a state must be one step plus the time from the next state, on average",
        symbol="h(s)",
        noun="hitting time",
        row="transition",
        mean="From single states of the data outside the target it is reached after {lowest} to {highest} steps.",
        needs=("states", "next_states"),
        takes=("durations", "sample_weight", "groups", "episodes", "time"),
        derives=("next_states",),
        inputs=("states",),
        context=("states",),
        settings=(
            Setting(
                "target",
                'States in which a hitting time ends, such as "s1 >= 1"; it is 0 inside, and from outside it counts '
                "the step that enters.",
                condition=True,
            ),
            *LAGS,
        ),
        examples=(
            'path.csv --state x,y --next-state next_x,next_y --target "x >= 1 and y < 0.5" --out time.dualembed',
            'path.parquet --state angle --next-state next_angle --target "angle > 2" --out time.dualembed --json',
            'paths.csv --state x,y --episode walker --time minute --target "x >= 1" --out time.dualembed',
        ),
    )

    _once_positional = ("durations", "episodes")
    # Of models that were saved before these were counted nothing is known of the last two.
    shortest_: float = 0.0  # the least that a transition takes
    arrivals_: int | None = None  # transitions that end in the target
    departures_: int | None = None  # transitions that start in it
    timed_: bool = False  # whether transitions have durations, in whose unit times are then

    @property
    def task_(self) -> Task:
        """That of steps, or of times in the unit of the durations where there are any."""
        return TIMED if self.timed_ else self.task

    def __init__(
        self,
        target: Any,
        *,
        lagtime: int = 1,
        dt: float = 1.0,
        reversible: bool = False,
        solver: SolverLike = "auto",
        primal: SpaceLike = "auto",
        dual: SpaceLike = "auto",
        categorical_features: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.target = target
        self.lagtime = lagtime
        self.dt = dt
        self.reversible = reversible
        self.solver = solver
        self.primal = primal
        self.dual = dual
        self.categorical_features = categorical_features
        self.random_state = random_state

    def fit(
        self,
        states: Any,
        next_states: Any = None,
        *,
        durations: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        episodes: Any = None,
        time: Any = None,
    ) -> HittingTimeRegressor:
        """Learn h from transitions, one a row.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States s.
        next_states : array-like of shape (n, d) or (n,), optional
            States s'; by default those of the episode's next row, and of the last row of an episode nothing is learnt.
        durations : array-like of shape (n,), optional
            Times that transitions take; by default 1.
        sample_weight : array-like of shape (n,), optional
            Weights of rows: whole numbers count equal rows, exactly; others say how much each counts beside the rest.
            Rows of weight 0 are left out.
        groups : array-like of shape (n,), optional
            Labels of rows that depend on each other, by which errors are clustered; by default the episodes.
        episodes : array-like of shape (n,), optional
            Labels of rows of one episode, in the order of time.
        time : array-like of shape (n,), optional
            Order of the rows of an episode; by default that of the table.

        Returns
        -------
        HittingTimeRegressor
            The fitted estimator.
        """
        marks = {
            "durations": durations,
            "sample_weight": sample_weight,
            "groups": groups,
            "episodes": episodes,
            "time": time,
        }
        return self._fit(Table.of(states=states, next_states=next_states, **marks))

    def predict(self, states: Any, return_std: bool = False) -> Any:
        """The hitting time h(s), 0 inside the target.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States.
        return_std : bool, default=False
            Whether to return standard errors, too.

        Returns
        -------
        times : array of shape (n,)
            Mean times.
        errors : array of shape (n,)
            Their standard errors, if `return_std`.
        """
        outside = ~self.inside(states)
        found, std = self._times(states, return_std=return_std)
        return (outside * found, outside * std) if return_std else outside * found

    def at(self, states: Any) -> Question:
        """The question of the mean hitting time from these states; of h itself, if it is one state.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States.

        Returns
        -------
        Question
            For `ask`; questions add and subtract.
        """
        points, strays = self._coding().locate(states)
        outside = ~self.inside(states)
        words = "the hitting time from the given states"
        return Question.mean(words, points[:, None], outside[:, None].astype(float), strays=strays)

    def ask(self, question: Question) -> Answer:
        """Answer a question; if it is about times alone, with an interval of ratios, for no time is below zero.

        Parameters
        ----------
        question : Question
            What methods such as `at` and `difference` make.

        Returns
        -------
        Answer
            The answer.
        """
        answer = super().ask(question)
        if not all(factor > 0 and np.all(part.shares >= 0) for factor, part in question.parts):
            return answer
        least = self.shortest_ * float(question.flat()[1].sum())  # as predict says it
        return dataclasses.replace(answer, value=max(answer.value, least), positive=True, least=least)

    def return_time(self, states: Any, return_std: bool = False) -> Any:
        """The mean time until the target is next entered: h outside the target, and the time of return inside.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States.
        return_std : bool, default=False
            Whether to return standard errors, too.

        Returns
        -------
        times : array of shape (n,)
            Mean times.
        errors : array of shape (n,)
            Their standard errors, if `return_std`.
        """
        if self.departures_ == 0 and self.inside(states).any():
            raise checks.InputError(
                "no transition of the fit starts in the target, so that nothing is known of the time of return to it; "
                "give some that do, or ask about states outside"
            )
        found, std = self._times(states, return_std=return_std)
        return (found, std) if return_std else found

    def interval(self, states: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Intervals of h, each covering it at its state with probability `level`.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States.
        level : float, default=0.95
            Probability, between 0 and 1.

        Returns
        -------
        lower : array of shape (n,)
            Lower ends.
        upper : array of shape (n,)
            Upper ends.
        """
        return self._around(states, self._quantile(level))

    def band(self, states: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """A band that covers h at all these states at once with probability `level`.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States.
        level : float, default=0.95
            Probability, between 0 and 1.

        Returns
        -------
        lower : array of shape (n,)
            Lower ends.
        upper : array of shape (n,)
            Upper ends.
        """
        points = self._coding().encode(states)
        if self.paths_ is not None:
            return self._around(states, self._reach(points, level))
        outside = ~self.inside(states)
        lower, upper = self._band(points, level)
        return outside * np.maximum(lower, self.shortest_), outside * np.maximum(upper, self.shortest_)

    def _around(self, states: Any, half: float) -> tuple[np.ndarray, np.ndarray]:
        """Ends so many standard errors to either side of h, 0 inside the target."""
        outside = ~self.inside(states)
        found, std = self._times(states, return_std=True)
        if self.paths_ is None:
            lower, upper = found - half * std, found + half * std
        else:  # of ratios: an estimate that is too low has an error that is too low
            factor = np.exp(np.minimum(half * std / np.maximum(found, np.finfo(float).tiny), 700.0))
            lower, upper = found / factor, found * factor
        return outside * np.maximum(lower, self.shortest_), outside * np.maximum(upper, self.shortest_)

    def inside(self, states: Any) -> np.ndarray:
        """Whether each state is in the target.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States.

        Returns
        -------
        array of bool of shape (n,)
            Whether it is.
        """
        self._coding()
        return self._inside(states) > 0

    equation_error = PassageTimes.error  # as it was called first

    def _fit_first(self, table: Table) -> Any:
        self.timed_ = table.durations is not None if table.windows is None else table.windows.timed
        problem = super()._fit_first(table)
        self.shortest_, self.arrivals_, self.departures_ = np.inf, 0, 0
        self._count(table, problem.source.table)
        return problem

    def _fit_more(self, table: Table) -> Any:
        problem = super()._fit_more(table)
        self._count(table, problem.source.table)
        return problem

    def _keep_sample(self, problem: Any, table: Table) -> None:
        """Keep some of the states outside the target, from which times are asked for; of others if there are none."""
        points, outside = problem.source.table["state"], self._inside(table.states) == 0
        points = points[outside] if outside.any() else points
        before = None if self.departures_ == self.diagnostics_.rows - len(outside) else self.sample_
        if outside.any() or before is None:
            self.sample_ = RowSample.of(points, points, seed=0, before=before)

    def _main_question(self) -> Question:
        if self.sample_ is None:
            return super()._main_question()
        where = "the states of the data outside it"
        words = f"the mean time to the target from {where}"
        if self._all_inside:
            words = "the mean time until the target is entered again, from the states of the data, all inside it,"
        return self._over_rows(words, self.sample_.points)

    @property
    def _all_inside(self) -> bool:
        """Whether every transition starts in the target, so that times of return are all there is to tell."""
        return self.departures_ == self.diagnostics_.rows

    def _findings(self, headline: Answer) -> Findings:
        found = super()._findings(headline)
        if self.departures_ is None:
            return found
        facts = {**found.facts, "rows_inside": self.departures_}
        if self._all_inside:
            remark = (
                f"All {pluralise(self.departures_, 'row')} begin inside the target, where the hitting time itself is "
                "0; give rows from outside it, or a narrower target, to learn how long it takes to get there."
            )
            return found._replace(facts=facts, remarks=(*found.remarks[1:], remark))
        remark = f"Inside the target, where {pluralise(self.departures_, 'row')} begin, the time is 0."
        return found._replace(facts=facts, remarks=(*found.remarks, remark))

    def _at(self, points: np.ndarray) -> np.ndarray:
        return np.maximum(super()._at(points), self.shortest_)

    def _count(self, table: Table, columns: dict[str, np.ndarray]) -> None:
        """Add what the transitions say of the target to what is known of it, and worry where that is little."""
        if self.arrivals_ is None or self.departures_ is None:
            return
        self.shortest_ = min(self.shortest_, float(np.min(columns.get("duration", 1.0))))
        self.arrivals_ += int(columns["arrived"].sum()) if table.windows is None else table.windows.entries
        self.departures_ += int(self._inside(table.states).sum())
        if self.arrivals_ < FEW_ARRIVALS:
            self._add_warnings(
                [
                    f"only {self.arrivals_} of {self.diagnostics_.rows} transitions end in the target, on which all "
                    "times rest; gather more that do, or widen the target"
                ]
            )

    def _times(self, states: Any, *, return_std: bool) -> tuple[np.ndarray, np.ndarray]:
        """The solution of the equation, never below what the shortest transition takes, and its standard errors."""
        points, strays = self._coding().locate(states)
        found = self._at(points)
        return found, self._std(points, strays) if return_std else np.zeros(len(found))

    def _stops(self, states: Any) -> np.ndarray:
        return self._inside(states) > 0

    def _make_problem(self, columns: dict[str, np.ndarray], table: Table) -> HittingTime:
        columns["arrived"] = self._inside(table.next_states)
        if not hasattr(self, "function_") and columns["arrived"].all() and self._inside(table.states).all():
            raise checks.InputError(
                f"the target holds in every state and next state of all {len(columns['arrived'])} rows, so that every "
                "time to it is 0; give a target that holds in some of them alone"
            )
        if table.durations is not None:
            columns["duration"] = as_column("durations", table.durations, len(columns["state"]))
        return HittingTime(Dataset(**columns), check_reached=not hasattr(self, "function_"))

    def _inside(self, states: Any) -> np.ndarray:
        """1 for each state in the target and 0 for others, (n,)."""
        return members(self.coding_, states, self.target, "target").astype(np.float64)


TIMED = dataclasses.replace(
    HittingTimeRegressor.task,
    question="How long does the process take on average, from each state, until it reaches the target? The data are "
    "single steps and how long each took; no path need lead all the way.",
    function="the hitting time h(s): the expected time from state s to the target, in the unit of the durations, with "
    "the step that enters it; inside the target it is 0, and what figures show there is the time of return",
    equation="the time from a state must be the duration of a step plus the time from the next state, on average",
    mean="From single states of the data outside the target it is reached after {lowest} to {highest}, in the unit of "
    "the durations.",
)
