"""Transitions and returns from gymnasium environments."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualembed import checks
from dualembed.data.choosing import Chooser, Policy
from dualembed.data.playing import Copies, Games, Vector, copies_of, is_vector, state_of, step
from dualembed.progress import track

Columns = dict[str, np.ndarray]
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

    The environment is gymnasium's, single or vector, with Discrete or Box actions and states that are vectors of
    numbers. `policy` is any function: from states (n, d) to probabilities (n, A), to actions (n,) in the environment's
    own numbers, or to actions (n, a) of a Box; or from one state (d,) to one action, as `model.predict` of other
    libraries. The columns are state, action (numbered from 0, or a vector), reward, next_state, terminated (nothing
    follows), truncated (cut short by a limit: the bootstrap counts), episode, and, from a policy that gives
    probabilities, probability, that of the action taken.

    With `copies` of the environment played side by side the policy is asked for many actions at once; each copy's
    transitions lie together, and the last episode of each stops where its share is full. A vector environment is as
    many copies as it has environments. Each action is held for `hold` steps: with more than one, a random policy
    wanders much farther (and there is no column probability, since the action then depends on more than the state).

    >>> import gymnasium
    >>> columns = collect(gymnasium.make("CartPole-v1"), lambda state: int(state[2] > 0), 10)
    >>> columns["state"].shape, columns["action"].shape
    ((10, 4), (10,))
    """
    checks.count("transitions", transitions)
    checks.count("hold", hold)
    games = _games(env, min(copies, transitions), seed)
    choose = Chooser(policy, np.asarray(games.states), actions=games.actions, observations=games.observations)
    rng = np.random.default_rng(seed)
    share = -(-transitions // len(games.states))
    rows: list[list[tuple[Any, ...]]] = [[] for _ in games.states]
    episodes = np.arange(len(games.states))
    steps = done = 0
    with track(share, "Collecting transitions") as bar:
        while done < share:
            if steps % hold == 0:
                actions, chances = choose(rng, np.asarray(games.states))
            _play(games, actions, chances, rows, episodes)
            steps, done = steps + 1, min(map(len, rows))
            bar.advance(to=done)
    flat = [row for part in rows for row in part[:share]][:transitions]
    named = dict(zip(NAMES, zip(*flat, strict=True), strict=True))
    if hold > 1 or chances is None:
        del named["probability"]
    return {name: np.asarray(column, dtype=float) for name, column in named.items()}


def average_return(env: Any, policy: Policy, episodes: int, *, seed: int = 0) -> np.ndarray:
    """The undiscounted returns (episodes,) of the policy, each episode from its own reset, played side by side.

    `policy` is any function that `collect` takes; the environment is a single one, of which copies are made.

    >>> import gymnasium
    >>> average_return(gymnasium.make("CartPole-v1"), lambda state: 0, 3).shape
    (3,)
    """
    checks.count("episodes", episodes)
    if is_vector(env):
        raise checks.InputError("average_return needs a single environment, not a vector one; it makes its own copies")
    environments = copies_of(env, episodes)
    rng = np.random.default_rng(seed)
    returns = np.zeros(episodes)
    choose: Chooser | None = None
    for start in range(0, episodes, len(environments)):
        playing = dict(enumerate(environments[: episodes - start], start=start))
        states = {number: state_of(each.reset(seed=seed + number)) for number, each in playing.items()}
        if choose is None:
            spaces = {"actions": env.action_space, "observations": getattr(env, "observation_space", None)}
            choose = Chooser(policy, np.asarray(list(states.values())), **spaces)
        while states:
            actions, _ = choose(rng, np.asarray(list(states.values())))
            for number, action in zip(list(states), actions, strict=True):
                move = step(playing[number], action)
                states[number] = move.following
                returns[number] += move.reward
                if move.over:
                    del states[number]
    return returns


def _play(
    games: Games,
    actions: np.ndarray,
    chances: np.ndarray | None,
    rows: list[list[tuple[Any, ...]]],
    episodes: np.ndarray,
) -> None:
    """One step of every game, its moves appended to the games' rows; `episodes` are the numbers of those under way."""
    states = list(games.states)
    for number, move in enumerate(games.step(actions)):
        if move is None:
            continue
        chance = None if chances is None else chances[number]
        rows[number].append((states[number], actions[number], *move, episodes[number], chance))
        if move.over:
            episodes[number] = episodes.max() + 1


def _games(env: Any, copies: int, seed: int) -> Games:
    """The games to be played."""
    if not is_vector(env):
        return Copies(env, copies, seed)
    if copies != 1:
        raise checks.InputError(
            f"a vector environment is its own {env.num_envs} copies; leave copies at 1, not {copies}"
        )
    return Vector(env, seed)
