"""The answer in numbers: the value of a policy, the effects of columns, means of the function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dualembed.answers import Answer
from dualembed.answers.answer import meaning
from dualembed.estimates import Estimate
from dualembed.plot.surface import Surface
from dualembed.report.effects import Effect, effects, unshown
from dualembed.report.html import Markup, between, element, number, paragraph, plus_minus, table
from dualembed.report.worth import mean_answer, policy_value, verdict_of

MOST = 30  # rows of a table of effects
ROWS = 2000  # over which a mean is taken


def answer(model: Any, surface: Surface, tables: Mapping[str, Any]) -> Markup:
    """The headline and what else there is to say in numbers."""
    parts = [headline(model, surface, tables)]
    if surface.spreads:
        parts.append(paragraph("What stands after ± is one standard error."))
    if not hasattr(model, "instruments_"):
        return element("div", *parts)
    outcome = "effect on y" if model.instruments_ is not None else "change of the mean of y"
    found, straight = effects(surface, straight=hasattr(model, "coef_")), hasattr(model, "coef_")
    caption = "What moving a column does" + (": f is a straight line" if straight else ", others as they are")
    parts.append(table(caption, ["change", outcome, "95 % interval"], map(_row, found[:MOST])))
    left = [f"{len(found) - MOST} more changes are not shown."] if len(found) > MOST else []
    return element("div", *parts, *map(paragraph, [*unshown(surface), *left]))


def headline(model: Any, surface: Surface, tables: Mapping[str, Any]) -> Markup:
    """The policy's value, or the mean of the function over the data, with the verdict on it."""
    found = policy_value(model, surface, tables)
    if found is not None and found.answer is not None:
        said = f"On average over {found.where}, the policy is worth {plus_minus(found.value, found.stderr)}"
        sentence = element("strong", f"{said} (95 % interval {between(*found.answer.interval())}).")
        beside = [*_verdict(model, found.answer), *_mean_return(model)]
        return element("div", paragraph(sentence, class_="answer"), *beside)
    points, where = asked_about(model, surface, tables)
    mean, stderr = surface.average(points)
    values = np.maximum(surface.evaluate(points)[0], getattr(model, "shortest_", -np.inf))
    what = f"the {surface.symbol}" if not surface.symbol.startswith("f(") else surface.symbol
    said = f"{where}, {what} is {plus_minus(mean, stderr)}"
    reach = f" on average, from {number(values.min())} to {number(values.max())}" if len(values) > 1 else ""
    sentence = paragraph(element("strong", f"{said}{reach}."), class_="answer")
    return element("div", sentence, *_verdict(model, mean_answer(model, points)))


def _verdict(model: Any, answer: Answer | None) -> list[Markup]:
    """The verdict on an answer with what it means, and what there is to worry about; nothing where it is not known."""
    verdict = verdict_of(answer)
    if answer is None or verdict is None:
        return []
    worries = [paragraph(f"{each[:1].upper()}{each[1:]}.") for each in answer.warnings]
    return [paragraph("This answer is ", element("strong", str(verdict)), f": {meaning(verdict)}."), *worries]


def _mean_return(model: Any) -> list[Markup]:
    """What whole episodes earned, where that is known."""
    found = model.mean_return() if hasattr(model, "mean_return") else None
    if found is None:
        return []
    return [paragraph(f"The plain mean of the returns of whole episodes is {plus_minus(found.value, found.stderr)}.")]


def asked_about(model: Any, surface: Surface, tables: Mapping[str, Any]) -> tuple[np.ndarray, str]:
    """(coded points over which to take means, where they are): rows of the data, of hitting times outside the target.

    Without data it is their middle.
    """
    if surface.rows is None:
        return surface.background(), "At the middle of the data"
    if not hasattr(model, "target"):
        return surface.rows, "Over the rows of the data"
    outside = np.flatnonzero(~model.inside(tables["states"]))
    if not len(outside):
        return surface.rows, "Over the rows of the data, which are all inside the target and must return to it"
    some = outside[np.linspace(0, len(outside) - 1, min(len(outside), ROWS)).astype(int)]
    return model.coding_.encode(tables["states"])[some], "Over the rows of the data outside the target"


def _row(found: Effect) -> list[str]:
    """[change, difference of means, interval]."""
    if found.stderr is None:
        return [found.change(number), number(found.value), "–"]
    low, high = Estimate(found.value, found.stderr).interval()
    return [found.change(number), plus_minus(found.value, found.stderr), between(low, high)]
