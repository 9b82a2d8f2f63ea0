"""How often the evaluated policy is at a place, against how often the log is."""

from __future__ import annotations

import numpy as np

from dualembed import checks
from dualembed.estimators.solved import Solved


def density_ratio(solved: Solved | None, points: np.ndarray, unseen: np.ndarray) -> np.ndarray:
    """The ratio (n,) of discounted visits to the distribution of the log's rows, at coded points (n, d).

    It is the weight that a row's residual has in the policy's value, divided by its mean over the rows: features only
    come close to it, so that it may be slightly below zero. It is not a number at points that are `unseen` (n,) in the
    log, such as an action that was never taken: there is nothing to divide by.
    """
    if solved is None:
        raise checks.InputError(
            "the density ratio is there for default fits alone, with solver, primal and dual 'auto', which this is not"
        )
    if solved.headline is None:
        raise checks.InputError(
            "the density ratio is of what follows the starts of episodes, which this fit does not know; fit it with "
            "episodes=..., and action values with policy=... too"
        )
    fit = solved.fit
    representer, visits = fit.representer(solved.headline), np.asarray(fit.visits)
    mean = float(visits @ fit.density(representer, np.asarray(fit.places)) / visits.sum())
    return np.where(unseen > 0, np.nan, fit.density(representer, points) / mean)
