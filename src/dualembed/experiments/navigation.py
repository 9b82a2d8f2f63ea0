"""Navigation: the value of walking in a two-dimensional room whose reward is a peak at the middle.

    s ~ N(0, 0.2 I),   R(s) = exp(-100 |s|²),   a = -0.2 s R(s),   s' ~ N(s + a, 0.1 I),   discount 0.9

with 0.2 and 0.1 variances. V solves V(s) = R(s) + 0.9 E[V(s') | s]; how well is its mean squared Bellman error (MSBE).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualembed import sources

DISCOUNT = 0.9
STATE_VARIANCE = 0.2
NOISE_VARIANCE = 0.1

SETTINGS: dict[str, Any] = {
    "discount": DISCOUNT,
    "state": "N(0, 0.2 I) in two dimensions",
    "policy": "a = -0.2 s R(s)",
    "next state": "N(s + a, 0.1 I)",
    "test states": 1000,
    "next states of the plug-in": 100,
}
TEST_SEED = 20_160_711  # no training seed that anybody would choose
SPACING = 0.02  # of the quadrature's grid

Value = Callable[[Any], Any]


def reward(states: jax.Array) -> jax.Array:
    """R(s) = exp(-100 |s|²), shape (...,) for states (..., 2)."""
    return jnp.exp(-100 * jnp.sum(states**2, axis=-1))


def next_mean(states: jax.Array) -> jax.Array:
    """E[s' | s] = s - 0.2 s R(s), shape (..., 2)."""
    return states - 0.2 * states * reward(states)[..., None]


def draw(key: jax.Array) -> dict[str, jax.Array]:
    """One transition: state (2,), reward, next_state (2,)."""
    state_key, noise_key = jax.random.split(key)
    state = jnp.sqrt(STATE_VARIANCE) * jax.random.normal(state_key, (2,))
    noise = jnp.sqrt(NOISE_VARIANCE) * jax.random.normal(noise_key, (2,))
    return {"state": state, "reward": reward(state), "next_state": next_mean(state) + noise}


def dataset(n: int, seed: int) -> sources.Dataset:
    """n independent transitions.

    >>> dataset(5, 0).columns["next_state"].shape
    (5, 2)
    """
    return sources.Dataset(**sources.Simulator(draw).pilot(jax.random.key(seed), n))


def evaluation_states(count: int = SETTINGS["test states"]) -> np.ndarray:
    """The states (count, 2) of N(0, 0.2 I) on which errors are measured, the same for everybody."""
    return np.sqrt(STATE_VARIANCE) * np.random.default_rng(TEST_SEED).standard_normal((count, 2))


def msbe(function: Value, *, states: np.ndarray | None = None) -> float:
    """Mean over the states of (V(s) - R(s) - 0.9 E[V(s') | s])², with the inner expectation exact."""
    states = evaluation_states() if states is None else np.asarray(states, dtype=float)
    expected = expected_value(function, np.asarray(next_mean(jnp.asarray(states)), dtype=np.float64))
    return float(np.mean((_evaluate(function, states) - _reward(states) - DISCOUNT * expected) ** 2))


def plug_in_msbe(function: Value, *, states: np.ndarray | None = None, next_states: int = 100, seed: int = 0) -> float:
    """The paper's figure: E[V(s') | s] replaced by a mean of so many draws, which adds 0.81 Var(V(s') | s) / draws."""
    states = evaluation_states() if states is None else np.asarray(states, dtype=float)
    noise = np.random.default_rng((TEST_SEED, seed)).standard_normal((next_states, *states.shape))
    following = np.asarray(next_mean(jnp.asarray(states)), dtype=np.float64) + np.sqrt(NOISE_VARIANCE) * noise
    means = _evaluate(function, following.reshape(-1, 2)).reshape(next_states, -1).mean(axis=0)
    return float(np.mean((_evaluate(function, states) - _reward(states) - DISCOUNT * means) ** 2))


def expected_value(function: Value, means: np.ndarray) -> np.ndarray:
    """E[V(s')], shape (n,), for s' ~ N(means_i, 0.1 I), by one grid that all the means share.

    E[V(s')] ≈ Σ_jk p(x_j) q(y_k) V(x_j, y_k) on a square grid, p and q normal densities scaled to sum to one.
    """
    # Evenly spaced nodes converge faster than any power of the spacing and cost one evaluation of V for all states;
    # Gauss-Hermite nodes move with the state and, 20 an axis, lie 0.2 apart: the peak of V is 0.07 wide.
    deviation = np.sqrt(NOISE_VARIANCE)
    reach = np.abs(means).max() + 5 * deviation
    axis = np.linspace(-reach, reach, 2 * int(np.ceil(reach / SPACING)) + 1)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    values = _evaluate(function, grid).reshape(axis.size, axis.size)
    across, along = (np.exp(-0.5 * ((axis - means[:, [column]]) / deviation) ** 2) for column in (0, 1))
    total = across.sum(axis=1) * along.sum(axis=1)
    return np.sum((across @ values) * along, axis=1) / total


def _evaluate(function: Value, points: np.ndarray) -> np.ndarray:
    return np.asarray(function(points), dtype=float)


def _reward(states: np.ndarray) -> np.ndarray:
    return np.asarray(reward(jnp.asarray(states)), dtype=np.float64)
