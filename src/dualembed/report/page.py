"""A page about a fitted model that stands alone: no network, no script, one file."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from importlib import metadata, resources
from typing import Any

from dualembed.files import write_atomically
from dualembed.plot import function
from dualembed.plot.figures import dependence, leading
from dualembed.plot.surface import Surface, function_surface, tables_of
from dualembed.report import trust
from dualembed.report.answer import answer
from dualembed.report.glance import at_a_glance
from dualembed.report.html import Markup, element, figure, gallery, listed, paragraph, shown, table, text

PANELS = 9
PACKAGES = ("dualembed", "jax", "numpy", "scikit-learn")


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    data: Any = None,
    command: str | None = None,
    title: str | None = None,
) -> None:
    """Write one HTML page about a fitted model to `path`, whole or not at all; it can be sent and read anywhere.

    `data` is what the model was fitted to, by the names of `fit`'s arguments, as in `model.fit(**data)`: ranges of
    columns, averages and the worst contexts come from it, and the page makes do without. `command` is shown as the way
    to reproduce the fit; `title` stands above.
    """
    write_atomically(path, page(model, data=data, command=command, title=title))


def page(model: Any, *, data: Any = None, command: str | None = None, title: str | None = None) -> str:
    """The page as text."""
    surface, tables = function_surface(model, data), tables_of(model, data)
    sections: list[tuple[str, str, Callable[[], Any]]] = [
        ("question", "What was asked", lambda: _question(model)),
        ("data", "The data", lambda: at_a_glance(model, tables)),
        ("answer", "The answer", lambda: answer(model, surface, tables)),
        ("function", "The learnt function", lambda: _function(model, surface, data)),
        ("wrong", "Where it is still wrong", lambda: trust.still_wrong(model, tables)),
        ("errors", "How wrong, honestly", lambda: trust.errors(model)),
        ("trust", "Warnings and diagnostics", lambda: trust.diagnostics(model, tables)),
        ("choices", "What was chosen", lambda: _choices(model)),
        ("reproduce", "How to reproduce it", lambda: _reproduce(model, command)),
    ]
    links = listed(element("a", name, href=f"#{anchor}") for anchor, name, _ in sections)
    body = [
        element("section", element("h2", name), content(), id=anchor, tabindex="-1")
        for anchor, name, content in sections
    ]
    return _document(title or model.task_.title, element("nav", links, aria_label="Sections"), body)


def _document(title: str, navigation: Markup, body: list[Markup]) -> str:
    style = resources.files("dualembed.report").joinpath("page.css").read_text(encoding="utf-8")
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{text(title)}</title><style>{style}</style>"
    )
    skip = element("a", "Skip to the answer", href="#answer", class_="skip")
    header = element("header", element("h1", title), navigation)
    main = element("main", *body)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>{skip}{header}{main}</body></html>\n'


def _question(model: Any) -> Markup:
    task = model.task_
    return element("div", paragraph(task.question), paragraph(f"What is learnt is {task.function}."))


def _function(model: Any, surface: Surface, data: Any) -> Markup:
    said = _intervals(surface)
    if len(surface.axes) <= 2:
        names = " and ".join(axis.name for axis in surface.axes)
        caption = f"{surface.symbol} against {names}; {said}"
        return gallery(
            [figure(lambda ax: function(model, data, ax=ax), caption, f"The {surface.symbol} against {names}")]
        )
    axes = leading(surface, PANELS)
    how = "averaged over the rows of the data" if surface.rows is not None else "at their middle"
    note = f"One panel for each column, with the other columns {how}; {said}."
    if len(axes) < len(surface.axes):
        note += f" Shown are the {len(axes)} of {len(surface.axes)} columns that move it most."
    drawn = [
        figure(
            lambda ax, axis=axis: dependence(ax, surface, axis),  # type: ignore[misc]
            f"{surface.symbol} along {axis.name}",
            f"The {surface.symbol} along {axis.name}, with 95 % intervals",
        )
        for axis in axes
    ]
    return element("div", paragraph(note), gallery(drawn))


def _intervals(surface: Surface) -> str:
    """What the figures' bands and lines are."""
    if not surface.spreads:
        return "this solver gives no intervals"
    if len(surface.axes) == 2 and not any(axis.levels for axis in surface.axes):
        return "dashed lines are standard errors"
    return (
        "bands and bars are 95 % intervals" if any(axis.levels for axis in surface.axes) else "bands are 95 % intervals"
    )


def _choices(model: Any) -> Markup:
    steps = model.selection_.steps
    if not steps:
        return paragraph("Nothing was left to choose: the spaces and the solver were given.")
    rows = [
        [step.question, step.answer, ", ".join(f"{name} {value:.4g}" for name, value in step.numbers.items())]
        for step in steps
    ]
    note = "Everything that was not given was chosen from the data alone, by these numbers."
    return element("div", paragraph(note), table("Choices, in order", ["question", "choice", "by which numbers"], rows))


def _reproduce(model: Any, command: str | None) -> Markup:
    parts = []
    if command:
        # Options are elements of their own, lest lines end between their hyphens.
        words = [element("span", word) if word.startswith("--") else text(word) for word in command.split(" ")]
        code = element("code", Markup(" ".join(words)))
        block = element("pre", code, tabindex="0", role="region", aria_label="Command")
        parts += [paragraph("This command, on the same data, gives the same model:"), block]
    settings = [[name, shown(value)] for name, value in sorted(model.get_params(deep=False).items())]
    parts.append(table(f"Settings of {type(model).__name__}", ["setting", "value"], settings))
    versions = [[name, _version(name)] for name in PACKAGES] + [["Python", platform.python_version()]]
    parts.append(table("Versions", ["package", "version"], versions))
    return element("div", *parts)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed as a package"
