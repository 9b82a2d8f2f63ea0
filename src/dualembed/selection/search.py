"""The search for a model: kernels for f by moment evidence, instruments rich enough to judge it."""

from __future__ import annotations

import dataclasses
import functools
import operator
from typing import Any

import numpy as np

from dualembed import checks, kernels
from dualembed.arrays import Booleans, Floats, Integers
from dualembed.kernels import Kernel, Sum
from dualembed.linear.averaging import deviations
from dualembed.problems.base import Problem, read_terms
from dualembed.selection.evidence import Maximum, evidence_with_slopes, maximise, moments
from dualembed.selection.instruments import Instruments, bandwidths, kernel_on, of_unit_norm, orthonormal
from dualembed.solvers.base import Choice
from dualembed.spaces.features import moment_features, to_numpy
from dualembed.spaces.nystrom import LandmarkMap, whitened
from dualembed.tuning import SEARCH

FEWEST = 5  # rows
ROUNDS = 4  # of hyper-parameters and noise in turn
NEGLIGIBLE = 0.01  # weight below which a family is left out

FAMILIES: dict[str, type[kernels.Matern52] | type[kernels.Gaussian]] = {
    "Matern52": kernels.Matern52,  # the rougher first
    "Gaussian": kernels.Gaussian,
}


@dataclasses.dataclass(frozen=True)
class Level:
    """How rich both spaces of a search are: landmarks, and the least variance of an instrument against the largest."""

    primal: int
    dual: int
    tolerance: float
    narrowing: float  # of the dual's bandwidths


LEVELS = (Level(120, 300, 1e-4, 1.0), Level(300, 500, 1e-6, 0.7), Level(500, 800, 1e-8, 0.7))


@dataclasses.dataclass(frozen=True)
class MomentSample:
    """What n samples say: points (n, K, d), weights (n, K), target y - offset (n,), context (n, c), in float64.

    `columns` are those of the context without a copy of the target, on which a square loss does not depend. Rows count
    as `mass` (n,) rows, where they do not count alike.
    """

    points: Floats
    weights: Floats
    target: Floats
    context: Floats
    known: Booleans
    columns: tuple[int, ...]
    mass: Floats | None = None

    def some(self, rows: Integers) -> MomentSample:
        """Those rows."""
        parts = (self.points[rows], self.weights[rows], self.target[rows], self.context[rows])
        return MomentSample(*parts, self.known, self.columns, None if self.mass is None else self.mass[rows])

    def mean(self, values: Floats) -> float:
        """The mean over rows of one number each."""
        return float(np.average(values, weights=self.mass))

    @property
    def places(self) -> Floats:
        """All points, (n K, d)."""
        return self.points.reshape(-1, self.points.shape[2])

    @property
    def unknown_columns(self) -> tuple[int, ...]:
        """Columns of the points that no column of the context is equal to, such as treatments; none if all are."""
        if self.points.shape[1] > 1:
            return ()
        known = self.context.T
        columns = enumerate(self.points[:, 0].T)
        unknown = [j for j, column in columns if not any(np.array_equal(column, other) for other in known)]
        return tuple(unknown) if len(unknown) < self.points.shape[2] else ()

    @property
    def treated_columns(self) -> tuple[int, ...]:
        """The same, or all columns where the context has none of them, but instruments and no copy of the target."""
        if self.unknown_columns:
            return self.unknown_columns
        only_instruments = len(self.columns) == self.context.shape[1] and not self.controls
        return tuple(range(self.points.shape[2])) if only_instruments and self.points.shape[1] == 1 else ()

    @property
    def controls(self) -> dict[int, int]:
        """Columns of the context that f depends on too, with the column of the points that each is equal to."""
        points = self.points[:, 0].T
        found = {}
        for column in self.columns:
            equal = (number for number, each in enumerate(points) if np.array_equal(self.context[:, column], each))
            if (number := next(equal, None)) is not None:
                found[column] = number
        return found

    @property
    def amplitude(self) -> float:
        """The variance that f must have to explain the targets."""
        square, mean = self.mean(self.target**2) or 1.0, self.mean(self.target)
        return (self.mean((self.target - mean) ** 2) or square) / (self.mean(np.sum(self.weights**2, axis=1)) or 1.0)

    @property
    def level(self) -> float:
        """The square of the constant that would explain their mean."""
        weight = self.mean(np.sum(self.weights**2, axis=1)) or 1.0
        total = self.mean(np.sum(self.weights, axis=1))
        return (self.mean(self.target**2) or 1.0) / max(total**2, 1e-4 * weight)


