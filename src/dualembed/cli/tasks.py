"""What can be fitted from the command line: the tasks, and what columns mean to them."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any


@dataclasses.dataclass(frozen=True)
class Task:
    """A question about a table, and the estimator that answers it.

    `needs` and `takes` lead from the meaning of columns to the arguments of the estimator's `fit`, those it must have
    and those it may; `asks` likewise to the arguments of its `predict`. `error` is its method for the honest error,
    `error_words` what that is, `symbol` what is learnt; `examples` are arguments of `dualembed fit` after the task.
    """

    line: str
    estimator: str
    needs: dict[str, str]
    takes: dict[str, str]
    asks: dict[str, str]
    error: str
    error_words: str
    symbol: str
    examples: tuple[str, str]
    settings: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, str]:
        """All arguments of `fit` by the meaning of their columns."""
        return {**self.needs, **self.takes}


STATE, NEXT_STATE = {"state": "states"}, {"next_state": "next_states"}
EPISODE = {"episode": "episodes"}

TASKS = {
    "policy-evaluation": Task(
        "the reward that a policy collects from each state on",
        "PolicyEvaluator",
        needs={**STATE, "reward": "rewards", **NEXT_STATE},
        takes={"terminated": "terminated", "weight": "weights", **EPISODE},
        asks=STATE,
        error="bellman_error",
        error_words="mean squared Bellman error",
        symbol="V(s)",
        examples=(
            "log.parquet --state 's*' --next-state 'n*' --episode run --discount 0.95 --out value.dualembed",
            "log.csv --state x,speed --reward r --next-state next_x,next_speed --terminated done --out value.dualembed",
        ),
        settings=("discount",),
    ),
    "action-value": Task(
        "the reward that follows from an action in a state",
        "ActionValueEvaluator",
        needs={**STATE, "action": "actions", "reward": "rewards", **NEXT_STATE, "next_action": "next_actions"},
        takes={"terminated": "terminated", **EPISODE},
        asks={**STATE, "action": "actions"},
        error="bellman_error",
        error_words="mean squared Bellman error",
        symbol="Q(s, a)",
        examples=(
            "log.csv --state x --action move --reward r --next-state next_x --next-action plan --out q.dualembed",
            "log.parquet --state 's*' --next-state 'n*' --episode run --out q.dualembed --report q.html",
        ),
        settings=("discount",),
    ),
    "iv": Task(
        "the effect of x on y, by instruments where there are any",
        "IVRegressor",
        needs={"x": "X", "y": "y"},
        takes={"instrument": "instruments", "control": "controls", "episode": "groups"},
        asks={"x": "X", "control": "controls"},
        error="moment_error",
        error_words="mean squared error of the conditional mean",
        symbol="f(x)",
        examples=(
            "survey.csv --x price --y sales --instrument tax --control region --out effect.dualembed",
            "survey.csv --x dose,age --y outcome --episode clinic --out mean.dualembed --report mean.html",
        ),
    ),
    "hitting-time": Task(
        "the mean number of steps until a target is reached",
        "HittingTimeRegressor",
        needs={**STATE, **NEXT_STATE},
        takes=EPISODE,
        asks=STATE,
        error="equation_error",
        error_words="mean squared error of the equation",
        symbol="h(s)",
        examples=(
            'path.csv --state x,y --next-state next_x,next_y --target "x >= 1 and y < 0.5" --out time.dualembed',
            'path.parquet --state angle --next-state next_angle --target "angle > 2" --out time.dualembed --json',
        ),
        settings=("target",),
    ),
    "linear-control": Task(
        "where it is cheap to be, in linearly solvable control",
        "LinearControl",
        needs={**STATE, "cost": "costs", **NEXT_STATE, "terminal": "terminal"},
        takes={"terminal_cost": "terminal_costs", **EPISODE},
        asks=STATE,
        error="equation_error",
        error_words="mean squared error of the equation",
        symbol="z(s)",
        examples=(
            "steps.csv --state x --cost cost --next-state next_x --terminal end --out cheap.dualembed",
            "steps.parquet --state 's*' --next-state 'n*' --terminal-cost toll --out cheap.dualembed --json",
        ),
    ),
}
"""Every task by its name, in the order in which they are listed."""

TABLES = frozenset({"state", "next_state", "x", "instrument", "control", "action", "next_action"})
"""Meanings that several columns may have together; every other one is that of a single column."""

ACTIONS = frozenset({"action", "next_action"})
LABELS = frozenset({"episode"})

FOLLOWING = {"next_state": "state", "next_action": "action"}
"""What a step leads to, and what of: their columns go in pairs."""


def option_of(role: str) -> str:
    """The option that names the columns of this meaning.

    >>> option_of("next_state")
    '--next-state'
    """
    return f"--{role.replace('_', '-')}"


def task_named(name: str) -> Task:
    """The task of that name, or a refusal with the nearest."""
    if name in TASKS:
        return TASKS[name]
    near = difflib.get_close_matches(name.lower(), TASKS, n=1, cutoff=0.5)
    advice = f"did you mean '{near[0]}'?" if near else f"choose one of: {', '.join(TASKS)}"
    from dualembed.checks import InputError

    raise InputError(f"there is no task named '{name}'; {advice}")


def task_of(model: Any) -> tuple[str, Task] | None:
    """(name, task) of a model, or None where its kind is none of them."""
    return next(((name, task) for name, task in TASKS.items() if task.estimator == type(model).__name__), None)
