"""How sure a closed-form solution is: standard errors of f, of averages of f, and bands around the whole of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import equinox as eqx
import numpy as np
from scipy.stats import norm

from dualembed import checks
from dualembed.estimates import Estimate, check_level
from dualembed.problems.base import Problem, iter_terms
from dualembed.saddle import Saddle
from dualembed.solvers.base import Result
from dualembed.solvers.closed_form import check, normal_equations, number, pseudo_inverse
from dualembed.solvers.statistics import Statistics, gather, total
from dualembed.sources import Sample
from dualembed.spaces.base import FeatureMap
from dualembed.spaces.features import evaluate_features, moment_features, to_numpy
from dualembed.spaces.linear import LinearFunction


class Spread(eqx.Module):
    """f = wᵀψ with w uncertain by a Gaussian of covariance `root` `root`ᵀ around `weights`."""

    features: FeatureMap
    weights: Any  # (m,)
    root: Any  # (m, p)

    def std(self, xs: Any) -> np.ndarray:
        """The standard error of f at points (n, d), shape (n,)."""
        return np.sqrt(np.sum((self._psi(xs) @ self.root) ** 2, axis=1))

    def interval(self, xs: Any, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper), each covering f(x) at each point by itself with that probability."""
        check_level(level)
        psi = self._psi(xs)
        half = norm.ppf(0.5 + level / 2) * np.sqrt(np.sum((psi @ self.root) ** 2, axis=1))
        return psi @ self.weights - half, psi @ self.weights + half

    def band(self, xs: Any, level: float = 0.95, *, draws: int = 2000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) around f at all the points at once, by the multiplier bootstrap.

        The half-width is a quantile of sup_x |f*(x) - f(x)| / std(x) times std(x). With normal multipliers the
        bootstrap's f* - f, a sum over the rows of multiplier times influence, is Gaussian with the covariance of this
        spread, so that draws from it are the bootstrap, without a pass over the rows for each.
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

    def average(self, xs: Any, weights: Any = None) -> Estimate:
        """The mean of f over the points (or Σ weights_i f(x_i)) with its standard error, the points being given."""
        psi = self._psi(xs)
        weights = np.full(len(psi), 1 / len(psi)) if weights is None else np.asarray(weights, dtype=np.float64)
        if weights.shape != (len(psi),):
            raise checks.InputError(f"weights must have shape ({len(psi)},), one for each point, not {weights.shape}")
        row = weights @ psi
        return Estimate(float(row @ self.weights), float(np.linalg.norm(row @ self.root)))

    def _psi(self, xs: Any) -> np.ndarray:
        points = np.asarray(xs, dtype=np.float64)
        points = points[:, None] if points.ndim == 1 and self.features.dimension == 1 else points
        if points.ndim != 2 or points.shape[1] != self.features.dimension:
            raise checks.InputError(f"points must have shape (n, {self.features.dimension}), but have {np.shape(xs)}")
        return evaluate_features(to_numpy(self.features), points)


class Uncertainty(eqx.Module):
    """Two answers to "how sure": they agree where the prior matters little and the noise is as assumed.

    `posterior` is that of f ~ the space's Gaussian process, noise of one variance: it knows what the data cannot tell.
    From `selection.auto` it knows too that the process's kernel was only estimated.
    `sandwich` is the sampling error of the estimator whatever the noise: it takes what the penalty pulled f to for
    the truth.
    """

    posterior: Spread
    sandwich: Spread

    @property
    def spreads(self) -> tuple[Spread, ...]:
        """Both; the larger of their errors counts."""
        return self.posterior, self.sandwich

    def widened(self, factor: float) -> Uncertainty:
        """The same with every standard error multiplied by the factor."""
        return Uncertainty(
            *(Spread(each.features, each.weights, factor * each.root) for each in (self.posterior, self.sandwich))
        )


def standard_errors(saddle: Saddle, result: Result, *, folds: int = 5, groups: Any = None) -> Uncertainty:
    """The uncertainty of a result of ClosedForm(folds) on this saddle.

    With H = AᵀWA + λ1 and the residual variance σ² the posterior covariance of the weights is (σ² / n) H⁻¹, that
    of the space's Gaussian process with amplitude σ² / (n λ1); the sandwich is H⁻¹ AᵀW Ω WA H⁻¹ / n with
    Ω = E[φφᵀ residual²], summed within groups (episodes, say) where those are given, one label a row.
    """
    check(saddle)
    primal, witness = result.primal, result.dual.function
    if not isinstance(primal, LinearFunction) or not isinstance(witness, LinearFunction):
        raise checks.InputError("standard errors are for closed-form results in linear spaces; use solvers.ClosedForm")
    parts = gather(saddle.problem, primal.features, witness.features, folds=folds, groups=groups)
    scores = score_covariance(saddle.problem, primal, witness.features, groups=groups)
    return spreads(
        parts, primal, scores, primal_penalty=number(saddle.primal_penalty), dual_penalty=number(saddle.dual_penalty)
    )


