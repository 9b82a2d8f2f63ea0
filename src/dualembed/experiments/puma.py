"""PUMA 560: the discounted cost of a linear policy that brings a six-joint robot arm to rest in a given posture.

A state is (6 joint angles, 6 joint velocities), in rad and rad/s; the motors give 6 torques at the joints, in N m. The
arm's parameters are those of Corke & Armstrong-Helouvry, "A search for consensus among model parameters reported for
the PUMA 560 robot", ICRA 1994, as in roboticstoolbox 1.5.0 (MIT licence). Friction is viscous only, because Coulomb's
jumps with the sign of the velocity, and joints have no stops. Policy, process noise and the distribution of states are
this project's choice: see SETTINGS.

The equations of motion M(q) q'' + h(q, q') = torques - friction are Newton's and Euler's, with the velocities, momenta
and forces of all links taken about the base's origin and in its axes: 6-vectors (angular, linear) that may simply
be added along the arm (Featherstone, Rigid Body Dynamics Algorithms, 2008).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_factor, cho_solve

from dualembed.experiments import bellman
from dualembed.experiments.bellman import Evaluation, Process
from dualembed.experiments.experiment import Experiment

# Constants are plain numbers and no NumPy arrays: of those JAX remembers the precision in which it met them first.
JOINTS = 6
QUARTER = np.pi / 2
# Denavit and Hartenberg's standard convention: turn by q about z, move d along z, move a along x, turn α about x.
LINK_OFFSETS = (0.67183, 0.0, 0.15005, 0.4318, 0.0, 0.0)  # d, m
LINK_LENGTHS = (0.0, 0.4318, 0.0203, 0.0, 0.0, 0.0)  # a, m
LINK_TWISTS = (QUARTER, 0.0, -QUARTER, QUARTER, -QUARTER, 0.0)  # α
# Of each link, in its own frame at its far end. Link 1 has no mass, because none is felt, and link 3 has an inertia
# that no rigid body has (0.066 + 0.0125 < 0.086): both as published.
MASSES = (0.0, 17.4, 4.8, 0.82, 0.34, 0.09)  # kg
CENTRES = (  # centres of mass, m
    (0.0, 0.0, 0.0),
    (-0.3638, 0.006, 0.2275),
    (-0.0203, -0.0141, 0.07),
    (0.0, 0.019, 0.0),
    (0.0, 0.0, 0.0),
    (0.0, 0.0, 0.032),
)
INERTIAS = (  # about the centre of mass and its principal axes, which are the frame's, kg m²
    (0.0, 0.35, 0.0),
    (0.13, 0.524, 0.539),
    (0.066, 0.086, 0.0125),
    (1.8e-3, 1.3e-3, 1.8e-3),
    (3e-4, 4e-4, 3e-4),
    (1.5e-4, 1.5e-4, 4e-5),
)
GEAR_RATIOS = (-62.6111, 107.815, -53.7063, 76.0364, 71.923, 76.686)
MOTOR_INERTIAS = (2e-4, 2e-4, 2e-4, 3.3e-5, 3.3e-5, 3.3e-5)  # kg m², before the gears
MOTOR_FRICTIONS = (1.48e-3, 8.17e-4, 1.38e-3, 7.12e-5, 8.26e-5, 3.67e-5)  # N m s, before the gears
GRAVITY = 9.81
# Armstrong, Khatib & Burdick, "The explicit dynamic model and inertial parameters of the PUMA 560 arm", ICRA 1986.
LARGEST_TORQUES = (97.6, 186.4, 89.4, 24.2, 20.1, 21.3)

PERIOD = 0.1  # between two decisions; the torques are held in between
# Runge-Kutta steps of fourth order in a period: within 1.2e-4 of the exact solution where episodes start. At speeds of
# tens of rad/s, to which the largest torques drive the joints when held for seconds, they are too few.
SUBSTEPS = 2

DISCOUNT = 0.9
TARGET = (np.pi / 4,) * 4 + (-np.pi / 4,) * 2  # the angles at which nothing is paid
# A spring and a damper at every joint. Its slowest mode shrinks by 0.83 in a period and none oscillates; the spring of
# joint 2 is the stiffest because gravity takes 27 N m per rad off it.
STIFFNESS = (30.0, 80.0, 20.0, 2.0, 2.0, 2.0)  # N m per rad
DAMPING = (15.0, 25.0, 6.0, 0.8, 0.8, 1.0)  # N m s per rad, beside friction's
HOLDING_TORQUES = (0.0, 16.840817308879, -8.763925046468, -0.0141264, -0.0141264, 0.0)  # against gravity at the target
GAINS = np.hstack([-np.diag(STIFFNESS), -np.diag(DAMPING)]).tolist()
BIAS = (np.multiply(STIFFNESS, TARGET) + HOLDING_TORQUES).tolist()
NOISE = 0.05  # standard deviation of the process noise in every coordinate
START_ANGLE = 1.0  # the farthest from the target, either way
START_DEVIATION = 0.5  # of the velocities
EPISODE = 10  # periods

SETTINGS: dict[str, Any] = {
    "discount": DISCOUNT,
    "policy": "torques = A s + b, never cut",
    "A": GAINS,
    "b": BIAS,
    "process noise": "normal, deviation 0.05 in every coordinate, added after each period of 0.1 s",
    "start": "angles uniform within 1 of (π, π, π, π, -π, -π)/4, velocities N(0, 0.5²)",
    "state": "that of an episode after 0 to 9 periods, each number equally likely",
    "cost": "(|q - (π, π, π, π, -π, -π)/4|² + |q'|²) / 2",
    "test states": 1000,
    "bandwidths": "in units of the median distance between two states, once every coordinate has deviation 1",
}


class Bodies(NamedTuple):
    """What resists motion about the base's origin: masses (6,), first moments (6, 3) and inertias (6, 3, 3)."""

    mass: Any
    moment: Any
    inertia: Any

    def momentum(self, twists: jax.Array) -> jax.Array:
        """The 6-vectors (angular, linear) of momentum (6, 6) of bodies that move with such velocities (6, 6)."""
        turning, moving = jnp.split(twists, 2, axis=-1)
        angular = jnp.einsum("ixy,iy->ix", self.inertia, turning) + jnp.cross(self.moment, moving)
        linear = self.mass[:, None] * moving - jnp.cross(self.moment, turning)
        return jnp.concatenate([angular, linear], axis=-1)


