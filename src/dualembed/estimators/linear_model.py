"""The linear model of a regression's own columns, in their own units: two-stage least squares beside every fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.answers.iv_strength import rank_test
from dualembed.answers.iv_tests import SIZE
from dualembed.answers.linear_results import LinearResults
from dualembed.arrays import Floats, Integers
from dualembed.data.coding import Coding, ColumnCoding
from dualembed.data.frames import names_of, target
from dualembed.data.table import Table
from dualembed.estimators.absorbing import absorbed_levels
from dualembed.linear.iv_columns import INTERCEPT
from dualembed.linear.iv_design import IVDesign
from dualembed.linear.serial import NeweyWest, time_numbers

SLIGHT = 1e-3  # noise beside a column, in its deviations
COPIED = 1e-12  # difference between a column and y, in terms of y, up to which it is y


def fit_linear(
    codings: Mapping[str, Coding],
    table: Table,
    groups: Integers | None,
    weights: Floats | None = None,
    *,
    library: str = "",
) -> LinearResults:
    """Two-stage least squares of the table's columns, or least squares without instruments, with every test.

    Refused where the columns do not identify the coefficients.
    """
    covariance = NeweyWest() if is_path(table) else None
    return dataclasses.replace(
        LinearResults.of(linear_design(codings, table, groups, weights), covariance), library=library
    )


def is_path(table: Table) -> bool:
    """Whether rows are one path: their times are given, and no groups, which may go on as they will."""
    return table.time is not None and table.groups is None


def linear_design(
    codings: Mapping[str, Coding], table: Table, groups: Integers | None, weights: Floats | None = None
) -> IVDesign:
    """The design of the table's columns; categories are indicators of all levels but the first.

    Rows count by their `weights`, whose scale says nothing. Refused where no instrument, or no column of X, varies.
    """
    parts = {role: _columns(coding, getattr(table, role)) for role, coding in codings.items()}
    if "instruments" in parts and not parts["instruments"][1]:
        raise checks.InputError(
            f"no instrument varies ({checks.some(codings['instruments'].names)}), so that nothing tells the effect of "
            "X from that of hidden causes; give instruments that move X, or none for plain regression"
        )
    if not parts["X"][1]:
        raise checks.InputError(
            f"no column of X varies ({checks.some(codings['X'].names)}), so that there is no effect to be told; give "
            "columns that do"
        )
    values = {role: None if not names else columns for role, (columns, names) in parts.items()}
    rows = len(parts["X"][0])
    return IVDesign.of(
        target(table.y, rows),
        values["X"],
        values.get("controls"),
        instruments=values.get("instruments"),
        weights=weights,
        clusters=time_numbers(table.time, rows) if is_path(table) else groups,
        effects=None if table.absorb is None else absorbed_levels(table.absorb, rows)[0],
        outcome_name=outcome_name(table),
        endogenous_names=parts["X"][1],
        exogenous_names=parts["controls"][1] if values.get("controls") is not None else None,
        instrument_names=parts["instruments"][1] if "instruments" in parts else None,
    )


def term_names(coding: Coding) -> list[str]:
    """What the terms of a table's columns are called: columns that vary, and levels of categories but the first."""
    return [name for column in coding.columns if column.width for name in _names(column)]


def outcome_name(table: Table) -> str:
    """What the outcome is called: its column's name, or y."""
    return next(iter(table.names.get("y", ()) or names_of(table.y) or ()), "y")


def check_outcome(codings: Mapping[str, Coding], table: Table) -> list[str]:
    """Refuse an outcome that is a copy of a column, where an effect is asked for; of predictions warn of it."""
    words = {"X": "the column {} of X", "instruments": "the instrument {}", "controls": "the control {}"}
    for role, coding in codings.items():
        columns, names = _columns(coding, getattr(table, role))
        y = target(table.y, len(columns))
        for number, name in enumerate(names if np.ptp(y) > 0 else ()):
            if np.max(np.abs(columns[:, number] - y)) > COPIED * np.max(np.abs(y)):  # of coding and back
                continue
            said = f"y is a copy of {words[role].format(name)}, so that there is nothing to learn"
            if "instruments" in codings:
                raise checks.InputError(f"{said}; give the outcome, or leave that column out")
            return [said]
    return []


def coded_line(results: LinearResults, codings: Sequence[Coding]) -> tuple[Floats, Floats]:
    """(weights, a root of their covariance) of the line in coded coordinates, the constant first.

    A category has a coordinate for each level, of which the first, with which others are compared, has weight 0; so
    have columns that were left out.
    """
    known = {name: place for place, name in enumerate(results.names)}
    coordinates: list[tuple[str, float, float]] = []  # name, units of the column in one of the coordinate, mean
    for column in (column for coding in codings for column in coding.columns if column.width):
        names = _names(column) if not column.levels or column.width == 1 else ["", *_names(column)]
        units = (1.0, 0.0) if column.levels else (column.scale, column.mean)
        coordinates += [(name, *units) for name in names]
    transform = np.zeros((len(coordinates) + 1, len(results.names)))
    if INTERCEPT in known:  # which absorbed effects stand for
        transform[0, known[INTERCEPT]] = 1.0
    for row, (name, scale, mean) in enumerate(coordinates, start=1):
        if name in known:
            transform[row, known[name]], transform[0, known[name]] = scale, mean
    return transform @ results.values, transform @ root_of(results.covariance)


