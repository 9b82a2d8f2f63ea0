"""The value of actions under a policy, from logged transitions of any other."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualembed import checks
from dualembed.answers import Answer, Findings, Question, Task
from dualembed.data.frames import as_column, first_rows, group_numbers, step_numbers
from dualembed.data.gaussian_policy import GaussianPolicy
from dualembed.data.table import Table
from dualembed.estimators.acting import ActingEstimator
from dualembed.estimators.diagnostics import low_overlap
from dualembed.estimators.logged_policy import NO_WEIGHTS, Stepwise, propensities_of, ratios_of
from dualembed.estimators.policy_values import AT_NEXT, AT_STARTS, WHOLE, Returns
from dualembed.estimators.transitions import DISCOUNT, TransitionEstimator
from dualembed.linear.candidates import Functional, Headline
from dualembed.linear.moment_fit import MomentFit
from dualembed.problems import ActionValue
from dualembed.solvers.base import SolverLike
from dualembed.sources import Dataset
from dualembed.spaces.base import SpaceLike
from dualembed.spaces.features import evaluate_features

ACTIONS = 12  # that are compared
MOSTLY = 0.9  # share of episodes that are whole, from which on their returns are looked at


class ActionValueEvaluator(ActingEstimator):
    """The action values Q(s, a) of a policy: the discounted reward from taking a in s and then following it.

    Anyone's transitions will do. Actions that are whole numbers or labels are discrete, and each has its own function.

    Parameters
    ----------
    discount : float, default=0.99
        By how much a reward counts less a step later; part of the problem.
    policy : callable, classifier, agent, GaussianPolicy, dict, tuple, array or names, optional
        The evaluated policy: a function from states, as they are given to `fit`, to probabilities (n, A) of actions
        numbered from 0, or to actions (n,) or (n, a); what has `predict_proba`, with its classes as actions, or
        `predict`; a dictionary from states to either; a pair of tables, for the rows' states and next states; or names
        of columns of the log (docs/guide.md). Without it give `next_actions` to `fit`.
    reward_known : bool, default=False
        Whether the reward is a function of state and action, which makes errors easier to tell.
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
    PolicyEvaluator : The value of the policy that acted.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> state, action = rng.normal(size=1000), rng.integers(2, size=1000)
    >>> following = 0.5 * state + rng.normal(size=1000)
    >>> always = lambda states: np.ones(len(states), dtype=int)
    >>> model = ActionValueEvaluator(0.5, always, primal="linear", dual="linear")
    >>> model = model.fit(state, action, 1.0 * action, following)
    >>> model.predict([0.0, 0.0], [0, 1]).round(1).tolist()  # taking 1 for ever is worth 1 / (1 - 0.5)
    [1.0, 2.0]
    """

    task = Task(
        "action-value",
        "the reward that follows from an action in a state",
        title="Action values",
        question="How much reward follows in the long run from taking an action in a state, and then acting by the "
        "policy in question? The data are single steps that anyone took: a state, an action, its reward, and the next "
        "state.",
        function="the action value Q(s, a): the expected sum of discounted rewards after action a in state s",
        equation="the value of an action must be its reward plus the discounted value of what the policy does next, on "
        "average",
        symbol="Q(s, a)",
        noun="action value",
        row="transition",
        error="mean squared Bellman error",
        mean="The value Q(s, a) of the data's states and actions is {mean} on average, from {lowest} to {highest}.",
        needs=("states", "actions", "rewards", "next_states", "next_actions"),
        takes=("terminated", "truncated", "propensities", "sample_weight", "groups", "episodes", "time"),
        derives=("next_states", "next_actions"),
        inputs=("states", "actions"),
        context=("states", "actions"),
        settings=(DISCOUNT,),
        examples=(
            "log.csv --state x --action move --reward r --next-state next_x --next-action plan --out q.dualembed",
            "log.parquet --state 's*' --next-state 'n*' --episode run --out q.dualembed --report q.html",
            "log.csv --state x --action move --reward r --episode run --terminated end --out q.dualembed",
        ),
    )

    _once_positional = ("terminated", "episodes", "next_actions")

    stepwise_: Stepwise | None = None  # what logged probabilities of actions say of the value
    logged_: bool = False  # whether there were any

    def __init__(
        self,
        discount: float = 0.99,
        policy: Any = None,
        *,
        reward_known: bool = False,
        solver: SolverLike = "auto",
        primal: SpaceLike = "auto",
        dual: SpaceLike = "auto",
        categorical_features: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.discount = discount
        self.policy = policy
        self.reward_known = reward_known
        self.solver = solver
        self.primal = primal
        self.dual = dual
        self.categorical_features = categorical_features
        self.random_state = random_state

    def fit(
        self,
        states: Any,
        actions: Any,
        rewards: Any,
        next_states: Any = None,
        *,
        next_actions: Any = None,
        terminated: Any = None,
        truncated: Any = None,
        propensities: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        episodes: Any = None,
        time: Any = None,
    ) -> ActionValueEvaluator:
        """Learn Q from transitions, one a row; no importance weights are needed, whoever took the actions.

        The first argument may be a whole log instead, as `data.log` takes it or gives it.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States s.
        actions : array-like of shape (n, a) or (n,)
            Actions a.
        rewards : array-like of shape (n,)
            Rewards r.
        next_states : array-like of shape (n, d) or (n,), optional
            States s'; by default those of the episode's next row, and of the last row of an episode that did not end
            nothing is learnt.
        next_actions : array-like of shape (n, a) or (n,), optional
            Actions of the evaluated policy at s', if no `policy` is given; by default, where `next_states` are those of
            the next row, its actions: the policy is then the one that acted.
        terminated : array-like of shape (n,), optional
            1 where nothing follows; 0 where a time limit cut the episode, since its bootstrap counts.
        truncated : array-like of shape (n,), optional
            1 where a time limit cut the episode.
        propensities : array-like of shape (n,), optional
            Probabilities, or densities, of the logged actions under the policy that acted. Action values need
            none; beside the answer they give the value by importance sampling, and how far the policies are apart.
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
        ActionValueEvaluator
            The fitted estimator.
        """
        return self._fit(
            Table.of(
                states=states,
                actions=actions,
                rewards=rewards,
                next_states=next_states,
                next_actions=next_actions,
                terminated=terminated,
                truncated=truncated,
                propensities=propensities,
                sample_weight=sample_weight,
                groups=groups,
                episodes=episodes,
                time=time,
            )
        )

    def value(self, initial_states: Any = None) -> Answer:
        """The policy's value: the mean of Σ_a π(a|s) Q(s, a) over initial states.

        Parameters
        ----------
        initial_states : array-like of shape (n, d) or (n,), optional
            Where episodes start; by default the first states of the episodes of the fit.

        Returns
        -------
        Answer
            The value with its standard error, an interval and a verdict.
        """
        self._coding()
        known = initial_states is None and self.starts_ is not None and self.starts_.words == AT_STARTS
        if self.policy is None and not known:  # unless it is the one that acted
            raise checks.InputError("the value of a policy needs the policy; give it as policy=... and fit again")
        return super().value(initial_states)

    def _value_at(self, initial_states: Any) -> Question:
        points, strays = self._coding().locate(initial_states)
        actions, shares = self._policy_actions(self._asked(initial_states))
        pairs = _pairs(points, actions)
        words = "the policy's value over the given initial states"
        return Question.mean(words, pairs, shares, np.full(len(pairs), -1), strays)

    def difference(  # type: ignore[override]
        self, states: Any, actions: Any, other_states: Any = None, other_actions: Any = None
    ) -> Question:
        """The question of the mean of Q over pairs less that over others; of Q(s, a) - Q(s0, a0), for one pair each.

        `difference(s, a, other_actions=b)` is by how much a is better than b in s.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States s.
        actions : array-like of shape (n, a) or (n,)
            Actions a.
        other_states : array-like of shape (m, d) or (m,), optional
            States s0; by default s.
        other_actions : array-like of shape (m, a) or (m,), optional
            Actions a0; by default a.

        Returns
        -------
        Question
            For `ask`.
        """
        if other_states is None and other_actions is None:
            raise checks.InputError(
                "a difference needs other_states or other_actions to compare with; give one or both"
            )
        other = self.at(
            states if other_states is None else other_states, actions if other_actions is None else other_actions
        )
        return (self.at(states, actions) - other).renamed("the difference of Q between two sets of states and actions")

    def density_ratio(self, states: Any, actions: Any) -> np.ndarray:
        """How often the policy takes each action in each state, against how often the log's rows do: 1 is as often.

        It is the ratio of discounted visits from the starts of episodes on to the distribution of rows, over which its
        mean is 1. `value().effective` says how many of the rows that leaves in use.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States.
        actions : array-like of shape (n, a) or (n,)
            Actions.

        Returns
        -------
        array of shape (n,)
            Ratios.
        """
        return self._density_ratio(self._locate(Table.of(states=states, actions=actions))[0])

    bellman_error = TransitionEstimator.error  # as it was called first

    def _fit_first(self, table: Table) -> Any:
        problem = super()._fit_first(table)
        if self.starts_ is not None and isinstance(self.solution_, MomentFit) and self.policy is not None:
            weights = self.solution_.row_weights(problem, self._mean_features(self.starts_.parts[0][1]))
            self._add_warnings(low_overlap(weights, self.discount ** step_numbers(table.episodes)))
        self._keep_stepwise(problem, table)
        return problem

    def _keep_stepwise(self, problem: Any, table: Table) -> None:
        """Keep what logged probabilities of actions say beside the answer."""
        columns = problem.source.table
        self.stepwise_, self.logged_ = None, table.propensities is not None
        if self.policy is None or table.episodes is None or isinstance(self.policy, GaussianPolicy):
            return
        taken = propensities_of(table, problem.source.rows)
        if taken is None:
            return
        actions = self._policy_actions(self._choices(table, "states", table.states))
        ratios = ratios_of(*actions, columns["action"], taken)
        labels = group_numbers("episodes", table.episodes, problem.source.rows)
        returns = Returns.of(columns, labels, float(self.discount), labels)
        whole = returns is not None and float(np.mean(returns.discounts < WHOLE)) >= MOSTLY
        self.stepwise_ = Stepwise.of(columns["reward"], labels, ratios, float(self.discount), whole)

    def _headline(self, problem: Any, table: Table) -> Headline | None:
        """The pairs (s, a) that episodes may start with (n, J, d), and the policy's probabilities of each (n, J)."""
        if self.policy is None or (table.episodes is None and not self._one_step(table)):
            return None
        every = len(problem.source.table["state"])
        rows = np.arange(every) if table.episodes is None else first_rows(table.episodes)
        actions, shares = self._policy_actions(self._choices(table, "states", table.states))
        return Headline(_pairs(problem.source.table["state"][rows], actions[rows]), shares[rows], rows)

    def _question_of(self, problem: Any, table: Table) -> Question | None:
        """Without a policy, whose actions are known at next states alone, it is of the mean over these.

        Unless the actions of the data are the policy's own, as next actions tell that are taken in the next row: then
        it is known what the policy does where episodes start.
        """
        if self.policy is not None:
            return super()._question_of(problem, table)
        columns = problem.source.table
        actions, following = columns["action"], columns["next_action"][:, 0]
        if table.episodes is not None:
            labels = np.unique(np.asarray(table.episodes), return_inverse=True)[1]
            if _same_policy(actions, following, labels):
                rows = first_rows(labels)
                pairs = np.concatenate([columns["state"][rows], actions[rows]], axis=1)
                return Question.mean(AT_STARTS, pairs, groups=np.full(len(pairs), -1))
        goes_on = np.asarray(columns.get("terminated", np.zeros(len(following)))) == 0
        pairs = np.concatenate([columns["next_state"], following], axis=1)[goes_on]
        return Question.mean(AT_NEXT, pairs) if len(pairs) else None

    def _findings(self, headline: Answer) -> Findings:
        """Where actions are of a few kinds, also what each would be worth, were it taken in every state."""
        found = super()._findings(headline)
        if self.stepwise_ is not None:
            size = self.stepwise_.estimate
            facts = {**found.facts, "importance_sampling": {"value": size.value, "stderr": size.stderr}}
            found = found._replace(facts=facts, remarks=(*found.remarks, self.stepwise_.remark))
        elif self.logged_:
            why = "a policy with probabilities of actions, and whole episodes, would give the value by them, too"
            found = found._replace(remarks=(*found.remarks, f"{NO_WEIGHTS}; {why}."))
        (column, *others), begin = self.actions_.columns, self.coding_.dimension
        if self.sample_ is None or others or not column.levels or not column.width:
            return found
        answers = []
        for level in column.levels[:ACTIONS]:
            points = self.sample_.points.copy()
            points[:, begin:] = column.encode(np.array([level], dtype=object))
            answers.append(self._answer(self._over_rows(str(level), points)))
        facts = {**found.facts, "by_action": {answer.question: answer.value for answer in answers}}
        about = "What each action is worth, were it taken in every state of the data"
        return Findings(tuple(answers), about, "action", "mean Q", facts, found.remarks)

    def _mean_features(self, part: Functional) -> np.ndarray:
        """The mean over pairs (n, J, d), J of which have shares (n, J), of the features of Q."""
        features = evaluate_features(self.function_.features, part.points.reshape(-1, part.points.shape[2]))
        return np.asarray(part.shares.ravel() @ features / len(part.points))

    def _decoded(self, points: np.ndarray) -> tuple[Any, ...]:
        states, actions = super()._decoded(points)
        return states, actions[:, 0] if np.ndim(actions) == 2 and actions.shape[1] == 1 else actions

    @property
    def _acted(self) -> bool:
        return self.policy is None and self.starts_ is not None and self.starts_.words == AT_STARTS

    def _make_problem(self, columns: dict[str, np.ndarray], table: Table) -> ActionValue:
        rows = len(columns["state"])
        if table.next_actions is not None:
            actions, shares = self.actions_.encode(table.next_actions)[:, None], np.ones((rows, 1))
        else:
            following = self._choices(table, "next_states", self.coding_.renamed(table.next_states))
            actions, shares = self._policy_actions(following)
        columns |= {
            "action": self.actions_.encode(table.actions),
            "reward": as_column("rewards", table.rewards, rows),
            "next_action": actions,
            "next_probability": shares,
        }
        if table.terminated is not None:
            columns["terminated"] = as_column("terminated", table.terminated, rows)
        for name, column in columns.items():
            if len(column) != rows:
                raise checks.InputError(f"states have {rows} rows, but {name}s {len(column)}; give one a transition")
        return ActionValue(Dataset(**columns), self.discount, reward_known=self.reward_known)


def _pairs(states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """States (n, d) with each of their actions (n, J, a): (n, J, d + a)."""
    repeated = np.repeat(states[:, None], actions.shape[1], axis=1)
    return np.concatenate([repeated, actions], axis=2)


def _same_policy(actions: np.ndarray, following: np.ndarray, labels: np.ndarray) -> bool:
    """Whether every next action is the one that the next row of its episode takes."""
    order = np.argsort(labels, kind="stable")
    goes_on = labels[order][1:] == labels[order][:-1]
    return bool(goes_on.any()) and bool(np.array_equal(actions[order][1:][goes_on], following[order][:-1][goes_on]))
