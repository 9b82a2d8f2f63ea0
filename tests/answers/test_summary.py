"""A fit says one thing, once: the answer to what was asked, in text, as JSON and as a frame."""

from __future__ import annotations

import copy
import functools
import html
import json
import sys
from typing import Any

import numpy as np
import pytest

import dualembed as de
from dualembed.answers import Summary

ROWS = 240
SMALL = {"primal": "linear", "dual": "linear"}


@functools.cache
def columns() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    state = rng.uniform(size=ROWS)
    return {
        "state": state,
        "next": np.clip(0.5 * state + 0.5 * rng.uniform(size=ROWS), 0, 1),
        "action": rng.integers(2, size=ROWS),
        "x": state + 0.3 * rng.normal(size=ROWS),
        "noise": rng.normal(size=ROWS),
        "episode": np.arange(ROWS) // 12,
    }


def even(states: Any) -> np.ndarray:
    return np.full((len(states), 2), 0.5)


def fitted(name: str, order: Any = slice(None), **more: Any) -> tuple[Any, dict[str, Any]]:
    """(an estimator, what it is fitted to), rows in some order."""
    data = {key: column[order] for key, column in columns().items()}
    moves = {"states": data["state"], "next_states": data["next"]}
    episodes = {"episodes": data["episode"]}
    table = np.stack([data["x"], data["noise"]], axis=1)
    y = data["x"] + 0.1 * data["noise"]
    actions = {"actions": data["action"], "rewards": data["action"] + 0.1 * data["noise"]}
    made: dict[str, tuple[Any, dict[str, Any]]] = {
        "value": (de.PolicyEvaluator(0.5, **SMALL), {**moves, "rewards": data["state"], **episodes}),
        "value without episodes": (de.PolicyEvaluator(0.5, **SMALL), {**moves, "rewards": data["state"]}),
        "actions": (de.ActionValueEvaluator(0.5, even, **SMALL), {**moves, **actions, **episodes}),
        "actions of another": (
            de.ActionValueEvaluator(0.5, **SMALL),
            {**moves, **actions, "next_actions": 1 - data["action"]},
        ),
        "time": (de.HittingTimeRegressor(lambda s: s[:, 0] > 0.8, **SMALL), moves),
        "committor": (de.CommittorRegressor(lambda s: s[:, 0] < 0.2, lambda s: s[:, 0] > 0.8, **SMALL), moves),
        "average": (de.StationaryAverage(**SMALL), {**moves, "observable": data["x"]}),
        "control": (
            de.LinearControl(**SMALL),
            {**moves, "costs": np.full(ROWS, 0.1), "terminal": data["next"] > 0.8},
        ),
        "effect": (
            de.IVRegressor(**SMALL),
            {"X": table, "y": y, "instruments": np.stack([data["state"], data["noise"]], 1)},
        ),
        "regression": (de.IVRegressor(**SMALL), {"X": table, "y": y}),
        "invariant": (de.InvariantRegressor("noise", 3, **SMALL), {"X": table, "y": y}),
        "class": (de.InvariantClassifier("noise", 3, **SMALL), {"X": table, "y": y > 0.5}),
    }
    estimator, given = made[name]
    return estimator.set_params(**more).fit(**given), given


@functools.cache
def summary(name: str) -> Summary:
    found: Summary = fitted(name)[0].summary()
    return found


HEADLINES = {
    "value": "the policy's value over the starts of episodes",
    "value without episodes": "the value V(s) at a typical row (state = 0.",
    "actions": "the policy's value over the starts of episodes",
    "actions of another": "the policy's value over the next states of the data",
    "time": "the mean time to the target from the states of the data outside it",
    "committor": "the probability of B before A from the states of the data outside both",
    "average": "the long-run mean of the observable",
    "control": "the desirability z(s) at a typical row (state = 0.",
    "effect": "the effect on y when x0 moves from 0 to 1 (one unit)",
    "regression": "the change of the mean of y when x0 moves from 0 to 1 (one unit)",
    "invariant": "the prediction at a typical row (x0 = 0.",
    "class": "the probability of class True at a typical row (x0 = 0.",
}


