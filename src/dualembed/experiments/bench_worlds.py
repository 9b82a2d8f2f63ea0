"""Environments of the benchmark `answers`: gymnasium's dynamics for many episodes at once, in NumPy and float64."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, final

import numpy as np

Step = tuple[np.ndarray, np.ndarray, np.ndarray]


class World(ABC):
    """A decision process whose states are rows of an array, and what an agent sees of them.

    `actions` is the number of actions, 0 where an action is a real number. Episodes are cut after `limit` steps.
    """

    name: ClassVar[str]
    limit: ClassVar[int]
    actions: ClassVar[int]

    @abstractmethod
    def reset(self, rng: np.random.Generator, episodes: int) -> np.ndarray:
        """The states (episodes, d) that so many episodes start in."""

    @abstractmethod
    def step(self, rng: np.random.Generator, states: np.ndarray, actions: np.ndarray) -> Step:
        """(next states, rewards, whether nothing follows) of an action in each state."""

    def observe(self, states: np.ndarray) -> np.ndarray:
        """What an agent sees of the states: by default all."""
        return states


@final
class CartPole(World):
    """CartPole-v1: position, speed, angle and its speed; actions push to the left and to the right."""

    name = "cartpole"
    limit = 500
    actions = 2

    def reset(self, rng: np.random.Generator, episodes: int) -> np.ndarray:
        return rng.uniform(-0.05, 0.05, (episodes, 4))

    def step(self, rng: np.random.Generator, states: np.ndarray, actions: np.ndarray) -> Step:
        following = _pushed(states, np.where(actions == 1, 10.0, -10.0))
        return following, np.ones(len(states)), _fallen(following)


@final
class NoisyCartPole(World):
    """CartPole where every fourth action is a coin's, speeds are disturbed and rewards noisy."""

    name = "noisy cartpole"
    limit = 500
    actions = 2

    def reset(self, rng: np.random.Generator, episodes: int) -> np.ndarray:
        return rng.uniform(-0.05, 0.05, (episodes, 4))

    def step(self, rng: np.random.Generator, states: np.ndarray, actions: np.ndarray) -> Step:
        count = len(states)
        taken = np.where(rng.random(count) < 0.25, rng.integers(2, size=count), actions)
        following = _pushed(states, np.where(taken == 1, 10.0, -10.0))
        following[:, [1, 3]] += 0.05 * rng.standard_normal((count, 2))
        return following, 1 + 0.5 * rng.standard_normal(count), _fallen(following)


@final
class Acrobot(World):
    """Acrobot-v1: two angles and their speeds, seen as cosines, sines and speeds; actions are torques -1, 0 and 1."""

    name = "acrobot"
    limit = 500
    actions = 3
    _seconds = 0.2

    def reset(self, rng: np.random.Generator, episodes: int) -> np.ndarray:
        return rng.uniform(-0.1, 0.1, (episodes, 4))

    def observe(self, states: np.ndarray) -> np.ndarray:
        first, second, speed, other = states.T
        return np.stack([np.cos(first), np.sin(first), np.cos(second), np.sin(second), speed, other], axis=1)

    def step(self, rng: np.random.Generator, states: np.ndarray, actions: np.ndarray) -> Step:
        torque, h = actions - 1.0, self._seconds
        # One step of Runge-Kutta, of fourth order.
        slope1 = self._slope(states, torque)
        slope2 = self._slope(states + h / 2 * slope1, torque)
        slope3 = self._slope(states + h / 2 * slope2, torque)
        slope4 = self._slope(states + h * slope3, torque)
        following = states + h / 6 * (slope1 + 2 * slope2 + 2 * slope3 + slope4)
        following[:, :2] = _wrapped(following[:, :2])
        following[:, 2:] = np.clip(following[:, 2:], [-4 * np.pi, -9 * np.pi], [4 * np.pi, 9 * np.pi])
        above = -np.cos(following[:, 0]) - np.cos(following[:, 0] + following[:, 1]) > 1
        return following, np.where(above, 0.0, -1.0), above

    @staticmethod
    def _slope(states: np.ndarray, torque: np.ndarray) -> np.ndarray:
        """d state / dt of links of length, mass and moment of inertia 1, whose mass is in the middle."""
        first, second, speed, other = states.T
        cosine, sine = np.cos(second), np.sin(second)
        d1 = 3.5 + cosine
        d2 = 1.25 + 0.5 * cosine
        phi2 = 4.9 * np.cos(first + second - np.pi / 2)
        phi1 = -0.5 * other**2 * sine - other * speed * sine + 14.7 * np.cos(first - np.pi / 2) + phi2
        second_force = (torque + d2 / d1 * phi1 - 0.5 * speed**2 * sine - phi2) / (1.25 - d2**2 / d1)
        first_force = -(d2 * second_force + phi1) / d1
        return np.stack([speed, other, first_force, second_force], axis=1)


