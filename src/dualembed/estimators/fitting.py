"""From a problem and a recipe to a fitted function: which spaces, which solver, how sure."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from dualembed import checks, solvers, spaces
from dualembed.linear.moment_fit import MomentFit
from dualembed.linear.sums import gather_moments
from dualembed.problems.base import Problem
from dualembed.saddle import Saddle
from dualembed.schedules import OffsetSqrt
from dualembed.selection import Step, evident_penalty
from dualembed.selection.automatic import by_evidence
from dualembed.selection.products import products
from dualembed.solvers import solve
from dualembed.solvers.base import Solver
from dualembed.solvers.closed_form import feature_maps, penalty_value
from dualembed.sources import Dataset
from dualembed.spaces.base import Function
from dualembed.spaces.basis import Basis
from dualembed.spaces.features import evaluate_functions, to_numpy
from dualembed.spaces.linear import LinearFunction, LinearSpace

SOLVERS = ("auto", "closed-form", "embedding-sgd")
SPACES = ("auto", "linear")
FOLDS = 5
DUAL_SHARE = 1e-4  # penalty of a given dual space, as a share of its features' largest variance
PASSES, BATCH, FEWEST_STEPS = 20, 50, 4000  # of Embedding-SGD
PILOT = 10_000  # rows that its coordinates are whitened by


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What the user asked for: a solver, a space for f and one for the dual, each by name or as an object."""

    solver: Any = "auto"
    primal: Any = "auto"
    dual: Any = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.solver, Solver) and self.solver not in SOLVERS:
            raise checks.InputError(
                f"solver must be one of {', '.join(SOLVERS)}, or an object of dualembed.solvers, not {self.solver!r}"
            )
        for name in ("primal", "dual"):
            space = getattr(self, name)
            if not isinstance(space, spaces.FunctionSpace) and space not in SPACES:
                raise checks.InputError(
                    f"{name} must be one of {', '.join(SPACES)}, or an object of dualembed.spaces, not {space!r}"
                )

    @property
    def free(self) -> bool:
        """Whether all is left to the library: what it chooses is solved in closed form anyway."""
        chosen = isinstance(self.primal, str) and isinstance(self.dual, str) and self.primal == self.dual == "auto"
        return chosen and isinstance(self.solver, str) and self.solver in ("auto", "closed-form")


@dataclasses.dataclass(frozen=True)
class Fit:
    """A solved problem: its result, and the choices. `closed` has errors, where it is a closed form."""

    result: Any  # Result
    steps: tuple[Step, ...]
    closed: MomentFit | None = None


def fit(problem: Problem, recipe: Recipe, *, seed: int, groups: Any = None) -> Fit:
    """The problem's solution by the recipe; what it leaves to "auto" is chosen from the data."""
    record = None
    if recipe.primal == "auto" or recipe.dual == "auto":
        result = by_evidence(seed, problem, groups=groups)
        record = result.record
        if recipe.free:
            return _fit(result, record.steps, groups)
        saddle, steps = _replaced(record.saddle, recipe), record.steps
    else:
        saddle, steps = Saddle(problem, _space(recipe.primal), _space(recipe.dual)), ()
    folds = 1 if record is None or record.solver is None else record.solver.folds
    if recipe.primal != "auto":
        saddle, folds, more = _penalised(saddle, recipe, seed, folds=folds, groups=groups)
        steps = (*steps, *more)
    solver = _solver(recipe, saddle, folds=folds, groups=groups)
    if solver is None:
        solver = _stochastic(saddle)
        run = _precisely if _has_features(saddle) else solve
        return Fit(run(seed, saddle, solver), steps)
    if isinstance(solver, solvers.ClosedForm) and recipe.primal == "auto" and record is not None and record.solver:
        solver = dataclasses.replace(solver, prior=record.solver.prior)
    return _fit(solve(seed, saddle, solver), steps, groups, problem=problem)


def _fit(result: Any, steps: tuple[Step, ...], groups: Any, problem: Problem | None = None) -> Fit:
    """The fit of a result, with the errors of a closed form."""
    if result.closed is None:
        return Fit(result, steps)
    problem = result.record.saddle.problem if problem is None else problem
    return Fit(result, steps, result.closed.with_scores(problem, groups))


