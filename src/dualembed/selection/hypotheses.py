"""Hypotheses about f, and how probable the moment evidence makes each of them.

f is a polynomial trend plus a smooth part, f = Σ_j β_j p_j + g. The p_j are orthonormal on the data, β_j ~ N(0, τ_j);
the quadratic and the cubic ones are there or not. g is a Gaussian process of one of four families, of any length-scale
and amplitude, or not there at all. With moments b = E[q t] of instruments q that are orthonormal on the data,

    b = T β + B g + ε,   ε ~ N(0, σ² I / n),   evidence = log N(b; 0, T diag(τ) Tᵀ + a B K Bᵀ + σ² I / n),

one eigendecomposition of B K Bᵀ for each family and length-scale makes every amplitude and trend a line of algebra:
hypotheses are enumerated, so that there is no gradient to follow and no local maximum to end in.

No data tell a jump from a steep slope, and the best guess is not what an honest error must reckon with. So there are
two hyper-priors on the same evidence: one for f, which has smooth functions and plain trends for the more likely, and
a rougher one for its error.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from dualembed.arrays import Booleans, Floats, Integers
from dualembed.kernels import Columns, Gaussian, Kernel, Laplacian, Matern32, Matern52
from dualembed.linear.averaging import deviations
from dualembed.linear.moment_fit import MixturePrior
from dualembed.linear.sums import Sums
from dualembed.progress import track
from dualembed.solvers.base import Choice
from dualembed.spaces.basis import PolynomialMap
from dualembed.spaces.linear import TransformedMap
from dualembed.spaces.nystrom import LandmarkMap, Stack, whiten
from dualembed.tuning import HYPOTHESES, HyperPrior

FAMILIES: tuple[type[Kernel], ...] = (Gaussian, Matern52, Matern32, Laplacian)  # the smoothest first
KNOTS = 240  # landmarks of a function of one coordinate
CUT = 1e-11  # of the landmarks' kernel: directions that rounding would swamp
LEAST = 1e-12  # noise, as a share of the mean square of targets
ROUNDING = 1e-15  # as a share of the variance of all moments
ROUNDS, SETTLED = 12, 0.01  # of the evidence and the noise in turn


@dataclasses.dataclass(frozen=True)
class Smooth:
    """A smooth part of unit amplitude: its family by number, kernel, and S = B K Bᵀ in its own eigenvectors.

    `size` is the logarithm of its length-scale over the typical one, 0 where the length-scale was searched for.
    """

    family: int
    kernel: Kernel
    size: float
    values: Floats  # (r,), eigenvalues of S
    trend: Floats  # (r, p), T in the eigenvectors' coordinates
    observed: Floats  # (r,), b likewise


@dataclasses.dataclass(frozen=True)
class Weighed:
    """What was found: features in which the mean prior is the identity, the prior, and the variance of the noise.

    `slopes` are the places among the features of the slopes that are asked about, or of all where none is.
    """

    features: TransformedMap
    prior: MixturePrior
    sums: Sums
    variance: float
    slopes: Integers
    choice: Choice


def base_features(
    points: Floats, landmarks: Floats, reference: Kernel, rng: np.random.Generator, *, asked: Sequence[int] = ()
) -> tuple[PolynomialMap, LandmarkMap]:
    """The trend and landmark features that all hypotheses are expressed in.

    The trend of the columns `asked` about, which the context does not tell, is of what others leave of them. A
    function of one coordinate has knots all over the data, and any rough kernel between them; others have the landmarks
    and the kernel that a search found.
    """
    trend = PolynomialMap.orthonormal(points[rng.permutation(len(points))[:20_000]], last=asked)
    if points.shape[1] == 1:
        landmarks = _knots(points[:, 0])[:, None]
        reference = Matern32(0.9 * deviations(points))
    return trend, LandmarkMap(reference, landmarks, whiten(reference, landmarks, CUT))


def candidates(
    points: Floats, searched: Sequence[tuple[type[Kernel], Floats]], *, asked: Sequence[int] = ()
) -> list[tuple[int, Kernel, float]]:
    """(family, kernel, logarithm of its length-scale over the typical one) of every smooth part to be weighed.

    Of one coordinate all families have all length-scales of a grid; of several, those around the bandwidths that were
    `searched` for, which differ by coordinate, of all columns and of those that are not `asked` about: then f is
    partially linear.
    """
    found: list[tuple[int, Kernel, float]] = []
    if points.shape[1] == 1:
        scale = deviations(points)
        for number, family in enumerate(FAMILIES):
            found += [(number, family(width * scale), float(np.log(width))) for width in HYPOTHESES.widths]
        return found
    for family, widths in searched:
        number = FAMILIES.index(family)
        found += [(number, family(factor * widths), 0.0) for factor in HYPOTHESES.factors]
        if family is Matern52:  # what is rougher has longer length-scales for the same data
            found += [(2, Matern32(1.2 * widths), 0.0), (3, Laplacian(2.0 * widths), 0.0)]
        if asked:
            others = tuple(column for column in range(points.shape[1]) if column not in asked)
            own = np.asarray(widths)[list(others)]
            found += [(number, Columns(family(factor * own), others), 0.0) for factor in HYPOTHESES.factors]
    return found


def weigh_hypotheses(
    trend: PolynomialMap,
    smooth: LandmarkMap,
    sums: Sums,
    kernels: Sequence[tuple[int, Kernel, float]],
    *,
    scale: float,
    level: float,
    variance: float,
    noise: Floats | None = None,
    asked: Sequence[int] = (),
    partially_linear: bool = False,
) -> Weighed:
    """Weigh all hypotheses by sums of the trend's and the landmarks' features side by side.

    Without kernels f has no smooth part. `scale` is the variance that f must have to explain the targets, `level` that
    of its constant, and `variance` a first guess of the noise's. Moments have the covariance `noise` (r, r) times the
    noise's variance over the rows, that of the instruments where it is None. Slopes of the columns `asked` about, such
    as treatments, are never small. A `partially_linear` f is a line in these, and any polynomial of the others, next to
    unpenalised: then moments of the others tell nothing of the slopes.
    """
    cross, target = sums.means()
    values, vectors = np.linalg.eigh(sums.mean_dual if noise is None else noise)
    kept = values > 1e-10 * values[-1]
    whitener = vectors[:, kept] / np.sqrt(values[kept])
    moments, observed = whitener.T @ cross, whitener.T @ target[:, 0]
    known, unknown = moments[:, : trend.size], moments[:, trend.size :] @ smooth.whitener.T
    square = (sums.square or 0.0) / sums.rows
    least = LEAST * max(square, scale)
    trends = _trend_variances(trend, scale, level, asked)
    if partially_linear:
        flat = _slopes(trend, asked) | ~trend.with_columns(asked)
        trends = np.where(flat, HYPOTHESES.asked_slope * scale, 0.0)[None]
        trends[0, 0] = level
    reference = _trend_residual(sums, known, observed, trends[-1], start=scale)
    parts = []
    with track(len(kernels), "Weighing hypotheses") as bar:
        for each in kernels:
            parts.append(_decompose(known, unknown, observed, smooth.landmarks, *each))
            bar.advance(to=len(parts))
    amplitudes = reference * np.asarray(HYPOTHESES.amplitudes if trend.dimension == 1 else HYPOTHESES.wide_amplitudes)
    nothing = Smooth(-1, smooth.kernel, 0.0, np.zeros(len(observed)), known, observed)

    for _ in range(ROUNDS):
        per_moment = max(variance, least) / sums.rows
        evidence = np.zeros((len(parts), len(amplitudes), len(trends)))
        for number, part in enumerate(parts):
            evidence[number] = _evidence(part, amplitudes, trends, per_moment)
        plain = _evidence(nothing, np.zeros(1), trends, per_moment)[0]
        shares = _posterior(evidence, plain, parts, amplitudes / reference, trend, HYPOTHESES.mean)
        prior = _prior(shares, shares, parts, amplitudes, trends, smooth)
        theta = _mean(prior, known, unknown, observed, smooth, per_moment)
        before, variance = variance, max(sums.residual_variance(theta), least)
        if abs(variance - before) < SETTLED * before:
            break
    rough = _posterior(evidence, plain, parts, amplitudes / reference, trend, HYPOTHESES.error)
    prior = _prior(shares, rough, parts, amplitudes, trends, smooth)
    transform, reduction = _mean_coordinates(prior, smooth)
    features = TransformedMap(Stack((trend, smooth)), transform)
    return Weighed(
        features,
        dataclasses.replace(prior, reduction=reduction),
        sums.transformed(transform),
        variance,
        np.flatnonzero(transform[: trend.size][_slopes(trend, asked)].any(axis=0)),
        _describe(shares, parts, trend),
    )


def _knots(x: Floats) -> Floats:
    """Places all over the data: half of them at quantiles, half evenly; all distinct values where these are few."""
    distinct = np.unique(x)
    if len(distinct) <= KNOTS:
        return distinct
    return np.unique(
        np.concatenate(
            [np.quantile(distinct, np.linspace(0, 1, KNOTS // 2)), np.linspace(distinct[0], distinct[-1], KNOTS // 2)]
        )
    )


def _trend_variances(trend: PolynomialMap, scale: float, level: float, asked: Sequence[int]) -> Floats:
    """The variances (C, p) of trends: linear ones, with a quadratic part, a cubic part, or both.

    With many columns slopes may be small one by one: these are hypotheses, too. But those that are asked for must not
    be drawn to 0 by what is known of others, where the data tell little of them.
    """
    degrees, free = trend.degrees, _slopes(trend, asked) & bool(asked)
    slopes = (1.0, 0.1, 0.01) if trend.dimension > HYPOTHESES.few_columns else (1.0,)
    found = []
    for slope, quadratic, cubic in itertools.product(slopes, (0.0, 1.0), (0.0, 1.0)):
        if (quadratic and 2 not in degrees) or (cubic and 3 not in degrees):
            continue
        each = scale * np.array([level / scale, slope, quadratic * slope, cubic * slope])
        found.append(np.where(free, HYPOTHESES.asked_slope * scale, each[degrees]))
    return np.stack(found)


def _slopes(trend: PolynomialMap, asked: Sequence[int]) -> Booleans:
    """Which features of the trend are slopes of the columns asked about, (p,); of all columns where none is."""
    return trend.with_columns(asked or range(trend.dimension)) & (trend.degrees == 1)


def _trend_residual(sums: Sums, known: Floats, observed: Floats, variances: Floats, *, start: float) -> float:
    """The variance of what the richest trend alone leaves: what a smooth part may be of the size of."""
    variance, theta = start, np.zeros(sums.cross.shape[2])
    used = np.flatnonzero(variances)
    seen = known[:, used]
    for _ in range(3):
        normal = seen.T @ seen + np.diag(variance / sums.rows / variances[used])
        theta[used] = np.linalg.solve(normal, seen.T @ observed)
        variance = min(sums.residual_variance(theta), start)
    return max(variance, LEAST * start)


def _decompose(
    known: Floats, unknown: Floats, observed: Floats, landmarks: Floats, family: int, kernel: Kernel, size: float
) -> Smooth:
    covariance = unknown @ np.asarray(kernel.gram(landmarks, landmarks)) @ unknown.T
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return Smooth(family, kernel, size, np.maximum(values, 0.0), vectors.T @ known, vectors.T @ observed)


def _evidence(part: Smooth, amplitudes: Floats, trends: Floats, noise: float) -> Floats:
    """The log evidence (A, C) of the smooth part at every amplitude beside every trend, but for a constant."""
    spectrum = noise + amplitudes[:, None] * part.values
    products = np.einsum("ar,rp,rq->apq", 1 / spectrum, part.trend, part.trend, optimize=True)
    pulled = (part.observed / spectrum) @ part.trend
    misfit = np.sum(part.observed**2 / spectrum, axis=1)
    entropy = np.sum(np.log(spectrum), axis=1)
    evidence = np.empty((len(amplitudes), len(trends)))
    for number, variances in enumerate(trends):
        used = variances > 0
        root = np.sqrt(variances[used])
        inner = np.eye(len(root)) + root[:, None] * products[:, used][:, :, used] * root
        right = pulled[:, used] * root
        explained = np.sum(right * np.linalg.solve(inner, right[:, :, None])[:, :, 0], axis=1)
        evidence[:, number] = -0.5 * (misfit - explained + entropy + np.linalg.slogdet(inner)[1])
    return evidence


def _posterior(
    evidence: Floats,
    plain: Floats,
    parts: Sequence[Smooth],
    amplitudes: Floats,
    trend: PolynomialMap,
    hyper: HyperPrior,
) -> tuple[Floats, Floats]:
    """Probabilities (S, A, C) of smooth parts at amplitudes beside trends, and (C,) of no smooth part."""
    alone = plain + np.log(hyper.no_smooth_part) + _log_trends(trend, hyper.trends, len(plain))
    smooth = evidence
    if parts:
        families = np.array([hyper.families[part.family] for part in parts])
        sizes = np.array([part.size for part in parts])
        one = trend.dimension == 1
        typical = np.log(hyper.width) if one else 0.0
        kernels = np.log(families) - 0.5 * ((sizes - typical) / hyper.width_spread) ** 2 * one
        levels = -0.5 * (np.log(amplitudes / hyper.amplitude) / hyper.amplitude_spread) ** 2
        prior = (_normalised(kernels)[:, None] + _normalised(levels))[:, :, None]
        prior = prior + np.log(1 - hyper.no_smooth_part) + _log_trends(trend, hyper.trends_beside, len(plain))
        smooth = evidence + prior
    top = max(smooth.max(initial=-np.inf), alone.max())
    smooth, alone = np.exp(smooth - top), np.exp(alone - top)
    floor = HYPOTHESES.negligible * max(smooth.max(initial=0.0), alone.max())
    smooth, alone = np.where(smooth < floor, 0.0, smooth), np.where(alone < floor, 0.0, alone)
    total = smooth.sum() + alone.sum()
    return smooth / total, alone / total


def _log_trends(trend: PolynomialMap, probabilities: tuple[float, float], trends: int) -> Floats:
    """The logarithm (C,) of how probable each of the trends is, from those of a quadratic and of a cubic part."""
    degrees = trend.degrees
    if trends == 1:
        return np.zeros(1)
    slopes = 3 if trend.dimension > HYPOTHESES.few_columns else 1
    chances = [
        np.prod([(p if there else 1 - p) for p, there in zip(probabilities, present, strict=True)])
        for present in itertools.product((False, True), (False, True))
        if not ((present[0] and 2 not in degrees) or (present[1] and 3 not in degrees))
    ]
    return np.log(np.tile(chances, slopes) / (slopes * np.sum(chances)))


def _normalised(logarithms: Floats) -> Floats:
    """The logarithms of probabilities that sum to 1."""
    top = logarithms.max()
    return logarithms - top - np.log(np.sum(np.exp(logarithms - top)))


def _prior(
    mean: tuple[Floats, Floats],
    error: tuple[Floats, Floats],
    parts: Sequence[Smooth],
    amplitudes: Floats,
    trends: Floats,
    smooth: LandmarkMap,
) -> MixturePrior:
    """The hypotheses that are probable for either."""
    shares, errors, variances, sizes, kernels = [], [], [], [], []
    for place in zip(*np.nonzero(mean[0] + error[0]), strict=True):
        shares.append(mean[0][place])
        errors.append(error[0][place])
        kernels.append(parts[place[0]].kernel)
        sizes.append(amplitudes[place[1]])
        variances.append(trends[place[2]])
    for (number,) in zip(*np.nonzero(mean[1] + error[1]), strict=True):
        shares.append(mean[1][number])
        errors.append(error[1][number])
        kernels.append(smooth.kernel)
        sizes.append(0.0)
        variances.append(trends[number])
    width = len(variances[0]) + len(smooth.landmarks)
    return MixturePrior(
        np.array(shares),
        np.array(errors),
        np.stack(variances),
        np.array(sizes),
        tuple(kernels),
        smooth.landmarks,
        np.eye(width),
    )


def _mean(
    prior: MixturePrior, known: Floats, unknown: Floats, observed: Floats, smooth: LandmarkMap, noise: float
) -> Floats:
    """The posterior mean of the weights of the trend's and the landmarks' whitened features."""
    size = known.shape[1]
    theta = np.zeros(size + smooth.size)
    for share, _, covariance in prior.covariances():
        if not share:
            continue
        joint = np.concatenate([known, unknown], axis=1) @ covariance
        seen = joint @ np.concatenate([known, unknown], axis=1).T
        # Without noise more moments than weights leave nothing but rounding to solve by.
        seen[np.diag_indices(len(seen))] += max(noise, ROUNDING * float(np.trace(seen)), np.finfo(float).tiny)
        values = joint.T @ np.linalg.solve(seen, observed)
        theta[:size] += share * values[:size]
        # From values at landmarks to whitened weights.
        theta[size:] += share * (smooth.whitener.T @ values[size:])
    return theta


def _mean_coordinates(prior: MixturePrior, smooth: LandmarkMap) -> tuple[Floats, Floats]:
    """(transform, reduction): to coordinates in which the mean of all priors is the identity, and of covariances there.

    The identity then stands for what is not known of the hypothesis, for whoever takes one prior for all.
    """
    weights = (prior.shares + prior.error_shares) / 2
    size = prior.trends.shape[1]
    gram = np.zeros((len(smooth.landmarks), len(smooth.landmarks)))
    for kernel in dict.fromkeys(map(id, prior.kernels)):
        own = [number for number, each in enumerate(prior.kernels) if id(each) == kernel]
        variance = float(weights[own] @ prior.amplitudes[own])
        gram += variance * np.asarray(prior.kernels[own[0]].gram(smooth.landmarks, smooth.landmarks))
    mean = smooth.whitener.T @ gram @ smooth.whitener
    slopes = weights @ prior.trends
    there = np.flatnonzero(slopes > 0)
    values, vectors = np.linalg.eigh((mean + mean.T) / 2)
    kept = values > 1e-12 * max(float(values[-1]), np.finfo(float).tiny)
    root = np.sqrt(values[kept])
    transform = np.zeros((size + smooth.size, len(there) + len(root)))
    transform[there, np.arange(len(there))] = np.sqrt(slopes[there])
    transform[size:, len(there) :] = vectors[:, kept] * root
    reduction = np.zeros((len(there) + len(root), size + len(smooth.landmarks)))
    reduction[np.arange(len(there)), there] = 1 / np.sqrt(slopes[there])
    reduction[len(there) :, size:] = (vectors[:, kept] / root).T @ smooth.whitener.T
    return transform, reduction


def _describe(shares: tuple[Floats, Floats], parts: Sequence[Smooth], trend: PolynomialMap) -> Choice:
    """What is probable, in words."""
    smooth, alone = shares
    families = {
        family.__name__: float(smooth[[part.family == number for part in parts]].sum())
        for number, family in enumerate(FAMILIES)
    }
    numbers = {f"probability of a {name} part": value for name, value in families.items() if value >= 0.005}
    numbers["probability of the trend alone"] = float(alone.sum())
    by_trend = smooth.sum(axis=(0, 1)) + alone
    curved = [name for name, there in (("quadratic", 2 in trend.degrees), ("cubic", 3 in trend.degrees)) if there]
    kinds = list(itertools.product(*[(False, True)] * len(curved)))
    for number, name in enumerate(curved if len(by_trend) >= len(kinds) else ()):
        own = [kind[number] for kind in kinds] * (len(by_trend) // len(kinds))
        numbers[f"probability of a {name} trend"] = float(by_trend[own].sum())
    best, share = max(families.items(), key=lambda each: each[1])
    if alone.sum() > 0.5:
        return Choice("prior of f", f"a trend alone ({alone.sum():.0%})", numbers)
    return Choice("prior of f", f"a trend and a smooth part ({share:.0%} {best})", numbers)
