"""f as a Gaussian process: kernels, bandwidths, penalties and weights chosen by the moment evidence.

Other smooth losses take the kernels of the square loss, and their penalty from the honest score of the loss itself.
"""

from __future__ import annotations

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import Floats, Integers
from dualembed.linear.averaging import deviations
from dualembed.linear.moment_fit import MomentFit
from dualembed.linear.sums import Sums, gather_moments, gather_scores, number_groups
from dualembed.losses import Square
from dualembed.problems.base import Problem, finite_data, with_rows
from dualembed.saddle import Saddle
from dualembed.selection.evidence import kernel_on, orthonormal
from dualembed.selection.honest_score import Score, checked_terms, clustered_error, honest_score, values_at
from dualembed.selection.hypotheses import Weighed, base_features, candidates, weigh_hypotheses
from dualembed.selection.penalties import (
    FEWEST,
    FOLDS,
    NOISE_SHARE,
    Variances,
    choose_products,
    prediction_penalty,
    variances,
)
from dualembed.selection.search import FAMILIES, LEVELS, Model, MomentSample, choose, landmarks_among, read_moments
from dualembed.solvers.base import Choice, Record
from dualembed.solvers.closed_form import ClosedForm
from dualembed.solvers.newton import Newton, check_smooth
from dualembed.spaces.base import Function
from dualembed.spaces.basis import Basis, PolynomialMap
from dualembed.spaces.features import FeatureMap, moment_features
from dualembed.spaces.linear import LinearFunction
from dualembed.spaces.nystrom import Stack
from dualembed.tuning import SEARCH

ROUNDS, SETTLED = 20, 0.01  # of the noise and the penalty in turn, until the noise changes by so small a share
JUDGE_ROWS = 20_000  # that the honest score of two sets of weights is taken on
FACTORS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # of the square loss's penalty
HELD_OUT = 3  # one row of so many judges the penalties
DUAL_PENALTY = 1e-6  # instruments have unit variance: it only keeps their matrix regular


def choose_by_evidence(problem: Problem, rng: np.random.Generator, *, groups: ArrayLike | None = None) -> Record:
    """The saddle and its closed form, with efficient weights where they help; rows are in no particular order."""
    sample = read_moments(problem)
    model, steps = choose(sample, rng)
    asked = sample.unknown_columns
    trend, smooth = base_features(sample.places, model.features.landmarks, model.kernel.left, rng, asked=asked)
    searched = [
        (FAMILIES[name], maximum.parameters.left.kernel.bandwidth) for name, maximum in model.candidates.items()
    ]
    kernels = candidates(sample.places, searched, asked=asked)

    def weigh(instruments: FeatureMap, *, partially_linear: bool = False) -> tuple[Weighed, Sums, float, list[Choice]]:
        sums = gather_moments(problem, Stack((trend, smooth)), instruments, folds=FOLDS, groups=groups)
        weighed = weigh_hypotheses(
            trend,
            smooth,
            sums,
            kernels,
            scale=sample.amplitude,
            level=4 * sample.level + 100 * sample.amplitude,
            variance=model.variance,
            asked=asked,
            partially_linear=partially_linear,
        )
        dual_penalty, predicting = prediction_penalty(sums)
        slopes = weighed.slopes if np.all(sample.weights >= 0) else None
        sums, multiplying = choose_products(weighed.sums, weighed.variance / sums.rows, dual_penalty, slopes=slopes)
        return weighed, sums, dual_penalty, [weighed.choice, predicting, multiplying]

    instruments: FeatureMap = model.instruments
    weighed, sums, dual_penalty, choices = weigh(instruments)
    if asked and choices[-1].numbers.get(NOISE_SHARE, 0.0) > SEARCH.little_noise:
        others = [place for place in range(sample.context.shape[1]) if place not in sample.controls]
        fewer = PolynomialMap.orthonormal(sample.context, straight=others)
        partial = weigh(fewer, partially_linear=True)
        noise_share = partial[-1][-1].numbers[NOISE_SHARE]
        if noise_share > SEARCH.little_noise:
            instruments, (weighed, sums, dual_penalty, choices) = fewer, partial
            answer = (
                "polynomials of controls and lines in instruments, which are too weak for more: f is partially linear"
            )
            steps.append(Choice("moments", answer, {NOISE_SHARE: noise_share}))
            sums, choices[-1] = sums.merged(), Choice("products of moments", "all rows together, since moments are few")
    steps += choices
    fit = _solve(weighed, instruments, sums, dual_penalty)
    residual = sample.target - _moment(sample, fit.function)
    units = _units(groups, len(residual))
    noise = variances(sample.context[:, sample.columns], residual, rng, units=units)
    fit = _try_efficient_weights(problem, fit, weighed, instruments, noise=noise, units=units, steps=steps)
    spaces = Basis(weighed.features), Basis(instruments)
    saddle = Saddle(problem, *spaces, primal_penalty=fit.penalty, dual_penalty=dual_penalty)
    return Record(tuple(steps), saddle, ClosedForm(sums.groups, groups, fit.noise, weighed.prior))


