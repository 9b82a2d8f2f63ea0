"""Windows over several rows: which there are, where they end, what they take, and what is refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.cli.tables import Shown, document

import dualembed as de
from dualembed.cli import main
from dualembed.data.frames import stacked
from dualembed.data.lags import spans_of
from dualembed.data.roles import ROLES
from dualembed.data.table import Table
from dualembed.data.whole import listed_table

PATH = np.array([0.0, 1.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0, 0.0])  # up to 3 and back


def walk(seed: int = 0, rows: int = 400) -> np.ndarray:
    """A walk on a ring of ten cells."""
    return np.cumsum(np.random.default_rng(seed).choice([-1, 1], size=rows)) % 10.0


def windows(paths: Any, lag: int, *, target: float = 3.0, **more: Any) -> Any:
    """(states, next states, durations, labels) of what is learnt from."""
    model = de.HittingTimeRegressor([target], lagtime=lag, **more)
    table = model._arranged(listed_table(paths, [ROLES["states"]]))
    return table, *(np.asarray(each).ravel() for each in (table.states, table.next_states, table.durations))


def links_of(*lengths: int) -> np.ndarray:
    return np.concatenate([np.append(np.ones(length - 1, dtype=bool), False) for length in lengths])


def test_windows_overlap_and_end_where_the_target_is_entered() -> None:
    _, states, following, durations = windows([PATH], 3)
    assert states.tolist() == [0, 1, 2, 1, 2, 3]
    assert following.tolist() == [1, 2, 3, 3, 3, 0]
    assert durations.tolist() == [3, 3, 3, 2, 1, 3]


def test_rows_near_the_end_are_left_out_whatever_happens_there() -> None:
    stops = np.array([True, False, False, True])  # the path goes on after it entered first
    assert spans_of(links_of(4), 3, stops).starts.tolist() == [0, 1]


def test_windows_end_with_trajectories_that_end_as_they_enter() -> None:
    stops = np.array([False, False, False, True, False, False])
    found = spans_of(links_of(4, 2), 3, stops)
    assert found.starts.tolist() == [0, 1, 2, 3, 4, 5]
    assert found.ends.tolist() == [2, 3, 3, 3, 5, 5]


def test_times_are_in_the_unit_of_dt_and_durations_add_up() -> None:
    assert windows([PATH], 3, dt=0.5)[3].tolist() == [1.5, 1.5, 1.5, 1.0, 0.5, 1.5]
    given = {"durations": np.arange(1.0, 10.0), "episodes": np.zeros(9)}
    model = de.HittingTimeRegressor([3.0], lagtime=2)
    table = model._arranged(Table.of(states=PATH, **given))
    assert table.durations.tolist() == [3, 5, 7, 9, 5, 13, 15]


def test_the_unit_of_times_is_said() -> None:
    path = walk()
    counted, timed = (de.HittingTimeRegressor([0.0], lagtime=2, dt=dt).fit([path]) for dt in (1.0, 0.1))
    np.testing.assert_allclose(timed.predict([5.0]), 0.1 * counted.predict([5.0]))
    assert (counted.timed_, timed.timed_) == (False, True)
    assert counted.left_out_ == 2  # of the last two rows it is not known what follows
    assert counted.arrivals_ == np.sum(path[1:] == 0)  # each once, though several windows lead there


KINDS = (np.asarray, pd.Series, lambda x: pd.DataFrame({"a": x}), lambda x: pl.DataFrame({"a": x}))


@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_any_kind_have_lags_and_directions(kind: Any) -> None:
    path = walk()
    plain = de.HittingTimeRegressor([0.0], lagtime=3, reversible=True).fit([path])
    given = de.HittingTimeRegressor([0.0], lagtime=3, reversible=True).fit(kind(path), episodes=np.zeros(len(path)))
    assert given.diagnostics_.rows == plain.diagnostics_.rows == 2 * (len(path) - 3)
    np.testing.assert_allclose(given.predict(kind(path[:9])), plain.predict(path[:9]))


def test_names_of_next_states_may_be_their_own_where_transitions_are_reversed() -> None:
    path = walk()
    now, later = pd.DataFrame({"a": path[:-1]}), pd.DataFrame({"next_a": path[1:]})
    model = de.HittingTimeRegressor([0.0], reversible=True).fit(now, later)
    assert model.diagnostics_.rows == 2 * len(now)


def test_rows_of_two_tables_stand_below_each_other() -> None:
    assert stacked({"a": np.array([1])}, {"a": np.array([2])})["a"].tolist() == [1, 2]
    assert stacked([1, 2], np.array([3])).tolist() == [1, 2, 3]
    assert stacked(pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]}))["a"].to_list() == [1, 2]
    assert stacked(pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2.5]}))["a"].tolist() == [1, 2.5]


def test_more_rows_and_honest_errors_know_the_lag() -> None:
    model = de.HittingTimeRegressor([0.0], lagtime=3)
    for seed in range(2):
        model.partial_fit([walk(seed), walk(seed + 10)])
    assert model.diagnostics_.rows == 4 * (400 - 3)
    assert model.error([walk(5)]).value < 1e3


@pytest.mark.parametrize(
    ("settings", "data", "sentence"),
    [
        ({"lagtime": 0}, {"states": [walk()]}, "lagtime must be a whole number of at least 1, not 0"),
        ({"lagtime": 2.5}, {"states": [walk()]}, "lagtime must be a whole number of at least 1, not 2.5"),
        ({"dt": 0.0}, {"states": [walk()]}, "dt must be positive, not 0.0"),
        ({"lagtime": 500}, {"states": [walk()]}, "lagtime=500 is longer than every trajectory.* has 400 rows"),
        ({"lagtime": 2}, {"states": walk()[:-1], "next_states": walk()[1:]}, "but next_states are given; leave them"),
        (
            {"dt": 2.0},
            {"states": walk(), "episodes": np.ones(400), "durations": np.ones(400)},
            "durations are given",
        ),
        ({"reversible": 1}, {"states": [walk()]}, "reversible must be True or False, not 1"),
        (
            {"reversible": True},
            {"states": [np.array([5.0, 4, 3, 2, 1, 0])] * 9},
            "9 rows enter the target and none",
        ),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, Any], data: dict[str, Any], sentence: str) -> None:
    given = {name: each for name, each in data.items() if name != "states"}
    with pytest.raises(de.InputError, match=sentence):
        de.HittingTimeRegressor([0.0], **settings).fit(data["states"], **given)


def test_trajectories_that_are_too_short_are_left_out_and_counted() -> None:
    model = de.HittingTimeRegressor([0.0], lagtime=20).fit([walk(), np.arange(20.0) % 10, np.arange(5.0)])
    note = "2 of 3 trajectories are no longer than the lag of 20 rows, and left out"
    assert note in model.diagnostics_.warnings
    assert model.diagnostics_.rows == 380


def test_few_rows_for_a_lag_are_warned_of() -> None:
    model = de.HittingTimeRegressor([0.0], lagtime=20).fit([walk()])
    assert any("a lag of 20 rows is long for 399 rows" in each for each in model.diagnostics_.warnings)


def test_few_windows_are_warned_of() -> None:
    """Six of them, one a trajectory, all of which may even agree."""
    rng = np.random.default_rng(0)
    paths = [np.cumsum(rng.choice([-1, 1], size=600)) % 6 for _ in range(6)]
    for lag, few in ((599, True), (5, False)):
        model = de.HittingTimeRegressor([0], lagtime=lag).fit(paths)
        assert any("6 windows of the lag, of which about 6" in each for each in model.diagnostics_.warnings) == few
    lone = de.StationaryAverage(lagtime=150).fit(paths[:1])
    assert any("450 windows of the lag, of which about 4" in each for each in lone.diagnostics_.warnings)


def test_reversed_rows_that_are_not_stationary_are_warned_of() -> None:
    rng = np.random.default_rng(0)
    states = rng.integers(5, size=500).astype(float)  # all start low
    model = de.HittingTimeRegressor([0.0], reversible=True).fit(states, (states + rng.integers(0, 3, size=500)) % 10)
    assert any("rows are no sample of the stationary law" in each for each in model.diagnostics_.warnings)
    path = de.HittingTimeRegressor([0.0], reversible=True).fit([walk()])
    assert not any("stationary" in each for each in path.diagnostics_.warnings)


def test_the_command_line_has_lags(tmp_path: Path, capsys: Shown) -> None:
    file = tmp_path / "walk.csv"
    pd.DataFrame({"x": walk(), "run": 1, "later": walk(1)}).to_csv(file, index=False)
    asked = ["--state", "x", "--episode", "run", "--target", "x < 1", "--lagtime", "4", "--dt", "0.5", "--json"]
    assert main(["fit", "hitting-time", str(file), *asked]) == 0
    found = document(capsys)
    model = de.HittingTimeRegressor(lambda s: s[:, 0] < 1, lagtime=4, dt=0.5).fit([walk()])
    assert found["headline"]["value"] == pytest.approx(model.summary().headline.value)
    assert "--lagtime 4" in found["command"]
    assert main(["fit", "hitting-time", str(file), *asked[:-1], "--next-state", "later"]) == 2
    assert "next_states are given" in capsys.readouterr().err
    assert json.dumps(found)
