"""The data at a glance: rows, episodes, and the range of every column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dualembed.data.roles import ROLES
from dualembed.plot.surface import names_of
from dualembed.report.html import Markup, across, element, paragraph, table

CODINGS = ("inputs_", "coding_", "actions_", "instruments_", "controls_")
LABELS = ("episodes", "groups")
SHOWN_LEVELS = 6


def at_a_glance(model: Any, tables: dict[str, Any]) -> Markup:
    """Rows and episodes in a sentence, columns in a table."""
    heads = ["column", "what it is", "least", "median", "largest"]
    parts = [paragraph(_counts(model, tables))]
    if tables:
        rows = [*_coded(model, tables), *_vectors(model, tables)]
        parts.append(table("Columns of the data, in their own units", heads, rows))
    else:
        note = "The data themselves were not given to this page; what follows is what the model remembers of them."
        heads = ["column", "what it is", "mean", "standard deviation"]
        parts += [paragraph(note), table("Columns that the model knows", heads, _remembered(model))]
    return element("div", *parts)


def _counts(model: Any, tables: dict[str, Any]) -> str:
    said = f"The model was fitted to {model.diagnostics_.rows:,} {model.task_.row}s"
    for name in LABELS:
        if name in tables:
            sizes = np.unique(np.asarray(tables[name]), return_counts=True)[1]
            what = f"{len(sizes):,} {name} ({np.median(sizes):,.0f} rows in the median one)"
            return f"{said} from {what}. Rows of the same one depend on each other; the standard errors allow for it."
    return f"{said}, taken to be independent of each other."


def codings_of(model: Any) -> list[Any]:
    """How the model codes its tables; that of variations of X goes, where X's own is there."""
    found = [getattr(model, name, None) for name in CODINGS]
    return [coding for coding in found if coding is not None and ROLES[coding.role].follows is None]


def _coded(model: Any, tables: dict[str, Any]) -> Iterator[list[Any]]:
    for coding in codings_of(model):
        if coding.role not in tables:
            continue
        points, start = coding.encode(tables[coding.role]), 0
        for name, column in zip(names_of(model, coding), coding.columns, strict=True):
            seen = column.decode(points[:, start : start + column.width]) if column.width else np.empty(0)
            yield [name, coding.role, *_range(column, seen)]
            start += column.width


def _range(column: Any, seen: np.ndarray) -> list[Any]:
    """The cells least, median and largest; or one that says what there is instead."""
    if column.copy_of is not None:
        return [across("a copy of an earlier column, left out", 3)]
    if column.constant is not None:
        return [across(f"always {column.constant}, left out", 3)]
    if column.levels:
        return [across(_levels(column), 3)]
    return [float(seen.min()), float(np.median(seen)), float(seen.max())]


def _levels(column: Any) -> str:
    names = ", ".join(map(str, column.levels[:SHOWN_LEVELS]))
    return f"{len(column.levels)} levels: {names}" + (", …" if len(column.levels) > SHOWN_LEVELS else "")


def _vectors(model: Any, tables: dict[str, Any]) -> Iterator[list[Any]]:
    """Rewards, targets, marks and the like: one number a row."""
    coded = {coding.role for coding in codings_of(model)} | {"next_states", "next_actions", *LABELS}
    for name, given in tables.items():
        values = np.asarray(given)
        if name in coded or values.dtype.kind not in "iufb" or values.size != len(values.ravel()):
            continue
        values = values.astype(np.float64).ravel()
        yield [name, "numbers", float(values.min()), float(np.median(values)), float(values.max())]


def _remembered(model: Any) -> Iterator[list[Any]]:
    for coding in codings_of(model):
        for name, column in zip(names_of(model, coding), coding.columns, strict=True):
            if not column.width or column.levels:
                yield [name, coding.role, *_range(column, np.empty(0))]
            else:
                yield [name, coding.role, column.mean, column.scale]
