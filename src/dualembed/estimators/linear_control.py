"""Control where the optimal cost to go solves a linear equation, from transitions of the passive dynamics."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualembed import checks
from dualembed.answers import Task
from dualembed.data.frames import as_column
from dualembed.data.probabilities import numbers
from dualembed.data.table import Table
from dualembed.estimators.transitions import TransitionEstimator
from dualembed.problems import FirstExit
from dualembed.solvers.base import SolverLike
from dualembed.sources import Dataset
from dualembed.spaces.base import SpaceLike


class LinearControl(TransitionEstimator):
    """The desirability z(s) = exp(-v(s)) of a state, v(s) being the least cost until a terminal state is reached.

    The cost of steering is the divergence from the passive dynamics, and the data are their transitions (s, s'); then
    z(s) = exp(-q(s)) E[z(s') | s], with z = exp(-q_T) at terminal states. `control.controlled_sampler` steers by it.

    Parameters
    ----------
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

    Examples
    --------
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
        mean="The desirability z(s) of the data's states is {mean} on average, from {lowest} to {highest}.",
        needs=("states", "costs", "next_states", "terminal"),
        takes=("terminal_costs", "sample_weight", "groups", "episodes", "time"),
        derives=("next_states",),
        inputs=("states",),
        context=("states",),
        examples=(
            "steps.csv --state x --cost cost --next-state next_x --terminal end --out cheap.dualembed",
            "steps.parquet --state 's*' --next-state 'n*' --terminal-cost toll --out cheap.dualembed --json",
            "walks.csv --state x,y --cost cost --terminal end --episode walk --out cheap.dualembed",
        ),
    )

    _once_positional = ("episodes",)

    def __init__(
        self,
        *,
        solver: SolverLike = "auto",
        primal: SpaceLike = "auto",
        dual: SpaceLike = "auto",
        categorical_features: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.solver = solver
        self.primal = primal
        self.dual = dual
        self.categorical_features = categorical_features
        self.random_state = random_state

    def fit(
        self,
        states: Any,
        costs: Any,
        next_states: Any = None,
        terminal: Any = None,
        terminal_costs: Any = 0.0,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        episodes: Any = None,
        time: Any = None,
    ) -> LinearControl:
        """Learn z from transitions of the passive dynamics, one a row.

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States s.
        costs : array-like of shape (n,)
            Running costs q(s).
        next_states : array-like of shape (n, d) or (n,), optional
            States s'; by default those of the episode's next row, and of the last row of an episode that did not reach
            an end nothing is learnt.
        terminal : array-like of shape (n,)
            1 where s' is an end; it must be given.
        terminal_costs : array-like of shape (n,) or float, default=0.0
            Costs q_T(s') there; elsewhere they do not matter.
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
        LinearControl
            The fitted estimator.
        """
        ends = {"terminal": terminal, "terminal_costs": terminal_costs}
        labels = {"sample_weight": sample_weight, "groups": groups, "episodes": episodes, "time": time}
        return self._fit(Table.of(states=states, costs=costs, next_states=next_states, **ends, **labels))

    def cost_to_go(self, states: Any) -> np.ndarray:
        """The least cost v(s) = -log z(s).

        Parameters
        ----------
        states : array-like of shape (n, d) or (n,)
            States.

        Returns
        -------
        array of shape (n,)
            Costs; infinite where z came out as not positive.
        """
        found = self.predict(states)
        with np.errstate(divide="ignore"):
            return -np.log(np.maximum(found, 0.0))

    equation_error = TransitionEstimator.error  # as it was called first

    def _make_problem(self, columns: dict[str, np.ndarray], table: Table) -> FirstExit:
        rows = len(columns["state"])
        if table.terminal is None:
            raise checks.InputError(
                "terminal must be given, 1 where the next state is an end and 0 elsewhere, since without an end no "
                "cost to go is known"
            )
        columns["cost"] = as_column("costs", table.costs, rows)
        columns["terminal"] = as_column("terminal", table.terminal, rows)
        final = numbers("terminal_costs", table.terminal_costs)
        if final.shape in ((), (rows,)):
            final = np.where(columns["terminal"] > 0, final, 0.0)
        columns["terminal_cost"] = as_column("terminal_costs", final, rows)
        return FirstExit(Dataset(**columns))
