"""The default for equations that f's own features can test: ridge paths of a few kernels, averaged; nothing to tune."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from dualembed.linear.candidates import RidgePath
from dualembed.linear.fit import LinearFit, reach_of
from dualembed.linear.functional import Functional
from dualembed.linear.path import Average, first_order, solution_path, squared_error
from dualembed.linear.sums import Sums, gather
from dualembed.problems.base import Problem
from dualembed.selection.known_part import known_part
from dualembed.selection.record import Step
from dualembed.selection.rows import Groups, Rows, deviations, sample_places
from dualembed.selection.screening import by_merit, excess, length_scales
from dualembed.selection.shapes import KERNELS, MORE_KERNELS, MOST_CURVED, STRETCHED, Shape, feature_maps
from dualembed.spaces.features import FeatureMap

LANDMARKS = 400  # of all actions together
RIDGES = tuple(10.0 ** -np.arange(11))
PROBES = 300  # places at which candidates are weighed
WRONG_SIGN = 100.0  # squared error of the logarithm of what should be above zero and is not
HEADLINE = 0.7  # of a candidate's merit, that the headline decides where there is one; places decide the rest
NEGLIGIBLE = 1e-4  # weight below which a candidate is left out
SCREENED = 5000  # rows from which on kernels are chosen among more
SCREEN_ROWS, SCREEN_LANDMARKS, SCREEN_LEFT_OUT = 4000, 200, 5
FEWEST_LEFT_OUT = 0.02  # of the rows of a screening, that each of its left-out groups must have
CHOSEN, LEAST_MERIT = 3, 0.02  # kernels that a screening leaves at most, and the weight that each must have


@dataclasses.dataclass(frozen=True)
class Setting:
    """What the paths of all kernels share.

    `shares` (K,) is how much of the data each left-out group is, `into` (F,) the left-out group of each group. `probes`
    (q, d) are places at which candidates are weighed, `headline` the question that matters most, where there is one,
    and `positive` says whether f is known to be above zero.
    """

    shares: np.ndarray
    into: np.ndarray
    offset: RidgePath | None
    probes: np.ndarray
    headline: Functional | None
    positive: bool

    def average(self, paths: Sequence[RidgePath], weights: Sequence[np.ndarray] = (), influence: Any = ()) -> Average:
        """The average of these paths."""
        return Average(tuple(paths), tuple(weights), self.shares, self.into, tuple(influence), self.offset)

    def path(self, features: FeatureMap, sums: Sums) -> RidgePath:
        """The ridge path of one kernel, from sums over left-out groups."""
        at = np.asarray(features(self.probes))
        beside = 0.0 if self.offset is None else self.offset.values(self.probes)[0]
        vectors: np.ndarray | None = None
        level: Any = 0.0
        if self.headline is not None:
            vectors = self.headline.means(self.headline.rows(features), self.into)
            vectors = np.concatenate([vectors, vectors[:1]])
            level = 0.0 if self.offset is None else self.headline.values(self.offset, self.into)[0]

        def looks(weights: np.ndarray) -> list[np.ndarray]:
            found = [at @ weights.T + beside]
            if vectors is not None:
                found.append(np.einsum("km,km->k", vectors, weights) + level)
            return [_logarithm(each) for each in found] if self.positive else found

        return solution_path(features, sums, RIDGES, looks=looks, shares=self.shares)

    def weigh(self, paths: Sequence[RidgePath]) -> list[np.ndarray]:
        """The weights (E,) of each path's candidates, all of them together summing to 1.

        They fall with the square of a candidate's squared error: a geometric mean of that of the headline, which counts
        most if there is one, and of the geometric mean over probes. Of an f that is positive it is the error of the
        logarithm: where f is a long sum, its error grows with it.
        """
        offset = 0.0 if self.offset is None else self.offset.values(self.probes)
        levels = self._log_errors([path.values(self.probes) + offset for path in paths])
        if self.headline is not None:
            asked = self.average(paths).each([(1.0, self.headline)])
            asked_levels = self._log_errors([each[:, None] for each in asked])
            levels = (1 - HEADLINE) * levels + HEADLINE * asked_levels
        finite = np.isfinite(levels)
        least = levels[finite].min(initial=np.inf)
        weights = np.where(finite, np.exp(-2 * (levels - least)), 0.0) if finite.any() else np.ones(len(levels))
        return list(np.split(weights / weights.sum(), np.cumsum([len(path.ridges) for path in paths])[:-1]))

    def _log_errors(self, values: list[np.ndarray]) -> np.ndarray:
        """The mean of the logarithm of squared errors over questions, from values (E, q, K + 2) on each path."""
        return np.concatenate([np.log(self._squared_errors(each)).mean(axis=1) for each in values])

    def _squared_errors(self, values: np.ndarray) -> np.ndarray:
        """The squared errors (E, q) of answers, or of their logarithms where f is positive."""
        if not self.positive:
            with np.errstate(invalid="ignore"):
                return np.maximum(squared_error(values, self.shares), np.finfo(float).tiny)
        wrong = ~np.all(values > 0, axis=-1)
        logarithms = np.log(np.where(wrong[..., None], 1.0, values))
        errors = np.maximum(squared_error(logarithms, self.shares), np.finfo(float).tiny)
        # Beside an answer that is not above zero the error of the next one is no measure of anything either.
        return np.where(wrong | np.isinf(errors), WRONG_SIGN, np.minimum(errors, WRONG_SIGN))


def _logarithm(values: np.ndarray) -> np.ndarray:
    """That of values which should be above zero; what is not counts as next to nothing, far from all others."""
    return np.log(np.maximum(values, max(1e-3 * float(np.median(np.abs(values))), np.finfo(float).tiny)))


def solve_averaged(
    problem: Problem,
    rows: Rows,
    groups: Groups,
    *,
    headline: Functional | None = None,
    rng: np.random.Generator,
) -> tuple[LinearFit, tuple[Step, ...]]:
    """f by ridge paths of a few kernels, averaged by what groups left out say of them, and what was chosen.

    `headline` is the question that matters most, where there is one: a policy's value. From 5,000 rows on the kernels
    are chosen among more of them.
    """
    shares = groups.units / groups.units.sum()
    places, visits = sample_places(rows.points[:, 0], np.ones(len(rows.target)), rng)
    offset = known_part(rows, groups.left_out, count=len(shares), rng=rng)
    setting = Setting(shares, groups.into, offset, probes_among(places), headline, problem.positive)
    screened = len(rows.target) >= SCREENED and rows.points.shape[2] > 1 and len(places) > LANDMARKS
    shapes = screen(problem, rows, groups, headline=headline, rng=rng) if screened else KERNELS
    features = feature_maps(rows, shapes, LANDMARKS, rng)
    sums = [gather(problem, each, groups.numbers, count=len(groups.into), offset=offset) for each in features]
    few = [own.merged(groups.into) for own in sums]
    paths = [setting.path(each, own) for each, own in zip(features, few, strict=True)]
    weights = setting.weigh(paths)
    if screened:
        some = rows.order()[rng.permutation(len(rows.target))[:SCREEN_ROWS]]
        worse = excess(setting.average(paths, weights), rows.some(some), groups.left_out[some])
        weights = by_merit(weights, worse)
    return assemble(setting, paths, weights, sums=sums, places=places, visits=visits, scale=deviations(rows.used))


def screen(
    problem: Problem, rows: Rows, groups: Groups, *, headline: Functional | None, rng: np.random.Generator
) -> tuple[Shape, ...]:
    """The kernels that suit best, of more than a fit could do with, on some of the rows and few landmarks."""
    chosen = rows.order()[rng.permutation(len(rows.target))[:SCREEN_ROWS]]
    some, into = rows.some(chosen), groups.into % SCREEN_LEFT_OUT
    numbers = into[groups.numbers[chosen]]
    sample = {name: column[chosen] for name, column in problem.source.table.items()}  # type: ignore[attr-defined]
    counts = np.bincount(numbers, minlength=int(into.max()) + 1)
    if counts.min() < FEWEST_LEFT_OUT * counts.sum():
        return KERNELS  # too uneven to judge anything by what is left out
    offset = known_part(some, numbers, count=len(counts), rng=rng)
    probes = probes_among(sample_places(some.points[:, 0], np.ones(len(chosen)), rng)[0])
    setting = Setting(counts / counts.sum(), into, offset, probes, headline, problem.positive)

    def paths_of(shapes: Sequence[Shape]) -> list[RidgePath]:
        features = feature_maps(some, shapes, SCREEN_LANDMARKS, rng)
        known: dict[str, Any] = {"count": len(counts), "offset": offset, "sample": sample}
        return [setting.path(each, gather(problem, each, numbers, **known)) for each in features]

    def merits(paths: Sequence[RidgePath]) -> list[np.ndarray]:
        weights = setting.weigh(paths)
        return by_merit(weights, excess(setting.average(paths, weights), some, numbers))

    shapes, paths = list(MORE_KERNELS), paths_of(MORE_KERNELS)
    width = some.points.shape[2] - some.actions
    # Of actions each has a function of its own, and lengths would be those of none.
    if not some.actions and width <= MOST_CURVED:
        points = some.points[rng.permutation(len(chosen))[:PROBES], 0]
        lengths = length_scales(setting.average(paths, merits(paths)), points, deviations(some.used))
        more = [shape._replace(scales=tuple(lengths[:width])) for shape in STRETCHED]
        shapes, paths = shapes + more, paths + paths_of(more)
    totals = np.array([each.sum() for each in merits(paths)])
    best = np.argsort(-totals)[:CHOSEN]
    return tuple(shapes[i] for i in best if totals[i] >= LEAST_MERIT or i == best[0])


def probes_among(places: np.ndarray) -> np.ndarray:
    """Some of the places, evenly among them."""
    return places[:: max(1, len(places) // PROBES)]


def assemble(
    setting: Setting,
    paths: Sequence[RidgePath],
    weights: Sequence[np.ndarray],
    *,
    sums: Sequence[Sums],
    places: np.ndarray,
    visits: np.ndarray,
    scale: np.ndarray,
) -> tuple[LinearFit, tuple[Step, ...]]:
    """The fit of the candidates that count, and what was chosen. `sums` are those of all groups, for each path."""
    total = sum(float(np.where(each < NEGLIGIBLE, 0.0, each).sum()) for each in weights)
    weights = [np.where(each < NEGLIGIBLE, 0.0, each) / total for each in weights]
    kept = [number for number, each in enumerate(weights) if each.sum() > 0]
    influence = [first_order(paths[i], weights[i], sums[i], setting.into) for i in kept]
    average = setting.average([paths[i] for i in kept], [weights[i] for i in kept], influence)
    compact = tuple(sums[i].merged(setting.into).compact() for i in kept)
    fit = LinearFit(average, compact, places, visits, scale, reach_of(places, scale), 0.0)
    fit = dataclasses.replace(fit, size=float(np.std(fit.replicates(places)[:, 0])))
    return fit, _steps(fit)


def _steps(fit: LinearFit) -> tuple[Step, ...]:
    """What was chosen, in words."""
    found = []
    for path, weights in zip(fit.candidates.paths, fit.candidates.weights, strict=True):
        base: Any = getattr(path.features, "base", path.features)
        widths = np.atleast_1d(np.asarray(base.kernel.bandwidth) / np.sqrt(base.dimension))
        name = f"{type(base.kernel).__name__} of {', '.join(f'{width:.3g}' for width in widths)} √d standard deviations"
        numbers = {f"ridge {ridge:.0e}": float(weight) for ridge, weight in zip(path.ridges, weights, strict=True)}
        found.append(Step(name, f"{weights.sum():.0%} of f, on {path.features.size} features", numbers))
    groups = Step("errors", f"from {len(fit.candidates.into)} groups of rows, {len(fit.candidates.shares)} left out")
    return (*found, groups)
