"""Rows that lack a value are dropped in Python as on the command line, whatever form the table is in, and counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.cli.tables import document

import dualembed as de
from dualembed.cli import main
from dualembed.data.missing import missing_cells

RNG = np.random.default_rng(0)
ROWS = 300
FRAME = pd.DataFrame(
    {
        "state": RNG.normal(size=ROWS),
        "mood": RNG.choice(["calm", "wild"], size=ROWS),
        "reward": RNG.normal(size=ROWS),
        "terminated": np.arange(ROWS) % 10 == 9,
        "episode": np.arange(ROWS) // 10,
    }
)
LINES: dict[str, Any] = {"primal": "linear", "dual": "linear"}
SPOILT = FRAME.copy()
SPOILT.loc[[7, 40], "state"] = np.nan
SPOILT.loc[[8, 99], "reward"] = np.nan
SPOILT.loc[200, "mood"] = None


def fitted(frame: Any, **more: Any) -> de.PolicyEvaluator:
    data = {"states": frame[["state", "mood"]], "rewards": frame["reward"]}
    return de.PolicyEvaluator(0.8, **LINES).fit(
        **data, terminated=frame["terminated"], episodes=frame["episode"], **more
    )


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_rows_that_lack_a_value_go_with_those_that_lead_to_them(kind: Any) -> None:
    """Rows 6, 39 and 199 lead to a state that is not known; 9, 39, 199 of terminated ones end their episodes."""
    model = fitted(kind(SPOILT), missing="drop")
    gone = [6, 7, 8, 40, 99, 200]  # 39 and 199 end an episode: nothing follows
    assert model.dropped_ == len(gone)
    assert model.diagnostics_.rows == ROWS - len(gone)
    assert "6 rows that lack a value were dropped." in str(model.summary())
    assert model.summary().to_dict()["answer"]["rows_dropped"] == 6
    following = FRAME[["state", "mood"]].shift(-1).fillna({"state": 0.0, "mood": "calm"})
    kept = np.setdiff1d(np.arange(ROWS), gone)
    by_hand = de.PolicyEvaluator(0.8, **LINES).fit(
        FRAME[["state", "mood"]].iloc[kept],
        FRAME["reward"].iloc[kept],
        following.iloc[kept],
        terminated=FRAME["terminated"].iloc[kept],
    )
    at = pd.DataFrame({"state": [0.5], "mood": ["wild"]})
    np.testing.assert_allclose(model.predict(kind(at)), by_hand.predict(at), rtol=1e-9)


def test_the_command_line_drops_the_same_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SPOILT.to_csv(tmp_path / "log.csv", index=False)
    arguments = [
        "--state",
        "state,mood",
        "--discount",
        "0.8",
        "--drop-missing",
        "--primal",
        "linear",
        "--dual",
        "linear",
    ]
    assert main(["fit", "policy-evaluation", str(tmp_path / "log.csv"), *arguments, "--json"]) == 0
    found = document(capsys)
    model = fitted(SPOILT, missing="drop")
    assert found["dropped"] == found["answer"]["rows_dropped"] == model.dropped_
    assert found["headline"]["value"] == pytest.approx(model.summary().headline.value, rel=1e-9)


def test_what_follows_an_end_may_be_missing() -> None:
    state, reward = FRAME["state"].to_numpy(), FRAME["reward"].to_numpy()
    ends = FRAME["terminated"].to_numpy()
    following = np.where(ends, np.nan, np.roll(state, -1))
    model = de.PolicyEvaluator(0.8, **LINES).fit(state, reward, following, terminated=ends)
    whole = de.PolicyEvaluator(0.8, **LINES).fit(state, reward, np.where(ends, state, following), terminated=ends)
    np.testing.assert_array_equal(model.predict([0.5]), whole.predict([0.5]))
    with pytest.raises(de.InputError, match=r"next_states|NaN|number"):
        de.PolicyEvaluator(0.8, **LINES).fit(state, reward, following)


def test_it_is_so_for_regressions_and_for_methods_that_take_the_data() -> None:
    x, y = RNG.normal(size=(60, 2)), RNG.normal(size=60)
    spoilt = np.where(np.arange(60) == 3, np.nan, y)
    model = de.IVRegressor(**LINES).fit(x, spoilt, missing="drop")
    kept = np.arange(60) != 3
    np.testing.assert_array_equal(model.predict(x), de.IVRegressor(**LINES).fit(x[kept], y[kept]).predict(x))
    assert model.dropped_ == 1
    assert "1 row that lacks a value was dropped." in str(model.summary())
    assert model.error(x, spoilt, missing="drop").value == pytest.approx(model.error(x[kept], y[kept]).value)


@pytest.mark.parametrize(
    ("missing", "words"),
    [("error", "NaN|number|missing"), ("omit", "missing must be one of error, drop, not 'omit'")],
)
def test_otherwise_they_are_refused(missing: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fitted(SPOILT, missing=missing)


def test_a_table_of_which_nothing_is_left_is_refused() -> None:
    with pytest.raises(
        de.InputError, match="every row lacks a value in one of rewards, so that missing='drop' leaves none"
    ):
        fitted(FRAME.assign(reward=np.nan), missing="drop")


def test_missing_cells_of_all_kinds() -> None:
    assert missing_cells(pd.DataFrame({"a": [1.0, None], "b": ["x", "y"]})).tolist() == [False, True]
    assert missing_cells(pd.array([1, pd.NA], dtype="Int64")).tolist() == [False, True]
    assert missing_cells(np.array(["2020-01-01", "NaT"], dtype="M8[D]")).tolist() == [False, True]
    assert missing_cells({"a": ["x", None], "b": [1, 2]}).tolist() == [False, True]
    assert missing_cells(np.array([[1, 2], [3, 4]])).tolist() == [False, False]
