"""A bandwidth to start from: the median distance between the points."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from dualembed import checks


def median_bandwidth(points: Any, coefficient: float = 1.0, most: int = 1000, *, seed: int = 0) -> float:
    """The coefficient times the median distance between two of the points, over at most `most` random rows.

    Pairs that coincide count only while they are the minority. Points are (n, d), or (n,) numbers.

    >>> median_bandwidth([0.0, 1.0, 3.0])
    2.0
    """
    checks.positive("the coefficient", coefficient)
    checks.count("most", most, at_least=2)
    checks.array("points", points, ndim=(1, 2))
    rows = np.asarray(points, dtype=np.float64)
    rows = rows.reshape(rows.shape[0], -1)
    if rows.shape[0] > most:
        rows = rows[np.random.default_rng(seed).choice(rows.shape[0], most, replace=False)]
    distances = pdist(rows)
    apart = distances[distances > 0]
    if apart.size == 0:
        raise checks.InputError(f"all {rows.shape[0]} point(s) looked at coincide; give a bandwidth")
    median = np.median(distances) or np.median(apart)
    return float(coefficient * median)
