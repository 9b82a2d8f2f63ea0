"""f as a Gaussian process: kernels, bandwidths, penalties and weights chosen by the moment evidence.

Other smooth losses take the kernels of the square loss, and their penalty from the honest score of the loss itself.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from dualembed import checks
from dualembed.linear.moment_fit import KernelPrior
from dualembed.linear.moments import MomentSystem
from dualembed.linear.sums import Sums, gather_moments, gather_scores
from dualembed.losses import Square
from dualembed.problems.base import Problem, with_rows
from dualembed.saddle import Saddle
from dualembed.selection.honest_score import Score, clustered_error, double_terms_of, honest_score, values_at
from dualembed.selection.instruments import kernel_on, orthonormal
from dualembed.selection.penalties import FEWEST, FOLDS, Variances, choose_products, prediction_penalty, variances
from dualembed.selection.record import Choice, Record
from dualembed.selection.search import (
    LEVELS,
    Model,
    MomentSample,
    choose,
    deviations,
    landmarks_among,
    read_moments,
)
from dualembed.solvers.closed_form import ClosedForm
from dualembed.solvers.newton import Newton, check_smooth
from dualembed.sources import Dataset
from dualembed.spaces.base import Function
from dualembed.spaces.basis import Basis
from dualembed.spaces.features import moment_features
from dualembed.spaces.linear import LinearFunction

ROUNDS, SETTLED = 20, 0.01  # of the noise and the penalty in turn, until the noise changes by so small a share
JUDGE_ROWS = 20_000  # that the honest score of two sets of weights is taken on
FACTORS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # of the square loss's penalty
HELD_OUT = 3  # one row of so many judges the penalties
DUAL_PENALTY = 1e-6  # instruments have unit variance: it only keeps their matrix regular


def choose_by_evidence(problem: Problem, rng: np.random.Generator, *, groups: Any = None) -> Record:
    """The saddle and its closed form, with efficient weights where they help; rows are in no particular order."""
    sample = read_moments(problem)
    model, steps = choose(sample, rng)
    sums = gather_moments(problem, model.features, model.instruments, folds=FOLDS, groups=groups)
    dual_penalty, predicting = prediction_penalty(sums)
    sums, multiplying = choose_products(sums, model.variance / sums.rows, dual_penalty)
    steps += [predicting, multiplying]
    fit = _solve(sums, model, dual_penalty)
    residual = sample.target - _moment(sample, fit.function)
    units = _units(groups, len(residual))
    noise = variances(sample.context[:, sample.columns], residual, rng, units=units)
    fit = _try_efficient_weights(problem, fit, model, noise=noise, units=units, steps=steps)
    spaces = Basis(model.features), Basis(model.instruments)
    saddle = Saddle(problem, *spaces, primal_penalty=fit.penalty, dual_penalty=dual_penalty)
    return Record(tuple(steps), saddle, ClosedForm(sums.groups, groups, fit.noise, _prior(model)))


def _prior(model: Model) -> KernelPrior:
    """The kernels that f's may be by what is known of it."""
    probabilities, kernels = zip(*model.likely, strict=True)
    return KernelPrior(probabilities, kernels, model.features.landmarks, model.features.whitener)


class Fit(NamedTuple):
    """Sums, the function that solves them, its penalties, and the noise of moments where they are weighted by it."""

    sums: Sums
    function: LinearFunction
    penalty: float
    dual_penalty: float
    noise: np.ndarray | None


def _try_efficient_weights(
    problem: Problem, fit: Fit, model: Model, *, noise: Variances, units: np.ndarray, steps: list[Choice]
) -> Fit:
    """The fit with efficient weights where they are called for and the honest score falls, else as it is."""
    numbers = {"gain in log likelihood a row": noise.gain, "its standard error": noise.stderr}
    if not noise.helpful:
        steps.append(Choice("efficient weights", "not needed, the noise is much the same everywhere", numbers))
        return fit
    omega = gather_scores(problem, fit.function, model.instruments, variances=noise.values)
    other = _solve(fit.sums, model, fit.dual_penalty, noise=omega / float(np.mean(noise.values)))
    units = _units(units[:JUDGE_ROWS], min(len(units), JUDGE_ROWS))
    before, after = (_judge(problem, one.function, units) for one in (fit, other))
    change = after.contributions - before.contributions
    stderr = clustered_error(change, units)
    numbers |= {"change of the honest score": float(change.mean()), "with standard error": stderr}
    used = change.mean() < -2 * stderr
    steps.append(Choice("efficient weights", "used" if used else "tried and not used", numbers))
    return other if used else fit


