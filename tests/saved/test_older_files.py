"""Files of every format so far give the answers that they gave when they were written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.tables import Shown, document
from tests.saved.make import CASES, FOLDER, POINTS, answers, answers_of, file_of

from dualembed import estimators
from dualembed.cli import main
from dualembed.saving import describe, load, save

RECORDED = json.loads(answers_of(1).read_text(encoding="utf-8"))
ALL = pytest.mark.parametrize("name", CASES)


def assert_close(found: Any, recorded: Any, tolerance: float) -> None:
    """Equal text, or numbers that differ by less than `tolerance` of the largest."""
    found, recorded = np.asarray(found), np.asarray(recorded)
    if recorded.dtype.kind == "U":
        assert found.tolist() == recorded.tolist()
    else:
        assert found.shape == recorded.shape
        # What is nothing but rounding, such as the witness of a line that solves its equation, may round otherwise.
        atol = max(tolerance * np.abs(recorded).max(), 1e-14)
        np.testing.assert_allclose(found, recorded, rtol=tolerance, atol=atol)


@ALL
def test_a_file_of_format_1_gives_its_old_answers(name: str) -> None:
    case = CASES[name]
    found = answers(case, load(file_of(name)))
    assert found.keys() == RECORDED[name].keys()
    for question, recorded in RECORDED[name].items():
        assert_close(found[question], recorded, case.tolerance)


@ALL
def test_a_file_of_format_1_that_is_saved_again_gives_its_old_answers(name: str, tmp_path: Path) -> None:
    save(load(file_of(name)), tmp_path / "again")
    assert describe(tmp_path / "again")["format"] > 1
    found = answers(CASES[name], load(tmp_path / "again"))
    for question, recorded in RECORDED[name].items():
        assert_close(found[question], recorded, CASES[name].tolerance)


@ALL
def test_the_command_line_says_what_a_file_of_format_1_is(name: str, capsys: Shown) -> None:
    assert main(["info", str(file_of(name)), "--json"]) == 0
    found = document(capsys)
    assert (found["version"], found["format"], found["fitted"]) == ("0.1.0", 1, name != "parameters")


def test_every_estimator_of_0_1_has_a_file() -> None:
    held = {describe(path)["class"] for path in FOLDER.glob("*-1.dualembed")}
    assert held <= set(estimators.__all__)
    assert held == {
        "ActionValueEvaluator",
        "HittingTimeRegressor",
        "IVRegressor",
        "InvariantClassifier",
        "InvariantRegressor",
        "LinearControl",
        "PolicyEvaluator",
    }


def test_every_file_has_its_case_and_its_answers() -> None:
    assert {path.name for path in FOLDER.glob("*-1.dualembed")} == {file_of(name).name for name in CASES}
    assert RECORDED.keys() == CASES.keys()


def test_names_of_columns_in_a_file_of_format_1_are_known() -> None:
    assert describe(file_of("line"))["columns"] == ["dose"]
    assert load(file_of("command")).columns_["state"] == ["place", "kind"]


def test_a_curve_of_format_1_goes_on() -> None:
    model = load(file_of("curve"))
    model.partial_fit(POINTS, np.zeros(len(POINTS)), POINTS)
    assert model.diagnostics_.rows == 124


def test_the_files_are_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.glob("*.dualembed")]
    assert max(sizes) < 200_000
    assert sum(sizes) < 1_500_000
