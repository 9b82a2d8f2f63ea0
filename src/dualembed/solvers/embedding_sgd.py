"""Embedding-SGD: stochastic descent in f and ascent in u on the saddle; plain, preconditioned, with a centred dual."""

from __future__ import annotations

from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.links import Direct
from dualembed.problems.base import Terms
from dualembed.saddle import Saddle
from dualembed.solvers.stochastic import Seen, StochasticSolver
from dualembed.spaces.base import Layout
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.linear import LinearSpace, Preconditioned


@final
class EmbeddingSGD(StochasticSolver):
    """Embedding-SGD: stochastic descent in f and ascent in u.

    The slopes are batch means. Both players move from the old (f, u):

        f <- Π[f - γ_t (mean u(κ) Σ_k w_k ∂f(p_k) + λ1 f)],   u <- Π[u + γ'_t (mean (moment - loss*'(u)) ∂u(κ) - λ2 u)].

    Parameters
    ----------
    steps : int
        Number of steps.
    batch : int, default=50
        Samples per step.
    primal_step : Schedule, default=OffsetSqrt(1.0, 1.0)
        Step sizes of f.
    dual_step : Schedule, optional
        Step sizes of u; by default those of f.
    preconditioner : Preconditioner, optional
        Both players move in whitened coordinates, in which a badly conditioned saddle takes far fewer steps, of size
        about 1.
    """

    title: ClassVar[str] = "Embedding-SGD"
    preconditioner: Preconditioner | None = None

    def __check_init__(self) -> None:
        if self.preconditioner is not None:
            checks.instance("preconditioner", self.preconditioner, Preconditioner, "such as solvers.Preconditioner()")

    def prepared(self, key: jax.Array, saddle: Saddle) -> Saddle:
        """The saddle in whitened coordinates, where there is a preconditioner."""
        return saddle if self.preconditioner is None else self.preconditioner(key, saddle, self.batch)

    def slopes(self, saddle: Saddle, seen: Seen) -> tuple[jax.Array, jax.Array]:
        """The saddle's own, unbiased: their expectation is the gradient of the saddle function."""
        return saddle.slopes(seen.terms, seen.primal, seen.dual)


@final
class CentredEmbeddingSGD(StochasticSolver):
    """Embedding-SGD with a centred dual u(κ) = a_f(κ) + v(κ), for the square loss.

    a_f is the part of the moment that the context κ determines, and v is in the dual space:

        f <- f - γ_t mean u(κ) Σ_k w_k ∂f(p_k),   v <- v + γ'_t mean (moment - y - u(κ)) ∂v(κ).

    For the square loss the best u is E[moment - y | κ]. In policy evaluation V(s) is known given s, and so is the
    reward if `reward_known` says so; all that is left for v to learn is -discount E[V(s') | s]. The noise of s' makes
    that smooth: it may have a wider kernel than V, and steps of less variance. For every f the best v gives the same u,
    and the steps of f are along the same slopes, so the solution is that of `EmbeddingSGD`; where the context
    determines nothing the two are one. But a_f follows f at once, so together they are no longer the gradient of one
    function. The result's `dual` is v, and not u: it is no argument for `duality_gap` or `Saddle.value`.

    Where s' is nearly determined by s there is nothing to gain: E[V(s') | s] is then as large and as rough as V, while
    the plain dual learns the residual alone.

    Parameters
    ----------
    steps : int
        Number of steps.
    batch : int, default=50
        Samples per step.
    primal_step : Schedule, default=OffsetSqrt(1.0, 1.0)
        Step sizes of f.
    dual_step : Schedule, optional
        Step sizes of v; by default those of f.

    Examples
    --------
    >>> import dualembed as de
    >>> chain = de.sources.Dataset(state=[0, 1], reward=[0.0, 1.0], next_state=[1, 1])
    >>> problem = de.problems.PolicyEvaluation(chain, 0.5, reward_known=True)
    >>> solver = CentredEmbeddingSGD(400, 2, de.schedules.Constant(1.0), de.schedules.Constant(1.0))
    >>> result = de.solve(0, de.Saddle(problem, de.spaces.Table(), de.spaces.Table()), solver)
    >>> [round(float(value), 2) for value in result.last.primal([0, 1])]
    [1.0, 2.0]
    """

    title: ClassVar[str] = "centred Embedding-SGD"

    def check(self, saddle: Saddle, terms: Terms) -> None:
        """Raise one clear sentence for another loss, or a link."""
        if not saddle.loss.quadratic:
            raise checks.InputError(
                f"a centred dual is for the square loss, whose best dual is an expectation, not for "
                f"{type(saddle.loss).__name__}; use solvers.EmbeddingSGD"
            )
        if not isinstance(saddle.active_link, Direct):
            raise checks.InputError(
                f"a centred dual has no link, but this saddle has {type(saddle.active_link).__name__}; leave link out"
            )

    def slopes(self, saddle: Saddle, seen: Seen) -> tuple[jax.Array, jax.Array]:
        """u w_k / B, and (moment - y - u) / B."""
        terms = seen.terms
        u = known_part(terms, seen.primal) + seen.dual
        residual = terms.moment(seen.primal) - terms.target
        return u[:, None] * terms.weights / len(u), (residual - u) / len(u)


def known_part(terms: Terms, values: jax.Array) -> jax.Array:
    """Σ_k w_k f(p_k) over the known points, and the offset where it is known, (B,), for values (B, K) of f."""
    known = jnp.asarray(terms.known or (False,) * values.shape[1], dtype=values.dtype)
    return jnp.sum(known * terms.weights * values, axis=1) + (terms.offset if terms.offset_known else 0.0)


class Preconditioner(eqx.Module):
    """Whitens the dual by (C + λ2 + ρ2)^(-1/2) and the primal by (Aᵀ(C + λ2 + ρ2)⁻¹A + λ1 + ρ1)^(-1/2).

    A = E[φgᵀ] and C = E[φφᵀ] come from a pilot of `rows` samples; for losses other than the square they are weighted
    by the slope of the dual variable and by the curvature of its payoff. ρ1 and ρ2 are `primal_ridge` and `dual_ridge`
    times the largest eigenvalue of the matrix they stand in: they keep away the directions in which the pilot shows
    noise only, and bound the whitened features of outliers.

    In these coordinates every direction that the ridges do not damp has about the same curvature. Each player's are
    then shrunk by √(batch / (batch + the largest |whitened features|² of the pilot)): at steps of about 1 even
    a batch with an outlier brings a player to its optimum and not beyond it. Begin with steps of 1; 2 may
    be quicker where batches are small.

    Parameters
    ----------
    rows : int, default=3000
        Samples of the pilot.
    primal_ridge : float, default=1e-3
        Ridge of the primal, in largest eigenvalues.
    dual_ridge : float, default=1e-3
        Ridge of the dual, in largest eigenvalues.

    Examples
    --------
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
        """The same saddle with its spaces in the new coordinates.

        Parameters
        ----------
        key : array
            A JAX key.
        saddle : Saddle
            The saddle; both spaces have a fixed number of features.
        batch : int
            Samples per step.

        Returns
        -------
        Saddle
            The saddle in whitened coordinates.
        """
        for name in ("primal", "dual"):
            _check_player(name, saddle)
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


def _check_player(name: str, saddle: Saddle) -> None:
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
