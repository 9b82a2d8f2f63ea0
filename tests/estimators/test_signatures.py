"""One signature for each estimator; older forms, other libraries' names and whole logs are understood."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest
from tests.estimators.cases import INSTRUMENT, NEXT, STATE, X, Y, even, small

import dualembed as de
from dualembed import estimators
from dualembed.data.roles import ROLES
from dualembed.data.table import Table

CLASSES = [getattr(estimators, name) for name in estimators.__all__]
ORDER = ("terminated", "truncated", "importance_weights", "groups", "episodes", "time")
ENDS = (np.arange(len(STATE)) % 10 == 9).astype(float)
EPISODES = np.arange(len(STATE)) // 10


def evaluator() -> de.PolicyEvaluator:
    return de.PolicyEvaluator(0.8, **small())


def same(first: Any, second: Any) -> None:
    np.testing.assert_array_equal(first.predict([0.0, 1.0]), second.predict([0.0, 1.0]))


@pytest.mark.parametrize("estimator", CLASSES)
def test_optional_arguments_are_roles_by_name_in_one_order(estimator: Any) -> None:
    given = inspect.signature(estimator.fit).parameters
    assert {*given} - {"self"} <= {*ROLES, "missing"}
    optional = [name for name, each in given.items() if each.kind is inspect.Parameter.KEYWORD_ONLY]
    listed = [name for name in optional if name in ORDER]
    assert listed == sorted(listed, key=ORDER.index)
    first = [each for each in given.values() if each.default is not inspect.Parameter.empty]
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY or each.name in PLACED for each in first)


PLACED = ("next_states", "terminal", "terminal_costs")  # that may be left out, or follow what may, but have a place


def test_what_was_once_given_by_place_is_given_by_name() -> None:
    expected = evaluator().fit(STATE, STATE, NEXT, terminated=ENDS, episodes=EPISODES)
    with pytest.warns(FutureWarning, match="terminated=, importance_weights=, episodes= by place is deprecated"):
        same(evaluator().fit(STATE, STATE, NEXT, ENDS, None, EPISODES), expected)
    model = de.IVRegressor(primal="linear", dual="linear")
    with pytest.warns(FutureWarning, match="instruments= by place"):
        np.testing.assert_array_equal(model.fit(X, Y, INSTRUMENT).coef_, model.fit(X, Y, instruments=INSTRUMENT).coef_)
    with pytest.warns(FutureWarning, match="instruments= by place"):
        assert model.error(X, Y, INSTRUMENT) == model.error(X, Y, instruments=INSTRUMENT)
    with pytest.raises(TypeError):
        evaluator().fit(STATE, STATE, NEXT, ENDS, None, EPISODES, EPISODES)


def test_the_warning_is_about_the_line_that_calls() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluator().fit(STATE, STATE, NEXT, ENDS)
        evaluator().partial_fit(STATE, STATE, NEXT, weights=np.ones(len(STATE)))
    assert [each.filename for each in caught] == [__file__, __file__]


def test_names_of_other_libraries_are_understood() -> None:
    expected = evaluator().fit(STATE, STATE, NEXT, terminated=ENDS)
    same(evaluator().fit(observations=STATE, rewards=STATE, new_obs=NEXT, terminals=ENDS), expected)
    same(de.PolicyEvaluator(gamma=0.8, **small()).fit(STATE, STATE, NEXT, terminated=ENDS), expected)
    assert de.PolicyEvaluator(gamma=0.8).get_params()["discount"] == 0.8
    with pytest.warns(FutureWarning, match="weights= is deprecated; use importance_weights="):
        evaluator().fit(STATE, STATE, NEXT, weights=np.ones(len(STATE)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dones": ENDS}, "takes no dones: it does not tell an end from a time limit"),
        (
            {"pscore": ENDS, "target_probabilities": ENDS},
            "propensities must be above 0, since the logged actions were taken, but are not in",
        ),
        ({"terminated": ENDS, "terminals": ENDS}, "terminals is another name of terminated; give one of them"),
    ],
)
def test_names_that_mean_something_else_get_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(de.InputError, match=words):
        evaluator().fit(STATE, STATE, NEXT, **options)


def test_strange_names_are_refused_as_python_does() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        evaluator().fit(STATE, STATE, NEXT, colour=1)
    with pytest.raises(TypeError):
        de.PolicyEvaluator(colour=1)


def test_a_log_is_fitted_to_as_a_whole() -> None:
    log = {"state": STATE, "action": ENDS, "reward": STATE, "next_state": NEXT, "terminated": ENDS, "episode": EPISODES}
    expected = evaluator().fit(STATE, STATE, NEXT, terminated=ENDS, episodes=EPISODES)
    same(evaluator().fit(log), expected)
    same(evaluator().partial_fit(Table.whole(log)), expected)
    assert evaluator().fit(log).error(log) == expected.error(log)
    assert de.ActionValueEvaluator(0.5, even, **small()).fit({**log, "action": EPISODES % 3}).value().stderr > 0
    assert de.HittingTimeRegressor(lambda s: s[:, 0] > 0.5, **small()).fit(log).arrivals_ > 0
    with pytest.raises(de.InputError, match="the data have no costs, which LinearControl needs"):
        de.LinearControl().fit(log)
    fitted = de.LinearControl(**small()).fit(log, costs=np.full(len(STATE), 0.1), terminal=ENDS)
    assert fitted.diagnostics_.rows == len(STATE)


def test_next_states_that_are_left_out_are_those_of_the_next_row() -> None:
    path = np.cumsum(np.random.default_rng(0).normal(size=200))
    labels = np.arange(200) // 20
    inside = np.arange(200) % 20 < 19
    expected = evaluator().fit(path[inside], path[inside], path[1:][inside[:-1]], episodes=labels[inside])
    same(evaluator().fit(path, path, episodes=labels), expected)


def test_groups_cluster_errors_and_episodes_say_where_to_start() -> None:
    by_episode = evaluator().fit(STATE, STATE, NEXT, episodes=EPISODES)
    by_group = evaluator().fit(STATE, STATE, NEXT, groups=EPISODES)
    np.testing.assert_allclose(*(each.predict([0.0], return_std=True)[1] for each in (by_episode, by_group)))
    with pytest.raises(de.InputError, match="initial_states must be given"):
        by_group.value()
    coarse = evaluator().fit(STATE, STATE, NEXT, episodes=EPISODES, groups=EPISODES // 10)
    assert coarse.value().value == pytest.approx(by_episode.value().value, rel=0.1)
    assert coarse.predict([0.0], return_std=True)[1] != by_episode.predict([0.0], return_std=True)[1]


def test_one_schema_has_all_codings() -> None:
    model = de.IVRegressor(primal="linear", dual="linear").fit(X, Y, instruments=INSTRUMENT)
    assert {*model.schema_.codings} == {"X", "instruments"}
    assert (model.schema_.names, model.schema_.digest) == ({}, None)
    assert [name for name in vars(model) if "coding" in name or name in ("instruments_", "controls_")] == []
    assert model.columns_ is None


def test_a_parameter_under_two_names_is_refused() -> None:
    with pytest.raises(de.InputError, match="gamma is another name of discount; give one of them"):
        de.PolicyEvaluator(discount=0.9, gamma=0.8)


def test_an_argument_that_is_not_there_is_answered_with_the_nearest() -> None:
    states = np.arange(10.0)
    with pytest.raises(
        TypeError, match=r"PolicyEvaluator got an unexpected keyword argument 'episode'; did you mean 'episodes'\?"
    ):
        de.PolicyEvaluator().fit(states, states, states, episode=states)


def test_times_written_as_text_are_in_the_order_of_numbers() -> None:
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.normal(size=60))
    given = {"episodes": np.repeat([0, 1, 2, 3, 4], 12), "time": np.tile(np.arange(12), 5)}
    small = {"primal": "linear", "dual": "linear"}
    numbers = de.PolicyEvaluator(0.5, **small).fit(states, states, **given)
    text = de.PolicyEvaluator(0.5, **small).fit(states, states, **{**given, "time": given["time"].astype(str)})
    np.testing.assert_allclose(numbers.predict(states), text.predict(states))
