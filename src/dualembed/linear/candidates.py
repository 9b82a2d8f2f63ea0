"""Candidates for f in one feature map: a falling ridge, on all rows and without each group."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np

from dualembed.arrays import Floats
from dualembed.linear.functional import Functional
from dualembed.spaces.features import FeatureMap, evaluate_functions


class RidgePath(eqx.Module):
    """f in one feature map for a falling ridge: on all rows, without each of K groups, and on all rows debiased."""

    features: FeatureMap
    ridges: Any  # (E,)
    weights: Any  # (E, K + 2, m)

    def values(self, points: Floats) -> Floats:
        """f at points (n, d) for every ridge, each way: (E, n, K + 2)."""
        ridges, ways, size = self.weights.shape
        found = evaluate_functions(self.features, self.weights.reshape(-1, size), points)
        return np.moveaxis(found.reshape(len(points), ridges, ways), 0, 1)

    def values_one_way(self, points: np.ndarray, way: int) -> np.ndarray:
        """f at points (n, d) for every ridge: on all rows where `way` is 0, without group k where it is 1 + k."""
        return evaluate_functions(self.features, np.asarray(self.weights)[:, way], points)

    def answers(self, part: Functional, into: np.ndarray) -> np.ndarray:
        """The functional of f, but for its constant, for every ridge, each way: (E, K + 2).

        `into` gives the number below K of the left-out group that each of the data's groups is a part of.
        """
        means = part.means(part.rows(self.features), into)
        each = [*means, means[0]]  # debiased on all rows
        return np.stack([self.weights[:, way] @ vector for way, vector in enumerate(each)], axis=1)
