"""f as a Gaussian process: kernels, bandwidths, penalties and weights chosen by the moment evidence.

Other smooth losses take the kernels of the square loss, and their penalty from the honest score of the loss itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import Floats, Integers
from dualembed.kernels import Columns, Kernel
from dualembed.linear.averaging import deviations
from dualembed.linear.moment_fit import MomentFit
from dualembed.linear.sums import Sums, gather_moments, number_groups
from dualembed.losses import Square
from dualembed.problems.base import Problem, with_rows
from dualembed.progress import track
from dualembed.saddle import Saddle
from dualembed.selection.forms import ANY, Form, parts_of
from dualembed.selection.honest_score import checked_terms, honest_score, mean_of, values_at
from dualembed.selection.hypotheses import Weighed, weigh_hypotheses
from dualembed.selection.instruments import kernel_on, orthonormal
from dualembed.selection.penalties import (
    FEWEST,
    FOLDS,
    NOISE_SHARE,
    choose_noise,
    choose_products,
    prediction_penalty,
)
from dualembed.selection.search import FAMILIES, LEVELS, Model, MomentSample, choose, landmarks_among, read_moments
from dualembed.solvers.base import Choice, Record
from dualembed.solvers.closed_form import ClosedForm
from dualembed.solvers.newton import Newton, check_smooth
from dualembed.spaces.base import Function
from dualembed.spaces.basis import Basis, PolynomialMap
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.linear import TransformedMap
from dualembed.spaces.nystrom import Stack
from dualembed.tuning import SEARCH

ROUNDS, SETTLED = 20, 0.01  # of the noise and the penalty in turn, until the noise changes by so small a share
FACTORS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # of the square loss's penalty
HELD_OUT = 3  # one row of so many judges the penalties
DUAL_PENALTY = 1e-6  # instruments have unit variance: it only keeps their matrix regular


def choose_by_evidence(
    problem: Problem, rng: np.random.Generator, *, groups: ArrayLike | None = None, form: Form = ANY
) -> Record:
    """The saddle and its closed form, of an f of that form; rows are in no particular order."""
    sample = form.plain(read_moments(problem))
    with track(None, "Choosing kernels"):
        model, steps = choose(sample, rng)
    asked, treated = sample.unknown_columns, sample.treated_columns
    searched = [
        (FAMILIES[name], maximum.parameters.left.kernel.bandwidth) for name, maximum in model.candidates.items()
    ]
    landmarks, reference = model.features.landmarks, model.kernel.left
    trend, smooth, kernels = parts_of(sample.places, landmarks, reference, searched, rng, form=form, asked=asked)
    free = tuple(sorted({*asked, *form.linear}))

    def weigh(instruments: FeatureMap, *, noise: Floats | None = None, partially_linear: bool = False) -> Fitting:
        primal, dual = form.within(problem, Stack((trend, smooth)), instruments)
        sums = gather_moments(problem, primal, dual, folds=FOLDS, groups=groups)
        weighed = weigh_hypotheses(
            trend,
            smooth,
            sums,
            [each for each in kernels if not partially_linear or _leaves_out(each[1], treated)],
            scale=sample.amplitude,
            level=4 * sample.level + 100 * sample.amplitude,
            variance=model.variance,
            noise=noise,
            asked=sorted({*treated, *form.linear}) if partially_linear else free,
            partially_linear=partially_linear,
        )
        weighed = dataclasses.replace(weighed, features=TransformedMap(primal, weighed.features.transform))
        dual_penalty, predicting = prediction_penalty(sums)
        slopes = weighed.slopes if np.all(sample.weights >= 0) else None
        penalty, is_trend = weighed.variance / sums.rows, weighed.prior.is_trend
        sums, multiplying = choose_products(weighed.sums, penalty, dual_penalty, slopes=slopes, is_trend=is_trend)
        if partially_linear:
            sums, multiplying = sums.merged(), dataclasses.replace(multiplying, answer=FEW_MOMENTS)
        fit = _solve(weighed, dual, sums, dual_penalty, noise=noise)
        return Fitting(weighed, fit, [weighed.choice, predicting, multiplying])

    instruments: FeatureMap = model.instruments
    found, partially_linear = weigh(instruments), False
    # Without controls there are no moments of theirs to do harm: only instruments that are weak ask for a line.
    least = SEARCH.little_noise if asked else SEARCH.some_noise
    if treated and found.noise_share > least:
        fewer = _few_moments(sample, trend, treated)
        partial = weigh(fewer, partially_linear=True)
        # Where lines in instruments are nearly all noise, what moves x is no line.
        partially_linear = least < partial.noise_share < max(found.noise_share, SEARCH.most_noise)
        if partially_linear:
            instruments, found = fewer, partial
            steps.append(Choice("moments", PARTIALLY_LINEAR if asked else LINEAR, {NOISE_SHARE: partial.noise_share}))
    noise, choice = choose_noise(problem, found.fit, groups=groups)
    if noise is not None:
        found = weigh(instruments, noise=noise, partially_linear=partially_linear)
    steps += [*found.choices, choice]
    fit = found.fit
    spaces = Basis(found.weighed.features), Basis(fit.dual)
    saddle = Saddle(problem, *spaces, primal_penalty=fit.penalty, dual_penalty=fit.dual_penalty)
    return Record(tuple(steps), saddle, ClosedForm(fit.sums.groups, groups, fit.noise, found.weighed.prior))


def _few_moments(sample: MomentSample, trend: PolynomialMap, treated: Sequence[int]) -> PolynomialMap:
    """Lines in the instruments, and of the controls all monomials of the trend, so that each has a moment."""
    places = sample.controls  # which takes its time to find
    width = sample.context.shape[1]
    lines = [place for place in range(width) if place not in places]
    exponents = [
        tuple(each[places[place]] if place in places else 0 for place in range(width))
        for each in trend.exponents
        if not any(each[column] for column in treated)
    ]
    exponents += [tuple(int(place == own) for place in range(width)) for own in lines]
    return PolynomialMap.orthonormal(sample.context, straight=lines, exponents=exponents)


def _leaves_out(kernel: Kernel, columns: Sequence[int]) -> bool:
    """Whether functions of the kernel do not depend on any of the columns."""
    while isinstance(kernel, Columns):
        if not set(kernel.columns) & set(columns):
            return True
        columns = [place for place, column in enumerate(kernel.columns) if column in columns]
        kernel = kernel.kernel
    return False


class Fitting(NamedTuple):
    """Hypotheses weighed by one set of instruments, the fit by them, and what was chosen on the way."""

    weighed: Weighed
    fit: MomentFit
    choices: list[Choice]

    @property
    def noise_share(self) -> float:
        """Share of noise in what moments tell of slopes."""
        return float(self.choices[-1].numbers.get(NOISE_SHARE, 0.0))


FEW_MOMENTS = "all rows together, since moments are few"
PARTIALLY_LINEAR = (
    "polynomials of controls and lines in instruments, which are too weak for more: f is partially linear"
)
LINEAR = "lines in instruments, which are too weak for more: f is a line, as far as they tell"


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
    losses = problem.loss.value(terms.moment(values_at(function, terms.points)), terms.target)
    return mean_of(np.asarray(losses), terms.mass)


def _saddle_with_whole_context(problem: Problem, model: Model, rng: np.random.Generator) -> Saddle:
    """The chosen space for f, and instruments of the whole context: other losses' dual variables depend on y too."""
    context = read_moments(problem).context
    widths = deviations(context) * np.sqrt(context.shape[1])
    widths[list(model.columns)] = model.widths
    kernel = kernel_on(tuple(range(context.shape[1])), widths, context.shape[1])
    level = LEVELS[0]
    centres = landmarks_among(context, min(level.dual, len(context) // 2), rng)
    instruments = orthonormal(kernel, context, centres, tolerance=level.tolerance, mass=read_moments(problem).mass)
    return Saddle(problem, Basis(model.features), Basis(instruments), dual_penalty=DUAL_PENALTY)


def _with_penalty(saddle: Saddle, problem: Problem, penalty: float) -> Saddle:
    return Saddle(problem, saddle.primal, saddle.dual, primal_penalty=penalty, dual_penalty=saddle.dual_penalty)