@final
class Pendulum(World):
    """Pendulum-v1: an angle and its speed, seen as cosine, sine and speed; an action is a torque. It never ends."""

    name = "pendulum"
    limit = 200
    actions = 0

    def reset(self, rng: np.random.Generator, episodes: int) -> np.ndarray:
        return rng.uniform([-np.pi, -1.0], [np.pi, 1.0], (episodes, 2))

    def observe(self, states: np.ndarray) -> np.ndarray:
        return np.stack([np.cos(states[:, 0]), np.sin(states[:, 0]), states[:, 1]], axis=1)

    def step(self, rng: np.random.Generator, states: np.ndarray, actions: np.ndarray) -> Step:
        angle, speed = states.T
        torque = np.clip(actions, -2, 2)
        cost = _wrapped(angle) ** 2 + 0.1 * speed**2 + 0.001 * torque**2
        speed = np.clip(speed + 0.05 * (15 * np.sin(angle) + 3 * torque), -8, 8)
        return np.stack([angle + 0.05 * speed, speed], axis=1), -cost, np.zeros(len(states), dtype=bool)


@final
class MountainCar(World):
    """MountainCar-v0: position and speed; actions push to the left, not at all and to the right."""

    name = "mountaincar"
    limit = 200
    actions = 3

    def reset(self, rng: np.random.Generator, episodes: int) -> np.ndarray:
        return _in_the_valley(rng, episodes)

    def step(self, rng: np.random.Generator, states: np.ndarray, actions: np.ndarray) -> Step:
        following = _driven(states, 0.001 * (actions - 1.0))
        return following, -np.ones(len(states)), _arrived(following, 0.5)


@final
class MountainCarContinuous(World):
    """MountainCarContinuous-v0: position and speed; an action is a force, whose square costs."""

    name = "mountaincarcontinuous"
    limit = 999
    actions = 0

    def reset(self, rng: np.random.Generator, episodes: int) -> np.ndarray:
        return _in_the_valley(rng, episodes)

    def step(self, rng: np.random.Generator, states: np.ndarray, actions: np.ndarray) -> Step:
        following = _driven(states, 0.0015 * np.clip(actions, -1, 1))
        arrived = _arrived(following, 0.45)
        return following, np.where(arrived, 100.0, 0.0) - 0.1 * actions**2, arrived


@final
class Chain(World):
    """A place between 0 and 1; actions go to the left and to the right, noisily, and rewards are noisy and near 0.7."""

    name = "chain"
    limit = 40
    actions = 2

    def reset(self, rng: np.random.Generator, episodes: int) -> np.ndarray:
        return rng.uniform(0, 0.3, (episodes, 1))

    def step(self, rng: np.random.Generator, states: np.ndarray, actions: np.ndarray) -> Step:
        rewards = np.exp(-((states[:, 0] - 0.7) ** 2) / 0.02) + 0.3 * rng.standard_normal(len(states))
        moves = 0.1 * (2.0 * actions[:, None] - 1) + 0.1 * rng.standard_normal(states.shape)
        return np.clip(states + moves, 0, 1), rewards, np.zeros(len(states), dtype=bool)


def _pushed(states: np.ndarray, force: np.ndarray) -> np.ndarray:
    """The cart 0.02 s after a push, by Euler's method."""
    _, speed, angle, turning = states.T
    cosine, sine = np.cos(angle), np.sin(angle)
    pull = (force + 0.05 * turning**2 * sine) / 1.1
    angular = (9.8 * sine - cosine * pull) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    return states + 0.02 * np.stack([speed, pull - 0.05 * angular * cosine / 1.1, turning, angular], axis=1)


def _fallen(states: np.ndarray) -> np.ndarray:
    return (np.abs(states[:, 0]) > 2.4) | (np.abs(states[:, 2]) > 12 * 2 * np.pi / 360)


def _in_the_valley(rng: np.random.Generator, episodes: int) -> np.ndarray:
    return np.stack([rng.uniform(-0.6, -0.4, episodes), np.zeros(episodes)], axis=1)


def _driven(states: np.ndarray, force: np.ndarray) -> np.ndarray:
    """The car a step later; the wall on the left stops it."""
    position, speed = states.T
    speed = np.clip(speed + force - 0.0025 * np.cos(3 * position), -0.07, 0.07)
    position = np.clip(position + speed, -1.2, 0.6)
    return np.stack([position, np.where((position <= -1.2) & (speed < 0), 0.0, speed)], axis=1)


def _arrived(states: np.ndarray, goal: float) -> np.ndarray:
    return (states[:, 0] >= goal) & (states[:, 1] >= 0)


def _wrapped(angles: np.ndarray) -> np.ndarray:
    return (angles + np.pi) % (2 * np.pi) - np.pi
