"""The words of a regression in the names of its own columns."""

from __future__ import annotations

import dataclasses

from dualembed.answers import Task


def worded(task: Task, *, x: str = "", y: str = "y", z: str = "") -> Task:
    """The task with its columns called by their names; what has no name, or too many, stays x, y and the instruments.

    >>> from dualembed.estimators.iv_regressor import IVRegressor
    >>> print(worded(IVRegressor.task, x="educ", y="lwage", z="nearc4").function)
    the structural function f(x): what lwage would be on average if educ were set by hand
    """
    if not x and y == "y":
        return task
    x = x or "x"
    noun = f"mean of {y}," if y != "y" else ""
    if "instruments" not in task.context:
        return dataclasses.replace(
            task,
            question=f"What is {y} on average, given {x}? No instruments were given, so that the answer is about "
            f"prediction: where hidden causes move both {x} and {y}, it is not the effect of changing {x}.",
            function=f"the regression function f(x): the mean of {y} given {x}",
            equation=f"given {x}, {y} and f(x) must agree on average",
            noun=noun,
        )
    movers = f"{z} {'move' if ' and ' in z else 'moves'} {x}, and" if z else f"they move {x}, and"
    touch = "touches" if z and " and " not in z else "touch"
    return dataclasses.replace(
        task,
        question=f"What does changing {x} do to {y}? Plain regression cannot say, where hidden causes move both. "
        f"Instruments help: {movers} {touch} {y} through {x} only.",
        function=f"the structural function f(x): what {y} would be on average if {x} were set by hand",
        equation=f"given {z or 'the instruments'}, {y} and f(x) must agree on average",
        noun=noun,
    )
