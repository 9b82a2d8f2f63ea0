"""A frame with usual names, or a list of episodes, stands for all arguments; anything else gets one sentence."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.estimators.cases import INSTRUMENT, X, Y, small
from tests.estimators.test_next_rows import STEPS, values, walks

import dualembed as de

ROWS = walks()
COLUMNS = {
    "state": ROWS["states"],
    "reward": ROWS["rewards"],
    "action": ROWS["actions"],
    "terminated": ROWS["terminated"],
    "episode": ROWS["episodes"],
}
STRANGE = pd.DataFrame({"place": [0.0], "gain": [1.0]})
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table, "dictionary": dict}


def evaluator() -> de.PolicyEvaluator:
    return de.PolicyEvaluator(0.8, **small())


def expected() -> Any:
    given = {name: ROWS[name] for name in ("states", "rewards", "terminated", "episodes")}
    return evaluator().fit(**given)


@pytest.mark.parametrize("form", FRAMES)
def test_a_frame_with_usual_names_stands_for_all(form: str) -> None:
    table = FRAMES[form](COLUMNS)
    model = evaluator().fit(table)
    np.testing.assert_array_equal(values(model), values(expected()))
    assert model.error(table) == expected().error(
        **{name: ROWS[name] for name in ("states", "rewards", "terminated", "episodes")}
    )
    np.testing.assert_array_equal(values(evaluator().partial_fit(table)), values(expected()))
    assert de.ActionValueEvaluator(0.8, **small()).fit(table).value is not None
    assert de.HittingTimeRegressor(lambda s: np.asarray(s).ravel() > 1, **small()).fit(table).arrivals_ > 0


def test_names_of_other_libraries_are_usual_too() -> None:
    other = {"obs_0": ROWS["states"], "rewards": ROWS["rewards"], "terminals": ROWS["terminated"]}
    model = evaluator().fit(pd.DataFrame({**other, "episode_ids": ROWS["episodes"]}))
    np.testing.assert_array_equal(values(model), values(expected()))


def test_what_is_given_besides_counts_and_states_alone_stay_states() -> None:
    table = pd.DataFrame(COLUMNS)
    besides = evaluator().fit(table.drop(columns="terminated"), terminated=ROWS["terminated"])
    np.testing.assert_array_equal(values(besides), values(expected()))
    whole = {"rewards": ROWS["rewards"], "episodes": ROWS["episodes"]}
    assert evaluator().fit(table, **whole).n_features_in_ == len(COLUMNS)  # all else is given: the frame is of states


def test_regressions_are_fitted_to_frames_with_usual_names() -> None:
    table = pd.DataFrame({"x": X[:, 0], "y": Y, "instrument": np.ravel(INSTRUMENT)})
    model = de.IVRegressor(primal="linear", dual="linear")
    given = {"instruments": table[["instrument"]]}
    np.testing.assert_allclose(model.fit(table).coef_, model.fit(table[["x"]], table["y"], **given).coef_)


def test_a_column_that_seems_to_mark_ends_is_pointed_out() -> None:
    table = pd.DataFrame({**COLUMNS, "done": ROWS["terminated"]}).drop(columns="terminated")
    (told,) = evaluator().fit(table).diagnostics_.warnings
    assert told.startswith("the column 'done' is not used; if it is 1 where nothing follows, give that column as")


def episodes(*names: str) -> list[dict[str, np.ndarray]]:
    every = np.split(np.arange(len(ROWS["states"])), len(ROWS["states"]) // STEPS)
    return [{name: ROWS[name][rows] for name in names} for rows in every]


@pytest.mark.parametrize("form", [dict, pd.DataFrame, pl.DataFrame])
def test_a_list_of_episodes_stands_for_all(form: Any) -> None:
    model = evaluator().fit([form(each) for each in episodes("states", "rewards", "terminated")])
    np.testing.assert_array_equal(values(model), values(expected()))


@pytest.mark.parametrize("form", [pd.DataFrame, pl.DataFrame, pa.table])
def test_policies_and_sets_get_of_a_list_of_frames_what_one_frame_gives(form: Any) -> None:
    listed = [form(each) for each in episodes("states", "actions", "rewards")]
    whole = form({name: ROWS[name] for name in ("states", "actions", "rewards", "episodes")})
    seen: list[Any] = []

    def policy(states: Any) -> np.ndarray:
        seen.append((type(states), len(states)))
        return np.full((len(states), 2), 0.5)

    values = [de.ActionValueEvaluator(0.8, policy, **small()).fit(given).value().value for given in (listed, whole)]
    assert values[0] == values[1]
    half = len(seen) // 2
    assert seen[:half] == seen[half:]
    assert {kind for kind, _ in seen} == {type(listed[0])}


def test_a_list_of_frames_has_the_columns_that_policies_name() -> None:
    listed = [pd.DataFrame({**each, "p_0": 0.25, "p_1": 0.75}) for each in episodes("states", "actions", "rewards")]
    named = de.ActionValueEvaluator(0.8, "p_*", **small()).fit(listed).value()
    asked = de.ActionValueEvaluator(0.8, lambda s: np.tile([0.25, 0.75], (len(s), 1)), **small()).fit(listed).value()
    assert named.value == pytest.approx(asked.value)


def test_a_mark_may_be_one_for_the_episode_and_states_one_more_than_rewards() -> None:
    ended = [
        {**each, "terminated": bool(each["terminated"][-1])} for each in episodes("states", "rewards", "terminated")
    ]
    np.testing.assert_array_equal(values(evaluator().fit(ended)), values(expected()))
    cut = [{**each, "rewards": each["rewards"][:-1]} for each in episodes("states", "rewards")]
    rows = {name: ROWS[name] for name in ("states", "rewards", "episodes")}
    np.testing.assert_array_equal(values(evaluator().fit(cut)), values(evaluator().fit(**rows)))


def test_a_list_of_paths_is_enough_for_hitting_times() -> None:
    model = de.HittingTimeRegressor(lambda s: s[:, 0] > 1, **small())
    paths = [each["states"][:, None] for each in episodes("states")]
    by_labels = values(model.fit(ROWS["states"], episodes=ROWS["episodes"]))
    np.testing.assert_array_equal(values(model.fit(paths)), by_labels)
    with pytest.raises(de.InputError, match="the data have no rewards, which PolicyEvaluator needs"):
        evaluator().fit(paths)


def test_episodes_as_objects_of_other_libraries_are_a_log() -> None:
    listed = [
        SimpleNamespace(observations=each["states"], actions=each["actions"], rewards=each["rewards"], terminated=True)
        for each in episodes("states", "actions", "rewards")
    ]
    assert evaluator().fit(listed).diagnostics_.rows == len(ROWS["states"])


def test_episodes_with_other_columns_are_refused() -> None:
    listed = episodes("states", "rewards")
    del listed[3]["rewards"]
    with pytest.raises(de.InputError, match="episode 3 has states, but episode 0 states, rewards"):
        evaluator().fit(listed)


@pytest.mark.parametrize(
    ("estimator", "arguments", "words"),
    [
        (de.PolicyEvaluator(), (X,), "needs rewards too; give all of it, as in fit(states, rewards, episodes=...)"),
        (de.PolicyEvaluator(), (), "PolicyEvaluator needs states and rewards; give all of it"),
        (de.PolicyEvaluator(), (STRANGE,), "called 'state' and 'reward' (there are place, gain)"),
        (de.ActionValueEvaluator(), (X, Y), "needs rewards too; give all of it, as in fit(states, actions, rewards,"),
        (de.HittingTimeRegressor(lambda s: s), (), "HittingTimeRegressor needs states; give all of it"),
        (de.IVRegressor(), (X,), "IVRegressor needs y too; give all of it, as in fit(X, y)"),
        (de.IVRegressor(), (pd.DataFrame({"price": [0.0]}),), "called 'x' and 'y' (there are price)"),
        (de.InvariantRegressor("noise"), (X,), "InvariantRegressor needs y too"),
    ],
)  # fmt: skip
def test_what_is_missing_is_said_in_one_sentence_with_an_example(estimator: Any, arguments: Any, words: str) -> None:
    with pytest.raises(de.InputError, match=re.escape(words)):
        estimator.fit(*arguments)


def test_rows_as_dictionaries_are_a_table() -> None:
    rows = pd.DataFrame(COLUMNS).to_dict("records")
    np.testing.assert_array_equal(values(evaluator().fit(rows)), values(expected()))
    del rows[5]["reward"]
    with pytest.raises(de.InputError, match="row 5 has other names than row 0"):
        evaluator().fit(rows)


def test_names_of_columns_and_of_targets_are_no_columns_and_no_targets() -> None:
    with pytest.raises(de.InputError, match="states must be a table, not the text 'pulse'; give its columns"):
        evaluator().fit("pulse", "score")
    with pytest.raises(de.InputError, match=r"give a function of states, or data.condition\('x0 > 1', \['x0'\]\)"):
        de.HittingTimeRegressor("x0 > 1").fit(ROWS["states"], episodes=ROWS["episodes"])


def test_pairs_of_arrays_get_the_sentence_of_what_is_missing() -> None:
    with pytest.raises(de.InputError, match="PolicyEvaluator needs rewards too"):
        evaluator().fit([(np.zeros((5, 1)), np.zeros(5)), (np.ones((4, 1)), np.zeros(4))])


def test_frames_with_own_names_and_marks_that_tell_no_end_get_a_sentence() -> None:
    with pytest.raises(
        de.InputError, match="a list of frames must have columns called state and reward, but there are"
    ):
        evaluator().fit([STRANGE, STRANGE])
    done = {"state": ROWS["states"], "reward": ROWS["rewards"], "done": ROWS["terminated"]}
    with pytest.raises(de.InputError, match=r"of 'done', it does not tell an end from a time limit.*terminated= and"):
        evaluator().fit(pd.DataFrame(done))
