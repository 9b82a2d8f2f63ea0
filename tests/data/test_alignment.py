"""Rewards that stand in the row after or before their own are noticed, and those in their own rows are left alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import gymnasium
import numpy as np
import pytest

import dualembed as de
from dualembed.data import Alignment, alignment
from dualembed.examples import TRANSITIONS

ROWS = 2000
Log = dict[str, np.ndarray]


def played(name: str, seed: int) -> Log:
    """A log of an environment in which actions are drawn at random."""
    env = gymnasium.make(name)
    env.action_space.seed(seed)
    rows: list[Any] = []
    episode, (seen, _) = 0, env.reset(seed=seed)
    while len(rows) < ROWS:
        action = env.action_space.sample()
        following, reward, ended, cut, _ = env.step(action)
        rows.append((seen, action, reward, following, ended, cut, episode))
        seen = following
        if ended or cut:
            episode, (seen, _) = episode + 1, env.reset()
    env.close()
    names = ("state", "action", "reward", "next_state", "terminated", "truncated", "episode")
    return {name: np.asarray(column, dtype=float) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def simulated(seed: int, *, slow: bool = False) -> Log:
    """A linear process with quadratic costs of state and action; if slow, with rewards that hardly move in a step."""
    rng, length = np.random.default_rng(seed), 40
    turn, push, noise = np.array([[0.9, 0.2], [-0.1, 0.8]]), np.array([0.0, 0.5]), 0.3
    if slow:
        turn, push, noise = np.array([[0.995, 0.05], [-0.05, 0.995]]), np.array([0.0, 0.01]), 0.01
    states, actions = [], []
    state = rng.normal(size=(ROWS // length, 2))
    for _ in range(length + 1):
        states.append(state)
        actions.append(-0.4 * state[:, 1] + 0.5 * rng.normal(size=len(state)))
        state = state @ turn.T + actions[-1][:, None] * push + noise * rng.normal(size=state.shape)
    path, acts = np.stack(states, axis=1), np.stack(actions, axis=1)[:, :-1]
    reward = -np.sum(path[:, :-1] ** 2, axis=2) - (0.0 if slow else 0.1) * acts**2
    if slow:
        reward = np.sin(path[:, :-1, 0]) + 0.02 * rng.normal(size=acts.shape)
    columns = {"state": path[:, :-1].reshape(-1, 2), "next_state": path[:, 1:].reshape(-1, 2)}
    columns |= {"action": acts.ravel(), "reward": reward.ravel(), "terminated": np.zeros(acts.size)}
    return {**columns, "truncated": np.zeros(acts.size), "episode": np.repeat(np.arange(len(path)), length)}


def bundled() -> Log:
    table = {name: column.to_numpy() for name, column in zip(*_columns(TRANSITIONS), strict=True)}
    states = {
        name: np.stack([table[f"{start}stock"], table[f"{start}demand"]], axis=1) for name, start in NAMES.items()
    }
    marks = {"terminated": np.zeros(ROWS), "truncated": np.zeros(ROWS)}
    return {**states, "reward": table["profit"], **marks, "episode": table["shop"]}


NAMES = {"state": "", "next_state": "next_"}


def _columns(path: Any) -> tuple[list[str], list[Any]]:
    table = de.data.read_table(path)
    return table.column_names, table.columns


def shifted(log: Log, by: int) -> Log:
    """The log with each reward `by` rows further down in its episode; rows that have none then are gone."""
    rows = np.arange(len(log["reward"]))
    source = rows - by
    known = (source >= 0) & (source < len(rows))
    known[known] &= log["episode"][source[known]] == log["episode"][rows[known]]
    return {**{name: column[known] for name, column in log.items()}, "reward": log["reward"][source[known]]}


MAKERS = {
    "Pendulum-v1": lambda: played("Pendulum-v1", 0),
    "MountainCarContinuous-v0": lambda: played("MountainCarContinuous-v0", 0),
    "linear-quadratic": lambda: simulated(0),
    "shops": bundled,
}


@cache
def made(name: str) -> Log:
    return MAKERS[name]()


def judged(log: Log) -> Alignment:
    found = alignment(log)
    assert bool(found.warning) == (found.lag != 0) == (found.verdict == "shifted")
    return found


@pytest.mark.parametrize("name", MAKERS)
def test_a_shift_of_one_row_is_noticed_either_way_and_a_right_log_is_left_alone(name: str) -> None:
    assert [judged(shifted(made(name), by)).lag for by in (0, 1, -1)] == [0, 1, -1]


@pytest.mark.parametrize("by", [0, 1, -1])
def test_rewards_that_move_slowly_are_no_sign_of_a_shift(by: int) -> None:
    for seed in range(3):
        assert judged(shifted(simulated(seed, slow=True), by)).verdict == "aligned"


def test_where_rewards_hardly_vary_it_says_that_it_cannot_tell() -> None:
    found = judged(played("CartPole-v1", 0))
    assert (found.verdict, found.reason) == ("unknown", "rewards hardly vary")
    assert str(found) == "Whether rewards stand in the right rows cannot be told: rewards hardly vary."


def test_where_nothing_predicts_rewards_or_rows_are_no_paths_it_cannot_tell_either() -> None:
    log = made("linear-quadratic")
    noise = np.random.default_rng(0).normal(size=ROWS)
    assert judged({**log, "reward": noise}).reason == "nothing logged predicts rewards"
    order = np.random.default_rng(0).permutation(ROWS)
    assert judged({name: column[order] for name, column in log.items()}).verdict == "unknown"
    with pytest.raises(de.InputError, match="the log has no rewards"):
        alignment([log["state"]])


def test_fits_with_episodes_warn_of_it() -> None:
    lines = {"primal": "linear", "dual": "linear"}
    few = {name: column[:800] for name, column in made("linear-quadratic").items()}
    log = shifted(few, -1)
    for model in (de.PolicyEvaluator(0.9, **lines), de.ActionValueEvaluator(0.9, lambda s: -0.4 * s[:, 1], **lines)):
        warnings = model.fit(log).diagnostics_.warnings
        assert [each for each in warnings if "rewards seem to stand in the row before the step" in each], warnings
        right = model.fit(few).diagnostics_.warnings
        assert not [each for each in right if "rewards seem" in each]
