"""Trajectories: windows that end with their episode, multi-step transitions, λ-return windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dualembed as de
from dualembed.data import trajectories
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
WITHOUT_WEIGHT = {name: column for name, column in COLUMNS.items() if name != "weight"}


def test_multi_step_transitions_sum_rewards_and_stop_with_the_episode() -> None:
    found = trajectories.multi_step(COLUMNS, 3, 0.5)
    np.testing.assert_allclose(found["reward"], [1 + 1 + 1, 2 + 2, 4, 8 + 8, 16])
    np.testing.assert_allclose(found["next_state"], [3, 3, 3, 5, 5])
    np.testing.assert_allclose(found["steps"], [3, 2, 1, 2, 1])
    np.testing.assert_allclose(found["terminated"], [1, 1, 1, 0, 0])
    np.testing.assert_allclose(found["weight"], [30, 15, 5, 77, 11])
    np.testing.assert_array_equal(found["action"], COLUMNS["action"])


def test_an_episode_that_terminates_is_not_followed_by_rows_of_the_same_label() -> None:
    assert trajectories.follows([0, 0, 0], [0, 1, 0]).tolist() == [True, False, False]


def test_a_time_limit_ends_a_window_and_leaves_the_bootstrap() -> None:
    columns = {**COLUMNS, "terminated": np.zeros(5), "episode": np.zeros(5), "truncated": [0, 1, 0, 0, 0]}
    found = trajectories.multi_step(columns, 3, 0.5)
    np.testing.assert_allclose(found["steps"], [2, 1, 3, 2, 1])
    np.testing.assert_allclose(found["terminated"], np.zeros(5))


@pytest.mark.parametrize(
    "make", [lambda c: trajectories.multi_step(c, 2, 0.9), lambda c: trajectories.return_windows(c, 2)]
)
def test_rows_that_do_not_continue_each_other_are_refused_with_their_number(make: Any) -> None:
    glued = {name: np.concatenate([column[:2], column[:2]]) for name, column in WITHOUT_WEIGHT.items()}
    with pytest.raises(de.InputError, match=r"row 2 has the label of row 1, .* state 0.0 is not the next_state 2.0"):
        make({**glued, "episode": np.zeros(4)})
    make({**glued, "episode": [0, 0, 1, 1]})


def test_weights_and_offset_of_a_lambda_return_are_those_on_paper() -> None:
    windows = trajectories.return_windows(WITHOUT_WEIGHT, 3)
    data = Dataset(**windows)
    terms = LambdaReturn(data, 0.5, 0.8).terms(data.columns)
    # Row 0 runs into the end of its episode: nothing is bootstrapped after it.
    np.testing.assert_allclose(terms.weights[0], [1, -0.2 * 0.5, -0.2 * 0.8 * 0.25, 0], atol=1e-7)
    np.testing.assert_allclose(terms.offset[0], -(1 + 0.4 * 2 + 0.16 * 4), rtol=1e-6)
    # Row 3 is cut short after two steps: its last one carries the rest of the weight.
    np.testing.assert_allclose(terms.weights[3], [1, -0.2 * 0.5, -0.8 * 0.25, 0], atol=1e-7)
    np.testing.assert_allclose(terms.offset[3], -(8 + 0.4 * 16), rtol=1e-6)


def test_nothing_is_earned_after_a_termination_within_a_window() -> None:
    columns = {
        "state": [0.0], "action": [0.0], "reward": [[1.0, 2.0, 4.0]], "next_state": [[[1.0], [2.0], [3.0]]],
        "next_action": [[0.0, 0.0, 0.0]], "terminated": [[0, 1, 0]],
    }  # fmt: skip
    data = Dataset(**columns)
    terms = LambdaReturn(data, 0.5, 0.8).terms(data.columns)
    np.testing.assert_allclose(terms.offset, [-(1 + 0.4 * 2)], rtol=1e-6)
    np.testing.assert_allclose(terms.weights, [[1, -0.2 * 0.5, 0, 0]], rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length": [0.0, 2, 1, 2, 1]}, "length must be a whole number from 1 to 2, .* not 0.0"),
        ({"length": [3.0, 2, 1, 2, 1]}, "length must be a whole number from 1 to 2, .* not 3.0"),
        ({"length": [1.5, 2, 1, 2, 1]}, "length must be a whole number from 1 to 2, .* not 1.5"),
        ({"next_state": np.zeros((5, 2, 3))}, r"next_state must have shape \(rows, steps, 1\), .* \(5, 2, 3\)"),
    ],
)
def test_windows_that_will_not_do_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(de.InputError, match=message):
        LambdaReturn(Dataset(**{**trajectories.return_windows(WITHOUT_WEIGHT, 2), **change}), 0.9, 0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": np.ones((5, 1))}, r"reward must have shape \(rows,\), one value a row, but has \(5, 1\)"),
        ({"episode": np.zeros((5, 1))}, r"episode must have shape \(rows,\)"),
        ({"terminated": np.zeros((5, 1))}, r"terminated must have shape \(rows,\)"),
        ({"terminated": np.full(5, 0.5)}, "terminated must be 0 or 1, not 0.5"),
        ({"reward": list("abcde")}, "reward must be numbers, not <U1"),
        ({"state": np.full(5, np.nan)}, "state has NaN or infinite values"),
        ({"next_state": np.zeros((5, 2))}, r"same shape, but have \(5,\) and \(5, 2\)"),
        ({"terminated": None, "done": np.zeros(5)}, "column done is not read here: rename it to terminated"),
    ],
)
def test_columns_that_make_no_trajectory_are_refused(change: dict[str, Any], message: str) -> None:
    columns = {name: column for name, column in {**COLUMNS, **change}.items() if column is not None}
    with pytest.raises(de.InputError, match=message):
        trajectories.multi_step(columns, 5, 0.9)


@pytest.mark.parametrize(
    ("discount", "message"), [([0.9, 0.9], "discount must be one number"), (2.0, "discount must not be above 1")]
)
def test_a_discount_that_is_none_is_refused(discount: Any, message: str) -> None:
    with pytest.raises(de.InputError, match=message):
        trajectories.multi_step(COLUMNS, 2, discount)


def test_windows_for_lambda_returns_have_no_place_for_importance_weights() -> None:
    with pytest.raises(de.InputError, match="take no column weight"):
        trajectories.return_windows(COLUMNS, 2)


def test_missing_and_uneven_columns_are_refused() -> None:
    with pytest.raises(de.InputError, match="episode missing"):
        trajectories.multi_step({name: COLUMNS[name] for name in ("state", "reward", "next_state")}, 2, 0.9)
    with pytest.raises(de.InputError, match="equally many rows"):
        trajectories.multi_step({**COLUMNS, "reward": [1.0]}, 2, 0.9)


def test_a_decay_above_one_is_refused() -> None:
    with pytest.raises(de.InputError, match="decay must not be above 1"):
        LambdaReturn(Dataset(**trajectories.return_windows(WITHOUT_WEIGHT, 2)), 0.9, 1.5)
    with pytest.raises(de.InputError, match="decay must be one number"):
        LambdaReturn(Dataset(**trajectories.return_windows(WITHOUT_WEIGHT, 2)), 0.9, [0.5, 0.6])


def test_rewards_without_steps_are_refused() -> None:
    windows = trajectories.return_windows(WITHOUT_WEIGHT, 2)
    with pytest.raises(de.InputError, match=r"reward must have shape \(rows, steps\)"):
        LambdaReturn(Dataset(**{**windows, "reward": COLUMNS["reward"]}), 0.9, 0.5)


def test_a_list_of_trajectories_is_taken_wherever_a_fit_takes_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    walks = [np.cumsum(rng.choice([-1, 1], size=100 + run)) % 8 for run in range(12)]
    model = de.HittingTimeRegressor([0]).fit(walks)
    rows = np.concatenate(walks)
    np.testing.assert_array_equal(model.predict(walks), model.predict(rows))
    np.testing.assert_array_equal(model.inside(walks), rows == 0)
    np.testing.assert_array_equal(model.predict([np.array([3.0]), np.array([4.0])]), model.predict([3, 4]))
    assert model.error(walks).stderr > 0
    de.report.write_report(model, tmp_path / "page.html", data=walks)
    assert "Columns of the data" in (tmp_path / "page.html").read_text(encoding="utf-8")
