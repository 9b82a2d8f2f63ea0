"""Estimators of transitions, each against a process whose answer is known; categories and names of their tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.estimators.cases import ACTION, EPISODE, NEXT, ROWS, STATE, above, fitted, small

import dualembed as de

RNG = np.random.default_rng(6)


def test_policy_evaluator_finds_the_known_value_and_its_error() -> None:
    model = de.PolicyEvaluator(0.8).fit(STATE, STATE, NEXT, episodes=EPISODE)
    truth = np.array([1.0, -1.0]) / 0.6
    values, errors = model.predict([1.0, -1.0], return_std=True)
    assert np.all(np.abs(values - truth) < 3 * errors)
    lower, upper = model.interval([1.0, -1.0], level=0.99)
    # Student's t with 9 degrees of freedom: ten groups of episodes are left out.
    np.testing.assert_allclose(upper - lower, 2 * 3.2498 * errors, rtol=1e-3)
    assert np.all((lower < truth) & (truth < upper))
    value = model.value([[1.0]])
    assert abs(value.value - truth[0]) < 3 * value.stderr
    assert model.value().interval()[0] < np.mean(STATE[::10]) / 0.6 < model.value().interval()[1]
    fresh = np.random.default_rng(1).normal(size=(2, ROWS))
    following = 0.5 * fresh[0] + fresh[1]
    error = model.bellman_error(fresh[0], fresh[0], following)
    assert error.value < 3 * error.stderr
    assert model.score(fresh[0], fresh[0], following) == -error.value
    right, wrong = (
        model.consistency_test(fresh[0], fresh[0], following, function=lambda s, slope=slope: slope * s[:, 0]).p_value
        for slope in (1 / 0.6, 1.2)
    )
    assert wrong < 0.01 < right
    scaled = de.PolicyEvaluator(0.8).fit(1000 * STATE, STATE, 1000 * NEXT)
    plain = de.PolicyEvaluator(0.8).fit(STATE, STATE, NEXT)
    expected = plain.predict(STATE)
    np.testing.assert_allclose(scaled.predict(1000 * STATE), expected, rtol=1e-6, atol=1e-6 * expected.std())


def test_action_values_of_a_known_process() -> None:
    # The reward is the action, and the policy takes 0, 1 and 2 equally often: Q = a + 0.5 · 1 / (1 - 0.5).
    model = fitted("action")
    values, errors = model.predict(np.zeros(3), [0, 1, 2], return_std=True)
    assert np.all(np.abs(values - np.array([1.0, 2.0, 3.0])) < np.maximum(3 * errors, 0.05))
    value = model.value(STATE[:50])
    assert abs(value.value - 2.0) < max(3 * value.stderr, 0.05)


def test_a_deterministic_policy_and_its_actions_are_the_same() -> None:
    def always(states: Any) -> np.ndarray:
        return np.full(len(states), 2)

    data = (STATE, ACTION, 1.0 * ACTION, NEXT)
    asked = de.ActionValueEvaluator(0.5, always, **small()).fit(*data)
    given = de.ActionValueEvaluator(0.5, **small()).fit(*data, next_actions=np.full(ROWS, 2))
    np.testing.assert_allclose(asked.predict(STATE[:5], ACTION[:5]), given.predict(STATE[:5], ACTION[:5]))


def test_continuous_actions_are_numbers() -> None:
    action = RNG.normal(size=(ROWS, 2))
    model = de.ActionValueEvaluator(0.5, lambda states: np.zeros((len(states), 2)), **small(3.0))
    model.fit(STATE, action, action.sum(axis=1), NEXT)
    assert abs(model.predict([0.0], [[1.0, 0.5]])[0] - 1.5) < 0.3


def test_hitting_times_of_a_known_process() -> None:
    rng = np.random.default_rng(2)
    state, following = rng.uniform(size=(2, ROWS))  # independent: h = 1 / P(s' > 0.5) = 2 everywhere
    model = de.HittingTimeRegressor(above, **small()).fit(state, following)
    values, errors = model.return_time([0.1, 0.4, 0.9], return_std=True)
    assert np.all(np.abs(values - 2) < np.maximum(3 * errors, 0.05))
    found, stds = model.predict([0.1, 0.4, 0.9], return_std=True)
    np.testing.assert_array_equal(found, [*values[:2], 0.0])
    np.testing.assert_array_equal(stds, [*errors[:2], 0.0])
    lower, upper = model.interval([0.1, 0.4, 0.9])
    assert np.all((lower[:2] < 2) & (upper[:2] > 2))
    assert lower[2] == upper[2] == 0


@pytest.mark.parametrize("duration", [1.0, 0.02])
def test_no_time_is_shorter_than_one_transition(duration: float) -> None:
    """A slow walk to 0.4, from where on one step leads to the target: straight lines dive below that step."""
    rng = np.random.default_rng(4)
    state = rng.uniform(size=ROWS)
    following = np.where(state > 0.4, 1.0, state + rng.uniform(0.0, 0.1, size=ROWS))
    arrived = lambda states: states[:, 0] > 0.9  # noqa: E731
    model = de.HittingTimeRegressor(arrived, primal="linear", dual="linear")
    model.fit(state, following, durations=None if duration == 1 else np.full(ROWS, duration))
    near = np.linspace(0.0, 0.9, 50)
    assert model._predicted(model.coding_.encode(near)).min() < duration
    assert model.predict(near).min() == pytest.approx(duration)
    lower, upper = model.interval(near)
    assert lower.min() == pytest.approx(duration)
    assert np.all(upper >= lower)


def test_times_of_return_are_known_where_rows_start_in_the_target_only() -> None:
    outside = STATE <= 0.5
    model = de.HittingTimeRegressor(above, **small()).fit(STATE[outside], NEXT[outside])
    assert model.predict([0.9]).tolist() == [0.0]
    np.testing.assert_array_equal(model.return_time([0.1]), model.predict([0.1]))
    with pytest.raises(de.InputError, match="no transition of the fit starts in the target"):
        model.return_time([0.1, 0.9])
    model.partial_fit(STATE, NEXT)
    assert model.return_time([0.9])[0] >= 1


def test_a_target_that_is_hardly_reached_is_warned_of() -> None:
    few = [np.flatnonzero(NEXT > 0.5)[:3], np.flatnonzero(NEXT <= 0.5)]
    rows = np.concatenate(few)
    model = de.HittingTimeRegressor(above, **small()).fit(STATE[rows], NEXT[rows])
    assert any("only 3 of" in each for each in model.diagnostics_.warnings)
    assert not any("end in the target" in each for each in model.partial_fit(STATE, NEXT).diagnostics_.warnings)


def test_hitting_times_of_labels() -> None:
    # left -> middle or right, both -> left: h(left) = 2 / P(right) - 1, and one step more from the others.
    rng = np.random.default_rng(3)
    state = rng.choice(["left", "middle", "right"], size=3000)
    following = np.where(state == "left", rng.choice(["middle", "right"], size=3000), "left")
    frame, after = pd.DataFrame({"place": state}), pd.DataFrame({"place": following})
    model = de.HittingTimeRegressor(["right"], primal="linear", dual="linear").fit(frame, after)
    asked = pd.DataFrame({"place": ["left", "middle", "right"]})
    share = np.mean(following[state == "left"] == "right")  # about 1/2; the rest is linear algebra
    np.testing.assert_allclose(model.predict(asked), [2 / share - 1, 2 / share, 0], rtol=1e-6)
    np.testing.assert_allclose(model.return_time(asked), [2 / share - 1, 2 / share, 2 / share], rtol=1e-6)


def test_desirability_of_a_known_process() -> None:
    rng = np.random.default_rng(2)
    state, following = rng.uniform(size=(2, ROWS))
    model = de.LinearControl(**small()).fit(state, np.full(ROWS, 0.1), following, following > 0.5)
    passing = 0.5 * np.exp(-0.1)
    np.testing.assert_allclose(model.predict([0.2, 0.8]), passing / (1 - passing), atol=0.05)
    np.testing.assert_allclose(model.cost_to_go([0.2]), -np.log(model.predict([0.2])))


def test_later_parts_need_not_reach_the_target_but_the_first_must() -> None:
    arrives = NEXT > 0.5
    with pytest.raises(de.InputError, match="target"):
        de.HittingTimeRegressor(above, **small()).partial_fit(STATE[~arrives], NEXT[~arrives])
    model = de.HittingTimeRegressor(above, **small()).fit(STATE, NEXT)
    before = model.predict(STATE).mean()
    model.partial_fit(STATE[~arrives], NEXT[~arrives])
    assert model.predict(STATE).mean() > before  # there is more that does not arrive
    assert model.equation_error(STATE[~arrives], NEXT[~arrives]).value > 0


def test_importance_weights_come_with_their_overlap() -> None:
    weights = np.where(RNG.uniform(size=ROWS) < 0.01, 100.0, 1e-3)
    model = de.PolicyEvaluator(0.8, **small()).fit(STATE, STATE, NEXT, importance_weights=weights)
    assert model.diagnostics_.overlap.effective_sample_size < 50
    assert model.diagnostics_.warnings


def test_functions_of_whole_numbers_see_whole_numbers() -> None:
    seen = []

    def table(states: np.ndarray) -> np.ndarray:
        seen.append(states)
        return np.zeros(len(states))

    rooms = RNG.integers(10, size=(2, 300)).astype(float)
    de.PolicyEvaluator(0.5).consistency_test(rooms[0], np.zeros(300), rooms[1], function=table)
    np.testing.assert_allclose(seen[0], np.round(seen[0]), atol=1e-12)


def test_targets_and_policies_see_states_by_the_names_of_the_fit() -> None:
    grid = pd.DataFrame(RNG.integers(3, size=(300, 2)), columns=["a", "b"]).astype(float)
    after = pd.DataFrame(RNG.integers(3, size=(300, 2)), columns=["a", "b"]).astype(float)
    by_place = de.HittingTimeRegressor([[1.0, 2.0]], **small()).fit(grid, after).predict(grid)
    by_name = de.HittingTimeRegressor([[1.0, 2.0]], **small()).fit(grid, after[["b", "a"]]).predict(grid)
    np.testing.assert_allclose(by_name, by_place)
    inside = lambda states: (states["a"] == 1) & (states["b"] == 2)  # noqa: E731
    renamed = de.HittingTimeRegressor(inside, **small()).fit(grid, after.add_prefix("next_")).predict(grid)
    np.testing.assert_allclose(renamed, by_place)
    policy = lambda states: (states["a"] > 1).astype(int)  # noqa: E731
    model = de.ActionValueEvaluator(0.5, policy, **small())
    model.fit(grid, RNG.integers(2, size=300), np.ones(300), after.add_prefix("next_"), episodes=np.arange(300) // 10)
    assert abs(model.value().value - 2) < 0.1


def test_costs_of_rows_that_go_on_do_not_matter() -> None:
    ends = NEXT > 0.5
    costs = np.where(ends, 0.0, np.nan)
    given = de.LinearControl(**small()).fit(STATE, np.full(ROWS, 0.1), NEXT, ends, costs).predict(STATE[:5])
    np.testing.assert_array_equal(given, fitted("control").predict(STATE[:5]))


def test_a_handful_of_episodes_is_warned_of() -> None:
    model = de.PolicyEvaluator(0.8, **small()).fit(STATE, STATE, NEXT, episodes=np.arange(ROWS) // 500)
    assert any("only 3 episodes" in each for each in model.diagnostics_.warnings)


def test_states_that_never_change_have_one_value() -> None:
    model = de.PolicyEvaluator(0.5).fit(np.ones(50), np.ones(50), np.ones(50))
    assert abs(model.predict([1.0])[0] - 2) < 0.05


def places(levels: str, rows: int = 300, rng: np.random.Generator = RNG) -> pd.DataFrame:
    return pd.DataFrame({"place": rng.choice(list(levels), size=rows), "speed": rng.normal(size=rows)})


def test_text_in_states_and_numbers_in_next_states_are_refused() -> None:
    states, following = places("abc"), places("abc").assign(place=RNG.integers(3, size=300))
    with pytest.raises(de.InputError, match=r"column place of states has text in one table, such as '[abc]', and num"):
        de.PolicyEvaluator(0.8, **small()).fit(states, np.zeros(300), following)
    model, labels = de.ActionValueEvaluator(0.8, **small()), RNG.choice(["stay", "go"], size=300)
    with pytest.raises(de.InputError, match="column action of actions has text in one table"):
        model.fit(states, labels, np.zeros(300), places("abc"), next_actions=RNG.integers(2, size=300))


def test_next_states_of_other_categories_are_refused_unless_nothing_follows_from_them() -> None:
    states, following, rewards = places("ab"), places("AB"), np.ones(300)
    model = de.PolicyEvaluator(0.5, **small())
    with pytest.raises(de.InputError, match="column place is A, B in next states, but a, b in states"):
        model.fit(states, rewards, following)
    model.fit(states, rewards, following, terminated=np.ones(300))
    assert model.diagnostics_.warnings == ()
    never = de.ActionValueEvaluator(0.5, lambda states: np.full(len(states), 2), **small())
    with pytest.raises(de.InputError, match="the policy takes the action 2, which the log never shows"):
        never.fit(states, RNG.integers(2, size=300), rewards, places("ab"))


def test_next_states_that_no_row_starts_from_are_warned_of() -> None:
    rng = np.random.default_rng(2)  # of its own, whatever ran before
    model = de.PolicyEvaluator(0.5, **small()).fit(places("ab", rng=rng), np.ones(300), places("abc", rng=rng))
    assert any("column place is c in some next states" in each for each in model.diagnostics_.warnings)
    model.fit(places("abc", rng=rng), np.ones(300), places("abc", rng=rng))
    assert model.diagnostics_.warnings == ()


def test_categories_that_are_numbers_keep_their_place_in_next_states_of_other_names() -> None:
    states = pd.DataFrame({"room": RNG.integers(4, size=300), "speed": RNG.normal(size=300)})
    following = states.sample(300, random_state=0).add_prefix("next_").reset_index(drop=True)
    model = de.PolicyEvaluator(0.5, categorical_features=["room"], **small()).fit(states, np.ones(300), following)
    assert model.coding_.columns[0].levels == (0, 1, 2, 3)
    with pytest.raises(de.InputError, match=r"column room has the value 0\.5"):
        model.bellman_error(states, np.ones(300), following.assign(next_room=0.5))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.where(np.arange(ROWS) == 5, np.nan, 1.0), "episodes lack a label in row 5"),
        (pd.Series([None] + ["a"] * (ROWS - 1), dtype="string"), "episodes lack a label in row 0"),
        ([1] + ["a"] * (ROWS - 1), None),
        (np.array([1] + ["a"] * (ROWS - 1), dtype=object), "episodes must be labels of one kind"),
    ],
)
def test_episodes_need_a_label_of_one_kind_in_every_row(labels: Any, words: str | None) -> None:
    model = de.PolicyEvaluator(0.8, **small())
    if words is None:
        model.fit(STATE, STATE, NEXT, episodes=labels)  # which NumPy reads as text
        return
    with pytest.raises(de.InputError, match=words):
        model.fit(STATE, STATE, NEXT, episodes=labels)


def test_marks_and_rewards_may_be_nullable_columns_without_gaps() -> None:
    ends = pd.Series(np.arange(ROWS) % 10 == 9)
    rewards = pd.Series(np.arange(ROWS))
    expected = de.PolicyEvaluator(0.8, **small()).fit(STATE, rewards, NEXT, terminated=ends).predict(STATE[:5])
    nullable = rewards.astype("Int64")
    found = (
        de.PolicyEvaluator(0.8, **small())
        .fit(STATE, nullable, NEXT, terminated=ends.astype("boolean"))
        .predict(STATE[:5])
    )
    np.testing.assert_array_equal(found, expected)
    nullable[4] = pd.NA
    with pytest.raises(de.InputError, match=r"rewards must be finite, but are NaN .* in row 4"):
        de.PolicyEvaluator(0.8, **small()).fit(STATE, nullable, NEXT)


def test_a_series_of_next_states_has_the_name_of_the_states_for_targets() -> None:
    far = lambda states: np.asarray(states).ravel() > 0.5  # noqa: E731
    states, following = pd.Series(STATE, name="place"), pd.Series(NEXT, name="next_place")
    model = de.HittingTimeRegressor(far, **small()).fit(states, following)
    np.testing.assert_array_equal(model.predict(states), fitted("hitting").predict(STATE))


@pytest.mark.parametrize("costs", [np.zeros(9), None, "free"])
def test_terminal_costs_that_will_not_do_are_named(costs: Any) -> None:
    with pytest.raises(de.InputError, match="terminal_costs must"):
        de.LinearControl(**small()).fit(STATE, np.zeros(ROWS), NEXT, NEXT > 0.5, costs)


def test_a_target_that_holds_everywhere_is_refused_in_one_sentence() -> None:
    with pytest.raises(de.InputError, match=r"the target holds in every state and next state of all \d+ rows"):
        de.HittingTimeRegressor(lambda s: s[:, 0] > -1e9).fit(STATE, NEXT)


def test_where_all_rows_begin_inside_the_target_the_summary_speaks_of_returns_alone() -> None:
    inside = STATE.ravel() > 0
    said = str(de.HittingTimeRegressor(lambda s: s[:, 0] > 0, **small()).fit(STATE[inside], NEXT[inside]).summary())
    assert said.startswith(
        "The mean time until the target is entered again, from the states of the data, all inside it, is"
    )
    assert f"All {inside.sum()} rows begin inside the target, where the hitting time itself is 0" in said
    assert "outside the target it is reached" not in said


def test_times_are_in_steps_or_in_the_unit_of_durations() -> None:
    model = de.HittingTimeRegressor(lambda s: s[:, 0] > 1, **small())
    assert "steps." in str(model.fit(STATE, NEXT).summary())
    timed = model.fit(STATE, NEXT, durations=np.full(len(STATE), 2.5))
    assert "steps." not in str(timed.summary())
    assert "in the unit of the durations." in str(timed.summary())
    assert "expected time from state s" in timed.task_.function
