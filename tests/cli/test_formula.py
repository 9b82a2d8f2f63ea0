"""`dualembed fit iv --formula` is the fit by options, with terms beside; what contradicts it is refused."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.tables import LINEAR, ROWS, Shown, columns, document, refusal

from dualembed.cli import main
from dualembed.data import read_table, write_table

TEXT = "sales ~ [price ~ tax] + state_b + kind"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_table(columns(), tmp_path / "survey.csv")
    return tmp_path / "survey.csv"


def fit(table: Path, *more: str, task: str = "iv") -> int:
    return main(["fit", task, str(table), "--out", str(table.parent / "model.dualembed"), *LINEAR, *more])


@pytest.fixture
def without_formulaic(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refused(name: str, *others: Any) -> Any:
        if name.startswith("formulaic"):
            raise ImportError(name)
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", refused)


@pytest.mark.usefixtures("without_formulaic")
def test_plain_terms_are_the_options_and_need_no_other_library(table: Path, capsys: Shown) -> None:
    named = ["--x", "price", "--y", "sales", "--instrument", "tax", "--control", "state_b,kind"]
    found = []
    for words in (["--formula", TEXT], named):
        assert fit(table, *words, "--group", "episode", "--json") == 0
        found.append(document(capsys))
    ours, theirs = found
    assert f"--formula '{TEXT}'" in ours.pop("command")
    theirs.pop("command")
    assert ours == theirs
    assert ours["columns"]["group"] == ["episode"]
    assert ours["categories"] == ["kind"]
    assert fit(table, "--formula", "sales ~ [price ~ tax] + log(cost)") == 2
    assert "takes formulaic; pip install 'dualembed[formula]'" in refusal(capsys)


def test_a_model_of_plain_terms_predicts_and_knows_its_rows(table: Path, capsys: Shown) -> None:
    assert fit(table, "--formula", TEXT, "--report", str(table.parent / "page.html"), "--json") == 0
    document(capsys)
    assert "<span>--formula</span>" in (table.parent / "page.html").read_text(encoding="utf-8")
    model, values = str(table.parent / "model.dualembed"), table.parent / "values.parquet"
    assert main(["predict", model, str(table), "--out", str(values), "--json"]) == 0
    assert document(capsys)["rows"] == ROWS
    assert np.isfinite(read_table(values).column("prediction").to_numpy()).all()
    assert main(["score", model, str(table), "--json"]) == 0
    assert document(capsys)["fitted_to_these_rows"] is True


def test_made_terms_are_columns_and_rows_that_lack_them_may_be_dropped(table: Path, capsys: Shown) -> None:
    given = columns()
    given["age"] = np.where(np.arange(ROWS) < 3, np.nan, np.exp(given["state_b"]))
    write_table(given, table)
    text = "I(2 * sales) ~ [price ~ tax] + log(age) + I(state_a**2) + C(kind)"
    assert fit(table, "--formula", text) == 2
    assert "3 of 400 rows lack a number in log(age)" in refusal(capsys)
    assert fit(table, "--formula", text, "--drop-missing", "--json") == 0
    found = document(capsys)
    assert found["dropped"] == 3
    assert found["columns"] == {
        "x": ["price"],
        "y": ["I(2 * sales)"],
        "instrument": ["tax"],
        "control": ["log(age)", "I(state_a ** 2)", "C(kind)[T.green]", "C(kind)[T.red]"],
        "episode": ["episode"],  # by its name, as without a formula
    }
    made = {"y": 2 * given["sales"], "squared": given["state_a"] ** 2}
    made |= {each: (given["kind"] == each).astype(float) for each in ("green", "red")}
    write_table({**given, **made, "logs": np.log(given["age"])}, table)
    controls = ["--control", "logs,squared,green,red", "--drop-missing"]
    assert fit(table, "--x", "price", "--y", "y", "--instrument", "tax", *controls, "--json") == 0
    theirs = document(capsys)
    assert found["answer"]["mean"]["value"] == pytest.approx(theirs["answer"]["mean"]["value"])
    ours, known = (each["answer"]["linear"]["coefficients"] for each in (found, theirs))
    assert [each["term"] for each in ours][:-1] == ["price", *found["columns"]["control"]]
    assert [each["estimate"] for each in ours] == pytest.approx([each["estimate"] for each in known])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--formula", TEXT, "--x", "price"], "--formula and --x both name columns; leave one of them out"),
        (["--formula", TEXT, "--control", ""], "--formula and --control both name columns"),
        (["--formula", "sales"], "'sales' has no ~"),
        (["--formula", ""], "a formula is of the form"),
        (["--formula", "sales ~ [prize ~ tax]"], "'prize', which is not there"),
        (["--formula", "sales ~ state_b | kind | price ~ tax", "--absorb", "kind"], "factors to absorb, and so does"),
    ],
)
def test_what_contradicts_a_formula_or_is_none_is_refused(
    words: list[str], said: str, table: Path, capsys: Shown
) -> None:
    assert fit(table, *words) == 2
    assert said in refusal(capsys)
    assert not (table.parent / "model.dualembed").exists()


def test_other_tasks_take_no_formula_and_their_help_has_none(table: Path, capsys: Shown) -> None:
    assert fit(table, "--formula", TEXT, task="policy-evaluation") == 2
    assert "--formula has no use in policy-evaluation; leave it out" in refusal(capsys)
    for task, shown in (("policy-evaluation", False), ("iv", True)):
        assert main(["fit", task, "--help"]) == 0
        assert ("--formula FORMULA" in capsys.readouterr().out) is shown


def test_weights_are_a_column_by_name_and_count_or_weigh(table: Path, capsys: Shown) -> None:
    survey = {**columns(), "wt": np.random.default_rng(1).integers(1, 9, size=ROWS)}
    write_table(survey, table)
    found = {}
    for weighting in ("auto", "frequency", "survey"):
        assert fit(table, "--formula", TEXT, "--weight", "wt", "--weighting", weighting, "--group", "", "--json") == 0
        found[weighting] = document(capsys)
        assert found[weighting]["columns"]["weight"] == ["wt"]
        assert f"--weighting {weighting}" in found[weighting]["command"]
    one, other = (found[name]["headline"] for name in ("frequency", "survey"))
    assert one["value"] == pytest.approx(other["value"])
    assert one["stderr"] < 0.7 * other["stderr"]  # as if there were four and a half times as many rows
    assert main(["score", str(table.parent / "model.dualembed"), str(table), "--json"]) == 0
    assert document(capsys)["error"]["value"] >= -1
    assert fit(table, "--formula", TEXT, "--weight", "wt", "--weighting", "census") == 2
    assert "--weighting must be one of auto, frequency, survey, not 'census'" in refusal(capsys)
    assert fit(table, "--formula", TEXT, "--weight", "kind") == 2
    assert "--sample-weight needs numbers, but the column 'kind' holds" in refusal(capsys)


def test_a_column_called_weight_is_no_weight_unless_it_is_said_to_be(table: Path, capsys: Shown) -> None:
    write_table({**columns(), "weight": columns()["state_a"]}, table)  # which is below 0 in places
    assert fit(table, "--x", "price", "--y", "sales", "--instrument", "tax", "--json") == 0
    assert "weight" not in document(capsys)["columns"]