def line_constant(results: LinearResults, codings: Sequence[Coding], function: Any, slopes: Floats) -> float:
    """The constant, in the columns' own units, of a line (1, 1 - 1, x - centre) of coded coordinates x."""
    at_zero = float(np.asarray(function.weights)[0] - slopes @ np.asarray(function.features.centre)[1:])
    numbers = {column.name: column.mean for coding in codings for column in coding.columns if not column.levels}
    return at_zero - sum(slope * numbers.get(name, 0.0) for name, slope in results.params.items())


def root_of(covariance: Floats) -> Floats:
    """A root of a covariance; where that of two ways of clusters has negative eigenvalues, of one with its diagonal."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    sizes = np.linalg.norm(root, axis=1)
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return np.asarray(root * np.where(sizes > 0, errors / np.where(sizes > 0, sizes, 1.0), 0.0)[:, None])


def unidentified(codings: Mapping[str, Coding], table: Table, results: LinearResults | None) -> str:
    """Why the effects of X cannot be told by these instruments, by no f; nothing where they can, or there are none.

    Instruments that do not tell coefficients apart may still tell those of a curved first stage: squares and products
    of the instruments, beside those of the controls, are then tried for instruments.
    """
    if "instruments" not in codings:
        return ""
    rank = None if results is None else results.test("rank")
    if rank is not None and rank.pvalue < SIZE:
        return ""
    endogenous, exogenous, instruments = (
        _columns(codings[role], getattr(table, role))[0] if role in codings else np.empty((0, 0))
        for role in ("X", "controls", "instruments")
    )
    said = UNTOLD if rank is None or endogenous.shape[1] > 1 else UNMOVED
    if not instruments.shape[1] or not endogenous.shape[1]:
        return said
    controls = curved(exogenous) if exogenous.size else None
    moved = beyond(curved(instruments), controls)
    noise = np.random.default_rng(0).normal(size=(len(moved), 1 + endogenous.shape[1]))
    for share in (0.0, SLIGHT):  # of columns that the instruments say exactly no test is known, but for some noise
        own = endogenous + share * endogenous.std(axis=0) * noise[:, 1:]
        try:  # it is a test of X alone, whatever the outcome
            found = rank_test(IVDesign.of(noise[:, 0], own, controls, instruments=moved))
        except checks.InputError:
            continue
        return "" if found.pvalue < SIZE else said
    return said


UNTOLD = "the instruments do not tell the effects of its columns apart"
UNMOVED = "the instruments do not move its column"


def curved(columns: Floats) -> Floats:
    """Columns (n, q), standardised, with their squares and products, as many as rows can tell: one for 20 of them."""
    spread = columns.std(axis=0)
    z = (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    pairs = [(i, j) for i in range(z.shape[1]) for j in range(i, z.shape[1])]
    most = max(len(z) // 20 - z.shape[1], 0)
    return np.concatenate([z, *(z[:, [i]] * z[:, [j]] for i, j in pairs[:most])], axis=1)


def beyond(columns: Floats, others: Floats | None) -> Floats:
    """Those of the columns (n, q) that others and a constant do not say already."""
    constant = np.ones((len(columns), 1))
    base = constant if others is None else np.concatenate([constant, others], axis=1)
    left = columns - base @ np.linalg.lstsq(base, columns, rcond=None)[0]
    return columns[:, np.linalg.norm(left, axis=0) > 1e-8 * np.maximum(np.linalg.norm(columns, axis=0), 1e-300)]


def _columns(coding: Coding, given: Any) -> tuple[Floats, list[str]]:
    """The columns (n, k) that vary, in their own units, and their names."""
    coded = coding.encode(given)
    columns, names = [np.empty((len(coded), 0))], []
    for column, start in zip(coding.columns, coding.starts, strict=True):
        if column.width:
            columns.append(_values(column, coded[:, start : start + column.width]))
            names += _names(column)
    return np.concatenate(columns, axis=1), names


def _values(column: ColumnCoding, coded: Floats) -> Floats:
    if not column.levels:
        return column.mean + column.scale * coded
    return coded if column.width == 1 else coded[:, 1:]


def _names(column: ColumnCoding) -> list[str]:
    return [f"{column.name}={level}" for level in column.levels[1:]] if column.levels else [column.name]
