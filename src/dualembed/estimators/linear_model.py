"""The linear model of a regression's own columns, in their own units: two-stage least squares beside every fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.answers.linear_results import LinearResults
from dualembed.arrays import Floats, Integers
from dualembed.data.coding import Coding, ColumnCoding
from dualembed.data.frames import names_of, target
from dualembed.data.table import Table
from dualembed.linear.iv_design import IVDesign


def fit_linear(
    codings: Mapping[str, Coding], table: Table, groups: Integers | None, *, library: str = ""
) -> LinearResults:
    """Two-stage least squares of the table's columns, or least squares without instruments, with every test.

    Categories are indicators of all levels but the first. Refused where the columns do not identify the coefficients.
    """
    parts = {role: _columns(coding, getattr(table, role)) for role, coding in codings.items()}
    named = names_of(table.y)
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
    design = IVDesign.of(
        target(table.y, len(parts["X"][0])),
        values["X"],
        values.get("controls"),
        instruments=values.get("instruments"),
        clusters=groups,
        outcome_name="y" if named is None else named[0],
        endogenous_names=parts["X"][1],
        exogenous_names=parts["controls"][1] if values.get("controls") is not None else None,
        instrument_names=parts["instruments"][1] if "instruments" in parts else None,
    )
    return dataclasses.replace(LinearResults.of(design), library=library)


def coded_root(results: LinearResults, codings: Sequence[Coding]) -> Floats | None:
    """A root of the covariance of a line's weights in coded coordinates, the constant first.

    None where a column was left out, or where a category has several levels, which have a coordinate each.
    """
    columns = [column for coding in codings for column in coding.columns if column.width]
    if any(column.width > 1 for column in columns) or len(columns) + 1 != len(results.names):
        return None
    scales, means = (np.array([getattr(column, name) for column in columns]) for name in ("scale", "mean"))
    transform = np.zeros((len(columns) + 1, len(columns) + 1))
    transform[0, :-1], transform[0, -1] = means, 1.0
    transform[1:, :-1] = np.diag(scales)
    values, vectors = np.linalg.eigh(results.covariance)
    return transform @ (vectors * np.sqrt(np.maximum(values, 0.0)))


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
