"""How long a Markov process takes to reach a target, from its one-step transitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualembed import checks
from dualembed.estimators.rows import vector
from dualembed.estimators.transitions import TransitionEstimator, Transitions
from dualembed.problems import HittingTime, arrivals
from dualembed.selection import Consistency
from dualembed.solvers.uncertainty import Estimate
from dualembed.sources import Dataset


class HittingTimeRegressor(TransitionEstimator):
    """h(s), the mean number of steps from s until the target is reached, from transitions (s, s').

    `target` is a condition, any function of states as they are given to `fit` to yes or no (n,), or the target states
    themselves, points or labels. A step that ends in the target counts, so that h is at least 1, and inside the target
    it is the mean time of return. No path need reach the target from everywhere, but some transitions must enter it.

    >>> rng = np.random.default_rng(0)
    >>> state = rng.uniform(size=2000)  # the next state is uniform whatever the state: h = 1 / P(s' > 0.5)
    >>> model = HittingTimeRegressor(lambda s: s[:, 0] > 0.5, primal="linear", dual="linear")
    >>> model = model.fit(state, rng.uniform(size=2000))
    >>> bool(np.abs(model.predict([0.2, 0.4]) - 2).max() < 0.2)
    True
    """

    def __init__(
        self,
        target: Any,
        *,
        solver: Any = "auto",
        primal: Any = "auto",
        dual: Any = "auto",
        categorical_features: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.target = target
        self.solver = solver
        self.primal = primal
        self.dual = dual
        self.categorical_features = categorical_features
        self.random_state = random_state

    def fit(self, states: Any, next_states: Any, durations: Any = None, episodes: Any = None) -> HittingTimeRegressor:
        """Learn h from transitions, one a row; `durations` (n,) are times they take, by default 1.

        `episodes` (n,) label rows of one path, which depend on each other: errors are then clustered by path.
        """
        return self._fit(Transitions(states, next_states, episodes, durations=durations))

    def partial_fit(
        self, states: Any, next_states: Any, durations: Any = None, episodes: Any = None
    ) -> HittingTimeRegressor:
        """Learn from these transitions besides all those of earlier calls; the first call chooses the model."""
        return self._partial_fit(Transitions(states, next_states, episodes, durations=durations))

    def predict(self, states: Any, return_std: bool = False) -> Any:
        """h(s), shape (n,); with `return_std` also its standard errors (n,)."""
        return self._predicted(self._coding().encode(states), return_std=return_std)

    def interval(self, states: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of h at each state, each covering it by itself with that probability."""
        return self._interval(self._coding().encode(states), level)

    def equation_error(self, states: Any, next_states: Any, durations: Any = None, episodes: Any = None) -> Estimate:
        """E[E[h(s) - 1 - h(s') (s' outside) | s]²] on transitions that it was not fitted to, without their noise."""
        return self._error(Transitions(states, next_states, episodes, durations=durations))

    def score(self, states: Any, next_states: Any, durations: Any = None, episodes: Any = None) -> float:
        """Minus the `equation_error`: higher is better, as model selection wants it."""
        return -self.equation_error(states, next_states, durations, episodes).value

    def consistency_test(
        self,
        states: Any,
        next_states: Any,
        durations: Any = None,
        episodes: Any = None,
        function: Any = None,
    ) -> Consistency:
        """Whether h, or any `function` of states, is consistent with these transitions: a p-value.

        The function must not have been fitted to them. This needs no fit where a function is given.
        """
        return self._consistency(Transitions(states, next_states, episodes, durations=durations), function)

    def witness(self, states: Any, return_std: bool = False) -> Any:
        """E[h(s) - 1 - h(s') (s' outside) | s] as the data show it: where the equation still fails."""
        return self._witnessed(self._coding().encode(states), return_std=return_std)

    def _posed(self, columns: dict[str, np.ndarray], data: Transitions) -> HittingTime:
        columns["arrived"] = self._arrived(data.next_states)
        if data.durations is not None:
            columns["duration"] = vector("durations", data.durations, len(columns["state"]))
        return HittingTime(Dataset(**columns))

    def _arrived(self, next_states: Any) -> np.ndarray:
        columns = self.coding_.in_order(next_states, renamed=True)
        if callable(self.target):
            known = self.coding_.renamed(next_states)
            flat = isinstance(known, list) or getattr(known, "ndim", 2) == 1
            inside = np.asarray(self.target(np.asarray(known)[:, None] if flat else known))
            if inside.shape != (len(columns[0]),):
                raise checks.InputError(
                    f"the target must say yes or no for each of {len(columns[0])} states, but gave shape {inside.shape}"
                )
            return inside.astype(np.float64)
        if all(column.dtype.kind == "f" for column in columns):
            return arrivals(np.stack(columns, axis=1), self.target)
        if len(columns) > 1:
            raise checks.InputError("with categories among several columns the target must be a function of states")
        return np.isin(columns[0], np.atleast_1d(np.asarray(self.target, dtype=object))).astype(np.float64)
