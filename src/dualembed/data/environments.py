"""Transitions and returns from gymnasium environments, copies of one or vector environments played side by side."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dualembed import checks
from dualembed.data.policies import Policy, PolicyFunction, first_number, is_discrete
from dualembed.progress import track

Columns = dict[str, np.ndarray]
NAMES = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode", "probability")
UNREADABLE = "states must be vectors of numbers, not {}; wrap the environment to make them so"


def collect(
    env: Any, policy: PolicyFunction, transitions: int, *, seed: int = 0, copies: int = 1, hold: int = 1
) -> Columns:
    """Transitions of a policy in an environment, in the order of time, episode after episode.

    With copies of the environment played side by side the policy is asked for many actions at once; each copy's
    transitions lie together, and the last episode of each stops where its share is full. A vector environment is as
    many copies as it has environments.

    Parameters
    ----------
    env : gymnasium.Env or gymnasium.vector.VectorEnv
        The environment, with Discrete or Box actions and states that are vectors of numbers.
    policy : callable
        Function from states (n, d) to probabilities (n, A), to actions (n,) in the environment's own numbers, or to
        actions (n, a) of a Box; or from one state (d,) to one action, as `model.predict` of other libraries.
    transitions : int
        Number of transitions.
    seed : int, default=0
        Seed of the environment and of the actions.
    copies : int, default=1
        Copies of the environment that are played side by side.
    hold : int, default=1
        Steps that each action is held for: with more than one, a random policy wanders much farther. There is then no
        column probability, since the action depends on more than the state.

    Returns
    -------
    dict of arrays
        The columns state, action (numbered from 0, or a vector), reward, next_state, terminated (nothing follows),
        truncated (cut short by a limit: the bootstrap counts), episode, and, from a policy that gives probabilities,
        probability, that of the action taken.

    Examples
    --------
    >>> import gymnasium
    >>> columns = collect(gymnasium.make("CartPole-v1"), lambda state: int(state[2] > 0), 10)
    >>> columns["state"].shape, columns["action"].shape
    ((10, 4), (10,))
    """
    checks.count("transitions", transitions)
    checks.count("hold", hold)
    envs = _environments(env, min(copies, transitions), seed)
    played = Policy(policy, np.asarray(envs.states), actions=envs.actions, observations=envs.observations)
    rng = np.random.default_rng(seed)
    share = -(-transitions // len(envs.states))
    rows: list[list[tuple[Any, ...]]] = [[] for _ in envs.states]
    episodes = np.arange(len(envs.states))
    steps = done = 0
    with track(share, "Collecting transitions") as bar:
        while done < share:
            if steps % hold == 0:
                actions, chances = played.sample(rng, np.asarray(envs.states))
            _play(envs, actions, chances, rows, episodes)
            steps, done = steps + 1, min(map(len, rows))
            bar.advance(to=done)
    flat = [row for part in rows for row in part[:share]][:transitions]
    named = dict(zip(NAMES, zip(*flat, strict=True), strict=True))
    if hold > 1 or chances is None:
        del named["probability"]
    return {name: np.asarray(column, dtype=float) for name, column in named.items()}


def episode_returns(env: Any, policy: PolicyFunction, episodes: int, *, seed: int = 0) -> np.ndarray:
    """The undiscounted returns of a policy, each episode from its own reset, played side by side.

    Parameters
    ----------
    env : gymnasium.Env
        A single environment, of which copies are made.
    policy : callable
        Any function that `collect` takes.
    episodes : int
        Number of episodes.
    seed : int, default=0
        Seed of the environment and of the actions.

    Returns
    -------
    array of shape (episodes,)
        Returns.

    Examples
    --------
    >>> import gymnasium
    >>> episode_returns(gymnasium.make("CartPole-v1"), lambda state: 0, 3).shape
    (3,)
    """
    checks.count("episodes", episodes)
    if is_vector(env):
        raise checks.InputError("episode_returns needs a single environment, not a vector one; it makes its own copies")
    environments = copies_of(env, episodes)
    rng = np.random.default_rng(seed)
    returns = np.zeros(episodes)
    played: Policy | None = None
    for start in range(0, episodes, len(environments)):
        playing = dict(enumerate(environments[: episodes - start], start=start))
        states = {number: state_of(each.reset(seed=seed + number)) for number, each in playing.items()}
        if played is None:
            spaces = {"actions": env.action_space, "observations": getattr(env, "observation_space", None)}
            played = Policy(policy, np.asarray(list(states.values())), **spaces)
        while states:
            actions, _ = played.sample(rng, np.asarray(list(states.values())))
            for number, action in zip(list(states), actions, strict=True):
                outcome = step(playing[number], action)
                states[number] = outcome.following
                returns[number] += outcome.reward
                if outcome.over:
                    del states[number]
    return returns


class ActionRepeat:
    """An environment with a decision every few steps: the action is held, rewards are summed.

    Where one step moves the state little, all actions are worth almost the same and their order drowns in errors of
    approximation; longer decisions tell them apart.

    Parameters
    ----------
    env : gymnasium.Env
        The environment.
    steps : int
        Steps of a decision.
    """

    def __init__(self, env: Any, steps: int) -> None:
        checks.count("steps", steps)
        self.env, self.steps = env, steps
        self.action_space, self.observation_space = env.action_space, env.observation_space

    def reset(self, **options: Any) -> Any:
        """Reset the environment.

        Parameters
        ----------
        **options : object
            What the environment's own `reset` takes.

        Returns
        -------
        tuple
            What it returns.
        """
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one action for as many steps, fewer if the episode ends.

        Parameters
        ----------
        action : object
            The action.

        Returns
        -------
        state : array
            The state after the last step.
        reward : float
            Sum of rewards.
        terminated : bool
            Whether the episode ended.
        truncated : bool
            Whether a limit cut it.
        info : dict
            What the environment says of the last step.
        """
        total = 0.0
        for _ in range(self.steps):
            state, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return state, total, terminated, truncated, info


