"""What the data hardly show is not called solid: unseen categories, constant columns, rare rewards, few episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dualembed as de

ROWS = 600
EPISODE = np.arange(ROWS) // 10
UNSEEN = "that no row of the data starts from"
FEW = "a handful of rows or of episodes carry"


def coin(states: Any) -> np.ndarray:
    return np.full((len(states), 2), 0.5)


def of_three(states: Any) -> np.ndarray:
    """Among three actions, the last of which it never takes."""
    return np.tile([0.5, 0.5, 0.0], (len(states), 1))


def steps(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """States, and next states that are half of them and noise."""
    rng = np.random.default_rng(seed)
    state = rng.normal(size=ROWS)
    return state, 0.5 * state + rng.normal(size=ROWS)


def said(answer: Any, words: str) -> bool:
    return any(words in warning for warning in answer.warnings)


def test_a_state_that_no_row_starts_from_has_no_answer(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    levels = np.array(list("abcd"))
    state, following = rng.choice(levels[:3], ROWS), rng.choice(levels, ROWS)
    model = de.PolicyEvaluator(0.8).fit(state, 1.0 * (state == "a"), following)
    de.save(model, tmp_path / "model.dualembed")
    for each in (model, de.load(tmp_path / "model.dualembed")):
        known, strange = each.ask(each.at(["a"])), each.ask(each.at(["d"]))
        assert (known.verdict, known.warnings) == ("solid", ())
        assert strange.verdict == "not answerable"
        assert said(strange, UNSEEN)
        assert strange.stderr > 2 * known.stderr
        assert strange.stderr == pytest.approx(each.predict(["d"], return_std=True)[1][0])
    model.partial_fit(np.full(60, "d"), np.zeros(60), rng.choice(levels, 60))
    assert not said(model.ask(model.at(["d"])), UNSEEN)


def test_an_action_that_is_never_taken_has_no_answer_and_policies_that_take_it_are_refused() -> None:
    state, following = steps()
    action = np.arange(ROWS) % 2
    log = {"states": state, "actions": action, "rewards": state + action, "next_states": following, "episodes": EPISODE}
    for policy in (lambda states: np.full((len(states), 3), 1 / 3), lambda states: np.full(len(states), 2)):
        with pytest.raises(de.InputError, match="takes the action 2, which the log never shows \\(there are 0, 1"):
            de.ActionValueEvaluator(0.8, policy).fit(**log)
    model = de.ActionValueEvaluator(0.8, of_three).fit(**log)
    assert not said(model.ask(model.at([0.0], [1])), UNSEEN)
    ratios = model.density_ratio(np.zeros(3), np.arange(3))
    assert np.isnan(ratios).tolist() == [False, False, True]
    never = model.ask(model.at([0.0], [2]))
    assert (never.verdict, said(never, UNSEEN)) == ("not answerable", True)
    among = de.ActionValueEvaluator(0.8).fit(**log, next_actions=np.arange(ROWS) % 3)
    assert among.starts_ is not None
    mean = among.ask(among.starts_)
    assert mean.verdict != "solid"
    assert said(mean, "33% of what is asked about has a category")


def test_a_difference_of_policies_counts_what_is_guessed_of_either() -> None:
    rng = np.random.default_rng(0)
    state, following = rng.integers(3, size=(2, ROWS, 1))
    action = rng.integers(2, size=ROWS)
    action[state[:, 0] == 2] = 0
    log = {"states": state, "actions": action, "rewards": state[:, 0] + action, "next_states": following}
    policies = {"coin": coin, "first": lambda states: np.tile([1.0, 0.0], (len(states), 1))}
    found = de.compare({**log, "episodes": EPISODE}, policies, discount=0.8, categorical_features=[0])
    model = de.ActionValueEvaluator(0.8, coin, categorical_features=[0]).fit(**log, episodes=EPISODE)
    assert model.paths_ is not None
    share = 0.5 * np.mean(state[::10, 0] == 2)  # of starts, what no row shows
    assert found.difference("coin", "first").stderr > share * model.paths_.size


def test_a_pair_of_categories_that_is_never_seen_has_no_answer() -> None:
    rng = np.random.default_rng(0)
    state, action = rng.integers(3, size=ROWS), rng.integers(2, size=ROWS)
    action[state == 2] = 0
    model = de.ActionValueEvaluator(0.8, coin, categorical_features=[0])
    model.fit(state[:, None], action, 1.0 * state + action, rng.integers(3, size=ROWS)[:, None])
    assert model.ask(model.at([[1]], [1])).verdict == "solid"
    assert model.ask(model.at([[2]], [1])).verdict == "not answerable"


def test_another_value_of_a_constant_column_is_outside_with_an_error_that_grows() -> None:
    state, following = steps()
    with_constant = [np.stack([each, np.full(ROWS, 3.0)], axis=1) for each in (state, following)]
    model = de.PolicyEvaluator(0.8).fit(with_constant[0], state, with_constant[1], episodes=EPISODE)
    answers = [model.ask(model.at([[0.0, value]])) for value in (3.0, 3.3, 6.0, 60.0)]
    assert answers[0].verdict == "solid"
    assert all(each.verdict == "not answerable" and said(each, "outside the data") for each in answers[1:])
    errors = [each.stderr for each in answers]
    assert errors == sorted(errors)
    assert errors[1] > 3 * errors[0]
    assert errors[-1] > 5 * errors[2]
    assert model.value([[0.0, 6.0]]).stderr == pytest.approx(errors[2], rel=1e-6)
    low, high = model.interval([[0.0, 6.0]])
    assert high[0] - low[0] > 3 * errors[2]


def test_a_copy_that_is_no_copy_any_more_is_outside() -> None:
    state, following = steps()
    twice = [np.stack([each, each], axis=1) for each in (state, following)]
    model = de.HittingTimeRegressor(lambda states: np.asarray(states)[:, 0] > 1).fit(*twice)
    assert model.ask(model.at([[0.0, 0.0]])).verdict == "solid"
    assert model.ask(model.at([[0.0, 1.0]])).verdict == "not answerable"


def test_starts_that_are_not_there_are_refused_in_a_sentence() -> None:
    rng = np.random.default_rng(0)
    kind, following = rng.choice(["a", "b"], (2, ROWS))
    model = de.PolicyEvaluator(0.8).fit(kind, 1.0 * (kind == "a"), following)
    with pytest.raises(de.InputError, match="has the value 'z', which was not among those it was fitted with"):
        model.value(["z"])
    with pytest.raises(de.InputError, match="states have no rows; give at least one"):
        model.value(np.array([], dtype=str))


@pytest.mark.parametrize(
    ("episodes", "words"), [(1, "at the start of 1 episode alone"), (3, "the starts of 3 episodes")]
)
def test_few_episodes_say_little_of_where_others_start(episodes: int, words: str) -> None:
    state, following = steps()
    model = de.PolicyEvaluator(0.8).fit(state, state, following, episodes=np.arange(ROWS) * episodes // ROWS)
    assert model.value().verdict != "solid"
    assert said(model.value(), words)
    assert not said(model.ask(model.at([0.0])), words)


def walks(seed: int) -> np.ndarray:
    """A hundred paths of twenty steps, drawn back to 0."""
    rng = np.random.default_rng(seed)
    path = np.empty((100, 21))
    path[:, 0] = rng.normal(size=100)
    for step in range(20):
        path[:, step + 1] = 0.8 * path[:, step] + 0.6 * rng.normal(size=100)
    return path


def value_of(path: np.ndarray, reward: np.ndarray) -> Any:
    state, following = path[:, :-1].reshape(-1, 1), path[:, 1:].reshape(-1, 1)
    return de.PolicyEvaluator(0.9).fit(state, reward.ravel(), following, episodes=np.arange(2000) // 20).value()


def test_rewards_of_a_handful_of_rows_make_a_fragile_answer_and_ordinary_ones_do_not() -> None:
    for seed in range(2):
        path, rng = walks(seed), np.random.default_rng(seed)
        rare = np.zeros((100, 20))
        rare[rng.permutation(100)[:4], rng.integers(20, size=4)] = 1.0
        few = value_of(path, rare)
        assert few.verdict != "solid"
        assert said(few, FEW)
        assert not said(value_of(path, path[:, :-1] + rng.normal(size=(100, 20))), FEW)
        assert not said(value_of(path, 1.0 * (rng.random((100, 20)) < 0.1)), FEW)


def test_few_rows_may_carry_what_hardly_matters() -> None:
    """Beside a reward of one each step, a few rare ones change next to nothing."""
    path, rng = walks(0), np.random.default_rng(0)
    rare = np.ones((100, 20))
    rare[rng.permutation(100)[:4], rng.integers(20, size=4)] = 2.0
    answer = value_of(path, rare)
    assert answer.stderr < 0.05 * answer.value
    assert answer.verdict == "solid"


def test_rewards_that_never_vary_are_no_proof_that_none_do() -> None:
    path = walks(0)
    answer = value_of(path, np.zeros((100, 20)))
    assert (answer.value, answer.verdict) == (0.0, "fragile")
    assert said(answer, "all rewards are the same")


def test_no_answer_claims_more_than_six_digits() -> None:
    answer = value_of(walks(0), np.ones((100, 20)))
    assert answer.stderr >= 1e-6 * abs(answer.value) > 0


def test_where_all_fits_agree_it_does_not_matter_which_rows_say_so() -> None:
    """Without noise V(1) is a sum over 1, 0.9, 0.81, ..., which no smooth weights of rows are."""
    state = np.random.default_rng(0).uniform(-2, 2, size=ROWS)
    model = de.PolicyEvaluator(0.9).fit(state, np.cos(state), 0.9 * state)
    answer = model.ask(model.at([1.0]))
    truth = sum(0.9**k * np.cos(0.9**k) for k in range(400))
    assert abs(answer.value - truth) < 1e-5
    assert answer.stderr < 1e-4
    assert (answer.verdict, answer.warnings) == ("solid", ())
