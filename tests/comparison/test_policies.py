"""Several policies on one log: values, and differences whose errors are those of differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import dualembed as de

EPISODES, STEPS, DISCOUNT = 60, 12, 0.9


def log() -> dict[str, Any]:
    """A walk whose reward is the action's own, and noise that all policies meet alike."""
    rng = np.random.default_rng(0)
    state = rng.normal(size=(EPISODES, STEPS + 1))
    luck = np.repeat(rng.normal(size=EPISODES), STEPS)
    action = rng.integers(2, size=EPISODES * STEPS)
    return {
        "states": state[:, :-1].reshape(-1, 1),
        "actions": action,
        "rewards": action + luck,
        "next_states": state[:, 1:].reshape(-1, 1),
        "episodes": np.repeat(np.arange(EPISODES), STEPS),
    }


def taking(share: float) -> Any:
    return lambda states: np.tile([1 - share, share], (len(states), 1))


@pytest.fixture(scope="module")
def comparison() -> Any:
    policies = {"never": taking(0.0), "coin": taking(0.5), "always": taking(1.0)}
    return de.compare(log(), policies, discount=DISCOUNT)


def test_values_and_differences_are_those_on_paper(comparison: Any) -> None:
    for first, second, share in (("always", "never", 1.0), ("always", "coin", 0.5), ("coin", "never", 0.5)):
        found = comparison.difference(first, second)
        low, high = found.interval(0.99)
        assert low < share / (1 - DISCOUNT) < high
        assert found.value == pytest.approx(comparison.values[first].value - comparison.values[second].value)


def test_luck_that_policies_share_cancels_in_their_difference(comparison: Any) -> None:
    found = comparison.difference("always", "never")
    apart = np.hypot(comparison.values["always"].stderr, comparison.values["never"].stderr)
    assert found.stderr < 0.5 * apart


def test_the_other_way_round_it_is_the_same_with_another_sign(comparison: Any) -> None:
    there, back = comparison.difference("always", "never"), comparison.difference("never", "always")
    assert (back.value, back.stderr) == (-there.value, there.stderr)
    assert comparison.difference("coin", "coin").value == 0


def test_the_table_has_all_values_and_all_differences(comparison: Any) -> None:
    rows = comparison.table()
    assert [row["what"] for row in rows][:4] == ["never", "coin", "always", "never minus coin"]
    ours = [row for row in rows if row["estimator"] == "debiased"]
    assert len(ours) == 6
    assert all(row["lower"] < row["value"] < row["upper"] for row in rows)
    assert "coin minus always" in str(comparison)
    frame = comparison.tidy()
    assert len(frame) == len(rows)
    assert {"what", "estimator", "estimate", "std_error", "conf_low", "conf_high"} <= {*frame.columns}


def test_other_estimators_stand_beside_each_value(comparison: Any) -> None:
    for name in ("coin", "always"):
        others, truth = comparison.estimates[name], comparison.values[name]
        assert {"LSTD", "fitted Q"} < {*others}
        assert any(each.startswith("weighted importance sampling") for each in others)
        for found in (others["LSTD"], others["fitted Q"]):
            assert abs(found.value - truth.value) < 4 * np.hypot(found.stderr, truth.stderr)
    assert "60 of 60 episodes were cut before they ended" in comparison.notes[0]


def test_intervals_of_all_at_once_are_wider_than_each_alone(comparison: Any) -> None:
    alone, row = comparison.values["coin"].interval(), comparison.table()[1]
    assert row["lower"] < alone[0] < alone[1] < row["upper"]
    assert comparison.reach(0.99) > comparison.reach(0.95) > comparison.reach(0.5)


def test_what_is_best_beyond_doubt_is_worth_what_it_is_alone(comparison: Any) -> None:
    best = comparison.best()
    assert (best.name, best.picked["always"]) == ("always", pytest.approx(1.0))
    assert best.value.value == pytest.approx(comparison.values["always"].value)
    assert best.lower < best.value.value


def test_strange_names_and_actions_are_told_in_one_sentence(comparison: Any) -> None:
    with pytest.raises(de.checks.InputError, match="there is no policy 'sometimes'; there are never, coin, always"):
        comparison.difference("always", "sometimes")
    three = {"two": taking(0.5), "three": lambda states: np.tile([0.5, 0.5, 0.0], (len(states), 1))}
    with pytest.raises(de.checks.InputError, match="choose among different actions"):
        de.compare(log(), three)
    with pytest.raises(de.checks.InputError, match="takes the action 2, which the log never shows"):
        de.compare(log(), {"three": lambda states: np.full((len(states), 3), 1 / 3)})
    with pytest.raises(de.checks.InputError, match="must be a dictionary of states"):
        de.compare({"states": [0.0]}, {"two": taking(0.5)})
    with pytest.raises(de.checks.InputError, match="dictionary from names to policies"):
        de.compare(log(), [taking(0.5)])