def _solve(sums: Sums, model: Model, dual_penalty: float, noise: np.ndarray | None = None) -> Fit:
    """The fit with λ1 = σ² / n, σ² that of the residual on all rows."""
    system, variance = MomentSystem(sums, dual_penalty, noise=noise), model.variance
    for _ in range(ROUNDS):
        penalty = variance / sums.rows
        theta = system.weights(penalty)
        before, variance = variance, max(sums.residual_variance(theta), 1e-12 * (sums.square or 0) / sums.rows)
        if abs(variance - before) < SETTLED * before:
            break
    return Fit(sums, LinearFunction(model.features, theta), penalty, dual_penalty, noise)


def _moment(sample: MomentSample, function: LinearFunction) -> np.ndarray:
    """Σ_k w_k f(p_k) in float64, some rows at a time."""
    tiles = np.array_split(np.arange(len(sample.target)), 1 + len(sample.target) // 4096)
    parts = (moment_features(function.features, sample.points[tile], sample.weights[tile]) for tile in tiles)
    return np.concatenate([part @ function.weights for part in parts])


def _judge(problem: Problem, function: LinearFunction, units: np.ndarray) -> Score:
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


def choose_for_smooth_loss(problem: Problem, rng: np.random.Generator, *, groups: Any = None) -> Record:
    """The saddle of the problem's own loss; rows are in no particular order, and groups are held out as a whole.

    Kernels and bandwidths are those that the square loss would choose for the same targets, whose scale is another one
    (labels ±1 and log-odds): the penalty is chosen among multiples of the square loss's by the honest score of the
    problem's loss on rows held out, or where these are too few for it by the mean loss of single ones.
    """
    check_smooth(problem.loss)
    square = eqx.tree_at(lambda each: each.loss, problem, Square())
    sample = read_moments(square)
    model, steps = choose(sample, rng)
    penalties = [factor * model.variance / len(sample.target) for factor in FACTORS]
    saddle = _saddle_with_whole_context(problem, model, rng)
    units = _units(groups, len(sample.target))
    held_out = units % HELD_OUT == 0
    training, judging = (with_rows(problem, rows) for rows in (~held_out, held_out))
    key, scores = checks.as_key(0), {}  # nothing is drawn: the spaces have their features
    few, together = len(np.unique(units[held_out])) < FEWEST, None if groups is None else units[held_out]
    for penalty in penalties:
        f = Newton().solve(key, _with_penalty(saddle, training, penalty), None).primal
        scores[penalty] = _mean_loss(judging, f) if few else honest_score(judging, f, groups=together).value
    best = min(scores, key=lambda penalty: scores[penalty])
    judge = "mean loss" if few else "honest score"
    numbers = {f"{judge} with {penalty:.1e}": score for penalty, score in scores.items()}
    steps.append(Choice("penalty", f"{best:.3g}", numbers))
    return Record(tuple(steps), _with_penalty(saddle, problem, best))


def _mean_loss(problem: Problem, function: Function) -> float:
    """The mean of loss_y(moment), which counts the noise of each moment too."""
    terms = double_terms_of(problem, None)
    return float(np.mean(problem.loss.value(terms.moment(values_at(function, terms.points)), terms.target)))


def _saddle_with_whole_context(problem: Problem, model: Model, rng: np.random.Generator) -> Saddle:
    """The chosen space for f, and instruments of the whole context: other losses' dual variables depend on y too."""
    context = read_moments(problem).context
    widths = deviations(context) * np.sqrt(context.shape[1])
    widths[list(model.columns)] = model.widths
    kernel = kernel_on(tuple(range(context.shape[1])), widths, context.shape[1])
    level = LEVELS[0]
    centres = landmarks_among(context, min(level.dual, len(context) // 2), rng)
    instruments = orthonormal(kernel, context, centres, tolerance=level.tolerance)
    return Saddle(problem, Basis(model.features), Basis(instruments), dual_penalty=DUAL_PENALTY)


def _with_penalty(saddle: Saddle, problem: Problem, penalty: float) -> Saddle:
    return Saddle(problem, saddle.primal, saddle.dual, primal_penalty=penalty, dual_penalty=saddle.dual_penalty)