@dataclasses.dataclass(frozen=True)
class Model:
    """A kernel for f on its landmarks, instruments for the dual, and the variance of the residual they leave.

    The kernel is a smooth part plus a trend, each the mean of the families' by the weight of their evidence: the
    covariance of f where the family is uncertain too.
    """

    shares: dict[str, float]
    kernel: Sum
    features: LandmarkMap
    instruments: Instruments
    columns: tuple[int, ...]  # of the context, that the instruments depend on
    widths: Floats
    weights: Floats
    variance: float
    candidates: dict[str, Maximum]


def read_moments(problem: Problem) -> MomentSample:
    """What the rows of a finite data set say, all of them."""
    terms = read_terms(problem)
    rows, target = len(terms.target), terms.target - terms.offset
    if rows < FEWEST:
        given = "1 sample" if rows == 1 else f"{rows} samples"
        raise checks.InputError(f"choosing a model needs at least {FEWEST} rows, not {given}; give more")
    read = {"points": terms.points, "weights": terms.weights, "target": target, "context": terms.context}
    for name, values in read.items():
        checks.array(f"Terms.{name}", values)
    distinct = [j for j, column in enumerate(terms.context.T) if not np.array_equal(column, terms.target)]
    known = np.asarray(terms.known or (False,) * terms.weights.shape[1], dtype=bool)
    return MomentSample(**read, known=known, columns=tuple(distinct) or (0,), mass=terms.mass)


def choose(samples: MomentSample, rng: np.random.Generator) -> tuple[Model, list[Choice]]:
    """The model at the first level that leaves nothing for a richer dual to find, on as many landmarks as it needs."""
    rows = rng.permutation(len(samples.target))
    steps: list[Choice] = []
    model = None
    for number, level in enumerate(LEVELS):
        affordable = SEARCH.evidence_budget // (samples.weights.shape[1] * level.primal)
        wanted = int(np.clip(affordable, *SEARCH.evidence_rows))
        search = samples.some(rows[:wanted])
        model = _choose_at(search, level, model, rng=rng)
        steps += _steps(model, search)
        if number + 1 == len(LEVELS):
            break
        lack = _lack_of_fit(model, search, LEVELS[number + 1], rng=rng)
        verdict = "no" if lack <= SEARCH.lack_of_fit else "yes, both spaces are made richer"
        steps.append(Choice("can a richer dual predict the residual", verdict, {"standard deviations": lack}))
        if lack <= SEARCH.lack_of_fit:
            break
    if model is None:
        raise RuntimeError("there is at least one level")
    return _refine_landmarks(model, samples.some(rows[: SEARCH.final_rows]), level, steps=steps, rng=rng), steps


