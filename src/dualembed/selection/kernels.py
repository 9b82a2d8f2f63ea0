"""Which kernels f is made of, and what is known of it at once, where its own features test the equation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve

from dualembed import checks, kernels
from dualembed.arrays import Floats, Integers
from dualembed.linear.averaging import (
    Groups,
    Rows,
    Weighing,
    by_merit,
    deviations,
    distinct_points,
    excess,
    level_numbers,
    probes_among,
    sample_places,
)
from dualembed.linear.candidates import Functional, Headline, RidgePath
from dualembed.linear.fit import LinearFit
from dualembed.linear.path import Average
from dualembed.linear.sums import gather
from dualembed.problems.base import TILE, Problem, finite_data, with_rows
from dualembed.saddle import Saddle
from dualembed.solvers.base import Choice
from dualembed.solvers.closed_form import AveragedPaths
from dualembed.spaces.basis import AffineMap, Basis
from dualembed.spaces.features import FeatureMap, evaluate_features, to_numpy
from dualembed.spaces.nystrom import ActionFeatures, Stack, TrendedLandmarks, action_mixing, trended
from dualembed.tuning import SEARCH

FOLDS = 5  # of the regression that finds what is known of f at once
RIDGES = (1e-1, 1e-3, 1e-5, 1e-7, 1e-9)  # of the same
FEWEST_LEFT_OUT = 0.02  # of the rows of a screening, that each of its left-out groups must have
UNDETERMINED = 1e-12  # sum of a row's weights, below which constants fulfil its equation
POINTS = 300  # at which slopes are looked at
STEP = 0.1  # of slopes, in standard deviations
MOST_ACTIONS = 12  # that have features of their own
MOST_VALUES = 1500  # of a function of states by name
MOST_CURVED = 13  # coordinates, of which all pairs are features


def known_part(rows: Rows, groups: Integers, *, count: int, rng: np.random.Generator) -> RidgePath | None:
    """E[target | first point] as a part of f to begin with, fitted to all rows and without each group.

    It is in the features, of several kernels that suit what is sharp, which predict groups left out best.

    Where the target is a sharp function of the state, f is one too; what is left of f is smooth, and no noisy moment
    has to find the sharp part again. None where the target is constant, where rows have weights, or where a tenth of
    its variance is noise or too rare to be learnt: the regression's own errors would then be in every answer.
    """
    target = rows.target
    variance = float(np.var(target))
    if variance <= 1e-20 * float(np.mean(target**2)) or not np.all(rows.weights[:, 0] == 1):
        return None
    maps = feature_maps(rows, OFFSET_KERNELS, SEARCH.known_landmarks, rng)
    if len(target) > SEARCH.known_rows:  # some of them tell which kernel suits, if any
        chosen = rng.permutation(len(target))[: SEARCH.known_rows]
        best = _best_regression(maps, rows.some(chosen), groups[chosen], count)
        if best.error > SEARCH.known_noise * variance:
            return None
        maps = [best.features]
    best = _best_regression(maps, rows, groups, count)
    if best.error > SEARCH.known_noise * variance:
        return None
    weights = [best.sums.weights(best.ridge), *(best.sums.weights(best.ridge, [group]) for group in range(count))]
    return RidgePath(best.features, np.array([best.ridge]), np.stack([*weights, weights[0]])[None])


class BestRegression(NamedTuple):
    """The regression of least error on groups left out."""

    error: float
    ridge: float
    features: FeatureMap
    sums: GroupedRegression


def _best_regression(maps: Sequence[FeatureMap], rows: Rows, groups: Integers, count: int) -> BestRegression:
    """That of the target on the first points, among all feature maps and ridges."""
    found = []
    for features in maps:
        sums = GroupedRegression.of(features, rows.points[:, 0], rows.target, groups, count)
        found += [BestRegression(sums.error(ridge), ridge, features, sums) for ridge in RIDGES]
    return min(found, key=lambda each: each.error)


@dataclasses.dataclass(frozen=True)
class GroupedRegression:
    """Sums of a regression by group: φφᵀ (K, m, m), φ times the response (K, m), its square (K,), and rows (K,)."""

    normal: Floats
    right: Floats
    square: Floats
    count: Floats

    @staticmethod
    def of(features: FeatureMap, points: Floats, response: Floats, groups: Integers, count: int) -> GroupedRegression:
        """The sums over the rows, a tile of them at a time."""
        size = features.size
        sums = GroupedRegression(
            np.zeros((count, size, size)), np.zeros((count, size)), np.zeros(count), np.zeros(count)
        )
        order = np.argsort(groups, kind="stable")
        for start in range(0, len(order), TILE):
            tile = order[start : start + TILE]
            phi, own = evaluate_features(features, points[tile]), response[tile]
            for group in np.unique(groups[tile]):
                inside = groups[tile] == group
                sums.normal[group] += phi[inside].T @ phi[inside]
                sums.right[group] += phi[inside].T @ own[inside]
                sums.square[group] += own[inside] @ own[inside]
                sums.count[group] += inside.sum()
        return sums

    def weights(self, ridge: float, without: Sequence[int] = ()) -> Floats:
        """The weights (m,) from all groups but some; the first, the constant's, is not penalised."""
        left = np.ones(len(self.count))
        left[list(without)] = 0
        rows = left @ self.count
        normal = np.tensordot(left, self.normal, axes=1) / rows
        places, scale = np.arange(1, len(normal)), float(np.trace(normal)) / len(normal)
        normal[places, places] += ridge * scale
        return np.asarray(solve(normal, left @ self.right / rows, assume_a="sym", check_finite=False))

    def error(self, ridge: float) -> float:
        """The mean squared error on groups that the weights were found without, a few groups at a time."""
        total = 0.0
        for fold in range(FOLDS):
            own = list(range(fold, len(self.count), FOLDS))
            if own:
                theta = self.weights(ridge, own)
                fitted = theta @ self.normal[own].sum(axis=0) @ theta - 2 * theta @ self.right[own].sum(axis=0)
                total += float(fitted + self.square[own].sum())
        return total / float(self.count.sum())


