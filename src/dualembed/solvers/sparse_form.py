"""The exact solution of the square-loss saddle where features are mostly zero: one sparse linear system."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, final

import jax
import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from dualembed import checks
from dualembed.problems.base import Problem
from dualembed.saddle import Saddle
from dualembed.solvers.base import Pair, Probe, Result, Solver
from dualembed.solvers.closed_form import check, feature_maps, number
from dualembed.solvers.statistics import double_terms, on_host
from dualembed.spaces.base import FeatureMap
from dualembed.spaces.linear import LinearFunction


@final
class SparseForm(Solver):
    """(u, θ) of the saddle point as one system, solved by a sparse LU decomposition:

        [-(C + λ2)   A ] [η]   [b]
        [    Aᵀ     λ1 ] [θ] = [0],     A = E[φgᵀ], C = E[φφᵀ], b = E[φ(y - offset)].

    It is `ClosedForm(folds=1)` for tables of thousands of states, which it never writes out as dense matrices. With a
    table on either side and no penalty it solves the empirical equations E[moment | context] = 0 exactly.
    Directions on which the data say nothing make the system singular; a penalty decides them.
    """

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """The solution on the whole finite data set; nothing is iterated, so that a probe sees nothing."""
        check(saddle)
        primal, dual = feature_maps(key, saddle)
        sums = sparse_sums(saddle.problem, primal, dual)
        eta, theta = _solved(sums, number(saddle.primal_penalty), number(saddle.dual_penalty))
        function = LinearFunction(primal, theta)
        witness = saddle.dual_function(LinearFunction(dual, eta))
        return Result(function, witness, None, True, Pair(function, witness), 1)


class SparseSums(NamedTuple):
    """A (r, m), C (r, r) and b (r,): means over the rows."""

    cross: Any
    dual: Any
    target: np.ndarray


def sparse_sums(problem: Problem, primal: FeatureMap, dual: FeatureMap) -> SparseSums:
    """The statistics of the whole data set as sparse matrices."""
    primal, dual = on_host(primal), on_host(dual)
    cross, gram, target, rows = 0, 0, np.zeros(dual.size), 0
    for terms in double_terms(problem):
        phi = _features(dual, terms.context)
        g = sum(
            _features(primal, terms.points[:, k]).multiply(terms.weights[:, k, None]).tocsr()
            for k in range(terms.weights.shape[1])
        )
        cross, gram = cross + phi.T @ g, gram + phi.T @ phi
        target += phi.T @ (terms.target - terms.offset)
        rows += len(terms.target)
    return SparseSums(cross / rows, gram / rows, target / rows)


def _features(features: FeatureMap, xs: np.ndarray) -> Any:
    """φ (n, m) as a sparse matrix, made so where the map knows how."""
    return features.sparse(xs) if hasattr(features, "sparse") else sparse.csr_array(np.asarray(features(xs)))


def _solved(sums: SparseSums, primal_penalty: float, dual_penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """(η, θ), refused where the system does not determine them."""
    moments, size = sums.cross.shape
    system = sparse.block_array(
        [
            [-(sums.dual + dual_penalty * sparse.eye_array(moments)), sums.cross],
            [sums.cross.T, primal_penalty * sparse.eye_array(size)],
        ],
        format="csc",
    )
    right = np.concatenate([sums.target, np.zeros(size)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", linalg.MatrixRankWarning)
        try:
            solution = linalg.splu(system).solve(right)
        except RuntimeError:  # exactly singular
            solution = np.full(len(right), np.nan)
    size_of_terms = abs(system) @ np.abs(solution) + np.abs(right)
    residual = np.abs(system @ solution - right)
    if not np.all(residual <= 1e-9 * np.maximum(size_of_terms, size_of_terms.max() * 1e-6)):  # NaN compares false
        raise checks.InputError(
            "the data do not determine the function (some points are never a context, or never left): give "
            "primal_penalty, such as 1e-9, to decide by the smallest norm"
        )
    return solution[:moments], solution[moments:]
