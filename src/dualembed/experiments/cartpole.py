"""Cart-pole swing-up: the discounted cost of a linear policy on a cart with a rod hinged to it.

A state is (cart position, cart velocity, angular velocity, angle): angle 0 hangs down, π stands upright. Equations and
constants are those of PILCO (pilco-matlab, scenarios/cartPole: dynamics_cp.m and settings_cp.m; derived in Deisenroth
2010, appendix C). Policy, process noise and the distribution of states are this project's choice: see SETTINGS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualembed import sources

# PILCO's constants, SI units.
ROD_LENGTH = 0.5
ROD_MASS = 0.5
CART_MASS = 0.5
FRICTION = 0.1
GRAVITY = 9.82
LARGEST_FORCE = 10.0
PERIOD = 0.1  # between two decisions; the force is held in between
SUBSTEPS = 10  # Runge-Kutta steps of fourth order in a period: within 1.1e-6 of the exact solution

DISCOUNT = 0.96
# The force brings the cart back to the middle, and damps the rod where it hangs: the state stays bounded, so the
# value is finite everywhere. (Gains that balance an upright rod saturate elsewhere and drive the cart away.)
GAINS = (-1.0, -1.0, 0.5, 0.0)
BIAS = 0.0
NOISE = 0.1  # standard deviation of the process noise in every coordinate
# An episode starts with the rod swinging about where it hangs, and is seen at a random moment of its first two seconds.
# Wilder starts throw the rod over the top, where no smooth value is learnt from tens of thousands of transitions.
START_DEVIATIONS = (0.5, 0.5, 1.0)  # of position, velocity and angular velocity
START_ANGLE = 2.0  # the largest, either way
EPISODE = 20  # periods

SETTINGS: dict[str, Any] = {
    "discount": DISCOUNT,
    "policy": "force = A s + b, cut to 10 N either way",
    "A": list(GAINS),
    "b": BIAS,
    "process noise": "normal, deviation 0.1 in every coordinate, added after each period of 0.1 s",
    "start": "position N(0, 0.5²), velocity N(0, 0.5²), angular velocity N(0, 1), angle uniform on [-2, 2]",
    "state": "that of an episode after 0 to 19 periods, each number equally likely",
    "cost": "(s1² + s2² + s3² + 5 (s4 - π)²) / 2",
    "test states": 1000,
    "next states": 100,
}
TEST_SEED = 20_160_711  # no training seed that anybody would choose

Value = Callable[[Any], Any]


def derivative(state: jax.Array, force: jax.Array) -> jax.Array:
    """ds/dt (4,) at a state (4,) under a force."""
    _, velocity, spin, angle = state
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    mass = CART_MASS + ROD_MASS
    inertia = 4 * mass - 3 * ROD_MASS * cosine**2
    push = force - FRICTION * velocity
    swing = ROD_MASS * ROD_LENGTH * spin**2 * sine
    acceleration = (2 * swing + 3 * ROD_MASS * GRAVITY * sine * cosine + 4 * push) / inertia
    turning = -(3 * swing * cosine + 6 * mass * GRAVITY * sine + 6 * push * cosine) / (ROD_LENGTH * inertia)
    return jnp.stack([velocity, acceleration, turning, spin])


def advance(state: jax.Array, force: jax.Array) -> jax.Array:
    """The state (4,) one period later under a constant force, without noise."""
    step = PERIOD / SUBSTEPS

    def runge_kutta(_: int, now: jax.Array) -> jax.Array:
        first = derivative(now, force)
        second = derivative(now + step / 2 * first, force)
        third = derivative(now + step / 2 * second, force)
        fourth = derivative(now + step * third, force)
        return now + step / 6 * (first + 2 * second + 2 * third + fourth)

    return jax.lax.fori_loop(0, SUBSTEPS, runge_kutta, state)


def policy(state: jax.Array) -> jax.Array:
    """The force A s + b, cut to what the motor can do."""
    return jnp.clip(jnp.dot(jnp.asarray(GAINS), state) + BIAS, -LARGEST_FORCE, LARGEST_FORCE)


def next_mean(state: jax.Array) -> jax.Array:
    """E[s' | s], shape (4,): one period under the policy."""
    return advance(state, policy(state))


def cost(states: jax.Array) -> jax.Array:
    """R(s) = (s1² + s2² + s3² + 5 (s4 - π)²) / 2, shape (...,) for states (..., 4)."""
    away = states - jnp.asarray([0.0, 0.0, 0.0, jnp.pi])
    return 0.5 * jnp.sum(jnp.asarray([1.0, 1.0, 1.0, 5.0]) * away**2, axis=-1)


def draw_start(key: jax.Array) -> jax.Array:
    """The state (4,) an episode starts in."""
    motion_key, angle_key = jax.random.split(key)
    motion = jnp.asarray(START_DEVIATIONS) * jax.random.normal(motion_key, (3,))
    return jnp.append(motion, jax.random.uniform(angle_key, minval=-START_ANGLE, maxval=START_ANGLE))


def draw_state(key: jax.Array) -> jax.Array:
    """One state (4,) of the distribution that is learnt on: of an episode, at a random moment."""
    start_key, age_key, noise_key = jax.random.split(key, 3)
    age = jax.random.randint(age_key, (), 0, EPISODE)
    noise = jax.random.normal(noise_key, (EPISODE - 1, 4))

    # Every episode runs to its end, so that a batch of them is one loop; later states are left aside.
    def follow(period: int, state: jax.Array) -> jax.Array:
        return jnp.where(period < age, next_mean(state) + NOISE * noise[period], state)

    return jax.lax.fori_loop(0, EPISODE - 1, follow, draw_start(start_key))


def draw(key: jax.Array) -> dict[str, jax.Array]:
    """One transition: state (4,), reward (which is the cost), next_state (4,)."""
    state_key, noise_key = jax.random.split(key)
    state = draw_state(state_key)
    following = next_mean(state) + NOISE * jax.random.normal(noise_key, (4,))
    return {"state": state, "reward": cost(state), "next_state": following}


def dataset(n: int, seed: int) -> sources.Dataset:
    """n independent transitions.

    >>> dataset(5, 0).columns["state"].shape
    (5, 4)
    """
    return sources.Dataset(**sources.Simulator(draw).pilot(jax.random.key(seed), n))


def evaluation_states(count: int = SETTINGS["test states"]) -> np.ndarray:
    """The states (count, 4) on which errors are measured, the same for everybody."""
    return np.asarray(_draw_states(jax.random.split(jax.random.key(TEST_SEED), count)))


def msbe(function: Value, *, states: np.ndarray | None = None, next_states: int = 100, seed: int = 0) -> float:
    """An unbiased estimate of the mean over the states of (V(s) - R(s) - 0.96 E[V(s') | s])².

    The square of a mean over m draws exceeds the square of the expectation by 0.96² Var(V(s') | s) / m, which is
    estimated from the same draws and taken off. At a perfect V it may therefore come out slightly negative.
    """
    residual, variance = _residuals(function, states, next_states, seed=seed)
    return float(np.mean(residual**2 - DISCOUNT**2 * variance / next_states))


def plug_in_msbe(function: Value, *, states: np.ndarray | None = None, next_states: int = 100, seed: int = 0) -> float:
    """The paper's figure: the same without taking off the variance."""
    return float(np.mean(_residuals(function, states, next_states, seed=seed)[0] ** 2))


def _residuals(
    function: Value, states: np.ndarray | None, next_states: int, *, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """V(s) - R(s) - 0.96 mean V(s') over the draws, and the sample variance of V(s'), both (n,)."""
    states = evaluation_states() if states is None else np.asarray(states, dtype=float)
    noise = np.random.default_rng((TEST_SEED, seed)).standard_normal((next_states, *states.shape))
    following = np.asarray(_next_means(jnp.asarray(states))) + NOISE * noise
    values = np.asarray(function(following.reshape(-1, 4)), dtype=float).reshape(next_states, -1)
    known = np.asarray(function(states), dtype=float) - np.asarray(cost(jnp.asarray(states)), dtype=float)
    return known - DISCOUNT * values.mean(axis=0), values.var(axis=0, ddof=1)


_draw_states = jax.jit(jax.vmap(draw_state))
_next_means = jax.jit(jax.vmap(next_mean))