def _play(
    envs: Environments,
    actions: np.ndarray,
    chances: np.ndarray | None,
    rows: list[list[tuple[Any, ...]]],
    episodes: np.ndarray,
) -> None:
    """One step of each, its outcome appended to the rows of each; `episodes` are the numbers of those under way."""
    states = list(envs.states)
    for number, outcome in enumerate(envs.step(actions)):
        if outcome is None:
            continue
        chance = None if chances is None else chances[number]
        rows[number].append((states[number], actions[number], *outcome, episodes[number], chance))
        if outcome.over:
            episodes[number] = episodes.max() + 1


def _environments(env: Any, copies: int, seed: int) -> Environments:
    """What is played side by side."""
    if not is_vector(env):
        return CopiedEnvironments(env, copies, seed)
    if copies != 1:
        raise checks.InputError(
            f"a vector environment is its own {env.num_envs} copies; leave copies at 1, not {copies}"
        )
    return VectorEnvironments(env, seed)


class StepOutcome(NamedTuple):
    """What one action led to; `following` is the last state of the episode where it ended."""

    reward: float
    following: np.ndarray
    terminated: bool
    truncated: bool

    @property
    def over(self) -> bool:
        """Whether the episode has ended, by itself or by a limit."""
        return self.terminated or self.truncated


class Environments(ABC):
    """Several of one environment, played side by side; `states` are those in which the next actions are taken."""

    states: list[np.ndarray]
    actions: Any
    observations: Any

    @abstractmethod
    def step(self, actions: np.ndarray) -> list[StepOutcome | None]:
        """The outcome of each; none where the step was spent on beginning a new episode."""


class CopiedEnvironments(Environments):
    """The environment and deep copies of it; fewer than asked for where it cannot be copied."""

    def __init__(self, env: Any, count: int, seed: int) -> None:
        self.environments = copies_of(env, count)
        self.actions, self.observations = env.action_space, getattr(env, "observation_space", None)
        self.states = [state_of(each.reset(seed=seed + 7919 * number)) for number, each in enumerate(self.environments)]

    def step(self, actions: np.ndarray) -> list[StepOutcome | None]:
        """The outcome of each copy; a copy whose episode ended is reset at once."""
        outcomes: list[StepOutcome | None] = []
        for number, (env, action) in enumerate(zip(self.environments, actions, strict=True)):
            outcome = step(env, action)
            self.states[number] = state_of(env.reset()) if outcome.over else outcome.following
            outcomes.append(outcome)
        return outcomes


class VectorEnvironments(Environments):
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

    def step(self, actions: np.ndarray) -> list[StepOutcome | None]:
        """The outcome of each sub-environment, none where it was reset instead."""
        own = actions + first_number(self.actions) if is_discrete(self.actions) else actions
        seen, rewards, terminated, truncated, info = self.env.step(own)
        self.states = self._states(seen)
        over = np.asarray(terminated, dtype=bool) | np.asarray(truncated, dtype=bool)
        outcomes: list[StepOutcome | None] = []
        for number, state in enumerate(self.states):
            if self.resetting[number]:
                outcomes.append(None)
                continue
            last = self._final(info, number) if over[number] and self.mode == "SameStep" else state
            outcomes.append(
                StepOutcome(float(rewards[number]), last, bool(terminated[number]), bool(truncated[number]))
            )
        if self.mode == "Disabled" and over.any():
            self.states = self._states(self.env.reset(options={"reset_mask": over})[0])
        self.resetting = over if self.mode == "NextStep" else np.zeros_like(over)
        return outcomes

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


def check_actions(space: Any) -> None:
    """Raise unless the actions are numbered, or vectors of numbers."""
    vectors = type(space).__name__ == "Box" and len(space.shape) == 1
    if not (is_discrete(space) or vectors):
        raise checks.InputError(
            f"the environment must be gymnasium's, with actions Discrete or a Box of vectors, not {space!r}; "
            "wrap it to make them so"
        )


def copies_of(env: Any, count: int) -> list[Any]:
    """The environment and count - 1 others like it; itself alone where it cannot be made again."""
    checks.count("copies", count)
    check_actions(getattr(env, "action_space", None))
    try:
        return [env, *(copy.deepcopy(env) for _ in range(count - 1))]
    except Exception:  # an environment tied to a window or a process plays alone
        return [env]


def step(env: Any, action: Any) -> StepOutcome:
    """The outcome of the action, a vector or a number counted from 0."""
    if is_discrete(env.action_space):
        action = int(action) + first_number(env.action_space)
    following, reward, terminated, truncated, _ = env.step(action)
    return StepOutcome(float(reward), state_of((following, None)), bool(terminated), bool(truncated))


def state_of(seen: tuple[Any, Any]) -> np.ndarray:
    """The state in (observation, info), copied: some environments change theirs in place."""
    try:
        state = np.array(seen[0], dtype=float)
    except (TypeError, ValueError):
        raise checks.InputError(UNREADABLE.format(type(seen[0]).__name__)) from None
    return np.atleast_1d(state)
