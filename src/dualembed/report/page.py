"""A page about a fitted model that stands alone, with no network, no script, one file; and a card for notebooks."""

from __future__ import annotations

import inspect
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata, resources
from typing import Any

import numpy as np

from dualembed.answers.summary import Summary, verdict_text
from dualembed.answers.task import Fitted
from dualembed.data.coding import Coding, ColumnCoding
from dualembed.estimates import format_estimate
from dualembed.files import write_atomically
from dualembed.plot.figures import dependence, draw, leading
from dualembed.plot.surface import Surface, column_names, function_surface, tables_of
from dualembed.report import trust
from dualembed.report.html import (
    Markup,
    across,
    element,
    figure,
    gallery,
    image,
    listed,
    number,
    paragraph,
    proper,
    shown,
    table,
    text,
)

PANELS = 9
MOST = 30  # answers of a table
LABELS = ("episodes", "groups")
SHOWN_LEVELS = 6
CARD = (3.2, 2.2)  # inches
PACKAGES = ("dualembed", "jax", "numpy", "scikit-learn")


def write_report(
    model: Fitted,
    path: str | os.PathLike[str],
    *,
    data: Any = None,
    command: str | None = None,
    title: str | None = None,
) -> None:
    """Write one HTML page about a fitted model, whole or not at all; it can be sent and read anywhere.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    path : str or path
        The file.
    data : dict, optional
        What the model was fitted to, as in `model.fit(**data)`: ranges of columns, averages and the worst contexts come
        from it, and the page makes do without.
    command : str, optional
        Shown as the way to reproduce the fit.
    title : str, optional
        Title of the page.
    """
    write_atomically(path, page(model, data=data, command=command, title=title))


def page(model: Fitted, *, data: Any = None, command: str | None = None, title: str | None = None) -> str:
    """The page as text."""
    surface, tables = function_surface(model, data), tables_of(model, data)
    summary, task = model.summary(), model.task_
    learnt = f"What is learnt is {task.function}."
    sections: list[tuple[str, str, Callable[[], Any]]] = [
        ("question", "What was asked", lambda: element("div", paragraph(task.question), paragraph(learnt))),
        ("data", "The data", lambda: data_section(model, summary, tables)),
        ("answer", "The answer", lambda: answer_section(summary)),
        ("function", "The learnt function", lambda: _function(surface)),
        ("wrong", "Where it is still wrong", lambda: trust.witness_section(model, tables)),
        ("errors", "How wrong, honestly", lambda: trust.error_section(model, summary)),
        ("trust", "Warnings and diagnostics", lambda: trust.diagnostics_section(model, summary, tables)),
        ("choices", "What was chosen", lambda: _choices(summary)),
        ("reproduce", "How to reproduce it", lambda: _reproduce(model, command)),
    ]
    links = listed(element("a", name, href=f"#{anchor}") for anchor, name, _ in sections)
    body = [
        element("section", element("h2", name), content(), id=anchor, tabindex="-1")
        for anchor, name, content in sections
    ]
    return _document(title or task.title, element("nav", links, aria_label="Sections"), body)


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


def data_section(model: Fitted, summary: Summary, tables: Mapping[str, Any]) -> Markup:
    """Rows and episodes in a sentence, columns in a table."""
    heads = ["column", "what it is", "least", "median", "largest"]
    parts = [paragraph(_counts(summary, tables))]
    if tables:
        rows = [*_coded(model, tables), *_vectors(model, tables)]
        parts.append(table("Columns of the data, in their own units", heads, rows))
    else:
        note = "The data themselves were not given to this page; what follows is what the model remembers of them."
        heads = ["column", "what it is", "mean", "standard deviation"]
        parts += [paragraph(note), table("Columns that the model knows", heads, _known_columns(model))]
    return element("div", *parts)


def _counts(summary: Summary, tables: Mapping[str, Any]) -> str:
    counted = f"The model was fitted to {summary.rows:,} {summary.task.row}s"
    for name in LABELS:
        if name in tables:
            sizes = np.unique(np.asarray(tables[name]), return_counts=True)[1]
            what = f"{len(sizes):,} {name} ({np.median(sizes):,.0f} rows in the median one)"
            return (
                f"{counted} from {what}. Rows of the same one depend on each other; the standard errors allow for it."
            )
    return f"{counted}, taken to be independent of each other."


def _codings(model: Fitted) -> dict[str, Coding]:
    """How the model codes its tables, by their roles."""
    return {coding.role: coding for coding in [*model._codings(), *model._context_codings()]}


def _coded(model: Fitted, tables: Mapping[str, Any]) -> Iterator[list[Any]]:
    for role, coding in _codings(model).items():
        if role not in tables:
            continue
        points = coding.encode(tables[role])
        for name, column, start in zip(column_names(coding), coding.columns, coding.starts, strict=True):
            seen = column.decode(points[:, start : start + column.width]) if column.width else np.empty(0)
            yield [name, role, *_range(column, seen)]


def _range(column: ColumnCoding, seen: np.ndarray) -> list[Any]:
    """The cells least, median and largest; or one that says what there is instead."""
    if column.copy_of is not None:
        return [across("a copy of an earlier column, left out", 3)]
    if column.constant is not None:
        return [across(f"always {column.constant}, left out", 3)]
    if column.levels:
        return [across(_levels(column), 3)]
    return [float(seen.min()), float(np.median(seen)), float(seen.max())]


