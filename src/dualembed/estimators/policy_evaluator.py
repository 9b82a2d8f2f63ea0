"""The value of a policy, from logged transitions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualembed import checks
from dualembed.estimators.rows import starts, vector
from dualembed.estimators.transitions import TransitionEstimator, Transitions
from dualembed.problems import PolicyEvaluation
from dualembed.propensities import overlap as overlap_of
from dualembed.selection import Consistency
from dualembed.solvers.uncertainty import Estimate
from dualembed.sources import Dataset


class PolicyEvaluator(TransitionEstimator):
    """V(s), the discounted reward that a policy collects from a state on, from transitions (s, r, s') it made.

    `discount` is the problem's own. `reward_known` says that the reward is a function of the state, which makes errors
    easier to tell. Spaces given as `primal` and `dual` see standardised states.

    >>> rng = np.random.default_rng(0)
    >>> state = rng.normal(size=1000)
    >>> following = 0.5 * state + rng.normal(size=1000)
    >>> model = PolicyEvaluator(discount=0.8).fit(state, state, following)
    >>> bool(np.abs(model.predict([1.0, -1.0]) - np.array([1, -1]) / 0.6).max() < 0.2)  # V(s) = s / (1 - 0.8 · 0.5)
    True
    """

    starts_: Any
    weights_: Any = None

    def __init__(
        self,
        discount: float = 0.99,
        *,
        reward_known: bool = False,
        solver: Any = "auto",
        primal: Any = "auto",
        dual: Any = "auto",
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
        next_states: Any,
        terminated: Any = None,
        weights: Any = None,
        episodes: Any = None,
    ) -> PolicyEvaluator:
        """Learn V from transitions: states and next_states (n,) or (n, d), rewards (n,), one a row.

        `terminated` (n,) is 1 where nothing follows (0 where a time limit cut the episode: the bootstrap counts);
        `weights` (n,) are importance weights π(a|s) / π_b(a|s) for transitions of another policy
        (`policies.importance_weights`); `episodes` (n,) label rows of one episode, which depend on each other and are
        in the order of time: errors are then clustered by episode, and `value()` knows where episodes start.
        """
        data = Transitions(states, next_states, episodes, rewards=rewards, terminated=terminated, weights=weights)
        return self._fit(data)

    def partial_fit(
        self,
        states: Any,
        rewards: Any,
        next_states: Any,
        terminated: Any = None,
        weights: Any = None,
        episodes: Any = None,
    ) -> PolicyEvaluator:
        """Learn from these transitions, of new episodes, besides earlier ones; the first call chooses the model."""
        data = Transitions(states, next_states, episodes, rewards=rewards, terminated=terminated, weights=weights)
        return self._partial_fit(data)

    def predict(self, states: Any, return_std: bool = False) -> Any:
        """V(s), shape (n,); with `return_std` also its standard errors (n,)."""
        return self._predicted(self._coding().encode(states), return_std=return_std)

    def interval(self, states: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of V at each state, each covering it by itself with that probability."""
        return self._interval(self._coding().encode(states), level)

    def value(self, initial_states: Any = None) -> Estimate:
        """The policy's value: the mean of V over initial states, a sample of where episodes start.

        Without them, over the first states of the episodes that it was fitted to. The standard error counts that of V,
        clustered by episode, and that of the sample of starts.
        """
        check_is_fitted(self, "function_")
        if initial_states is None and self.starts_ is None:
            raise checks.InputError("initial_states must be given, since the fit had no labels of episodes")
        points: Any = self.starts_ if initial_states is None else self.coding_.encode(initial_states)
        return self._average(points)

    def bellman_error(
        self,
        states: Any,
        rewards: Any,
        next_states: Any,
        terminated: Any = None,
        weights: Any = None,
        episodes: Any = None,
    ) -> Estimate:
        """The mean squared Bellman error E[E[V(s) - r - discount V(s') | s]²] on transitions it was not fitted to.

        An honest estimate, without the variance that the square of a one-sample error has; it may be slightly negative.
        """
        data = Transitions(states, next_states, episodes, rewards=rewards, terminated=terminated, weights=weights)
        return self._error(data)

    def score(
        self,
        states: Any,
        rewards: Any,
        next_states: Any,
        terminated: Any = None,
        weights: Any = None,
        episodes: Any = None,
    ) -> float:
        """Minus the mean squared Bellman error: higher is better, as model selection wants it."""
        return -self.bellman_error(states, rewards, next_states, terminated, weights, episodes).value

    def consistency_test(
        self,
        states: Any,
        rewards: Any,
        next_states: Any,
        terminated: Any = None,
        weights: Any = None,
        episodes: Any = None,
        function: Any = None,
    ) -> Consistency:
        """Whether V, or any `function` of states whoever fitted it, is consistent with these transitions: a p-value.

        The function must not have been fitted to them. This needs no fit where a function is given.
        """
        data = Transitions(states, next_states, episodes, rewards=rewards, terminated=terminated, weights=weights)
        return self._consistency(data, function)

    def witness(self, states: Any, return_std: bool = False) -> Any:
        """E[V(s) - r - discount V(s') | s] as the data show it: where the equation still fails, and by how much."""
        return self._witnessed(self._coding().encode(states), return_std=return_std)

    def _begin(self, data: Transitions) -> Any:
        problem = super()._begin(data)
        self.starts_ = None if data.episodes is None else problem.source.table["state"][starts(data.episodes)]
        self._weigh(problem, np.zeros(0))
        return problem

    def _go_on(self, data: Transitions) -> Any:
        before = self.diagnostics_
        problem = super()._go_on(data)
        if self.weights_ is None and before.overlap is not None:  # of a model saved when weights were not kept
            self._note([], overlap=before.overlap)
        else:
            self._weigh(problem, np.ones(before.rows) if self.weights_ is None else self.weights_)
        if self.starts_ is not None and data.episodes is not None:
            self.starts_ = np.concatenate([self.starts_, problem.source.table["state"][starts(data.episodes)]])
        return problem

    def _weigh(self, problem: Any, earlier: np.ndarray) -> None:
        """Keep the importance weights, 1 for rows without, and note how many rows all those so far are worth."""
        given = problem.source.table.get("weight")
        if given is None and self.weights_ is None:
            return
        self.weights_ = np.concatenate([earlier, np.ones(problem.source.rows) if given is None else given])
        overlap = overlap_of(self.weights_)
        self._note([overlap.warning] if overlap.warning else [], overlap=overlap)

    def _posed(self, columns: dict[str, np.ndarray], data: Transitions) -> PolicyEvaluation:
        rows = len(columns["state"])
        columns["reward"] = vector("rewards", data.rewards, rows)
        if data.terminated is not None:
            columns["terminated"] = vector("terminated", data.terminated, rows)
        if data.weights is not None:
            columns["weight"] = vector("weights", data.weights, rows)
        return PolicyEvaluation(Dataset(**columns), self.discount, reward_known=self.reward_known)
