"""How an estimator solves its problem, and what it keeps of the solution."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from dualembed import checks
from dualembed.answers.question import values
from dualembed.estimators.diagnostics import Diagnostics, diagnose
from dualembed.linear.averaging import Groups, read_rows
from dualembed.linear.candidates import Headline
from dualembed.linear.clusters import count_clusters
from dualembed.linear.fit import LinearFit
from dualembed.linear.moment_fit import MomentFit, Spread
from dualembed.problems.base import Problem, finite_data
from dualembed.progress import track
from dualembed.saddle import DualFunction
from dualembed.selection import HeldOut, Selection, auto, held_out, held_out_once
from dualembed.selection.held_out import FOLDS, held_out_folds, held_out_new, why_unjudged
from dualembed.selection.kernels import describe
from dualembed.solvers.base import EarlyStopWarning, Result, SolverLike
from dualembed.spaces.base import SpaceLike
from dualembed.spaces.features import to_numpy
from dualembed.tuning import SEARCH

# Rows that a fit keeps: at most 10,000, fewer where they are wide, since the effect of each column is a mean over them.
KEPT, CELLS, FEWEST = 10_000, 50_000, 100
PLACES, PLACE_CELLS = 1000, 200_000  # of these, those that say where the data are
FEW_GROUPS = 10  # below which errors clustered by group say little


@dataclasses.dataclass(frozen=True)
class RowSample:
    """Some of the rows of a fit, all of them where they are few: means over "the data" are means over these.

    `rows` (n, d) are as `Effects` moves them, `points` (n, d') are points of f at the same rows in its coordinates, and
    `lots` (n,) are random numbers: of all rows seen, those with the least are kept. Rows of survey weights have lots
    over weights in their place, and `mass` (n,) is how much each counts, None where all count alike: its weight, but no
    less than the `least`, one over the first lot of rows not kept (priority sampling; Duffield, Lund and Thorup 2007),
    so that means are right on average.
    """

    rows: np.ndarray
    points: np.ndarray
    lots: np.ndarray
    seen: int
    mass: np.ndarray | None = None
    least: float = 0.0

    @staticmethod
    def of(
        rows: np.ndarray,
        points: np.ndarray,
        *,
        seed: int,
        before: RowSample | None = None,
        weights: np.ndarray | None = None,
    ) -> RowSample:
        """A sample of these rows and of those seen before, whatever order they come in."""
        seen, new, least = 0 if before is None else before.seen, len(rows), 0.0 if before is None else before.least
        lots, counted = np.empty(new), np.ones(new) if weights is None else weights
        lots[np.lexsort((counted, *rows.T))] = np.random.default_rng([seed, seen]).random(new)
        parts = [(rows, points, lots / counted, counted)]
        if before is not None:
            own = np.ones(len(before.rows)) if before.mass is None else before.mass
            parts.insert(0, (before.rows, before.points, before.lots, own))
        rows, points, lots, counted = (np.concatenate(each) for each in zip(*parts, strict=True))
        most, order = _most(rows.shape[1]), np.argsort(lots)
        kept = np.sort(order[:most])
        if weights is None:
            return RowSample(rows[kept], points[kept], lots[kept], seen + new)
        least = max(least, 1 / lots[order[most]] if len(order) > most else 0.0)
        return RowSample(rows[kept], points[kept], lots[kept], seen + new, np.maximum(counted[kept], least), least)

    @property
    def places(self) -> np.ndarray:
        """The points of at most 1,000 of the rows, by lot, which say where the data are."""
        return self.points[np.sort(np.argsort(self.lots)[:PLACES])]

    @property
    def note(self) -> str:
        """What rows these are, in words that follow "the mean over"; nothing where they are all that were seen."""
        return "" if self.seen <= len(self.rows) else f", over a random {len(self.rows):,} of {self.seen:,} rows"

    @property
    def groups(self) -> np.ndarray | None:
        """What makes a mean over the rows seen reckon with these being a sample of them; None where they are all."""
        return None if self.seen <= len(self.rows) else np.full(len(self.rows), -1)

    def typical(self) -> int:
        """The number of the row that is nearest to the middle of all, by the median of each coordinate."""
        order = np.lexsort(self.rows.T)  # of rows that are as near, the first by their numbers
        away = np.sum((self.points[order] - np.median(self.points, axis=0)) ** 2, axis=1)
        return int(order[np.argmin(away)])


def _most(width: int) -> int:
    """How many rows of so many coordinates are kept."""
    width = max(width, 1)
    return max(min(KEPT, CELLS // width), min(PLACES, PLACE_CELLS // width), FEWEST)


class Learner(BaseEstimator):
    """An estimator that can solve a problem and keep its solution; the settings are its parameters."""

    solver: SolverLike
    primal: SpaceLike
    dual: SpaceLike
    random_state: Any
    function_: Any
    witness_: Spread | None
    uncertainty_: Any  # LinearFit or Spread, None where there are no standard errors
    solution_: LinearFit | MomentFit | None = None  # a closed form: what questions and more rows need
    dual_: DualFunction
    selection_: Selection
    diagnostics_: Diagnostics

    @property
    def paths_(self) -> LinearFit | None:
        """The solution where it is an average of ridge paths, which knows what answers rest on; else None."""
        return self.solution_ if isinstance(self.solution_, LinearFit) else None

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)) and not isinstance(self.random_state, bool):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _solve_problem(self, problem: Problem, *, groups: Any = None, headline: Headline | None = None) -> None:
        """Solve the problem and keep what the questions below need.

        `headline` is the question that matters most, where there is one.
        """
        rows = finite_data(problem).rows
        if rows < 2:
            raise checks.InputError("nothing can be learnt from 1 sample; give more rows")
        seed = self._seed()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = self._solve(seed, problem, groups=groups, headline=headline)
        self.function_, self.dual_ = result.primal, result.dual
        self.selection_ = Selection(result.record.steps)
        if isinstance(result.closed, LinearFit):
            assigned: Groups = result.record.solver.groups
            with track(None, "Judging by rows left out"):
                judged = held_out_folds(problem, result.closed, assigned.left_out, groups=groups, seed=seed)
            self._add_returns(problem, groups, assigned)
            self._keep_paths(result.closed, rows, judged)
        elif result.closed is not None:
            with track(None, "Judging by rows left out"):
                judged = held_out(problem, result.closed, groups=groups, seed=seed)
            self._keep_moments(result.closed, result.uncertainty, judged, rows=rows)
            self.function_ = to_numpy(result.primal)
        else:
            refit = functools.partial(self._refit, seed)
            judged = held_out_once(problem, refit, groups=groups, seed=seed) if problem.loss.quadratic else None
            self.diagnostics_, self.witness_, self.uncertainty_ = Diagnostics(rows, judged), None, None
            self.solution_, self.function_ = None, result.primal.trimmed()
        self._say_why_unjudged(problem, groups, folds=FOLDS if self.paths_ is None else 2)
        self._record_solver_warnings(caught)
        few = None if groups is None or self.paths_ is not None else count_clusters(groups)
        if few is not None and few < FEW_GROUPS:
            self._add_warnings(
                [f"there are only {few} episodes or groups, too few for intervals that are clustered by them"]
            )

    def _solve(self, seed: int, problem: Problem, **known: Any) -> Result:
        """The problem's solution by this estimator's settings."""
        return auto(seed, problem, primal=self.primal, dual=self.dual, solver=self.solver, **known)

    def _refit(self, seed: int, problem: Problem) -> Any:
        function = self._solve(seed, problem).primal
        return lambda points: values(function, points)

    def _keep_moments(self, fit: MomentFit, spread: Spread, judged: HeldOut | None, *, rows: int) -> None:
        """Keep a closed form, its noise being that of rows left out where residuals of those fitted show far less."""
        if judged is not None and fit.inflation == 1:
            rounding = SEARCH.without_noise * (fit.sums.square or 0.0) / fit.sums.rows
            if judged.squared > max(SEARCH.fitted_too_well * judged.fitted, rounding):
                ratio = min(judged.squared / max(judged.fitted, np.finfo(float).tiny), SEARCH.most_widened)
                fit = dataclasses.replace(fit, inflation=ratio)
                spread = dataclasses.replace(spread, root=np.sqrt(ratio) * spread.root)
        self.solution_, self.uncertainty_, self.witness_ = fit, spread, fit.witness()
        self.diagnostics_ = diagnose(fit, judged, rows)
        if fit.inflation > 1:
            warning = (
                f"standard errors are {np.sqrt(fit.inflation):.1f} times as wide as residuals of the rows fitted to "
                "would make them, since those of rows left out were so much larger: f is rougher than the fit takes it "
                "to be, or rows are few"
            )
            self._add_warnings([warning])

    def _keep_paths(self, fit: LinearFit, rows: int, judged: HeldOut | None) -> None:
        """Keep an average of ridge paths."""
        fit = dataclasses.replace(fit, folds=None, fold_weights=None)
        self.solution_ = self.uncertainty_ = fit
        self.witness_ = witness = fit.witness()
        self.dual_ = dataclasses.replace(self.dual_, function=witness.function)
        variance = None if judged is None else judged.fitted
        self.diagnostics_ = Diagnostics(rows, judged, residual_variance=variance)

    def _add_returns(self, problem: Problem, labels: Any, groups: Groups) -> None:
        """Keep what whole episodes of the problem's rows earned, where that says something of f."""

    def _extend_solution(
        self, problem: Problem, *, groups: Any = None, headline: Headline | None = None, rescaled: float = 1.0
    ) -> None:
        """Add the rows of the problem to those seen before; the spaces stay as the first rows chose them.

        Rows seen before count so many times as much as they did, since survey weights are relative to all of them.
        """
        if self.solution_ is None:
            raise checks.InputError(
                "partial_fit adds up sums of a closed form, which this fit has not; use solver='auto' with the square "
                "loss, or de.solve with a sources.Stream for Embedding-SGD"
            )
        judged = held_out_new(problem, self.function_, groups)
        if isinstance(self.solution_, LinearFit):
            self._add_to_paths(self.solution_, problem, judged, groups=groups, headline=headline)
        else:
            before = self.solution_ if rescaled == 1 else self.solution_.scaled(rescaled)
            fit = before.extended(problem, groups)
            rows = self.diagnostics_.rows + finite_data(problem).rows
            self._keep_moments(fit, fit.spread(), judged, rows=rows)
            self.function_ = to_numpy(fit.function)
            self.dual_ = dataclasses.replace(self.dual_, function=fit.dual_function)
        self._say_why_unjudged(problem, groups, folds=2)

    def _say_why_unjudged(self, problem: Problem, groups: Any, *, folds: int) -> None:
        """Keep the reason why there is no honest error, where there is none."""
        if self.diagnostics_.held_out is None:
            reason = why_unjudged(problem, groups, units=self._units, folds=folds)
            self.diagnostics_ = dataclasses.replace(self.diagnostics_, unjudged=reason)

    @property
    def _units(self) -> str:
        """What groups of rows are called."""
        return "groups"

    def _add_to_paths(
        self, fit: LinearFit, problem: Problem, judged: HeldOut | None, *, groups: Any, headline: Headline | None
    ) -> None:
        """Add rows to an average of ridge paths."""
        rows = read_rows(problem)
        if rows is None:
            raise RuntimeError("the first rows could be tested by the features of f, and so can more")
        seed = self._seed()
        assigned = fit.assign(rows, groups, seed)
        extended = fit.extended(problem, rows, assigned, headline=headline, seed=seed)
        self._add_returns(problem, groups, assigned)
        self._keep_paths(extended, extended.rows, judged)
        self.function_, self.selection_ = extended.function, Selection(describe(extended))

    def _record_solver_warnings(self, caught: Sequence[warnings.WarningMessage]) -> None:
        """Keep what a solver says of an early ending with the diagnostics; pass on any other warning."""
        self._add_warnings([str(each.message) for each in caught if issubclass(each.category, EarlyStopWarning)])
        for each in caught:
            if not issubclass(each.category, EarlyStopWarning):
                warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)

    def _add_warnings(self, more: Sequence[str], **fields: Any) -> None:
        """Add to the diagnostics."""
        notes = (*self.diagnostics_.warnings, *more)
        self.diagnostics_ = dataclasses.replace(self.diagnostics_, warnings=notes, **fields)
