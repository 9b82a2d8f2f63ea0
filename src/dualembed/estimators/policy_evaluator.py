"""The value of a policy, from logged transitions."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualembed.answers import Answer, Findings, Question, Task
from dualembed.answers.question import answer_from_paths
from dualembed.data.frames import as_column, first_rows
from dualembed.data.propensities import WeightSums
from dualembed.data.table import Table
from dualembed.estimates import Estimate, format_estimate, pluralise
from dualembed.estimators.logged_policy import BY_PROBABILITIES, NOT_NEEDED, importance_weights_of
from dualembed.estimators.policy_values import WHOLE, PolicyValueEstimator, Returns
from dualembed.estimators.transitions import DISCOUNT, TransitionEstimator
from dualembed.linear.averaging import Groups
from dualembed.linear.candidates import Headline
from dualembed.problems import PolicyEvaluation
from dualembed.solvers.base import SolverLike
from dualembed.sources import Dataset
from dualembed.spaces.base import SpaceLike

NO_STARTS = (
    "Where episodes start is not known, and with it what the policy is worth from there; label each row's "
    "episode, with episodes=... or --episode."
)
APART = 3.0  # errors of the difference between the answer and the mean of returns, beyond which there is a warning


class PolicyEvaluator(PolicyValueEstimator):
    """The value V(s) of a policy: the discounted reward that it collects from s on, by its transitions (s, r, s').

    Parameters
    ----------
    discount : float, default=0.99
        By how much a reward counts less a step later; part of the problem.
    reward_known : bool, default=False
        Whether the reward is a function of the state, which makes errors easier to tell.
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

    See Also
    --------
    ActionValueEvaluator : The value of a policy other than the one that acted.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> state = rng.normal(size=1000)
    >>> following = 0.5 * state + rng.normal(size=1000)
    >>> model = PolicyEvaluator(discount=0.8).fit(state, state, following)
    >>> values, errors = model.predict([1.0, -1.0], return_std=True)
    >>> bool(np.all(np.abs(values - np.array([1, -1]) / 0.6) < 2 * errors))  # V(s) = s / (1 - 0.8 · 0.5)
    True
    """

    task = Task(
        "policy-evaluation",
        "the reward that a policy collects from each state on",
        title="Policy evaluation",
        question="How much reward will a way of acting (a policy) collect in the long run, from each state on? The "
        "data are single steps: a state, the reward it brought, and the state that followed. Later rewards count less: "
        "each step of waiting multiplies them by the discount.",
        function="the value V(s): the expected sum of discounted rewards from state s on",
        equation="the value of a state must be the reward there plus the discounted value of the next state, on "
        "average",
        symbol="V(s)",
        noun="value",
        row="transition",
        error="mean squared Bellman error",
        mean="The value V(s) of the data's states is {mean} on average, from {lowest} to {highest}.",
        needs=("states", "rewards", "next_states"),
        takes=(
            "terminated",
            "truncated",
            "importance_weights",
            "propensities",
            "target_probabilities",
            "sample_weight",
            "groups",
            "episodes",
            "time",
        ),
        derives=("next_states",),
        inputs=("states",),
        context=("states",),
        settings=(DISCOUNT,),
        examples=(
            "log.parquet --state 's*' --next-state 'n*' --episode run --discount 0.95 --out value.dualembed",
            "log.csv --state x,speed --reward r --next-state next_x,next_speed --terminated done --out value.dualembed",
            "visits.csv --state pulse,age --reward score --episode patient --time day --group clinic --out v.dualembed",
        ),
    )

    _once_positional = ("terminated", "importance_weights", "episodes")
    returns_: Returns | None = None
    weights_: Any = None  # `WeightSums`; of older models all of them
    logged_policy_: str = ""  # how logged probabilities of actions were used, in a sentence

    def __init__(
        self,
        discount: float = 0.99,
        *,
        reward_known: bool = False,
        solver: SolverLike = "auto",
        primal: SpaceLike = "auto",
        dual: SpaceLike = "auto",
        categorical_features: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.discount = discount
        self.reward_known = reward_known
        self.solver = solver
        self.primal = primal
        self.dual = dual
        self.categorical_features = categorical_features
        self.random_state = random_state

    def fit(
        self,
        states: Any,
        rewards: Any,
        next_states: Any = None,
        *,
        terminated: Any = None,
        truncated: Any = None,
        importance_weights: Any = None,
        propensities: Any = None,
        target_probabilities: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        episodes: Any = None,
        time: Any = None,
    ) -> PolicyEvaluator:
        """Learn V from transitions, one a row.

        The first argument may be a whole log instead, as `data.log` takes it or gives it.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States s.
        rewards : array-like of shape (n,)
            Rewards r.
        next_states : array-like of shape (n, d) or (n,), optional
            States s'; by default those of the episode's next row, and of the last row of an episode that did not end
            nothing is learnt.
        terminated : array-like of shape (n,), optional
            1 where nothing follows; 0 where a time limit cut the episode, since its bootstrap counts.
        truncated : array-like of shape (n,), optional
            1 where a time limit cut the episode.
        importance_weights : array-like of shape (n,), optional
            Ratios π(a|s) / π_b(a|s) for transitions of another policy (`data.policies.importance_weights`).
        propensities : array-like of shape (n,), optional
            Probabilities, or densities, of the logged actions under the policy that acted; with
            `target_probabilities` they give the importance weights.
        target_probabilities : array-like of shape (n,), optional
            Probabilities, or densities, of the same actions under the evaluated policy, where it is another one.
        sample_weight : array-like of shape (n,), optional
            Weights of rows: whole numbers count equal rows, exactly; others say how much each counts beside the rest.
            Rows of weight 0 are left out. They are no `importance_weights`, which are ratios of two policies.
        groups : array-like of shape (n,), optional
            Labels of rows that depend on each other, by which errors are clustered; by default the episodes.
        episodes : array-like of shape (n,), optional
            Labels of rows of one episode, in the order of time.
        time : array-like of shape (n,), optional
            Order of the rows of an episode; by default that of the table.

        Returns
        -------
        PolicyEvaluator
            The fitted estimator.
        """
        return self._fit(
            Table.of(
                states=states,
                rewards=rewards,
                next_states=next_states,
                terminated=terminated,
                truncated=truncated,
                importance_weights=importance_weights,
                propensities=propensities,
                target_probabilities=target_probabilities,
                sample_weight=sample_weight,
                groups=groups,
                episodes=episodes,
                time=time,
            )
        )

    def mean_return(self) -> Estimate | None:
        """The plain mean of the discounted rewards of whole episodes, with its standard error.

        Returns
        -------
        Estimate or None
            The mean; None if one in ten or more were not whole, or if rows are weighted, of several steps, or not in
            the order of time.
        """
        check_is_fitted(self, "function_")
        if self.paths_ is None or self.returns_ is None:
            return None
        return self.returns_.plain()

    def _beside_returns(self, answer: Answer) -> Answer:
        """The answer, with a warning where the plain mean of returns says something else."""
        plain = self.mean_return()
        if plain is None or abs(plain.value - answer.value) <= APART * np.hypot(plain.stderr, answer.stderr):
            return answer
        note = (
            f"the plain mean of the episodes' returns is {plain}, further from the answer than their errors explain: "
            "states may not tell all that matters for what follows, or rows are not what they are taken for"
        )
        return dataclasses.replace(answer, warnings=(*answer.warnings, note))

    def _value_at(self, initial_states: Any) -> Question:
        points, strays = self._coding().locate(initial_states)
        words = "the policy's value over the given initial states"
        return Question.mean(words, points, groups=np.full(len(points), -1), strays=strays)

    def _value_at_starts(self, question: Question) -> Answer:
        if self.paths_ is None or self.returns_ is None:
            return self.ask(question)
        unseen = self._unseen(question.flat()[0])
        answer = answer_from_paths(self.paths_, question, returns=self.returns_.functional, unseen=unseen)
        return self._beside_returns(answer)

    def _findings(self, headline: Answer) -> Findings:
        found, plain = super()._findings(headline), self.mean_return()
        if self.logged_policy_:
            found = found._replace(remarks=(*found.remarks, self.logged_policy_))
        if self.starts_ is None:
            return found._replace(remarks=(*found.remarks, NO_STARTS))
        if plain is None or self.returns_ is None:
            return found
        whole = int(np.sum(self.returns_.discounts < WHOLE))
        facts = {**found.facts, "mean_return": {"value": plain.value, "stderr": plain.stderr, "episodes": whole}}
        size = format_estimate(plain.value, plain.stderr)
        remark = f"The plain mean of the returns of {pluralise(whole, 'whole episode')} is {size}."
        return found._replace(facts=facts, remarks=(found.remarks[0], remark, *found.remarks[1:]))

    def density_ratio(self, states: Any) -> np.ndarray:
        """How often the policy is in each state, against how often the log's rows are: 1 is as often.

        It is the ratio of discounted visits from the starts of episodes on to the distribution of rows, over which its
        mean is 1. `value().effective` says how many of the rows that leaves in use.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States.

        Returns
        -------
        array of shape (n,)
            Ratios.
        """
        return self._density_ratio(self._coding().encode(states))

    bellman_error = TransitionEstimator.error  # as it was called first

    def _fit_first(self, table: Table) -> Any:
        problem = super()._fit_first(table)
        self._record_overlap(problem, WeightSums())
        if table.propensities is not None:
            self.logged_policy_ = NOT_NEEDED if table.target_probabilities is None else BY_PROBABILITIES
        return problem

    def _fit_more(self, table: Table) -> Any:
        before = self.diagnostics_
        problem = super()._fit_more(table)
        if self.weights_ is None and before.overlap is not None:  # of a model saved when weights were not kept
            self._add_warnings([], overlap=before.overlap)
        else:
            known = WeightSums.of(np.ones(before.rows)) if self.weights_ is None else self.weights_
            self._record_overlap(problem, known if isinstance(known, WeightSums) else WeightSums.of(known))
        return problem

    def _add_returns(self, problem: Any, labels: Any, groups: Groups) -> None:
        if labels is None or not groups.by_label:
            self.returns_ = None  # a few episodes do not say how far their returns are from the next ones'
            return
        more, before = Returns.of(problem.source.table, labels, float(self.discount), groups.numbers), self.paths_
        if before is None or self.returns_ is None or more is None:
            self.returns_ = more if before is None else None
            return
        # Groups of rows that come later are left-out groups of the first.
        into = np.asarray(before.candidates.into)
        self.returns_ = dataclasses.replace(self.returns_, groups=into[self.returns_.groups]) + more

    def _headline(self, problem: Any, table: Table) -> Headline | None:
        if table.episodes is None:
            return None
        rows = first_rows(table.episodes)
        points = problem.source.table["state"][rows]
        return Headline(points[:, None], np.ones((len(rows), 1)), rows)

    def _record_overlap(self, problem: Any, earlier: WeightSums) -> None:
        """Keep what matters of importance weights, 1 for rows without, and note how many rows all so far are worth."""
        given = problem.source.table.get("weight")
        if given is None and self.weights_ is None:
            return
        self.weights_ = earlier + WeightSums.of(np.ones(problem.source.rows) if given is None else given)
        overlap = self.weights_.overlap
        self._add_warnings([overlap.warning] if overlap.warning else [], overlap=overlap)

    def _make_problem(self, columns: dict[str, np.ndarray], table: Table) -> PolicyEvaluation:
        rows = len(columns["state"])
        columns["reward"] = as_column("rewards", table.rewards, rows)
        if table.terminated is not None:
            columns["terminated"] = as_column("terminated", table.terminated, rows)
        ratios = importance_weights_of(table, rows)
        if ratios is not None:
            columns["weight"] = ratios
        return PolicyEvaluation(Dataset(**columns), self.discount, reward_known=self.reward_known)
