"""Transitions and returns from gymnasium environments."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.policies import probabilities
from dualembed.progress import track

Columns = dict[str, np.ndarray]
Policy = Callable[[np.ndarray], Any]
NAMES = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode", "probability")


class Held:
    """The environment with a decision every `steps` steps: the action is held, rewards are summed.

    Where one step moves the state little, all actions are worth almost the same and their order drowns in errors of
    approximation; longer decisions tell them apart.
    """

    def __init__(self, env: Any, steps: int) -> None:
        checks.count("steps", steps)
        self.env, self.steps = env, steps
        self.action_space, self.observation_space = env.action_space, env.observation_space

    def reset(self, **options: Any) -> Any:
        """As the environment's own."""
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """(state, sum of rewards, terminated, truncated, info) after as many steps, fewer where the episode ends."""
        total = 0.0
        for _ in range(self.steps):
            state, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return state, total, terminated, truncated, info


def collect(env: Any, policy: Policy, transitions: int, *, seed: int = 0, copies: int = 1, hold: int = 1) -> Columns:
    """So many transitions of the policy in the environment, in the order of time, episode after episode.

    The environment has discrete actions and states that are vectors of numbers; `policy` maps states (n, d) to action
    probabilities (n, A). The columns are state, action, reward, next_state, terminated (nothing follows),
    truncated (cut short by a limit: the bootstrap counts), episode, and probability, that of the action taken.
    With `copies` of the environment played side by side the policy is asked for many actions at once; each copy's
    transitions lie together, and the last episode of each stops where its share is full. Each action is held for
    `hold` steps: with more than one, a random policy wanders much farther (and there is no column probability, since
    the action then depends on more than the state).
    """
    checks.count("transitions", transitions)
    checks.count("hold", hold)
    environments = _copies(env, min(copies, transitions))
    rng = np.random.default_rng(seed)
    share = -(-transitions // len(environments))
    states = [_state(each.reset(seed=seed + 7919 * number)) for number, each in enumerate(environments)]
    rows: list[list[tuple[Any, ...]]] = [[] for _ in environments]
    episodes = np.arange(len(environments))
    with track(share, "Collecting transitions") as bar:
        for step in range(share):
            if step % hold == 0:
                chosen = list(zip(*_choose(rng, policy, states, env), strict=True))
            for number, (action, chance) in enumerate(chosen):
                following, reward, ended, cut = _step(environments[number], action)
                row = (states[number], action, reward, following, ended, cut, episodes[number], chance)
                rows[number].append(row)
                states[number] = following
                if ended or cut:
                    episodes[number] = episodes.max() + 1
                    states[number] = _state(environments[number].reset())
            bar.advance(to=step + 1)
    flat = [row for part in rows for row in part][:transitions]
    columns = zip(NAMES, zip(*flat, strict=True), strict=True)
    return {name: np.asarray(column, dtype=float) for name, column in columns if hold == 1 or name != "probability"}


def average_return(env: Any, policy: Policy, episodes: int, *, seed: int = 0) -> np.ndarray:
    """The undiscounted returns (episodes,) of the policy, each episode from its own reset, played side by side."""
    checks.count("episodes", episodes)
    environments = _copies(env, episodes)
    rng = np.random.default_rng(seed)
    returns = np.zeros(episodes)
    for start in range(0, episodes, len(environments)):
        playing = dict(enumerate(environments[: episodes - start], start=start))
        states = {number: _state(each.reset(seed=seed + number)) for number, each in playing.items()}
        while states:
            actions, _ = _choose(rng, policy, list(states.values()), env)
            for number, action in zip(list(states), actions, strict=True):
                states[number], reward, ended, cut = _step(playing[number], action)
                returns[number] += reward
                if ended or cut:
                    del states[number]
    return returns


def _choose(rng: np.random.Generator, policy: Policy, states: list[Any], env: Any) -> tuple[list[int], np.ndarray]:
    """(an action for each state, drawn from the policy; its probability)."""
    shares = probabilities(policy, np.asarray(states, dtype=float))
    if shares.shape[1] != env.action_space.n:
        raise checks.InputError(
            f"the policy gives probabilities of {shares.shape[1]} actions, but the environment has {env.action_space.n}"
        )
    summed = np.cumsum(shares, axis=1)
    # Up to the sum itself, which may miss 1 by rounding: what is missing belongs to no action.
    actions = np.sum(summed <= rng.uniform(size=(len(shares), 1)) * summed[:, -1:], axis=1)
    return actions.tolist(), shares[np.arange(len(shares)), actions]


def _step(env: Any, action: int) -> tuple[np.ndarray, float, bool, bool]:
    """(next state, reward, terminated, truncated) after the action, numbered from 0."""
    following, reward, ended, cut, _ = env.step(action + int(getattr(env.action_space, "start", 0)))
    return _state((following, None)), float(reward), bool(ended), bool(cut)


def _state(seen: tuple[Any, Any]) -> np.ndarray:
    """The state in (observation, info), copied: some environments change theirs in place."""
    try:
        state = np.array(seen[0], dtype=float)
    except (TypeError, ValueError):
        raise checks.InputError(
            f"states must be vectors of numbers, not {type(seen[0]).__name__}; wrap the environment to make them so"
        ) from None
    return np.atleast_1d(state)


def _copies(env: Any, count: int) -> list[Any]:
    """The environment and count - 1 others like it; itself alone where it cannot be made again."""
    checks.count("copies", count)
    space = getattr(env, "action_space", None)
    if type(space).__name__ != "Discrete":
        raise checks.InputError(f"the environment must be gymnasium's, with Discrete actions, not {space!r}")
    try:
        return [env, *(copy.deepcopy(env) for _ in range(count - 1))]
    except Exception:  # an environment tied to a window or a process plays alone
        return [env]
