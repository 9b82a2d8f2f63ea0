"""From a problem and its data to a fitted function, every number chosen from single samples, with no ground truth."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import numpy as np

from dualembed import checks, compilation
from dualembed.linear.moment_fit import KernelPrior
from dualembed.linear.moments import MomentSystem
from dualembed.linear.sums import Sums, gather_moments, gather_scores
from dualembed.problems.base import Problem
from dualembed.saddle import Saddle
from dualembed.selection.averaging import solve_averaged
from dualembed.selection.honest_score import Score, clustered_error, honest_score
from dualembed.selection.noise import Variances, variances
from dualembed.selection.penalty import predictive_penalty
from dualembed.selection.products import products
from dualembed.selection.record import Record, Step
from dualembed.selection.rows import assign_groups, read_rows
from dualembed.selection.search import Choice, Samples, choose, read
from dualembed.selection.smooth import smooth
from dualembed.selection.witness import witness_of
from dualembed.solvers.base import Pair, Result, solve
from dualembed.solvers.closed_form import ClosedForm, standard_errors
from dualembed.sources import Dataset
from dualembed.spaces.basis import Basis
from dualembed.spaces.features import moment_features
from dualembed.spaces.linear import LinearFunction
from dualembed.threads import on_one_thread

FOLDS = 5
ROUNDS, SETTLED = 20, 0.01  # of the noise and the penalty in turn, until the noise changes by so small a share
JUDGE_ROWS = 20_000  # that the honest score of two sets of weights is taken on


@on_one_thread
def auto(key: jax.Array | int, problem: Problem, *, groups: Any = None) -> Result:
    """The problem's solution with everything chosen from the data alone.

    Of transitions, where the context is the first point and the loss the square, it is the average of ridge paths of
    `selection.averaging`, in NumPy throughout; of all other problems that of `by_evidence`. `print(result.record)` says
    what was chosen, and `result.uncertainty` has standard errors, but for losses other than the square. `groups` (n,)
    labels rows that depend on each other, such as episodes, for standard errors that know of it.

    >>> import dualembed as de
    >>> rng = np.random.default_rng(0)
    >>> z, u = rng.normal(size=(2, 1000))
    >>> x = z + u
    >>> data = de.sources.Dataset(x=x, z=z, y=x + 2 * u)
    >>> result = de.selection.auto(0, de.problems.InstrumentalVariables(data))
    >>> bool(abs(result.primal([1.0])[0] - result.primal([0.0])[0] - 1) < 0.2)
    True
    """
    checks.instance("problem", problem, Problem, "such as problems.PolicyEvaluation(source, 0.9)")
    if not isinstance(problem.source, Dataset):
        raise checks.InputError("a model is chosen on a finite data set; use sources.Dataset as the source")
    rows = read_rows(problem) if problem.loss.quadratic else None
    if rows is None:
        return by_evidence(key, problem, groups=groups)
    rows.check_enough()
    rng = np.random.default_rng(_seed(key))
    fit, steps = solve_averaged(problem, rows, assign_groups(rows, groups, rng), rng=rng)
    spread = witness_of(fit)
    saddle = Saddle(problem, Basis(spread.features), Basis(spread.features))
    witness = saddle.dual_function(LinearFunction(spread.features, spread.weights))
    function = fit.function
    finite = bool(np.all(np.isfinite(function.weights)))
    record = Record(steps, saddle)
    return Result(function, witness, None, finite, Pair(function, witness), 1, uncertainty=fit, record=record)


def by_evidence(key: jax.Array | int, problem: Problem, *, groups: Any = None) -> Result:
    """The problem's solution with kernels, bandwidths, penalties and weights chosen by evidence.

    f is a Gaussian process: a constant, a linear trend and a smooth part with one bandwidth a coordinate, whose
    hyper-parameters maximise the moment evidence. The dual's bandwidths are short enough to predict what the moment is
    made of, and both spaces grow while the residual can still be predicted by a richer dual. Where the noise depends
    on the context, efficient weights are tried, and kept if the honest score falls. The solution is that of
    `result.record.solver` on `result.record.saddle`; `print(result.record)` says what was tried and chosen, and
    `result.uncertainty` has standard errors. Smooth losses other than the square
    take their spaces from it and their penalty from the honest score of the loss itself, by `solvers.Newton`, without
    standard errors. `groups` (n,) labels rows that depend on each other, such as episodes, for standard errors that
    know of it.

    Memory: the samples in float64, and at most 1,000 features of 20,000 rows, 160 MB, for each player.
    """
    checks.instance("problem", problem, Problem, "such as problems.PolicyEvaluation(source, 0.9)")
    compilation.enable_cache()
    rng = np.random.default_rng(_seed(key))
    if not problem.loss.quadratic:
        return smooth(checks.as_key(key), problem, rng)
    samples = read(problem)
    choice, steps = choose(samples, rng)
    return _fitted(problem, samples, choice, steps=steps, rng=rng, groups=groups)


def _seed(key: jax.Array | int) -> int:
    """The seed itself, or of a JAX key one that follows from it."""
    return int(key) if isinstance(key, int | np.integer) else int(jax.random.randint(key, (), 0, 2**31 - 1))


def _fitted(
    problem: Problem, samples: Samples, choice: Choice, *, steps: list[Step], rng: np.random.Generator, groups: Any
) -> Result:
    """The closed form on all rows, with efficient weights where they help, and its uncertainty."""
    sums = gather_moments(problem, choice.features, choice.instruments, folds=FOLDS, groups=groups)
    dual_penalty, predicting = predictive_penalty(sums)
    sums, multiplying = products(sums, choice.variance / sums.rows, dual_penalty)
    steps += [predicting, multiplying]
    fit = _solved(sums, choice, dual_penalty)
    residual = samples.target - _moment(samples, fit.function)
    units = _units(groups, len(residual))
    model = variances(samples.context[:, samples.columns], residual, rng, units=units)
    fit = _weighed(problem, fit, choice, model=model, units=units, steps=steps)
    spaces = Basis(choice.features), Basis(choice.instruments)
    saddle = Saddle(problem, *spaces, primal_penalty=fit.penalty, dual_penalty=dual_penalty)
    solver = ClosedForm(sums.groups, groups, fit.noise, _prior(choice))
    result = solve(0, saddle, solver)
    uncertainty = standard_errors(saddle, result, groups=groups)
    return dataclasses.replace(result, uncertainty=uncertainty, record=Record(tuple(steps), saddle, solver))


def _prior(choice: Choice) -> KernelPrior:
    """The kernels that f's may be by what is known of it."""
    probabilities, kernels = zip(*choice.likely, strict=True)
    return KernelPrior(probabilities, kernels, choice.features.landmarks, choice.features.whitener)


