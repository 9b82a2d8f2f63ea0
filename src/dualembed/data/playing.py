"""Environments played side by side: copies of one, or gymnasium's vector environments, which begin episodes anew."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dualembed import checks
from dualembed.data.choosing import check_actions, first_number, is_discrete

UNREADABLE = "states must be vectors of numbers, not {}; wrap the environment to make them so"


class Move(NamedTuple):
    """What one action led to; `following` is the last state of the episode where it ended."""

    reward: float
    following: np.ndarray
    terminated: bool
    truncated: bool

    @property
    def over(self) -> bool:
        """Whether the episode has ended, by itself or by a limit."""
        return self.terminated or self.truncated


class Games(ABC):
    """Several games of one environment at the same time; `states` are those in which the next actions are taken."""

    states: list[np.ndarray]
    actions: Any
    observations: Any

    @abstractmethod
    def step(self, actions: np.ndarray) -> list[Move | None]:
        """The move of each game; none where the step was spent on beginning a new episode."""


class Copies(Games):
    """The environment and deep copies of it; fewer than asked for where it cannot be copied."""

    def __init__(self, env: Any, count: int, seed: int) -> None:
        self.environments = copies_of(env, count)
        self.actions, self.observations = env.action_space, getattr(env, "observation_space", None)
        self.states = [state_of(each.reset(seed=seed + 7919 * number)) for number, each in enumerate(self.environments)]

    def step(self, actions: np.ndarray) -> list[Move | None]:
        """The move of each copy; a copy whose episode ended is reset at once."""
        moves: list[Move | None] = []
        for number, (env, action) in enumerate(zip(self.environments, actions, strict=True)):
            move = step(env, action)
            self.states[number] = state_of(env.reset()) if move.over else move.following
            moves.append(move)
        return moves


class Vector(Games):
    """A gymnasium vector environment, in any of its ways of beginning episodes anew.

    NextStep spends the step after an end on the reset, SameStep shows the first state of the new episode at once and
    the last one of the old in info["final_obs"], and with Disabled the reset is ours.
    """

    def __init__(self, env: Any, seed: int) -> None:
        self.env = env
        self.actions, self.observations = env.single_action_space, getattr(env, "single_observation_space", None)
        check_actions(self.actions)
        mode = env.metadata.get("autoreset_mode", "NextStep")  # the only way before the mark came into being
        self.mode = str(getattr(mode, "value", mode))
        self.resetting = np.zeros(env.num_envs, dtype=bool)
        self.states = self._states(env.reset(seed=seed)[0])

    def step(self, actions: np.ndarray) -> list[Move | None]:
        """The move of each sub-environment, none where it was reset instead."""
        own = actions + first_number(self.actions) if is_discrete(self.actions) else actions
        seen, rewards, terminated, truncated, info = self.env.step(own)
        self.states = self._states(seen)
        over = np.asarray(terminated, dtype=bool) | np.asarray(truncated, dtype=bool)
        moves: list[Move | None] = []
        for number, state in enumerate(self.states):
            if self.resetting[number]:
                moves.append(None)
                continue
            last = self._final(info, number) if over[number] and self.mode == "SameStep" else state
            moves.append(Move(float(rewards[number]), last, bool(terminated[number]), bool(truncated[number])))
        if self.mode == "Disabled" and over.any():
            self.states = self._states(self.env.reset(options={"reset_mask": over})[0])
        self.resetting = over if self.mode == "NextStep" else np.zeros_like(over)
        return moves

    def _states(self, seen: Any) -> list[np.ndarray]:
        if isinstance(seen, (Mapping, tuple)):  # composite spaces, whose parts are batched one by one
            raise checks.InputError(UNREADABLE.format(type(seen).__name__))
        return [state_of((state, None)) for state in np.asarray(seen)]

    def _final(self, info: dict[str, Any], number: int) -> np.ndarray:
        if info.get("final_obs") is None or info["final_obs"][number] is None:
            raise checks.InputError(
                "a vector environment that resets in the same step must give the last state in info['final_obs'], "
                "but this one does not; use autoreset_mode NextStep"
            )
        return state_of((info["final_obs"][number], None))


def is_vector(env: Any) -> bool:
    """Whether this is a gymnasium vector environment, told by its attributes: gymnasium may not be there."""
    return hasattr(env, "num_envs") and hasattr(env, "single_action_space")


def copies_of(env: Any, count: int) -> list[Any]:
    """The environment and count - 1 others like it; itself alone where it cannot be made again."""
    checks.count("copies", count)
    check_actions(getattr(env, "action_space", None))
    try:
        return [env, *(copy.deepcopy(env) for _ in range(count - 1))]
    except Exception:  # an environment tied to a window or a process plays alone
        return [env]


def step(env: Any, action: Any) -> Move:
    """The move after the action, a vector or a number counted from 0."""
    if is_discrete(env.action_space):
        action = int(action) + first_number(env.action_space)
    following, reward, terminated, truncated, _ = env.step(action)
    return Move(float(reward), state_of((following, None)), bool(terminated), bool(truncated))


def state_of(seen: tuple[Any, Any]) -> np.ndarray:
    """The state in (observation, info), copied: some environments change theirs in place."""
    try:
        state = np.array(seen[0], dtype=float)
    except (TypeError, ValueError):
        raise checks.InputError(UNREADABLE.format(type(seen[0]).__name__)) from None
    return np.atleast_1d(state)
