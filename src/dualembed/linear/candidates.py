"""Candidates for f in one feature map: a falling ridge, on all rows and without each group."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np

from dualembed.arrays import Floats
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
