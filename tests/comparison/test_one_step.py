"""Policies of one-step decisions: the formulas themselves, intervals that cover known truths, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dualembed as de
from dualembed.baselines.off_policy import clustered
from dualembed.comparison.one_step import _scores
from dualembed.data.propensities import estimate_propensities

ROWS = 400


def shares(states: np.ndarray) -> np.ndarray:
    """How the log chooses: the second action more often the larger the first column."""
    second = np.clip(1 / (1 + np.exp(-states[:, 0])), 0.15, 0.85)
    return np.column_stack([1 - second, second])


def bandit(seed: int, rows: int = ROWS) -> dict[str, np.ndarray]:
    """Two actions, of which the second is worth 1 + s0 more."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(rows, 2))
    odds = shares(states)
    actions = (rng.random(rows) < odds[:, 1]).astype(int)
    rewards = states[:, 1] + actions * (1 + states[:, 0]) + 0.5 * rng.normal(size=rows)
    return {"states": states, "actions": actions, "rewards": rewards, "propensities": odds[np.arange(rows), actions]}


def steep(states: np.ndarray) -> np.ndarray:
    second = np.where(states[:, 0] > 0, 0.9, 0.1)
    return np.column_stack([1 - second, second])


# Means over normal states: E[second (1 + s0)], with E[s0; s0 > 0] = 1 / sqrt(2 pi).
TRUTHS = {"steep": 0.5 + 0.8 / np.sqrt(2 * np.pi), "second": 1.0}
POLICIES: dict[str, Any] = {"steep": steep, "second": lambda states: np.ones(len(states), dtype=int), "logged": None}


@pytest.fixture(scope="module")
def comparison() -> Any:
    log = bandit(0)
    return de.compare(log, {**POLICIES, "table": steep(log["states"])})


def test_inverse_propensities_are_the_formulas_own(comparison: Any) -> None:
    log = bandit(0)
    wanted = {"steep": steep(log["states"])[np.arange(ROWS), log["actions"]], "second": 1.0 * (log["actions"] == 1)}
    for name, chance in wanted.items():
        weights = chance / log["propensities"]
        paid = weights * log["rewards"]
        found = comparison.estimates[name]
        assert found["IPW"].value == pytest.approx(paid.mean(), abs=1e-12)
        assert found["IPW"].stderr == pytest.approx(paid.std(ddof=1) / np.sqrt(ROWS), rel=1e-10)
        assert found["self-normalised IPW"].value == pytest.approx(paid.sum() / weights.sum(), abs=1e-12)
    assert comparison.estimates["logged"]["mean of rewards"].value == pytest.approx(log["rewards"].mean())


def test_answers_of_all_kinds_are_near_the_truth(comparison: Any) -> None:
    for name, truth in TRUTHS.items():
        low, high = comparison.values[name].interval(0.999)
        assert low < truth < high
        for found in comparison.estimates[name].values():
            assert abs(found.value - truth) < 4 * found.stderr


def test_the_debiased_answer_is_surer_than_weights_alone(comparison: Any) -> None:
    for name in TRUTHS:
        assert comparison.values[name].stderr < 0.9 * comparison.estimates[name]["IPW"].stderr


def test_intervals_of_scores_cover_in_repeated_logs() -> None:
    """With a line for each action, fitted without the row's group, 95 % intervals cover in 186 to 198 of 200 logs."""
    covered = 0
    for seed in range(200):
        log = bandit(seed, 150)
        groups, lines = np.arange(150) % 5, np.column_stack([np.ones(150), log["states"]])
        predicted = np.zeros((150, 2))
        for group in range(5):
            for action in range(2):
                rows = (groups != group) & (log["actions"] == action)
                weights = np.linalg.lstsq(lines[rows], log["rewards"][rows], rcond=None)[0]
                predicted[groups == group, action] = lines[groups == group] @ weights
        odds, taken = steep(log["states"]), (np.arange(150), log["actions"])
        ratios, direct = odds[taken] / log["propensities"], np.sum(odds * predicted, axis=1)
        scores = _scores(log["rewards"], ratios, predicted[taken], direct, groups)
        covered += abs(scores.mean() - TRUTHS["steep"]) < 1.96 * clustered(scores, np.arange(150))
    assert 180 <= covered <= 199


def test_scores_hardly_use_a_model_that_is_noise() -> None:
    rng = np.random.default_rng(0)
    rewards, ratios, groups = rng.normal(size=2000), rng.choice([0.0, 2.0], size=2000), np.arange(2000) % 10
    noise = 5 * rng.normal(size=2000)
    plain = _scores(rewards, ratios, np.zeros(2000), np.zeros(2000), groups)
    assert _scores(rewards, ratios, noise, np.zeros(2000), groups).std() < 1.05 * plain.std()
    assert _scores(rewards, ratios, rewards - 0.1 * noise, np.zeros(2000), groups).std() < 0.6 * plain.std()


def test_estimated_propensities_stand_in_for_logged_ones() -> None:
    log = bandit(0)
    del log["propensities"]
    found = de.compare(log, {"steep": steep})
    answer = found.values["steep"]
    assert abs(answer.value - TRUTHS["steep"]) < 4 * answer.stderr
    assert set(found.estimates["steep"]) == {
        "IPW, estimated propensities",
        "self-normalised IPW, estimated propensities",
        "direct",
    }


def test_propensities_are_estimated_anew_without_each_group() -> None:
    log = bandit(0)
    found = estimate_propensities(log["states"], log["actions"], folds=4)
    assert found.replicates is not None
    assert found.groups is not None
    kept = found.groups != 2
    assert np.any(found.replicates[2][kept] != found.values[kept])
    assert np.mean(np.abs(found.replicates[2][kept] - log["propensities"][kept])) < 0.09


