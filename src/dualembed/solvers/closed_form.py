"""The exact solution of the square-loss saddle in linear spaces, in one pass over the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dualembed import checks
from dualembed.linear.moment_fit import KernelPrior, MomentFit
from dualembed.linear.moments import MomentSystem
from dualembed.linear.spread import Spread
from dualembed.linear.sums import Sums, gather_moments
from dualembed.problems.base import iter_terms
from dualembed.saddle import Saddle
from dualembed.solvers.base import Pair, Probe, Result, Solver
from dualembed.spaces.base import Layout
from dualembed.spaces.features import FeatureMap


class ClosedForm(Solver):
    """θ = (AᵀWA + λ1)⁻¹ AᵀWb with W = (C + λ2)⁻¹, A = E[φgᵀ], C = E[φφᵀ], b = E[φ(y - offset)]; u = W(Aθ - b).

    With `folds` > 1 only products of different folds enter AᵀWA and AᵀWb: A and b share their samples' noise, which
    with many moments would draw θ towards plain regression. With folds = 1 it is the empirical saddle point itself,
    whose duality gap is zero. `groups` (n,) label rows that depend on each other, which then stay in one fold.
    `selection.auto` gives it efficient weights, `noise` (r, r) in the place of C, and as `prior` what f's kernel may be
    too, which standard errors know of. `result.closed` has the sums, for `standard_errors` and for more rows.
    """

    folds: int = eqx.field(default=5, static=True)
    groups: Any = None
    noise: Any = None
    prior: KernelPrior | None = None

    def __check_init__(self) -> None:
        checks.count("folds", self.folds)

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """The solution on the whole finite data set; nothing is iterated, so that a probe sees nothing."""
        check(saddle)
        features = feature_maps(key, saddle)
        sums = gather_moments(saddle.problem, *features, folds=self.folds, groups=self.groups)
        penalty, dual_penalty = number(saddle.primal_penalty), number(saddle.dual_penalty)
        fit = MomentFit.solve(features, sums, penalty, dual_penalty=dual_penalty, noise=self.noise, prior=self.prior)
        function, witness = fit.function, saddle.dual_function(fit.dual_function)
        finite = bool(np.all(np.isfinite(function.weights)))
        return Result(function, witness, None, finite, Pair(function, witness), 1, closed=fit)


def standard_errors(saddle: Saddle, result: Result, *, groups: Any = None) -> Spread:
    """f of a result of ClosedForm on this saddle, with the covariance of its weights.

    It is the sampling error whatever the noise, summed within groups (episodes, say) where those are given, one label a
    row, and what the penalty may hide (`linear.MomentSystem.error`, docs/maths.md).
    """
    check(saddle)
    if result.closed is None:
        raise checks.InputError("standard errors are for closed-form results in linear spaces; use solvers.ClosedForm")
    return result.closed.with_scores(saddle.problem, groups).spread()


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


def solution(sums: Sums, primal_penalty: float, dual_penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """(θ, η) for one pair of penalties."""
    thetas, etas = path(sums, [primal_penalty], [dual_penalty])
    return thetas[0, 0], etas[0, 0]


def path(
    sums: Sums, primal_penalties: Sequence[float], dual_penalties: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """θ of shape (λ2, λ1, m) and η of shape (λ2, λ1, r) for every pair of penalties.

    One eigendecomposition of C serves every λ2, and one of the normal matrix AᵀWA each whole path in λ1.
    """
    first, thetas, etas = MomentSystem(sums), [], []
    for dual_penalty in dual_penalties:
        system = first.with_dual_penalty(dual_penalty)
        row = [system.weights(penalty) for penalty in primal_penalties]
        thetas.append(row)
        etas.append([system.witness(theta) for theta in row])
    return np.asarray(thetas), np.asarray(etas)


def _places(saddle: Saddle) -> tuple[np.ndarray, np.ndarray]:
    """All points and all contexts of the data, in float64."""
    tiles = list(iter_terms(saddle.problem))
    points = np.concatenate([tile.points.reshape(-1, tile.points.shape[-1]) for tile in tiles])
    return points, np.concatenate([tile.context for tile in tiles])


def number(penalty: Any) -> float:
    """The penalty; 0 where there is none."""
    return 0.0 if penalty is None else float(penalty)
