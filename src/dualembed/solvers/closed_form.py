"""The exact solution of the square-loss saddle in linear spaces, in one pass over the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dualembed import checks
from dualembed.problems.base import iter_terms
from dualembed.saddle import Saddle
from dualembed.solvers.base import Pair, Probe, Result, Solver
from dualembed.solvers.statistics import Statistics, gather, total
from dualembed.spaces.base import FeatureMap, Layout
from dualembed.spaces.linear import LinearFunction


class ClosedForm(Solver):
    """θ = (AᵀWA + λ1)⁻¹ AᵀWb with W = (C + λ2)⁻¹, A = E[φgᵀ], C = E[φφᵀ], b = E[φ(y - offset)]; u = W(Aθ - b).

    With `folds` > 1 only products of different folds enter AᵀWA and AᵀWb: A and b share their samples' noise, which
    with many moments would draw θ towards plain regression. With folds = 1 it is the empirical saddle point itself,
    whose duality gap is zero. `groups` (n,) label rows that depend on each other, which then stay in one fold.
    """

    folds: int = eqx.field(default=5, static=True)
    groups: Any = None

    def __check_init__(self) -> None:
        checks.count("folds", self.folds)

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """The solution on the whole finite data set; nothing is iterated, so that a probe sees nothing."""
        check(saddle)
        primal, dual = feature_maps(key, saddle)
        parts = gather(saddle.problem, primal, dual, folds=self.folds, groups=self.groups)
        theta, eta = solution(parts, number(saddle.primal_penalty), number(saddle.dual_penalty))
        function = LinearFunction(primal, theta)
        witness = saddle.dual_function(LinearFunction(dual, eta))
        finite = bool(np.all(np.isfinite(theta)) and np.all(np.isfinite(eta)))
        return Result(function, witness, None, finite, Pair(function, witness), 1)


def check(saddle: Saddle) -> None:
    """Raise one clear sentence where the saddle has no closed form."""
    if not saddle.loss.quadratic:
        raise checks.InputError(
            f"the {type(saddle.loss).__name__} loss has no closed form; use losses.Square(), solvers.Newton for a "
            "smooth loss, or solvers.EmbeddingSGD"
        )
    check_penalties("a closed form", saddle)


def check_penalties(method: str, saddle: Saddle) -> None:
    """Raise one clear sentence where the saddle has a ball, or data that will not do."""
    for name in ("primal_radius", "dual_radius"):
        if getattr(saddle, name) is not None:
            raise checks.InputError(f"{method} takes penalties, not {name}; use solvers.EmbeddingSGD for a ball")
    saddle.terms()


def feature_maps(key: jax.Array, saddle: Saddle) -> tuple[FeatureMap, FeatureMap]:
    """The primal's and the dual's features, placed on the data."""
    points, contexts = _places(saddle)
    primal_key, dual_key = jax.random.split(key)
    saddle.primal.check(points.shape[1])
    saddle.dual.check(contexts.shape[1])
    layout: dict[str, Any] = {"steps": 1, "batch": 1, "per_sample": 1, "capacity": 1}
    return (
        saddle.primal.feature_map(primal_key, Layout(points, **layout)),
        saddle.dual.feature_map(dual_key, Layout(contexts, **layout)),
    )


def solution(parts: Sequence[Statistics], primal_penalty: float, dual_penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """(θ, η) for one pair of penalties."""
    thetas, etas = path(parts, [primal_penalty], [dual_penalty])
    return thetas[0, 0], etas[0, 0]


def path(
    parts: Sequence[Statistics], primal_penalties: Sequence[float], dual_penalties: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """θ of shape (λ2, λ1, m) and η of shape (λ2, λ1, r) for every pair of penalties.

    One eigendecomposition of C serves every λ2, and one of the normal matrix AᵀWA each whole path in λ1.
    """
    whole = total(parts)
    values, vectors = np.linalg.eigh(whole.dual / whole.count)
    cross, target = vectors.T @ whole.cross / whole.count, vectors.T @ whole.dual_target / whole.count
    thetas, etas = [], []
    for dual_penalty in dual_penalties:
        weight = pseudo_inverse(values, dual_penalty)
        theta_of = _weights(*normal_equations(parts, vectors, weight))
        row = [theta_of(penalty) for penalty in primal_penalties]
        thetas.append(row)
        etas.append([vectors @ (weight * (cross @ theta - target)) for theta in row])
    return np.asarray(thetas), np.asarray(etas)


def penalised(parts: Sequence[Statistics], dual_penalty: float) -> Callable[[float], np.ndarray]:
    """θ as a function of λ1, cheap once the matrices are decomposed."""
    whole = total(parts)
    values, vectors = np.linalg.eigh(whole.dual / whole.count)
    return _weights(*normal_equations(parts, vectors, pseudo_inverse(values, dual_penalty)))


def _weights(normal: np.ndarray, right: np.ndarray) -> Callable[[float], np.ndarray]:
    spectrum, basis = np.linalg.eigh(normal)
    pulled = basis.T @ right
    return lambda penalty: basis @ (_reliable(spectrum, penalty) * pulled)


def normal_equations(
    parts: Sequence[Statistics], vectors: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(AᵀWA, AᵀWb); from several folds, the mean of A_jᵀWA_k and A_jᵀWb_k over different j and k."""
    root = np.sqrt(weight)[:, None]
    crosses = [root * (vectors.T @ part.cross) for part in parts]
    targets = [root[:, 0] * (vectors.T @ part.dual_target) for part in parts]
    cross, target = sum(crosses), sum(targets)
    normal, right = cross.T @ cross, cross.T @ target
    pairs = float(sum(part.count for part in parts)) ** 2
    if len(parts) > 1:
        for part, own_cross, own_target in zip(parts, crosses, targets, strict=True):
            normal -= own_cross.T @ own_cross
            right -= own_cross.T @ own_target
            pairs -= float(part.count) ** 2
    return (normal + normal.T) / (2 * pairs), right / pairs


def pseudo_inverse(values: np.ndarray, penalty: float) -> np.ndarray:
    """1/(value + penalty) where that is above rounding, else 0: directions the data say nothing about stay out.

    A cross-fold normal matrix may have small negative eigenvalues, where noise outweighs signal; they count as zero.
    """
    shifted = np.maximum(values, 0.0) + penalty
    floor = len(values) * np.finfo(float).eps * max(float(np.max(shifted)), np.finfo(float).tiny)
    kept = shifted > floor
    return np.where(kept, 1.0 / np.where(kept, shifted, 1.0), 0.0)


def _reliable(spectrum: np.ndarray, penalty: float) -> np.ndarray:
    """1/(eigenvalue + penalty) of a normal matrix, ascending, or 0 where it is within noise that no penalty damps.

    The most negative eigenvalue of a cross-fold matrix shows how large noise alone can be.
    """
    noise = max(-float(spectrum[0]), 0.0)
    return pseudo_inverse(spectrum, penalty) * ((spectrum > noise) | (penalty >= noise))


def _places(saddle: Saddle) -> tuple[np.ndarray, np.ndarray]:
    """All points and all contexts of the data, in float64."""
    tiles = list(iter_terms(saddle.problem))
    points = np.concatenate([tile.points.reshape(-1, tile.points.shape[-1]) for tile in tiles])
    return points, np.concatenate([tile.context for tile in tiles])


def number(penalty: Any) -> float:
    """The penalty; 0 where there is none."""
    return 0.0 if penalty is None else float(penalty)
