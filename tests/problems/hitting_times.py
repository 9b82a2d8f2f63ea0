"""Problems of hitting times and committors as tests pose and solve them."""

from __future__ import annotations

import jax
import numpy as np

import dualembed as de
from dualembed import problems, solvers, sources, spaces

EXACT = {"closed form": solvers.ClosedForm(folds=1), "sparse form": solvers.SparseForm()}
TABLE = spaces.Table()


def solved(problem: problems.Problem, points: np.ndarray, solver: str = "sparse form") -> np.ndarray:
    """f at the points, in float64, with a table on either side."""
    with jax.enable_x64(True):
        return np.asarray(de.solve(0, de.Saddle(problem, TABLE, TABLE), EXACT[solver]).primal(points))


def hitting(state: np.ndarray, following: np.ndarray, target: object, **more: np.ndarray) -> problems.HittingTime:
    arrived = problems.arrivals(following, target)
    return problems.HittingTime(sources.Dataset(state=state, next_state=following, arrived=arrived, **more))


def committor(state: np.ndarray, following: np.ndarray, back: object, there: object) -> problems.Committor:
    marks = {"arrived": problems.arrivals(following, there), "returned": problems.arrivals(following, back)}
    return problems.Committor(sources.Dataset(state=state, next_state=following, **marks))


def relative_error(found: jax.Array, exact: np.ndarray) -> float:
    return float(np.max(np.abs(np.asarray(found) / exact - 1)))
