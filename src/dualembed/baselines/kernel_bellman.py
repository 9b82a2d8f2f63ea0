"""The kernel Bellman loss (Feng, Li and Liu 2019): all products of two samples' moments, weighted by a kernel."""

from __future__ import annotations

from typing import final

import equinox as eqx
import jax
import numpy as np

from dualembed import checks
from dualembed.linear.moments import pseudo_inverse
from dualembed.linear.sums import gather_moments
from dualembed.problems.base import iter_terms
from dualembed.saddle import Saddle
from dualembed.solvers.base import Pair, Probe, Result, Solver
from dualembed.solvers.closed_form import check, feature_maps, number
from dualembed.spaces.features import FeatureMap, evaluate_features, moment_features, to_numpy
from dualembed.spaces.linear import LinearFunction


@final
class KernelBellmanLoss(Solver):
    """θ = argmin ½ mean_ij m_i k(κ_i, κ_j) m_j + λ1/2 |θ|², m = moment - y, k the kernel of the dual's space.

    With k = φᵀφ, A = E[φgᵀ] and b = E[φ (y - offset)] it is θ = (AᵀA + λ1)⁻¹ Aᵀb over all pairs, the V-statistic. With
    `unbiased` the pairs i = j are left out, the U-statistic: the same with AᵀA and Aᵀb replaced by

        (n AᵀA - E[k(κ, κ) ggᵀ]) / (n - 1),   (n Aᵀb - E[k(κ, κ) g (y - offset)]) / (n - 1)

    Exact for an RKHS dual of a few thousand rows, and of low rank with Nyström landmarks or random features. The loss
    weighs the error E[m | κ] by the kernel, and so by how often a context occurs, where the dual embedding divides
    that out: with indicators for φ it minimises Σ_κ p(κ)² E[m | κ]² instead of Σ_κ p(κ) E[m | κ]². The saddle's dual
    penalty plays no part. The dual is the witness mean_i m_i k(κ_i, ·).

    >>> import jax.numpy as jnp
    >>> import dualembed as de
    >>> chain = de.sources.Dataset(state=[0, 1], reward=[0.0, 1.0], next_state=[1, 1])
    >>> table = de.spaces.Basis(lambda s: jnp.concatenate([1 - s, s], axis=1))
    >>> saddle = de.Saddle(de.problems.PolicyEvaluation(chain, 0.5), table, table)
    >>> [round(float(value), 6) for value in de.solve(0, saddle, KernelBellmanLoss()).primal([0, 1])]
    [1.0, 2.0]
    """

    unbiased: bool = eqx.field(default=False, static=True)

    def __check_init__(self) -> None:
        checks.instance("unbiased", self.unbiased, bool)

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """The minimiser on the whole finite data set, in float64; a probe sees nothing."""
        check(saddle)
        primal, dual = feature_maps(key, saddle)
        sums = gather_moments(saddle.problem, primal, dual)
        rows, cross, target = sums.rows, sums.means()[0], sums.means()[1][:, 0]
        normal, right = cross.T @ cross, cross.T @ target
        if self.unbiased:
            if rows < 2:
                raise checks.InputError("the unbiased kernel Bellman loss needs pairs of rows, and there is only 1 row")
            own_normal, own_right = diagonal(saddle, primal, dual)
            normal = (rows * normal - own_normal) / (rows - 1)
            right = (rows * right - own_right) / (rows - 1)
        values, vectors = np.linalg.eigh(normal)
        theta = vectors @ (pseudo_inverse(values, number(saddle.primal_penalty)) * (vectors.T @ right))
        function = LinearFunction(primal, theta)
        witness = saddle.dual_function(LinearFunction(dual, cross @ theta - target))
        return Result(function, witness, None, bool(np.all(np.isfinite(theta))), Pair(function, witness), 1)


def diagonal(saddle: Saddle, primal: FeatureMap, dual: FeatureMap) -> tuple[np.ndarray, np.ndarray]:
    """(E[k(κ, κ) ggᵀ], E[k(κ, κ) g (y - offset)]), what the pairs i = j add to the V-statistic n times over."""
    primal, dual = to_numpy(primal), to_numpy(dual)
    normal, right, rows = np.zeros((primal.size, primal.size)), np.zeros(primal.size), 0
    for terms in iter_terms(saddle.problem):
        g = moment_features(primal, terms.points, terms.weights)
        weighted = np.sum(evaluate_features(dual, terms.context) ** 2, axis=1)[:, None] * g
        normal += weighted.T @ g
        right += weighted.T @ (terms.target - terms.offset)
        rows += len(g)
    return normal / rows, right / rows
