"""The answer in numbers: the value of a policy, the effects of columns, means of the function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dualembed.plot.fields import Field
from dualembed.report.effects import Effect, effects, unshown
from dualembed.report.elements import Markup, between, element, number, paragraph, plus_minus, table
from dualembed.report.worth import policy_value
from dualembed.solvers.uncertainty import Estimate

MOST = 30  # rows of a table of effects
ROWS = 2000  # over which a mean is taken


def answer(model: Any, field: Field, tables: Mapping[str, Any]) -> Markup:
    """The headline and what else there is to say in numbers."""
    parts = [headline(model, field, tables)]
    if field.spreads:
        parts.append(paragraph("What stands after ± is one standard error."))
    if not hasattr(model, "instruments_"):
        return element("div", *parts)
    outcome = "effect on y" if model.instruments_ is not None else "change of the mean of y"
    found, straight = effects(field, straight=hasattr(model, "coef_")), hasattr(model, "coef_")
    caption = "What moving a column does" + (": f is a straight line" if straight else ", others as they are")
    parts.append(table(caption, ["change", outcome, "95 % interval"], map(_row, found[:MOST])))
    left = [f"{len(found) - MOST} more changes are not shown."] if len(found) > MOST else []
    return element("div", *parts, *map(paragraph, [*unshown(field), *left]))


def headline(model: Any, field: Field, tables: Mapping[str, Any]) -> Markup:
    """One sentence: the policy's value, or the mean of the function over the data."""
    found = policy_value(model, field, tables)
    if found is not None and found.stderr is not None:
        low, high = Estimate(found.value, found.stderr).interval()
        said = f"On average over {found.where}, the policy is worth {plus_minus(found.value, found.stderr)}"
        return paragraph(element("strong", f"{said} (95 % interval {between(low, high)})."), class_="answer")
    points, where = asked_about(model, field, tables)
    mean, stderr = field.average(points)
    values = np.maximum(field.at(points)[0], getattr(model, "shortest_", -np.inf))
    what = f"the {field.symbol}" if not field.symbol.startswith("f(") else field.symbol
    said = f"{where}, {what} is {plus_minus(mean, stderr)}"
    reach = f" on average, from {number(values.min())} to {number(values.max())}" if len(values) > 1 else ""
    return paragraph(element("strong", f"{said}{reach}."), class_="answer")


def asked_about(model: Any, field: Field, tables: Mapping[str, Any]) -> tuple[np.ndarray, str]:
    """(coded points over which to take means, where they are): rows of the data, of hitting times outside the target.

    Without data it is their middle.
    """
    if field.rows is None:
        return field.base(), "At the middle of the data"
    if not hasattr(model, "target"):
        return field.rows, "Over the rows of the data"
    outside = np.flatnonzero(~model.inside(tables["states"]))
    if not len(outside):
        return field.rows, "Over the rows of the data, which are all inside the target and must return to it"
    some = outside[np.linspace(0, len(outside) - 1, min(len(outside), ROWS)).astype(int)]
    return model.coding_.encode(tables["states"])[some], "Over the rows of the data outside the target"


def _row(found: Effect) -> list[str]:
    """[change, difference of means, interval]."""
    if found.stderr is None:
        return [found.change(number), number(found.value), "–"]
    low, high = Estimate(found.value, found.stderr).interval()
    return [found.change(number), plus_minus(found.value, found.stderr), between(low, high)]