class Shape(NamedTuple):
    """A kernel of standardised points: its family, its bandwidth in √d standard deviations, and whether f is curved.

    `scales` (d,) are the relative lengths of the coordinates; all alike where they are left out.
    """

    family: type[kernels.Matern32] | type[kernels.Matern52] | type[kernels.Gaussian]
    bandwidth: float
    curved: bool = False
    scales: tuple[float, ...] | None = None

    def kernel(self, dimension: int) -> kernels.Kernel:
        """The kernel itself."""
        lengths = 1.0 if self.scales is None else np.asarray(self.scales)
        return to_numpy(self.family(self.bandwidth * np.sqrt(dimension) * lengths))


KERNELS = (Shape(kernels.Matern32, 1.0), Shape(kernels.Matern32, 3.0), Shape(kernels.Matern52, 1.0))
MORE_KERNELS = (
    *KERNELS,
    Shape(kernels.Matern52, 3.0),
    Shape(kernels.Gaussian, 1.5, True),
    Shape(kernels.Gaussian, 3.0, True),
)
OFFSET_KERNELS = tuple(Shape(kernels.Matern52, width, True) for width in (0.2, 1.0, 3.0))
STRETCHED = (
    Shape(kernels.Matern52, 1.5),
    Shape(kernels.Gaussian, 1.0, True),
    Shape(kernels.Gaussian, 2.0, True),
)  # each coordinate by its own length