@pytest.mark.parametrize("name", HEADLINES)
def test_the_headline_is_what_was_asked_for_and_no_mean_of_f(name: str) -> None:
    found = summary(name)
    assert found.headline.question.startswith(HEADLINES[name])
    assert np.isfinite(found.headline.value)
    assert found.headline.value != found.to_dict()["answer"]["mean"]["value"] or name in ("time", "committor")


@pytest.mark.parametrize("name", HEADLINES)
def test_text_json_frame_and_card_have_the_same_headline(name: str) -> None:
    model, _ = fitted(name)
    found = model.summary()
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False, default=float))
    assert document["headline"]["value"] == pytest.approx(found.headline.value)
    frame = found.tidy()
    assert frame["question"][0] == found.headline.question
    assert frame["value"][0] == found.headline.value
    assert len(frame) == len(found.answers)
    assert str(found).startswith(f"{found.headline.title} is {found.headline.text()}")
    assert found.headline.title.partition(" (")[0] in html.unescape(model._repr_html_())


def test_without_pandas_the_frame_is_of_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert summary("effect").tidy().column_names[:2] == ["question", "value"]


def test_it_is_computed_once_and_anew_after_another_fit() -> None:
    model, given = fitted("value")
    first = model.summary()
    assert model.summary() is first
    model.partial_fit(**given)
    assert model.summary() is not first
    assert model.summary().rows == 2 * ROWS
    assert model.fit(**given).summary().headline == first.headline


@pytest.mark.parametrize("name", ["effect", "time", "control", "actions of another"])
def test_the_order_of_rows_changes_nothing(name: str) -> None:
    order = np.random.default_rng(1).permutation(ROWS)
    again = fitted(name, order)[0].summary()
    assert again.headline.question == summary(name).headline.question
    for one, other in zip(again.answers, summary(name).answers, strict=True):
        assert one.value == pytest.approx(other.value, rel=1e-6, abs=1e-9)


def test_what_moving_columns_does_is_the_coefficient_of_a_line() -> None:
    model, _ = fitted("effect")
    values = [answer.value for answer in model.summary().findings.answers]
    np.testing.assert_allclose(values, model.coef_, rtol=1e-6)


def test_each_action_has_a_value_with_an_error() -> None:
    first, second = summary("actions").findings.answers
    assert (first.question, second.question) == ("0", "1")
    assert second.value - first.value == pytest.approx(1.0, abs=0.05)  # its reward, for what follows is the same
    assert first.stderr > 0


def test_no_end_of_a_time_is_below_the_shortest_step() -> None:
    lower, _ = summary("time").headline.interval(0.999999)
    assert lower >= 1.0


def test_fits_without_errors_have_a_headline_without_one() -> None:
    model, _ = fitted("value")
    bare = copy.copy(model)
    bare.uncertainty_ = bare._headline_answer = bare._summary = None
    found = bare.summary()
    assert found.headline.value == pytest.approx(model.value().value)
    assert found.to_dict()["headline"]["stderr"] is None
    assert "±" not in str(found).partition("\n")[0]


def test_models_saved_without_rows_speak_of_the_middle_of_the_data() -> None:
    older = copy.copy(fitted("control")[0])
    older.sample_ = older._summary = None
    assert older.summary().headline.question.startswith("the desirability z(s) at the middle of the data (state = ")


def test_rows_that_come_later_are_part_of_what_is_asked_over() -> None:
    model, given = fitted("invariant")
    model.partial_fit(given["X"] + 10.0, given["y"])
    assert model.sample_.seen == 2 * ROWS
    assert 0.4 < np.mean(model.sample_.rows[:, 0] > 5) < 0.6


def test_where_the_error_counts_the_noise_of_y_the_function_is_not_called_wrong() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    model = de.InvariantRegressor("noise", primal="linear", dual="linear").fit(X, X[:, 0] + 0.5 * rng.normal(size=300))
    found = model.summary()
    assert found.error is not None
    assert not found.is_wrong
    assert "The noise of y is a part of it" in str(found)
    assert "still wrong" not in str(found)
