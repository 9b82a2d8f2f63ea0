"""The value of a policy, from logged transitions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualembed import checks
from dualembed.estimators.base import Estimator
from dualembed.estimators.coding import Coding, coding_of
from dualembed.estimators.rows import labels_of, starts, vector
from dualembed.problems import PolicyEvaluation
from dualembed.propensities import overlap as overlap_of
from dualembed.selection import Consistency
from dualembed.solvers.uncertainty import Estimate
from dualembed.sources import Dataset


class PolicyEvaluator(Estimator):
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
        return self._fitted(states, rewards, next_states, terminated, weights, episodes)

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
        if not hasattr(self, "stream_"):
            return self._fitted(states, rewards, next_states, terminated, weights, episodes)
        problem, groups = self._problem(self.coding_, states, rewards, next_states, terminated, weights, episodes)
        self._learn_more(problem, groups=groups)
        if self.starts_ is not None and episodes is not None:
            self.starts_ = np.concatenate([self.starts_, problem.source.table["state"][starts(episodes)]])
        return self

    def _fitted(
        self, states: Any, rewards: Any, next_states: Any, terminated: Any, weights: Any, episodes: Any
    ) -> PolicyEvaluator:
        self.coding_ = coding_of("states", states, next_states, categorical=self.categorical_features)
        problem, groups = self._problem(self.coding_, states, rewards, next_states, terminated, weights, episodes)
        self._remember(states)
        self.starts_ = problem.source.table["state"][starts(episodes)] if episodes is not None else None
        self._learn(problem, groups=groups)
        if weights is not None:
            overlap = overlap_of(problem.source.table["weight"])
            self._note([overlap.warning] if overlap.warning else [], overlap=overlap)
        return self

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
        problem, groups = self._problem(self._coding(), states, rewards, next_states, terminated, weights, episodes)
        return self._honest(problem, groups=groups)

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
        coding = coding_of("states", states, next_states, categorical=self.categorical_features)
        coding = coding if function is not None else self._coding()
        problem, groups = self._problem(coding, states, rewards, next_states, terminated, weights, episodes)
        return self._tested(problem, function, coding, groups=groups)

    def witness(self, states: Any, return_std: bool = False) -> Any:
        """E[V(s) - r - discount V(s') | s] as the data show it: where the equation still fails, and by how much."""
        return self._witnessed(self._coding().encode(states), return_std=return_std)

    def _problem(
        self,
        coding: Coding,
        states: Any,
        rewards: Any,
        next_states: Any,
        terminated: Any,
        weights: Any,
        episodes: Any,
    ) -> tuple[Any, Any]:
        state = coding.encode(states)
        columns = {"state": state, "reward": vector("rewards", rewards, len(state))}
        columns["next_state"] = coding.encode(next_states, renamed=True)
        if len(columns["next_state"]) != len(state):
            raise checks.InputError(
                f"states have {len(state)} rows, but next_states {len(columns['next_state'])}; give one a transition"
            )
        for name, given, column in (("terminated", terminated, "terminated"), ("weights", weights, "weight")):
            if given is not None:
                columns[column] = vector(name, given, len(state))
        problem = PolicyEvaluation(Dataset(**columns), self.discount, reward_known=self.reward_known)
        return problem, labels_of("episodes", episodes, len(state))
