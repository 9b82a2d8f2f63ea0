"""What is done with a saved model: predict, score and info; and help, completion and the example."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.cli.tables import DISCOUNT, LINEAR, ROWS, Shown, columns, document, refusal

from dualembed import saving
from dualembed.cli import main
from dualembed.cli.options import known_tasks
from dualembed.data import io, read_table, write_table
from dualembed.data.roles import ROLES
from dualembed.estimators import IVRegressor, PolicyEvaluator


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved value, fitted once for all tests that only look at it."""
    folder = tmp_path_factory.mktemp("model")
    write_table(columns(), folder / "log.csv")
    arguments = ["--discount", str(DISCOUNT), "--out", str(folder / "value.dualembed"), *LINEAR]
    assert main(["fit", "policy-evaluation", str(folder / "log.csv"), *arguments]) == 0
    return folder / "value.dualembed"


# Predicting


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow", ".feather"])
def test_predictions_are_the_models_beside_the_tables_own_columns(ending: str, model: Path, tmp_path: Path) -> None:
    given = {"state_b": [0.5, 1.5], "note": ["first", "second"], "state_a": [1.0, -1.0]}
    write_table(given, tmp_path / f"states{ending}")
    out = tmp_path / "new" / f"values{ending}"
    assert main(["predict", str(model), str(tmp_path / f"states{ending}"), "--out", str(out)]) == 0
    found = read_table(out)
    assert found.column_names == [*given, "prediction", "stderr", "lower", "upper"]
    assert found.column("note").to_pylist() == given["note"]
    states = pa.table({"state_a": given["state_a"], "state_b": given["state_b"]})
    values, std = saving.load(model).predict(states, return_std=True)
    assert found.column("prediction").to_numpy() == pytest.approx(values, rel=1e-12)
    assert found.column("stderr").to_numpy() == pytest.approx(std, rel=1e-12)
    assert found.column("upper").to_numpy() == pytest.approx(values + 1.959964 * std, rel=1e-6)


