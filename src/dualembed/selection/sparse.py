"""Which of many columns matter: rigorous lassos of what is explained, and of all that it is explained by.

Where columns are many for the rows, a regression on all of them is mostly noise, and many instruments draw effects to
those of plain regression. A lasso whose penalty just outdoes the noise, max_j |E[x_j ε]| / √E[x_j² ε²] with high
probability, keeps the few columns that matter (Belloni, Chen, Chernozhukov and Hansen, 2012). A control is kept that
matters for y, for a treatment or for what instruments predict of it: one that is dropped by mistake then does little
harm (Chernozhukov, Hansen and Spindler, 2015).
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.stats import norm

from dualembed.arrays import Booleans, Floats, Integers
from dualembed.linear.absorbed import remove_effects
from dualembed.linear.clusters import sum_by

FEWEST, ROWS_A_COLUMN = 30, 20  # columns up to which all are kept, and rows that each further one needs
ROUNDS = 5  # of the residuals and the lasso in turn
FACTOR = 1.1  # of the penalty over the noise's largest score


def is_wide(columns: int, rows: int) -> bool:
    """Whether so many columns are too many for so many rows, or clusters of them."""
    return columns > max(FEWEST, rows / ROWS_A_COLUMN)


def equal_rows(columns: Floats, mass: Floats, levels: Integers | None = None) -> Floats:
    """Columns (n, q) whose plain least squares are those of rows with mass (n,), less the effects of levels (n, f)."""
    if levels is not None:
        columns = remove_effects(columns, levels, mass)
    root = np.sqrt(mass / mass.mean())
    return np.asarray(root[:, None] * (columns - np.average(columns, axis=0, weights=mass)))


def select_columns(
    outcome: Floats, treatments: Floats, controls: Floats, instruments: Floats, groups: Integers | None = None
) -> tuple[Booleans, Booleans]:
    """(controls that matter, instruments that matter), as masks.

    All instruments are kept where none matters for a treatment: one that was chosen for how it happens to move it would
    pass for strong, and no test that takes it for given would hold.

    Parameters
    ----------
    outcome : array of shape (n,)
        Outcomes y.
    treatments : array of shape (n, d)
        Treatments.
    controls : array of shape (n, k)
        Controls.
    instruments : array of shape (n, l)
        Instruments, 0 columns without any.
    groups : array of shape (n,), optional
        Numbers of clusters that rows depend on each other in.

    Returns
    -------
    controls : array of shape (k,)
        Which controls matter.
    instruments : array of shape (l,)
        Which instruments do.
    """
    context = np.concatenate([instruments, controls], axis=1)
    count = instruments.shape[1]
    kept = np.zeros(context.shape[1], dtype=bool)
    kept[count:] |= lasso(controls, outcome, groups)[0]
    for treatment in treatments.T:
        kept[count:] |= lasso(controls, treatment, groups)[0]
        if count:
            active, predicted = lasso(context, treatment, groups)
            kept |= active
            kept[:count] |= not active[:count].any()
            kept[count:] |= lasso(controls, predicted, groups)[0]
    return kept[count:], kept[:count]


def lasso(columns: Floats, response: Floats, groups: Integers | None = None) -> tuple[Booleans, Floats]:
    """(which columns (p,) matter for the response, what these predict of it by least squares (n,))."""
    rows, count = columns.shape
    active = np.zeros(count, dtype=bool)
    residual = response - response.mean()
    if not count or not residual.any():
        return active, response - residual
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso  # which takes its time to import

    design = _standardised(columns)
    level = 0.1 / np.log(max(rows, 3))
    alpha = FACTOR * norm.ppf(1 - level / (2 * count)) / np.sqrt(rows)
    for _ in range(ROUNDS):
        scores = design * residual[:, None]
        loadings = np.sqrt(np.sum((scores if groups is None else sum_by(groups, scores)) ** 2, axis=0) / rows)
        loadings = np.maximum(loadings, 1e-6 * max(float(loadings.max()), np.finfo(float).tiny))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of weights, when it is plain which are 0
            found = Lasso(alpha=alpha, max_iter=2000, tol=1e-5).fit(design / loadings, response - response.mean())
        before, active = active, found.coef_ != 0
        residual = response - _fitted(columns[:, active], response)
        if np.array_equal(before, active):
            break
    return active, response - residual


def _standardised(columns: Floats) -> Floats:
    scale = columns.std(axis=0)
    return (columns - columns.mean(axis=0)) / np.where(scale > 0, scale, 1.0)


def _fitted(columns: Floats, response: Floats) -> Floats:
    """What the columns and a constant predict of the response by least squares."""
    design = np.column_stack([columns, np.ones(len(response))])
    return np.asarray(design @ np.linalg.lstsq(design, response, rcond=1e-10)[0])
