"""The tables of a regression by instruments: treatments, controls beside them or among them, instruments, weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.answers import Question
from dualembed.answers.question import values
from dualembed.data.coding import Coding
from dualembed.data.frames import column_names, count_rows, target
from dualembed.data.table import Table
from dualembed.estimators.absorbing import (
    without_effects,
)
from dualembed.estimators.controls import split_categories, split_controls
from dualembed.estimators.econometrics import Econometrics
from dualembed.estimators.weighting import COUNTS, Weighting, weigh
from dualembed.linear.clusters import cluster_numbers
from dualembed.linear.serial import path_blocks, time_numbers
from dualembed.problems import InstrumentalVariables
from dualembed.sources import Dataset


class IVTables(Econometrics):
    """A regression whose tables are X, controls, instruments and an outcome."""

    controls: Any
    weighting: str
    categorical_features: Any
    absorbed_: tuple[str, ...] = ()  # models that were saved before it was kept have none
    weighting_: Weighting = COUNTS  # what weights of earlier rows meant
    columns_of_x_: list[str]

    @property
    def instruments_(self) -> Coding | None:
        """How instruments are coded; None without."""
        return self.schema_.codings.get("instruments")

    @property
    def controls_(self) -> Coding | None:
        """How controls are coded; None without."""
        return self.schema_.codings.get("controls")

    def _code(self, table: Table) -> None:
        if self.controls is not None:
            self.columns_of_x_ = column_names(table.X, "X")
        super()._code(self._parted(table))

    def _fit_codings(self, table: Table) -> dict[str, Coding]:
        """The codings of all tables. Names of categories may be those of any table; places and masks are of X."""
        asked = self.categorical_features
        if self.controls is not None:
            asked = split_categories(asked, self.columns_of_x_)
        named = [each for each in ([] if asked is None or isinstance(asked, str) else asked) if isinstance(each, str)]

        codings = {}
        for role in ("controls", "instruments"):
            if (given := getattr(table, role)) is not None:
                categories = [name for name in column_names(given, role) if name in named]
                codings[role] = Coding.fit(role, given, categorical=categories)
        own, beside = column_names(table.X, "X"), codings["controls"].names if "controls" in codings else []
        shared = [name for name in own if name in beside]
        if shared:
            raise checks.InputError(
                f"X and controls both have a column {shared[0]}; leave it out of one, or give it another name there"
            )
        elsewhere = {name for coding in codings.values() for name in coding.names}
        if named:
            asked = [each for each in asked if each in own or each not in elsewhere]
        return codings | {"X": Coding.fit("X", table.X, categorical=asked)}

    @property
    def _named_inputs(self) -> dict[str, list[str]] | None:
        return None if self.controls is None else {"x": self.columns_of_x_}

    def _problem(self, table: Table) -> tuple[Any, np.ndarray | None]:
        weighed = weigh(table, self.weighting)
        return self._weighted_problem(weighed.table, weighed.mass(weighed.weighting))

    def _weighted_problem(self, table: Table, mass: np.ndarray | None) -> tuple[Any, np.ndarray | None]:
        """The problem of the coded data, whose rows count by their mass, and the number of each row's group."""
        table = self._parted(table)
        x = self.coding_.encode(table.X)
        if (table.instruments is None) != (self.instruments_ is None):
            raise checks.InputError("instruments must be given here as in the fit: in both or in neither")
        z = x if self.instruments_ is None else self.instruments_.encode(table.instruments)
        for name, part in (("instruments", z), ("controls", table.controls)):
            if part is not None and (count := count_rows(part)) != len(x):
                raise checks.InputError(f"X has {len(x)} rows, but {name} {count}; give one a sample")
        x, z = (_beside(part, self.controls_, table.controls) for part in (x, z))
        y = target(table.y, len(x))
        if (table.absorb is None) != (not self.absorbed_):
            raise checks.InputError("absorb must be given here as in the fit: in both or in neither")
        if self.absorbed_:  # compared within levels alone
            y = without_effects(y, values(self.function_, x), table.absorb, mass)
        columns = {"x": x, "y": y, "z": z}
        problem = InstrumentalVariables(Dataset(**columns, **({} if mass is None else {"mass": mass})))
        if table.groups is not None:
            return problem, cluster_numbers("groups", table.groups, len(x))[0]
        return problem, None if table.time is None else path_blocks(time_numbers(table.time, len(x)))

    def _parted(self, table: Table) -> Table:
        """The table with controls apart from X."""
        X, controls = self._apart(table.X, table.controls)
        return dataclasses.replace(table, columns={**table.columns, **Table.of(X=X, controls=controls).columns})

    def _apart(self, X: Any, controls: Any) -> tuple[Any, Any]:
        """X and controls, which may be columns of X."""
        if self.controls is None:
            return X, controls
        if controls is not None:
            raise checks.InputError(
                f"controls are columns of X by the parameter controls={self.controls!r}, and were given besides; give "
                "all of them in one of the two places"
            )
        return split_controls(X, self.controls)

    def _rows_of(self, X: Any, controls: Any, *, repeated: bool = False) -> tuple[np.ndarray, np.ndarray]:
        self._check_columns(X)
        X, controls = self._apart(X, controls)
        _check_given(self.controls_, controls)
        parts = [coding.locate(table) for coding, table in zip(self._codings(), (X, controls), strict=False)]
        if repeated and len(parts[0][0]) == 1:
            (point, away), count = parts[0], len(parts[-1][0])
            parts[0] = np.repeat(point, count, axis=0), np.repeat(away, count)
        counts = [len(points) for points, _ in parts]
        if len({*counts}) > 1:
            raise checks.InputError(f"X has {counts[0]} rows, but controls {counts[1]}; give one a sample")
        return np.concatenate([points for points, _ in parts], axis=1), np.sum([away for _, away in parts], axis=0)

    def _mean_at(
        self, words: str, rows: np.ndarray, shares: np.ndarray, *, strays: np.ndarray, groups: Any, mass: Any = None
    ) -> Question:
        return Question.mean(words, rows, shares, groups, strays, mass)

    def _locate(self, table: Table) -> tuple[np.ndarray, np.ndarray]:
        return self._rows_of(table.X, table.controls)

    def _contexts(self, table: Table) -> np.ndarray:
        """Instruments, or without them X, which then stands in their place, with the controls beside."""
        coding = self._coding() if self.instruments_ is None else self.instruments_
        return _beside(coding.encode(table.instruments), self.controls_, table.controls)

    def _decoded(self, points: np.ndarray) -> tuple[Any, ...]:
        """X with the controls beside it at coded points: an array, or a dictionary where there are categories."""
        tables = super()._decoded(points)
        if len(tables) == 1:
            return tables
        found: dict[str, np.ndarray] = {}
        for coding, table in zip(self._codings(), tables, strict=True):
            found |= table if isinstance(table, dict) else dict(zip(coding.names, table.T, strict=True))
        if self.controls is not None:
            found = {name: found[name] for name in self.columns_of_x_}
        return (found if any(isinstance(table, dict) for table in tables) else np.stack([*found.values()], axis=1),)


def _beside(points: np.ndarray, coding: Coding | None, controls: Any) -> np.ndarray:
    _check_given(coding, controls)
    return points if coding is None else np.concatenate([points, coding.encode(controls)], axis=1)


def _check_given(coding: Coding | None, controls: Any) -> None:
    if (coding is None) != (controls is None):
        raise checks.InputError("controls must be given here as in the fit: in both or in neither")
