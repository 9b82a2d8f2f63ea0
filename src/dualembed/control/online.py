"""Policy iteration in an environment: collect with the present policy, improve it, and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dualembed import checks
from dualembed.control.policy_iteration import EpsilonGreedy, PolicyIteration, check_epsilon
from dualembed.data.environments import collect
from dualembed.progress import track

COPIES = 4  # environments played side by side; more would cut episodes that a good policy makes long


class Stage(eqx.Module):
    """A policy that was played: how many transitions there were when it was done, and its mean return."""

    policy: EpsilonGreedy
    transitions: int
    mean_return: float


class Mean(eqx.Module):
    """x -> the mean of several functions at x."""

    functions: tuple[Callable[[Any], Any], ...]

    def __call__(self, xs: Any) -> np.ndarray:
        return np.mean([np.asarray(function(xs)) for function in self.functions], axis=0)


def improve(
    key: jax.Array | int,
    env: Any,
    iteration: PolicyIteration,
    *,
    transitions: int = 1000,
    stages: int = 12,
    average: int = 5,
    epsilon: float = 0.2,
    window: int = 30_000,
    seed: int = 0,
) -> tuple[EpsilonGreedy, list[Stage]]:
    """(the policy, every stage), from stages x transitions of a gymnasium environment with discrete actions.

    Each stage collects with the ε-greedy policy of the last Q (the first at random) and then iterates on the last
    `window` transitions. The policy is greedy under the mean Q of the `average` stages whose own episodes had the
    highest returns: one Q's errors decide between actions of nearly equal value, and a mean has less of them.
    """
    counts = {"transitions": transitions, "stages": stages, "average": average, "window": window}
    for name, value in counts.items():
        checks.count(name, value, at_least=2 if name == "stages" else 1)
    check_epsilon(epsilon)
    key = checks.as_key(key)
    policy = EpsilonGreedy(None, iteration.actions)
    table: dict[str, np.ndarray] = {}
    played: list[Stage] = []
    with track(stages, "Policy iteration") as bar:
        for number in range(stages):
            fresh = collect(env, policy, transitions, seed=seed + number, copies=COPIES)
            played.append(Stage(policy, (number + 1) * transitions, _mean_return(fresh)))
            joined = {name: [*([table[name]] if table else []), fresh[name]] for name in fresh}
            table = {name: np.concatenate(parts)[-window:] for name, parts in joined.items()}
            if number + 1 < stages:
                found, _ = iteration.fit(jax.random.fold_in(key, number), table, start=policy)
                policy = EpsilonGreedy(found.function, iteration.actions, epsilon)
            bar.advance(to=number + 1)
    best = sorted(played[1:], key=lambda stage: -stage.mean_return)[:average]
    functions = tuple(stage.policy.function for stage in best if stage.policy.function is not None)
    return EpsilonGreedy(Mean(functions), iteration.actions), played


def _mean_return(columns: dict[str, np.ndarray]) -> float:
    """The reward for each episode that came to an end; all of it if none did.

    A plain mean over episodes that ended would count the long ones, which are often cut by the budget, too little.
    """
    ended = np.sum((columns["terminated"] + columns["truncated"]) > 0)
    return float(np.sum(columns["reward"]) / max(ended, 1))
