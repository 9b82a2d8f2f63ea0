"""Linearly-solvable processes: the optimal control from the desirability z, and the least average cost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from dualembed import checks
from dualembed.arrays import AnyArray, Floats
from dualembed.data.probabilities import numbers, state_rows
from dualembed.linear.sums import Sums, gather_moments
from dualembed.linear.system import MomentSystem
from dualembed.problems import AverageCost, Moment, Terms
from dualembed.problems.base import TILE, iter_terms
from dualembed.saddle import Saddle
from dualembed.solvers.base import Result, solve
from dualembed.solvers.closed_form import ClosedForm, check, feature_maps, penalty_value
from dualembed.sources import Sample
from dualembed.spaces.base import Function
from dualembed.spaces.features import FeatureMap, evaluate_features, to_numpy

Desirability = Callable[[AnyArray], AnyArray]
Dynamics = Callable[[jax.Array, AnyArray], AnyArray]
VANISHING = 1e-8  # of the largest: the root of what rounding leaves, since normal equations square it


def controlled_probabilities(passive: ArrayLike | sparse.sparray, desirability: ArrayLike) -> Floats | sparse.sparray:
    """Compute the transition probabilities of the optimally controlled process.

        p*(s'|s) = p(s'|s) z(s') / E_p[z(s') | s]

    The desirability stands at s', where the process goes, not at s. At terminal s' it is e^(-q_T(s')).

    Parameters
    ----------
    passive : array-like or sparse matrix of shape (n, m)
        Probabilities p(s'|s) of the uncontrolled process.
    desirability : array-like of shape (m,)
        Desirability z of the next states.

    Returns
    -------
    ndarray or sparse array of shape (n, m)
        Probabilities p*(s'|s), sparse where `passive` is.

    Raises
    ------
    InputError
        If a desirability is negative, or a row has no next state whose desirability is above 0.

    Examples
    --------
    >>> controlled_probabilities(np.array([[0.5, 0.5]]), np.array([1.0, 3.0])).tolist()
    [[0.25, 0.75]]
    """
    values = numbers("desirability", desirability)
    given: AnyArray = passive
    is_sparse = sparse.issparse(passive)
    given = given.tocsr() if is_sparse else numbers("passive", given)
    _check_passive(given, given.data if is_sparse else given)
    if values.shape != given.shape[1:]:
        raise checks.InputError(
            f"desirability must have one value for each of the {given.shape[1]} next states, but has {values.shape}"
        )
    if not np.all(values >= 0):
        raise checks.InputError(
            f"desirability must not be negative, not {np.min(values):.3g}; it is exp(-cost to go), so a negative "
            "value is an error of estimation: clip it at a small positive number"
        )
    total = given @ values
    if np.any(total <= 0):
        row = int(np.flatnonzero(total <= 0)[0])
        raise checks.InputError(f"every next state of row {row} has desirability 0; there is no way to go from there")
    if is_sparse:
        return sparse.diags_array(1.0 / total) @ given @ sparse.diags_array(values)
    return given * values / total[:, None]


def controlled_sampler(
    desirability: Desirability, passive: Dynamics, *, draws: int = 64, terminal: Desirability | None = None
) -> Dynamics:
    """Make a sampler of the optimally controlled process from one of the uncontrolled process.

    Of `draws` passive next states one is chosen with probability proportional to z. As draws grow, that is
    p*(s'|s) = p(s'|s) z(s') / E_p[z(s')|s]. Values of z below zero, errors of estimation, count as zero.

    Parameters
    ----------
    desirability : callable
        From states (m, d) to z (m,).
    passive : callable
        Sampler of the uncontrolled process: from a key and states (n, d) to next states (n, d).
    draws : int, default=64
        Passive next states drawn for each state.
    terminal : callable, optional
        From next states (m, d) to z = e^(-q_T) (m,) at terminal states and NaN at others. `FirstExit` learns z only
        where the process goes on; without this, no terminal state is ever entered.

    Returns
    -------
    callable
        From a key and states (n, d) or (n,) to next states (n, d).

    Examples
    --------
    >>> z = lambda s: np.where(s[:, 0] < 2, 0.5, 0.0)  # a solution's: it knows nothing of state 2, the end
    >>> goal = lambda s: np.where(s[:, 0] == 2, 1.0, np.nan)
    >>> move = controlled_sampler(z, lambda key, s: s + np.array([[1.0]]), terminal=goal)
    >>> move(0, [[1.0]]).tolist()
    [[2.0]]
    """
    checks.count("draws", draws)

    def controlled(key: jax.Array | int, states: AnyArray) -> AnyArray:
        draw_key, choice_key = jax.random.split(checks.as_key(key))
        states = states if isinstance(states, jax.Array) else state_rows(states)
        states = states[:, None] if states.ndim == 1 else states
        drawn = [passive(each, states) for each in jax.random.split(draw_key, draws)]
        for each in drawn:
            if np.shape(each) != states.shape:
                raise checks.InputError(f"passive must give next states of shape {states.shape}, not {np.shape(each)}")
        # What comes as NumPy stays in float64: a table looks states up by equality.
        xp = jnp if any(isinstance(each, jax.Array) for each in drawn) else np
        proposals = xp.stack(drawn)
        values = _desirabilities(desirability, terminal, proposals)
        chosen = jax.random.categorical(choice_key, jnp.asarray(_log_shares(values)), axis=0)
        moved = xp.take_along_axis(proposals, xp.asarray(chosen)[None, :, None], axis=0)[0]
        # Compiled code cannot raise: where no draw is desirable, the next state says so by being NaN.
        return jnp.where(jnp.any(values > 0, axis=0)[:, None], moved, jnp.nan) if checks.traced(values) else moved

    return controlled


def _desirabilities(desirability: Desirability, terminal: Desirability | None, proposals: AnyArray) -> AnyArray:
    """z (draws, n) at the proposals (draws, n, d), in float64 unless it is being traced."""
    flat = proposals.reshape(-1, proposals.shape[-1])
    # A closed form hands over float32 unless asked for more, in which e^(-cost to go) is 0 beyond a cost of 103.
    with contextlib.nullcontext() if checks.traced(flat) else jax.enable_x64(True):
        known = [each(flat) for each in (desirability, terminal) if each is not None]
    for name, each in zip(("desirability", "terminal"), known, strict=False):
        if np.shape(each) != flat.shape[:1]:
            raise checks.InputError(
                f"{name} must give one value for each next state, {flat.shape[:1]}, not {np.shape(each)}"
            )
    if not checks.traced(known):
        known = [numbers("desirability and terminal", each) for each in known]
    xp = jnp if checks.traced(known) else np
    values = known[0] if terminal is None else xp.where(xp.isnan(known[1]), known[0], known[1])
    return values.reshape(proposals.shape[:2])


def _log_shares(values: AnyArray) -> AnyArray:
    """log of z (draws, n) over the largest of its state: however small z is, its ratios decide; -inf at zero."""
    traced = checks.traced(values)
    xp = jnp if traced else np
    positive = xp.maximum(values, 0.0)
    largest = xp.max(positive, axis=0)
    if not traced and not np.all((largest > 0) & np.isfinite(largest)):
        row = int(np.flatnonzero(~((largest > 0) & np.isfinite(largest)))[0])
        raise checks.InputError(
            f"of the {len(values)} passive next states drawn for row {row} none has a desirability above 0 (or one is "
            "not finite): give more draws, or terminal where the way leads to an end"
        )
    share = positive / xp.where(largest > 0, largest, 1.0)
    return xp.where(share > 0, xp.log(xp.where(share > 0, share, 1.0)), -xp.inf)


def _check_passive(passive: AnyArray, entries: Floats) -> None:
    if passive.ndim != 2:
        raise checks.InputError(f"passive must have shape (states, next states), but has {passive.shape}")
    if not (np.all(entries >= 0) and np.all(np.isfinite(entries))):
        raise checks.InputError("passive must hold probabilities, but some are negative, infinite or NaN")


class AverageCostSolution(NamedTuple):
    """The desirability and the least average cost, from `average_cost`.

    Parameters
    ----------
    result : Result
        The desirability z as `primal`, with z(reference) = 1.
    eigenvalue : float
        The eigenvalue λ.
    average_cost : float
        The least average cost of a step, -log λ.
    """

    result: Result
    eigenvalue: float
    average_cost: float


def average_cost(key: jax.Array | int, saddle: Saddle) -> AverageCostSolution:
    """Find the desirability and the least average cost of a process without an end.

    z and λ solve λ z(s) = e^(-q(s)) E[z(s') | s]. With A_0 = E[φ ψ(s)ᵀ] and A_1 = E[φ e^(-q) ψ(s')ᵀ], the operator in
    the primal space is T = (A_0ᵀWA_0 + λ1)⁻¹ A_0ᵀWA_1, W = (C + λ2)⁻¹; its largest positive eigenvalue is λ. z is then
    the closed form with that λ, whatever eigenvalue the problem came with, and z(reference) = 1.

    Parameters
    ----------
    key : jax.Array or int
        Random key or seed.
    saddle : Saddle
        A saddle whose problem is a `problems.AverageCost`.

    Returns
    -------
    AverageCostSolution
        The desirability, the eigenvalue and the average cost.

    Raises
    ------
    InputError
        If the data show no positive eigenvalue, or the desirability cannot be 1 at the reference.
    """
    checks.instance("saddle", saddle, Saddle, "build one with Saddle(problem, primal, dual)")
    if not isinstance(problem := saddle.problem, AverageCost):
        raise checks.InputError("average_cost needs a problems.AverageCost; for a process that ends use FirstExit")
    check(saddle)
    key = checks.as_key(key)
    primal, dual = feature_maps(key, saddle)
    now, following = (gather_moments(Moment(problem.source, part), primal, dual) for part in (_now, _following))
    eigenvalue, weights = _principal(
        now, following, penalty_value(saddle.primal_penalty), penalty_value(saddle.dual_penalty)
    )
    _check_not_zero(primal, weights, problem)
    known = AverageCost(problem.source, eigenvalue, problem.reference, problem.loss)
    penalties = {name: getattr(saddle, name) for name in ("primal_penalty", "dual_penalty")}
    result = solve(key, Saddle(known, saddle.primal, saddle.dual, **penalties), ClosedForm(folds=1))
    _check_reference(result.primal, problem)
    return AverageCostSolution(result, eigenvalue, float(-np.log(eigenvalue)))


def _check_not_zero(primal: FeatureMap, weights: Floats, problem: AverageCost) -> None:
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


def _principal(now: Sums, following: Sums, primal_penalty: float, dual_penalty: float) -> tuple[float, Floats]:
    """The largest positive eigenvalue of T, and its eigenvector (m,)."""
    operator = MomentSystem(now, dual_penalty).influence(primal_penalty) @ following.means()[0]
    eigenvalues, eigenvectors = np.linalg.eig(operator)
    # Perron: the eigenvalue of largest modulus is real and positive; noise may give others small imaginary parts.
    real = np.where(np.abs(eigenvalues.imag) <= 1e-9 * np.max(np.abs(eigenvalues)), eigenvalues.real, -np.inf)
    principal = int(np.argmax(real))
    if not real[principal] > 0:
        raise checks.InputError(
            "the data show no positive eigenvalue of e^(-cost) P: give more transitions, a richer dual or more penalty"
        )
    return float(real[principal]), eigenvectors[:, principal].real
