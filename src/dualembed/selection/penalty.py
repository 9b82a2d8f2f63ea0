"""Penalties from the data: that of f by moment evidence, that of the dual by prediction."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dualembed.selection.record import Step
from dualembed.solvers.closed_form import normal_equations, penalised, pseudo_inverse
from dualembed.solvers.statistics import Statistics, total

ROUNDS = 10  # of the noise and the amplitude in turn
RATIOS = np.geomspace(1e-10, 1e4, 85)  # of the penalty to the largest eigenvalue of the normal matrix
DUAL_RATIOS = np.geomspace(1e-10, 10.0, 56)  # of the dual's penalty to the largest variance of its features


def evident_penalty(parts: Sequence[Statistics], dual_penalty: float) -> float:
    """λ1 = σ² / (n a²) at the most evident amplitude a of the prior θ ~ N(0, a² I), σ² the residual variance.

    With moments whose noise is N(0, σ² I / n) and s_j the eigenvalues of AᵀWA, in the eigenvectors' coordinates

        -2 log evidence = Σ_j log(1 + s_j / λ1) - (n / σ²) Σ_j (AᵀWb)_j² / (s_j + λ1) + constant

    so that one decomposition gives the whole path; σ² is that of the θ found before, in turn (docs/maths.md).
    """
    whole = total(parts)
    values, vectors = np.linalg.eigh(whole.dual / whole.count)
    normal, right = normal_equations([whole], vectors, pseudo_inverse(values, dual_penalty))
    spectrum, basis = np.linalg.eigh(normal)
    spectrum = np.maximum(spectrum, 0.0)
    if spectrum[-1] <= 0 or not np.any(right):
        return 0.0
    squares = (basis.T @ right) ** 2
    penalties = RATIOS * spectrum[-1]
    growth = np.log1p(spectrum / penalties[:, None]).sum(axis=1)
    gain = (squares / (spectrum + penalties[:, None])).sum(axis=1)
    penalty, before = penalties[len(penalties) // 2], 0.0
    weights = penalised(parts, dual_penalty)
    for _ in range(ROUNDS):
        variance = max(whole.residual_variance(weights(penalty)), 1e-12 * max(whole.target / whole.count, 1e-300))
        penalty, before = float(penalties[np.argmin(growth - whole.count / variance * gain)]), penalty
        if penalty == before:
            break
    return penalty


def predictive_penalty(parts: Sequence[Statistics]) -> tuple[float, Step]:
    """λ2 with which the dual's features best predict the moment's on folds left out, by ridge regression; in words too.

    What the context does not tell of the moment's features g is noise in E[φg]. It draws f towards plain regression
    where products are of all rows, and makes the normal matrix uncertain where they are across folds. Any weights of
    the moments are right on average, so that those which are mostly noise had better count less. The first of the
    dual's features is a constant, which is not penalised here, and the others have mean zero.
    """
    whole = total(parts)
    values = np.linalg.eigvalsh(whole.dual[1:, 1:] / whole.count)
    folds = [part for part in parts if 0 < part.count < whole.count]
    if not folds or not np.any(values > 0):
        return 0.0, Step("penalty of the dual", "none, since the context says nothing")
    constant = np.sqrt(whole.dual[0, 0] / whole.count)
    mean = whole.cross[0] / (constant * whole.count)
    data = [(part.dual[1:, 1:], part.cross[1:] - np.outer(part.dual[1:, 0] / constant, mean)) for part in folds]
    penalties = DUAL_RATIOS * values[-1]
    errors = np.zeros(len(penalties))
    for fold, (part, own) in enumerate(zip(folds, data, strict=True)):
        others = [each for number, each in enumerate(data) if number != fold]
        dual, cross = (np.add.reduce(each) / (whole.count - part.count) for each in zip(*others, strict=True))
        errors += _ridge_errors(dual, cross, *own, penalties=penalties)
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
