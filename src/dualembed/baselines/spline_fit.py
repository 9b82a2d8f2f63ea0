"""Two-stage least squares in a given number of B-splines, its bootstrap, and the intervals and bands of these."""

from __future__ import annotations

import math
from dataclasses import dataclass

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.baselines.instrumental import as_result
from dualembed.baselines.splines import Splines
from dualembed.estimates import check_level
from dualembed.solvers.base import Result
from dualembed.spaces.linear import LinearFunction

# Of eigenvalues of a sum over rows, relative to the largest: that of R's `ginv`, which npiv inverts everything with.
FLOOR = math.sqrt(np.finfo(float).eps)
BLOCK = 128  # draws of the bootstrap, or points of a band, at one time


@dataclass(frozen=True)
class SplineFit:
    """θ = M y with M = (ψᵀP ψ)⁻ ψᵀP, and η, the regression of f(x) - y on φ(z)."""

    splines: Splines
    instruments: Splines
    weights: Floats  # θ, (m,)
    dual_weights: Floats  # η, (k,)
    influence: Floats  # M diag(y - f), (m, n)
    ill_posedness: float  # 1 / s, infinite where the rows do not tell the splines of x apart

    @staticmethod
    def of(splines: Splines, instruments: Splines, *, x: Floats, y: Floats, z: Floats) -> SplineFit:
        """The fit to samples x (n, dx), y (n,), z (n, dz)."""
        psi = splines.compute(np, x)
        on_x, _ = orthonormal(psi)
        on_z, root = orthonormal(instruments.compute(np, z))
        strength = np.linalg.svd(on_x.T @ on_z, compute_uv=False)[-1] if on_x.shape[1] == psi.shape[1] else 0.0
        cross = on_z.T @ psi
        values, vectors = np.linalg.eigh(cross.T @ cross)
        kept = values > FLOOR * values[-1]
        half = vectors[:, kept] / values[kept]
        weights = half @ (vectors[:, kept].T @ (cross.T @ (on_z.T @ y)))
        residual = y - psi @ weights
        influence = (half @ (vectors[:, kept].T @ cross.T)) @ (on_z.T * residual)
        ill_posedness = float(1 / strength) if strength > 0 else math.inf
        return SplineFit(splines, instruments, weights, -root @ (on_z.T @ residual), influence, ill_posedness)

    def result(self, spread: SieveSpread) -> Result:
        """The functions f and u, with that uncertainty."""
        primal, dual = LinearFunction(self.splines, self.weights), LinearFunction(self.instruments, self.dual_weights)
        plain = as_result(primal, dual)
        return eqx.tree_at(lambda result: result.uncertainty, plain, spread, is_leaf=lambda leaf: leaf is None)


def orthonormal(features: Floats) -> tuple[Floats, Floats]:
    """Orthonormal columns (n, r) that features (n, m) span, and their root (m, r): columns = features @ root."""
    values, vectors = np.linalg.eigh(features.T @ features)
    kept = values > FLOOR * values[-1]
    root = vectors[:, kept] / np.sqrt(values[kept])
    return features @ root, root


class BootstrappedFit(eqx.Module):
    """f = wᵀψ of one dimension, the covariance of w, and the bootstrap's draws of w* - w.

    Attributes
    ----------
    splines : Splines
        The splines ψ.
    weights : array of shape (m,)
        The weights w.
    covariance : array of shape (m, m)
        Their covariance, robust to any noise.
    moves : array of shape (m, draws)
        Draws of w* - w.
    """

    splines: Splines
    weights: Floats
    covariance: Floats
    moves: Floats

    def evaluate(self, points: Floats) -> tuple[Floats, Floats]:
        """Values and standard errors (n,) at points (n, d)."""
        psi = self.splines.compute(np, points)
        return psi @ self.weights, standard_errors(psi, self.covariance)

    def largest(self, points: Floats) -> Floats:
        """sup_x |f*(x) - f(x)| / σ(x) over the points, of every draw."""
        psi = self.splines.compute(np, points)
        return np.max(studentised(psi @ self.moves, standard_errors(psi, self.covariance)), axis=0)


