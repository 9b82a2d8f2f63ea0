"""The one door: from a problem and its data to a fitted function; whatever is not given is chosen from the data."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks, compilation
from dualembed.arrays import Integers
from dualembed.linear.averaging import Groups, Rows, assign_groups, read_rows
from dualembed.linear.candidates import Headline
from dualembed.linear.clusters import is_two_way
from dualembed.linear.sums import gather_moments, number_groups
from dualembed.problems.base import Problem, finite_data, iter_terms, with_rows
from dualembed.progress import track
from dualembed.saddle import Saddle
from dualembed.schedules import OffsetSqrt
from dualembed.selection.forms import ANY, Form
from dualembed.selection.gaussian_process import choose_by_evidence, choose_for_smooth_loss
from dualembed.selection.kernels import choose_paths, describe
from dualembed.selection.penalties import FOLDS, choose_products, evidence_penalty
from dualembed.solvers.base import Choice, Record, Result, Solver, SolverLike, solve
from dualembed.solvers.closed_form import NO_TRANSITIONS, AveragedPaths, ClosedForm, feature_maps, penalty_value
from dualembed.solvers.embedding_sgd import EmbeddingSGD, Preconditioner
from dualembed.solvers.newton import Newton
from dualembed.sources import Dataset
from dualembed.spaces.base import FunctionSpace, SpaceLike
from dualembed.spaces.basis import Affine, Basis
from dualembed.spaces.features import to_numpy
from dualembed.spaces.linear import LinearSpace
from dualembed.spaces.rkhs import RKHS
from dualembed.threads import on_one_thread

SOLVERS = ("auto", "closed-form", "embedding-sgd")
SPACES = ("auto", "linear")
DUAL_SHARE = 1e-4  # penalty of a given dual space, as a share of its features' largest variance
SMALL = 1e-6  # penalty of a given space that no evidence speaks of
PASSES, BATCH, FEWEST_STEPS = 20, 50, 4000  # of Embedding-SGD
PILOT = 10_000  # rows that its coordinates are whitened by


@on_one_thread
def auto(
    key: jax.Array | int,
    problem: Problem,
    *,
    primal: SpaceLike = "auto",
    dual: SpaceLike = "auto",
    solver: SolverLike = "auto",
    groups: ArrayLike | Groups | None = None,
    headline: Headline | None = None,
    form: Form = ANY,
) -> Result:
    """The problem's solution; what is left to "auto" is chosen from the data alone.

    With everything left to it, transitions (where the context is the first point) are solved by
    `solvers.AveragedPaths`, in NumPy throughout. For all other problems f is a Gaussian process: a constant, a linear
    trend and a smooth part with one bandwidth a coordinate, whose hyper-parameters maximise the moment evidence. The
    dual's bandwidths are short enough to predict what the moment is made of, and both spaces grow while the residual
    can still be predicted by a richer dual. Where the noise depends on the context, efficient weights are tried, and
    kept if the honest score falls. Smooth losses other than the square take their spaces from it and their penalty
    from the honest score of the loss itself, by `solvers.Newton`.

    Memory: the samples in float64, and at most 1,000 features of 20,000 rows, 160 MB, for each player.

    Parameters
    ----------
    key : JAX key or int
        Everything random follows from it.
    problem : Problem
        Its source is a finite `sources.Dataset`.
    primal, dual : FunctionSpace, "auto" or "linear", default="auto"
        The spaces of f and of the dual function.
    solver : Solver, "auto", "closed-form" or "embedding-sgd", default="auto"
        How the saddle is solved.
    groups : array of shape (n,) or (n, 2), or Groups, optional
        Labels of rows that depend on each other, such as episodes, of one or two ways, for standard errors that know of
        it. Two ways are numbers from 0. Transitions may have them in the groups that errors are made of, already.
    headline : Headline, optional
        The question that matters most, which candidates are weighed by.
    form : Form, optional
        What is told of f, where its space is chosen, such as columns that it is linear in.

    Returns
    -------
    Result
        `result.record` is the `Record`: what was tried and chosen, the saddle and the solver, which give the same
        solution again. `result.closed` has the sums of a closed form, and `result.uncertainty` standard errors (square
        loss only).

    Examples
    --------
    >>> import dualembed as de
    >>> rng = np.random.default_rng(0)
    >>> z, u = rng.normal(size=(2, 1000))
    >>> x = z + u
    >>> data = de.sources.Dataset(x=x, z=z, y=x + 2 * u)
    >>> result = de.selection.auto(0, de.problems.InstrumentalVariables(data))
    >>> bool(abs(result.primal([1.0])[0] - result.primal([0.0])[0] - 1) < 0.2)
    True
    """
    check_names(primal, dual, solver)
    checks.instance("problem", problem, Problem, "such as problems.PolicyEvaluation(source, 0.9)")
    if not isinstance(problem.source, Dataset):
        raise checks.InputError("a model is chosen on a finite data set; use sources.Dataset as the source")
    seed = _seed(key)
    free = _is_auto(primal) and _is_auto(dual)
    if isinstance(solver, AveragedPaths):
        space = None if free else _space(dual if _is_auto(primal) else primal)
        return _by_paths(seed, problem, read_rows(problem), space=space, groups=groups, headline=headline)
    exact = isinstance(solver, str) and solver in ("auto", "closed-form")  # what is chosen has a closed form anyway
    if free and exact and problem.loss.quadratic and (rows := read_rows(problem)) is not None:
        return _by_paths(seed, problem, rows, groups=groups, headline=headline)
    if isinstance(groups, Groups):
        raise checks.InputError(NO_TRANSITIONS)
    compilation.enable_cache()
    problem, groups = _shuffle(problem, groups, seed)
    if _is_auto(primal) or _is_auto(dual):
        rng = np.random.default_rng(seed)
        if problem.loss.quadratic:
            chosen = choose_by_evidence(problem, rng, groups=groups, form=form)
        else:
            chosen = choose_for_smooth_loss(problem, rng, groups=groups)
    else:
        chosen = Record((), Saddle(problem, _space(primal), _space(dual)))
    if not free:
        chosen = _with_spaces(chosen, primal, dual, seed=seed, groups=groups)
        chosen = dataclasses.replace(chosen, saddle=form.within_saddle(chosen.saddle))
    chosen = _with_solver(chosen, solver, groups=groups)
    return _solve(seed, chosen, groups)


def check_names(primal: SpaceLike, dual: SpaceLike, solver: SolverLike) -> None:
    """Raise where a name is none of those that are known."""
    if not isinstance(solver, Solver) and solver not in SOLVERS:
        raise checks.InputError(
            f"solver must be one of {', '.join(SOLVERS)}, or an object of dualembed.solvers, not {solver!r}"
        )
    for name, space in (("primal", primal), ("dual", dual)):
        if not isinstance(space, FunctionSpace) and space not in SPACES:
            raise checks.InputError(
                f"{name} must be one of {', '.join(SPACES)}, or an object of dualembed.spaces, not {space!r}"
            )


def _shuffle(problem: Problem, groups: ArrayLike | None, seed: int) -> tuple[Problem, Integers | None]:
    """The rows and their groups in an order that does not depend on the one they come in, nor on what they say.

    Which rows a choice looks at, and which of them make a fold, goes by their numbers.
    """
    source = finite_data(problem)
    numbers = None if groups is None else number_groups(groups, source.rows)
    order = source.order(numbers)[np.random.default_rng(seed).permutation(source.rows)]
    labels = np.asarray(groups) if is_two_way(groups) else numbers
    return with_rows(problem, order), None if labels is None else labels[order]


def _by_paths(
    seed: int,
    problem: Problem,
    rows: Rows | None,
    *,
    space: FunctionSpace | None = None,
    groups: ArrayLike | Groups | None,
    headline: Headline | None,
) -> Result:
    """The average of ridge paths, of kernels that are chosen where no space is given."""
    if rows is None:
        raise checks.InputError(NO_TRANSITIONS)
    rows.check_enough()
    rng = np.random.default_rng(seed)
    assigned = groups if isinstance(groups, Groups) else assign_groups(rows, groups, rng)
    if space is None:
        with track(None, "Choosing kernels"):
            saddle, solver, features = choose_paths(problem, rows, assigned, headline=headline, rng=rng)
        # Nothing of these spaces is drawn: without a key JAX does not start.
        result = solver.average(saddle, features, rows, np.random.default_rng([0, seed]))
    else:
        saddle, solver = Saddle(problem, space, space), AveragedPaths(assigned, headline)
        result = solve(seed, saddle, solver)
    return dataclasses.replace(result, record=Record(describe(result.closed), saddle, solver))


def _solve(seed: int, chosen: Record, groups: ArrayLike | None) -> Result:
    """The solution of what was chosen, with standard errors where it is a closed form."""
    saddle, solver = chosen.saddle, chosen.solver
    if solver is None:
        raise RuntimeError("a solver is chosen by now")
    if isinstance(solver, EmbeddingSGD) and _has_features(saddle):
        # Features on landmarks are sums of large numbers that cancel.
        with jax.enable_x64(True):
            result = solve(seed, saddle, solver)
            result = dataclasses.replace(result, primal=to_numpy(result.primal), dual=to_numpy(result.dual))
    else:
        result = solve(seed, saddle, solver)
    if isinstance(solver, ClosedForm):
        fit = result.closed.with_scores(saddle.problem, groups)
        result = dataclasses.replace(result, closed=fit, uncertainty=fit.spread())
    return dataclasses.replace(result, record=chosen)


def _with_spaces(chosen: Record, primal: SpaceLike, dual: SpaceLike, *, seed: int, groups: ArrayLike | None) -> Record:
    """The chosen saddle with the spaces that were given, and penalties for them."""
    saddle = chosen.saddle
    if not _is_auto(dual):
        saddle = dataclasses.replace(saddle, dual=_space(dual), dual_penalty=None)
    if _is_auto(primal):
        exact = chosen.solver  # whose efficient weights are those of another dual
        exact = dataclasses.replace(exact, noise=None) if isinstance(exact, ClosedForm) else exact
        return dataclasses.replace(chosen, saddle=saddle, solver=exact)
    saddle = dataclasses.replace(saddle, primal=_space(primal))
    straight = isinstance(primal, str)  # lines are not penalised: they are two-stage least squares
    if straight or not saddle.loss.quadratic or not _both_linear(saddle):
        small = 0.0 if straight else SMALL
        saddle = dataclasses.replace(saddle, primal_penalty=small, dual_penalty=small)
        return dataclasses.replace(chosen, saddle=saddle, solver=_without_prior(chosen))
    maps = feature_maps(checks.as_key(seed), saddle)
    sums = gather_moments(saddle.problem, *maps, folds=FOLDS, groups=groups)
    dual_penalty = penalty_value(saddle.dual_penalty)  # of a dual that was chosen
    if isinstance(dual, FunctionSpace):
        dual_penalty = DUAL_SHARE * float(np.linalg.eigvalsh(sums.mean_dual)[-1])
    penalty = evidence_penalty(sums, dual_penalty)
    sums, products = choose_products(sums, penalty, dual_penalty)
    choice = Choice("penalty of f", f"{penalty:.3g}, by moment evidence", {"penalty of the dual": dual_penalty})
    penalties = {"primal_penalty": penalty, "dual_penalty": dual_penalty}
    saddle = Saddle(saddle.problem, Basis(maps[0]), Basis(maps[1]), link=saddle.link, **penalties)
    return Record((*chosen.steps, choice, products), saddle, ClosedForm(sums.groups, groups))


def _without_prior(chosen: Record) -> ClosedForm | None:
    """A closed form with as many folds as the chosen one, which says nothing of another space."""
    return ClosedForm(chosen.solver.folds, chosen.solver.groups) if isinstance(chosen.solver, ClosedForm) else None


def _with_solver(chosen: Record, solver: SolverLike, *, groups: ArrayLike | None) -> Record:
    """The solver that was asked for, or the best there is for the saddle."""
    saddle = chosen.saddle
    if isinstance(solver, ClosedForm) and isinstance(chosen.solver, ClosedForm):
        solver = dataclasses.replace(solver, prior=chosen.solver.prior)  # of the same space for f
    elif solver == "closed-form" or (solver == "auto" and _both_linear(saddle)):
        exact = ClosedForm(1, groups) if chosen.solver is None else chosen.solver
        solver = exact if saddle.loss.quadratic else Newton()
    elif isinstance(solver, str):
        solver = _stochastic(saddle)
        saddle = _for_masses(saddle)
    return dataclasses.replace(chosen, saddle=saddle, solver=solver)


def _for_masses(saddle: Saddle) -> Saddle:
    """The saddle with penalties for the mean over rows of mass times slope, rather than that over masses."""
    masses = [terms.mass for terms in iter_terms(saddle.problem) if terms.mass is not None]
    if not masses:
        return saddle
    level = float(np.concatenate(masses).mean())
    primal, dual = (level * penalty_value(each) for each in (saddle.primal_penalty, saddle.dual_penalty))
    return dataclasses.replace(saddle, primal_penalty=primal, dual_penalty=dual)


def _stochastic(saddle: Saddle) -> Solver:
    """Embedding-SGD, in whitened coordinates where both spaces have features: there steps of 1 suit any of them."""
    source = saddle.problem.source
    rows = source.rows if isinstance(source, Dataset) else BATCH
    batch = min(BATCH, rows)
    steps = max(FEWEST_STEPS, PASSES * rows // batch)
    offset = 0.25 * float(np.sqrt(steps))
    preconditioner = Preconditioner(PILOT) if _has_features(saddle) else None
    return EmbeddingSGD(steps, batch, OffsetSqrt(offset, offset), preconditioner=preconditioner)


def _is_auto(space: SpaceLike) -> bool:
    return isinstance(space, str) and space == "auto"


def _space(space: SpaceLike) -> FunctionSpace:
    return Affine() if isinstance(space, str) else space


def _both_linear(saddle: Saddle) -> bool:
    return all(isinstance(space, (LinearSpace, RKHS)) for space in (saddle.primal, saddle.dual))


def _has_features(saddle: Saddle) -> bool:
    return all(isinstance(space, LinearSpace) for space in (saddle.primal, saddle.dual))


def _seed(key: jax.Array | int) -> int:
    """The seed itself, or of a JAX key one that follows from it."""
    if isinstance(key, int | np.integer):
        return int(key)
    return int(np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel()).integers(2**31 - 1))