def test_actions_may_be_labels_and_policies_tables_of_them(comparison: Any) -> None:
    log = bandit(0)
    odds = steep(log["states"])
    named = {**log, "actions": np.array(["go", "stay"])[log["actions"]]}
    frame = pd.DataFrame({"stay": odds[:, 1], "go": odds[:, 0]})
    first = de.compare(named, {"steep": frame})
    for found, wanted in zip(first.estimates["steep"].values(), comparison.estimates["table"].values(), strict=True):
        assert found.value == pytest.approx(wanted.value)


@pytest.mark.parametrize(
    ("change", "policies", "message"),
    [
        ({"actions": np.linspace(0, 1, ROWS)}, {"a": steep}, "put actions that are measured into bins"),
        ({"propensities": np.zeros(ROWS)}, {"a": steep}, "must be above 0 and at most 1, not 0 as in row 0"),
        ({}, {"a": lambda s: np.full((len(s), 2), 0.6)}, "sum to one"),
        ({}, {"a": np.full((3, 2), 0.5)}, f"in each of {ROWS} rows, but gave 3"),
        ({}, {"a": "p_*"}, "'p_\\*' matches no column"),
        ({"rewards": None}, {"a": steep}, "log must have rewards"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(change: Any, policies: Any, message: str) -> None:
    with pytest.raises(de.InputError, match=message):
        de.compare({**bandit(0), **change}, policies)


def test_action_values_of_one_step_need_no_next_states() -> None:
    log = bandit(0)
    model = de.ActionValueEvaluator(0.0, steep).fit(log["states"], log["actions"], log["rewards"])
    found = model.value()
    assert abs(found.value - TRUTHS["steep"]) < 4 * found.stderr
    gain = model.predict([[1.0, 0.0], [1.0, 0.0]], [0, 1])
    assert gain[1] - gain[0] == pytest.approx(2.0, abs=0.6)


def test_policies_of_actions_that_were_never_taken_are_refused() -> None:
    log = bandit(0, 60)
    third = np.tile([0.0, 0.0, 1.0], (60, 1))
    columns = {"states": log["states"], "actions": log["actions"], "rewards": log["rewards"]}
    with pytest.raises(de.InputError, match="takes the action 2, which the log never shows"):
        de.ActionValueEvaluator(0.0, third).fit(**columns)
    with pytest.raises(de.InputError, match="never takes a logged action"):
        de.compare(log, {"other": 1 - log["actions"]})


def test_the_feedback_of_a_bandit_is_the_log_that_it_is() -> None:
    """OBP's dictionary, what `data.log` made of it, and our own columns are one log; so are policies in OBP's form."""
    log = bandit(0)
    feedback = {"context": log["states"], "action": log["actions"], "reward": log["rewards"]}
    feedback["pscore"] = log["propensities"]
    table = steep(log["states"])
    wanted = str(de.compare(log, {"new": table}))
    assert "self-normalised IPW" in wanted
    for given in (feedback, de.data.log(feedback)):
        for policy in (steep, table, table[:, :, None]):
            assert str(de.compare(given, {"new": policy})) == wanted
    asked = de.ActionValueEvaluator(0.9, steep, primal="linear").fit(feedback).value()
    assert de.ActionValueEvaluator(0.9, table[:, :, None], primal="linear").fit(feedback).value().value == asked.value


def test_a_policy_of_several_positions_is_that_of_each_row_s_own() -> None:
    log, place = bandit(0), np.arange(ROWS) % 3
    feedback = {"context": log["states"], "action": log["actions"], "reward": log["rewards"], "position": place}
    feedback["pscore"] = log["propensities"]
    rng = np.random.default_rng(0)
    tables = rng.dirichlet(np.ones(2), size=(ROWS, 3)).transpose(0, 2, 1)
    own = tables[np.arange(ROWS), :, place]
    assert str(de.compare(feedback, {"new": tables})) == str(de.compare(feedback, {"new": own}))
    with pytest.raises(de.InputError, match="at 3 positions, but the log does not say which"):
        de.compare({**feedback, "position": None}, {"new": tables})
    with pytest.raises(de.InputError, match="position must be whole numbers from 0 to 2, not 3 as in row 0"):
        de.compare({**feedback, "position": place + 3}, {"new": tables})


def test_actions_that_the_log_never_shows_must_have_no_probability() -> None:
    log = bandit(0)
    two, without = steep(log["states"]), np.zeros((ROWS, 3))
    less = np.column_stack([two, without])
    assert de.compare(log, {"a": less}).values["a"].value == pytest.approx(
        de.compare(log, {"a": two}).values["a"].value
    )
    for policy in (np.full((ROWS, 5), 0.2), lambda states: np.full((len(states), 5), 0.2)):
        with pytest.raises(
            de.InputError, match="actions 2, 3, 4, which the log never shows \\(there are 0, 1\\); give"
        ):
            de.compare(log, {"a": policy})
    with pytest.raises(de.InputError, match="takes the action 2, which the log never shows"):
        de.compare(log, {"a": np.full(ROWS, 2)})


@pytest.mark.parametrize("logged", [True, False])
def test_one_policy_and_itself_differ_by_nothing(logged: bool) -> None:
    """Where propensities are estimated, too: what that changes is the same for both."""
    log = bandit(0)
    if not logged:
        del log["propensities"]
    near = 0.98 * steep(log["states"]) + 0.02 * shares(log["states"])
    found = de.compare(log, {"a": steep, "b": steep, "near": near})
    same = found.difference("a", "b")
    assert (same.value, same.stderr) == (0.0, 0.0)
    assert 0 < found.difference("a", "near").stderr < 0.1 * found.values["a"].stderr
