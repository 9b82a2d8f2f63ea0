"""Rivals of the benchmark `answers`: what a user would do with a few lines of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from dualembed.experiments.bench_worlds import Choice, Gaussian, Log, Policy

FEATURES = 400
NODES = 5  # of Gauss and Hermite's rule, by which a Gaussian policy's mean is taken


def mean_return(log: Log, discount: float) -> float:
    """The mean discounted return of whole episodes; one that a time limit cut counts as far as it goes."""
    used = np.isin(log.episodes, log.whole)
    return float(np.sum(log.rewards[used] * discount ** log.steps[used]) / len(log.whole))


def importance_sampling(log: Log, target: Policy, behaviour: Policy, discount: float) -> float:
    """Weighted per-decision importance sampling: Σ_t γᵗ Σ_i w_it r_it / Σ_i w_it over whole episodes i.

    w_it is the product of π(a|s) / π_b(a|s) up to step t; an episode that is over keeps its weight and earns nothing.
    """
    shape = len(log.whole), int(log.steps.max()) + 1
    ratios, rewards = np.ones(shape), np.zeros(shape)
    used = np.isin(log.episodes, log.whole)
    places = np.searchsorted(log.whole, log.episodes[used]), log.steps[used]
    states, actions = log.states[used], log.actions[used]
    ratios[places] = target.likelihood(states, actions) / behaviour.likelihood(states, actions)
    rewards[places] = log.rewards[used]
    weights = np.cumprod(ratios, axis=1)
    totals = weights.sum(axis=0)
    paid = np.sum(weights * rewards, axis=0) / np.where(totals > 0, totals, 1.0)
    return float(paid @ discount ** np.arange(shape[1]))


def lstdq(log: Log, target: Policy, discount: float, *, ridges: tuple[float, ...]) -> list[float]:
    """The policy's value by least-squares temporal differences of Q, for each ridge.

    Features are a constant, the point and a Matérn 5/2 kernel of landmarks, whitened; a few actions have features of
    their own, an action that is a number is one more coordinate. The target's mean is exact at next states and starts.
    """
    if isinstance(target, Choice):
        now, following, starting = _by_action(log, target)
    else:
        now, following, starting = _with_action(log, target)
    following[log.terminated] = 0
    cross = now.T @ (now - discount * following) / len(now)
    paid = now.T @ log.rewards / len(now)
    penalty = np.full(len(cross), np.mean(now**2))
    penalty[np.all(now == now.astype(bool), axis=0)] = 0  # constants, which are 0 or 1
    question = starting.mean(axis=0)
    return [float(question @ np.linalg.solve(cross + np.diag(ridge * penalty), paid)) for ridge in ridges]


def _by_action(log: Log, target: Choice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features at (s, a), their means over the target's actions at s', and the same at starts."""
    first = log.states[log.steps == 0]
    shares = [target.probabilities(states) for states in (log.next_states, first)]
    count = shares[0].shape[1]
    features = _Features(log.states, FEATURES // count, log.seed)
    taken = np.eye(count)[log.actions]
    return (
        _products(features(log.states), taken),
        _products(features(log.next_states), shares[0]),
        _products(features(first), shares[1]),
    )


def _with_action(log: Log, target: Gaussian) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features at (s, a), their means over the target's actions at s', and the same at starts."""
    features = _Features(np.column_stack([log.states, log.actions]), FEATURES, log.seed)
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)

    def mean(states: np.ndarray) -> np.ndarray:
        middle = target.mean(states)
        drawn = [features(np.column_stack([states, middle + target.deviation * node])) for node in nodes]
        return np.tensordot(weights / weights.sum(), np.stack(drawn), axes=1)

    first = log.states[log.steps == 0]
    return features(np.column_stack([log.states, log.actions])), mean(log.next_states), mean(first)


class _Features:
    """A constant, standardised points and the whitened kernel of landmarks drawn from them."""

    def __init__(self, points: np.ndarray, landmarks: int, seed: int) -> None:
        self.mean, self.scale = points.mean(axis=0), points.std(axis=0)
        self.width = np.sqrt(points.shape[1])
        distinct = np.unique(self._standard(points), axis=0)
        rng = np.random.default_rng((seed, 2))
        self.landmarks = distinct[rng.permutation(len(distinct))[:landmarks]]
        values, vectors = np.linalg.eigh(_matern(self.landmarks, self.landmarks, self.width))
        kept = values > 1e-9 * values[-1]
        self.whitening = vectors[:, kept] / np.sqrt(values[kept])

    def __call__(self, points: np.ndarray) -> np.ndarray:
        standard = self._standard(points)
        kernel = _matern(standard, self.landmarks, self.width) @ self.whitening
        return np.column_stack([np.ones(len(standard)), standard / self.width, kernel])

    def _standard(self, points: np.ndarray) -> np.ndarray:
        return np.asarray((points - self.mean) / np.where(self.scale > 0, self.scale, 1.0))


def _matern(points: np.ndarray, centres: np.ndarray, width: float) -> np.ndarray:
    """(1 + r + r²/3) exp(-r) of r = √5 |x - c| / width."""
    r = np.sqrt(5) / width * cdist(points, centres)
    return np.asarray((1 + r + r**2 / 3) * np.exp(-r))


def _products(features: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Features (n, m) once for each action, times its share (n, A): (n, A m)."""
    return np.asarray((shares[:, :, None] * features[:, None, :]).reshape(len(features), -1))


def tabular(origins: np.ndarray, destinations: np.ndarray, *, states: int) -> np.ndarray:
    """Mean times (states,) until the target, from counts of transitions: LSTD with a feature for each state.

    Origins are numbers below `states`; destinations too, or `states` itself inside the target. Nothing is known of a
    state that was never left: it counts as the target.
    """
    counts = np.zeros((states, states + 1))
    np.add.at(counts, (origins, destinations), 1.0)
    seen = np.flatnonzero(counts.sum(axis=1) > 0)
    shares = counts[np.ix_(seen, seen)] / counts[seen].sum(axis=1, keepdims=True)
    times = np.zeros(states)
    times[seen] = np.linalg.lstsq(np.eye(len(seen)) - shares, np.ones(len(seen)), rcond=None)[0]
    return times


def tabular_lstd(
    log: Log, target: Choice, discount: float, *, shape: tuple[int, int], ridges: tuple[float, ...]
) -> list[np.ndarray]:
    """V (S,) of the target for each ridge, by temporal differences with a constant and an indicator for each entry.

    The entries are the pairs of `shape` (states, actions); with one action they are the states, and the log must be the
    target's own. The ridge, times the mean square of an indicator, leaves the constant alone; without one, what the log
    does not determine is as small as can be.
    """
    states, actions = shape
    entries, rows = states * actions, len(log.rewards)
    shares = target.probabilities(np.arange(states)) if actions > 1 else np.ones((states, 1))
    origins = log.states * actions + (log.actions if actions > 1 else 0)
    counts = np.zeros((entries, states))
    np.add.at(counts, (origins, log.next_states), 1.0 - log.terminated)
    following = (counts[:, :, None] * shares).reshape(entries, entries)
    visits = np.bincount(origins, minlength=entries)
    inner = (np.diag(visits) - discount * following) / rows
    ones = np.column_stack([np.ones(entries), np.eye(entries)])
    cross = ones.T @ inner @ ones
    paid = ones.T @ np.bincount(origins, log.rewards, minlength=entries) / rows
    penalty = np.append(0.0, np.full(entries, 1 / entries))
    solutions = [np.linalg.lstsq(cross + np.diag(ridge * penalty), paid, rcond=None)[0] for ridge in ridges]
    return [np.sum(shares * (ones @ weights).reshape(shape), axis=1) for weights in solutions]


def dual_dice(
    cross: np.ndarray, dual: np.ndarray, starts: np.ndarray, discount: float, *, ridge: float, dual_ridge: float
) -> np.ndarray:
    """β (m,) of DualDICE's density ratio ζ = βᵀφ: its saddle in linear features, solved exactly.

        min_ν max_ζ  E[(ν - γ P^π ν) ζ - ζ²/2] - (1 - γ) E₀[ν],   ν = αᵀφ

    With A = E[φ (φ - γ P^π φ)ᵀ] (`cross`), C = E[φφᵀ] + dual_ridge I (`dual`) and c = E₀[φ] (`starts`) the inner
    maximum is at β = C⁻¹ A α, and the outer minimum, with a ridge on α, at (Aᵀ C⁻¹ A + ridge I) α = (1 - γ) c.
    """
    eye = np.eye(len(cross))
    tested = np.linalg.solve(dual + dual_ridge * eye, cross)
    alpha = np.linalg.lstsq(cross.T @ tested + ridge * eye, (1 - discount) * starts, rcond=None)[0]
    return np.asarray(tested @ alpha)


def dual_dice_of(
    fit: Any, discount: float, points: np.ndarray, *, ridges: tuple[float, ...], dual_ridges: tuple[float, ...]
) -> dict[str, np.ndarray]:
    """DualDICE's ratios (n,) at coded points (n, d) for all pairs of ridges, from a fit's own features and sums.

    The features are those of the kernel that the fit gives most weight to. Ridges are in mean squares of a feature, and
    ratios are divided by their mean over the log, as ours are.
    """
    heaviest = int(np.argmax([weights.sum() for weights in fit.candidates.weights]))
    features, sums = fit.candidates.paths[heaviest].features, fit.sums[heaviest]
    cross, dual, scale = sums.means()[0], sums.mean_dual, sums.mean_square
    starts = fit.headline.rows(features).mean(axis=0)
    pairs = [(one, other) for one in ridges for other in dual_ridges]
    betas = [dual_dice(cross, dual, starts, discount, ridge=a * scale, dual_ridge=b * scale) for a, b in pairs]
    logged = np.asarray(features(np.asarray(fit.places))).T @ fit.visits / np.sum(fit.visits)
    at = np.asarray(features(points))
    return {
        f"DualDICE, ridges {one:g} and {other:g}": at @ beta / (logged @ beta)
        for (one, other), beta in zip(pairs, betas, strict=True)
    }
