"""Control where the optimal cost to go solves a linear equation, from transitions of the passive dynamics."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualembed.answers import Question, Task
from dualembed.estimates import Estimate
from dualembed.estimators.rows import vector
from dualembed.estimators.transitions import TransitionEstimator, Transitions
from dualembed.policies import numbers
from dualembed.problems import FirstExit
from dualembed.selection import Consistency
from dualembed.sources import Dataset


class LinearControl(TransitionEstimator):
    """z(s) = exp(-v(s)), the desirability of a state, v being the least cost until a terminal state is reached.

    The cost of steering is the divergence from the passive dynamics, whose transitions (s, s') are the data; then
    z(s) = exp(-q(s)) E[z(s') | s], with z = exp(-q_T) at terminal states. `control.OptimalControl` steers by it.

    >>> rng = np.random.default_rng(0)
    >>> state = rng.uniform(size=2000)
    >>> following = rng.uniform(size=2000)  # whatever the state; above 0.5 it is the end, at no cost
    >>> ends = following > 0.5
    >>> model = LinearControl(primal="linear", dual="linear")
    >>> model = model.fit(state, np.full(2000, 0.1), following, ends, np.zeros(2000))
    >>> exact = np.exp(-0.1) * 0.5 / (1 - np.exp(-0.1) * 0.5)
    >>> bool(abs(model.predict([0.3])[0] - exact) < 0.05)
    True
    """

    task = Task(
        "linear-control",
        "where it is cheap to be, in linearly solvable control",
        title="Linearly solvable control",
        question="Where is it cheap to be, if one may steer a random process and pays for running and for steering? "
        "The data are single steps of the process without steering.",
        function="the desirability z(s) = exp(−least cost until the end): 1 where the end is free, near 0 where it is "
        "dear",
        equation="the desirability of a state must be that of the next, on average, times exp(−running cost)",
        symbol="z(s)",
        noun="desirability",
        row="transition",
        mean="The desirability z(s) of the table's states is {mean} on average, from {lowest} to {highest}.",
        needs=("states", "costs", "next_states", "terminal"),
        takes=("terminal_costs", "episodes"),
        inputs=("states",),
        context=("states",),
        examples=(
            "steps.csv --state x --cost cost --next-state next_x --terminal end --out cheap.dualembed",
            "steps.parquet --state 's*' --next-state 'n*' --terminal-cost toll --out cheap.dualembed --json",
        ),
    )

    def __init__(
        self,
        *,
        solver: Any = "auto",
        primal: Any = "auto",
        dual: Any = "auto",
        categorical_features: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.solver = solver
        self.primal = primal
        self.dual = dual
        self.categorical_features = categorical_features
        self.random_state = random_state

    def fit(
        self, states: Any, costs: Any, next_states: Any, terminal: Any, terminal_costs: Any = 0.0, episodes: Any = None
    ) -> LinearControl:
        """Learn z from transitions, one a row: `costs` (n,) are q(s), `terminal` (n,) is 1 where s' is an end.

        `terminal_costs` (n,) are q_T(s') there, and do not matter elsewhere; one number will do for all. `episodes`
        (n,) label rows that depend on each other.
        """
        data = Transitions(states, next_states, episodes, costs=costs, terminal=terminal, terminal_costs=terminal_costs)
        return self._fit(data)

    def partial_fit(
        self, states: Any, costs: Any, next_states: Any, terminal: Any, terminal_costs: Any = 0.0, episodes: Any = None
    ) -> LinearControl:
        """Learn from these transitions besides all those of earlier calls; the first call chooses the model."""
        data = Transitions(states, next_states, episodes, costs=costs, terminal=terminal, terminal_costs=terminal_costs)
        return self._partial_fit(data)

    def predict(self, states: Any, return_std: bool = False) -> Any:
        """z(s), shape (n,); with `return_std` also its standard errors (n,)."""
        return self._predict(states, return_std=return_std)

    def interval(self, states: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) of z at each state, each covering it by itself with that probability."""
        points, strays = self._coding().locate(states)
        return self._interval(points, level, strays)

    def at(self, states: Any) -> Question:
        """The question of the mean of z over these states: of z itself, where it is one."""
        return self._at("z over the given states", states)

    def difference(self, states: Any, other_states: Any) -> Question:
        """The question of the mean of z over these states less that over others: of z(s) - z(s0), for one each."""
        words = "the difference of z between two sets of states"
        return (self.at(states) - self.at(other_states)).renamed(words)

    def cost_to_go(self, states: Any) -> np.ndarray:
        """v(s) = -log z(s), shape (n,); infinite where z came out as not positive."""
        found = self.predict(states)
        with np.errstate(divide="ignore"):
            return -np.log(np.maximum(found, 0.0))

    def error(
        self, states: Any, costs: Any, next_states: Any, terminal: Any, terminal_costs: Any = 0.0, episodes: Any = None
    ) -> Estimate:
        """E[E[z(s) - exp(-q(s)) z(s') | s]²] on transitions that it was not fitted to, without their noise."""
        data = Transitions(states, next_states, episodes, costs=costs, terminal=terminal, terminal_costs=terminal_costs)
        return self._error(data)

    equation_error = error  # as it was called first

    def score(
        self, states: Any, costs: Any, next_states: Any, terminal: Any, terminal_costs: Any = 0.0, episodes: Any = None
    ) -> float:
        """Minus the `error`: higher is better, as model selection wants it."""
        return -self.error(states, costs, next_states, terminal, terminal_costs, episodes).value

    def consistency_test(
        self,
        states: Any,
        costs: Any,
        next_states: Any,
        terminal: Any,
        terminal_costs: Any = 0.0,
        episodes: Any = None,
        function: Any = None,
    ) -> Consistency:
        """Whether z, or any `function` of states, is consistent with these transitions: a p-value.

        The function must not have been fitted to them. This needs no fit where a function is given.
        """
        data = Transitions(states, next_states, episodes, costs=costs, terminal=terminal, terminal_costs=terminal_costs)
        return self._consistency(data, function)

    def witness(self, states: Any, return_std: bool = False) -> Any:
        """E[z(s) - exp(-q(s)) z(s') | s] as the data show it: where the equation still fails."""
        return self._witnessed(self._coding().encode(states), return_std=return_std)

    def _posed(self, columns: dict[str, np.ndarray], data: Transitions) -> FirstExit:
        rows = len(columns["state"])
        columns["cost"] = vector("costs", data.costs, rows)
        columns["terminal"] = vector("terminal", data.terminal, rows)
        final = numbers("terminal_costs", data.terminal_costs)
        if final.shape in ((), (rows,)):
            final = np.where(columns["terminal"] > 0, final, 0.0)
        columns["terminal_cost"] = vector("terminal_costs", final, rows)
        return FirstExit(Dataset(**columns))