class Fit(NamedTuple):
    """Sums, the function that solves them, its penalties, and the noise of moments where they are weighted by it."""

    sums: Sums
    function: LinearFunction
    penalty: float
    dual_penalty: float
    noise: np.ndarray | None


def _weighed(
    problem: Problem, fit: Fit, choice: Choice, *, model: Variances, units: np.ndarray, steps: list[Step]
) -> Fit:
    """The fit with efficient weights where they are called for and the honest score falls, else as it is."""
    numbers = {"gain in log likelihood a row": model.gain, "its standard error": model.stderr}
    if not model.helpful:
        steps.append(Step("efficient weights", "not needed, the noise is much the same everywhere", numbers))
        return fit
    omega = gather_scores(problem, fit.function, choice.instruments, variances=model.values)
    other = _solved(fit.sums, choice, fit.dual_penalty, noise=omega / float(np.mean(model.values)))
    units = _units(units[:JUDGE_ROWS], min(len(units), JUDGE_ROWS))
    before, after = (_judged(problem, one.function, units) for one in (fit, other))
    change = after.contributions - before.contributions
    stderr = clustered_error(change, units)
    numbers |= {"change of the honest score": float(change.mean()), "with standard error": stderr}
    used = change.mean() < -2 * stderr
    steps.append(Step("efficient weights", "used" if used else "tried and not used", numbers))
    return other if used else fit


def _solved(sums: Sums, choice: Choice, dual_penalty: float, noise: np.ndarray | None = None) -> Fit:
    """The fit with λ1 = σ² / n, σ² that of the residual on all rows."""
    system, variance = MomentSystem(sums, dual_penalty, noise=noise), choice.variance
    for _ in range(ROUNDS):
        penalty = variance / sums.rows
        theta = system.weights(penalty)
        before, variance = variance, max(sums.residual_variance(theta), 1e-12 * (sums.square or 0) / sums.rows)
        if abs(variance - before) < SETTLED * before:
            break
    return Fit(sums, LinearFunction(choice.features, theta), penalty, dual_penalty, noise)


def _moment(samples: Samples, function: LinearFunction) -> np.ndarray:
    """Σ_k w_k f(p_k) in float64, some rows at a time."""
    tiles = np.array_split(np.arange(len(samples.target)), 1 + len(samples.target) // 4096)
    parts = (moment_features(function.features, samples.points[tile], samples.weights[tile]) for tile in tiles)
    return np.concatenate([part @ function.weights for part in parts])


def _judged(problem: Problem, function: LinearFunction, units: np.ndarray) -> Score:
    """The honest score on the first rows, as many as there are units for."""
    if not isinstance(problem.source, Dataset):
        raise RuntimeError("a model is chosen on a finite data set")
    sample = {name: column[: len(units)] for name, column in problem.source.table.items()}
    return honest_score(problem, lambda xs: function.features(xs) @ function.weights, sample=sample, groups=units)


def _units(groups: Any, rows: int) -> np.ndarray:
    """The number (n,) of each row's group, from 0; each row by itself where groups are none, or too few for folds."""
    if groups is None:
        return np.arange(rows)
    distinct, units = np.unique(np.asarray(groups), return_inverse=True)
    return units if len(distinct) >= 2 * FOLDS else np.arange(rows)
