"""Next states that are not given are those of the next row: every estimator gives the bits of the explicit table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.estimators.cases import small

import dualembed as de

RUNS, STEPS = 40, 12
PROBES = [-1.0, 0.0, 1.0]


def walks(seed: int = 0) -> dict[str, np.ndarray]:
    """Forty walks of twelve rows: the first half of them ends, the others are cut off."""
    rng = np.random.default_rng(seed)
    states = np.cumsum(rng.normal(size=(RUNS, STEPS)), axis=1) / 3
    last = np.tile(np.arange(STEPS) == STEPS - 1, (RUNS, 1))
    return {
        "states": states.ravel(),
        "actions": rng.integers(2, size=RUNS * STEPS),
        "rewards": states.ravel() + rng.normal(size=RUNS * STEPS),
        "terminated": (last & (np.arange(RUNS) < RUNS // 2)[:, None]).ravel() * 1,
        "episodes": np.repeat(np.arange(RUNS), STEPS),
        "time": np.tile(np.arange(STEPS), RUNS),
    }


def coin(states: Any) -> np.ndarray:
    return np.full((len(states), 2), 0.5)


def explicit(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same with next states and next actions written out, without rows of which they are not known."""
    count = len(rows["states"])
    after = np.minimum(np.arange(count) + 1, count - 1)
    goes_on = rows["time"] < STEPS - 1
    after = np.where(goes_on, after, np.arange(count))
    following = {"next_states": rows["states"][after], "next_actions": rows["actions"][after]}
    kept = goes_on | (rows["terminated"] > 0)
    return {name: column[kept] for name, column in {**rows, **following}.items()}


CASES: dict[str, tuple[Any, tuple[str, ...], tuple[str, ...]]] = {
    "value": (
        lambda: de.PolicyEvaluator(0.8, **small()),
        ("states", "rewards", "terminated", "episodes"),
        ("next_states",),
    ),
    "average": (lambda: de.PolicyEvaluator(0.8), ("states", "rewards", "terminated", "episodes"), ("next_states",)),
    "action values": (
        lambda: de.ActionValueEvaluator(0.8, **small()),
        ("states", "actions", "rewards", "terminated", "episodes"),
        ("next_states", "next_actions"),
    ),
    "action values of a policy": (
        lambda: de.ActionValueEvaluator(0.8, coin, **small()),
        ("states", "actions", "rewards", "terminated", "episodes"),
        ("next_states",),
    ),
    "hitting time": (
        lambda: de.HittingTimeRegressor(lambda s: s[:, 0] > 1, **small()),
        ("states", "episodes"),
        ("next_states",),
    ),
    "control": (
        lambda: de.LinearControl(**small()),
        ("states", "costs", "terminal", "episodes"),
        ("next_states",),
    ),
}


def given(rows: dict[str, np.ndarray], names: tuple[str, ...]) -> dict[str, np.ndarray]:
    every = {**rows, "costs": np.abs(rows["states"]), "terminal": rows["terminated"]}
    return {name: every[name] for name in names}


