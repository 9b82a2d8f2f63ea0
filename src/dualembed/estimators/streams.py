"""Rows that arrive in parts: sums over them add up, and the solution follows from the sums."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dualembed.estimators.diagnostics import Diagnostics, few_rows, strength, witness
from dualembed.estimators.fitting import Fit
from dualembed.problems.base import Problem, iter_terms
from dualembed.selection import held_out
from dualembed.selection.held_out import held_out_new
from dualembed.solvers.closed_form import normal_equations, number, pseudo_inverse, solution
from dualembed.solvers.statistics import Statistics, gather
from dualembed.solvers.uncertainty import Spread, Uncertainty, score_covariance, spreads
from dualembed.spaces.features import evaluate_features, to_numpy
from dualembed.spaces.linear import LinearFunction


@dataclasses.dataclass(frozen=True)
class Stream:
    """The sums over all rows so far, in spaces that the first rows chose.

    `amplitude` is the prior variance of f's weights: the penalty is the residual variance over the rows and it.
    """

    statistics: Statistics
    scores: np.ndarray  # Ω, the covariance of the dual's features times residual
    dual: LinearFunction
    amplitude: float
    dual_penalty: float

    @staticmethod
    def begin(fit: Fit, groups: Any) -> Stream:
        """The sums of the first rows, from their fit."""
        problem, primal, dual = fit.saddle.problem, fit.result.primal, fit.result.dual.function
        (statistics,) = gather(problem, primal.features, dual.features)
        scores = score_covariance(problem, primal, dual.features, groups=groups)
        variance = statistics.residual_variance(np.asarray(primal.weights, dtype=np.float64))
        penalty = number(fit.saddle.primal_penalty)
        # Without noise or penalty nothing is said of it, and 1 is that of chosen kernels, whose features have its size.
        amplitude = variance / (statistics.count * penalty) if penalty > 0 and variance > 0 else 1.0
        return Stream(statistics, scores, dual, amplitude, number(fit.saddle.dual_penalty))

    def learn(
        self, problem: Problem, function: LinearFunction, *, groups: Any
    ) -> tuple[Stream, LinearFunction, Uncertainty, Spread, Diagnostics]:
        """The sums with the problem's rows added, and all that follows from them."""
        judged = held_out_new(problem, function, groups)
        (more,) = gather(problem, function.features, self.dual.features)
        statistics = self.statistics + more
        theta, eta, penalty = self._solved(statistics, function)
        found = LinearFunction(function.features, theta)
        share = more.count / statistics.count
        own = score_covariance(problem, found, self.dual.features, groups=groups)
        scores = (1 - share) * self.scores + share * own
        dual = LinearFunction(self.dual.features, eta)
        stream = dataclasses.replace(self, statistics=statistics, scores=scores, dual=dual)
        penalties: dict[str, Any] = {"primal_penalty": penalty, "dual_penalty": self.dual_penalty}
        uncertainty = spreads([statistics], found, scores, **penalties)
        singular, freedom = strength(statistics, **penalties)
        variance = statistics.residual_variance(theta)
        warnings = tuple(few_rows(statistics.count, freedom))
        diagnostics = Diagnostics(statistics.count, judged, singular, freedom, variance, warnings=warnings)
        return stream, found, uncertainty, witness(statistics, self.dual.features, theta, scores), diagnostics

    def influence(self, problem: Problem, function: LinearFunction, functional: np.ndarray) -> np.ndarray:
        """The weight (n,) of each row of the problem in functionalᵀθ, which is the mean of weight times target."""
        statistics = self.statistics
        variance = statistics.residual_variance(np.asarray(function.weights, dtype=np.float64))
        penalty = variance / (statistics.count * self.amplitude)
        values, vectors = np.linalg.eigh(statistics.dual / statistics.count)
        weight = pseudo_inverse(values, self.dual_penalty)
        spectrum, basis = np.linalg.eigh(normal_equations([statistics], vectors, weight)[0])
        pulled = statistics.cross @ (basis @ (pseudo_inverse(spectrum, penalty) * (basis.T @ functional)))
        eta = vectors @ (weight * (vectors.T @ pulled)) / statistics.count
        features = to_numpy(self.dual.features)
        return np.concatenate([evaluate_features(features, terms.context) @ eta for terms in iter_terms(problem)])

    def _solved(self, statistics: Statistics, function: LinearFunction) -> tuple[np.ndarray, np.ndarray, float]:
        """(weights of f, those of the dual, penalty)."""
        theta, eta = np.asarray(function.weights, dtype=np.float64), np.zeros(self.dual.features.size)
        penalty = 0.0
        for _ in range(3):
            penalty = statistics.residual_variance(theta) / (statistics.count * self.amplitude)
            theta, eta = solution([statistics], penalty, self.dual_penalty)
        return theta, eta, penalty


def diagnose(fit: Fit, stream: Stream, *, groups: Any, seed: int) -> tuple[Diagnostics, Spread]:
    """The diagnostics of a closed form, and its witness with standard errors."""
    problem, primal, dual = fit.saddle.problem, fit.result.primal, fit.result.dual.function
    penalties: dict[str, Any] = {
        "primal_penalty": number(fit.saddle.primal_penalty),
        "dual_penalty": number(fit.saddle.dual_penalty),
    }
    across = fit.folds is not None and fit.folds > 1
    judged = held_out(problem, primal.features, dual.features, **penalties, across=across, groups=groups, seed=seed)
    statistics, theta = stream.statistics, np.asarray(primal.weights, dtype=np.float64)
    singular, freedom = strength(statistics, **penalties)
    warnings, variance = tuple(few_rows(statistics.count, freedom)), statistics.residual_variance(theta)
    found = Diagnostics(statistics.count, judged, singular, freedom, variance, warnings=warnings)
    return found, witness(statistics, dual.features, theta, stream.scores)
