"""Navigation: the value of walking in a two-dimensional room whose reward is a peak at the middle.

    s ~ N(0, 0.2 I),   R(s) = exp(-100 |s|²),   a = -0.2 s R(s),   s' ~ N(s + a, 0.1 I),   discount 0.9

with 0.2 and 0.1 variances. V solves V(s) = R(s) + 0.9 E[V(s') | s]; how well is its mean squared Bellman error (MSBE).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualembed.experiments import bellman
from dualembed.experiments.bellman import TEST_SEED, Evaluation, Process, Value, at_points
from dualembed.experiments.experiment import Experiment

DISCOUNT = 0.9
STATE_VARIANCE = 0.2
NOISE_VARIANCE = 0.1

SETTINGS: dict[str, Any] = {
    "discount": DISCOUNT,
    "state": "N(0, 0.2 I) in two dimensions",
    "policy": "a = -0.2 s R(s)",
    "next state": "N(s + a, 0.1 I)",
    "test states": 1000,
    "bandwidths": "as they are, in the units of the states",
}
SPACING = 0.02  # of the quadrature's grid


def reward(states: jax.Array) -> jax.Array:
    """R(s) = exp(-100 |s|²), shape (...,) for states (..., 2)."""
    return jnp.exp(-100 * jnp.sum(states**2, axis=-1))


def next_mean(states: jax.Array) -> jax.Array:
    """E[s' | s] = s - 0.2 s R(s), shape (..., 2)."""
    return states - 0.2 * states * reward(states)[..., None]


def draw_state(key: jax.Array) -> jax.Array:
    """One state (2,) of the distribution that is learnt on."""
    return jnp.sqrt(STATE_VARIANCE) * jax.random.normal(key, (2,))


def evaluation_states(count: int = SETTINGS["test states"]) -> np.ndarray:
    """The states (count, 2) of N(0, 0.2 I) on which errors are measured, the same for everybody."""
    return np.sqrt(STATE_VARIANCE) * np.random.default_rng(TEST_SEED).standard_normal((count, 2))


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
    values = at_points(function, grid).reshape(axis.size, axis.size)
    across, along = (np.exp(-0.5 * ((axis - means[:, [column]]) / deviation) ** 2) for column in (0, 1))
    total = across.sum(axis=1) * along.sum(axis=1)
    return np.sum((across @ values) * along, axis=1) / total


PROCESS = Process(
    draw_state,
    next_mean,
    reward,
    deviation=float(np.sqrt(NOISE_VARIANCE)),
    discount=DISCOUNT,
    quadrature=expected_value,
    states=evaluation_states(),
)
PENALTY = 1e-6
GRIDS: dict[str, dict[str, Any]] = {
    "embedding-sgd": {
        "primal bandwidth": (0.03, 0.05, 0.07, 0.1),
        "dual bandwidth": (0.03, 0.05, 0.07, 0.1),
        "power": (0.5, 0.25),
        "primal rate": (3.0, 10.0, 20.0, 40.0, 100.0),
        "dual rate": (10.0, 30.0, 60.0, 100.0, 200.0, 400.0),
        "offset": (0.1, 3.0, 10.0),
    },
    "gtd2": {
        "primal bandwidth": (0.01, 0.05, 0.1, 0.15, 0.2, 0.3),
        "power": (0.5, 0.0),
        "primal rate": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
        "dual rate": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
        "offset": (0.1, 1.0, 10.0, 100.0),
    },
    "residual-gradient": {
        "primal bandwidth": (0.01, 0.05, 0.1, 0.15, 0.2, 0.3),
        "power": (1.0, 0.5, 0.0),
        "primal rate": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0),
        "offset": (0.1, 1.0, 10.0, 100.0, 1000.0),
    },
    "kernel-mdp": {
        "primal bandwidth": (0.03, 0.05, 0.07, 0.1),
        "dual bandwidth": (0.1, 0.2, 0.3, 0.5, 0.8),
        "power": (1.0, 0.5, 0.0),
        "primal rate": (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0, 30000.0),
        "offset": (1.0, 10.0, 100.0),
    },
    "centred-sgd": {
        "primal bandwidth": (0.03, 0.05, 0.1),
        "dual bandwidth": (0.1, 0.2, 0.3, 0.5, 0.8),
        "power": (0.5,),
        "primal rate": (10.0, 30.0, 100.0, 300.0, 1000.0),
        "dual rate": (1.0, 3.0, 10.0, 30.0),
        "offset": (1.0, 10.0, 30.0, 100.0),
    },
    "preconditioned-sgd": {
        "primal bandwidth": (0.07, 0.1, 0.15, 0.2),
        "dual bandwidth": (0.05, 0.07, 0.1, 0.15, 0.2),
        "power": (0.5, 0.0),
        "primal rate": (0.1, 0.3, 1.0, 2.0, 10.0, 30.0),
        "dual rate": (0.1, 0.3, 1.0, 2.0, 10.0, 30.0),
        "offset": (10.0,),
    },
    "closed-form": {
        "primal bandwidth": (0.05, 0.07, 0.1, 0.15),
        "dual bandwidth": (0.05, 0.07, 0.1, 0.15, 0.2),
        "primal penalty": (1e-7, 1e-6, 1e-5, 1e-4, 1e-3),
        "dual penalty": (1e-6, 1e-5, 1e-4, 1e-3),
    },
}
EXPERIMENT = Experiment(
    "navigation",
    "Navigation",
    "MSBE",
    {**SETTINGS, **bellman.SETTINGS, "penalties": PENALTY},
    Evaluation(PROCESS, PENALTY, absolute=True).contenders(GRIDS),
    samples=40_000,
    quick_samples=2_000,
)
