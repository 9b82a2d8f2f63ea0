"""Control: policy iteration, Q-learning and playing in environments, on problems whose best policy is known."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium
import numpy as np
import pytest

import dualembed as de
from dualembed.control import ConvexityWarning, EpsilonGreedy, PolicyIteration, QLearning, action_space, improve
from dualembed.data import ActionRepeat, collect, episode_returns, policies
from dualembed.problems import ActionValue
from dualembed.solvers import ClosedForm
from dualembed.sources import Dataset
from dualembed.spaces import Table

LENGTH, DISCOUNT = 6, 0.8


def corridor() -> dict[str, np.ndarray]:
    """Every step in a corridor: left or right with a slip in one of four, a reward and the end at the right."""
    rows = []
    for state in range(LENGTH):
        for action in range(2):
            for slip in range(4):
                right = (action == 1) != (slip == 0)
                following = min(max(state + (1 if right else -1), 0), LENGTH)
                ended = following == LENGTH
                rows.append((state, action, float(ended), min(following, LENGTH - 1), ended))
    names = ("state", "action", "reward", "next_state", "terminated")
    return {name: np.asarray(column, dtype=float) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def best_values() -> np.ndarray:
    """Q of the best policy, (LENGTH, 2), by value iteration."""
    values = np.zeros((LENGTH, 2))
    table = corridor()
    pairs = np.stack([table["state"], table["action"]], axis=1).astype(int)
    for _ in range(500):
        goal = table["reward"] + DISCOUNT * (1 - table["terminated"]) * values[table["next_state"].astype(int)].max(1)
        total = np.zeros_like(values)
        np.add.at(total, tuple(pairs.T), goal / 4)
        values = total
    return values


def all_pairs() -> np.ndarray:
    return np.stack(np.meshgrid(np.arange(LENGTH), np.arange(2), indexing="ij"), axis=-1).reshape(-1, 2)


def test_policy_iteration_finds_the_best_policy_and_its_values() -> None:
    iteration = PolicyIteration(
        2, DISCOUNT, primal=Table(), dual=Table(), primal_penalty=None, dual_penalty=None, solver=ClosedForm(folds=1)
    )
    policy, rounds = iteration.fit(0, corridor())
    assert np.all(policy(np.arange(LENGTH)).argmax(axis=1) == 1)
    found = np.asarray(rounds[-1].result.primal(all_pairs())).reshape(LENGTH, 2)
    np.testing.assert_allclose(found, best_values(), atol=1e-8)
    assert rounds[-1].changed == 0


def test_policy_iteration_improves_every_round() -> None:
    iteration = PolicyIteration(
        2, DISCOUNT, primal=Table(), dual=Table(), primal_penalty=None, dual_penalty=None, solver=ClosedForm(folds=1)
    )
    left = EpsilonGreedy(lambda pairs: -pairs[:, 1], 2, 0.5)
    _, rounds = iteration.fit(0, corridor(), start=left)
    values = [np.asarray(each.result.primal(all_pairs())) for each in rounds]
    for before, after in itertools.pairwise(values):
        assert np.all(after >= before - 1e-9)


def test_q_learning_warns_and_finds_the_best_values_on_a_table() -> None:
    columns = corridor()
    columns |= policies.expected_actions(EpsilonGreedy(None, 2), columns["next_state"])
    pairs = Table(all_pairs())
    saddle = de.Saddle(ActionValue(Dataset(**columns), DISCOUNT), pairs, pairs)
    with pytest.warns(ConvexityWarning, match="may fail to converge"):
        result = de.solve(0, saddle, QLearning(6000, 48, de.schedules.Constant(1.0), de.schedules.Constant(4.0)))
    found = np.asarray(result.last.primal(all_pairs())).reshape(LENGTH, 2)
    np.testing.assert_allclose(found, best_values(), atol=1e-4)


def test_a_first_round_that_keeps_the_first_action_is_not_the_last() -> None:
    columns = {
        "state": [0.0, 0.0, 1.0, 1.0],
        "action": [0.0, 1.0, 0.0, 1.0],
        "reward": [1.0, 0.0, 1.5, 0.0],
        "next_state": [0.0, 1.0, 0.0, 0.0],
        "terminated": [1.0, 0.0, 1.0, 1.0],
    }
    exact = {"primal_penalty": None, "dual_penalty": None, "solver": ClosedForm(folds=1)}
    policy, _ = PolicyIteration(2, 0.99, primal=Table(), dual=Table(), **exact).fit(0, columns)
    assert policy([[0.0]]).tolist() == [[0.0, 1.0]]  # waiting for 1.5 is worth more than taking 1 at once


def test_states_that_an_environment_changes_in_place_are_copied() -> None:
    class Counter:
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self) -> None:
            self.state = np.zeros(1)

        def reset(self, seed: int | None = None) -> tuple[np.ndarray, dict[str, Any]]:
            self.state[:] = 0
            return self.state, {}

        def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            self.state += 1
            return self.state, 1.0, bool(self.state[0] >= 3), False, {}

    columns = collect(Counter(), EpsilonGreedy(None, 2), 6)
    assert columns["state"][:, 0].tolist() == [0, 1, 2, 0, 1, 2]
    assert columns["next_state"][:, 0].tolist() == [1, 2, 3, 1, 2, 3]
    with pytest.raises(de.InputError, match="probabilities of 3 actions, but the environment has 2"):
        collect(Counter(), EpsilonGreedy(None, 3), 6)


@pytest.mark.parametrize("epsilon", [-0.1, 1.1])
def test_epsilon_is_a_probability(epsilon: float) -> None:
    with pytest.raises(de.InputError, match="epsilon must not be"):
        EpsilonGreedy(None, 2, epsilon)


def test_epsilon_greedy_shares_ties_and_keeps_exploring() -> None:
    policy = EpsilonGreedy(lambda pairs: np.where(pairs[:, 1] == 2, 0.0, 1.0), 3, 0.3)
    np.testing.assert_allclose(policy([[0.0]]), [[0.45, 0.45, 0.1]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 1.5}, "epsilon must not be above 1"),
        ({"discount": 1.2}, "discount must not be above 1"),
        ({"actions": 1}, "actions must be a whole number of at least 2"),
    ],
)
def test_policy_iteration_refuses_bad_settings(change: dict[str, Any], message: str) -> None:
    with pytest.raises(de.InputError, match=message):
        PolicyIteration(**{"actions": 2, **change})


def test_policy_iteration_refuses_actions_beyond_their_number() -> None:
    columns = corridor()
    with pytest.raises(de.InputError, match="whole numbers from 0 to 1, not 2"):
        PolicyIteration(2).fit(0, {**columns, "action": columns["action"] + 1})


def test_collect_marks_ends_and_limits_apart_and_keeps_episodes_together() -> None:
    env = gymnasium.make("CartPole-v1", max_episode_steps=20)
    columns = collect(env, EpsilonGreedy(None, 2), 400, seed=3, copies=2)
    assert columns["state"].shape == (400, 4)
    assert columns["terminated"].sum() > 5
    assert columns["truncated"].sum() > 5
    goes_on = columns["episode"][1:] == columns["episode"][:-1]
    np.testing.assert_array_equal(columns["state"][1:][goes_on], columns["next_state"][:-1][goes_on])
    over = (columns["terminated"] + columns["truncated"])[:-1] > 0
    assert not np.any(over & goes_on)
    np.testing.assert_array_equal(columns["probability"], 0.5)


def test_collect_is_the_same_for_the_same_seed() -> None:
    env = gymnasium.make("CartPole-v1")
    first, second = (collect(env, EpsilonGreedy(None, 2), 50, seed=1) for _ in range(2))
    for name, column in first.items():
        np.testing.assert_array_equal(column, second[name])


@pytest.mark.slow
def test_policy_iteration_balances_the_cart_pole() -> None:
    env = ActionRepeat(gymnasium.make("CartPole-v1"), 2)
    iteration = PolicyIteration(2, 0.95, rounds=3, solver=ClosedForm(folds=1))
    policy, stages = improve(0, env, iteration, stages=8, seed=0)
    assert 2 * stages[-1].transitions <= 30_000
    assert np.mean(episode_returns(env, policy, 10, seed=9000)) >= 475


@pytest.mark.slow
def test_policy_iteration_swings_the_mountain_car_up() -> None:
    env = ActionRepeat(gymnasium.make("MountainCar-v0"), 6)
    columns = collect(env, EpsilonGreedy(None, 3), 3333, seed=0, copies=8, hold=4)
    space = action_space(columns["state"], bandwidth=1.0)
    policy, _ = PolicyIteration(3, 0.95, primal=space, dual=space, rounds=6, solver=ClosedForm(folds=1)).fit(0, columns)
    assert np.mean(episode_returns(env, policy, 20, seed=9000) > -200) > 0.5
