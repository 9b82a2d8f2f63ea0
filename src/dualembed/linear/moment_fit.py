"""A function with the covariance of its weights, and the closed form that makes one from moments."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.estimates import Estimate, check_level
from dualembed.kernels import Kernel
from dualembed.linear.sums import Sums, gather_moments, gather_scores
from dualembed.linear.system import MomentSystem, pseudo_inverse
from dualembed.problems.base import Problem, iter_terms
from dualembed.spaces.features import (
    FeatureMap,
    evaluate_features,
    evaluate_functions,
    mean_features,
    sum_features,
    to_numpy,
)
from dualembed.spaces.linear import LinearFunction

ROUNDS = 3  # of the noise and the penalty in turn, where rows are added


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
        return self._functions(self.weights[None], xs)[:, 0]

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
        return np.sqrt(np.sum(self._functions(self.root.T, xs) ** 2, axis=1))

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
        both = self._functions(np.concatenate([self.weights[None], self.root.T]), xs)
        return both[:, 0].copy(), np.sqrt(np.sum(both[:, 1:] ** 2, axis=1))

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
        points = self._points(xs)
        count = len(points)
        weights = np.full(count, 1 / count) if weights is None else np.asarray(weights, dtype=np.float64)
        if weights.shape != (count,):
            raise checks.InputError(f"weights must have shape ({count},), one for each point, not {weights.shape}")
        row = sum_features(to_numpy(self.features), points, weights)
        return Estimate(float(row @ self.weights), float(np.linalg.norm(row @ self.root)))

    def averages(self, points: Floats, less: Floats | None = None) -> tuple[Floats, Floats]:
        """Evaluate the mean of f over each of many sets of points, in one pass, or how it differs from that over one.

        Parameters
        ----------
        points : array of shape (G, n, d)
            The sets, taken as given.
        less : array of shape (n, d), optional
            The set whose mean is taken away from each.

        Returns
        -------
        values : array of shape (G,)
            The means.
        errors : array of shape (G,)
            Standard errors, of the differences where there are such.
        """
        features = to_numpy(self.features)
        rows = mean_features(features, points)
        if less is not None:
            rows = rows - mean_features(features, less[None])
        return np.asarray(rows @ self.weights), np.linalg.norm(rows @ self.root, axis=1)

    def covariance(self, sums: Sequence[tuple[Floats, Floats]]) -> Floats:
        """The covariance of several sums Σ coefficients f(points).

        Parameters
        ----------
        sums : sequence of (array of shape (N, d), array of shape (N,))
            Points and coefficients of each.

        Returns
        -------
        array of shape (K, K)
            The covariance.
        """
        features = to_numpy(self.features)
        rows = np.stack([sum_features(features, self._points(points), own) for points, own in sums]) @ self.root
        return np.asarray(rows @ rows.T)

    def features_at(self, xs: ArrayLike) -> Floats:
        """The features (n, m) whose weights these are, at points.

        Parameters
        ----------
        xs : array of shape (n, d) or (n,)
            Points; (n,) numbers if d = 1.

        Returns
        -------
        array of shape (n, m)
            The features.
        """
        return self._psi(xs)

    def _psi(self, xs: ArrayLike) -> Floats:
        return evaluate_features(to_numpy(self.features), self._points(xs))

    def _functions(self, weights: Floats, xs: ArrayLike) -> Floats:
        return evaluate_functions(to_numpy(self.features), weights, self._points(xs))

    def _points(self, xs: ArrayLike) -> Floats:
        points = np.asarray(xs, dtype=np.float64)
        points = points[:, None] if points.ndim == 1 and self.features.dimension == 1 else points
        if points.ndim != 2 or points.shape[1] != self.features.dimension:
            raise checks.InputError(f"points must have shape (n, {self.features.dimension}), but have {np.shape(xs)}")
        return points


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


class MixturePrior(eqx.Module):
    """Which prior f may have: hypotheses of a polynomial trend and a smooth part, each with two probabilities.

    Under hypothesis h the weights of the trend are N(0, diag(trends_h)), and the values of the smooth part at the
    landmarks are N(0, amplitudes_h K_h). `reduction` (m, p + q) turns these into weights of the features of f.

    Attributes
    ----------
    shares : array of shape (H,)
        Probabilities for f itself, whose weights are the mean over hypotheses.
    error_shares : array of shape (H,)
        Probabilities for its error.
    trends : array of shape (H, p)
        Variances of the trend's weights.
    amplitudes : array of shape (H,)
        Variances of the smooth part; 0 where there is none.
    kernels : tuple of Kernel
        Its kernels.
    landmarks : array of shape (q, d)
        Where its values are known.
    reduction : array of shape (m, p + q)
        From weights of the trend and values at landmarks to weights of f's features.
    """

    shares: Floats
    error_shares: Floats
    trends: Floats
    amplitudes: Floats
    kernels: tuple[Kernel, ...]
    landmarks: Floats
    reduction: Floats

    @property
    def is_trend(self) -> bool:
        """Whether f is more likely than not a polynomial, without a smooth part."""
        return bool(np.sum(self.shares[self.amplitudes == 0]) > 0.5)

    def covariances(self) -> Iterator[tuple[float, float, Floats]]:
        """(share, error share, covariance (m, m) of the weights) of each hypothesis.

        One at a time: together they would be as large as the features of all rows. Hypotheses of one kernel follow each
        other, so that its part is made once.
        """
        places, reduction, size = np.asarray(self.landmarks), np.asarray(self.reduction), self.trends.shape[1]
        trend, smooth = reduction[:, :size], reduction[:, size:]
        last, part = None, np.zeros(0)
        for number, (share, error_share) in enumerate(zip(self.shares, self.error_shares, strict=True)):
            covariance = (trend * self.trends[number]) @ trend.T
            if self.amplitudes[number]:
                if self.kernels[number] is not last:
                    last = self.kernels[number]
                    part = smooth @ np.asarray(last.gram(places, places)) @ smooth.T
                covariance += self.amplitudes[number] * part
            yield float(share), float(error_share), covariance


class MomentFit(eqx.Module):
    """f = θᵀψ in closed form: its sums, and all that errors, questions and more rows need; no row of the data is kept.

    `noise` (r, r) are efficient weights, `prior` is what is not known of f's prior. `scores` (r, r) are Ω, the
    covariance of φ times residual, once a pass over the rows has made them (`with_scores`). `inflation` is by how much
    the noise of rows left out exceeds that of the rows fitted to.
    """

    primal: FeatureMap
    dual: FeatureMap
    sums: Sums
    weights: Floats  # (m,)
    penalty: float
    dual_penalty: float
    noise: Floats | None = None
    prior: MixturePrior | None = None
    scores: Floats | None = None
    inflation: float = 1.0

    @staticmethod
    def solve(
        features: tuple[FeatureMap, FeatureMap],
        sums: Sums,
        penalty: float,
        *,
        dual_penalty: float,
        noise: Floats | None = None,
        prior: MixturePrior | None = None,
    ) -> MomentFit:
        """The solution of the sums, for features of f and of the dual."""
        theta = _weights(MomentSystem(sums, dual_penalty, noise=noise), penalty, prior)
        return MomentFit(*features, sums, theta, penalty, dual_penalty, noise, prior)

    @property
    def system(self) -> MomentSystem:
        """The system that f solves, factored anew."""
        return MomentSystem(self.sums, self.dual_penalty, noise=self.noise)

    @property
    def plain_system(self) -> MomentSystem:
        """The same of products of all rows together, whatever f's are made of: no noise between folds is in it."""
        return MomentSystem(self.sums.merged(), self.dual_penalty, noise=self.noise)

    @property
    def function(self) -> LinearFunction:
        """f itself."""
        return LinearFunction(self.primal, self.weights)

    @property
    def dual_function(self) -> LinearFunction:
        """(C + λ2)⁻¹(Aθ - b), whatever weights f was found with: where the moment still differs from its target."""
        system = MomentSystem(self.sums, self.dual_penalty)
        return LinearFunction(self.dual, system.witness(np.asarray(self.weights)))

    @property
    def residual_variance(self) -> float:
        """The mean square of residuals."""
        return self.sums.residual_variance(np.asarray(self.weights))

    def with_scores(self, problem: Problem, groups: ArrayLike | None = None) -> MomentFit:
        """The same with Ω of the problem's rows, summed within groups where those are given, one label a row."""
        scores = gather_scores(problem, self.function, self.dual, groups=groups)
        return dataclasses.replace(self, scores=scores)

    def spread(self) -> Spread:
        """f with the covariance of its weights (`MomentSystem.error`)."""
        theta, scores = np.asarray(self.weights), np.asarray(self.scores)
        if self.prior is not None and self.penalty > 0:
            root = self.system.mixed_error(self.penalty, scores, theta, self.prior.covariances())
        else:
            root = self.system.error(self.penalty, scores, variance=self.residual_variance)
        return Spread(to_numpy(self.primal), theta, np.sqrt(self.inflation) * root)

    def witness(self) -> Spread:
        """u = C⁻¹(Aθ - b) with its standard errors: the regression of the residual on the dual's features."""
        values, vectors = np.linalg.eigh(self.sums.mean_dual)
        inverse = (vectors * pseudo_inverse(values, 1e-8 * max(float(values[-1]), 0.0))) @ vectors.T
        cross, target = self.sums.means()
        spread, directions = np.linalg.eigh(np.asarray(self.scores))
        root = inverse @ (directions * np.sqrt(np.maximum(spread, 0.0) / self.sums.rows))
        return Spread(to_numpy(self.dual), inverse @ (cross @ self.weights - target[:, 0]), root)

    def scaled(self, factor: float) -> MomentFit:
        """The same where every row counts so many times as much, with the same prior for f."""
        scores = None if self.scores is None else factor * np.asarray(self.scores)
        return dataclasses.replace(self, sums=self.sums.scaled(factor), penalty=self.penalty / factor, scores=scores)

    def row_weights(self, problem: Problem, functional: Floats) -> Floats:
        """The weight (n,) of each row of the problem in functionalᵀθ, which is the mean of weight times target.

        It is that of products of all rows together: across folds a row counts by its fold.
        """
        omega = self.plain_system.representer(functional, self.penalty)
        parts: Sequence[Floats] = [
            evaluate_features(to_numpy(self.dual), terms.context) @ omega for terms in iter_terms(problem)
        ]
        return np.concatenate(parts)

    def extended(self, problem: Problem, groups: ArrayLike | None = None) -> MomentFit:
        """The solution on the problem's rows besides all earlier ones, in the same features.

        The prior's amplitude stays as it is: the penalty is the residual variance over the rows and it.
        """
        before, variance = self.sums.rows, self.residual_variance
        more = gather_moments(problem, self.primal, self.dual, folds=self.sums.groups, groups=groups, first=int(before))
        sums, theta, penalty = self.sums + more, np.asarray(self.weights), self.penalty
        system = MomentSystem(sums, self.dual_penalty, noise=self.noise)
        if penalty > 0:
            amplitude = variance / (before * penalty) if variance > 0 else 1.0
            for _ in range(ROUNDS):
                penalty = sums.residual_variance(theta) / (sums.rows * amplitude)
                theta = _weights(system, penalty, self.prior)
        else:
            theta = system.weights(penalty)
        fit = dataclasses.replace(self, sums=sums, weights=theta, penalty=penalty)
        share = more.rows / sums.rows
        own = gather_scores(problem, fit.function, self.dual, groups=groups)
        return dataclasses.replace(fit, scores=(1 - share) * np.asarray(self.scores) + share * own)


def _weights(system: MomentSystem, penalty: float, prior: MixturePrior | None) -> Floats:
    """θ by the penalty, or by the prior where there is one and moments have noise."""
    if prior is None or penalty <= 0:
        return system.weights(penalty)
    return system.mixed_weights(penalty, prior.covariances())
