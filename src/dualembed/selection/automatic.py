"""From a problem and its data to a fitted function, every number chosen from single samples, with no ground truth."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from dualembed import checks, compilation
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
from dualembed.solvers.base import Pair, Result
from dualembed.solvers.closed_form import penalised, pseudo_inverse
from dualembed.solvers.statistics import Statistics, gather, total
from dualembed.solvers.uncertainty import score_covariance, spreads
from dualembed.sources import Dataset
from dualembed.spaces.basis import Basis
from dualembed.spaces.features import moment_features
from dualembed.spaces.linear import LinearFunction

FOLDS = 5
ROUNDS, SETTLED = 20, 0.01  # of the noise and the penalty in turn, until the noise changes by so small a share
JUDGE_ROWS = 20_000  # that the honest score of two sets of weights is taken on


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
    record = Record(steps, saddle, 1)
    return Result(function, witness, None, finite, Pair(function, witness), 1, uncertainty=fit, record=record)


def by_evidence(key: jax.Array | int, problem: Problem, *, groups: Any = None) -> Result:
    """The problem's solution with kernels, bandwidths, penalties and weights chosen by evidence.

    f is a Gaussian process: a constant, a linear trend and a smooth part with one bandwidth a coordinate, whose
    hyper-parameters maximise the moment evidence. The dual's bandwidths are short enough to predict what the moment is
    made of, and both spaces grow while the residual can still be predicted by a richer dual. Where the noise depends
    on the context, efficient weights are tried, and kept if the honest score falls. The solution is that of
    `solvers.ClosedForm(result.record.folds)` on `result.record.saddle`, apart from such weights; `print(result.record)`
    says what was tried and chosen, and `result.uncertainty` has standard errors. Smooth losses other than the square
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
    parts = gather(problem, choice.features, choice.instruments, folds=FOLDS, groups=groups)
    dual_penalty, predicting = predictive_penalty(parts)
    plain, multiplying = products(parts, choice.variance / total(parts).count, dual_penalty)
    steps += [predicting, multiplying]
    theta, penalty = _solved(plain, choice.variance, dual_penalty)
    fit = Fit(plain, LinearFunction(choice.features, theta), penalty, dual_penalty)
    residual = samples.target - _moment(samples, fit.function)
    units = _units(groups, len(residual))
    model = variances(samples.context[:, samples.columns], residual, rng, units=units)
    fit = _weighed(problem, fit, choice, model=model, units=units, steps=steps)
    scores = score_covariance(problem, fit.function, choice.instruments, groups=groups)
    priors = _priors(choice)
    penalties: dict[str, Any] = {"primal_penalty": fit.penalty, "dual_penalty": fit.dual_penalty}
    uncertainty = spreads(fit.parts, fit.function, scores, **penalties, priors=priors)
    saddle = Saddle(problem, Basis(choice.features), Basis(choice.instruments), **penalties)
    eta = _witness(plain, fit.function.weights, dual_penalty)
    witness = saddle.dual_function(LinearFunction(choice.instruments, eta))
    finite = bool(np.all(np.isfinite(fit.function.weights)))
    record = Record(tuple(steps), saddle, len(plain))
    pair = Pair(fit.function, witness)
    return Result(fit.function, witness, None, finite, pair, 1, uncertainty=uncertainty, record=record)


def _priors(choice: Choice) -> Iterator[tuple[float, np.ndarray]]:
    """(probability, covariance of the weights) for each likely kernel: K^(-1/2) K' K^(-1/2) on the landmarks.

    One at a time: together they would be as large as the features of all rows.
    """
    places, root = np.asarray(choice.features.landmarks), np.asarray(choice.features.whitener)
    for probability, kernel in choice.likely:
        yield probability, root.T @ np.asarray(kernel.gram(places, places)) @ root


class Fit(NamedTuple):
    """Statistics, the function that solves them, and the penalties."""

    parts: list[Statistics]
    function: LinearFunction
    penalty: float
    dual_penalty: float


def _weighed(
    problem: Problem, fit: Fit, choice: Choice, *, model: Variances, units: np.ndarray, steps: list[Step]
) -> Fit:
    """The fit with efficient weights where they are called for and the honest score falls, else as it is."""
    numbers = {"gain in log likelihood a row": model.gain, "its standard error": model.stderr}
    if not model.helpful:
        steps.append(Step("efficient weights", "not needed, the noise is much the same everywhere", numbers))
        return fit
    omega = score_covariance(problem, fit.function, choice.instruments, variances=model.values)
    parts = _weighted(fit.parts, omega / float(np.mean(model.values)))
    theta, penalty = _solved(parts, choice.variance, fit.dual_penalty)
    other = Fit(parts, LinearFunction(choice.features, theta), penalty, fit.dual_penalty)
    units = _units(units[:JUDGE_ROWS], min(len(units), JUDGE_ROWS))
    before, after = (_judged(problem, one.function, units) for one in (fit, other))
    change = after.contributions - before.contributions
    stderr = clustered_error(change, units)
    numbers |= {"change of the honest score": float(change.mean()), "with standard error": stderr}
    used = change.mean() < -2 * stderr
    steps.append(Step("efficient weights", "used" if used else "tried and not used", numbers))
    return other if used else fit


def _solved(parts: list[Statistics], variance: float, dual_penalty: float) -> tuple[np.ndarray, float]:
    """(θ, λ1) with λ1 = σ² / n, σ² that of the residual on all rows."""
    whole, weights = total(parts), penalised(parts, dual_penalty)
    for _ in range(ROUNDS):
        penalty = variance / whole.count
        theta = weights(penalty)
        before, variance = variance, max(whole.residual_variance(theta), 1e-12 * whole.target / whole.count)
        if abs(variance - before) < SETTLED * before:
            break
    return theta, penalty


def _witness(parts: list[Statistics], theta: np.ndarray, dual_penalty: float) -> np.ndarray:
    """η = (C + λ2)⁻¹(Aθ - b): where the moment still differs from its target, whatever weights f was found with."""
    whole = total(parts)
    values, vectors = np.linalg.eigh(whole.dual / whole.count)
    left = (whole.cross @ theta - whole.dual_target) / whole.count
    return vectors @ (pseudo_inverse(values, dual_penalty) * (vectors.T @ left))


def _weighted(parts: list[Statistics], noise: np.ndarray) -> list[Statistics]:
    """The same statistics with C replaced by the noise's covariance over its mean, which is what weights W⁻¹ are."""
    return [dataclasses.replace(part, dual=noise * part.count) for part in parts]


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
