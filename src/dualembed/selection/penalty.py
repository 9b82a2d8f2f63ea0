"""Penalties from the data: that of f by moment evidence, that of the dual by prediction."""

from __future__ import annotations

import numpy as np

from dualembed.linear.moments import MomentSystem
from dualembed.linear.sums import Sums
from dualembed.selection.record import Step

ROUNDS = 10  # of the noise and the amplitude in turn
RATIOS = np.geomspace(1e-10, 1e4, 85)  # of the penalty to the largest eigenvalue of the normal matrix
DUAL_RATIOS = np.geomspace(1e-10, 10.0, 56)  # of the dual's penalty to the largest variance of its features


def evident_penalty(sums: Sums, dual_penalty: float) -> float:
    """λ1 = σ² / (n a²) at the most evident amplitude a of the prior θ ~ N(0, a² I), σ² the residual variance.

    With moments whose noise is N(0, σ² I / n) and s_j the eigenvalues of AᵀWA, in the eigenvectors' coordinates

        -2 log evidence = Σ_j log(1 + s_j / λ1) - (n / σ²) Σ_j (AᵀWb)_j² / (s_j + λ1) + constant

    so that one decomposition gives the whole path; σ² is that of the θ found before, in turn (docs/maths.md).
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


def predictive_penalty(sums: Sums) -> tuple[float, Step]:
    """λ2 with which the dual's features best predict the moment's on folds left out, by ridge regression; in words too.

    What the context does not tell of the moment's features g is noise in E[φg]. It draws f towards plain regression
    where products are of all rows, and makes the normal matrix uncertain where they are across folds. Any weights of
    the moments are right on average, so that those which are mostly noise had better count less. The first of the
    dual's features is a constant, which is not penalised here, and the others have mean zero.
    """
    values = np.linalg.eigvalsh(sums.mean_dual[1:, 1:])
    folds = [fold for fold in range(sums.groups) if 0 < sums.count[fold] < sums.rows]
    if not folds or not np.any(values > 0):
        return 0.0, Step("penalty of the dual", "none, since the context says nothing")
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
    return best, Step("penalty of the dual", f"{best:.3g}, by prediction", worth)


def _ridge_errors(
    dual: np.ndarray, cross: np.ndarray, new_dual: np.ndarray, new_cross: np.ndarray, *, penalties: np.ndarray
) -> np.ndarray:
    """Σ |g - Bᵀφ|² - |g|² over new rows, of which Σ φφᵀ and Σ φgᵀ are given, B = (E[φφᵀ] + λ)⁻¹E[φgᵀ], for each λ."""
    values, vectors = np.linalg.eigh(dual)
    weights = 1 / (np.maximum(values, 0.0) + penalties[:, None])
    pulled = vectors.T @ cross
    square = (pulled @ pulled.T) * (vectors.T @ new_dual @ vectors)
    shared = np.sum(pulled * (vectors.T @ new_cross), axis=1)
    return np.sum((weights @ square) * weights, axis=1) - 2 * weights @ shared