def test_one_policy_and_itself_differ_by_nothing() -> None:
    found = de.compare(
        log(), {"coin": taking(0.5), "toss": taking(0.5), "logged": None, "again": None}, discount=DISCOUNT
    )
    for pair in (("coin", "toss"), ("logged", "again")):
        answer = found.difference(*pair)
        assert (answer.value, answer.stderr) == (0.0, 0.0)
    assert found.difference("coin", "logged").stderr > 0


def test_the_error_of_a_small_difference_is_small_and_covers() -> None:
    """What ridges leave in both values is left in both alike: of 2 in 100 other actions the error is a tenth."""
    policies = {"coin": taking(0.5), "near": taking(0.52), "far": taking(0.9)}
    found = de.compare(log(), policies, discount=DISCOUNT)
    near, far = found.difference("near", "coin"), found.difference("far", "coin")
    assert near.stderr < 0.1 * far.stderr
    assert near.stderr < 0.05 * found.values["coin"].stderr
    rows = {row["what"]: row for row in found.table() if row["estimator"] == "debiased"}
    for name, share in (("coin minus near", -0.02), ("coin minus far", -0.4)):
        assert rows[name]["lower"] < share / (1 - DISCOUNT) < rows[name]["upper"]


def test_whatever_log_reads_is_compared() -> None:
    columns = log()
    rows = np.split(np.arange(EPISODES * STEPS), EPISODES)
    policies = {"coin": taking(0.5), "logged": None}
    names = ("states", "actions", "rewards", "next_states")
    wanted = de.compare(columns, policies, discount=DISCOUNT).text()
    listed = [{name: columns[name][own] for name in names} for own in rows]
    assert de.compare(listed, policies, discount=DISCOUNT).text() == wanted


def test_importance_sampling_of_measured_actions_is_by_both_densities() -> None:
    """Of actions N(0, 0.3²) whose policy would be N(0.1, 0.25²), in episodes of one step and of several."""
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(EPISODES * STEPS, 1)), 0.3 * rng.normal(size=EPISODES * STEPS)
    taken = np.exp(-((actions / 0.3) ** 2) / 2) / (0.3 * np.sqrt(2 * np.pi))
    last = np.arange(EPISODES * STEPS) % STEPS == STEPS - 1
    columns = {"states": states, "actions": actions, "rewards": actions, "terminated": 1 * last}
    columns |= {"next_states": np.roll(states, -1), "episodes": log()["episodes"]}
    policy = de.data.policies.GaussianPolicy(lambda seen: np.full(len(seen), 0.1), 0.25)
    assert taken.max() > 1
    found = de.compare({**columns, "propensities": taken}, {"new": policy}, discount=DISCOUNT).estimates["new"]
    ratios = (policy.density(states, actions) / taken).reshape(EPISODES, STEPS)
    paid = np.cumprod(ratios, axis=1) * DISCOUNT ** np.arange(STEPS) * actions.reshape(EPISODES, STEPS)
    assert found["importance sampling"].value == pytest.approx(paid.sum(axis=1).mean())
    assert "weighted importance sampling" in found
    assert not any("importance" in name for name in de.compare(columns, {"new": policy}).estimates["new"])
    certain = de.data.policies.GaussianPolicy(lambda seen: np.full(len(seen), 0.1), 0.0)
    assert not certain.spreads(states)
    with pytest.raises(de.InputError, match="without deviation has no density"):
        certain.density(states, actions)


@pytest.mark.parametrize("follows", [True, False])
def test_a_policy_that_fails_is_named_with_its_reason(follows: bool) -> None:
    columns = log() if follows else {name: log()[name] for name in ("states", "actions", "rewards")}

    def broken(states: Any) -> np.ndarray:
        raise ZeroDivisionError("no such state")

    for policy, said in ((LogisticRegression(), "NotFittedError"), (broken, "ZeroDivisionError: no such state")):
        with pytest.raises(de.InputError, match=f"the policy 'new' failed for .* states \\({said}") as found:
            de.compare(columns, {"new": policy}, discount=DISCOUNT)
        assert type(found.value.__cause__).__name__ == said.split(":")[0]


def test_one_column_of_probabilities_is_no_policy() -> None:
    table = {**log(), "p_0": np.full(EPISODES * STEPS, 0.4), "p_1": np.full(EPISODES * STEPS, 0.6)}
    del table["next_states"]
    with pytest.raises(
        de.InputError, match=r"takes the action 0\.4, but the log's actions are 0, 1; .* a column of them"
    ):
        de.compare(table, {"bold": "p_0"}, discount=DISCOUNT)