def _levels(column: ColumnCoding) -> str:
    names = ", ".join(map(str, column.levels[:SHOWN_LEVELS]))
    return f"{len(column.levels)} levels: {names}" + (", …" if len(column.levels) > SHOWN_LEVELS else "")


def _vectors(model: Fitted, tables: Mapping[str, Any]) -> Iterator[list[Any]]:
    """Rewards, targets, marks and the like: one number a row."""
    coded = {*_codings(model), "next_states", "next_actions", *LABELS}
    for name, given in tables.items():
        values = np.asarray(given)
        if name in coded or values.dtype.kind not in "iufb" or values.size != len(values.ravel()):
            continue
        values = values.astype(np.float64).ravel()
        yield [name, "numbers", float(values.min()), float(np.median(values)), float(values.max())]


def _known_columns(model: Fitted) -> Iterator[list[Any]]:
    for role, coding in _codings(model).items():
        for name, column in zip(column_names(coding), coding.columns, strict=True):
            if not column.width or column.levels:
                yield [name, role, *_range(column, np.empty(0))]
            else:
                yield [name, role, column.mean, column.scale]


def answer_section(summary: Summary) -> Markup:
    """The headline with the verdict on it, and what else there is to say in numbers."""
    headline, findings = summary.headline, summary.findings
    sentence = element("strong", proper(f"{headline.title} is {headline.text()}."))
    parts = [paragraph(sentence, class_="answer")]
    if headline.verdict is not None:
        judged = verdict_text(headline).removeprefix(str(headline.verdict))
        parts.append(paragraph("This answer is ", element("strong", str(headline.verdict)), judged))
    parts += [paragraph(f"{each[:1].upper()}{each[1:]}.") for each in headline.warnings]
    if np.isfinite(headline.stderr):
        parts.append(paragraph("What stands after ± is one standard error."))
    parts += [paragraph(proper(each)) for each in findings.remarks]
    if findings.answers:
        heads, rows = summary.table()
        parts.append(table(findings.about, heads, [list(map(proper, row)) for row in rows[:MOST]]))
    if len(findings.answers) > MOST:
        parts.append(paragraph(f"{len(findings.answers) - MOST} more are not shown."))
    return element("div", *parts)


def _function(surface: Surface) -> Markup:
    bands = _intervals(surface)
    if len(surface.axes) <= 2:
        names = " and ".join(axis.name for axis in surface.axes)
        caption = f"{surface.symbol} against {names}; {bands}"
        return gallery([figure(lambda ax: draw(ax, surface), caption, f"The {surface.symbol} against {names}")])
    axes = leading(surface, PANELS)
    how = "averaged over the rows of the data" if surface.rows is not None else "at their middle"
    note = f"One panel for each column, with the other columns {how}; {bands}."
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


def _choices(summary: Summary) -> Markup:
    steps = summary.selection
    if not steps:
        return paragraph("Nothing was left to choose: the spaces and the solver were given.")
    rows = [
        [step.question, step.answer, ", ".join(f"{name} {value:.4g}" for name, value in step.numbers.items())]
        for step in steps
    ]
    note = "Everything that was not given was chosen from the data alone, by these numbers."
    return element("div", paragraph(note), table("Choices, in order", ["question", "choice", "by which numbers"], rows))


def _reproduce(model: Fitted, command: str | None) -> Markup:
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


def card(model: Fitted) -> str:
    """A card in HTML, as notebooks show it: settings, what was learnt, its honest error, warnings, a small figure.

    Parameters
    ----------
    model : estimator
        An estimator; of one that has not been fitted name and settings alone.

    Returns
    -------
    str
        The HTML.
    """
    style = resources.files("dualembed.report").joinpath("card.css").read_text(encoding="utf-8")
    head = element("p", element("strong", type(model).__name__), *_changed(model), class_="name")
    body = [head]
    if model.__sklearn_is_fitted__():
        body += [element("div", element("div", *_facts(model.summary())), _figure(model), class_="fitted")]
    else:
        body.append(paragraph("Not fitted yet."))
    return element("style", Markup(style)) + element("div", *body, class_="dualembed-card")


def _changed(model: Fitted) -> list[Any]:
    """Settings that differ from the defaults."""
    defaults = inspect.signature(type(model)).parameters
    changed = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if repr(value) != repr(defaults[name].default)
    }
    if not changed:
        return []
    return [Markup(" "), element("code", ", ".join(f"{name}={shown(value)}" for name, value in changed.items()))]


def _facts(summary: Summary) -> list[Markup]:
    headline, error = summary.headline, summary.error
    judged = "" if headline.verdict is None else f", which is {headline.verdict}"
    facts = [
        f"Learnt from {summary.rows:,} {summary.task.row}s: {summary.task.function}.",
        proper(f"{headline.title} is {headline.text()}{judged}."),
    ]
    if error is not None:
        size = proper(format_estimate(error.value, error.stderr))
        facts.append(f"Honest held-out error {size}; squared residuals would say {number(error.squared)}.")
    facts += [f"{step.question}: {step.answer}" for step in summary.selection[:2]]
    return [*map(paragraph, facts), *([trust.warnings(summary)] if summary.warnings else [])]


def _figure(model: Fitted) -> Markup:
    """f, or how it depends on the column that moves it most."""
    surface = function_surface(model)
    if len(surface.axes) <= 2:
        return image(lambda ax: draw(ax, surface), f"The {surface.symbol}", size=CARD)
    (axis,) = leading(surface, 1)
    return image(lambda ax: dependence(ax, surface, axis), f"The {surface.symbol} along {axis.name}", size=CARD)
