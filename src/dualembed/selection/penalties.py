"""Choices on the sums of moments: penalties of f and of the dual, products across folds, the noise of moments."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dualembed.arrays import Floats, Integers
from dualembed.linear.moment_fit import MomentFit
from dualembed.linear.sums import Sums, shrunken_scores
from dualembed.linear.system import MomentSystem
from dualembed.problems.base import Problem
from dualembed.solvers.base import Choice
from dualembed.tuning import SEARCH

FOLDS = 5
NOISE_SHARE = "share of noise in what moments tell of slopes"  # a number of the choice of products
FEWEST = 6 * FOLDS  # rows, or groups of them, that folds are made of
ROUNDS = 10  # of the noise and the amplitude in turn
RATIOS = np.geomspace(1e-10, 1e4, 85)  # of the penalty to the largest eigenvalue of the normal matrix
DUAL_RATIOS = np.geomspace(1e-10, 10.0, 56)  # of the dual's penalty to the largest variance of its features


def evidence_penalty(sums: Sums, dual_penalty: float) -> float:
    """The penalty λ1 = σ² / (n a²) at the amplitude a of the prior θ ~ N(0, a² I) with the most evidence.

    σ² is the residual variance. With moments of noise N(0, σ² I / n) and s_j the eigenvalues of AᵀWA, in the
    eigenvectors' coordinates

        -2 log evidence = Σ_j log(1 + s_j / λ1) - (n / σ²) Σ_j (AᵀWb)_j² / (s_j + λ1) + constant

    so one decomposition gives the whole path; σ² is that of the θ found before, in turn (docs/maths.md).

    Parameters
    ----------
    sums : Sums
        Sums of the moments.
    dual_penalty : float
        The penalty λ2.

    Returns
    -------
    float
        The penalty λ1.
    """
    system = MomentSystem(sums.merged(), dual_penalty)
    spectrum = np.maximum(system.spectrum, 0.0)
    if spectrum[-1] <= 0 or not np.any(system.pulled):
        return 0.0
    squares = system.pulled**2
    penalties = RATIOS * spectrum[-1]
    growth = np.log1p(spectrum / penalties[:, None]).sum(axis=1)
    gain = (squares / (spectrum + penalties[:, None])).sum(axis=1)
    penalty, before, least = penalties[len(penalties) // 2], 0.0, 1e-12 * max((sums.square or 0) / sums.rows, 1e-300)
    for _ in range(ROUNDS):
        variance = max(sums.residual_variance(system.weights(penalty)), least)
        penalty, before = float(penalties[np.argmin(growth - sums.rows / variance * gain)]), penalty
        if penalty == before:
            break
    return penalty


def prediction_penalty(sums: Sums) -> tuple[float, Choice]:
    """λ2 with which the dual's features best predict the moment's on folds left out, by ridge regression; in words too.

    What the context does not tell of the moment's features g is noise in E[φg]. It draws f towards plain regression
    where products are of all rows, and makes the normal matrix uncertain where they are across folds. Any weights of
    the moments are right on average, so that those which are mostly noise had better count less. The first of the
    dual's features is a constant, which is not penalised here, and the others have mean zero.
    """
    values = np.linalg.eigvalsh(sums.mean_dual[1:, 1:])
    folds = [fold for fold in range(sums.groups) if 0 < sums.count[fold] < sums.rows]
    if not folds or not np.any(values > 0):
        return 0.0, Choice("penalty of the dual", "none, since the context says nothing")
    constant = np.sqrt(sums.mean_dual[0, 0])
    mean = sums.cross.sum(axis=0)[0] / (constant * sums.rows)
    duals = [sums.dual[fold][1:, 1:] for fold in folds]
    crosses = [sums.cross[fold][1:] - np.outer(sums.dual[fold][1:, 0] / constant, mean) for fold in folds]
    penalties = DUAL_RATIOS * values[-1]
    errors = np.zeros(len(penalties))
    for fold, own_dual, own_cross in zip(folds, duals, crosses, strict=True):
        rest = sums.rows - sums.count[fold]
        dual, cross = (sum(duals) - own_dual) / rest, (sum(crosses) - own_cross) / rest
        errors += _ridge_errors(dual, cross, own_dual, own_cross, penalties=penalties)
    best = float(penalties[np.argmin(errors)])
    worth = {"moments": len(values), "that count as": float(np.sum(values / (values + best)))}
    return best, Choice("penalty of the dual", f"{best:.3g}, by prediction", worth)


def _ridge_errors(dual: Floats, cross: Floats, new_dual: Floats, new_cross: Floats, *, penalties: Floats) -> Floats:
    """Σ |g - Bᵀφ|² - |g|² over new rows, of which Σ φφᵀ and Σ φgᵀ are given, B = (E[φφᵀ] + λ)⁻¹E[φgᵀ], for each λ."""
    values, vectors = np.linalg.eigh(dual)
    weights = 1 / (np.maximum(values, 0.0) + penalties[:, None])
    pulled = vectors.T @ cross
    square = (pulled @ pulled.T) * (vectors.T @ new_dual @ vectors)
    shared = np.sum(pulled * (vectors.T @ new_cross), axis=1)
    return np.sum((weights @ square) * weights, axis=1) - 2 * weights @ shared


def choose_products(
    sums: Sums, penalty: float, dual_penalty: float, *, slopes: Integers | None = None, is_trend: bool = False
) -> tuple[Sums, Choice]:
    """The sums of the folds, or of all rows as one, and the choice in words.

    A moment and its target share their rows' noise, which draws f towards plain regression: a little with few moments,
    but equations of long memory (a discount near 1, long hitting times) make much of a little. Products across folds
    are free of it. Where there is more noise than signal in some direction of f they are not positive, and to solve
    with them does more harm than the bias. In regressions, where f enters with weights of one sign, few moments are no
    harm if they tell enough of the columns of f: there, `slopes` are the places of these among the features, whose
    share of noise in the normal matrix is what products of all rows have above those across folds. Where
    f is a polynomial, `is_trend`, more moments are few, and more noise is no harm.
    """
    system = MomentSystem(sums, dual_penalty)
    lowest = float(system.spectrum[0]) / penalty if penalty > 0 else -np.inf
    numbers = {
        "moments a row": len(system.target) / sums.rows,
        "lowest eigenvalue across folds over the penalty": lowest,
    }
    across = lowest > SEARCH.most_negative
    if slopes is not None and slopes.size:
        whole, parts = (
            np.diag(each.products[0])[slopes] for each in (MomentSystem(sums.merged(), dual_penalty), system)
        )
        noise = float(np.max(1 - parts / np.maximum(whole, np.finfo(float).tiny)))
        numbers[NOISE_SHARE] = noise
        few = SEARCH.few_moments_of_trends if is_trend else SEARCH.few_moments
        least = SEARCH.some_noise_of_trends if is_trend else SEARCH.some_noise
        harmless = numbers["moments a row"] <= few and noise <= least
        across = across and not harmless
    answer = "across folds, without many-moment bias" if across else "all rows together"
    return sums if across else sums.merged(), Choice("products of moments", answer, numbers)


def choose_noise(problem: Problem, fit: MomentFit, *, groups: ArrayLike | None = None) -> tuple[Floats | None, Choice]:
    """The covariance (r, r) of moments over the variance of a residual, and the choice in words.

    It is None where it may as well be that of noise of one variance, and rows that do not depend on each other. Noise
    that is larger in some contexts would else pass for a rough f, and moments that are mostly noise count too much.
    """
    noise, share = shrunken_scores(problem, fit.function, fit.dual, scale=fit.sums.mean_dual, groups=groups)
    numbers = {"drawn towards noise of one variance by": share}
    variance = fit.residual_variance
    if variance <= 0 or (share == 1 and groups is None):
        return None, Choice("noise of moments", "of one variance", numbers)
    words = "of rows in groups" if groups is not None else "that varies with the context"
    return noise / variance, Choice("noise of moments", words, numbers)
