"""Which of two sets a Markov process reaches first, from its one-step transitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.answers import Answer, Findings, Question, Setting, Task, Verdict
from dualembed.data.frames import as_column
from dualembed.data.table import Table
from dualembed.estimates import pluralise
from dualembed.estimators.moves import LongRun, Moves, Process, require_default, require_single_steps, within
from dualembed.estimators.sets import members
from dualembed.estimators.transitions import LAGS, TransitionEstimator, check_alike
from dualembed.linear.candidates import Functional
from dualembed.problems import Committor, HittingTime
from dualembed.solvers.base import SolverLike
from dualembed.sources import Dataset
from dualembed.spaces.base import SpaceLike

FEW_ARRIVALS = 10  # transitions into A or into B, below which probabilities are little more than a guess
MOST_ARRIVALS = 1000  # that are looked at together
RARE = 0.1  # of the probability to reach B from A: where arrivals that were not seen may add more, the rate says so
IN_A, IN_B = 1, 2  # numbers of the sets
A, B, BOTH = "a (--from)", "b (--to)", "a and b (--from and --to)"  # the parameters, and what the command line has


class CommittorRegressor(TransitionEstimator):
    """The committor q(s): the probability that B is reached before A from state s, from transitions (s, s').

    It is 0 in A and 1 in B. No path needs to lead all the way from A to B, but some transitions must enter each. `rate`
    and `passage_time` say how often the process goes over from A to B in the long run, and how long that takes.

    Parameters
    ----------
    a : callable or array-like
        The set that is left: a condition, any function from states as they are given to `fit` to yes or no (n,), or the
        states themselves, points or labels.
    b : callable or array-like
        The set that is to be reached, likewise; both have no state in common.
    lagtime : int, default=1
        Rows of a trajectory that a transition leads over, where `fit` is given trajectories; windows of so
        many rows overlap, and end where A or B is entered. Rates and passage times are of single steps.
    dt : float, default=1.0
        How long one row takes, in the unit that rates and passage times are to have.
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
        The function f, in coded coordinates.
    dual_ : DualFunction
        The witness, in coded coordinates.
    schema_ : Schema
        How columns are coded.
    selection_ : Selection
        What was chosen, and why.
    diagnostics_ : Diagnostics
        How far to trust the fit.
    arrivals_ : tuple of int
        Transitions that enter A and B from outside both.
    departures_ : tuple of int
        Transitions that start in A and in B.

    See Also
    --------
    HittingTimeRegressor : How long it takes to reach a set.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> state = rng.integers(1, 10, size=4000)  # a walk on 0 to 10: q(s) = s / 10
    >>> model = CommittorRegressor([0], [10]).fit(state, state + rng.choice([-1, 1], size=4000))
    >>> bool(np.abs(model.predict([2, 5, 8]) - [0.2, 0.5, 0.8]).max() < 0.1)
    True
    >>> model.predict([0, 10]).tolist()
    [0.0, 1.0]
    """

    task = Task(
        "committor",
        "the probability that one set of states is reached before another",
        title="Which set comes first",
        question="From each state, how likely is the process to reach the set B before the set A? The data are single "
        "steps; no path need lead from one set to the other.",
        function="the committor q(s): the probability that B is reached before A from state s; it is 0 in A and 1 in "
        "B, and what figures show there is the probability for the path that leaves",
        equation="the probability at a state must be that at the next state, on average, which is 0 in A and 1 in B",
        symbol="q(s)",
        noun="committor",
        row="transition",
        mean="From single states of the data outside both, B comes first with probability {lowest} to {highest}.",
        needs=("states", "next_states"),
        takes=("durations", "groups", "episodes", "time"),
        derives=("next_states",),
        inputs=("states",),
        context=("states",),
        settings=(
            Setting("a", 'The set A that the process comes from, such as "s1 < 0".', condition=True, called="from"),
            Setting("b", 'The set B that it may reach first, such as "s1 >= 1".', condition=True, called="to"),
            *LAGS,
        ),
        examples=(
            'path.csv --state x,y --next-state next_x,next_y --from "x < -1" --to "x > 1" --out committor.dualembed',
            'paths.csv --state phi,psi --episode run --from "phi < 0" --to "phi > 50 and psi < 0" --out q.dualembed',
            'paths.csv --state x --episode walker --time minute --from "x <= 0" --to "x >= 10" --json',
        ),
    )

    # Of models that were saved before there was such a count nothing is known.
    arrivals_: tuple[int, int] = (0, 0)
    departures_: tuple[int, int] = (0, 0)
    moves_: Moves | None = None
    asked_: dict[str, dict[str, Any]] | None = None  # answers of the long run that were asked for

    def __init__(
        self,
        a: Any,
        b: Any,
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
        self.a = a
        self.b = b
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
        groups: Any = None,
        episodes: Any = None,
        time: Any = None,
    ) -> CommittorRegressor:
        """Learn q from transitions, one a row.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States s.
        next_states : array-like of shape (n, d) or (n,), optional
            States s'; by default those of the episode's next row, and of the last row of an episode nothing is learnt.
        durations : array-like of shape (n,), optional
            Times that transitions take, for `rate` and `passage_time`; by default 1.
        groups : array-like of shape (n,), optional
            Labels of rows that depend on each other, by which errors are clustered; by default the episodes.
        episodes : array-like of shape (n,), optional
            Labels of rows of one episode, in the order of time.
        time : array-like of shape (n,), optional
            Order of the rows of an episode; by default that of the table.

        Returns
        -------
        CommittorRegressor
            The fitted estimator.
        """
        marks = {"durations": durations, "groups": groups, "episodes": episodes, "time": time}
        return self._fit(Table.of(states=states, next_states=next_states, **marks))

    def predict(self, states: Any, return_std: bool = False) -> Any:
        """The committor q(s), 0 in A and 1 in B.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States.
        return_std : bool, default=False
            Whether to return standard errors, too.

        Returns
        -------
        probabilities : array of shape (n,)
            Probabilities.
        errors : array of shape (n,)
            Their standard errors, if `return_std`.
        """
        points, strays = self._coding().locate(states)
        place = self._places(states)
        found = np.where(place > 0, place == IN_B, self._at(points))
        return (found, np.where(place > 0, 0.0, self._std(points, strays))) if return_std else found

    def at(self, states: Any) -> Question:
        """The question of the mean committor over these states; of q itself, if it is one state.

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
        place = self._places(states)
        shares, constants = (place == 0)[:, None].astype(float), (place == IN_B).astype(float)
        return Question.mean("q(s) over the given states", points[:, None], shares, strays=strays, constants=constants)

    def ask(self, question: Question) -> Answer:
        """Answer a question; with an interval of what sums of probabilities can be.

        Parameters
        ----------
        question : Question
            What methods such as `at` and `difference` make.

        Returns
        -------
        Answer
            The answer.
        """
        answer, coefficients = super().ask(question), question.flat()[1]
        if not coefficients.any():  # of states in A and B, where nothing was learnt
            answer = dataclasses.replace(answer, stderr=0.0)
        elif self.paths_ is not None and self.moves_ is not None:
            unseen = [
                factor * np.mean(np.abs(part.shares).sum(axis=1)) * self._unseen_arrivals(self.paths_.representer(part))
                for factor, part in question.parts
            ]
            answer = dataclasses.replace(answer, stderr=max(answer.stderr, float(np.linalg.norm(unseen))))
        least = float(np.minimum(coefficients, 0.0).sum()) + question.constant
        most = float(np.maximum(coefficients, 0.0).sum()) + question.constant
        return dataclasses.replace(answer, value=min(max(answer.value, least), most), least=least, most=most)

    def interval(self, states: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Intervals of q, each covering it at its state with probability `level`, from 0 to 1 at most.

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
        points, strays = self._coding().locate(states)
        return self._bounded(states, self._interval(points, level, strays))

    def band(self, states: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """A band that covers q at all these states at once with probability `level`, from 0 to 1 at most.

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
        points, strays = self._coding().locate(states)
        return self._bounded(states, self._band(points, level, strays))

    def inside_a(self, states: Any) -> np.ndarray:
        """Whether each state is in A.

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
        return self._places(states) == IN_A

    def inside_b(self, states: Any) -> np.ndarray:
        """Whether each state is in B.

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
        return self._places(states) == IN_B

    def rate(self) -> Answer:
        """How often the process goes over from A to B in the long run: transitions per step, or per unit of durations.

        It is the flux from A of paths that reach B before they come back. The law of the long run is made of the
        transitions, which need not start from it.

        Returns
        -------
        Answer
            The rate with its standard error, an interval and a verdict.
        """
        return self._once("rate", self._find_rate)

    def passage_time(self) -> Answer:
        """The mean time from A to B in the long run: from when A is entered after B until B is reached.

        It is the share of the time that the process comes from A, over the rate.

        Returns
        -------
        Answer
            The time with its standard error, an interval and a verdict.
        """
        return self._once("passage_time", self._find_passage_time)

    def _once(self, name: str, find: Callable[[], Answer]) -> Answer:
        """The answer of that name, found when it is first asked for: files keep it, but not all that it was made of."""
        asked = self.asked_ or {}
        if name not in asked:
            found = find()
            asked = self.asked_ = {**asked, name: {**vars(found), "verdict": found.verdict and found.verdict.value}}
        kept = asked[name]
        return Answer(**{**kept, "verdict": kept["verdict"] and Verdict(kept["verdict"])})

    def _find_rate(self) -> Answer:
        process, flux = self._flux()
        found = flux / process.mean(process.moves.times) if process.moves.durations is not None else flux
        return found.answer("the rate of transitions from A to B", positive=True)

    def _find_passage_time(self) -> Answer:
        process, flux = self._flux()
        moves = process.moves
        outside = moves.here == 0
        columns = {"state": moves.state[outside], "next_state": moves.next_state[outside]}
        columns["arrived"] = (moves.there[outside] > 0).astype(float)
        exits = process.solve(HittingTime(Dataset(**columns, duration=moves.times[outside])), rows=outside)
        left = moves.here == IN_A
        times = moves.times[:, None] + within(exits.ways(moves.next_state), [(moves.there > 0, 0.0)])
        return (process.mean(left[:, None] * times) / flux).answer("the mean time from A to B", positive=True)

    def _flux(self) -> tuple[Process, LongRun]:
        """The flux from A to B a step, and the process that it is of."""
        moves = require_default(self, self.moves_, "the rate")
        require_single_steps(self, "the rate")
        process = Process(moves, self._seed())
        outside = moves.here == 0
        columns = {"state": moves.state[outside], "next_state": moves.next_state[outside]}
        marks = {"arrived": moves.there[outside] == IN_B, "returned": moves.there[outside] == IN_A}
        problem = Committor(Dataset(**columns, **{name: mark.astype(float) for name, mark in marks.items()}))
        ahead = process.solve(problem, rows=outside).ways(moves.next_state)
        ahead = within(ahead, [(moves.there == IN_A, 0.0), (moves.there == IN_B, 1.0)])
        flux = process.mean((moves.here == IN_A)[:, None] * ahead)
        inside, leaving = moves.here == IN_A, (moves.here == IN_A) & (moves.there == 0)
        unseen, count = 1.0, int(leaving.sum())
        if count and self.paths_ is not None:
            asked = Functional(moves.next_state[leaving][:, None], np.ones((count, 1)))
            unseen = float(self._unseen_arrivals(self.paths_.representer(asked)))
        if not count or unseen > RARE * float(ahead[leaving, 0].mean()):
            # Whoever leaves A might reach B, though none was seen to, and more may leave than were seen. Where nobody
            # goes over, how often A is visited is not known either: as often as rows have it, perhaps.
            often, left = (process.mean(rows.astype(float)).estimates for rows in (inside, leaving))
            visits = max(abs(float(often.value)), float(inside.mean()))
            share = max(abs(float(left.value)), float(leaving.mean())) + visits * float(_unseen(inside.sum()))
            flux = flux.at_least(unseen * share)
        return process, flux

    def _places(self, states: Any) -> np.ndarray:
        """In which of the sets each state is (n,), 0 where it is in neither."""
        found = [members(self.coding_, states, given, word) for given, word in ((self.a, "a"), (self.b, "b"))]
        both = found[0] & found[1]
        if both.any():
            raise checks.InputError(
                f"{BOTH} overlap: {pluralise(int(both.sum()), 'state')} of {len(both):,} lie in both, the first in "
                f"row {int(np.argmax(both))}; give sets that have no state in common"
            )
        return found[0] * IN_A + found[1] * IN_B

    def _unseen_arrivals(self, representer: list[np.ndarray]) -> np.ndarray:
        """The least that a probability's error is, by the weights of arrivals: as many more may end in the other set.

        Where all paths seem to end in one set, rows do not vary and have no error. A probability that N arrivals show
        as 0 or 1 has that of two more to either side (Agresti and Coull 1998), N being what unequal weights leave.
        """
        fit, moves = self.paths_, self.moves_
        if fit is None or moves is None:
            raise RuntimeError("a default fit has paths")
        arrived = moves.state[(moves.here == 0) & (moves.there > 0)]
        some = arrived[:: -(-len(arrived) // MOST_ARRIVALS)]
        weights = fit.density(representer, some)
        worth = np.sum(weights, axis=0) ** 2 / np.maximum(np.sum(weights**2, axis=0), np.finfo(float).tiny)
        count = worth * sum(self.arrivals_) / len(some)  # of all arrivals, of which those kept are a sample
        return _unseen(count)

    def _predicted(self, points: np.ndarray, *, return_std: bool = False, strays: Any = 0.0) -> Any:
        found = super()._predicted(points, return_std=return_std, strays=strays)
        if not return_std or self.paths_ is None or self.moves_ is None:
            return found
        blocks = np.array_split(points, 1 + len(points) // MOST_ARRIVALS)
        unseen = [self._unseen_arrivals(self.paths_.representers(block)) for block in blocks]
        return found[0], np.maximum(found[1], np.concatenate(unseen))

    def _bounded(self, states: Any, ends: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Ends between 0 and 1, which are q itself in A and B."""
        place = self._places(states)
        lower, upper = (np.where(place > 0, place == IN_B, np.clip(each, 0.0, 1.0)) for each in ends)
        return lower, upper

    def _at(self, points: np.ndarray) -> np.ndarray:
        return np.clip(super()._at(points), 0.0, 1.0)

    def _stops(self, states: Any) -> np.ndarray:
        return self._places(states) > 0

    def _problem(self, table: Table) -> tuple[Any, np.ndarray | None]:
        """The problem of the rows that start outside both sets, and the number of each one's episode."""
        moves = self._moves(table)
        self._check_touched(moves)
        outside = moves.here == 0
        columns = {"state": moves.state[outside], "next_state": moves.next_state[outside]}
        labels = self._groups(table, len(outside))
        columns["arrived"] = (moves.there[outside] == IN_B).astype(float)
        columns["returned"] = (moves.there[outside] == IN_A).astype(float)
        return self._make_problem(columns, table), None if labels is None else labels[outside]

    def _make_problem(self, columns: dict[str, np.ndarray], table: Table) -> Committor:
        return Committor(Dataset(**columns), check_reached=not self.__sklearn_is_fitted__())

    def _moves(self, table: Table) -> Moves:
        """All transitions of the table."""
        state, next_state = self.coding_.encode(table.states), self.coding_.encode(table.next_states, renamed=True)
        check_alike(state, next_state)
        durations = None if table.durations is None else as_column("durations", table.durations, len(state))
        places = self._places(table.states), self._places(table.next_states)
        return Moves(state, next_state, *places, self._groups(table, len(state)), durations)

    def _check_touched(self, moves: Moves) -> None:
        """Raise where a first fit would learn nothing of a set."""
        if self.__sklearn_is_fitted__():
            return
        for number, word in ((IN_A, A), (IN_B, B)):
            if not np.any(moves.here == number) and not np.any(moves.there == number):
                raise checks.InputError(
                    f"{word} holds in none of the states and next states of {len(moves):,} rows, so that nothing is "
                    "known of the way there; give a set that some of them are in"
                )
        outside = moves.here == 0
        if not outside.any():
            raise checks.InputError(
                f"all {len(moves):,} rows start in one of {BOTH}, so that there is nothing between them to learn from; "
                "give smaller sets, or rows that start outside both"
            )
        for number, word, constant in ((IN_A, A, 1), (IN_B, B, 0)):
            if not np.any(moves.there[outside] == number):
                raise checks.InputError(
                    f"none of the {int(outside.sum()):,} transitions that start outside both sets enters {word}, so "
                    f"that q could not be told from {constant} everywhere; gather some that do, or widen it"
                )

    def _fit_first(self, table: Table) -> Any:
        problem = super()._fit_first(table)
        moves = self._moves(table)
        self.moves_, self.arrivals_, self.departures_ = moves.sampled(self._seed()), (0, 0), moves.departures
        self.asked_ = None
        self._count(problem)
        return problem

    def _fit_more(self, table: Table) -> Any:
        problem = super()._fit_more(table)
        more, before = self._moves(table), self.departures_
        self.moves_ = None if self.moves_ is None else self.moves_.joined(more).sampled(self._seed())
        self.asked_ = None
        self.departures_ = before[0] + more.departures[0], before[1] + more.departures[1]
        self._count(problem)
        return problem

    def _count(self, problem: Any) -> None:
        """Add arrivals in either set to those known, and worry where they are few."""
        table = problem.source.table
        before = self.arrivals_
        self.arrivals_ = before[0] + int(table["returned"].sum()), before[1] + int(table["arrived"].sum())
        self._add_warnings(
            [
                f"only {count} of {self.diagnostics_.rows} transitions from outside both enter {word}, on which all "
                "probabilities rest; gather more that do, or widen it"
                for count, word in zip(self.arrivals_, (A, B), strict=True)
                if count < FEW_ARRIVALS
            ]
        )

    def _main_question(self) -> Question:
        if self.sample_ is None:
            return super()._main_question()
        words = "the probability of B before A from the states of the data outside both"
        return self._over_rows(words, self.sample_.points)

    def _findings(self, headline: Answer) -> Findings:
        found = super()._findings(headline)
        inside = self.departures_
        facts = {**found.facts, "rows_in_a": inside[0], "rows_in_b": inside[1]}
        remark = (
            f"In A, where {pluralise(inside[0], 'row')} begin, it is 0, and in B, where {pluralise(inside[1], 'row')} "
            "begin, it is 1."
        )
        return found._replace(facts=facts, remarks=(*found.remarks, remark))


def _unseen(count: Any) -> np.ndarray:
    """The error of a probability that so many show as 0 or 1: that of two more to either side."""
    return np.asarray(np.sqrt(2 * (count + 2) / (count + 4) ** 3))