def feature_maps(rows: Rows, shapes: Sequence[Shape], most: int, rng: np.random.Generator) -> list[FeatureMap]:
    """The features of each kernel, on landmarks among the distinct points: the order of rows does not matter."""
    width = rows.points.shape[2] - rows.actions
    used = rows.used
    places, centre, scale = distinct_points(used)[0], used.mean(axis=0), deviations(used)
    codes = np.unique(rows.points[:, :, width:].reshape(-1, rows.actions), axis=0) if rows.actions else np.empty((0, 0))
    apart = 0 < len(codes) <= MOST_ACTIONS
    if apart:
        places, centre, scale, most = (
            distinct_points(places[:, :width])[0],
            centre[:width],
            scale[:width],
            most // len(codes),
        )
    if level_numbers(places).shape[1] < places.shape[1]:  # a number for each level is every kernel's features
        check_few(places.shape[1], len(codes) if apart else 1)
        levels = AffineMap(places.shape[1])
        return [ActionFeatures(levels, codes, action_mixing(len(codes))) if apart else levels]
    maps: list[FeatureMap] = []
    for shape in shapes:
        chosen = places if len(places) <= most else places[np.sort(rng.permutation(len(places))[:most])]
        curved = shape.curved and 1 < len(centre) <= MOST_CURVED
        base = trended(shape.kernel(len(centre)), chosen, centre, scale, curved=curved)
        maps.append(ActionFeatures(base, codes, action_mixing(len(codes))) if apart else base)
    return maps


def check_few(states: int, actions: int) -> None:
    """Raise where a function of so many states has too many values to solve for, one of each action."""
    if states * actions > MOST_VALUES:
        raise checks.InputError(
            f"{states:,} states by name and {actions} actions are {states * actions:,} values to find, and there may "
            f"be {MOST_VALUES:,}; give states as numbers that say what they are like, such as places"
        )


def choose_paths(
    problem: Problem, rows: Rows, groups: Groups, *, headline: Headline | None, rng: np.random.Generator
) -> tuple[Saddle, AveragedPaths, list[FeatureMap]]:
    """The saddle, its solver and the features of each kernel; from 5,000 rows on it chooses among more kernels."""
    asked = None if headline is None else headline.among(groups.numbers)
    order = rows.order()  # in which means and sums do not round as they would in another
    rows, sorted_groups = rows.some(order), groups.among(order)
    offset = known_part(rows, sorted_groups.left_out, count=len(groups.units), rng=rng)
    many = len(rows.target) >= SEARCH.screened and rows.points.shape[2] > 1
    own = rows.points[:, 0, : rows.points.shape[2] - rows.actions]
    many = many and level_numbers(own).shape == own.shape
    screened = many and len(np.unique(rows.points[:, 0], axis=0)) > SEARCH.landmarks
    known: dict[str, Any] = {"headline": asked, "rng": rng}
    shapes = screen(with_rows(problem, order), rows, sorted_groups, **known) if screened else KERNELS
    features = feature_maps(rows, shapes, SEARCH.landmarks, rng)
    space = Basis(Stack(tuple(features)))
    return Saddle(problem, space, space), AveragedPaths(groups, headline, offset, judged=screened), features


