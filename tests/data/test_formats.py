"""Every format of logs says the same of the same steps, and one that is unknown is told what it lacks."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from dualembed.checks import InputError
from dualembed.data import alignment, log
from dualembed.estimators import PolicyEvaluator

# Two episodes: one that ends after 3 steps, one that a limit cuts after 4.
STATE = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0], [13.0]])
FOLLOWING = np.array([[1.0], [2.0], [3.0], [11.0], [12.0], [13.0], [14.0]])
ACTION = np.array([0, 1, 0, 1, 1, 0, 1])
REWARD = np.array([0.5, 0.0, 1.0, 0.0, 0.0, 0.25, 9.0])
ENDS, LIMITS = np.array([0, 0, 1, 0, 0, 0, 0]), np.array([0, 0, 0, 0, 0, 0, 1])
EPISODE = np.array([0, 0, 0, 1, 1, 1, 1])
TAKEN = np.array([0.5, 0.25, 0.5, 0.25, 0.75, 0.5, 0.25])
D4RL = {"observations": STATE, "actions": ACTION, "rewards": REWARD, "terminals": ENDS, "timeouts": LIMITS}
RLLIB = {
    "obs": STATE,
    "new_obs": FOLLOWING,
    "actions": ACTION,
    "rewards": REWARD,
    "terminateds": ENDS.astype(bool),
    "truncateds": LIMITS.astype(bool),
    "eps_id": np.array([77, 77, 77, 5, 5, 5, 5]),
    "t": np.array([0, 1, 2, 0, 1, 2, 3]),
    "action_logp": np.log(TAKEN),
}


def check(columns: dict[str, np.ndarray], *, rows: int = 7, taken: bool = True) -> None:
    """All rows, or the first of them where the last had no next state."""
    assert columns["state"].tolist() == STATE[:rows].tolist()
    assert columns["action"].tolist() == ACTION[:rows].tolist()
    assert columns["reward"].tolist() == REWARD[:rows].tolist()
    goes_on = columns["terminated"] == 0
    assert columns["next_state"][goes_on].tolist() == FOLLOWING[:rows][goes_on].tolist()
    assert columns["terminated"].tolist() == ENDS[:rows].tolist()
    assert np.flatnonzero(columns["truncated"]).tolist() == [rows - 1]
    assert columns["episode"].tolist() == EPISODE[:rows].tolist()
    assert ("propensity" in columns) == taken
    if taken:
        np.testing.assert_allclose(columns["propensity"], TAKEN[:rows])


def rows_of(table: dict[str, np.ndarray], rows: Any) -> dict[str, np.ndarray]:
    return {name: column[rows] for name, column in table.items()}


def test_the_dictionary_and_the_file_of_d4rl(tmp_path: Path) -> None:
    whole = {**D4RL, "infos/action_log_probs": np.log(TAKEN), "infos/qpos": np.zeros((7, 3))}
    check(log(whole), rows=6)
    with h5py.File(tmp_path / "log.hdf5", "w") as file:
        for name, column in whole.items():
            file[name] = column
        file["metadata/algorithm"] = "SAC"
    check(log(tmp_path / "log.hdf5"), rows=6)
    check(log(str(tmp_path / "log.hdf5")), rows=6)


def test_episodes_of_qlearning_dataset_end_where_the_next_observation_is_not_the_next_row() -> None:
    found = log({"next_observations": FOLLOWING, **{name: D4RL[name] for name in D4RL if name != "timeouts"}})
    assert found["episode"].tolist() == EPISODE.tolist()
    last, start = np.array([[14.0]]), np.array([[20.0], [21.0]])  # an episode without any mark
    more = {
        "observations": np.concatenate([STATE, start]),
        "next_observations": np.concatenate([FOLLOWING[:-1], last, start + 1]),
        "actions": np.zeros(9),
        "rewards": np.zeros(9),
        "terminals": np.append(ENDS, [0, 0]),
    }
    assert log(more)["episode"].tolist() == [*EPISODE, 2, 2]


@pytest.mark.parametrize(
    "frame", [dict, pd.DataFrame, pl.DataFrame, pa.table], ids=["dict", "pandas", "polars", "arrow"]
)
def test_the_columns_of_rllib(frame: Any) -> None:
    table = {name: column.tolist() for name, column in RLLIB.items()} if frame is not dict else RLLIB
    check(log(frame(table)))


def test_rows_of_rllib_may_be_in_any_order_and_without_next_observations() -> None:
    shuffled = np.array([6, 4, 3, 5, 1, 0, 2])
    found = log(rows_of(RLLIB, shuffled))
    assert found["state"].ravel().tolist() == [10, 11, 12, 13, 0, 1, 2]  # episodes as they come
    assert found["episode"].tolist() == [0, 0, 0, 0, 1, 1, 1]
    check(log({name: column for name, column in RLLIB.items() if name != "new_obs"}), rows=6)
    with pytest.raises(InputError, match="rows 0 and 1 are of one episode and of one time"):
        log({**RLLIB, "t": np.zeros(7)})


@pytest.mark.parametrize("batched", [True, False])
def test_the_files_of_rllib(tmp_path: Path, batched: bool) -> None:
    parts = [slice(0, 4), slice(4, 7)] if batched else list(range(7))
    with (tmp_path / "log.json").open("w") as file:
        for rows in parts:
            batch = {name: column.tolist() for name, column in rows_of(RLLIB, rows).items()}
            file.write(json.dumps({"type": "SampleBatch", **batch}) + "\n")
    check(log(tmp_path / "log.json"))
    parquet.write_table(pa.table({name: column.tolist() for name, column in RLLIB.items()}), tmp_path / "log.parquet")
    check(log(tmp_path / "log.parquet"))
    (tmp_path / "packed.json").write_text('{"obs": "BCJNGGhAmQ", "actions": [0], "rewards": [1.0]}')
    with pytest.raises(InputError, match=r"obs is packed.*compress_columns=\[\]"):
        log(tmp_path / "packed.json")


class RllibEpisode:
    """With the methods of RLlib's SingleAgentEpisode: lists of steps, and one observation more than actions."""

    def __init__(self, rows: slice, *, terminated: bool) -> None:
        self.rows, self.is_terminated, self.is_truncated = rows, terminated, not terminated
        self.extra_model_outputs = {"action_logp": np.log(TAKEN[rows])}

    def get_observations(self) -> list[np.ndarray]:
        return [*STATE[self.rows], FOLLOWING[self.rows][-1]]

    def get_actions(self) -> list[int]:
        return list(ACTION[self.rows])

    def get_rewards(self) -> list[float]:
        return list(REWARD[self.rows])

    def get_extra_model_outputs(self, name: str) -> list[float]:
        return list(self.extra_model_outputs[name])


