"""The least average cost of a linearly-solvable process without an end: the principal eigenpair of e^(-q) P."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.linear.moments import MomentSystem
from dualembed.linear.sums import Sums, gather_moments
from dualembed.problems import AverageCost, Moment, Terms
from dualembed.problems.base import TILE, iter_terms
from dualembed.saddle import Saddle
from dualembed.solvers.base import Result, solve
from dualembed.solvers.closed_form import ClosedForm, check, feature_maps, number
from dualembed.sources import Sample
from dualembed.spaces.base import Function
from dualembed.spaces.features import FeatureMap, evaluate_features, to_numpy

VANISHING = 1e-8  # of the largest: the root of what rounding leaves, since normal equations square it


class AverageCostSolution(NamedTuple):
    """z as a Result, with z(reference) = 1; the eigenvalue λ; the average cost -log λ a step."""

    result: Result
    eigenvalue: float
    average_cost: float


def average_cost(key: jax.Array | int, saddle: Saddle) -> AverageCostSolution:
    """z and λ with λ z(s) = e^(-q(s)) E[z(s') | s], for a saddle whose problem is an `AverageCost`.

    With A_0 = E[φ ψ(s)ᵀ] and A_1 = E[φ e^(-q) ψ(s')ᵀ], the operator in the primal space is
    T = (A_0ᵀWA_0 + λ1)⁻¹ A_0ᵀWA_1, W = (C + λ2)⁻¹: its largest positive eigenvalue is λ. z is then the closed form
    with that λ, whatever eigenvalue the problem came with, and z(reference) = 1.
    """
    checks.instance("saddle", saddle, Saddle, "build one with Saddle(problem, primal, dual)")
    if not isinstance(problem := saddle.problem, AverageCost):
        raise checks.InputError("average_cost needs a problems.AverageCost; for a process that ends use FirstExit")
    check(saddle)
    key = checks.as_key(key)
    primal, dual = feature_maps(key, saddle)
    now, following = (gather_moments(Moment(problem.source, part), primal, dual) for part in (_now, _following))
    eigenvalue, weights = _principal(now, following, number(saddle.primal_penalty), number(saddle.dual_penalty))
    _check_not_zero(primal, weights, problem)
    known = AverageCost(problem.source, eigenvalue, problem.reference, problem.loss)
    penalties = {name: getattr(saddle, name) for name in ("primal_penalty", "dual_penalty")}
    result = solve(key, Saddle(known, saddle.primal, saddle.dual, **penalties), ClosedForm(folds=1))
    _check_reference(result.primal, problem)
    return AverageCostSolution(result, eigenvalue, float(-np.log(eigenvalue)))


def _check_not_zero(primal: FeatureMap, weights: np.ndarray, problem: AverageCost) -> None:
    """Raise where the eigenfunction vanishes at the reference, so that no multiple of it is 1 there."""
    primal, reference = to_numpy(primal), np.asarray(problem.reference, dtype=np.float64)
    there = abs(float((evaluate_features(primal, reference[None]) @ weights)[0]))
    states = np.concatenate([terms.context for terms in iter_terms(problem)])
    sizes = np.concatenate(
        [
            np.abs(evaluate_features(primal, states[start : start + TILE]) @ weights)
            for start in range(0, len(states), TILE)
        ]
    )
    largest = int(np.argmax(sizes))
    if there <= VANISHING * sizes[largest]:
        raise checks.InputError(
            f"the desirability at the reference {reference.tolist()} is {there / sizes[largest]:.1e} times its largest "
            "and cannot be set to 1, since from there the process does not get to where it costs least; choose as the "
            f"reference a state from which it does, such as {states[largest].tolist()}"
        )


def _check_reference(function: Function, problem: AverageCost) -> None:
    """Raise where z is far from 1 at the reference, or 0 at all the data: penalties can outweigh the normalisation."""
    reference = np.asarray(problem.reference)
    states = np.concatenate([terms.context for terms in iter_terms(problem)])
    values = np.asarray(function(np.concatenate([reference[None], states])))
    there, most = float(values[0]), float(np.max(values[1:]))
    if not (abs(there - 1.0) <= 0.5 and most > 0.01):
        raise checks.InputError(
            f"the desirability came out as {there:.3g} at the reference {reference.tolist()}, where it should be 1, "
            f"and at most {most:.3g} where the data are: lower the penalties, or choose another state as the reference"
        )


def _now(sample: Sample) -> Terms:
    """z(s)."""
    return _value(sample, "state", jnp.ones_like(sample["cost"]))


def _following(sample: Sample) -> Terms:
    """e^(-q(s)) z(s')."""
    return _value(sample, "next_state", jnp.exp(-sample["cost"]))


def _value(sample: Sample, where: str, weight: jax.Array) -> Terms:
    state, point = (each[:, None] if each.ndim == 1 else each for each in (sample["state"], sample[where]))
    return Terms(point[:, None], weight[:, None], 0.0 * weight, state, 0.0 * weight)


def _principal(now: Sums, following: Sums, primal_penalty: float, dual_penalty: float) -> tuple[float, np.ndarray]:
    """The largest positive eigenvalue of T, and its eigenvector (m,)."""
    operator = MomentSystem(now, dual_penalty).influence(primal_penalty) @ following.means()[0]
    found, eigenvectors = np.linalg.eig(operator)
    # Perron: the eigenvalue of largest modulus is real and positive; noise may give others small imaginary parts.
    real = np.where(np.abs(found.imag) <= 1e-9 * np.max(np.abs(found)), found.real, -np.inf)
    principal = int(np.argmax(real))
    if not real[principal] > 0:
        raise checks.InputError(
            "the data show no positive eigenvalue of e^(-cost) P: give more transitions, a richer dual or more penalty"
        )
    return float(real[principal]), eigenvectors[:, principal].real
