"""The sections of a page on how far to trust the answer: where it is still wrong, errors, diagnostics, warnings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dualembed import checks, plot
from dualembed.answers.summary import Summary
from dualembed.answers.task import Fitted
from dualembed.estimates import format_estimate
from dualembed.plot.figures import SIGNIFICANT, leading, remaining
from dualembed.plot.surface import Surface, witness_surface
from dualembed.report.html import (
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

PANELS = 6
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
    drawn = [
        figure(
            lambda ax, axis=axis: remaining(ax, surface, axis),  # type: ignore[misc]
            f"Remaining error along {axis.name}",
            f"Remaining error of the equation along {axis.name}, with two standard errors on either side",
        )
        for axis in leading(surface, PANELS)
    ]
    parts = [paragraph(asked, " ", note), gallery(drawn)]
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
        lambda ax: plot.errors(model, ax=ax),
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
    drawn = []
    if diagnostics.singular_values is not None:
        drawn.append(
            figure(
                lambda ax: plot.singular_values(model, ax=ax),
                "How much the contexts tell of each direction of f: 1 is all, near 0 next to nothing",
                "Singular values in descending order: " + ", ".join(map(number, diagnostics.singular_values[:6])),
            )
        )
    overlap = diagnostics.overlap
    if overlap is not None and "importance_weights" in tables:
        drawn.append(
            figure(
                lambda ax: plot.weights(model, tables, ax=ax),
                "Importance weights; a few large ones leave little data in use",
                f"Histogram of importance weights, worth {overlap.effective_sample_size:.0f} unweighted rows",
            )
        )
    return element("div", *parts, *([gallery(drawn)] if drawn else []))


def warnings(summary: Summary) -> Markup:
    """The warnings, or that there are none."""
    if not summary.warnings and summary.is_wrong:
        return paragraph("There are no warnings besides the honest error, which is more than chance.")
    if not summary.warnings:
        return paragraph("Nothing looked wrong: there are no warnings.")
    return listed((_sentence(each) for each in summary.warnings), class_="warnings")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."