def _try_efficient_weights(
    problem: Problem,
    fit: MomentFit,
    weighed: Weighed,
    instruments: FeatureMap,
    *,
    noise: Variances,
    units: Integers,
    steps: list[Choice],
) -> MomentFit:
    """The fit with efficient weights where they are called for and the honest score falls, else as it is."""
    numbers = {"gain in log likelihood a row": noise.gain, "its standard error": noise.stderr}
    if not noise.helpful:
        steps.append(Choice("efficient weights", "not needed, the noise is much the same everywhere", numbers))
        return fit
    omega = gather_scores(problem, fit.function, instruments, variances=noise.values)
    other = _solve(weighed, instruments, fit.sums, fit.dual_penalty, noise=omega / float(np.mean(noise.values)))
    units = _units(units[:JUDGE_ROWS], min(len(units), JUDGE_ROWS))
    before, after = (_judge(problem, one.function, units) for one in (fit, other))
    change = after.contributions - before.contributions
    stderr = clustered_error(change, units)
    numbers |= {"change of the honest score": float(change.mean()), "with standard error": stderr}
    used = change.mean() < -2 * stderr
    steps.append(Choice("efficient weights", "used" if used else "tried and not used", numbers))
    return other if used else fit


def _solve(
    weighed: Weighed, instruments: FeatureMap, sums: Sums, dual_penalty: float, noise: Floats | None = None
) -> MomentFit:
    """The fit with λ1 = σ² / n, σ² that of the residual on all rows."""
    variance, features = weighed.variance, (weighed.features, instruments)
    for _ in range(ROUNDS):
        penalty = variance / sums.rows
        fit = MomentFit.solve(features, sums, penalty, dual_penalty=dual_penalty, noise=noise, prior=weighed.prior)
        before, variance = variance, max(fit.residual_variance, 1e-12 * (sums.square or 0) / sums.rows)
        if abs(variance - before) < SETTLED * before:
            break
    return fit


def _moment(sample: MomentSample, function: LinearFunction) -> Floats:
    """Σ_k w_k f(p_k) in float64, some rows at a time."""
    tiles = np.array_split(np.arange(len(sample.target)), 1 + len(sample.target) // 4096)
    parts = (moment_features(function.features, sample.points[tile], sample.weights[tile]) for tile in tiles)
    return np.concatenate([part @ function.weights for part in parts])


def _judge(problem: Problem, function: LinearFunction, units: Integers) -> Score:
    """The honest score on the first rows, as many as there are units for."""
    sample = {name: column[: len(units)] for name, column in finite_data(problem).table.items()}
    return honest_score(problem, lambda xs: function.features(xs) @ function.weights, sample=sample, groups=units)


def _units(groups: ArrayLike | None, rows: int) -> Integers:
    """The number (n,) of each row's group, from 0; each row by itself where groups are none, or too few for folds."""
    units = number_groups(groups, rows)
    return units if units.max() + 1 >= 2 * FOLDS else np.arange(rows)


def choose_for_smooth_loss(problem: Problem, rng: np.random.Generator, *, groups: ArrayLike | None = None) -> Record:
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
    terms = checked_terms(problem, None)
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
