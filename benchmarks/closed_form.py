"""The pass of the closed form over the data against bare float64 matrix products of the same size, in one run.

    python benchmarks/closed_form.py

Prints one JSON object a line; `ratio` (bare seconds over seconds of the pass) at or above `target` holds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import jax
import numpy as np

import dualembed as de
from dualembed import kernels, problems, sources, spaces
from dualembed.linear import gather_moments
from dualembed.solvers.closed_form import feature_maps

ROWS, FEATURES = 100_000, 512


def best(work: Callable[[], object], repeats: int = 3) -> float:
    """The least seconds of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, ROWS)
    z, y = x + 0.3 * rng.normal(size=ROWS), np.sin(3 * x) + 0.1 * rng.normal(size=ROWS)
    problem = problems.Invariance(sources.Dataset(x=x, y=y, z=z))
    space = spaces.Fourier(kernels.Gaussian(0.3), size=FEATURES)
    maps = feature_maps(jax.random.key(0), de.Saddle(problem, space, space))
    phi, g = rng.normal(size=(2, ROWS, FEATURES))
    bare = best(lambda: (phi.T @ g, phi.T @ phi, g.T @ g))
    for folds in (1, 5):
        seconds = best(lambda folds=folds: gather_moments(problem, *maps, folds=folds))
        line = {"bench": "closed-form", "case": f"{ROWS} rows, {FEATURES} features each side, {folds} fold(s)"}
        line |= {"peer": "three float64 products", "value": round(seconds, 2), "unit": "s"}
        print(json.dumps(line | {"ratio": round(bare / seconds, 2), "target": 0.5}))