def orientations(angles: jax.Array) -> jax.Array:
    """The rotations (6, 3, 3) from the links' frames into the base's."""
    cosine, sine, zero = jnp.cos(angles), jnp.sin(angles), jnp.zeros_like(angles)
    along, across = jnp.cos(jnp.asarray(LINK_TWISTS)), jnp.sin(jnp.asarray(LINK_TWISTS))
    rows: list[list[Any]] = [
        [cosine, -sine * along, sine * across],
        [sine, cosine * along, -cosine * across],
        [zero, across, along],
    ]
    turns = jnp.stack([jnp.stack([jnp.broadcast_to(x, (JOINTS,)) for x in row], -1) for row in rows], -2)
    products = [turns[0]]
    for turn in turns[1:]:
        products.append(products[-1] @ turn)
    return jnp.stack(products)


def arm(angles: jax.Array) -> tuple[jax.Array, Bodies]:
    """(the velocity of the links beyond each joint when it turns at 1 rad/s (6, 6), the links) in this posture."""
    rotations = orientations(angles)
    twists, offsets = jnp.asarray(LINK_TWISTS), jnp.asarray(LINK_OFFSETS)
    steps = jnp.stack([jnp.asarray(LINK_LENGTHS), offsets * jnp.sin(twists), offsets * jnp.cos(twists)], axis=-1)
    strides = jnp.einsum("ixy,iy->ix", rotations, steps)
    ends = outward_sum(strides)
    # A link turns about the z-axis of the frame before its own.
    axes = jnp.concatenate([jnp.asarray([[0.0, 0.0, 1.0]]), rotations[:-1, :, 2]])
    screws = jnp.concatenate([axes, jnp.cross(ends - strides, axes)], axis=-1)
    centres = ends + jnp.einsum("ixy,iy->ix", rotations, jnp.asarray(CENTRES))
    masses = jnp.asarray(MASSES)
    moments = masses[:, None] * centres
    own = jnp.einsum("ixy,iy,izy->ixz", rotations, jnp.asarray(INERTIAS), rotations)
    square = jnp.sum(moments * centres, axis=-1)[:, None, None] * jnp.eye(3)
    return screws, Bodies(masses, moments, own + square - moments[:, :, None] * centres[:, None, :])


