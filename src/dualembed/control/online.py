"""Policy iteration in an environment: collect with the present policy, improve it, and again."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np

from dualembed import checks
from dualembed.control.policy_iteration import EpsilonGreedy, PolicyIteration
from dualembed.data.environments import collect
from dualembed.progress import track
from dualembed.solvers.base import as_key

COPIES = 4  # environments played side by side; more would cut episodes that a good policy makes long


class Stage(eqx.Module):
    """A policy that was played: how many transitions there were when it was done, and its mean return."""

    policy: EpsilonGreedy
    transitions: int
    mean_return: float


def improve(
    key: jax.Array | int,
    env: Any,
    iteration: PolicyIteration,
    *,
    transitions: int = 2000,
    stages: int = 10,
    trials: int = 3,
    epsilon: float = 0.2,
    window: int = 30_000,
    seed: int = 0,
) -> tuple[EpsilonGreedy, list[Stage]]:
    """(the best policy, everything that was played), from (stages + trials) x transitions of an environment.

    Each stage collects with the ε-greedy policy of the last Q (the first at random) and then iterates on the last
    `window` transitions. At the end the greedy policies of the `trials` most promising stages are played, and the one
    with the highest mean return is kept; every transition that was seen is counted.
    """
    for name, value in (("transitions", transitions), ("stages", stages), ("trials", trials), ("window", window)):
        checks.count(name, value)
    key = as_key(key)
    policy = EpsilonGreedy(None, iteration.actions)
    table: dict[str, np.ndarray] = {}
    played: list[Stage] = []

    def play(policy: EpsilonGreedy) -> dict[str, np.ndarray]:
        columns = collect(env, policy, transitions, seed=seed + len(played), copies=COPIES)
        played.append(Stage(policy, (len(played) + 1) * transitions, _mean_return(columns)))
        bar.advance(to=len(played))
        return columns

    with track(stages + trials, "Policy iteration") as bar:
        for number in range(stages):
            fresh = play(policy)
            joined = {name: [*([table[name]] if table else []), fresh[name]] for name in fresh}
            table = {name: np.concatenate(parts)[-window:] for name, parts in joined.items()}
            if number + 1 < stages:
                found, _ = iteration.fit(jax.random.fold_in(key, number), table, start=policy)
                policy = EpsilonGreedy(found.function, iteration.actions, epsilon)
        for stage in sorted(played[1:] or played, key=lambda stage: -stage.mean_return)[:trials]:
            play(EpsilonGreedy(stage.policy.function, iteration.actions))
    return max(played[stages:], key=lambda stage: stage.mean_return).policy, played


def _mean_return(columns: dict[str, np.ndarray]) -> float:
    """The reward for each episode that came to an end; all of it if none did.

    A plain mean over episodes that ended would count the long ones, which are often cut by the budget, too little.
    """
    ended = np.sum((columns["terminated"] + columns["truncated"]) > 0)
    return float(np.sum(columns["reward"]) / max(ended, 1))
