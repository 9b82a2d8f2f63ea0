"""`dualembed compare`: policies by columns of a table, as a table, as JSON and as a picture."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from tests.cli.tables import Shown, document, refusal

import dualembed as de
from dualembed.cli import main

ROWS, STEPS = 240, 8
COLUMNS = ["--state", "x", "--action", "move", "--reward", "r", "--discount", "0.8"]
POLICIES = ["--policy", "bold=p_bold_*", "--policy", "plan=plan", "--policy", "logged"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Steps to the right are worth 1 each, and the bold policy takes nine of ten."""
    rng = np.random.default_rng(0)
    move = np.array(["left", "right"])[rng.integers(2, size=ROWS)]
    columns = {
        "x": rng.normal(size=ROWS),
        "move": move,
        "r": (move == "right") + 0.1 * rng.normal(size=ROWS),
        "run": np.arange(ROWS) // STEPS,
        "pscore": np.full(ROWS, 0.5),
        "p_bold_left": np.full(ROWS, 0.1),
        "p_bold_right": np.full(ROWS, 0.9),
        "plan": np.full(ROWS, "left"),
    }
    path = tmp_path_factory.mktemp("compare") / "log.csv"
    csv.write_csv(pa.table(columns), path)
    return path


def test_values_differences_and_a_picture_come_from_columns(log: Path, tmp_path: Path, capsys: Shown) -> None:
    picture = tmp_path / "policies.png"
    asked = ["compare", str(log), *COLUMNS, "--episode", "run", *POLICIES]
    assert main([*asked, "--json", "--plot", str(picture)]) == 0
    found = document(capsys)
    rows = {row["what"]: row for row in found["answers"] if row["estimator"] == "debiased"}
    for what, truth in (("bold", 0.9 / 0.2), ("plan", 0.0), ("bold minus plan", 0.9 / 0.2)):
        assert rows[what]["lower"] < truth < rows[what]["upper"]
    assert (found["best"]["policy"], found["rows"], found["columns"]["state"]) == ("bold", ROWS, ["x"])
    assert picture.read_bytes()[:4] == b"\x89PNG"


def test_rows_that_stand_alone_are_single_decisions(log: Path, capsys: Shown) -> None:
    assert main(["compare", str(log), *COLUMNS, "--policy", "bold=p_bold_*", "--policy", "logged"]) == 0
    shown = capsys.readouterr().out
    assert "self-normalised IPW" in shown
    assert "bold minus logged" in shown
    assert "Best: bold" in shown


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["--policy", "bold"], "--policy 'bold' must be a name and its columns"),
        ([], "nothing is there to compare"),
        (["--policy", "bold=p_bald_*"], "--policy 'p_bald_*' matches no column"),
        (["--policy", "a=p_bold_*", "--policy", "a=plan"], "names 'a' more than once"),
        ([*POLICIES, "--level", "2"], "--level must lie between 0 and 1"),
        ([*POLICIES, "--plot", "policies.doc"], "must end in one of .png, .svg, .pdf"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(
    log: Path, capsys: Shown, given: list[str], sentence: str
) -> None:
    assert main(["compare", str(log), *COLUMNS, *given]) == 2
    assert sentence in refusal(capsys)


def test_the_picture_keeps_its_numbers_and_marks_what_is_far_off() -> None:
    from matplotlib.figure import Figure

    from dualembed.comparison import Comparison

    answers = {"a": de.Answer(1.0, 0.1), "b": de.Answer(2.0, 0.1)}
    others = {
        "a": {"IPW": de.Estimate(1.1, 0.2)},
        "b": {"IPW": de.Estimate(90.0, 0.2), "direct": de.Estimate(np.nan, 0)},
    }
    ax = de.plot.comparison(Comparison(answers, {}, others), ax=Figure().subplots())
    low, high = ax.get_xlim()
    assert low < 0.8 < 2.2 < high < 10
    assert any(line.get_marker() == ">" and line.get_xdata()[0] == high for line in ax.lines)
    frame = de.plot.data_of(ax)
    assert frame["value"].tolist()[:2] == [1.0, 2.0]


def test_a_log_in_hdf5_is_fitted_to_and_compared(tmp_path: Path, capsys: Shown) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "log.hdf5"
    with h5py.File(path, "w") as file:
        file["observations"] = rng.normal(size=(ROWS, 2))
        file["actions"] = rng.integers(2, size=ROWS)
        file["rewards"] = rng.normal(size=ROWS)
        file["terminals"] = np.zeros(ROWS)
        file["timeouts"] = np.arange(ROWS) % STEPS == STEPS - 1
    assert main(["compare", str(path), "--policy", "logged", "--discount", "0.8", "--json"]) == 0
    found = document(capsys)
    assert found["columns"]["state"] == ["state_0", "state_1"]
    assert found["rows"] == ROWS - ROWS // STEPS
    wanted = de.compare(path, {"logged": None}, discount=0.8).values["logged"].value
    assert found["answers"][0]["value"] == pytest.approx(wanted)
    out = tmp_path / "value.dualembed"
    assert main(["fit", "policy-evaluation", str(path), "--discount", "0.8", "--out", str(out)]) == 0
    assert "state_0, state_1" in capsys.readouterr().out
    assert out.exists()