def test_the_episodes_of_rllib() -> None:
    episodes = [RllibEpisode(slice(0, 3), terminated=True), RllibEpisode(slice(3, 7), terminated=False)]
    check(log(episodes))
    assert log(episodes[0])["reward"].tolist() == REWARD[:3].tolist()
    lines = {"primal": "linear", "dual": "linear"}
    assert PolicyEvaluator(0.5, **lines).fit(episodes).diagnostics_.rows == 7


def test_the_dictionary_of_scope_rl() -> None:
    """Two trajectories of four steps, the first of which ended in the third: what follows is padding."""
    pad = np.array([0, 1, 2, 2, 3, 4, 5, 6])
    kept = np.array([1, 1, 1, 0, 1, 1, 1, 1])
    logged = {
        "size": 8,
        "n_trajectories": 2,
        "step_per_trajectory": 4,
        "action_type": "discrete",
        "n_actions": 2,
        "action_dim": None,
        "action_keys": None,
        "action_meaning": {0: "left", 1: "right"},
        "state_dim": 1,
        "state_keys": ["x"],
        "state": STATE[pad],
        "action": ACTION[pad],
        "reward": REWARD[pad] * kept,
        "done": np.array([0, 0, 1, 1, 0, 0, 0, 1]),
        "terminal": np.array([0, 0, 0, 1, 0, 0, 0, 1]),
        "info": {},
        "pscore": TAKEN[pad],
        "behavior_policy": "random",
        "dataset_id": 0,
    }
    check(log(logged), rows=6)
    cut = {**logged, "state": STATE[pad].reshape(2, 4, 1), "action": ACTION[pad].reshape(2, 4)}
    check(log({**cut, "action_type": "discrete", "reward": (REWARD[pad] * kept).reshape(2, 4)}), rows=6)
    continuous = {**logged, "action_type": "continuous", "action": np.stack([ACTION[pad]] * 2, axis=1)}
    found = log({**continuous, "pscore": np.sqrt(np.stack([TAKEN[pad]] * 2, axis=1))})
    assert found["action"].shape == (6, 2)
    np.testing.assert_allclose(found["propensity"], TAKEN[:6])
    with pytest.raises(InputError, match="nearest to SCOPE-RL's logged_dataset and has no done and no terminal"):
        log({name: column for name, column in logged.items() if name not in ("done", "terminal")})


def test_the_feedback_of_a_bandit_is_episodes_of_one_step() -> None:
    rng = np.random.default_rng(0)
    context, action, shares = rng.normal(size=(20, 2)), rng.integers(3, size=20), rng.dirichlet(np.ones(3), size=20)
    own = shares[np.arange(20), action]
    feedback: dict[str, Any] = {
        "n_rounds": 20,
        "n_actions": 3,
        "context": context,
        "action_context": np.eye(3),
        "action": action,
        "position": None,
        "reward": rng.normal(size=20),
        "expected_reward": np.zeros((20, 3)),
        "pi_b": shares[:, :, None],
        "pscore": own,
    }
    found = log(feedback)
    assert found["state"].tolist() == context.tolist()
    assert found["terminated"].all()
    assert found["episode"].tolist() == list(range(20))
    assert found["propensity"].tolist() == own.tolist()
    assert log({**feedback, "pscore": None, "action_dist": shares[:, :, None]})["propensity"].tolist() == own.tolist()
    placed = log({**feedback, "position": np.arange(20) % 3})
    assert placed["state"].shape == (20, 3)
    assert log({**feedback, "context": None})["state"].tolist() == [[0.0]] * 20


