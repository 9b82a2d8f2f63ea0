"""Kernel instrumental variables (Singh, Sahani and Gretton 2019): two stages of kernel ridge regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize_scalar

from dualembed import checks, kernels
from dualembed.baselines.two_stage_least_squares import columns, result
from dualembed.solvers.base import Result
from dualembed.spaces.rkhs import KernelFunction

PENALTIES = np.logspace(-12, 1, 53)


class KernelIV(eqx.Module):
    """f = Σ_i α_i k(x_i, ·) over the first half of the samples, with both penalties chosen from the data.

    With the first half (x, y, z) of n rows and the second half (x̃, ỹ, z̃) of m rows, in random order by the seed:

        W = K_xx (K_zz + n λ)⁻¹ K_zz̃,   α = (W Wᵀ + m ξ K_xx)⁻¹ W ỹ

    λ minimises the first stage's error on the second half, mean |k(x̃, ·) - μ(z̃)|²; ξ minimises mean (y - f(x))² on the
    first half, the authors' causal validation. Kernels are Gaussian, a product over coordinates, each with the median
    distance between its values for bandwidth (1 for a constant one). All this is as published; only the search for a
    penalty is a grid and then a local one, where the authors' code has a local one alone.

    The dual is the first stage's regression of f(x) - y on z.
    """

    seed: int = eqx.field(default=0, static=True)

    def __check_init__(self) -> None:
        checks.count("seed", self.seed, at_least=0)

    def fit(self, x: Any, y: Any, z: Any) -> Result:
        """f from samples x (n, dx), y (n,), z (n, dz); computed in float64."""
        x, y, z = columns(x, y, z)
        if len(y) < 4:
            raise checks.InputError(f"KernelIV splits its samples in two and needs at least 4, not {len(y)}")
        if not np.any(np.ptp(z, axis=0)):
            raise checks.InputError(f"z is {z[0].tolist()} in every row; give an instrument that varies with x")
        on_x, on_z = _kernel(x), _kernel(z)
        first, second = np.array_split(np.random.default_rng(self.seed).permutation(len(y)), 2)
        stage = FirstStage(on_x, on_z, x=x[first], z=z[first], held_x=x[second], held_z=z[second])
        penalty = lowest(stage.error)
        weights = second_stage(stage, penalty, y=y[first], held_y=y[second])
        residual = stage.x_gram @ weights - y[first]
        primal = KernelFunction(on_x, jnp.asarray(x[first]), jnp.asarray(weights), tile=len(first))
        dual = KernelFunction(on_z, jnp.asarray(z[first]), jnp.asarray(stage.ridge(residual, penalty)), tile=len(first))
        return result(primal, dual)


class FirstStage:
    """The regression of k(x, ·) on z, for every penalty λ from one eigendecomposition K_zz = Q diag(e) Qᵀ."""

    def __init__(
        self,
        on_x: kernels.Kernel,
        on_z: kernels.Kernel,
        *,
        x: np.ndarray,
        z: np.ndarray,
        held_x: np.ndarray,
        held_z: np.ndarray,
    ) -> None:
        self.x_gram = np.asarray(on_x.gram(x, x))
        values, self.vectors = np.linalg.eigh(np.asarray(on_z.gram(z, z)))
        self.values = np.maximum(values, 0.0)
        self.rows, self.held_rows = len(x), len(held_x)
        self.reach = self.vectors.T @ np.asarray(on_z.gram(z, held_z))  # Qᵀ K_zz̃
        self.held_norms = float(np.sum(np.asarray(on_x.diagonal(held_x))))
        self.cross = np.sum(self.reach * (self.vectors.T @ np.asarray(on_x.gram(x, held_x))), axis=1)
        self.square = (self.reach @ self.reach.T) * (self.vectors.T @ self.x_gram @ self.vectors)

    def error(self, penalty: float) -> float:
        """mean |k(x̃, ·) - μ(z̃)|² over the second half, μ(z̃) = Σ_i γ_i k(x_i, ·), γ = (K_zz + n λ)⁻¹ k_z(z̃)."""
        inverse = 1 / (self.values + self.rows * penalty)
        return float(self.held_norms - 2 * inverse @ self.cross + inverse @ self.square @ inverse) / self.held_rows

    def coefficients(self, penalty: float) -> np.ndarray:
        """(K_zz + n λ)⁻¹ K_zz̃, one column for each row of the second half."""
        return self.vectors @ (self.reach / (self.values + self.rows * penalty)[:, None])

    def ridge(self, targets: np.ndarray, penalty: float) -> np.ndarray:
        """(K_zz + n λ)⁻¹ targets."""
        return self.vectors @ ((self.vectors.T @ targets) / (self.values + self.rows * penalty))


def second_stage(stage: FirstStage, penalty: float, *, y: np.ndarray, held_y: np.ndarray) -> np.ndarray:
    """α for the ξ whose f predicts the first half's y best."""
    values, vectors = np.linalg.eigh(stage.x_gram)
    # In coordinates β = K_xx^(1/2) α the penalty is a multiple of the identity, so one more eigendecomposition serves
    # every ξ. Directions below the floor carry no signal, and dividing by them would.
    kept = values > 1e-10 * values[-1]
    root, half = vectors[:, kept] * np.sqrt(values[kept]), vectors[:, kept] / np.sqrt(values[kept])
    reach = root.T @ stage.coefficients(penalty)
    strengths, directions = np.linalg.eigh(reach @ reach.T)
    strengths = np.maximum(strengths, 0.0)
    pull = directions.T @ (reach @ held_y)
    seen = root @ directions

    def error(ridge: float) -> float:
        return float(np.mean((y - seen @ (pull / (strengths + len(held_y) * ridge))) ** 2))

    return half @ (directions @ (pull / (strengths + len(held_y) * lowest(error))))


def lowest(error: Callable[[float], float]) -> float:
    """The penalty with the least error: the best of PENALTIES, then the best between its neighbours."""
    errors = [error(each) for each in PENALTIES]
    best = int(np.argmin(errors))
    around = np.log(PENALTIES[[max(best - 1, 0), min(best + 1, len(PENALTIES) - 1)]])
    found = minimize_scalar(lambda logarithm: error(np.exp(logarithm)), bounds=around, method="bounded")
    return float(np.exp(found.x)) if found.fun < errors[best] else float(PENALTIES[best])


def _kernel(points: np.ndarray) -> kernels.Gaussian:
    """A product of Gaussians; a constant column has no distances, and any bandwidth serves it."""
    return kernels.Gaussian(
        jnp.asarray([kernels.median_bandwidth(column) if np.ptp(column) else 1.0 for column in points.T])
    )