def _space(space: Any) -> Any:
    return spaces.Affine() if isinstance(space, str) else space


def _replaced(saddle: Saddle, recipe: Recipe) -> Saddle:
    """The chosen saddle with the spaces that were given."""
    primal = saddle.primal if recipe.primal == "auto" else _space(recipe.primal)
    if recipe.dual == "auto":
        return dataclasses.replace(saddle, primal=primal)
    return dataclasses.replace(saddle, primal=primal, dual=_space(recipe.dual), dual_penalty=None)


def _penalised(
    saddle: Saddle, recipe: Recipe, seed: int, *, folds: int, groups: Any
) -> tuple[Saddle, int, tuple[Step, ...]]:
    """The saddle of a given space for f with penalties, and the folds of its closed form.

    Straight lines are not penalised: they are two-stage least squares.
    """
    if recipe.primal == "linear" or not saddle.loss.quadratic or not _both_linear(saddle):
        small = 0.0 if recipe.primal == "linear" else 1e-6
        return dataclasses.replace(saddle, primal_penalty=small, dual_penalty=small), folds, ()
    primal, dual = feature_maps(checks.as_key(seed), saddle)
    sums = gather_moments(saddle.problem, primal, dual, folds=FOLDS, groups=groups)
    dual_penalty = penalty_value(saddle.dual_penalty)  # of a dual that was chosen
    if isinstance(recipe.dual, spaces.FunctionSpace):
        dual_penalty = DUAL_SHARE * float(np.linalg.eigvalsh(sums.mean_dual)[-1])
    penalty = evident_penalty(sums, dual_penalty)
    sums, products_step = products(sums, penalty, dual_penalty)
    step = Step("penalty of f", f"{penalty:.3g}, by moment evidence", {"penalty of the dual": dual_penalty})
    fixed = dataclasses.replace(
        saddle, primal=Basis(primal), dual=Basis(dual), primal_penalty=penalty, dual_penalty=dual_penalty
    )
    return fixed, sums.groups, (step, products_step)


def _both_linear(saddle: Saddle) -> bool:
    return all(isinstance(space, (LinearSpace, spaces.RKHS)) for space in (saddle.primal, saddle.dual))


def _solver(recipe: Recipe, saddle: Saddle, *, folds: int, groups: Any) -> Solver | None:
    """The solver that was asked for, or the best there is for the saddle; None is for Embedding-SGD."""
    if isinstance(recipe.solver, Solver):
        return recipe.solver
    if recipe.solver == "closed-form" or (recipe.solver == "auto" and _both_linear(saddle)):
        return solvers.ClosedForm(folds, groups) if saddle.loss.quadratic else solvers.Newton()
    return None


def _stochastic(saddle: Saddle) -> Solver:
    """Embedding-SGD, in whitened coordinates where both spaces have features: there steps of 1 suit any of them."""
    source = saddle.problem.source
    rows = source.rows if isinstance(source, Dataset) else BATCH
    batch = min(BATCH, rows)
    steps = max(FEWEST_STEPS, PASSES * rows // batch)
    offset = 0.25 * float(np.sqrt(steps))
    preconditioner = solvers.Preconditioner(PILOT) if _has_features(saddle) else None
    return solvers.EmbeddingSGD(steps, batch, OffsetSqrt(offset, offset), preconditioner=preconditioner)


def _has_features(saddle: Saddle) -> bool:
    return all(isinstance(space, LinearSpace) for space in (saddle.primal, saddle.dual))


def _precisely(seed: int, saddle: Saddle, solver: Solver) -> Any:
    """The result of a run in float64: features on landmarks are sums of large numbers that cancel."""
    with jax.enable_x64(True):
        result = solve(seed, saddle, solver)
        return dataclasses.replace(result, primal=to_numpy(result.primal), dual=to_numpy(result.dual))


def values(function: Function, points: np.ndarray) -> np.ndarray:
    """The function at points (n, d), in float64."""
    if isinstance(function, LinearFunction):  # without a compilation, and with all digits
        weights = np.asarray(function.weights, dtype=np.float64)
        return evaluate_functions(to_numpy(function.features), weights[None], points)[:, 0]
    return np.asarray(function(points), dtype=np.float64)
