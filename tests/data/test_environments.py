"""Transitions from environments: any policy, single and vector environments, and never a step across episodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from dualembed.checks import InputError
from dualembed.data import ActionRepeat, collect, episode_returns


class Walk(gymnasium.Env):
    """Counts steps from 100 times its number of resets: ends by itself after 3, in odd episodes by the limit after 5.

    The state is (count, last action); the reward is the count.
    """

    observation_space = Box(-np.inf, np.inf, (2,))

    def __init__(self, actions: Any = None) -> None:
        self.action_space = actions or Discrete(3)
        self.resets = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.resets += 1
        self.count = 0
        return self.seen(0.0), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.count += 1
        odd = self.resets % 2 == 1
        return self.seen(np.sum(action)), float(self.count), self.count == 3 and not odd, self.count == 5, {}

    def seen(self, last: float) -> np.ndarray:
        return np.array([100 * self.resets + self.count, last], dtype=np.float32)


def uniform(states: np.ndarray) -> np.ndarray:
    return np.full((len(states), 3), 1 / 3)


def right(columns: dict[str, Any]) -> None:
    """Every transition is one step within one episode of Walk, and its marks are right."""
    count, following = columns["state"][:, 0], columns["next_state"][:, 0]
    np.testing.assert_array_equal(following, count + 1)
    odd = count // 100 % 2 == 1
    np.testing.assert_array_equal(columns["terminated"], (following % 100 == 3) & ~odd)
    np.testing.assert_array_equal(columns["truncated"], following % 100 == 5)
    np.testing.assert_array_equal(columns["reward"], following % 100)
    same = columns["episode"][1:] == columns["episode"][:-1]
    np.testing.assert_array_equal(columns["state"][1:][same], columns["next_state"][:-1][same])
    over = (columns["terminated"] + columns["truncated"])[:-1] > 0
    assert not np.any(over & same)
    assert np.all(count[1:][over] % 100 == 0)
    assert over.sum() >= 4


DISCRETE: dict[str, Callable[[Any], Any]] = {
    "actions (n,)": lambda states: (states[:, 0] % 3).astype(int),
    "actions (n, 1)": lambda states: (states[:, :1] % 3).astype(int),
    "works for both": lambda states: np.asarray(states)[..., 0] % 3,
    "one state, plain number": lambda state: int(state[0]) % 3,
    "one state, branches": lambda state: 0 if state[0] % 3 == 0 else (1 if state[0] % 3 == 1 else 2),
    "one state, array (1,)": lambda state: np.array([int(state[0]) % 3]),
    "one state, tuple": lambda state: (int(state[0]) % 3, None),
    "many states, tuple": lambda states: ((states[:, 0] % 3).astype(int), None),
    "one state, probabilities": lambda state: np.eye(3)[int(state[0]) % 3],
    "probabilities": lambda states: np.eye(3)[(states[:, 0] % 3).astype(int)],
}


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.parametrize("copies", [1, 2, 3, 4])
def test_every_form_of_a_policy_takes_the_same_actions(name: str, copies: int) -> None:
    columns = collect(Walk(), DISCRETE[name], 24, copies=copies)
    right(columns)
    np.testing.assert_array_equal(columns["action"], columns["state"][:, 0] % 3)
    assert ("probability" in columns) == ("probabilities" in name)


def test_a_policy_on_one_state_is_not_mistaken_for_one_on_many() -> None:
    # As many copies as coordinates: what it gives for all states at once would have the right shape for actions.
    columns = collect(Walk(), lambda state: state[0] % 3, 24, copies=2)
    np.testing.assert_array_equal(columns["action"], columns["state"][:, 0] % 3)


def test_a_policy_on_one_state_sees_what_the_environment_shows() -> None:
    seen = []

    def policy(state: Any) -> int:
        if np.ndim(state) == 2:
            raise ValueError("one state at a time")
        seen.append(state)
        return 1

    collect(Walk(), policy, 3)
    assert {state.dtype for state in seen} == {np.dtype(np.float32)}
    seen.clear()
    collect(gymnasium.make("FrozenLake-v1"), policy, 3)
    assert {type(state) for state in seen} == {int}


def test_random_actions_of_the_environment_are_collected_alike_for_one_seed() -> None:
    tables = []
    for _ in range(2):
        env = gymnasium.make("CartPole-v1")
        env.action_space.seed(0)
        tables.append(collect(env, lambda observation, env=env: env.action_space.sample(), 60, seed=1))
    assert 10 < tables[0]["action"].sum() < 50
    for name, column in tables[0].items():
        np.testing.assert_array_equal(column, tables[1][name])


@pytest.mark.parametrize(
    "policy",
    [
        lambda states: np.stack([states[:, 0] / 1000, -states[:, 0] / 1000], axis=1),
        lambda state: np.array([1.0, -1.0]) * state[0] / 1000,
        lambda state: ([state[0] / 1000, -state[0] / 1000], None),
    ],
    ids=["many", "one", "tuple"],
)
def test_vectors_of_a_box_are_collected(policy: Callable[[Any], Any]) -> None:
    columns = collect(Walk(Box(-9.0, 9.0, (2,))), policy, 24, copies=2)
    right(columns)
    assert columns["action"].shape == (24, 2)
    np.testing.assert_allclose(columns["action"][:, 0], columns["state"][:, 0] / 1000, rtol=1e-6)
    np.testing.assert_allclose(columns["action"][:, 1], -columns["state"][:, 0] / 1000, rtol=1e-6)
    assert "probability" not in columns


@pytest.mark.parametrize("policy", [lambda s: np.asarray(s)[..., 0] / 1000, lambda s: [s[0] / 1000]])
def test_a_box_of_one_number_takes_plain_numbers(policy: Callable[[Any], Any]) -> None:
    columns = collect(Walk(Box(-9.0, 9.0, (1,))), policy, 24)
    assert columns["action"].shape == (24, 1)
    np.testing.assert_allclose(columns["action"][:, 0], columns["state"][:, 0] / 1000, rtol=1e-6)


def test_actions_are_numbered_from_0_where_the_environment_starts_elsewhere() -> None:
    columns = collect(Walk(Discrete(3, start=5)), lambda state: 5 + int(state[0]) % 3, 12)
    np.testing.assert_array_equal(columns["action"], columns["state"][:, 0] % 3)
    np.testing.assert_array_equal(columns["next_state"][:, 1], columns["action"] + 5)


def fails(state: Any) -> int:
    raise KeyError("speed")


@pytest.mark.parametrize(
    ("policy", "actions", "message"),
    [
        (None, Discrete(3), "the policy must be a function that gives probabilities .*, not None"),
        (fails, Discrete(3), r"failed \(KeyError: 'speed'\) for states of shape .* and failed \(KeyError: 'speed'\)"),
        (lambda s: np.zeros((7, 7, 7)), Discrete(3), r"gave shape \(7, 7, 7\) for one of shape \(2,\)"),
        (lambda s: 3, Discrete(3), "whole numbers from 0 to 2, not 3"),
        (lambda s: np.full((len(s), 2), 0.5), Discrete(3), "probabilities of 2 actions, but the environment has 3"),
        (lambda s: np.full((len(s), 3), 0.5), Discrete(3), "sum to one"),
        (lambda s: np.array([np.nan, 0.0]), Box(-1, 1, (2,)), "finite actions"),
        (lambda s: np.zeros(3), Box(-1, 1, (2,)), r"actions \(n, a\) .* gave shape \(3,\) for one of shape \(2,\)"),
        (lambda s: [0, 0], MultiDiscrete([2, 2]), "actions Discrete or a Box of vectors, not MultiDiscrete"),
    ],
)
def test_what_is_no_policy_is_refused(policy: Any, actions: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        collect(Walk(actions), policy, 4)


def test_a_model_in_place_of_its_predict_is_told_so() -> None:
    class Model:
        def predict(self, observation: Any) -> tuple[int, None]:
            return 0, None

    with pytest.raises(InputError, match="give its method predict"):
        collect(Walk(), Model(), 4)
    assert len(collect(Walk(), Model().predict, 4)["state"]) == 4


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("policy", [uniform, lambda state: int(state[0]) % 3], ids=["probabilities", "single"])
def test_a_vector_environment_never_gives_a_step_across_episodes(mode: Any, count: int, policy: Any) -> None:
    env = SyncVectorEnv([Walk] * count, autoreset_mode=mode)
    columns = collect(env, policy, 70, seed=2)
    assert columns["state"].shape == (70, 2)
    right(columns)
    # Both kinds of end are there, and the episodes are whole but for the last of each environment.
    assert columns["terminated"].sum() >= 2
    lengths = np.unique(columns["episode"], return_counts=True)[1]
    assert np.sum(~np.isin(lengths, (3, 5))) <= count


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
def test_vector_boxes_are_collected(mode: Any) -> None:
    env = SyncVectorEnv([lambda: Walk(Box(-9.0, 9.0, (2,)))] * 2, autoreset_mode=mode)
    columns = collect(env, lambda state: np.array([1.0, 2.0]), 30)
    right(columns)
    np.testing.assert_array_equal(columns["action"], np.tile([1.0, 2.0], (30, 1)))


def test_a_vectorised_simulator_gives_the_marks_of_single_environments() -> None:
    env = gymnasium.make_vec("CartPole-v1", num_envs=4, vectorization_mode="vector_entry_point", max_episode_steps=15)
    columns = collect(env, lambda states: np.full((len(states), 2), 0.5), 400, seed=0)
    fallen = (np.abs(columns["next_state"][:, 2]) > 12 * np.pi / 180) | (np.abs(columns["next_state"][:, 0]) > 2.4)
    np.testing.assert_array_equal(columns["terminated"], fallen)
    assert columns["terminated"].sum() > 3
    assert columns["truncated"].sum() > 3
    # One step of the cart: x' = x + 0.02 v, which a reset in between would break.
    moved = columns["state"][:, 0] + 0.02 * columns["state"][:, 1]
    np.testing.assert_allclose(columns["next_state"][:, 0], moved, atol=1e-6)


def test_a_vector_environment_is_its_own_copies() -> None:
    env = SyncVectorEnv([Walk] * 2)
    with pytest.raises(InputError, match="its own 2 copies; leave copies at 1, not 3"):
        collect(env, uniform, 10, copies=3)
    with pytest.raises(InputError, match="needs a single environment"):
        episode_returns(env, uniform, 10)


def test_a_vector_environment_without_last_states_is_refused() -> None:
    class Forgetful(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            *result, _ = super().step(actions)
            return (*result, {})

    with pytest.raises(InputError, match=r"info\['final_obs'\], but this one does not; use autoreset_mode NextStep"):
        collect(Forgetful([Walk], autoreset_mode=AutoresetMode.SAME_STEP), uniform, 10)


def test_vector_states_of_several_parts_are_refused() -> None:
    class Parts(Walk):
        observation_space: Any = Dict({"a": Box(-np.inf, np.inf, (2,))})

        def seen(self, last: float) -> Any:
            return {"a": super().seen(last)}

    for env in (Parts(), SyncVectorEnv([Parts])):
        with pytest.raises(InputError, match="states must be vectors of numbers, not dict; wrap the environment"):
            collect(env, uniform, 10)


def test_returns_are_those_of_any_policy() -> None:
    # The first episode of every copy is the first of its environment: odd, five steps.
    for policy in (uniform, lambda state: int(state[0]) % 3):
        assert episode_returns(Walk(), policy, 3).tolist() == [15.0] * 3
    continuous = episode_returns(Walk(Box(-9.0, 9.0, (2,))), lambda state: np.zeros(2), 2)
    assert continuous.tolist() == [15.0] * 2


def test_held_actions_stay_and_rewards_add_up() -> None:
    columns = collect(ActionRepeat(Walk(), 2), lambda state: int(state[0]) % 3, 3)
    assert columns["reward"].tolist() == [3.0, 7.0, 5.0]
    held = collect(Walk(), lambda state: int(state[0]) % 3, 5, hold=2)
    assert held["action"].tolist() == [1.0, 1.0, 0.0, 0.0, 2.0]
