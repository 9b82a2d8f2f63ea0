"""The penalty of f by moment evidence, for spaces that are given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dualembed.solvers.closed_form import normal_equations, pseudo_inverse, solution
from dualembed.solvers.statistics import Statistics, total

ROUNDS = 10  # of the noise and the amplitude in turn
RATIOS = np.geomspace(1e-10, 1e4, 85)  # of the penalty to the largest eigenvalue of the normal matrix


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
    for _ in range(ROUNDS):
        theta, _ = solution(parts, penalty, dual_penalty)
        variance = max(whole.residual_variance(theta), 1e-12 * max(whole.target / whole.count, 1e-300))
        penalty, before = float(penalties[np.argmin(growth - whole.count / variance * gain)]), penalty
        if penalty == before:
            break
    return penalty