def bootstrapped(fits: list[SplineFit], draws: int, seed: int) -> list[BootstrappedFit]:
    """All fits with the same multipliers: w* - w = M diag(y - f) ω with ω standard normal."""
    rng = np.random.default_rng(seed)
    influences = np.concatenate([fit.influence for fit in fits])
    rows = influences.shape[1]
    blocks = [influences @ rng.standard_normal((rows, min(BLOCK, draws - at))) for at in range(0, draws, BLOCK)]
    moves = np.split(np.concatenate(blocks, axis=1), np.cumsum([len(fit.weights) for fit in fits])[:-1])
    return [
        BootstrappedFit(fit.splines, fit.weights, fit.influence @ fit.influence.T, move)
        for fit, move in zip(fits, moves, strict=True)
    ]


def standard_errors(psi: Floats, covariance: Floats) -> Floats:
    """√(ψᵀ C ψ) of every row of ψ."""
    return np.sqrt(np.maximum(np.sum((psi @ covariance) * psi, axis=1), 0.0))


def studentised(moves: Floats, errors: Floats) -> Floats:
    """|moves| (n, draws) over errors (n,), and 0 where nothing can move."""
    return np.abs(moves) / np.where(errors > 0, errors, np.inf)[:, None]


class SieveSpread(eqx.Module):
    """How uncertain a sieve's f is: intervals, and bands with what the choice of the dimension adds.

    Attributes
    ----------
    fits : tuple of BootstrappedFit
        The fits that bands look at, by dimension.
    chosen : int
        Which of them f is.
    threshold : float
        The quantile θ* that differences between dimensions are compared with; 0 where none were.
    dimensions : tuple of int
        The dimensions there were to choose from.
    ill_posedness : tuple of float
        1 / s_J of each of these, or of the chosen one where the choice does not need it.
    """

    fits: tuple[BootstrappedFit, ...]
    chosen: int = eqx.field(static=True)
    threshold: float = eqx.field(static=True)
    dimensions: tuple[int, ...] = eqx.field(static=True)
    ill_posedness: tuple[float, ...] = eqx.field(static=True)

    @property
    def dimension(self) -> int:
        """The chosen number of splines of x."""
        return self.fits[self.chosen].splines.size

    def evaluate(self, xs: ArrayLike) -> tuple[Floats, Floats]:
        """Evaluate f and its standard errors.

        Parameters
        ----------
        xs : array of shape (n, d) or (n,)
            Points; (n,) numbers if d = 1.

        Returns
        -------
        values : array of shape (n,)
            Values of f.
        errors : array of shape (n,)
            Standard errors.
        """
        return self.fits[self.chosen].evaluate(self._points(xs))

    def interval(self, xs: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
        """Intervals for f(x) at each point by itself, as if the dimension had been given.

        Parameters
        ----------
        xs : array of shape (n, d) or (n,)
            Points; (n,) numbers if d = 1.
        level : float, default=0.95
            Probability, between 0 and 1.

        Returns
        -------
        lower : array of shape (n,)
            Lower ends.
        upper : array of shape (n,)
            Upper ends.
        """
        check_level(level)
        values, errors = self.evaluate(xs)
        half = norm.ppf(0.5 + level / 2) * errors
        return values - half, values + half

    def band(self, xs: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
        """A band that covers f at all the points at once, f(x) ± (z* + max(0, log log J) θ*) σ_J(x).

        z* is a quantile of the bootstrap's sup |f*_J(x) - f_J(x)| / σ_J(x) over the points and the `fits`.

        Parameters
        ----------
        xs : array of shape (n, d) or (n,)
            Points; (n,) numbers if d = 1.
        level : float, default=0.95
            Probability, between 0 and 1.

        Returns
        -------
        lower : array of shape (n,)
            Lower ends.
        upper : array of shape (n,)
            Upper ends.
        """
        check_level(level)
        points = self._points(xs)
        parts = np.array_split(points, -(-len(points) // BLOCK))
        largest = np.max([fit.largest(part) for fit in self.fits for part in parts], axis=0)
        critical = np.quantile(largest, level, method="hazen")
        if self.threshold > 0:
            critical += max(0.0, math.log(math.log(self.dimension))) * self.threshold
        values, errors = self.evaluate(xs)
        return values - critical * errors, values + critical * errors

    def _points(self, xs: ArrayLike) -> Floats:
        dimension = self.fits[0].splines.dimension
        checks.points("xs", xs, dimension)
        return np.asarray(xs, dtype=np.float64).reshape(-1, dimension)
