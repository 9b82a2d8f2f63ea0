"""Environments of the benchmark `answers`, policies in them, logs that these leave behind, and what they are worth.

The environments are as gymnasium has them, for many episodes at a time.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
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
        following = _push(states, np.where(actions == 1, 10.0, -10.0))
        return following, np.ones(len(states)), _has_fallen(following)


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
        following = _push(states, np.where(taken == 1, 10.0, -10.0))
        following[:, [1, 3]] += 0.05 * rng.standard_normal((count, 2))
        return following, 1 + 0.5 * rng.standard_normal(count), _has_fallen(following)


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
        following[:, :2] = _wrap(following[:, :2])
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
        cost = _wrap(angle) ** 2 + 0.1 * speed**2 + 0.001 * torque**2
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
        following = _drive(states, 0.001 * (actions - 1.0))
        return following, -np.ones(len(states)), _has_arrived(following, 0.5)


@final
class MountainCarContinuous(World):
    """MountainCarContinuous-v0: position and speed; an action is a force, whose square costs."""

    name = "mountaincarcontinuous"
    limit = 999
    actions = 0

    def reset(self, rng: np.random.Generator, episodes: int) -> np.ndarray:
        return _in_the_valley(rng, episodes)

    def step(self, rng: np.random.Generator, states: np.ndarray, actions: np.ndarray) -> Step:
        following = _drive(states, 0.0015 * np.clip(actions, -1, 1))
        arrived = _has_arrived(following, 0.45)
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


def _push(states: np.ndarray, force: np.ndarray) -> np.ndarray:
    """The cart 0.02 s after a push, by Euler's method."""
    _, speed, angle, turning = states.T
    cosine, sine = np.cos(angle), np.sin(angle)
    pull = (force + 0.05 * turning**2 * sine) / 1.1
    angular = (9.8 * sine - cosine * pull) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    return states + 0.02 * np.stack([speed, pull - 0.05 * angular * cosine / 1.1, turning, angular], axis=1)


def _has_fallen(states: np.ndarray) -> np.ndarray:
    return (np.abs(states[:, 0]) > 2.4) | (np.abs(states[:, 2]) > 12 * 2 * np.pi / 360)


def _in_the_valley(rng: np.random.Generator, episodes: int) -> np.ndarray:
    return np.stack([rng.uniform(-0.6, -0.4, episodes), np.zeros(episodes)], axis=1)


def _drive(states: np.ndarray, force: np.ndarray) -> np.ndarray:
    """The car a step later; the wall on the left stops it."""
    position, speed = states.T
    speed = np.clip(speed + force - 0.0025 * np.cos(3 * position), -0.07, 0.07)
    position = np.clip(position + speed, -1.2, 0.6)
    return np.stack([position, np.where((position <= -1.2) & (speed < 0), 0.0, speed)], axis=1)


def _has_arrived(states: np.ndarray, goal: float) -> np.ndarray:
    return (states[:, 0] >= goal) & (states[:, 1] >= 0)


def _wrap(angles: np.ndarray) -> np.ndarray:
    return (angles + np.pi) % (2 * np.pi) - np.pi


WORLDS: dict[str, World] = {
    world.name: world
    for world in (
        CartPole(),
        NoisyCartPole(),
        Acrobot(),
        Pendulum(),
        MountainCar(),
        MountainCarContinuous(),
        Chain(),
    )
}
Rule = Callable[[np.ndarray], np.ndarray]


@final
@dataclass(frozen=True)
class Choice:
    """A policy with a few actions: from observations to probabilities (n, A)."""

    probabilities: Rule

    def draw(self, rng: np.random.Generator, observations: np.ndarray) -> np.ndarray:
        """An action for each observation, (n,)."""
        bounds = np.cumsum(self.probabilities(observations), axis=1)[:, :-1]
        return np.sum(rng.random((len(observations), 1)) > bounds, axis=1)

    def likelihood(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """π(a|s), (n,)."""
        return self.probabilities(observations)[np.arange(len(actions)), actions]


@final
@dataclass(frozen=True)
class Gaussian:
    """A policy whose action is a real number: from observations to its mean, and its deviation."""

    mean: Rule
    deviation: float

    def draw(self, rng: np.random.Generator, observations: np.ndarray) -> np.ndarray:
        """An action for each observation, (n,)."""
        return self.mean(observations) + self.deviation * rng.standard_normal(len(observations))

    def likelihood(self, observations: np.ndarray, actions: np.ndarray) -> np.ndarray:
        """The density π(a|s), (n,)."""
        away = (actions - self.mean(observations)) / self.deviation
        return np.exp(-(away**2) / 2) / (np.sqrt(2 * np.pi) * self.deviation)


Policy = Choice | Gaussian


def _sigmoid(level: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(level, -50, 50)))


