"""Logs of other libraries become the same transitions, and never one across episodes."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import minari
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from minari.data_collector import EpisodeBuffer
from tests.recorded import DATA, needs_data

from dualembed.checks import InputError
from dualembed.data import log
from dualembed.estimators import PolicyEvaluator

NAMES = ["state", "action", "reward", "next_state", "terminated", "truncated", "episode"]

# Two episodes: one that ends after 3 steps, one that a limit cuts after 4.
FLAT = {
    "observations": np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0], [13.0]]),
    "actions": np.array([0, 1, 0, 1, 1, 0, 1]),
    "rewards": np.array([0.5, 0.0, 1.0, 0.0, 0.0, 0.25, 9.0]),
    "terminals": np.array([0, 0, 1, 0, 0, 0, 0]),
    "timeouts": np.array([0, 0, 0, 0, 0, 0, 1]),
}


def check_flat(columns: dict[str, np.ndarray]) -> None:
    assert list(columns) == NAMES
    assert columns["state"].tolist() == [[0], [1], [2], [10], [11], [12]]
    assert columns["next_state"].tolist() == [[1], [2], [2], [11], [12], [13]]
    assert columns["action"].tolist() == [0, 1, 0, 1, 1, 0]
    assert columns["reward"].tolist() == [0.5, 0, 1, 0, 0, 0.25]
    assert columns["terminated"].tolist() == [0, 0, 1, 0, 0, 0]
    assert columns["truncated"].tolist() == [0, 0, 0, 0, 0, 1]
    assert columns["episode"].tolist() == [0, 0, 0, 1, 1, 1]
    assert {column.dtype for column in columns.values()} == {np.dtype(float)}


def test_flat_arrays_are_cut_into_episodes_and_the_step_at_a_limit_goes() -> None:
    check_flat(log(FLAT))
    check_flat(log(SimpleNamespace(**FLAT)))
    columns = {name: value.reshape(-1, 1) for name, value in FLAT.items()}
    check_flat(log(columns))


def test_without_timeouts_the_rest_is_one_unfinished_episode() -> None:
    columns = log({name: value for name, value in FLAT.items() if name != "timeouts"})
    assert columns["state"].tolist() == [[0], [1], [2], [10], [11], [12]]
    assert columns["truncated"].sum() == 0


def test_logged_next_observations_are_taken_and_every_step_stays() -> None:
    following = FLAT["observations"] + 0.5
    columns = log({**FLAT, "next_observations": following})
    assert columns["next_state"].tolist() == following.tolist()
    assert columns["terminated"].tolist() == FLAT["terminals"].tolist()
    assert columns["truncated"].tolist() == FLAT["timeouts"].tolist()
    assert columns["episode"].tolist() == [0, 0, 0, 1, 1, 1, 1]


@dataclass(frozen=True)
class Episode:
    """With the names and shapes of an Episode of d3rlpy 2: as many observations as actions, one mark for all of it."""

    observations: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: bool


def d3rlpy_like(actions: Any = None) -> SimpleNamespace:
    actions = FLAT["actions"][:, None] if actions is None else actions
    rewards = FLAT["rewards"][:, None].astype(np.float32)
    observations = FLAT["observations"].astype(np.float32)
    parts = (slice(0, 3), True), (slice(3, 7), False)
    return SimpleNamespace(
        episodes=[Episode(observations[rows], actions[rows], rewards[rows], ended) for rows, ended in parts]
    )


def test_episodes_of_d3rlpy_are_read() -> None:
    check_flat(log(d3rlpy_like()))
    continuous = np.linspace(-1, 1, 14, dtype=np.float32).reshape(7, 2)
    np.testing.assert_array_equal(log(d3rlpy_like(continuous))["action"], continuous[:6])


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A Minari dataset of three episodes that count their steps: 3 and the end, 2 and a limit, 3 and the end."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    episodes = []
    for number, steps in enumerate((3, 2, 3)):
        last, actions = [False] * (steps - 1) + [True], [4 + step % 2 for step in range(steps)]
        episodes.append(
            EpisodeBuffer(
                id=number,
                observations=list(np.arange(steps + 1, dtype=np.float32)[:, None]),  # one more than actions
                actions=actions,
                rewards=[float(action) for action in actions],
                terminations=last if steps == 3 else [False] * steps,
                truncations=last if steps == 2 else [False] * steps,
                infos={},
            )
        )
    spaces = {"action_space": Discrete(2, start=4), "observation_space": Box(-9, 9, (1,))}
    return minari.create_dataset_from_buffers("test/counter-v0", episodes, **spaces)


@pytest.mark.filterwarnings("ignore")  # Minari warns of authors and links that a test has not
def test_a_dataset_is_fitted_to_as_a_whole(recorded: Any) -> None:
    for source in (recorded, "test/counter-v0", d3rlpy_like()):
        columns = log(source)
        named = {"terminated": columns["terminated"], "episodes": columns["episode"]}
        lines = {"primal": "linear", "dual": "linear"}
        expected = PolicyEvaluator(0.5, **lines).fit(
            columns["state"], columns["reward"], columns["next_state"], **named
        )
        for given in (source, columns):
            model = PolicyEvaluator(0.5, **lines).fit(given)
            np.testing.assert_array_equal(model.predict(columns["state"]), expected.predict(columns["state"]))
            assert model.diagnostics_.rows == len(columns["state"])


@pytest.mark.filterwarnings("ignore")  # Minari warns of authors and links that a test has not
def test_a_minari_dataset_is_read_by_itself_and_by_its_id(recorded: Any) -> None:
    for source in (recorded, "test/counter-v0"):
        columns = log(source)
        assert list(columns) == NAMES
        assert columns["state"][:, 0].tolist() == [0, 1, 2, 0, 1, 0, 1, 2]
        assert columns["next_state"][:, 0].tolist() == [1, 2, 3, 1, 2, 1, 2, 3]
        assert columns["action"].tolist() == [0, 1, 0, 0, 1, 0, 1, 0]
        assert columns["reward"].tolist() == [4, 5, 4, 4, 5, 4, 5, 4]
        assert columns["terminated"].tolist() == [0, 0, 1, 0, 0, 0, 0, 1]
        assert columns["truncated"].tolist() == [0, 0, 0, 0, 1, 0, 0, 0]
        assert columns["episode"].tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    with pytest.raises(InputError, match=r"no Minari dataset 'test/conter-v0' .* did you mean 'test/counter-v0'"):
        log("test/conter-v0")


@pytest.mark.parametrize("name", ["absent/one-v0", "not an id"])
def test_an_unknown_minari_dataset_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with pytest.raises(InputError, match=f"no Minari dataset '{name}' on this computer; `minari download {name}`"):
        log(name)


def test_without_minari_the_way_to_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(InputError, match=r"pip install 'dualembed\[rl\]' brings it"):
        log("test/counter-v0")


def test_observations_of_several_parts_lie_side_by_side() -> None:
    observations = {"position": FLAT["observations"], "goal": FLAT["observations"] * 2}
    columns = log({**FLAT, "observations": observations})
    assert columns["state"].tolist()[1] == [1.0, 2.0]
    assert columns["next_state"].tolist()[1] == [2.0, 4.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"rewards": None},
            "a log must be a Minari .* this dict is nearest to the arrays of D4RL .* and has no rewards$",
        ),
        ({"terminals": None, "dones": FLAT["terminals"]}, "dones do not tell an end from a time limit"),
        ({"actions": FLAT["actions"][:5]}, "actions must have 7 rows, as observations have, but have 5"),
        ({"rewards": np.zeros(3)}, "rewards must have one number for each of 7 steps, but have 3"),
        ({"observations": np.zeros((7, 2, 2))}, r"observations must be vectors, .* shape \(7, 2, 2\); flatten"),
        ({"next_observations": np.zeros((7, 2))}, r"shape of observations, \(7, 1\), but have \(7, 2\)"),
        ({"actions": list("abababa")}, "actions must be numbers, not <U1"),
        ({"actions": np.zeros((7, 1, 1))}, r"actions must have shape \(rows,\) or \(rows, a\)"),
        ({"timeouts": np.ones(7), "terminals": np.zeros(7)}, "no transitions in it"),
    ],
)
def test_a_log_that_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        log({**FLAT, **change})


@pytest.mark.parametrize(
    ("episode", "message"),
    [
        (Episode(np.zeros((5, 1)), np.zeros(3), np.zeros(3), True), "has 3 and 5"),
        (Episode(np.zeros((2, 2)), np.zeros(2), np.zeros(2), True), "states and actions of one shape"),
    ],
)
def test_an_episode_that_does_not_fit_is_refused(episode: Episode, message: str) -> None:
    with pytest.raises(InputError, match=message):
        log(SimpleNamespace(episodes=[*d3rlpy_like().episodes, episode]))


def test_something_else_altogether_is_refused() -> None:
    with pytest.raises(InputError, match=r"a log must be a Minari dataset .*, not int$"):
        log(3)


@needs_data
def test_human_demonstrations_lose_the_last_step_of_each_and_nothing_else() -> None:
    loaded = dict(np.load(DATA / "rl" / "adroit_door_human.npz"))
    ends = np.cumsum(loaded["episode_lengths"]) - 1
    marks = np.isin(np.arange(len(loaded["rewards"])), ends)
    columns = log({**loaded, "terminals": np.zeros(len(marks)), "timeouts": marks})
    assert columns["state"].shape == (6729 - 25, 39)
    assert columns["action"].shape == (6729 - 25, 28)
    assert columns["truncated"].sum() == 25
    same = columns["episode"][1:] == columns["episode"][:-1]
    np.testing.assert_array_equal(columns["state"][1:][same], columns["next_state"][:-1][same])
