"""How a regression by instruments is fitted: its own f, and two-stage least squares of the same columns beside it."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.answers import LinearResults
from dualembed.answers.question import values
from dualembed.data.coding import Coding
from dualembed.data.frames import order_at_random
from dualembed.data.libraries import library_of
from dualembed.data.table import Table
from dualembed.estimators.absorbing import (
    absorbed_levels,
    centred,
    masses,
    with_levels,
    within_levels,
    without_codes,
)
from dualembed.estimators.base import require_2d
from dualembed.estimators.diagnostics import (
    LOOKED_AT,
    FirstStage,
    ReliabilityWarning,
    first_stage,
    first_stage_warnings,
)
from dualembed.estimators.iv_tables import IVTables
from dualembed.estimators.learning import RowSample
from dualembed.estimators.linear_columns import LinearColumn, every_column, linear_columns, origin, slopes_of
from dualembed.estimators.linear_model import (
    check_outcome,
    coded_line,
    fit_linear,
    is_path,
    line_constant,
    outcome_name,
    unidentified,
)
from dualembed.estimators.weak_instruments import is_weak, widen
from dualembed.estimators.weighting import join, weigh
from dualembed.linear.clusters import by_appearance, coarser, count_clusters
from dualembed.linear.moment_fit import Spread
from dualembed.problems import InstrumentalVariables
from dualembed.selection import Selection, auto
from dualembed.selection.forms import Form
from dualembed.selection.sparse import equal_rows, is_wide, select_columns
from dualembed.solvers.base import Choice, Result
from dualembed.sources import Dataset
from dualembed.spaces.basis import AffineMap
from dualembed.spaces.within import CentredMap

FEWEST_CLUSTERS = 20  # that columns are chosen by


class IVFitting(IVTables):
    """A regression by instruments that is fitted, judged and told in its columns' own units."""

    linear: Any
    linear_: LinearResults | None = None  # models that were saved before it was kept have none
    outcome_: str = "y"  # likewise; else the name of the outcome's column, where it has one
    clusters_: int | None = None  # likewise
    path_: bool = False  # likewise: whether rows are one path in time
    widening_: tuple[np.ndarray, str] | None = None  # likewise: what weak instruments add to errors, and what that says
    coef_names_: Any
    coef_: np.ndarray
    coef_stderr_: np.ndarray
    intercept_: float
    _factors = 0  # of the fit that is going on

    def _fit_first(self, table: Table) -> None:
        if table.instruments is None and table.controls is None:
            require_2d(table.X)  # as scikit-learn wants it of what is fitted to (X, y) alone
        self._set_feature_names(table.X)
        if table.y is None:
            raise checks.InputError("IVRegressor requires y to be passed, but the target y is None")
        weighed = weigh(table, self.weighting)
        self.weighting_, table = weighed.weighting, weighed.table
        self._code(table)
        self.library_ = library_of(table.X, table.y, table.instruments, table.controls)
        self.outcome_ = outcome_name(table)
        columns = {role: column for role, column in table.columns.items() if role != "absorb"}
        plain, mass = dataclasses.replace(table, columns=columns), weighed.mass(self.weighting_)
        problem, groups = self._weighted_problem(plain, mass)
        selecting = self._select_columns(problem, groups, table.absorb)
        if selecting is not None:
            problem, groups = self._weighted_problem(plain, mass)
        if groups is not None and count_clusters(groups) < 2:
            raise checks.InputError(
                "all rows are of one cluster by groups, which leaves nothing to compare it with; give labels of two "
                "clusters or more, or leave groups out"
            )
        table = self._parted(table)
        copied = check_outcome(self.schema_.codings, table)
        levels = None if table.absorb is None else self._read_levels(table, len(problem.source.table["y"]))
        self.clusters_ = None if groups is None else count_clusters(groups)
        refusal = self._fit_linear(table, groups, weighed.weights)
        self.unidentified_ = unidentified(self.schema_.codings, table, self.linear_)
        self._factors = 0 if levels is None else levels.shape[1]
        mean = float(np.average(problem.source.table["y"], weights=problem.source.table.get("mass")))
        problem, labels = _mixed(problem, groups, levels)
        self._solve_problem(problem, groups=labels)
        self._add_warnings([*weighed.warnings, *copied, *refusal, *self._identification_warnings()])
        if selecting is not None:
            self.selection_ = Selection((selecting, *self.selection_.steps))
        self.path_ = is_path(table)
        if self.path_:
            self.selection_ = Selection((*self.selection_.steps, _path_choice(labels)))
        if levels is not None:
            self._leave_levels(problem, mean)
        judged = problem if levels is None else within_levels(problem, self._factors)
        self._judge_instruments(judged, labels, FirstStage())
        problem = problem if levels is None else without_codes(problem, self._factors)
        self._unstandardise()
        self._sample(problem)
        self._widen_for_weak_instruments(problem)
        self._read_slopes()

    def _fit_more(self, table: Table) -> None:
        self._check_columns(table.X)
        if self.absorbed_:
            raise checks.InputError(
                "partial_fit cannot add rows to absorbed effects, which are of all rows at once; fit to all rows"
            )
        weighed = weigh(table, self.weighting, self.weighting_)
        self.weighting_, rescaled = join(self.weighting_, weighed.weighting)
        problem, labels = _mixed(*self._weighted_problem(weighed.table, weighed.mass(self.weighting_)))
        before = self.diagnostics_
        if self._is_line and self.linear_ is not None and self.linear_.dropped:
            raise checks.InputError(
                f"partial_fit cannot add rows to a line of collinear columns ({'; '.join(self.linear_.dropped)}): more "
                "rows may tell them apart; fit to all rows at once, or leave such columns out"
            )
        self.linear_ = None  # it needs all rows at once
        self._extend_solution(problem, groups=labels, rescaled=rescaled)
        self._judge_instruments(problem, labels, FirstStage(before.first_stage, before.first_stage_rows))
        self._unstandardise()
        if self.sample_ is not None:
            self._sample(problem)
        if self.diagnostics_.first_stage_rows != before.first_stage_rows:
            self.widening_ = None  # a larger part is what instruments are judged by now
        if self.widening_ is not None and isinstance(
            self.uncertainty_, Spread
        ):  # of the first rows, which it holds for
            more, warning = self.widening_
            root = np.concatenate([self.uncertainty_.root, more], axis=1)
            self.uncertainty_ = dataclasses.replace(self.uncertainty_, root=root)
            self._add_warnings([warning])
        self._read_slopes()

    def _select_columns(self, problem: Any, groups: np.ndarray | None, absorb: Any) -> Choice | None:
        """Leave out controls and instruments that say nothing, where columns are many for the rows; in words."""
        clusters = None if groups is None else coarser(groups) if groups.ndim > 1 else groups
        if clusters is not None and clusters.max() + 1 < FEWEST_CLUSTERS:
            return None
        x, y, z = (problem.source.table[name] for name in ("x", "y", "z"))
        width = self.coding_.dimension
        count = 0 if self.instruments_ is None else self.instruments_.dimension
        columns = count + x.shape[1] - width
        if (self.primal, self.dual) != ("auto", "auto") or columns == 0 or not is_wide(columns, len(y)):
            return None
        if absorb is not None or "mass" in problem.source.table:
            levels = None if absorb is None else absorbed_levels(absorb, len(y))[0]
            mass = masses(problem.source.table)
            y = equal_rows(y[:, None], mass, levels)[:, 0]
            x, z = (equal_rows(part, mass, levels) for part in (x, z))
        told = [place - width for each in self._linear_columns() for place in each.coordinates if place >= width]
        controls, instruments = select_columns(y, x[:, :width], x[:, width:], z[:, :count], clusters)
        controls[told] = True
        masks = {"controls": controls, "instruments": instruments}
        codings = {
            role: coding.using(masks[role]) if role in masks else coding
            for role, coding in self.schema_.codings.items()
        }
        self.schema_ = dataclasses.replace(self.schema_, codings=codings)
        kept = {role: [own.name for own in codings[role].columns if own.width] for role in masks if role in codings}
        words = (
            f"{len(names)} of {len(codings[role].columns)} {role} ({checks.some(names) if names else 'none'})"
            for role, names in kept.items()
        )
        return Choice("columns that matter", f"{' and '.join(words)}, by lassos, since columns are many for the rows")

    def _solve(self, seed: int, problem: Any, **known: Any) -> Result:
        """With f linear in the columns that were named; a straight line, where these are all."""
        coordinates = tuple(place for each in self._linear_columns() for place in each.coordinates)
        if coordinates and len(coordinates) == problem.source.table["x"].shape[1] - self._factors:
            return auto(seed, problem, primal="linear", dual="linear", form=Form((), self._factors), **known)
        form = Form(coordinates, self._factors)
        return auto(seed, problem, primal=self.primal, dual=self.dual, solver=self.solver, form=form, **known)

    def _linear_columns(self) -> list[LinearColumn]:
        return linear_columns(self.linear, self._codings(), settings=(self.solver, self.primal, self.dual))

    def _read_slopes(self) -> None:
        """`coef_`, its standard errors and names, of the columns that f was told to be linear in."""
        if self._is_line or not isinstance(self.uncertainty_, Spread):
            return
        self._take_slopes(self._linear_columns())

    def _take_slopes(self, columns: list[LinearColumn]) -> None:
        slopes = slopes_of(self.uncertainty_, columns)
        if slopes is not None:
            self.coef_names_, self.coef_ = slopes.names, slopes.values
            self.coef_stderr_ = np.sqrt(np.diag(slopes.covariance))

    def _read_levels(self, table: Table, rows: int) -> np.ndarray:
        """The numbers (n, factors) of the levels whose effects are absorbed; refused where they leave nothing."""
        spaces = {self.primal, self.dual} if isinstance(self.primal, str) and isinstance(self.dual, str) else {None}
        if spaces not in ({"auto"}, {"linear"}) or self.solver not in ("auto", "closed-form"):
            raise checks.InputError(
                "absorb= takes the spaces that are chosen, or lines (primal='linear', dual='linear'), in closed form; "
                "leave out other spaces and solvers, or give the factors as controls"
            )
        levels, names = absorbed_levels(table.absorb, rows)
        self.absorbed_ = names
        return levels

    def _leave_levels(self, problem: Any, mean: float) -> None:
        """f, the witness and their errors at points without levels; f has the mean of y over the rows."""
        x, z = (problem.source.table[name][:, : -self._factors] for name in ("x", "z"))
        if self.uncertainty_ is None or self.witness_ is None:
            raise RuntimeError("a closed form has errors")
        mass = masses(problem.source.table)
        self.uncertainty_ = centred(self.uncertainty_, x, mass, mean)
        self.witness_ = centred(self.witness_, z, mass, 0.0)
        self.function_ = self.uncertainty_.function
        self.dual_ = dataclasses.replace(self.dual_, function=self.witness_.function)
        self.solution_ = None

    def _fit_linear(self, table: Table, groups: np.ndarray | None, weights: np.ndarray | None) -> list[str]:
        """Keep two-stage least squares of the same columns; say why where these do not identify it.

        Where a straight line is all that was asked for, there is nothing else to answer with.
        """
        try:
            self.linear_ = fit_linear(self.schema_.codings, table, groups, weights, library=self.library_)
        except checks.InputError as refusal:
            if self.instruments_ is None:
                return []
            if self.primal == "linear" and self.dual == "linear":
                raise
            return [f"a straight line in these columns is not identified, and hardly any other f: {refusal}"]
        return []

    def _identification_warnings(self) -> list[str]:
        """What cannot be told, and which columns say what others do."""
        linear = self.linear_
        found = [f"nothing about f is answerable: {self.unidentified_}"] if self.unidentified_ else []
        if linear is not None and linear.dropped:
            found.append(
                f"{'; '.join(linear.dropped)}; what such columns do one by one, others as they are, no data can tell"
            )
        return found

    def _widen_for_weak_instruments(self, problem: Any) -> None:
        """Let intervals be as wide as Anderson and Rubin's set where instruments are weak and f is no straight line."""
        if self._is_line or self.linear_ is None or not is_weak(self.linear_) or self.coding_.dimension != 1:
            return
        if isinstance(self.uncertainty_, Spread) and self.sample_ is not None:
            (column,), size = self.coding_.columns, float(np.std(problem.source.table["y"]))
            scale = 1.0 if column.levels else column.scale
            spread, warning = widen(self.uncertainty_, self.linear_, self.sample_.places, scale=scale, size=size)
            self.widening_ = spread.root[:, -1:], warning
            self.uncertainty_ = spread
            self._add_warnings([warning])

    def _sample(self, problem: Any) -> None:
        """Keep some of the problem's rows besides earlier ones."""
        rows, mass = problem.source.table["x"], problem.source.table.get("mass")
        weights = None if mass is None else mass / self.weighting_.factor
        self.sample_ = RowSample.of(rows, rows, seed=self._seed(), before=self.sample_, weights=weights)

    def _judge_instruments(self, problem: Any, groups: Any, before: FirstStage) -> None:
        """Note how well the instruments predict X: on these rows, unless more were looked at before."""
        if self.instruments_ is None:
            return
        stage = before
        if min(problem.source.rows, LOOKED_AT) > before.rows:
            names, width = _coordinates(self.coding_), self.instruments_.dimension
            found = first_stage(problem, names, width, groups=groups, seed=self._seed())
            stage = found if found.shares else before
        notes = first_stage_warnings(stage, self.linear_)
        self._add_warnings(notes, first_stage=stage.shares, first_stage_rows=stage.rows)
        for note in notes if stage is not before else ():
            warnings.warn(note, ReliabilityWarning, stacklevel=4)

    @property
    def _is_line(self) -> bool:
        return "intercept_" in vars(self)

    @property
    def _freedom(self) -> float | None:
        known = [] if self.clusters_ is None or self._is_line else [self.clusters_ - 1.0]
        known += [] if self.linear_ is None or np.isinf(self.linear_.freedom) else [self.linear_.freedom]
        return min(known, default=None)  # none where there are no clusters, and a line says nothing

    def _unstandardise(self) -> None:
        """`coef_`, its standard errors and `intercept_` in the columns' own units, where f is a straight line.

        Errors are then those of `linear_`, so that no number has two.
        """
        features = getattr(self.function_, "features", None)
        inner = getattr(features, "function", features)
        inner = inner.features if isinstance(inner, CentredMap) else inner
        if not isinstance(inner, AffineMap):
            return
        codings, linear = self._codings(), self.linear_
        if self.absorbed_:
            if linear is not None:
                self._take_line(linear)
            return
        columns = [column for coding in codings for column in coding.columns]
        if linear is not None:
            self._keep_line(linear)
        if any(column.levels for column in columns):
            if linear is not None:
                self.coef_names_, self.coef_ = linear.names[:-1], linear.values[:-1]
                self.coef_stderr_ = np.sqrt(np.diag(linear.covariance))[:-1]
                self.intercept_ = float(linear.values[-1])
            elif self.uncertainty_ is not None:  # of more rows
                self._take_slopes(every_column(codings))
                self.intercept_ = float(values(self.function_, origin(codings))[0])
            return
        widths = np.cumsum([0, *(coding.dimension for coding in codings)])
        starts = [begin + start for begin, coding in zip(widths, codings, strict=False) for start in coding.starts]

        def in_units(slopes: np.ndarray) -> np.ndarray:
            """A number for each column from one for each coordinate; 0 for those that are left out."""
            pairs = zip(columns, starts, strict=True)
            return np.array([slopes[start] / column.scale if column.width else 0.0 for column, start in pairs])

        first, *slopes = np.asarray(self.function_.weights, dtype=np.float64)
        self.coef_ = in_units(np.asarray(slopes))
        means = np.array([column.mean if column.width else 0.0 for column in columns])
        self.intercept_ = float(first - self.coef_ @ means)
        if self.uncertainty_ is None:
            return
        self.coef_stderr_ = in_units(np.linalg.norm(self.uncertainty_.root, axis=1)[1:])
        if linear is not None:
            own = [column.name for column in columns if column.width and column.name not in linear.names]
            self.coef_stderr_[[column.name in own for column in columns]] = np.nan  # left out

    def _keep_line(self, linear: LinearResults) -> None:
        """Take errors from the linear model of the same columns, and f too where that left out collinear ones."""
        weights, root = coded_line(linear, self._codings())
        if self.uncertainty_ is None or len(root) != len(self.uncertainty_.weights):
            return
        self.uncertainty_ = dataclasses.replace(self.uncertainty_, root=root)
        if linear.dropped:
            self.function_ = dataclasses.replace(self.function_, weights=weights)
            self.uncertainty_ = dataclasses.replace(self.uncertainty_, weights=weights)

    def _take_line(self, linear: LinearResults) -> None:
        """f as the line that was fitted within levels, with its errors."""
        self.coef_names_, self.coef_ = linear.names, linear.values
        self.coef_stderr_ = np.sqrt(np.diag(linear.covariance))
        slopes, root = (each[1:] for each in coded_line(linear, self._codings()))
        spread = self.uncertainty_
        self.intercept_ = line_constant(linear, self._codings(), self.function_, slopes)
        if spread is not None and len(root) + 2 == len(spread.weights):
            self.uncertainty_ = dataclasses.replace(spread, root=np.concatenate([np.zeros((2, root.shape[1])), root]))


