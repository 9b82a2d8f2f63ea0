"""Preconditioning of Embedding-SGD: both players move in coordinates that a pilot sample says are well scaled."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.problems.base import Terms
from dualembed.saddle import Saddle
from dualembed.spaces.base import Layout
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.linear import LinearSpace, Preconditioned


class Preconditioner(eqx.Module):
    """Whitens the dual by (C + λ2 + ρ2)^(-1/2) and the primal by (Aᵀ(C + λ2 + ρ2)⁻¹A + λ1 + ρ1)^(-1/2).

    A = E[φgᵀ] and C = E[φφᵀ] come from a pilot of `rows` samples; for losses other than the square they are weighted
    by the slope of the dual variable and by the curvature of its payoff. ρ1 and ρ2 are `primal_ridge` and `dual_ridge`
    times the largest eigenvalue of the matrix they stand in: they keep away the directions in which the pilot shows
    noise only, and bound the whitened features of outliers.

    In these coordinates every direction that the ridges do not damp has about the same curvature. Each player's are
    then shrunk by √(batch / (batch + the largest |whitened features|² of the pilot)), so that at steps of about 1 even
    a batch with an outlier brings a player to its optimum and not beyond it. Begin with steps of 1; 2 may
    be quicker where batches are small.

    >>> import numpy as np
    >>> import dualembed as de
    >>> x = np.linspace(-1, 1, 200)
    >>> problem = de.problems.Invariance(de.sources.Dataset(x=x, y=np.sin(3 * x), z=x))
    >>> space = de.spaces.Fourier(de.kernels.Gaussian(0.5), size=32)
    >>> step = de.schedules.Constant(1.0)
    >>> solver = de.solvers.EmbeddingSGD(300, 20, step, preconditioner=de.solvers.Preconditioner())
    >>> f = de.solve(0, de.Saddle(problem, space, space), solver).last.primal
    >>> bool(abs(f([0.5])[0] - np.sin(1.5)) < 0.05)
    True
    """

    rows: int = eqx.field(default=3000, static=True)
    primal_ridge: float | jax.Array = eqx.field(default=1e-3, converter=checks.real)
    dual_ridge: float | jax.Array = eqx.field(default=1e-3, converter=checks.real)

    def __check_init__(self) -> None:
        checks.count("rows", self.rows)
        for name in ("primal_ridge", "dual_ridge"):
            checks.positive(name, getattr(self, name))
            checks.single(name, getattr(self, name))

    def __call__(self, key: jax.Array, saddle: Saddle, batch: int) -> Saddle:
        """The same saddle, its spaces seen in the new coordinates, for steps on batches of that size."""
        for name in ("primal", "dual"):
            _check(name, saddle)
        pilot_key, primal_key, dual_key = jax.random.split(key, 3)
        terms = saddle.terms(saddle.problem.source.pilot(pilot_key, self.rows))
        points = terms.points.reshape(-1, terms.points.shape[-1])
        saddle.primal.check(points.shape[1])
        saddle.dual.check(terms.context.shape[1])
        once: dict[str, Any] = {"steps": 1, "batch": 1, "per_sample": 1, "capacity": 1}
        primal = saddle.primal.feature_map(primal_key, Layout(points, **once))
        dual = saddle.dual.feature_map(dual_key, Layout(terms.context, **once))
        roots = self._roots(saddle, terms, primal, dual=dual, batch=batch)
        return eqx.tree_at(
            lambda both: (both.primal, both.dual),
            saddle,
            (Preconditioned(primal, roots[0]), Preconditioned(dual, roots[1])),
        )

    def _roots(
        self, saddle: Saddle, terms: Terms, primal: FeatureMap, *, dual: FeatureMap, batch: int
    ) -> tuple[jax.Array, jax.Array]:
        """The transforms of the primal's and of the dual's features."""
        traced = checks.traced(self, saddle, terms, primal, dual)
        xp = jnp if traced else np
        g, phi = (
            each if traced else np.asarray(each, dtype=np.float64)
            for each in (_moment_features(primal, terms), dual(terms.context))
        )
        coupling, curvature = (xp.asarray(each)[:, None] for each in _secants(saddle, terms.target))
        rows = len(phi)
        dual_root = _inverse_root(xp, (curvature * phi).T @ phi / rows, saddle.dual_penalty, self.dual_ridge)
        seen = dual_root @ ((coupling * phi).T @ g / rows)
        primal_root = _inverse_root(xp, seen.T @ seen, saddle.primal_penalty, self.primal_ridge)
        dual_root = dual_root * _shrinkage(xp, xp.sqrt(curvature) * (phi @ dual_root), batch)
        primal_root = primal_root * _shrinkage(xp, g @ primal_root, batch)
        dtype = terms.target.dtype
        return jnp.asarray(primal_root, dtype), jnp.asarray(dual_root, dtype)


def _check(name: str, saddle: Saddle) -> None:
    """Raise one clear sentence where a player cannot be preconditioned."""
    if getattr(saddle, f"{name}_radius") is not None:
        raise checks.InputError(
            f"a preconditioned run takes penalties, not {name}_radius, since a ball is none in its coordinates; "
            f"use {name}_penalty instead"
        )
    space = getattr(saddle, name)
    if not isinstance(space, LinearSpace):
        raise checks.InputError(
            f"a preconditioned run needs spaces with a fixed number of features, which {type(space).__name__} is not; "
            f"use fourier, nystrom or a basis as the {name}, or no preconditioner"
        )


def _moment_features(features: FeatureMap, terms: Terms) -> jax.Array:
    """g = Σ_k w_k ψ(p_k), (n, m)."""
    rows, count, width = terms.points.shape
    psi = features(terms.points.reshape(rows * count, width)).reshape(rows, count, -1)
    return jnp.einsum("nk,nkm->nm", terms.weights, psi)


def _secants(saddle: Saddle, target: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(du/dv, minus the curvature in v of the dual's payoff) at each target, as secants over -1 <= v <= 1.

    Both are 1 for the square loss. A link's values are of order one; tangents at 0 would vanish for conjugates of
    straight pieces, which bend at the ends of their domain only.
    """
    ones = jnp.ones_like(target)
    link, loss = saddle.active_link, saddle.loss
    coupling = (link.dual(loss, ones, target) - link.dual(loss, -ones, target)) / 2
    curvature = (link.slope(loss, -ones, 0.0 * ones, target) - link.slope(loss, ones, 0.0 * ones, target)) / 2
    return coupling, curvature


def _inverse_root(xp: Any, matrix: Any, penalty: Any, ridge: Any) -> Any:
    """(matrix + penalty + ridge · its largest eigenvalue)^(-1/2)."""
    values, vectors = xp.linalg.eigh(matrix)
    floor = ridge * xp.maximum(values[-1], xp.finfo(values.dtype).tiny)
    damped = xp.maximum(values, 0.0) + floor + (0.0 if penalty is None else penalty)
    return (vectors / xp.sqrt(damped)) @ vectors.T


def _shrinkage(xp: Any, whitened: Any, batch: int) -> Any:
    """√(batch / (batch + max |whitened features|²)): an outlier fills one batch-th of a batch."""
    return xp.sqrt(batch / (batch + xp.max(xp.sum(whitened**2, axis=1))))
