"""Default fits on data that are hard to divide into groups, or arrive in parts: no wrong error, no traceback."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dualembed as de


def transitions(rows: int, width: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States that are halved and shaken, and the first coordinate as the reward."""
    rng = np.random.default_rng(seed)
    state = rng.normal(size=(rows, width))
    return state, state[:, 0], 0.5 * state + rng.normal(size=(rows, width))


def coin(states: np.ndarray) -> np.ndarray:
    return np.full((len(states), 2), 0.5)


def test_a_new_fit_forgets_the_last_ones_value() -> None:
    state, reward, following = transitions(300)
    action, episode = np.arange(300) % 2, np.arange(300) // 10
    model = de.ActionValueEvaluator(0.8, coin).fit(state, action, reward, following, episodes=episode)
    assert abs(model.value().value) < 5
    model.set_params(primal="linear", dual="linear").fit(state, action, reward + 100, following, episodes=episode)
    assert model.value().value == pytest.approx(500, abs=20)


def test_episodes_that_come_a_few_at_a_time_stay_whole() -> None:
    """Each episode has a reward of its own: their number says how sure the value is, not that of their rows."""
    rng = np.random.default_rng(1)
    luck, state = rng.normal(size=100), rng.normal(size=(100, 21))

    def columns(first: int, last: int) -> dict[str, Any]:
        return {
            "states": state[first:last, :-1].ravel(),
            "rewards": np.repeat(luck[first:last], 20),
            "next_states": state[first:last, 1:].ravel(),
            "episodes": np.repeat(np.arange(first, last), 20),
        }

    whole = de.PolicyEvaluator(0.5).fit(**columns(0, 100)).value()
    model = de.PolicyEvaluator(0.5).fit(**columns(0, 10))
    for number in range(10, 100, 3):
        model.partial_fit(**columns(number, min(number + 3, 100)))
    found = model.value()
    assert found.value == pytest.approx(whole.value, abs=0.1)
    assert 0.5 * whole.stderr < found.stderr < 2 * whole.stderr


def test_rows_without_episodes_may_follow_rows_with_them() -> None:
    state, reward, following = transitions(300)
    model = de.PolicyEvaluator(0.8).fit(state, reward, following, episodes=np.arange(300) // 10)
    before = model.value()
    model.partial_fit(state[:3], reward[:3], following[:3])
    assert model.value().value == pytest.approx(before.value, abs=before.stderr)


def test_a_single_path_without_noise_has_a_value_and_no_known_error() -> None:
    state = np.arange(100) / 100
    ends = np.append(np.zeros(99), 1)
    model = de.PolicyEvaluator(1.0).fit(
        state, np.ones(100), np.append(state[1:], 1.0), terminated=ends, episodes=np.zeros(100)
    )
    answer = model.value()
    assert answer.value == pytest.approx(100, rel=0.05)
    assert (answer.verdict, answer.stderr) == ("not answerable", np.inf)


def test_one_episode_does_not_vouch_for_its_own_return() -> None:
    rng = np.random.default_rng(3)
    path = [0.0]
    for _ in range(1000):
        path.append(0.9 * path[-1] + rng.normal())
    state = np.array(path)
    reward = state[:-1] + rng.normal(size=1000)
    model = de.PolicyEvaluator(0.95).fit(state[:-1], reward, state[1:], episodes=np.zeros(1000))
    low, high = model.value().interval()
    assert low < 0 < high  # V(0) = 0
    assert model.mean_return() is None


def test_shuffled_rows_are_told_of() -> None:
    path = np.cumsum(np.random.default_rng(0).normal(size=(30, 21)), axis=1)
    state, following = path[:, :-1].reshape(-1, 1), path[:, 1:].reshape(-1, 1)
    episode, order = np.repeat(np.arange(30), 20), np.random.default_rng(1).permutation(600)
    model = de.PolicyEvaluator(0.5).fit(state, state[:, 0], following, episodes=episode)
    assert not [each for each in model.diagnostics_.warnings if "order of time" in each]
    model.fit(state[order], state[order, 0], following[order], episodes=episode[order])
    assert [each for each in model.diagnostics_.warnings if "order of time" in each]


def test_one_arrival_among_many_rows_is_told_as_it_is() -> None:
    rng = np.random.default_rng(0)
    state, following = 0.9 * rng.uniform(size=(2, 6000, 2))
    following[0, 0] = 0.99
    model = de.HittingTimeRegressor(lambda states: np.asarray(states)[:, 0] > 0.95).fit(state, following)
    assert model.ask(model.at(state[:1])).verdict == "not answerable"
    assert any("only 1 of 6000" in warning for warning in model.diagnostics_.warnings)


@pytest.mark.parametrize("longest", [300, 6000])
def test_one_long_episode_among_short_ones_is_cut_into_blocks(longest: int) -> None:
    state, reward, following = transitions(longest + 4, width=2)
    episode = np.repeat(np.arange(5), [longest, 1, 1, 1, 1])
    model = de.PolicyEvaluator(0.8).fit(state, reward, following, episodes=episode)
    values, errors = model.predict(state[:50], return_std=True)
    assert np.all(np.isfinite(values))
    assert np.median(errors) < 1.0


def test_an_action_that_the_fit_does_not_know_is_refused() -> None:
    rng = np.random.default_rng(0)
    state, _, following = transitions(300)
    action = rng.choice([-0.5, 0.5, 1.5], 300)
    model = de.ActionValueEvaluator(0.5, lambda states: np.full(len(states), 0.5)).fit(state, action, action, following)
    with pytest.raises(de.InputError, match="is none of the 3 that the fit knows of"):
        model.predict([0.0], [2.9])


def test_labels_of_groups_must_be_one_a_row() -> None:
    state, reward, following = transitions(100)
    data = de.sources.Dataset(state=state, reward=reward, next_state=following)
    with pytest.raises(de.InputError, match="one label a row"):
        de.auto(0, de.problems.PolicyEvaluation(data, 0.5), groups=np.arange(50))


def test_a_number_is_no_question() -> None:
    state, reward, following = transitions(100)
    model = de.PolicyEvaluator(0.5).fit(state, reward, following)
    with pytest.raises(de.InputError, match="questions add and subtract"):
        model.ask(model.at([0.0]) + 1)
