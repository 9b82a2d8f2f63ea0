"""Trajectories: windows that end with their episode, multi-step transitions, λ-return windows."""

from __future__ import annotations

import numpy as np
import pytest

import dualembed as de
from dualembed import trajectories
from dualembed.problems import LambdaReturn
from dualembed.sources import Dataset

COLUMNS = {
    "state": np.arange(5.0),
    "action": np.zeros(5),
    "reward": np.array([1.0, 2.0, 4.0, 8.0, 16.0]),
    "next_state": np.arange(1.0, 6.0),
    "next_action": np.zeros(5),
    "terminated": np.array([0, 0, 1, 0, 0]),
    "episode": np.array([0, 0, 0, 1, 1]),
    "weight": np.array([2.0, 3.0, 5.0, 7.0, 11.0]),
}


def test_multi_step_transitions_sum_rewards_and_stop_with_the_episode() -> None:
    found = trajectories.multi_step(COLUMNS, 3, 0.5)
    np.testing.assert_allclose(found["reward"], [1 + 1 + 1, 2 + 2, 4, 8 + 8, 16])
    np.testing.assert_allclose(found["next_state"], [3, 3, 3, 5, 5])
    np.testing.assert_allclose(found["steps"], [3, 2, 1, 2, 1])
    np.testing.assert_allclose(found["terminated"], [1, 1, 1, 0, 0])
    np.testing.assert_allclose(found["weight"], [30, 15, 5, 77, 11])


def test_an_episode_that_terminates_is_not_followed_by_rows_of_the_same_label() -> None:
    assert trajectories.follows([0, 0, 0], [0, 1, 0]).tolist() == [True, False, False]


def test_weights_and_offset_of_a_lambda_return_are_those_on_paper() -> None:
    windows = trajectories.return_windows(COLUMNS, 3)
    data = Dataset(**windows)
    terms = LambdaReturn(data, 0.5, 0.8).terms(data.columns)
    # Row 0 runs into the end of its episode: nothing is bootstrapped after it.
    np.testing.assert_allclose(terms.weights[0], [1, -0.2 * 0.5, -0.2 * 0.8 * 0.25, 0], atol=1e-7)
    np.testing.assert_allclose(terms.offset[0], -(1 + 0.4 * 2 + 0.16 * 4), rtol=1e-6)
    # Row 3 is cut short after two steps: its last one carries the rest of the weight.
    np.testing.assert_allclose(terms.weights[3], [1, -0.2 * 0.5, -0.8 * 0.25, 0], atol=1e-7)
    np.testing.assert_allclose(terms.offset[3], -(8 + 0.4 * 16), rtol=1e-6)


def test_missing_and_uneven_columns_are_refused() -> None:
    with pytest.raises(de.InputError, match="episode missing"):
        trajectories.multi_step({name: COLUMNS[name] for name in ("state", "reward", "next_state")}, 2, 0.9)
    with pytest.raises(de.InputError, match="equally many rows"):
        trajectories.multi_step({**COLUMNS, "reward": [1.0]}, 2, 0.9)


def test_a_decay_above_one_is_refused() -> None:
    with pytest.raises(de.InputError, match="decay must not be above 1"):
        LambdaReturn(Dataset(**trajectories.return_windows(COLUMNS, 2)), 0.9, 1.5)


def test_rewards_without_steps_are_refused() -> None:
    windows = trajectories.return_windows(COLUMNS, 2)
    with pytest.raises(de.InputError, match=r"reward must have shape \(rows, steps\)"):
        LambdaReturn(Dataset(**{**windows, "reward": COLUMNS["reward"]}), 0.9, 0.5)
