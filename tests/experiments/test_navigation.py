"""Navigation is what it says: expectations are exact, and transitions have the stated moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dualembed.experiments import navigation


def peak(states: Any) -> np.ndarray:
    """V(s) = 2 exp(-30 |s|²), whose expectations under a normal law are known."""
    return 2 * np.exp(-30 * np.sum(np.asarray(states) ** 2, axis=-1))


def peak_expected(means: np.ndarray) -> np.ndarray:
    """E[V(s')] for s' ~ N(means, 0.1 I): each coordinate's bump widens from 1/60 to 1/60 + 0.1."""
    widening = 1 + 60 * navigation.NOISE_VARIANCE
    return 2 / widening * np.exp(-30 * np.sum(means**2, axis=1) / widening)


def test_navigation_expectations_are_exact() -> None:
    means = np.asarray(navigation.next_mean(navigation.PROCESS.test_states(200)), dtype=float)
    assert np.allclose(navigation.expected_value(peak, means), peak_expected(means), rtol=1e-6, atol=1e-9)


def test_navigation_msbe_agrees_with_brute_force() -> None:
    states = navigation.PROCESS.test_states(20)
    rng = np.random.default_rng(0)
    bellman = []
    for state in states:
        reward = np.exp(-100 * state @ state)
        following = (1 - 0.2 * reward) * state + np.sqrt(0.1) * rng.standard_normal((200_000, 2))
        bellman.append(peak(state) - reward - 0.9 * peak(following).mean())
    assert navigation.PROCESS.msbe(peak, states) == pytest.approx(np.mean(np.square(bellman)), rel=0.02)


def test_navigation_transitions_have_the_stated_moments() -> None:
    columns = {name: np.asarray(column) for name, column in navigation.PROCESS.dataset(20_000, 0).columns.items()}
    assert set(columns) == {"state", "reward", "next_state"}
    assert np.allclose(np.cov(columns["state"].T), 0.2 * np.eye(2), atol=0.01)
    moved = columns["next_state"] - np.asarray(navigation.next_mean(columns["state"]))
    assert np.allclose(np.cov(moved.T), 0.1 * np.eye(2), atol=0.005)
    assert np.allclose(columns["reward"], np.exp(-100 * np.sum(columns["state"] ** 2, axis=1)), rtol=1e-4)
