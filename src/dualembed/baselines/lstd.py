"""Least-squares temporal differences (Bradtke and Barto 1996), in one pass over the data."""

from __future__ import annotations

from typing import Any, final

import equinox as eqx
import jax
import numpy as np

from dualembed import checks
from dualembed.baselines.sample_average import primal_features
from dualembed.kernels.base import check_single
from dualembed.linear.sums import gather
from dualembed.links import Direct
from dualembed.problems.base import iter_terms
from dualembed.saddle import DualFunction, Saddle
from dualembed.solvers.base import Pair, Probe, Result, Solver
from dualembed.solvers.closed_form import check, number
from dualembed.sources import Sample
from dualembed.spaces.linear import LinearFunction


@final
class LSTD(Solver):
    """θ = (A + (ridge + λ1) I)⁻¹ b with A = E[φ(κ) gᵀ] and b = E[φ(κ) (y - offset)], φ the primal's features.

    g = Σ_k w_k φ(p_k), so that for policy evaluation A = E[ρ φ(s) (φ(s) - γ φ(s'))ᵀ] and b = E[ρ φ(s) r]: the moment is
    made orthogonal to φ itself, which is the fixed point of TD(0). It serves every problem whose context is its first
    point, action values among them. `weighted` = False leaves the column `weight`, the importance weights, unused:
    plain LSTD, which off-policy evaluates neither policy. There is no dual: the saddle's is left aside and the
    result's is the zero function.

    >>> import jax.numpy as jnp
    >>> import dualembed as de
    >>> chain = de.sources.Dataset(state=[0, 1], reward=[0.0, 1.0], next_state=[1, 1])
    >>> table = de.spaces.Basis(lambda s: jnp.concatenate([1 - s, s], axis=1))
    >>> saddle = de.Saddle(de.problems.PolicyEvaluation(chain, 0.5), table, table)
    >>> [round(float(value), 6) for value in de.solve(0, saddle, LSTD()).primal([0, 1])]
    [1.0, 2.0]
    """

    ridge: float | jax.Array = eqx.field(default=0.0, converter=checks.real)
    weighted: bool = eqx.field(default=True, static=True)

    def __check_init__(self) -> None:
        checks.not_negative("ridge", self.ridge)
        check_single("ridge", self.ridge)
        checks.instance("weighted", self.weighted, bool)

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """The solution on the whole finite data set, in float64; nothing is iterated, so that a probe sees nothing."""
        check(saddle)
        sample = self._sample(saddle)
        for terms in iter_terms(saddle.problem, sample):
            check_first_point("LSTD", terms)
        features = primal_features(key, saddle)
        rows = len(next(iter(saddle.problem.source.table.values())))  # type: ignore[attr-defined]  # by `check`
        cross, target = gather(saddle.problem, features, np.zeros(rows, dtype=int), count=1, sample=sample).means()
        ridge = (float(self.ridge) + number(saddle.primal_penalty)) * np.eye(features.size)
        # Where A is singular the least weights are taken: features that never occur say nothing.
        theta = np.linalg.lstsq(cross + ridge, target[:, 0], rcond=None)[0]
        function = LinearFunction(features, theta)
        nothing = DualFunction(LinearFunction(features, np.zeros(features.size)), Direct(), saddle.loss)
        return Result(function, nothing, None, bool(np.all(np.isfinite(theta))), Pair(function, nothing), 1)

    def _sample(self, saddle: Saddle) -> Sample | None:
        """The samples, without their importance weights if these are not wanted."""
        if self.weighted:
            return None
        table = saddle.problem.source.table  # type: ignore[attr-defined]  # a Dataset, by `check`
        return {name: column for name, column in table.items() if name != "weight"}


def check_first_point(method: str, terms: Any) -> None:
    """Raise one clear sentence unless the context of every row is its first point."""
    if checks.traced(terms):
        return
    first, context = np.asarray(terms.points[:, 0]), np.asarray(terms.context)
    if first.shape == context.shape and np.array_equal(first, context):
        return
    differing = "" if first.shape != context.shape else f", such as {context[np.any(first != context, axis=1)][0]}"
    raise checks.InputError(
        f"{method} tests the moment with f's own features, so that the context must be the first point, as in policy "
        f"evaluation; here there are contexts that are not{differing}; use solvers.ClosedForm or solvers.EmbeddingSGD"
    )