def test_lists_of_trajectories_of_arrays_dictionaries_and_rows() -> None:
    parts = [slice(0, 3), slice(3, 7)]
    paths = log([np.append(STATE[rows], FOLLOWING[rows][-1:], axis=0) for rows in parts])
    assert list(paths) == ["state", "next_state", "episode"]
    assert paths["next_state"].tolist() == FOLLOWING.tolist()
    names = ("obs", "new_obs", "actions", "rewards", "terminateds", "truncateds", "action_logp")
    check(log([{name: RLLIB[name][rows] for name in names} for rows in parts]))
    flat = {**{name: RLLIB[name] for name in names if "obs" not in name}, "eps_id": RLLIB["eps_id"]}
    records = [{"obs": float(STATE[row, 0]), **{name: flat[name][row] for name in flat}} for row in range(7)]
    check(log(records), rows=6)


def test_a_dictionary_of_our_own_names_is_read_as_a_frame_is() -> None:
    whole = {
        "state": np.arange(30.0)[::-1],
        "next_state": np.arange(30.0)[::-1] + 1,
        "reward": np.ones(30),
        "episode": np.repeat(["a", "b"], 15),
        "terminated": np.zeros(30),
        "time": np.arange(30)[::-1],
    }
    found, frame = log(whole), log(pd.DataFrame(whole))
    assert list(found) == list(frame)
    for name in found:
        np.testing.assert_array_equal(found[name], frame[name])
    assert found["state"][:2].tolist() == [[15.0], [16.0]]
    assert found["episode"].tolist() == [0.0] * 15 + [1.0] * 15
    with pytest.raises(InputError, match="rewards must have one number for each of 30 steps, but have 3"):
        log({**whole, "reward": np.ones(3)})
    with pytest.raises(InputError, match="rewards must be numbers, not"):
        log({**whole, "reward": np.repeat("much", 30)})


@pytest.mark.parametrize("form", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_list_of_frames_is_a_log(form: Any) -> None:
    rng = np.random.default_rng(0)
    parts = [{"x": rng.permutation(8) / 2, "reward": rng.normal(size=8)} for _ in range(5)]
    frames = [{"state_x": part["x"], "reward": part["reward"], "time": 2 * part["x"]} for part in parts]
    found = log([form(each) for each in frames])
    np.testing.assert_array_equal(found["state"][:, 0], np.tile(np.arange(7) / 2, 5))
    np.testing.assert_array_equal(found["episode"], np.repeat(np.arange(5), 7))
    assert alignment([form(each) for each in frames]).verdict == "unknown"


def test_a_table_by_our_own_names_and_what_log_returned() -> None:
    frame = pd.DataFrame(
        {"state_0": STATE[:, 0], "state_1": -STATE[:, 0], "reward": REWARD, "episode": list("aaabbbb")}
    )
    found = log(frame.assign(terminated=ENDS))
    assert found["state"].tolist() == np.stack([STATE[:6, 0], -STATE[:6, 0]], axis=1).tolist()
    assert found["episode"].tolist() == EPISODE[:6].tolist()
    again = log(found)
    assert all(np.array_equal(again[name], found[name]) for name in found)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            {"obs": STATE, "actions": ACTION},
            "this dict is nearest to the columns of RLlib and has no rewards and no term",
        ),
        ({**RLLIB, "terminateds": None, "eps_id": None, "dones": ENDS}, "dones do not tell an end from a time limit"),
        (
            {"states": STATE, "actions": ACTION, "rewards": REWARD},
            "nearest to columns of our own names and has no episode or terminated, which .*; put a single trajectory",
        ),
        ({"states": STATE, "terminated": ENDS}, "nearest to columns of our own names and has no reward$"),
        (
            {name: D4RL[name] for name in ("observations", "actions", "rewards")},
            "D4RL and d3rlpy and has no terminals; put a single trajectory into a list",
        ),
        (STATE, "not ndarray; put a single trajectory into a list"),
        ([[1.0, 2.0], [3.0]], "a log must be .*, or a list of trajectories, not list"),
        ({"context": STATE, "action": ACTION}, "nearest to OBP's bandit_feedback and has no reward"),
        ({"price": REWARD}, "a log must be a Minari dataset .*, not dict with price"),
        ([3, 4], "a log must be .*, not int"),
        (
            SimpleNamespace(observations=STATE),
            "this SimpleNamespace is nearest to the arrays of D4RL.* no actions and no",
        ),
        ([{"obs": STATE, "rewards": REWARD}, {"obs": STATE}], "episode 1 has state.* but episode 0 state, reward"),
    ],
)
def test_what_is_no_log_is_told_what_it_lacks(source: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        log(source)