def _refine_landmarks(
    model: Model, samples: MomentSample, level: Level, *, steps: list[Choice], rng: np.random.Generator
) -> Model:
    """The same kernels on landmarks enough to span them, where the search made do with fewer."""
    features = model.features
    size = int(np.clip(len(samples.target) // SEARCH.rows_a_landmark, *SEARCH.final_landmarks))
    missed = _unspanned(model.kernel.left, features, samples.places)
    if missed > SEARCH.unspanned:
        features = whitened(model.kernel, landmarks_among(samples.places, size, rng))
        numbers = {"share of its variance that they miss": _unspanned(model.kernel.left, features, samples.places)}
        numbers["with those of the search"] = missed
        steps.append(Choice("landmarks of f", f"{len(features.landmarks)}", numbers))
    most = min(max(size, level.dual), len(samples.target) // 2)
    centres = landmarks_among(samples.context, most, rng)
    kernel, mass = model.instruments.kernel, samples.mass
    instruments = orthonormal(kernel, samples.context, centres, tolerance=level.tolerance, mass=mass)
    return dataclasses.replace(model, features=features, instruments=of_unit_norm(instruments))


def _unspanned(kernel: Kernel, features: LandmarkMap, places: Floats) -> float:
    """The share of the kernel's variance at the points that its landmarks do not explain."""
    some = places[:: max(1, len(places) // 1000)]
    spanned = np.sum(np.asarray(whitened(kernel, features.landmarks)(some)) ** 2, axis=1)
    return float(1 - np.mean(spanned / np.asarray(kernel.diagonal(some))))


def _choose_at(search: MomentSample, level: Level, before: Model | None, *, rng: np.random.Generator) -> Model:
    """Instruments and kernel of one level; the first level looks at its instruments again with a first f in hand."""
    inputs = search.context[:, search.columns]
    widest = deviations(inputs) * np.sqrt(inputs.shape[1])
    landmarks = landmarks_among(search.places, level.primal, rng)
    centres = landmarks_among(search.context, min(level.dual, len(inputs) // 2), rng)
    order = rng.permutation(len(inputs))  # the first rows are the landmarks of the regression
    mass = None if search.mass is None else search.mass[order]

    def instruments(widths: Floats) -> Instruments:
        kernel = kernel_on(search.columns, widths, search.context.shape[1])
        return orthonormal(kernel, search.context, centres, tolerance=level.tolerance, mass=search.mass)

    if before is not None:
        widths = before.widths * level.narrowing
        return _maximise_evidence(search, instruments(widths), landmarks, widths=widths, before=before)
    widths = bandwidths(inputs[order], search.target[order, None], widest=widest, mass=mass)
    first = _maximise_evidence(search, instruments(widths), landmarks, widths=widths, before=None)
    responses = _responses(search, first)
    narrower = bandwidths(inputs[order], responses[order], widest=widths, mass=mass)
    if np.all(narrower > 0.9 * widths):
        return first
    return _maximise_evidence(search, instruments(narrower), landmarks, widths=narrower, before=first)


def _maximise_evidence(
    search: MomentSample, instruments: Instruments, landmarks: Floats, *, widths: Floats, before: Model | None
) -> Model:
    """The most evident kernel for f, its noise and hyper-parameters found in turn."""
    q = instruments(search.context)
    size = search.mean(search.target**2) or 1.0
    variance = size if before is None else before.variance
    maxima = {} if before is None else before.candidates
    for _ in range(ROUNDS):
        noise = variance * np.eye(q.shape[1])
        seen = moments(search.points, search.weights, search.target, instruments=q, noise=noise, mass=search.mass)
        maxima = {name: _maximum(name, search, (seen, landmarks), maxima.get(name)) for name in FAMILIES}
        shares, kernel = _average_kernels(maxima)
        features = whitened(kernel, landmarks)
        theta, left = _posterior_mean(search, features, q, variance=variance)
        settled = abs(left - variance) < 0.05 * variance
        variance = max(left, 1e-12 * size)
        if settled:
            break
    return Model(shares, kernel, features, instruments, search.columns, widths, theta, variance, maxima)


def _average_kernels(maxima: dict[str, Maximum]) -> tuple[dict[str, float], Sum]:
    """(weights of the families, mean of their kernels) by evidence."""
    rougher = next(iter(FAMILIES))
    values = np.array([one.value + SEARCH.rougher * (name == rougher) for name, one in maxima.items()])
    weights = np.exp(values - values.max())
    weights = np.where(weights < NEGLIGIBLE * weights.sum(), 0.0, weights)
    shares = {name: float(weight) for name, weight in zip(maxima, weights / weights.sum(), strict=True) if weight}
    smooth, trend = (
        functools.reduce(
            operator.add, [share * getattr(maxima[name].parameters, part) for name, share in shares.items()]
        )
        for part in ("left", "right")
    )
    kernel: Sum = to_numpy(Sum(smooth, trend))
    return shares, kernel


def _maximum(family: str, search: MomentSample, data: Any, last: Maximum | None) -> Maximum:
    """The most evident kernel of one family, from where it was, or from two starts where it was nowhere."""
    centre, spread, narrow = _prior(family, search)
    starts = [centre, narrow] if last is None else [last.parameters]
    found = [maximise(evidence_with_slopes, centre, spread, data, start=start, with_slopes=True) for start in starts]
    return max(found, key=lambda one: one.value)


def _prior(family: str, search: MomentSample) -> tuple[Sum, Sum, Sum]:
    """(centre, spread of the logarithms, a narrow start) of the kernel amplitude · family + trend.

    Bandwidths are near the typical distance of two points, and amplitudes such that f could explain the targets.
    """
    places = search.places
    dimension = places.shape[1]
    scale, middle = deviations(places), places.mean(axis=0)
    amplitude, level = search.amplitude, search.level
    make = FAMILIES[family]

    def kernel(bandwidth: Floats, amplitude: float, level: float, slope: Floats, middle: Floats) -> Sum:
        return Sum(amplitude * make(bandwidth), kernels.Polynomial(1, level, slope, middle))

    typical = np.sqrt(2.25 * dimension) * scale
    slope = 0.3 * amplitude / scale**2
    ones = np.ones(dimension)
    return (
        kernel(typical, 0.4 * amplitude, 4 * level, slope, middle),
        kernel(0.5 * ones, 2.0, 2.0, 2.0 * ones, 0 * ones),
        kernel(0.25 * typical, 0.4 * amplitude, 4 * level, slope, middle),
    )


def _posterior_mean(search: MomentSample, features: LandmarkMap, q: Floats, *, variance: float) -> tuple[Floats, float]:
    """(weights of f, mean squared residual) on the rows of the search."""
    g = moment_features(features, search.points, search.weights)
    rows, q = (len(g), q) if search.mass is None else (float(search.mass.sum()), q * search.mass[:, None])
    a, b = q.T @ g / rows, q.T @ search.target / rows
    theta = np.linalg.solve(a.T @ a + variance / rows * np.eye(g.shape[1]), a.T @ b)
    return np.asarray(theta, dtype=np.float64), search.mean((search.target - g @ theta) ** 2)


def _responses(search: MomentSample, model: Model) -> Floats:
    """What the moment is made of, (n, J): the target, and the parts that the context does and does not determine."""
    values = (model.features(search.places) @ model.weights).reshape(search.weights.shape) * search.weights
    parts = [values[:, flags].sum(axis=1) for flags in (search.known, ~search.known)]
    return np.stack([search.target, *parts], axis=1)


def _lack_of_fit(model: Model, search: MomentSample, richer: Level, *, rng: np.random.Generator) -> float:
    """How many standard deviations a richer dual's view of the residuals is beyond what noise would show it.

    Σ_{i≠j} q_i·q_j e_i e_j over its own, for instruments q that are orthogonal to those already used.
    """
    kernel = kernel_on(search.columns, model.widths * richer.narrowing, search.context.shape[1])
    centres = landmarks_among(search.context, min(richer.dual, len(search.target) // 2), rng)
    used = model.instruments(search.context)
    q = orthonormal(kernel, search.context, centres, tolerance=1e-4, mass=search.mass)(search.context)
    mass = np.ones(len(q)) if search.mass is None else search.mass
    q = q - used @ (used.T @ (mass[:, None] * q) / mass.sum())
    residual = search.target - moment_features(model.features, search.points, search.weights) @ model.weights
    scores = q * (mass * residual)[:, None]
    sums, squares = scores.sum(axis=0), scores.T @ scores
    surplus = float(sums @ sums - np.trace(squares))
    own = np.sum(np.sum(scores**2, axis=1) ** 2)
    return surplus / float(np.sqrt(max(2 * (np.sum(squares**2) - own), np.finfo(float).tiny)))


def landmarks_among(places: Floats, count: int, rng: np.random.Generator) -> Floats:
    """So many distinct places, at random."""
    looked_at = places[rng.permutation(len(places))[: 4 * count]]
    distinct = np.unique(looked_at, axis=0)
    return distinct[rng.permutation(len(distinct))[:count]]


def _steps(model: Model, search: MomentSample) -> list[Choice]:
    relative = model.widths / deviations(search.context[:, search.columns])
    dual = f"Gaussian kernel of bandwidths {_listed(relative)} standard deviations, {model.instruments.size} moments"
    points = deviations(search.places)
    parts = []
    for family, share in model.shares.items():
        smooth: Any = model.candidates[family].parameters.left
        widths = _listed(smooth.kernel.bandwidth / points)
        parts.append(
            f"{share:.0%} {family} of bandwidths {widths} standard deviations, variance {smooth.amplitude:.3g}"
        )
    primal = " and ".join(parts) + f", on {len(model.features.landmarks)} landmarks, with a level and a slope"
    numbers = {f"log evidence of {name}": maximum.value for name, maximum in model.candidates.items()}
    return [
        Choice("dual", dual),
        Choice("f", primal, numbers),
        Choice("residual variance", f"{model.variance:.4g}", {"rows searched": len(search.target)}),
    ]


def _listed(values: Floats) -> str:
    return ", ".join(f"{value:.3g}" for value in np.atleast_1d(values))