def spreads(
    parts: Sequence[Statistics],
    function: LinearFunction,
    scores: np.ndarray,
    *,
    primal_penalty: float,
    dual_penalty: float = 0.0,
    priors: Iterable[tuple[float, np.ndarray]] | None = None,
) -> Uncertainty:
    """The uncertainty of the function with weights θ, from the statistics and the covariance Ω of φ times residual.

    `priors` are (probability, covariance P of the weights, (m, m)), where it is not known to be the identity. The
    posterior is then their mixture, its covariance around θ by the law of total variance.
    """
    whole = total(parts)
    weights = np.asarray(function.weights, dtype=np.float64)
    values, vectors = np.linalg.eigh(whole.dual / whole.count)
    weight = pseudo_inverse(values, dual_penalty)
    normal, right = normal_equations(parts, vectors, weight)
    spectrum, basis = np.linalg.eigh(normal)
    inverse = pseudo_inverse(spectrum, primal_penalty)
    variance = whole.residual_variance(weights)
    posterior = basis * np.sqrt(variance / whole.count * inverse)
    if priors is not None and primal_penalty > 0:
        seen = spectrum > len(spectrum) * np.finfo(float).eps * spectrum[-1]
        half = np.sqrt(spectrum[seen])[:, None] * basis[:, seen].T
        posterior = _mixture(priors, half, right, weights=weights, penalty=primal_penalty)
    influence = (basis * inverse) @ basis.T @ ((vectors.T @ whole.cross / whole.count).T * weight) @ vectors.T
    spread, directions = np.linalg.eigh(scores)
    sandwich = influence @ (directions * np.sqrt(np.maximum(spread, 0.0) / whole.count))
    return Uncertainty(Spread(function.features, weights, posterior), Spread(function.features, weights, sandwich))


def _mixture(
    priors: Iterable[tuple[float, np.ndarray]],
    half: np.ndarray,
    right: np.ndarray,
    *,
    weights: np.ndarray,
    penalty: float,
) -> np.ndarray:
    """A root of Σ probability (V + (θ_P - θ)(θ_P - θ)ᵀ), V = λ (N + λ P⁻¹)⁻¹ and θ_P = V r / λ, with N = halfᵀhalf.

    λ = σ² / n, the noise of a moment. V = P - P halfᵀ(half P halfᵀ + λ)⁻¹ half P, so that P need not be inverted.
    """
    total = np.zeros((len(weights), len(weights)))
    for probability, prior in priors:
        pulled = half @ prior
        gain = np.linalg.solve(pulled @ half.T + penalty * np.eye(len(half)), pulled)
        covariance = prior - pulled.T @ gain
        move = covariance @ right / penalty - weights
        total += probability * (covariance + np.outer(move, move))
    values, vectors = np.linalg.eigh((total + total.T) / 2)
    root: np.ndarray = vectors * np.sqrt(np.maximum(values, 0.0))
    return root


def score_covariance(
    problem: Problem,
    function: LinearFunction,
    dual: FeatureMap,
    *,
    sample: Sample | None = None,
    groups: Any = None,
    variances: np.ndarray | None = None,
) -> np.ndarray:
    """Ω = E[φφᵀ residual²] (r, r) in one pass; with groups, of the sums of φ residual within each.

    `variances` (n,) stand in for the squared residuals where they are given.
    """
    features, dual = to_numpy(function.features), to_numpy(dual)
    theta = np.asarray(function.weights, dtype=np.float64)
    total, start = np.zeros((dual.size, dual.size)), 0
    labels = None if groups is None else _labels(problem, sample, groups)
    sums = None if labels is None else np.zeros((int(labels.max()) + 1, dual.size))
    for terms in iter_terms(problem, sample):
        phi = evaluate_features(dual, terms.context)
        rows = slice(start, start + len(phi))
        start += len(phi)
        if variances is None:
            moment = moment_features(features, terms.points, terms.weights) @ theta
            phi *= (terms.target - terms.offset - moment)[:, None]
        else:
            phi *= np.sqrt(variances[rows])[:, None]
        if sums is None or labels is None:
            total += phi.T @ phi
        else:
            np.add.at(sums, labels[rows], phi)
    return (total if sums is None else sums.T @ sums) / start


def _labels(problem: Problem, sample: Sample | None, groups: Any) -> np.ndarray:
    """The number (n,) of each row's group, from 0."""
    rows = sum(len(terms.target) for terms in iter_terms(problem, sample))
    if np.shape(groups) != (rows,):
        raise checks.InputError(f"groups must have shape ({rows},), one label a row, but has {np.shape(groups)}")
    return np.unique(np.asarray(groups), return_inverse=True)[1]
