"""Weights of rows: how many equal rows each stands for, or how many members of a population a survey drew it for."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from dualembed import checks
from dualembed.answers import Setting
from dualembed.data.frames import as_column, count_rows, describe_rows
from dualembed.data.table import Table
from dualembed.problems.base import normalised_mass

WEIGHTINGS = ("auto", "frequency", "survey")
WEIGHTING = Setting(
    "weighting",
    "What --sample-weight says: frequency, how many equal rows a row stands for; or survey, how much it counts.",
    default="auto",
    words=WEIGHTINGS,
)
CENSUS = 5.0  # mean of whole numbers from which on they look like survey weights
MOST = 20_000_000  # rows that others may be counted as


@dataclasses.dataclass(frozen=True)
class Weighting:
    """What the weights of all rows so far mean: `survey` weights, of this sum and sum of squares, or else counts.

    Both are in terms of a `unit`, the largest weight of the first rows: squares of any number would leave the range.
    """

    survey: bool
    unit: float = 1.0
    total: float = 0.0
    squares: float = 0.0

    @property
    def factor(self) -> float:
        """What survey weights are multiplied by, so that their sum is how many rows they are worth."""
        return self.total / self.squares

    @property
    def worth(self) -> float:
        """How many rows of equal weights say as much (Kish)."""
        return self.total * self.factor


COUNTS = Weighting(False)


class Weighed(NamedTuple):
    """A table whose rows are there as often as they count, or survey weights (n,) of its rows; and warnings."""

    table: Table
    weighting: Weighting = COUNTS
    weights: np.ndarray | None = None
    warnings: tuple[str, ...] = ()

    def mass(self, weighting: Weighting) -> np.ndarray | None:
        """How many rows each row counts as, by what all rows are worth; None where all count alike."""
        return None if self.weights is None else self.weights * weighting.factor


def weigh(table: Table, weighting: str, known: Weighting | None = None) -> Weighed:
    """Read the weights of a table's rows, and leave out rows of weight 0; those `known` say what weights mean."""
    if weighting not in WEIGHTINGS:
        raise checks.InputError(f"weighting must be one of {', '.join(WEIGHTINGS)}, not {weighting!r}")
    given = table.sample_weight
    if given is None and known is not None and known.survey:
        raise checks.InputError(
            "sample_weight must be given with more rows, too, since earlier ones have survey weights; give 1 for each "
            "where all count alike"
        )
    if given is None:
        return Weighed(table)
    weights, columns = _read(table)
    plain = dataclasses.replace(table, columns=columns)
    whole = bool(np.all(weights == np.round(weights)))
    if known is None:
        survey = weighting == "survey" or (weighting == "auto" and not whole)
    else:
        survey = known.survey
    if not survey:
        return _counted(plain, weights, whole=whole, sure=weighting == "frequency")
    some = weights > 0
    unit = float(weights.max()) if known is None else known.unit
    weights = weights[some] / unit
    plain = plain if some.all() else plain.taken(np.flatnonzero(some))
    read = Weighting(True, unit, float(weights.sum()), float(weights @ weights))
    return Weighed(plain, read, weights)


def weigh_transitions(table: Table) -> Table:
    """The table with rows as often as whole weights say; others in the place of `sample_weight`, scaled to masses.

    Rows of weight 0 are gone. What it returns has the same masses when it is weighed again.
    """
    if table.sample_weight is None:
        return table
    weights, columns = _read(table)
    plain = dataclasses.replace(table, columns=columns)
    if np.all(weights == np.round(weights)):
        weighed = _counted(plain, weights, whole=True, sure=True)
        return weighed.table
    some = np.flatnonzero(weights > 0)
    kept = plain.taken(some)
    return dataclasses.replace(kept, columns={**kept.columns, "sample_weight": normalised_mass(weights[some])})


def _read(table: Table) -> tuple[np.ndarray, dict[str, Any]]:
    """The weights (n,) of a table's rows, and its other columns."""
    first = "X" if table.X is not None else "states"
    weights = _checked(table.sample_weight, count_rows(getattr(table, first)))
    columns = {role: column for role, column in table.columns.items() if role != "sample_weight"}
    for role, column in columns.items():
        if not np.isscalar(column) and (count := count_rows(column)) != len(weights):
            raise checks.InputError(f"{role} has {count} rows, but {first} {len(weights)}; give one a sample")
    return weights, columns


def join(before: Weighting, more: Weighting) -> tuple[Weighting, float]:
    """(what all weights mean, by what masses of earlier rows are to be multiplied where there are more rows)."""
    if not more.survey:
        return before, 1.0
    joined = Weighting(True, before.unit, before.total + more.total, before.squares + more.squares)
    return joined, joined.factor / before.factor


def _counted(table: Table, weights: np.ndarray, *, whole: bool, sure: bool) -> Weighed:
    """The table with every row as often as its weight says."""
    if not whole:
        bad = np.flatnonzero(weights != np.round(weights))[0]
        raise checks.InputError(
            f"sample_weight counts rows, but is {weights[bad]:g} in row {bad}; give whole numbers, or "
            "weighting='survey' from the first rows on"
        )
    if weights.sum() > MOST:
        raise checks.InputError(
            f"sample_weight counts {weights.sum():,.0f} rows, more than the {MOST:,} that fit; if these are survey "
            "weights, give weighting='survey'"
        )
    counts = weights.astype(int)
    repeated = table if np.all(counts == 1) else table.taken(np.repeat(np.arange(len(counts)), counts))
    notes: tuple[str, ...] = ()
    if not sure and weights[weights > 0].mean() >= CENSUS:
        notes = (
            f"sample_weight has whole numbers, {weights[weights > 0].mean():.3g} on average, which were taken for "
            "numbers of equal rows; if they say how many members of a population a row stands for, give "
            "weighting='survey', or errors are too small",
        )
    return Weighed(repeated, warnings=notes)


def _checked(given: Any, rows: int) -> np.ndarray:
    """Weights (n,), refused where they are none."""
    if np.isscalar(given):
        given = np.full(rows, given)
    weights = as_column("sample_weight", given, rows)
    if (bad := weights < 0).any():
        raise checks.InputError(
            f"sample_weight must not be below 0, but is in {describe_rows(bad)}; give 0 to leave a row out"
        )
    if not weights.any():
        raise checks.InputError("sample_weight is zero in every row, which leaves none; give some a weight above it")
    return weights