def _right(probability: Rule) -> Choice:
    """Of two actions the second with that probability."""

    def both(observations: np.ndarray) -> np.ndarray:
        right = probability(observations)
        return np.stack([1 - right, right], axis=1)

    return Choice(both)


def _softmax_of(level: Rule) -> Choice:
    """Of three actions with the preferences -level, 0 and level."""

    def three(observations: np.ndarray) -> np.ndarray:
        strength = level(observations)
        preferences = np.stack([-strength, np.zeros_like(strength), strength], axis=1)
        weights = np.exp(preferences - preferences.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    return Choice(three)


def _swing_up(factor: float, deviation: float) -> Gaussian:
    """Swing the pendulum up by adding energy, and hold it there."""

    def torque(observations: np.ndarray) -> np.ndarray:
        cosine, sine, speed = observations.T
        energy = speed**2 / 6 + 5 * (cosine - 1)
        up = np.clip(-energy * np.sign(speed + 1e-9), -2, 2)
        return factor * np.where(cosine > 0.8, -8 * np.arctan2(sine, cosine) - 2 * speed, up)

    return Gaussian(torque, deviation)


def _push_along(factor: float, deviation: float) -> Gaussian:
    """Push the car to where it goes."""
    return Gaussian(lambda seen: factor * np.tanh(100 * seen[:, 1]), deviation)


_CART: dict[str, Policy] = {
    "clumsy": _right(lambda seen: 0.35 + 0.3 * _sigmoid(8 * seen[:, 2] + 4 * seen[:, 3])),
    "better": _right(lambda seen: 0.2 + 0.6 * _sigmoid(3 * seen[:, 2] + 2 * seen[:, 3])),
    "mild": _right(lambda seen: 0.15 + 0.7 * _sigmoid(8 * seen[:, 2] + 4 * seen[:, 3])),
    "soft": _right(lambda seen: _sigmoid(20 * seen[:, 2] + 2 * seen[:, 3])),
    "sharp": _right(lambda seen: 1.0 * (seen[:, 2] > 0)),  # a switch: values jump where the pole is upright
}
POLICIES: dict[str, dict[str, Policy]] = {
    "cartpole": _CART,
    "noisy cartpole": _CART,
    "acrobot": {
        "logged": _softmax_of(lambda seen: -0.7 * seen[:, 4]),
        "mild": _softmax_of(lambda seen: -1.0 * seen[:, 4]),
        "soft": _softmax_of(lambda seen: -2.0 * seen[:, 4]),
        "sharp": _softmax_of(lambda seen: -8.0 * seen[:, 4]),
    },
    "pendulum": {
        "logged": _swing_up(1.0, 0.6),
        "mild": _swing_up(0.8, 0.5),
        "soft": _swing_up(0.9, 0.3),
        "sharp": _swing_up(0.9, 0.1),
    },
    "mountaincar": {
        "logged": _softmax_of(lambda seen: 100.0 * seen[:, 1]),
        "mild": _softmax_of(lambda seen: 150.0 * seen[:, 1]),
        "soft": _softmax_of(lambda seen: 300.0 * seen[:, 1]),
        "sharp": _softmax_of(lambda seen: 3000.0 * seen[:, 1]),
    },
    "mountaincarcontinuous": {
        "logged": _push_along(0.8, 0.4),
        "mild": _push_along(0.65, 0.4),
        "soft": _push_along(1.0, 0.3),
        "sharp": _push_along(0.8, 0.1),
    },
    "chain": {
        "logged": _right(lambda seen: np.full(len(seen), 0.5)),
        "mild": _right(lambda seen: np.where(seen[:, 0] < 0.7, 0.7, 0.3)),
        "soft": _right(lambda seen: np.full(len(seen), 0.1)),
        "sharp": _right(lambda seen: np.where(seen[:, 0] < 0.7, 0.95, 0.05)),
    },
}
"""The policies of each world by name; a log is of "logged", or for cart-poles of "clumsy" or "better"."""


@final
@dataclass(frozen=True)
class Log:
    """Transitions in the order of time, episode after episode; the last episode may have been cut.

    An episode is over where `terminated`; elsewhere a time limit or the end of the log cut it. `whole` are the labels
    of episodes that the end of the log did not cut.
    """

    seed: int
    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    next_states: np.ndarray
    terminated: np.ndarray
    episodes: np.ndarray
    steps: np.ndarray
    whole: np.ndarray


def play_log(world: World, policy: Policy, *, rows: int, seed: int) -> Log:
    """The first `rows` transitions of episodes that the policy plays one after the other."""
    rng = np.random.default_rng((seed, 0))
    played = [_play_episodes(world, policy, rng)]
    while sum(len(each["reward"]) for each in played) < rows:
        played.append(_play_episodes(world, policy, rng, first=_BATCH * len(played)))
    every = {name: np.concatenate([each[name] for each in played]) for name in played[0]}
    table = {name: column[:rows] for name, column in every.items()}
    labels, lengths = np.unique(table["episode"], return_counts=True)
    whole = labels[lengths == np.unique(every["episode"], return_counts=True)[1][: len(labels)]]
    return Log(
        seed=seed,
        states=table["state"],
        actions=table["action"],
        rewards=table["reward"],
        next_states=table["next_state"],
        terminated=table["terminated"],
        episodes=table["episode"],
        steps=table["step"],
        whole=whole if len(whole) else labels,
    )


_BATCH = 16  # episodes that are played at once


def _play_episodes(world: World, policy: Policy, rng: np.random.Generator, first: int = 0) -> dict[str, np.ndarray]:
    """Episodes up to their ends or the world's limit, one after the other, labelled from `first` on."""
    states, playing, parts = world.reset(rng, _BATCH), np.arange(_BATCH), []
    for step in range(world.limit):
        if not len(playing):
            break
        seen = world.observe(states)
        actions = policy.draw(rng, seen)
        states, rewards, over = world.step(rng, states, actions)
        part = {"episode": first + playing, "step": np.full(len(playing), step), "state": seen, "action": actions}
        parts.append(part | {"reward": rewards, "next_state": world.observe(states), "terminated": over})
        states, playing = states[~over], playing[~over]
    table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(table["episode"], kind="stable")
    return {name: column[order] for name, column in table.items()}


EPISODES = {"pendulum": 20_000, "chain": 40_000}  # of a truth, where episodes never end; 100,000 elsewhere
_LEFT = 1e-4  # of the discount where play ends


@cache
def true_values(world: str, policy: str, discounts: Sequence[float]) -> dict[float, tuple[float, float]]:
    """The policy's value without a time limit for each discount, and its standard error, by playing many episodes.

    Values are kept in the user's cache folder, under the code that they depend on.
    """
    episodes = EPISODES.get(world, 100_000)
    asked = json.dumps([world, policy, list(discounts), episodes])
    code = Path(__file__).read_bytes()
    kept = _folder() / f"{hashlib.sha256(code + asked.encode()).hexdigest()[:24]}.json"
    try:
        values = json.loads(kept.read_text())
    except (OSError, ValueError):
        values = _values(WORLDS[world], POLICIES[world][policy], discounts, episodes)
        from dualembed.files import write_atomically

        write_atomically(kept, json.dumps(values))
    return {discount: (value, error) for discount, (value, error) in zip(discounts, values, strict=True)}


def _folder() -> Path:
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("dualembed")) / "truths"


def _values(world: World, policy: Policy, discounts: Sequence[float], episodes: int) -> list[tuple[float, float]]:
    """(mean, its standard error) of discounted returns, for each discount."""
    rng = np.random.default_rng((2**20, 1))  # no log's
    rates = np.asarray(discounts)
    returns, worth = np.zeros((len(rates), episodes)), np.ones(len(rates))
    states, playing = world.reset(rng, episodes), np.arange(episodes)
    while len(playing) and worth.max() > _LEFT:
        states, rewards, over = world.step(rng, states, policy.draw(rng, world.observe(states)))
        returns[:, playing] += worth[:, None] * rewards
        states, playing, worth = states[~over], playing[~over], worth * rates
    errors = returns.std(axis=1, ddof=1) / np.sqrt(episodes)
    return [(float(value), float(error)) for value, error in zip(returns.mean(axis=1), errors, strict=True)]
