"""What a Markov process is like in the long run, from one-step transitions that need not start as it does then."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dualembed import checks
from dualembed.answers import Answer, Findings, Question, Setting, Task
from dualembed.arrays import Floats
from dualembed.data.frames import as_column, is_1d
from dualembed.data.table import Table
from dualembed.estimates import format_number
from dualembed.estimators.moves import LongRun, Moves, Process, middle, require_default
from dualembed.estimators.sets import decoded, members, require_some
from dualembed.estimators.transitions import LAGS, TransitionEstimator
from dualembed.linear.candidates import Functional, Headline
from dualembed.problems import AverageReward
from dualembed.solvers.base import SolverLike
from dualembed.sources import Dataset
from dualembed.spaces.base import SpaceLike


class Observed(NamedTuple):
    """How many rows there were, and the mean and the deviation of what was observed at them."""

    rows: int
    mean: float
    deviation: float

    @staticmethod
    def of(values: Floats) -> Observed:
        """Those of the values."""
        return Observed(len(values), float(np.mean(values)), float(np.std(values)))

    def __add__(self, more: Observed) -> Observed:  # type: ignore[override]
        rows = self.rows + more.rows
        share = more.rows / rows
        mean = (1 - share) * self.mean + share * more.mean
        squares = (1 - share) * self.deviation**2 + share * more.deviation**2
        apart = share * (1 - share) * (self.mean - more.mean) ** 2
        return Observed(rows, mean, float(np.sqrt(squares + apart)))


class StationaryAverage(TransitionEstimator):
    """Averages in the long run: means and probabilities under the stationary law, from transitions (s, s').

    Rows need not start where the process is in the long run, as those of many short paths do not: they are weighed such
    that the steps leave the law as it is. `mean` is that of any observable, `probability` that of a set, and `weights`
    are those of states. A long path is weighed next to evenly, and errors are then those of a plain mean or better.

    Parameters
    ----------
    where : callable or array-like, optional
        The set whose probability is asked for first: a condition, any function from states as they are given to `fit`
        to yes or no (n,), or the states themselves, points or labels. By default the mean of the observable is.
    lagtime : int, default=1
        Rows of a trajectory that a transition leads over, where `fit` is given trajectories, and windows of so many
        rows overlap. Of a stationary sample the answer is the same at any lag.
    dt : float, default=1.0
        How long one row takes; the long run has no unit of time.
    reversible : bool, default=False
        Whether the process is known to be reversible and `fit` is given a sample of its stationary law: each transition
        then counts backwards, too, in one group with itself.
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
        The differential value of the observable, in coded coordinates; at the reference it is the mean.
    dual_ : DualFunction
        The witness, in coded coordinates.
    schema_ : Schema
        How columns are coded.
    selection_ : Selection
        What was chosen, and why.
    diagnostics_ : Diagnostics
        How far to trust the fit.
    observed_ : Observed
        How many rows there were, and the mean and the deviation of what was observed at them.

    See Also
    --------
    CommittorRegressor : Which of two sets is reached first, and how often the process goes over.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> state = rng.uniform(-3, 3, size=2000)  # in the long run it is normal, of mean 0 and variance 1
    >>> model = StationaryAverage().fit(state, 0.6 * state + 0.8 * rng.normal(size=2000))
    >>> second = model.mean(lambda s: s[:, 0] ** 2)
    >>> bool(abs(second.value - 1) < 3 * second.stderr < 0.5)
    True
    >>> weights = model.weights([0.0, 2.5])
    >>> bool(weights[0] > 5 * weights[1])
    True
    """

    task = Task(
        "stationary",
        "what a process is like on average in the long run",
        title="Long-run average",
        question="What is the mean of an observable, or the probability of a set of states, once the process has run "
        "for long? The data are single steps, which need not start where the process is then.",
        function="the differential value V(s): how much more of the observable is collected from state s on than its "
        "long-run mean a step, up to a constant",
        equation="the value of a state must be the observable there, less its long-run mean, plus the value of the "
        "next state, on average",
        symbol="V(s)",
        noun="differential value",
        row="transition",
        mean="The differential value of the data's states reaches from {lowest} to {highest}.",
        needs=("states", "next_states"),
        takes=("observable", "groups", "episodes", "time"),
        derives=("next_states",),
        inputs=("states",),
        context=("states",),
        settings=(
            Setting(
                "where",
                'The set whose probability in the long run is asked for, such as "s1 >= 1"; else it is the mean of the '
                "observable, or of the first state column.",
                condition=True,
                optional=True,
            ),
            *LAGS,
        ),
        examples=(
            "paths.csv --state x,y --episode run --observable energy --out average.dualembed",
            'steps.csv --state x,y --next-state next_x,next_y --where "x > 0 and y < 1" --out folded.dualembed',
            'paths.csv --state phi,psi --episode run --time ps --where "phi < 0" --json',
        ),
    )

    observed_: Observed
    reference_: Floats
    moves_: Moves | None = None
    about_: str = ""  # what the first question is about, in words

    def __init__(
        self,
        where: Any = None,
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
        self.where = where
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
        observable: Any = None,
        groups: Any = None,
        episodes: Any = None,
        time: Any = None,
    ) -> StationaryAverage:
        """Learn from transitions, one a row.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States s.
        next_states : array-like of shape (n, d) or (n,), optional
            States s'; by default those of the episode's next row, and of the last row of an episode nothing is learnt.
        observable : array-like of shape (n,), optional
            What is observed at each row, whose mean is asked for first; by default the first column of states.
        groups : array-like of shape (n,), optional
            Labels of rows that depend on each other, by which errors are clustered; by default the episodes.
        episodes : array-like of shape (n,), optional
            Labels of rows of one episode, in the order of time.
        time : array-like of shape (n,), optional
            Order of the rows of an episode; by default that of the table.

        Returns
        -------
        StationaryAverage
            The fitted estimator.
        """
        marks = {"observable": observable, "groups": groups, "episodes": episodes, "time": time}
        return self._fit(Table.of(states=states, next_states=next_states, **marks))

    def mean(self, observable: Any = None) -> Answer:
        """The mean of an observable in the long run, debiased, with its standard error and a verdict.

        Parameters
        ----------
        observable : callable or array-like of shape (n,), optional
            A function from states as they are given to `fit` to numbers (n,), or a number for each row of the fit,
            which may depend on the next state, too; by default what the fit was asked for.

        Returns
        -------
        Answer
            The mean.
        """
        if observable is None:
            return self.summary().headline
        moves = require_default(self, self.moves_, "the mean of another observable")
        observed = self._observed(observable, moves)
        return Process(moves, self._seed()).mean(observed).answer("the long-run mean of the observable")

    def probability(self, condition: Any) -> Answer:
        """The probability of a set of states in the long run: the share of the time that is spent there.

        Parameters
        ----------
        condition : callable or array-like
            Any function from states as they are given to `fit` to yes or no (n,), or the states themselves.

        Returns
        -------
        Answer
            The probability, whose interval lies between 0 and 1.
        """
        moves = require_default(self, self.moves_, "the probability of another set")
        inside = members(self.coding_, decoded(self.coding_, moves.state), condition, "condition")
        found = Process(moves, self._seed()).mean(require_some(inside, "the condition").astype(float))
        return found.answer("the long-run probability of the set", positive=True, most=1.0)

    def weights(self, states: Any = None) -> np.ndarray:
        """How often the process is in each state in the long run, against how often the rows are: 1 is as often.

        It is the ratio of the stationary law to that of the rows, over which its mean is 1. Features only come close to
        it, so that it may be slightly below zero.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,), optional
            States; by default those of the rows of the fit.

        Returns
        -------
        array of shape (n,)
            Ratios; not a number at states of a kind that no row starts from.
        """
        moves = require_default(self, self.moves_, "the weights of states")
        fit = self.paths_
        if fit is None:
            raise RuntimeError("a default fit has paths")
        representer = fit.representer(self._functional)
        mean = float(np.mean(fit.density(representer, moves.state)))
        points = moves.state if states is None else self._coding().encode(states)
        return np.where(self._unseen(points) > 0, np.nan, fit.density(representer, points) / mean)

    @property
    def _functional(self) -> Functional:
        """V at the reference, which is the mean."""
        return Functional(self.reference_[None, None], np.ones((1, 1)))

    def _observed(self, given: Any, moves: Moves) -> Floats:
        """What is observed at each transition, (n,)."""
        if callable(given):
            states = decoded(self.coding_, moves.state)
            found = np.asarray(given(np.asarray(states)[:, None] if is_1d(states) else states))
            return as_column("what the observable says", found, len(moves))
        rows = self.observed_.rows
        if moves.given is not None and len(np.asarray(given)) == rows + self.left_out_:
            return as_column("observable", np.asarray(given)[moves.given], len(moves))
        return as_column("observable", given, rows)

    def _asked(self, table: Table, rows: int) -> Floats:
        """What the fit is asked for at each row, (n,)."""
        if self.where is not None and table.observable is not None:
            raise checks.InputError(
                "where and observable both say what is asked for; give one of them, and ask for the other by mean(...) "
                "or probability(...)"
            )
        if table.observable is not None:
            self.about_ = "the long-run mean of " + next(iter(table.names.get("observable", ())), "the observable")
            return as_column("observable", table.observable, rows)
        if self.where is not None:
            self.about_ = f"the long-run probability of {getattr(self.where, 'text', 'the set')}"
            inside = members(self.coding_, table.states, self.where, "set")
            # Rows that come later, or are left out, need not be in it.
            return (inside if self.__sklearn_is_fitted__() else require_some(inside, "where")).astype(float)
        first = self.coding_.columns[0]
        values = self.coding_.in_order(table.states, renamed=True)[0]
        if first.levels:
            self.about_ = f"the long-run probability of {first.name} = {first.levels[0]}"
            return (values == first.levels[0]).astype(float)
        self.about_ = f"the long-run mean of {first.name}"
        return np.asarray(values, dtype=np.float64)

    def _make_problem(self, columns: dict[str, np.ndarray], table: Table) -> AverageReward:
        reference = self.reference_ if self.__sklearn_is_fitted__() else middle(columns["state"])
        columns["reward"] = self._asked(table, len(columns["state"]))
        return AverageReward(Dataset(**columns), reference)

    def _headline(self, problem: Any, table: Table) -> Headline:
        return Headline(np.asarray(problem.reference)[None, None], np.ones((1, 1)))

    def _fit_first(self, table: Table) -> Any:
        problem = super()._fit_first(table)
        self.reference_ = np.asarray(problem.reference)
        self.moves_, self.observed_ = self._moves(problem, table), Observed.of(problem.source.table["reward"])
        return problem

    def _fit_more(self, table: Table) -> Any:
        problem = super()._fit_more(table)
        more = self._moves(problem, table)
        self.moves_ = None if self.moves_ is None else self.moves_.joined(more).sampled(self._seed())
        self.observed_ = self.observed_ + Observed.of(problem.source.table["reward"])
        return problem

    def _moves(self, problem: Any, table: Table) -> Moves:
        """All transitions of the table."""
        own = problem.source.table
        nowhere = np.zeros(len(own["state"]), dtype=int)
        labels = self._groups(table, len(nowhere))
        moves = Moves(own["state"], own["next_state"], nowhere, nowhere, labels, given=table.given)
        return moves.sampled(self._seed())

    def _main_question(self) -> Question:
        return Question(self.about_, ((1.0, self._functional),))

    def _main_answer(self) -> Answer:
        fit = self.paths_
        if fit is None:
            return super()._main_answer()
        asked, scale = self._functional, self.observed_.deviation
        estimates = fit.candidates.ask([(1.0, asked)])
        found = LongRun(estimates, fit.candidates, float(fit.freedom), fit.overlap(asked), scale)
        probable = "probability" in self.about_
        return found.answer(self.about_, positive=probable, most=1.0 if probable else None)

    def _findings(self, headline: Answer) -> Findings:
        found, plain = super()._findings(headline), self.observed_.mean
        worth = "" if headline.effective is None else f", and weighed are worth {headline.effective:.0%} of them"
        remark = (
            f"The plain mean over the rows is {format_number(plain)}; they need not start where the process is in the "
            f"long run{worth}."
        )
        return found._replace(facts={**found.facts, "plain_mean": plain}, remarks=(remark, *found.remarks))
