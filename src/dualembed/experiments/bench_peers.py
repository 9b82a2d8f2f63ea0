"""Rivals of the benchmark `answers`: what a user would do with a few lines of NumPy."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from dualembed.experiments.bench_logs import Choice, Gaussian, Log, Policy

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
