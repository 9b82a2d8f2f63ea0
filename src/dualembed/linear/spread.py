"""How sure f is: weights with a covariance, and what follows for points, bands and averages."""

from __future__ import annotations

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.estimates import Estimate, check_level
from dualembed.spaces.features import FeatureMap, evaluate_features, to_numpy
from dualembed.spaces.linear import LinearFunction


class Spread(eqx.Module):
    """A linear function f = wᵀψ with Gaussian uncertainty in w, of covariance root rootᵀ.

    Attributes
    ----------
    features : FeatureMap
        The features ψ.
    weights : array of shape (m,)
        The mean of w.
    root : array of shape (m, p)
        A root of the covariance of w.
    """

    features: FeatureMap
    weights: Floats
    root: Floats

    @property
    def function(self) -> LinearFunction:
        """The function itself."""
        return LinearFunction(self.features, self.weights)

    @property
    def spreads(self) -> tuple[Spread, ...]:
        """What standard errors come from: itself."""
        return (self,)

    def values(self, xs: ArrayLike) -> Floats:
        """The values of f.

        Parameters
        ----------
        xs : array of shape (n, d) or (n,)
            Points; (n,) numbers if d = 1.

        Returns
        -------
        array of shape (n,)
            Values.
        """
        return np.asarray(self._psi(xs) @ self.weights)

    def std(self, xs: ArrayLike) -> Floats:
        """The standard errors of f.

        Parameters
        ----------
        xs : array of shape (n, d) or (n,)
            Points; (n,) numbers if d = 1.

        Returns
        -------
        array of shape (n,)
            Standard errors.
        """
        return np.sqrt(np.sum((self._psi(xs) @ self.root) ** 2, axis=1))

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
        psi = self._psi(xs)
        return np.asarray(psi @ self.weights), np.sqrt(np.sum((psi @ self.root) ** 2, axis=1))

    def quantile(self, level: float) -> float:
        """How many standard errors an interval reaches to either side.

        Parameters
        ----------
        level : float
            Probability, between 0 and 1.

        Returns
        -------
        float
            That many.
        """
        check_level(level)
        return float(norm.ppf(0.5 + level / 2))

    def interval(self, xs: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
        """Intervals that cover f(x) at each point by itself with probability `level`.

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
        values, errors = self.evaluate(xs)
        half = self.quantile(level) * errors
        return values - half, values + half

    def band(self, xs: ArrayLike, level: float = 0.95, *, draws: int = 2000, seed: int = 0) -> tuple[Floats, Floats]:
        """A band that covers f at all the points at once with probability `level`, by the multiplier bootstrap.

        The half-width is a quantile of sup_x |f*(x) - f(x)| / std(x) times std(x). With normal multipliers the
        bootstrap's f* - f, a sum over the rows of multiplier times influence, is Gaussian with the covariance of this
        spread: draws from it are the bootstrap, without a pass over the rows for each.

        Parameters
        ----------
        xs : array of shape (n, d) or (n,)
            Points; (n,) numbers if d = 1.
        level : float, default=0.95
            Probability, between 0 and 1.
        draws : int, default=2000
            Draws of the bootstrap.
        seed : int, default=0
            Seed of the draws.

        Returns
        -------
        lower : array of shape (n,)
            Lower ends.
        upper : array of shape (n,)
            Upper ends.
        """
        check_level(level)
        checks.count("draws", draws)
        psi = self._psi(xs)
        moves = psi @ self.root
        std = np.sqrt(np.sum(moves**2, axis=1))
        shape = moves / np.where(std > 0, std, 1.0)[:, None]
        rng = np.random.default_rng(seed)
        largest = [np.abs(shape @ rng.standard_normal((self.root.shape[1], 1))).max() for _ in range(draws)]
        half = np.quantile(largest, level) * std
        return psi @ self.weights - half, psi @ self.weights + half

    def average(self, xs: ArrayLike, weights: ArrayLike | None = None) -> Estimate:
        """The mean of f over the points with its standard error, the points taken as given.

        Parameters
        ----------
        xs : array of shape (n, d) or (n,)
            Points; (n,) numbers if d = 1.
        weights : array of shape (n,), optional
            For Σ weights_i f(x_i); by default 1/n each.

        Returns
        -------
        Estimate
            The mean and its standard error.
        """
        psi = self._psi(xs)
        weights = np.full(len(psi), 1 / len(psi)) if weights is None else np.asarray(weights, dtype=np.float64)
        if weights.shape != (len(psi),):
            raise checks.InputError(f"weights must have shape ({len(psi)},), one for each point, not {weights.shape}")
        row = weights @ psi
        return Estimate(float(row @ self.weights), float(np.linalg.norm(row @ self.root)))

    def _psi(self, xs: ArrayLike) -> Floats:
        points = np.asarray(xs, dtype=np.float64)
        points = points[:, None] if points.ndim == 1 and self.features.dimension == 1 else points
        if points.ndim != 2 or points.shape[1] != self.features.dimension:
            raise checks.InputError(f"points must have shape (n, {self.features.dimension}), but have {np.shape(xs)}")
        return evaluate_features(to_numpy(self.features), points)


class Uncertainty(eqx.Module):
    """The errors in a file of version 0.1, which had two answers to "how sure": the larger one counts.

    Attributes
    ----------
    posterior : Spread
        Takes the noise to be of one variance.
    sandwich : Spread
        Takes what the penalty pulled f to for the truth.
    """

    posterior: Spread
    sandwich: Spread

    @property
    def spreads(self) -> tuple[Spread, ...]:
        """Both; the larger of their errors counts."""
        return self.posterior, self.sandwich
