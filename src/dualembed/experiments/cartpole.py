"""Cart-pole swing-up: the discounted cost of a linear policy on a cart with a rod hinged to it.

A state is (cart position, cart velocity, angular velocity, angle): angle 0 hangs down, π stands upright. Equations and
constants are those of PILCO (pilco-matlab, scenarios/cartPole: dynamics_cp.m and settings_cp.m; derived in Deisenroth
2010, appendix C). Policy, process noise and the distribution of states are this project's choice: see SETTINGS.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from dualembed.experiments import bellman
from dualembed.experiments.bellman import Evaluation, Process
from dualembed.experiments.experiment import Experiment

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
    "bandwidths": "in units of the median distance between two states, once every coordinate has deviation 1",
}


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


PROCESS = Process(draw_state, next_mean, cost, deviation=NOISE, discount=DISCOUNT)
PENALTY = 1e-9
GRIDS: dict[str, dict[str, Any]] = {
    "embedding-sgd": {
        "primal bandwidth": (1.0, 2.0, 3.0),
        "dual bandwidth": (0.2, 0.3, 0.5, 1.0),
        "power": (0.5, 0.25, 0.0),
        "primal rate": (30.0, 50.0, 80.0, 120.0, 500.0, 1000.0, 2000.0),
        "dual rate": (2.0, 5.0, 10.0, 20.0, 100.0),
        "offset": (1.0, 10.0),
    },
    "gtd2": {
        "primal bandwidth": (0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0),
        "power": (0.5, 0.0),
        "primal rate": (0.2, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
        "dual rate": (0.05, 0.2, 1.0, 3.0, 10.0, 30.0, 100.0),
        "offset": (1.0, 10.0, 50.0),
    },
    "residual-gradient": {
        "primal bandwidth": (0.5, 1.0, 2.0, 3.0, 5.0, 10.0),
        "power": (1.0, 0.5, 0.0),
        "primal rate": (0.2, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
        "offset": (1.0, 10.0, 50.0, 100.0, 1000.0),
    },
    "kernel-mdp": {
        "primal bandwidth": (1.0, 2.0, 3.0),
        "dual bandwidth": (0.5, 1.0, 2.0, 3.0, 5.0),
        "power": (1.0, 0.5, 0.0),
        "primal rate": (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0),
        "offset": (1.0, 10.0, 100.0),
    },
    "centred-sgd": {
        "primal bandwidth": (1.0, 2.0, 3.0),
        "dual bandwidth": (0.5, 1.0, 2.0, 3.0),
        "power": (0.5, 0.0),
        "primal rate": (30.0, 100.0, 300.0, 1000.0, 3000.0),
        "dual rate": (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0),
        "offset": (1.0, 10.0, 50.0, 200.0),
    },
    "preconditioned-sgd": {
        "primal bandwidth": (1.0, 2.0, 3.0),
        "dual bandwidth": (0.3, 0.5, 1.0, 2.0),
        "power": (0.5, 0.0),
        "primal rate": (0.5, 1.0, 2.0, 10.0, 30.0, 100.0),
        "dual rate": (0.5, 1.0, 2.0, 10.0, 30.0, 100.0),
        "offset": (10.0,),
    },
    "closed-form": {
        "primal bandwidth": (1.0, 2.0, 3.0, 5.0),
        "dual bandwidth": (0.5, 1.0, 2.0, 3.0),
        "primal penalty": (1e-10, 1e-9, 1e-8, 1e-6),
        "dual penalty": (1e-10, 1e-8, 1e-6, 1e-4),
    },
}
EXPERIMENT = Experiment(
    "cartpole",
    "Cart-pole swing-up",
    "MSBE",
    {**SETTINGS, **bellman.SETTINGS, "penalties": PENALTY},
    Evaluation(PROCESS, PENALTY).contenders(GRIDS),
    samples=40_000,
    quick_samples=2_000,
)