def _mixed(problem: Any, groups: np.ndarray | None, levels: np.ndarray | None = None) -> tuple[Any, np.ndarray | None]:
    """The problem in an order that is not the table's, since models are chosen by folds of rows; and its groups.

    Levels whose effects are absorbed become a part of it.
    """
    columns = problem.source.table
    names = "yxz" if levels is None else "xzy"  # effects of levels, which may be anything, are a part of y
    beside = [] if groups is None else [groups]
    beside += [columns["mass"]] if "mass" in columns else []
    order = order_at_random(*(columns[name] for name in names), *beside)
    mixed = InstrumentalVariables(Dataset(**{name: column[order] for name, column in columns.items()}))
    if levels is not None:
        mixed = with_levels(mixed, by_appearance(levels[order]))
    return mixed, None if groups is None else by_appearance(groups[order])


def _path_choice(blocks: np.ndarray | None) -> Choice:
    """How rows of one path are taken to depend on each other, in words."""
    count = 0 if blocks is None else len(np.unique(blocks))
    return Choice("rows", f"one path in time: noise may go on over any of its {count} blocks, by which errors are")


def _coordinates(coding: Coding) -> list[str]:
    """A name for each coordinate; none where every column is constant."""
    names = []
    for column in coding.columns:
        if column.width:
            names += [column.name] if column.width == 1 else [f"{column.name}={level}" for level in column.levels]
    return names