def mass_matrix(angles: jax.Array) -> jax.Array:
    """M(q), shape (6, 6), with the motors' inertia G² J as felt behind the gears.

    Joint j moves all links beyond it as one body, so that M_ij is the momentum of this body in the screw of i ≤ j.
    """
    screws, links = arm(angles)
    beyond = Bodies(*(inward_sum(each) for each in links))
    lower = jnp.tril(beyond.momentum(screws) @ screws.T)
    return lower + jnp.tril(lower, -1).T + jnp.diag(behind_gears(MOTOR_INERTIAS))


def bias_torques(angles: jax.Array, velocities: jax.Array) -> jax.Array:
    """h(q, q'), shape (6,): the torques under which the joints keep their velocities, were there no friction."""
    screws, links = arm(angles)
    turns = screws * velocities[:, None]
    twists = outward_sum(turns)
    # Weight is what a base accelerating upwards would make felt.
    accelerations = outward_sum(motion_cross(twists, turns)) + jnp.asarray([0, 0, 0, 0, 0, GRAVITY])
    forces = links.momentum(accelerations) + force_cross(twists, links.momentum(twists))
    return jnp.sum(screws * inward_sum(forces), axis=-1)


def behind_gears(constants: tuple[float, ...]) -> jax.Array:
    """G² times the motors' constants, shape (6,): what is felt of them at the joints."""
    return jnp.asarray(GEAR_RATIOS) ** 2 * jnp.asarray(constants)


def outward_sum(rows: jax.Array) -> jax.Array:
    """Row i is the sum of the rows up to i, from the base to the hand."""
    return jnp.tensordot(jnp.tri(JOINTS), rows, axes=1)  # a small product: several times faster than cumsum here


def inward_sum(rows: jax.Array) -> jax.Array:
    """Row i is the sum of the rows from i on, from the hand to the base."""
    return jnp.tensordot(jnp.tri(JOINTS).T, rows, axes=1)


def motion_cross(twists: jax.Array, others: jax.Array) -> jax.Array:
    """How fast velocities (n, 6) change that are carried along with the twists (n, 6)."""
    (turning, moving), (angular, linear) = jnp.split(twists, 2, axis=-1), jnp.split(others, 2, axis=-1)
    return jnp.concatenate([jnp.cross(turning, angular), jnp.cross(turning, linear) + jnp.cross(moving, angular)], -1)


def force_cross(twists: jax.Array, others: jax.Array) -> jax.Array:
    """How fast momenta (n, 6) change that are carried along with the twists (n, 6)."""
    (turning, moving), (angular, linear) = jnp.split(twists, 2, axis=-1), jnp.split(others, 2, axis=-1)
    return jnp.concatenate([jnp.cross(turning, angular) + jnp.cross(moving, linear), jnp.cross(turning, linear)], -1)


def derivative(state: jax.Array, torques: jax.Array) -> jax.Array:
    """ds/dt (12,) at a state (12,) under torques (6,)."""
    angles, velocities = jnp.split(state, 2)
    friction = behind_gears(MOTOR_FRICTIONS) * velocities
    excess = torques - bias_torques(angles, velocities) - friction
    return jnp.concatenate([velocities, cho_solve(cho_factor(mass_matrix(angles)), excess)])


