"""Is f a straight line? A test of E[y - Xβ - Wγ | Z, W] = 0 at the β and γ that were fitted to the same rows.

With Φ features of the context and e the residual, Φᵀe would be near 0 if the line were right: in all directions, not
only along the instruments. What fitting β takes from it is known: with R the regressors and R̂ their projection on the
instruments, Φᵀe is the same as Φ̃ᵀe, Φ̃ = Φ - R̂ (R̂ᵀR̂)⁻¹ RᵀΦ, which errors of β do not move.
"""

from __future__ import annotations

import numpy as np

from dualembed import checks
from dualembed.answers.iv_tests import SIZE, IVTest, check_noise
from dualembed.arrays import Floats
from dualembed.data.frames import order_at_random
from dualembed.linear.clusters import sum_by
from dualembed.linear.iv_design import FactoredDesign, IVDesign
from dualembed.linear.two_stage import solve_k_class
from dualembed.selection.consistency import FEWEST, context_features

DRAWS = 1999
UNITS = 2000  # rows or clusters up to which each has a sign of its own in every draw; more are normal in their sums
BLOCK = 256  # draws at one time


def linearity_test(design: IVDesign) -> IVTest:
    """Whether the data speak against a straight line: its conditional moment in all directions, by a wild bootstrap.

    The statistic is |Φᵀe|² over the sum of squares of what each row, or cluster, adds, less 1; Φ are Nyström features
    of Gaussian kernels of the instruments and the exogenous columns. A draw gives each row, or cluster, a sign.

    Parameters
    ----------
    design : IVDesign
        The model; without instruments it is the test of least squares.

    Returns
    -------
    IVTest
        The test. Its p-value comes from draws, so that it has no degrees of freedom.

    Raises
    ------
    InputError
        If there are absorbed effects, or too few rows or clusters.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z, hidden = rng.normal(size=(2, 500))
    >>> x = z + hidden
    >>> line, curve = (linearity_test(IVDesign.of(y + hidden, x, instruments=z)) for y in (x, x**2))
    >>> line.pvalue > 0.05, curve.pvalue < 0.01
    (True, True)
    """
    factored = design.factored
    if factored.effects is not None:
        raise checks.InputError("linearity cannot be tested beside absorbed effects; give these as dummies")
    if factored.endogenous:
        check_noise(factored)
    sums = _scores(design, factored)
    if len(sums) <= UNITS:
        sums = sums[np.lexsort(sums.T)]  # signs are drawn in this order, whatever that of the rows is
    if len(sums) < FEWEST:
        raise checks.InputError(f"the test of linearity needs at least {FEWEST} rows or clusters, not {len(sums)}")
    own = float(np.sum(sums**2))
    statistic = float(np.sum(sums.sum(axis=0) ** 2)) - own
    drawn = _draw(sums, np.random.default_rng(0)) - own
    pvalue = (1 + int(np.sum(drawn >= statistic - 1e-9 * own))) / (1 + DRAWS)
    if pvalue < SIZE:
        sentence = (
            f"The data speak against a straight line (p = {pvalue:.2g}, wild bootstrap): its residuals are not 0 on "
            "average given the instruments and controls, since f is curved, along X or a control, or an instrument is "
            "not valid."
        )
    else:
        sentence = f"The data do not speak against a straight line (p = {pvalue:.2g}, wild bootstrap)."
    return IVTest("linearity test", statistic / own, (), pvalue, pvalue < SIZE, sentence)


def _scores(design: IVDesign, factored: FactoredDesign) -> Floats:
    """What each row, or cluster, adds to Φ̃ᵀe, (G, r)."""
    kept = factored.kept_rows
    parts = [design.exogenous[kept], design.instruments[kept]]
    context = np.concatenate([each for each in parts if each.shape[1]], axis=1)
    if not context.shape[1]:
        raise checks.InputError("there is nothing but a constant, which is no line; give columns to test one in")
    order = order_at_random(factored.columns[:, -1], context)
    found = context_features(context[order], np.random.default_rng(0), landmarks=100)
    features = np.empty_like(found)
    features[order] = found
    features *= np.sqrt(factored.weights)[:, None]
    places = list(factored.regressors)
    regressors, basis = factored.columns[:, places], factored.instrument_basis()
    projected = basis @ (basis.T @ regressors)
    theta = solve_k_class(factored, 1.0)[0]
    noise = factored.columns[:, -1] - regressors @ theta
    features -= projected @ np.linalg.solve(projected.T @ projected, regressors.T @ features)
    scores = features * noise[:, None]
    return sum_by(factored.clusters[0], scores) if factored.clusters else scores


def _draw(sums: Floats, rng: np.random.Generator) -> Floats:
    """Squares of sums with random signs; of normal numbers of their covariance, where there are many."""
    if len(sums) > UNITS:
        strengths = np.maximum(np.linalg.eigvalsh(sums.T @ sums), 0.0)
        return np.asarray(rng.chisquare(1, size=(DRAWS, len(strengths))) @ strengths)
    sizes = [min(BLOCK, DRAWS - start) for start in range(0, DRAWS, BLOCK)]
    signs = (rng.integers(0, 2, size=(size, len(sums))) * 2.0 - 1.0 for size in sizes)
    return np.concatenate([np.sum((each @ sums) ** 2, axis=1) for each in signs])
