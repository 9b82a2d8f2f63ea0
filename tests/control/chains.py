"""Chains whose frequencies are their probabilities, and exact solutions on them: what tests of control share."""

from __future__ import annotations

import jax
import numpy as np

import dualembed as de
from dualembed import problems, solvers, spaces

STATES, TRIALS = 6, 12
EXACT = {"closed form": solvers.ClosedForm(folds=1), "sparse form": solvers.SparseForm()}
TABLE = spaces.Table()


def chain(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.random.Generator]:
    """(P, s, s') with every transition as often as P says out of twelve, and the generator for what else is random."""
    rng = np.random.default_rng(seed)
    ring = np.roll(np.eye(STATES, dtype=int), 1, axis=1)
    drawn = [rng.multinomial(TRIALS - 2, rng.dirichlet(np.full(STATES, 0.4))) for _ in range(STATES)]
    counts = np.stack(drawn) + ring + ring.T
    state, following = np.nonzero(counts)
    times = counts[state, following]
    return counts / TRIALS, np.repeat(state, times), np.repeat(following, times), rng


def exact(problem: problems.Problem, points: np.ndarray, solver: str) -> np.ndarray:
    """f at the points, in float64, with a table on either side."""
    with jax.enable_x64(True):
        return np.asarray(de.solve(0, de.Saddle(problem, TABLE, TABLE), EXACT[solver]).primal(points))
