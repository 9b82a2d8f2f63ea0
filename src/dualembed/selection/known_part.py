"""The part of f that is known at once: what is observed in a state, as a regression on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.linalg import solve

from dualembed.linear.averaging import Rows
from dualembed.linear.candidates import RidgePath
from dualembed.problems.base import TILE
from dualembed.spaces.features import FeatureMap, evaluate_features
from dualembed.tuning import SEARCH

FOLDS = 5
RIDGES = (1e-1, 1e-3, 1e-5, 1e-7, 1e-9)


def known_part(rows: Rows, groups: np.ndarray, *, count: int, features: Iterable[FeatureMap]) -> RidgePath | None:
    """E[target | first point] as a part of f to begin with, fitted to all rows and without each group.

    It is in the one of several `features` that predicts groups left out best.

    Where the target is a sharp function of the state, f is one too; what is left of f is smooth, and no noisy moment
    has to find the sharp part again. None where the target is constant, where rows have weights, or where a tenth of
    its variance is noise or too rare to be learnt: the regression's own errors would then be in every answer.
    """
    target = rows.target
    variance = float(np.var(target))
    if variance <= 1e-20 * float(np.mean(target**2)) or not np.all(rows.weights[:, 0] == 1):
        return None
    best: tuple[float, float, FeatureMap, GroupedRegression] | None = None
    for own in features:
        regression = GroupedRegression.of(own, rows.points[:, 0], target, groups, count)
        for ridge in RIDGES:
            error = regression.error(ridge)
            if best is None or error < best[0]:
                best = error, ridge, own, regression
    if best is None or best[0] > SEARCH.known_noise * variance:
        return None
    _, ridge, chosen, regression = best
    weights = [regression.weights(ridge), *(regression.weights(ridge, [group]) for group in range(count))]
    return RidgePath(chosen, np.array([ridge]), np.stack([*weights, weights[0]])[None])


@dataclasses.dataclass(frozen=True)
class GroupedRegression:
    """Sums of a regression by group: φφᵀ (K, m, m), φ times the response (K, m), its square (K,), and rows (K,)."""

    normal: np.ndarray
    right: np.ndarray
    square: np.ndarray
    count: np.ndarray

    @staticmethod
    def of(
        features: FeatureMap, points: np.ndarray, response: np.ndarray, groups: np.ndarray, count: int
    ) -> GroupedRegression:
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

    def weights(self, ridge: float, without: Sequence[int] = ()) -> np.ndarray:
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
