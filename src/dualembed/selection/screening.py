"""Which kernels suit f, where rows are many enough to tell: candidates judged on groups they were fitted without.

A candidate is held against the one-step backup of the average of all, without the row's own group. What all of them may
share unseen, a level and a slope, is left out of account: a one-step error cannot see it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dualembed.linear.candidates import RidgePath
from dualembed.linear.path import Average
from dualembed.selection.rows import Rows
from dualembed.spaces.features import evaluate_functions

MOST_RATIO = 10.0  # of the length-scales of two coordinates
HOPELESS = 1e6  # standard errors, for what has no value
STEP = 0.1  # of slopes, in standard deviations


def excess(average: Average, rows: Rows, groups: np.ndarray) -> list[np.ndarray]:
    """By how many standard errors each candidate is worse than the best on rows of groups left out: (E,) for each path.

    `groups` (n,) are the numbers of the rows' left-out groups.
    """
    points, weights = rows.points, rows.weights
    here = _left_out(average, points[:, 0], groups)
    ahead = np.zeros((len(here), here.shape[1]))
    for point in range(1, points.shape[1]):
        used = weights[:, point] != 0
        ahead[used] += weights[used, point, None] * _left_out(average, points[used, point], groups[used])
    # A candidate that has no value without some group is out of the question.
    sound = np.all(np.isfinite(here) & np.isfinite(ahead), axis=0)
    shares = np.where(sound, np.concatenate(average.weights), 0.0)
    if not shares.any():
        return [np.zeros(len(path.ridges)) for path in average.paths]
    shares = shares / shares.sum()
    here, ahead = np.where(sound, here, 0.0), np.where(sound, ahead, 0.0)
    mean, backup = here @ shares, rows.target - ahead @ shares
    trend = np.concatenate([np.ones((len(mean), 1)), mean[:, None], points[:, 0]], axis=1)
    apart = here - mean[:, None]
    apart -= trend @ np.linalg.lstsq(trend, apart, rcond=None)[0]
    squares = ((backup - mean)[:, None] - apart) ** 2
    numbers = np.unique(groups)
    errors = np.stack([squares[groups == number].mean(axis=0) for number in numbers])
    considered = shares > 1e-4 * shares.max()
    best = int(np.argmin(np.where(considered, errors.mean(axis=0), np.inf)))
    worse = errors - errors[:, [best]]
    stderr = worse.std(axis=0, ddof=1) / np.sqrt(len(numbers))
    found = np.divide(np.maximum(worse.mean(axis=0), 0), stderr, out=np.zeros(len(stderr)), where=stderr > 0)
    found = np.where(sound, found, HOPELESS)
    return list(np.split(found, np.cumsum([len(path.ridges) for path in average.paths])[:-1]))


def _left_out(average: Average, points: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Every candidate without the row's group at one point a row, (n, E of all paths)."""
    found = np.empty((len(points), sum(len(path.ridges) for path in average.paths)))
    for group in np.unique(groups):
        own = groups == group
        parts = [_values(path, points[own], 1 + group) for path in average.paths]
        offset = 0.0 if average.offset is None else _values(average.offset, points[own], 1 + group)
        found[own] = np.concatenate(parts, axis=1) + offset
    return found


def _values(path: RidgePath, points: np.ndarray, way: int) -> np.ndarray:
    return evaluate_functions(path.features, np.asarray(path.weights)[:, way], points)


def length_scales(average: Average, points: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """How far f reaches along each coordinate (d,), against the others: the inverse of its slopes, of geometric mean 1.

    The slopes are those of what is left of f beyond a parabola, at points (n, d) whose coordinates are measured by
    `scale` (d,).
    """
    pairs = np.triu_indices(len(scale))

    def parabola(xs: np.ndarray) -> np.ndarray:
        zs = xs / scale
        return np.concatenate([np.ones((len(zs), 1)), zs, zs[:, pairs[0]] * zs[:, pairs[1]]], axis=1)

    def value(xs: np.ndarray) -> np.ndarray:
        parts = zip(average.paths, average.weights, strict=True)
        return np.sum([_values(path, xs, 0) @ own for path, own in parts], axis=0)

    fitted = np.linalg.lstsq(parabola(points), value(points), rcond=None)[0]
    slopes = []
    for move in STEP * np.diag(scale):
        up, down = (value(points + sign * move) - parabola(points + sign * move) @ fitted for sign in (1, -1))
        slopes.append(np.sqrt(np.mean(((up - down) / (2 * STEP)) ** 2)))
    steepest = max(slopes)
    if steepest == 0:
        return np.ones(len(scale))
    ratios = np.minimum(steepest / np.maximum(slopes, steepest / MOST_RATIO), MOST_RATIO)
    return np.asarray(ratios / np.exp(np.mean(np.log(ratios))))


def by_merit(weights: Sequence[np.ndarray], excesses: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The weights, lowered by how much worse candidates are on groups left out, and summing to 1 again."""
    lowered = [own / (1 + worse**2) ** 2 for own, worse in zip(weights, excesses, strict=True)]
    total = sum(float(each.sum()) for each in lowered)
    return [each / total for each in lowered]
