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
from dualembed.data.frames import names_of
from dualembed.data.roles import ROLES
from dualembed.estimates import format_estimate
from dualembed.files import write_atomically
from dualembed.plot.surface import column_names, tables_of
from dualembed.progress import track
from dualembed.report import trust
from dualembed.report.html import (
    Markup,
    across,
    element,
    figure,
    image,
    listed,
    number,
    paragraph,
    proper,
    shown,
    table,
    text,
)
from dualembed.report.picture import Picture, picture_of, surface_of, whole_function

MOST = 30  # answers of a table
LABELS = ("episodes", "groups")
SHOWN_LEVELS = 6
CARD = (3.4, 2.4)  # inches
PATIENCE = 0.0  # seconds before a bar appears: those who wait for a report have their answer already
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
    surface, tables = surface_of(model, data), tables_of(model, data)
    summary, task = model.summary(), model.task_
    learnt = f"What is learnt is {task.function}."
    sections: list[tuple[str, str, Callable[[], Any]]] = [
        ("answer", "The answer", lambda: answer_section(summary, picture_of(model, summary, surface, tables), menu)),
        ("question", "What was asked", lambda: element("div", paragraph(task.question), paragraph(learnt))),
        ("data", "The data", lambda: data_section(model, summary, tables)),
        ("errors", "How wrong, honestly", lambda: trust.error_section(model, summary)),
        ("trust", "Warnings and diagnostics", lambda: trust.diagnostics_section(model, summary, tables)),
        ("function", "The learnt function", lambda: _shown(whole_function(surface))),
        ("wrong", "Where it is still wrong", lambda: trust.witness_section(model, tables)),
        ("choices", "What was chosen", lambda: _choices(summary)),
        ("reproduce", "How to reproduce it", lambda: _reproduce(model, command)),
    ]
    links = listed(element("a", name, href=f"#{anchor}") for anchor, name, _ in sections)
    menu, body = element("nav", links, aria_label="Sections"), []
    with track(len(sections), "Drawing the report ...", patience=PATIENCE) as tracker:
        for number, (anchor, name, content) in enumerate(sections):
            body.append(element("section", element("h2", name), content(), id=anchor, tabindex="-1"))
            tracker.advance(to=number + 1)
    return _document(title or task.title, body)


def _document(title: str, body: list[Markup]) -> str:
    style = resources.files("dualembed.report").joinpath("page.css").read_text(encoding="utf-8")
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{text(title)}</title><style>{style}</style>"
    )
    skip = element("a", "Skip to the answer", href="#answer", class_="skip")
    header, main = element("header", element("h1", title)), element("main", *body)
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
            yield [name, _what(model, role), *_range(column, seen)]


def _what(model: Fitted, role: str) -> str:
    """What a column is."""
    if role in ("X", "y"):
        return "outcome" if role == "y" else "treatment" if "instruments" in _codings(model) else "x"
    return ROLES[role].word.replace("_", " ")


def _range(column: ColumnCoding, seen: np.ndarray) -> list[Any]:
    """The cells least, median and largest; or one that says what there is instead."""
    if column.copy_of is not None:
        return [across("a copy of an earlier column, left out", 3)]
    if column.constant is not None:
        return [across(f"always {column.constant}, left out", 3)]
    if column.unused:
        return [across("says nothing beside the others, left out", 3)]
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
        called = (model.columns_ or {}).get(ROLES[name].word) or names_of(given) or [name]
        yield [called[0], _what(model, name), float(values.min()), float(np.median(values)), float(values.max())]


def _known_columns(model: Fitted) -> Iterator[list[Any]]:
    for role, coding in _codings(model).items():
        for name, column in zip(column_names(coding), coding.columns, strict=True):
            if not column.width or column.levels:
                yield [name, _what(model, role), *_range(column, np.empty(0))]
            else:
                yield [name, _what(model, role), column.mean, column.scale]


def answer_section(summary: Summary, picture: Picture, menu: Markup) -> Markup:
    """The headline, its verdict, warnings and picture, which are the first screen; a menu; and what else was found."""
    findings = summary.findings
    first = element("div", element("div", *headline_parts(summary)), _shown(picture), class_="first")
    parts = [paragraph(proper(each)) for each in findings.remarks]
    if findings.answers:
        heads, rows = summary.table()
        parts.append(table(findings.about, heads, [list(map(proper, row)) for row in rows[:MOST]]))
    if len(findings.answers) > MOST:
        parts.append(paragraph(f"{len(findings.answers) - MOST} more are not shown."))
    return element("div", first, menu, element("div", *parts, class_="details"))


def headline_parts(summary: Summary) -> list[Markup]:
    """The answer in a sentence, the verdict on it, what to worry about, and what it rests on."""
    headline = summary.headline
    sentence = element("strong", proper(f"{headline.title} is {headline.text()}."))
    parts = [paragraph(sentence, class_="answer")]
    if headline.verdict is not None:
        judged = verdict_text(headline).removeprefix(str(headline.verdict))
        kind = f"verdict {str(headline.verdict).replace(' ', '-')}"
        parts.append(paragraph("This answer is ", element("strong", str(headline.verdict)), judged, class_=kind))
    return [*parts, trust.warnings(summary), _note(summary)]


def _note(summary: Summary) -> Markup:
    """What the answer rests on."""
    notes = [f"From {summary.rows:,} {summary.task.row}s.", *trust.strengths(summary)]
    notes += ["What stands after ± is one standard error."] if np.isfinite(summary.headline.stderr) else []
    return paragraph(proper(" ".join(notes)), class_="note")


def _shown(picture: Picture) -> Markup:
    """A picture with its caption, as wide as there is room where it has many panels."""
    drawn = figure(picture.drawing, picture.caption, picture.alternative, picture.narrow)
    return element("div", drawn, class_="single" if picture.narrow is None else "single wide-figure")


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
    """A card in HTML, as notebooks show it: the answer, its verdict, its warnings and a small picture of it.

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
        summary = model.summary()
        body += [element("div", element("div", *_facts(summary)), _figure(model, summary), class_="fitted")]
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
    """The answer, its verdict and its warnings, in few words."""
    headline, error = summary.headline, summary.error
    judged = "" if headline.verdict is None else f", which is {headline.verdict}"
    sentence = proper(f"{headline.title} is {headline.text()}{judged}.")
    facts = [paragraph(element("strong", sentence), class_="answer")]
    facts += [trust.warnings(summary)] if summary.warnings else []
    facts.append(_note(summary))
    if error is not None:
        size = proper(format_estimate(error.value, error.stderr))
        told = f"Honest held-out error {size}; squared residuals would say {number(error.squared)}."
        facts.append(paragraph(told, class_="note"))
    return facts


def _figure(model: Fitted, summary: Summary) -> Markup:
    """The picture of the answer, small."""
    picture = picture_of(model, summary, surface_of(model), {}, CARD)
    return image(picture.drawing, picture.alternative)
