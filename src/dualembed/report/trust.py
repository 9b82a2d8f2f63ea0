"""The sections of a page on how far to trust the answer: where it is still wrong, errors, diagnostics, warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed import checks, plot
from dualembed.answers.summary import Summary
from dualembed.answers.task import Fitted
from dualembed.estimates import format_estimate, format_short
from dualembed.plot.figures import panel_size, panels
from dualembed.plot.first_stage import Stage, draw_stages, stages_of
from dualembed.plot.surface import Surface, witness_surface
from dualembed.plot.trust import SIGNIFICANT, failures, remaining
from dualembed.report.html import (
    Drawing,
    Markup,
    element,
    figure,
    gallery,
    listed,
    number,
    paragraph,
    percent,
    proper,
    table,
)
from dualembed.selection import HeldOut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = 8
WORST = 5  # contexts
VAGUE = 0.1  # standard error of a share, above which it is not given
APART = 0.5  # standard deviations between contexts that are listed


def witness_section(model: Fitted, tables: dict[str, Any]) -> Markup:
    """The witness drawn, and a table of the contexts where it is furthest from zero."""
    asked = f"The equation says: {model.task_.equation}."
    try:
        surface = witness_surface(model, tables)
    except checks.InputError as reason:
        return element("div", paragraph(asked), paragraph(f"Where it fails cannot be drawn: {reason}."))
    note = (
        "The remaining error is by how much it still fails, as the data show it: zero is right. The bars and bands are "
        "two standard errors; what lies outside of them is marked, and up to one in twenty does by chance. "
        "It is an estimate, and a smooth one: what it is too smooth to show, the honest error below counts."
    )
    drawn = failures(surface, PANELS)
    if len(surface.axes) == 1:
        name = surface.axes[0].name
        caption = f"Remaining error along {name}"
        shown = figure(Drawing(lambda ax: remaining(ax, surface, drawn[0])), caption, caption)
        parts = [paragraph(asked, " ", note), gallery([shown])]
    else:
        kept = {each.axis.name for each in drawn}
        left = [axis.name for axis in surface.axes if axis.name not in kept]
        caption = "Remaining error along each column, all on one scale."
        caption += f" Not drawn, since it differs less from zero there: {', '.join(left)}." if left else ""

        def draw(across: int) -> Drawing:
            size = panel_size(len(drawn), across)
            return Drawing(lambda ax: panels(ax, surface, drawn, remaining, across=across, unit=SIGNIFICANT), size)

        shown = figure(draw(4), caption, f"{caption} Two standard errors stand on either side.", draw(2))
        parts = [paragraph(asked, " ", note), gallery([shown], "single wide-figure")]
    if surface.rows is not None:
        parts += list(_worst(surface))
    return element("div", *parts)


def _worst(surface: Surface) -> Iterator[Markup]:
    """A sentence on how many contexts fail, and the worst of them, apart from each other."""
    rows = surface.rows if surface.rows is not None else surface.background()
    values, std = surface.evaluate(rows)
    scores = values / np.maximum(std if std is not None else np.inf, np.finfo(float).tiny)
    share = float(np.mean(np.abs(scores) > SIGNIFICANT))
    yield paragraph(f"In {percent(share)} of the contexts the remaining error is beyond two standard errors.")
    chosen: list[int] = []
    for row in np.argsort(-np.abs(scores)):
        if all(np.linalg.norm(rows[row] - rows[other]) > APART for other in chosen):
            chosen.append(int(row))
        if len(chosen) == WORST:
            break
    heads = [*(axis.name for axis in surface.axes), "remaining error", "z-score"]
    columns = [axis.decode(rows[chosen]) for axis in surface.axes]
    lines = [
        [*(_value(column[line]) for column in columns), float(values[row]), float(scores[row])]
        for line, row in enumerate(chosen)
    ]
    yield table("Where it is furthest from right", heads, lines)


def _value(value: Any) -> Any:
    return number(float(value)) if isinstance(value, (float, np.floating)) else value


def error_section(model: Fitted, summary: Summary) -> Markup:
    """The honest error beside the naive ones, and why those mislead."""
    error = summary.error
    if error is None:
        return paragraph(summary.error_text())
    size = proper(format_estimate(error.value, error.stderr))
    rows = [
        ["honest error, on rows left out", size, "how wrong the function is"],
        ["mean squared residual, on rows left out", number(error.squared), "that, plus the noise of single rows"],
        ["mean squared residual, on rows fitted", number(error.fitted), "the same, flattered by fitting"],
    ]
    why = (
        "The usual check squares each row's own residual. But the equation is about averages, and a single row misses "
        "its average by chance even where the function is exactly right. "
        f"{_noise(error)} That part does not shrink as the function gets better, and choosing by it prefers functions "
        "that hide the noise. The honest error leaves it out; being an estimate, it may come out slightly below zero."
    )
    drawn = figure(
        Drawing(lambda ax: plot.errors(model, ax=ax), (4.2, 2.0)),
        "The honest error beside the naive ones",
        f"Bars: honest error {number(error.value)}, squared residuals {number(error.squared)} on rows left out "
        f"and {number(error.fitted)} on rows fitted",
    )
    caption = f"Errors, over {error.rows:,} rows"
    return element(
        "div",
        paragraph(element("strong", summary.error_verdict())),
        table(caption, ["error", "value", "what it measures"], rows),
        gallery([drawn]),
        paragraph(why),
    )


def _noise(error: HeldOut) -> str:
    """How much of the squared residuals is noise, where the data can tell."""
    squared = max(error.squared, np.finfo(float).tiny)
    if error.stderr > VAGUE * squared:
        return "How much of the squared residual is such noise, these data cannot tell."
    return f"Here about {percent(min(max(1 - error.value / squared, 0.0), 1.0))} of the squared residual is such noise."


def diagnostics_section(model: Fitted, summary: Summary, tables: dict[str, Any]) -> Markup:
    """Warnings first, then the numbers in plain words, with figures."""
    diagnostics = summary.diagnostics
    parts = [warnings(summary), listed(map(proper, diagnostics.sentences()))]
    drawn = _first_stages(model, tables)
    if diagnostics.singular_values is not None:
        drawn.append(
            figure(
                Drawing(lambda ax: plot.singular_values(model, ax=ax)),
                "How much the contexts show of each direction of f, that which they show best first. Where the "
                "singular value is 1 all of it is seen; where it is 0.1 a hundred times the rows are needed to know "
                "it as well. Directions far to the right are known by assumed smoothness only.",
                "Singular values in descending order: " + ", ".join(map(number, diagnostics.singular_values[:6])),
            )
        )
    overlap = diagnostics.overlap
    if overlap is not None and "importance_weights" in tables:
        drawn.append(
            figure(
                Drawing(lambda ax: plot.weights(model, tables, ax=ax)),
                "Importance weights; a few large ones leave little data in use",
                f"Histogram of importance weights, worth {overlap.effective_sample_size:.0f} unweighted rows",
            )
        )
    return element("div", *parts, *([gallery(drawn)] if drawn else []))


def _first_stages(model: Fitted, tables: Mapping[str, Any]) -> list[Markup]:
    """Each treatment against what is to move it."""
    found = []
    for stage in stages_of(model, tables):
        caption = (
            f"First stage: {stage.name} against {stage.by}, means over twentieths of the rows with 95 % intervals and "
            "the least squares line. The steeper the line beside the intervals, the stronger the instruments."
        )
        found.append(figure(Drawing(partial(_draw_stage, model, stage)), caption, caption))
    return found


def _draw_stage(model: Fitted, stage: Stage, ax: Axes) -> None:
    draw_stages(ax, model, [stage])


def strengths(summary: Summary) -> list[str]:
    """The first-stage F of each treatment, in a sentence; nothing without instruments."""
    linear = summary.findings.facts.get("linear") or {}
    stages = [
        f"{format_short(each['f'])} for {each['column']}"
        for each in linear.get("first_stage", [])
        if each["f"] is not None
    ]
    return [f"First-stage F {', '.join(stages)}."] if stages else []


def warnings(summary: Summary) -> Markup:
    """The warnings, or that there are none."""
    if not summary.warnings and summary.is_wrong:
        return paragraph("There are no warnings besides the honest error, which is more than chance.")
    if not summary.warnings:
        return paragraph("Nothing looked wrong: there are no warnings.")
    return listed((_sentence(each) for each in summary.warnings), class_="warnings")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