def advance(state: jax.Array, torques: jax.Array) -> jax.Array:
    """The state (12,) one period later under constant torques, without noise."""
    step = PERIOD / SUBSTEPS

    # The four slopes of Runge and Kutta in a loop: the equations of motion are compiled once and not four times.
    def runge_kutta(_: int, now: jax.Array) -> jax.Array:
        def stage(carry: tuple[jax.Array, jax.Array], shares: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
            slope, total = carry
            slope = derivative(now + step * shares[0] * slope, torques)
            return (slope, total + step * shares[1] * slope), None

        shares = jnp.asarray([[0.0, 1 / 6], [1 / 2, 1 / 3], [1 / 2, 1 / 3], [1.0, 1 / 6]], dtype=now.dtype)
        return jax.lax.scan(stage, (jnp.zeros_like(now), now), shares)[0][1]

    return jax.lax.fori_loop(0, SUBSTEPS, runge_kutta, state)


def policy(state: jax.Array) -> jax.Array:
    """The torques A s + b, shape (6,): a spring and a damper at every joint, and what holds the arm at the target."""
    return jnp.asarray(GAINS) @ state + jnp.asarray(BIAS)


def next_mean(state: jax.Array) -> jax.Array:
    """E[s' | s], shape (12,): one period under the policy."""
    return advance(state, policy(state))


def cost(states: jax.Array) -> jax.Array:
    """R(s) = (Σ_{i≤4} (s_i - π/4)² + Σ_{i=5,6} (s_i + π/4)² + Σ_{i≥7} s_i²) / 2, shape (...,) for states (..., 12)."""
    return 0.5 * jnp.sum((states - jnp.asarray(TARGET + (0.0,) * JOINTS)) ** 2, axis=-1)


def draw_start(key: jax.Array) -> jax.Array:
    """The state (12,) an episode starts in."""
    angle_key, velocity_key = jax.random.split(key)
    away = jax.random.uniform(angle_key, (JOINTS,), minval=-START_ANGLE, maxval=START_ANGLE)
    return jnp.append(jnp.asarray(TARGET) + away, START_DEVIATION * jax.random.normal(velocity_key, (JOINTS,)))


def draw_state(key: jax.Array) -> jax.Array:
    """One state (12,) of the distribution that is learnt on: of an episode, at a random moment."""
    start_key, age_key, noise_key = jax.random.split(key, 3)
    age = jax.random.randint(age_key, (), 0, EPISODE)
    noise = NOISE * jax.random.normal(noise_key, (EPISODE - 1, 2 * JOINTS))

    # Every episode runs to its end, so that a batch of them is one loop; later states are left aside.
    def follow(period: int, state: jax.Array) -> jax.Array:
        return jnp.where(period < age, next_mean(state) + noise[period], state)

    return jax.lax.fori_loop(0, EPISODE - 1, follow, draw_start(start_key))


PROCESS = Process(draw_state, next_mean, cost, deviation=NOISE, discount=DISCOUNT)
PENALTY = 1e-9
GRIDS: dict[str, dict[str, Any]] = {
    "embedding-sgd": {
        "primal bandwidth": (0.7, 1.0, 1.5, 2.0, 3.0),
        "dual bandwidth": (0.3, 0.5, 1.0, 2.0),
        "power": (0.5, 0.0),
        "primal rate": (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
        "dual rate": (0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
        "offset": (1.0, 10.0, 100.0),
    },
    "gtd2": {
        "primal bandwidth": (0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0),
        "power": (0.5, 0.0),
        "primal rate": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0),
        "dual rate": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
        "offset": (1.0, 10.0, 100.0),
    },
    "residual-gradient": {
        "primal bandwidth": (0.5, 0.7, 1.0, 2.0, 3.0, 5.0),
        "power": (1.0, 0.5, 0.0),
        "primal rate": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0),
        "offset": (1.0, 10.0, 100.0, 500.0),
    },
    "kernel-mdp": {
        "primal bandwidth": (1.0, 2.0, 3.0),
        "dual bandwidth": (1.0, 2.0, 5.0),
        "power": (1.0, 0.5, 0.0),
        "primal rate": (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0, 30000.0),
        "offset": (1.0, 10.0, 100.0),
    },
    "centred-sgd": {
        "primal bandwidth": (1.0, 2.0, 3.0, 5.0, 10.0),
        "dual bandwidth": (1.0, 2.0, 5.0, 10.0),
        "power": (0.5, 0.0),
        "primal rate": (1.0, 3.0, 10.0, 30.0, 100.0, 300.0),
        "dual rate": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
        "offset": (1.0, 10.0, 100.0),
    },
    "preconditioned-sgd": {
        "primal bandwidth": (1.0, 2.0, 3.0, 5.0),
        "dual bandwidth": (0.5, 1.0, 2.0),
        "power": (0.5, 0.0),
        "primal rate": (0.3, 0.5, 1.0, 2.0, 10.0, 30.0, 100.0),
        "dual rate": (0.3, 0.5, 1.0, 2.0, 10.0, 30.0, 100.0),
        "offset": (10.0,),
    },
    "closed-form": {
        "primal bandwidth": (1.0, 2.0, 3.0, 5.0, 10.0),
        "dual bandwidth": (1.0, 2.0, 5.0),
        "primal penalty": (1e-10, 1e-9, 1e-8, 1e-7, 1e-6),
        "dual penalty": (1e-10, 1e-8, 1e-6, 1e-4),
    },
}
EXPERIMENT = Experiment(
    "puma",
    "PUMA-560 manipulation",
    "MSBE",
    {**SETTINGS, **bellman.SETTINGS, "penalties": PENALTY},
    Evaluation(PROCESS, PENALTY).contenders(GRIDS),
    samples=20_000,
    quick_samples=1_000,
)