@pytest.mark.parametrize("kind", ["csv", "parquet", "folder"])
def test_a_table_in_parts_gives_what_it_gives_whole(
    kind: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, whole, parts = tmp_path / f"log.{kind}", tmp_path / "whole.parquet", tmp_path / "parts.parquet"
    if kind == "folder":
        source.mkdir()
        write_table(columns(), source / "0.parquet")
        write_table({**columns(1), "state_a": np.arange(ROWS)}, source / "1.parquet")
    else:
        write_table(columns(), source)
    assert main(["predict", str(model), str(source), "--out", str(whole)]) == 0
    sizes: list[int] = []
    writing = parquet.ParquetWriter.write_table

    def write(self: Any, part: Any, *more: Any) -> None:
        sizes.append(part.num_rows)
        writing(self, part, *more)

    monkeypatch.setattr(parquet.ParquetWriter, "write_table", write)
    monkeypatch.setattr(io, "ROWS", 50)
    monkeypatch.setattr(io, "BLOCK", 4000)
    assert main(["predict", str(model), str(source), "--out", str(parts)]) == 0
    assert max(sizes) <= 60
    left, right = read_table(parts).to_pydict(), read_table(whole).to_pydict()
    assert left.keys() == right.keys()
    for name, column in left.items():
        if name in ("prediction", "stderr", "lower", "upper"):  # sums over parts may round otherwise
            np.testing.assert_allclose(column, right[name], rtol=1e-12)
        else:
            np.testing.assert_array_equal(column, right[name])


def test_rows_of_later_parts_keep_their_number_and_whole_numbers_may_turn_out_fractions(
    model: Path, tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(io, "BLOCK", 1000)
    source, out = tmp_path / "log.csv", tmp_path / "values.csv"
    numbers = [str(row) for row in range(2000)]
    numbers[1500] = "0.5"
    write_table({"state_a": np.array(numbers), "state_b": np.zeros(2000)}, source)
    source.write_text(source.read_text().replace('"', ""))
    assert main(["predict", str(model), str(source), "--out", str(out)]) == 0
    assert read_table(out).num_rows == 2000
    capsys.readouterr()
    source.write_text(source.read_text().replace("0.5", "half"))
    assert main(["predict", str(model), str(source), "--out", str(out)]) == 2
    assert "'half' in data row 1501" in refusal(capsys)
    assert read_table(out).num_rows == 2000  # the old file


def test_predictions_drop_rows_on_request_and_overwrite_no_column(model: Path, tmp_path: Path, capsys: Shown) -> None:
    source, out = tmp_path / "states.parquet", tmp_path / "values.parquet"
    write_table({"state_a": [1.0, np.nan], "state_b": [0.0, 0.0], "stderr": [1, 2]}, source)
    arguments = ["predict", str(model), str(source), "--out", str(out)]
    assert main(arguments) == 2
    assert "has a column stderr already" in refusal(capsys)
    assert main([*arguments, "--suffix", "_v"]) == 2
    assert "1 of 2 rows lack a number" in refusal(capsys)
    assert not out.exists()
    assert main([*arguments, "--suffix", "_v", "--drop-missing"]) == 0
    assert "Wrote 1 row with V(s) as prediction_v" in capsys.readouterr().out
    assert read_table(out).num_rows == 1
    write_table({"state_a": [np.nan], "state_b": [0.0]}, source)
    assert main([*arguments, "--drop-missing"]) == 2
    assert "leaves none" in refusal(capsys)


def test_an_interruption_of_predictions_is_one_sentence_and_leaves_nothing(
    model: Path, tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PolicyEvaluator, "predict", interrupted)
    assert main(["predict", str(model), str(model.with_name("log.csv")), "--out", str(tmp_path / "values.csv")]) == 130
    assert capsys.readouterr().err == "dualembed: stopped; nothing was written\n"
    assert os.listdir(tmp_path) == []


def test_bad_orders_of_predictions_are_refused(model: Path, tmp_path: Path, capsys: Shown) -> None:
    source = tmp_path / "states.csv"
    write_table({"state_a": [1.0], "state_bb": [0.0]}, source)
    for out, words in (("values.xls", "must end in one of .csv"), ("values.csv", "did you mean 'state_bb'?")):
        assert main(["predict", str(model), str(source), "--out", str(tmp_path / out)]) == 2
        assert words in refusal(capsys)
    assert main(["predict", str(model), str(source), "--out", str(source)]) == 2
    assert "would overwrite" in refusal(capsys)
    assert os.listdir(tmp_path) == ["states.csv"]


def test_a_model_saved_from_python_is_asked_by_its_names_and_not_scored(tmp_path: Path, capsys: Shown) -> None:
    data = columns()
    named = pa.table({"price": data["price"]})
    saving.save(IVRegressor(primal="linear", dual="linear").fit(named, data["sales"]), tmp_path / "named.dualembed")
    saving.save(
        IVRegressor(primal="linear", dual="linear").fit(data["price"][:, None], data["sales"]),
        tmp_path / "nameless.dualembed",
    )
    write_table(data, tmp_path / "log.csv")
    values = str(tmp_path / "values.csv")
    assert main(["predict", str(tmp_path / "named.dualembed"), str(tmp_path / "log.csv"), "--out", values]) == 0
    capsys.readouterr()
    assert main(["score", str(tmp_path / "named.dualembed"), str(tmp_path / "log.csv")]) == 2
    assert "saved from Python" in refusal(capsys)
    assert main(["predict", str(tmp_path / "nameless.dualembed"), str(tmp_path / "log.csv"), "--out", values]) == 2
    assert "saved from Python" in refusal(capsys)


# Scoring and looking


def test_score_on_other_rows_is_honest_and_on_other_rewards_speaks_against_the_model(
    model: Path, tmp_path: Path, capsys: Shown
) -> None:
    source = tmp_path / "other.parquet"
    write_table(columns(seed=1), source)
    assert main(["score", str(model), str(source), "--json"]) == 0
    right = document(capsys)
    assert right["fitted_to_these_rows"] is False
    assert abs(right["error"]["value"]) < 3 * right["error"]["stderr"]
    assert right["consistency"]["p_value"] > 0.01
    write_table({**columns(seed=1), "reward": -columns(seed=1)["reward"]}, source)
    assert main(["score", str(model), str(source), "--json"]) == 0
    wrong = document(capsys)
    assert wrong["error"]["value"] == pytest.approx(4.0, rel=0.3)  # E[(2 s_a)²]
    assert wrong["consistency"]["p_value"] < 0.01


def test_score_warns_of_the_rows_that_were_fitted(model: Path, capsys: Shown) -> None:
    assert main(["score", str(model), str(model.with_name("log.csv"))]) == 0
    assert "fitted to these very rows" in capsys.readouterr().out


def test_info_shows_columns_settings_and_error(model: Path, capsys: Shown) -> None:
    assert main(["info", str(model)]) == 0
    shown = capsys.readouterr().out
    for words in ("policy-evaluation", "400 rows", "state_a, state_b", "0.5", "Honest error"):
        assert words in shown


@pytest.mark.parametrize("command", ["info", "predict", "score"])
def test_files_that_are_no_models_of_this_version_are_refused(
    command: str, model: Path, tmp_path: Path, capsys: Shown
) -> None:
    more = [] if command == "info" else [str(model.with_name("log.csv"))]
    more += ["--out", str(tmp_path / "values.csv")] if command == "predict" else []
    newer, foreign = tmp_path / "newer.dualembed", tmp_path / "foreign.dualembed"
    newer.write_bytes(re.sub(rb'"dualembed":"\d+ ', b'"dualembed":"9 ', model.read_bytes(), count=1))
    foreign.write_text("state,reward\n")
    for path, words in (
        (newer, "format 9"),
        (foreign, "not a model file"),
        (tmp_path / "absent.dualembed", "there is no file"),
    ):
        assert main([command, str(path), *more]) == 2
        assert words in refusal(capsys)


# Help, completion and the example


@pytest.mark.parametrize("command", ["fit", "predict", "score", "info"])
def test_help_gives_two_examples_that_name_the_command(command: str, capsys: Shown) -> None:
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.count(f"  dualembed {command} ") == 2


@pytest.mark.parametrize("task", known_tasks())
def test_help_of_a_task_has_its_own_options_and_examples_alone(task: str, capsys: Shown) -> None:
    for arguments in (["fit", task, "--help"], ["fit", "--help", task, "log.csv"]):
        assert main(arguments) == 0
        shown = capsys.readouterr().out
        count = len(known_tasks()[task].examples)
        assert shown.count(f"  dualembed fit {task} ") == shown.count("  dualembed fit ") == count >= 2
        given = re.findall(r"^  (--[\w-]+)", shown.partition("Options:")[2], flags=re.MULTILINE)
        asked = known_tasks()[task]
        needed = [*(ROLES[name].option for name in asked.needs), *(each.option for each in asked.settings)]
        assert given[: len(needed)] == needed
        of_tasks = {each.option for task in known_tasks().values() for each in (*task.roles, *task.settings)}
        assert {*given} & of_tasks == {each.option for each in (*asked.roles, *asked.settings)}


@pytest.mark.parametrize("task", known_tasks())
def test_examples_of_a_task_can_be_given_as_they_stand(
    task: str, tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for example in known_tasks()[task].examples:
        table, *arguments = shlex.split(example)
        assert main(["fit", task, table, *arguments]) == 2
        assert f"there is no file {table}" in refusal(capsys)  # and nothing else is wrong with it


def test_shells_complete_commands_tasks_and_options() -> None:
    def completed(line: str) -> list[str]:
        told = {"_DUALEMBED_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        program = "from dualembed.cli import main; main()"
        found = subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, **told}, capture_output=True, text=True
        )
        return found.stdout.split()

    assert completed("dualembed fit pol") == ["policy-evaluation"]
    assert completed("dualembed pre") == ["predict"]
    assert completed("dualembed fit iv table.csv --inst") == ["--instrument"]