def written_out(case: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(what is given without what follows, the same with it)."""
    _, names, following = CASES[case]
    rows = walks()
    if case == "hitting time":
        rows["terminated"] = 0 * rows["terminated"]
    return given(rows, names), given(explicit(rows), (*names, *following))


def values(model: Any) -> np.ndarray:
    ahead = (PROBES, [0, 1, 1]) if isinstance(model, de.ActionValueEvaluator) else (PROBES,)
    return np.stack(model.predict(*ahead, return_std=True))


@pytest.mark.parametrize("case", CASES)
def test_a_table_without_what_follows_gives_the_bits_of_the_explicit_one(case: str) -> None:
    short, whole = written_out(case)
    make = CASES[case][0]
    found, expected = make().fit(**short), make().fit(**whole)
    np.testing.assert_array_equal(values(found), values(expected))
    assert found.diagnostics_.rows == expected.diagnostics_.rows
    assert found.error(**short) == expected.error(**whole)
    assert found.left_out_ == len(short["states"]) - len(whole["states"]) > 0
    assert f"{found.left_out_} rows are left out, the last of episodes that did not end" in str(found.summary())
    assert found.summary().to_dict()["answer"]["rows_left_out"] == found.left_out_
    assert "left out, the last" not in str(expected.summary())


@pytest.mark.parametrize("form", ["array", "frame"])
@pytest.mark.parametrize("case", ["value", "average", "action values", "action values of a policy"])
def test_what_is_written_after_an_end_counts_for_nothing(case: str, form: str) -> None:
    short, whole = written_out(case)
    ended = whole["terminated"] > 0
    whole = {**whole, "next_states": np.where(ended, 1e3 + whole["states"], whole["next_states"])}
    if form == "frame":
        columns = {
            "states": pd.DataFrame({"x": whole["states"]}),
            "next_states": pd.DataFrame({"y": whole["next_states"]}),
        }
        whole, short = {**whole, **columns}, {**short, "states": pd.DataFrame({"x": short["states"]})}
    make = CASES[case][0]
    found, expected = make().fit(**whole), make().fit(**short)
    ahead = (PROBES, [0, 1, 1]) if "action" in case else (PROBES,)
    ahead = (pd.DataFrame({"x": PROBES}), *ahead[1:]) if form == "frame" else ahead
    np.testing.assert_array_equal(found.predict(*ahead), expected.predict(*ahead))
    assert found.error(**whole) == expected.error(**short)


@pytest.mark.parametrize("case", CASES)
def test_rows_out_of_order_with_times_give_the_same(case: str) -> None:
    short, _ = written_out(case)
    mixed = np.random.default_rng(1).permutation(RUNS * STEPS)  # episodes interleaved, and back to front
    make = CASES[case][0]
    found = make().fit(**{name: column[mixed] for name, column in {**short, "time": walks()["time"]}.items()})
    np.testing.assert_array_equal(values(found), values(make().fit(**short)))


@pytest.mark.parametrize("case", ["value", "average", "action values", "hitting time"])
def test_streams_and_loaded_models_derive_what_follows_too(case: str, tmp_path: Path) -> None:
    short, whole = written_out(case)
    make = CASES[case][0]
    found, expected = make(), make()
    for part in (0, 1):
        own = [{name: each[table["episodes"] % 2 == part] for name, each in table.items()} for table in (short, whole)]
        found.partial_fit(**own[0])
        expected.partial_fit(**own[1])
        if case != "hitting time":  # whose target is a function, which no file holds
            de.save(found, tmp_path / "model.dualembed")
            found = de.load(tmp_path / "model.dualembed")
    np.testing.assert_array_equal(values(found), values(expected))
    assert found.left_out_ == len(short["states"]) - len(whole["states"])


def test_one_time_for_two_rows_of_an_episode_is_refused() -> None:
    rows = walks()
    with pytest.raises(de.InputError, match=r"rows 0 and 12 both have the time 0, .* label episodes"):
        de.PolicyEvaluator().fit(rows["states"], rows["rewards"], time=rows["time"])
    rows["time"][5] = 4
    with pytest.raises(de.InputError, match="rows 4 and 5 both have the time 4"):
        de.PolicyEvaluator().fit(rows["states"], rows["rewards"], episodes=rows["episodes"], time=rows["time"])


def test_gaps_in_regular_times_are_told_and_irregular_times_are_not() -> None:
    rows = walks()
    short = given(rows, ("states", "rewards", "episodes", "time"))
    gone = rows["time"] != 7
    gone[STEPS:] = True
    gapped = {name: column[gone] for name, column in short.items()}
    (told,) = de.PolicyEvaluator(0.8, **small()).fit(**gapped).diagnostics_.warnings
    assert told.startswith(
        "1 of 439 rows are followed by one that is later than the usual step, such as time 6 by time 8"
    )
    days = np.datetime64("2020-01-01") + gapped["time"].astype("timedelta64[D]")
    assert "time 2020-01-07 by time 2020-01-09" in str(
        de.PolicyEvaluator(0.8, **small()).fit(**{**gapped, "time": days}).diagnostics_
    )
    irregular = np.cumsum(np.random.default_rng(0).exponential(size=len(rows["time"])))
    assert de.PolicyEvaluator(0.8, **small()).fit(**{**short, "time": irregular}).diagnostics_.warnings == ()


def test_control_without_an_end_is_refused_in_one_sentence() -> None:
    rows = walks()
    with pytest.raises(
        de.InputError, match=r"LinearControl needs terminal too; .* fit\(states, costs, terminal=..., episodes=...\)"
    ):
        de.LinearControl().fit(rows["states"], np.abs(rows["states"]), episodes=rows["episodes"])
    with pytest.raises(de.InputError, match="terminal must be given, 1 where the next state is an end"):
        de.LinearControl().fit(rows["states"], np.abs(rows["states"]), rows["states"], None)


def test_next_states_without_next_actions_or_a_policy_are_not_enough() -> None:
    rows = explicit(walks())
    with pytest.raises(de.InputError, match="a policy must be given, or the next_actions"):
        de.ActionValueEvaluator().fit(rows["states"], rows["actions"], rows["rewards"], rows["next_states"])


def test_the_value_of_the_policy_that_acted_needs_no_policy() -> None:
    short, _ = written_out("action values")
    model = de.ActionValueEvaluator(0.8, **small()).fit(**short)
    assert model.value() == model.summary().headline
    with pytest.raises(de.InputError, match="the value of a policy needs the policy"):
        model.value([0.0, 1.0])


@pytest.mark.parametrize("role", ["rewards", "terminated", "episodes", "time"])
def test_columns_of_other_lengths_are_refused_though_the_last_row_is_left_out(role: str) -> None:
    rows = walks()
    short = {name: rows[name] for name in ("states", "rewards", "terminated", "episodes", "time")}
    with pytest.raises(de.InputError, match=f"{role} must have 480 rows, one for each of the states, but have 479"):
        de.PolicyEvaluator(0.8, **small()).fit(**{**short, role: short[role][:-1]})


def test_rows_whose_states_say_nothing_of_the_next_ones_are_warned_of() -> None:
    """Without a time, rows follow as they stand; of a path that was shuffled they do not."""
    rng = np.random.default_rng(0)
    state = np.zeros(600)
    for row in range(1, 600):
        state[row] = (0.0 if row % 20 == 0 else 0.7 * state[row - 1]) + rng.normal()
    episode = np.arange(600) // 20
    lines = {"primal": "linear", "dual": "linear"}
    right = de.PolicyEvaluator(0.5, **lines).fit(state, state, episodes=episode)
    assert right.diagnostics_.warnings == ()
    order = rng.permutation(600)
    mixed = de.PolicyEvaluator(0.5, **lines).fit(state[order], state[order], episodes=episode[order])
    assert "rows may be out of the order of time" in mixed.diagnostics_.warnings[0]
    timed = de.PolicyEvaluator(0.5, **lines).fit(state[order], state[order], episodes=episode[order], time=order)
    assert timed.diagnostics_.warnings == ()
    np.testing.assert_allclose(timed.predict([0.5]), right.predict([0.5]))