def screen(
    problem: Problem, rows: Rows, groups: Groups, *, headline: Functional | None, rng: np.random.Generator
) -> tuple[Shape, ...]:
    """The kernels that suit best, of more than a fit could do with, on some of the rows and few landmarks."""
    chosen = rows.order()[rng.permutation(len(rows.target))[: SEARCH.screen_rows]]
    some, into = rows.some(chosen), groups.into % SEARCH.screen_left_out
    numbers = into[groups.numbers[chosen]]
    # What targets were made of without other groups than these is of no use here.
    sample = {name: column[chosen] for name, column in finite_data(problem).table.items() if name != "ways"}
    counts = np.bincount(numbers, minlength=int(into.max()) + 1)
    if counts.min() < FEWEST_LEFT_OUT * counts.sum():
        return KERNELS  # too uneven to judge anything by what is left out
    if np.all(np.abs(some.weights.sum(axis=1)) < UNDETERMINED):
        return KERNELS  # no row of the sample has an end, so that any constant may be added to f
    offset = known_part(some, numbers, count=len(counts), rng=rng)
    probes = probes_among(sample_places(some.points[:, 0], np.ones(len(chosen)), rng)[0])
    weighing = Weighing(counts / counts.sum(), into, offset, probes, headline, problem.positive, problem.unbounded)

    def paths_of(shapes: Sequence[Shape]) -> list[RidgePath]:
        features = feature_maps(some, shapes, SEARCH.screen_landmarks, rng)
        known: dict[str, Any] = {"count": len(counts), "offset": offset, "sample": sample}
        return [weighing.path(each, gather(problem, each, numbers, **known)) for each in features]

    def merits(paths: Sequence[RidgePath]) -> list[Floats]:
        weights = weighing.weigh(paths)
        return by_merit(weights, excess(weighing.average(paths, weights), some, numbers))

    shapes, paths = list(MORE_KERNELS), paths_of(MORE_KERNELS)
    width = some.points.shape[2] - some.actions
    # Of actions each has a function of its own, and lengths would be those of none.
    if not some.actions and width <= MOST_CURVED:
        points = some.points[rng.permutation(len(chosen))[:POINTS], 0]
        lengths = length_scales(weighing.average(paths, merits(paths)), points, deviations(some.used))
        more = [shape._replace(scales=tuple(lengths[:width])) for shape in STRETCHED]
        shapes, paths = shapes + more, paths + paths_of(more)
    totals = np.array([each.sum() for each in merits(paths)])
    best = np.argsort(-totals)[: SEARCH.kept_kernels]
    return tuple(shapes[i] for i in best if totals[i] >= SEARCH.least_merit or i == best[0])


def length_scales(average: Average, points: Floats, scale: Floats) -> Floats:
    """How far f reaches along each coordinate (d,), against the others: the inverse of its slopes, of geometric mean 1.

    The slopes are those of what is left of f beyond a parabola, at points (n, d) whose coordinates are measured by
    `scale` (d,).
    """
    pairs = np.triu_indices(len(scale))

    def parabola(xs: Floats) -> Floats:
        zs = xs / scale
        return np.concatenate([np.ones((len(zs), 1)), zs, zs[:, pairs[0]] * zs[:, pairs[1]]], axis=1)

    def value(xs: Floats) -> Floats:
        parts = zip(average.paths, average.weights, strict=True)
        return np.sum([path.values_one_way(xs, 0) @ own for path, own in parts], axis=0)

    fitted = np.linalg.lstsq(parabola(points), value(points), rcond=None)[0]
    slopes = []
    for move in STEP * np.diag(scale):
        up, down = (value(points + sign * move) - parabola(points + sign * move) @ fitted for sign in (1, -1))
        slopes.append(np.sqrt(np.mean(((up - down) / (2 * STEP)) ** 2)))
    steepest = max(slopes)
    if steepest == 0:
        return np.ones(len(scale))
    ratios = np.minimum(steepest / np.maximum(slopes, steepest / SEARCH.most_stretched), SEARCH.most_stretched)
    return np.asarray(ratios / np.exp(np.mean(np.log(ratios))))


def describe(fit: LinearFit) -> tuple[Choice, ...]:
    """What a fit is made of, in words."""
    choices = []
    for path, weights in zip(fit.candidates.paths, fit.candidates.weights, strict=True):
        numbers = {f"ridge {ridge:.0e}": float(weight) for ridge, weight in zip(path.ridges, weights, strict=True)}
        share = f"{weights.sum():.0%} of f, on {path.features.size} features"
        choices.append(Choice(_name(path.features), share, numbers))
    groups = Choice("errors", f"from {len(fit.candidates.into)} groups of rows, {len(fit.candidates.shares)} left out")
    return (*choices, groups)


def _name(features: FeatureMap) -> str:
    """The kernel that features are of, or what kind of features they are."""
    base = features.base if isinstance(features, ActionFeatures) else features
    if not isinstance(base, TrendedLandmarks):
        return type(base).__name__
    kernel: Any = base.kernel
    widths = np.atleast_1d(np.asarray(kernel.bandwidth) / np.sqrt(base.dimension))
    return f"{type(kernel).__name__} of {', '.join(f'{width:.3g}' for width in widths)} √d standard deviations"
