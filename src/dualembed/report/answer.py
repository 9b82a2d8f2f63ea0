"""The answer in numbers: the value of a policy, the effects of columns, means of the function."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualembed.plot.fields import Field, Place
from dualembed.report.elements import Markup, between, element, number, paragraph, plus_minus, table
from dualembed.solvers.uncertainty import Estimate

QUARTILES = (25.0, 75.0)
MOST = 30  # rows of a table of effects


def answer(model: Any, field: Field) -> Markup:
    """The headline and what else there is to say in numbers."""
    parts = [headline(model, field)]
    if field.spreads:
        parts.append(paragraph("What stands after ± is one standard error."))
    if not hasattr(model, "instruments_"):
        return element("div", *parts)
    outcome = "effect on y" if model.instruments_ is not None else "change of the mean of y"
    places, straight = field.places[:MOST], hasattr(model, "coef_")
    rows = [_effect(field, place, *(_unit(place) if straight else _quartiles(field, place))) for place in places]
    caption = (
        "What one unit more of a column does: f is a straight line"
        if straight
        else "What moving a column does, others as they are"
    )
    return element("div", *parts, table(caption, ["change", outcome, "95 % interval"], rows))


def headline(model: Any, field: Field) -> Markup:
    """One sentence: the policy's value, or the mean of the function over the data."""
    found = policy_value(model)
    if found is not None:
        low, high = found.interval()
        said = f"From where episodes start, the policy is worth {plus_minus(found.value, found.stderr)}"
        return paragraph(element("strong", f"{said} (95 % interval {between(low, high)})."), class_="answer")
    where = "Over the rows of the data" if field.rows is not None else "At the middle of the data"
    points = field.rows if field.rows is not None else field.base()
    mean, stderr = field.average(points)
    values = field.at(points)[0]
    what = f"the {field.symbol}" if not field.symbol.startswith("f(") else field.symbol
    said = f"{where}, {what} is {plus_minus(mean, stderr)}"
    reach = f" on average, from {number(values.min())} to {number(values.max())}" if len(values) > 1 else ""
    return paragraph(element("strong", f"{said}{reach}."), class_="answer")


def policy_value(model: Any) -> Estimate | None:
    """The mean of the value over first states of episodes; None where there are none, or no policy to ask."""
    if getattr(model, "starts_", None) is None or getattr(model, "policy", True) is None or model.uncertainty_ is None:
        return None
    found: Estimate = model.value()
    return found


def _unit(place: Place) -> tuple[str, tuple[Any, Any]]:
    """A change by one unit in words, and its two ends."""
    if place.levels:
        return f"{place.name} from {place.levels[0]} to {place.levels[-1]}", (place.levels[0], place.levels[-1])
    return f"{place.name} by one unit", (place.column.mean, place.column.mean + 1.0)


def _quartiles(field: Field, place: Place) -> tuple[str, tuple[Any, Any]]:
    """The change in words, and its two ends."""
    if place.levels:
        return _unit(place)
    low, high = field.quantiles(place, QUARTILES)
    return f"{place.name} from {number(low)} to {number(high)} (quartiles)", (low, high)


def _effect(field: Field, place: Place, change: str, ends: tuple[Any, Any]) -> list[Any]:
    """[change, difference of means, interval]: the contrast of f at the two ends, others as in the data."""
    base = field.base()
    points = np.concatenate([place.put(base, ends[1]), place.put(base, ends[0])])
    share = np.repeat([1.0, -1.0], len(base)) / len(base)
    value, stderr = field.average(points, share)
    if stderr is None:
        return [change, number(value), "–"]
    low, high = Estimate(value, stderr).interval()
    return [change, plus_minus(value, stderr), between(low, high)]
