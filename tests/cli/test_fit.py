"""From a table to a saved model: fit says what it found, refuses in one sentence, and leaves no half of a file."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from tests.cli.tables import DISCOUNT, LINEAR, ROWS, Shown, columns, document, refusal

from dualembed import cli, saving
from dualembed.cli import main
from dualembed.cli.options import known_tasks
from dualembed.data import read_table, write_table
from dualembed.estimators import PolicyEvaluator


def test_the_command_line_writes_nothing_onto_an_estimator() -> None:
    """What a fit keeps of its table goes in with the table."""
    for path in Path(cli.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            written = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            assert not (written and re.fullmatch(r"[a-z]\w*_", node.attr)), f"{path.name}:{node.lineno}"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_table(columns(), tmp_path / "log.csv")
    return tmp_path / "log.csv"


def fitted(table: Path, *more: str, task: str = "policy-evaluation") -> int:
    """The exit code of a linear fit to the table, saved beside it."""
    return main(["fit", task, str(table), "--out", str(table.parent / "model.dualembed"), *LINEAR, *more])


def changed(table: Path, **new: Any) -> Path:
    """The table with columns replaced, added or (None) taken away."""
    kept = {name: column for name, column in {**columns(), **new}.items() if column is not None}
    csv.write_csv(pa.table(kept), table)
    return table


# Fitting


def test_fit_says_in_words_what_it_found_and_where_it_is(table: Path, capsys: Shown) -> None:
    report = table.parent / "pages" / "value.html"
    assert fitted(table, "--discount", str(DISCOUNT), "--report", str(report)) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    for words in ("Read 400 rows", "next_state_a, next_state_b", "The policy's value", "95 % interval", "80 episodes"):
        assert words in shown.out
    assert "Honest error on rows left out" in shown.out
    assert str(table.parent / "model.dualembed") in shown.out
    assert str(report) in shown.out
    page = report.read_text(encoding="utf-8")
    assert "dualembed fit policy-evaluation" in page
    assert "<span>--discount</span> 0.5" in page


TASKS = [
    ("policy-evaluation", ["--discount", "0.5"]),
    ("action-value", ["--discount", "0.5"]),
    ("iv", ["--x", "price", "--y", "sales", "--instrument", "tax", "--control", "state_b"]),
    ("hitting-time", ["--target", "state_a > 0.5"]),
    ("committor", ["--from", "state_a < -1.2", "--to", "state_a > 1.2"]),
    ("stationary", ["--observable", "reward"]),
    ("linear-control", []),
]


@pytest.mark.parametrize(("task", "more"), TASKS)
def test_no_model_need_be_kept_for_an_answer(task: str, more: list[str], table: Path, capsys: Shown) -> None:
    words = ["fit", task, str(table), *LINEAR, *more]
    assert main(words) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "Model:  not kept; add --out log.dualembed to keep it for `dualembed ask`, `predict` and `score`"
    assert os.listdir(table.parent) == ["log.csv"]
    assert main([*words, "--json"]) == 0
    without = document(capsys)
    assert without["model"] is None
    assert "--out" not in without["command"]
    assert fitted(table, *more, "--json", task=task) == 0
    assert document(capsys)["headline"] == without["headline"]


def test_a_report_is_written_where_no_model_is_kept(table: Path, capsys: Shown) -> None:
    page = table.parent / "page.html"
    assert main(["fit", "policy-evaluation", str(table), *LINEAR, "--report", str(page)]) == 0
    assert f"Report: {page}" in capsys.readouterr().out
    assert "--out" not in page.read_text(encoding="utf-8")
    assert sorted(os.listdir(table.parent)) == ["log.csv", "page.html"]


def test_fit_from_csv_and_from_parquet_is_the_value_that_is_known(table: Path, capsys: Shown) -> None:
    write_table(columns(), table.with_suffix(".parquet"))
    answers = []
    for path in (table, table.with_suffix(".parquet")):
        assert fitted(path, "--discount", str(DISCOUNT), "--json") == 0
        answers.append(document(capsys)["answer"])
    assert answers[0] == answers[1]
    starts = columns()["state_a"][::5]
    value = answers[0]["policy_value"]
    assert value["episodes"] == 80
    assert value["lower"] < starts.mean() / (1 - DISCOUNT / 2) < value["upper"]
    model = saving.load(table.parent / "model.dualembed")
    probe = pa.table({"state_a": [1.0, -1.0], "state_b": [0.0, 0.0]})
    assert np.diff(model.predict(probe))[0] == pytest.approx(-2 / (1 - DISCOUNT / 2), rel=0.1)


@pytest.mark.parametrize(("task", "more"), TASKS[1:])
def test_every_task_is_fitted_saved_asked_and_scored(task: str, more: list[str], table: Path, capsys: Shown) -> None:
    assert fitted(table, *more, "--json", task=task) == 0
    found = document(capsys)
    assert found["task"] == task
    assert found["rows"] == ROWS
    assert found["answer"]["lowest"] <= found["answer"]["mean"]["value"] <= found["answer"]["highest"]
    assert found["honest_error"]["stderr"] > 0
    model, values = table.parent / "model.dualembed", table.parent / "values.parquet"
    assert main(["predict", str(model), str(table), "--out", str(values), "--json"]) == 0
    assert document(capsys)["rows"] == ROWS
    assert np.isfinite(read_table(values).column("prediction").to_numpy()).all()
    assert main(["score", str(model), str(table), "--json"]) == 0
    scored = document(capsys)
    assert scored["fitted_to_these_rows"] is True
    assert 0 < scored["consistency"]["p_value"] <= 1
    assert main(["info", str(model), "--json"]) == 0
    assert document(capsys)["columns"] == found["columns"]
    # For people, too.
    assert fitted(table, *more, task=task) == 0
    assert main(["info", str(model)]) == 0
    assert known_tasks()[task].line in capsys.readouterr().out


def test_effect_by_an_instrument_is_the_one_that_is_known(table: Path, capsys: Shown) -> None:
    assert fitted(table, "--x", "price", "--y", "sales", "--instrument", "tax", "--json", task="iv") == 0
    (effect,) = document(capsys)["answer"]["effects"]
    assert (effect["column"], effect["from"], effect["to"]) == ("price", 0.0, 1.0)
    assert effect["lower"] < 1 < effect["upper"]  # where plain regression says 2
    assert effect["upper"] < 1.5


def test_without_errors_of_a_closed_form_the_value_is_there_alone(table: Path, capsys: Shown) -> None:
    assert fitted(table, "--discount", str(DISCOUNT), "--solver", "embedding-sgd", "--json") == 0
    value = document(capsys)["answer"]["policy_value"]
    assert value["stderr"] is None
    assert value["value"] == pytest.approx(columns()["state_a"][::5].mean() / (1 - DISCOUNT / 2), abs=0.2)
    model, values = table.parent / "model.dualembed", table.parent / "values.csv"
    assert main(["predict", str(model), str(table), "--out", str(values)]) == 0
    assert read_table(values).column_names == [*columns(), "prediction"]


def test_next_columns_are_paired_with_what_they_follow(table: Path, capsys: Shown) -> None:
    assert fitted(table, "--state", "state_b,state_a", "--next-state", "next_state_a,next_state_b", "--json") == 0
    found = document(capsys)["columns"]
    assert found["state"] == ["state_b", "state_a"]
    assert found["next_state"] == ["next_state_b", "next_state_a"]


def test_an_empty_option_takes_no_column(table: Path, capsys: Shown) -> None:
    assert fitted(table, "--episode", "", "--json") == 0
    found = document(capsys)
    assert "episode" not in found["columns"]
    assert "policy_value" not in found["answer"]


def test_a_column_that_seems_to_mark_ends_is_pointed_out(table: Path, capsys: Shown) -> None:
    done = np.arange(400) % 5 == 4
    assert fitted(changed(table, terminal=None, **{"is Done": done * 1})) == 0
    assert "give --terminated 'is Done'" in " ".join(capsys.readouterr().out.split())
    for more in (["--terminated", "is Done"], ["--terminated", ""]):
        assert fitted(table, *more) == 0
        assert "is not used" not in capsys.readouterr().out


def test_what_follows_is_not_proposed_to_be_what_it_follows(table: Path, capsys: Shown) -> None:
    table.write_text("position,reward,position_next\n0,1,2\n1,2,3\n")
    assert fitted(table, "--state", "position") == 2
    assert "no column 'next_position'" in (said := refusal(capsys))
    assert "did you mean 'position_next'?" in said
    table.write_text("position,reward\n0,1\n1,2\n")
    assert fitted(table, "--state", "position") == 2
    assert "did you mean" not in refusal(capsys)


def test_a_column_with_a_comma_in_its_name_is_given_in_quotes(table: Path, capsys: Shown) -> None:
    changed(table, **{"price, net": columns()["price"], "kind, or so": columns()["kind"]})
    names = '"price, net","kind, or so"'
    assert fitted(table, "--x", names, "--y", "sales", "--categorical", '"kind, or so"', "--json", task="iv") == 0
    found = document(capsys)
    assert found["columns"]["x"] == ["price, net", "kind, or so"]
    assert found["categories"] == ["kind, or so"]
    assert found["command"].endswith("""--categorical '"kind, or so"'""")


# Missing numbers


def test_missing_numbers_are_counted_and_dropped_on_request(table: Path, capsys: Shown) -> None:
    reward = columns()["reward"].copy()
    reward[[2, 7, 11]] = np.nan
    changed(table, reward=reward)
    assert fitted(table) == 2
    said = refusal(capsys)
    assert "3 of 400 rows lack a number in reward (the first is data row 3)" in said
    assert "--drop-missing" in said
    assert fitted(table, "--drop-missing", "--json") == 0
    found = document(capsys)
    assert (found["rows"], found["dropped"]) == (397, 3)


def test_what_follows_an_end_may_be_missing_and_the_end_is_kept(table: Path, capsys: Shown) -> None:
    terminated = np.arange(ROWS) % 5 == 4
    following = np.where(terminated, np.nan, columns()["next_state_a"])
    changed(table, next_state_a=following, terminated=terminated)
    assert fitted(table, "--json", "--drop-missing") == 0
    assert document(capsys)["dropped"] == 0
    changed(table, next_state_a=following)
    assert fitted(table) == 2
    assert "80 of 400 rows" in refusal(capsys)


# Rows that follow each other


def paths(table: Path, **more: Any) -> dict[str, np.ndarray]:
    """Forty episodes of ten rows, half of which end, written to the table; without what follows."""
    rng = np.random.default_rng(0)
    state = np.cumsum(rng.normal(size=(40, 10)), axis=1) / 3
    last = np.tile(np.arange(10) == 9, (40, 1))
    found = {
        "state": state.ravel(),
        "action": rng.integers(2, size=400),
        "reward": state.ravel() + rng.normal(size=400),
        "terminated": (last & (np.arange(40) < 20)[:, None]).ravel() * 1,
        "episode": np.repeat(np.arange(40), 10),
        "clinic": np.repeat(np.arange(20), 20),
        "day": np.tile(np.arange(10), 40),
        **more,
    }
    csv.write_csv(pa.table(found), table)
    return found


@pytest.mark.parametrize(
    ("task", "more"),
    [
        ("policy-evaluation", []),
        ("action-value", []),
        ("hitting-time", ["--target", "state > 1"]),
        ("linear-control", ["--terminal", "terminated", "--cost", "day"]),
    ],
)
def test_a_table_without_what_follows_is_fitted_as_the_explicit_one(
    task: str, more: list[str], table: Path, capsys: Shown
) -> None:
    rows = paths(table)
    assert fitted(table, *more, "--json", task=task) == 0
    found = document(capsys)
    model = str(table.parent / "model.dualembed")
    assert main(["score", model, str(table), "--json"]) == 0
    scored = document(capsys)
    left_out = 40 if task == "hitting-time" else 20
    assert (found["rows"], found["answer"]["rows_left_out"], scored["left_out"]) == (400 - left_out,) + 2 * (left_out,)
    assert "next_state" not in found["columns"]
    assert scored["fitted_to_these_rows"] is True
    goes_on = rows["day"] < 9
    after = np.arange(400) + goes_on
    kept = goes_on | (task != "hitting-time") & (rows["terminated"] > 0)
    whole = {**rows, "next_state": rows["state"][after], "next_action": rows["action"][after]}
    csv.write_csv(pa.table({name: column[kept] for name, column in whole.items()}), table)
    assert fitted(table, *more, "--json", task=task) == 0
    again = document(capsys)
    assert again["headline"] == found["headline"]
    assert again["honest_error"] == found["honest_error"]
    assert main(["score", model, str(table), "--json"]) == 0
    assert document(capsys)["error"] == scored["error"]


def test_rows_out_of_order_with_a_time_are_fitted_as_in_order(table: Path, capsys: Shown) -> None:
    rows = paths(table)
    assert fitted(table, "--json") == 0
    expected = document(capsys)
    mixed = np.random.default_rng(0).permutation(400)
    csv.write_csv(pa.table({name: column[mixed] for name, column in rows.items()}), table)
    assert fitted(table, "--time", "day", "--json") == 0
    assert document(capsys)["headline"] == expected["headline"]
    assert fitted(table, "--time", "day", "--episode", "", "--terminated", "") == 2
    assert "both have the time" in refusal(capsys)


def test_a_row_that_is_dropped_is_still_what_another_leads_to(table: Path, capsys: Shown) -> None:
    reward = paths(table)["reward"].copy()
    reward[5] = np.nan  # its state is known
    state = paths(table)["state"].copy()
    state[15] = np.nan  # and this row, and the one before, are lost
    paths(table, reward=reward, state=state)
    assert fitted(table) == 2
    assert "2 of 400 rows lack a number in state, reward" in refusal(capsys)
    assert fitted(table, "--drop-missing", "--json") == 0
    found = document(capsys)
    assert (found["dropped"], found["answer"]["rows_left_out"], found["rows"]) == (3, 20, 377)


def test_without_what_says_what_follows_next_states_are_asked_for(table: Path, capsys: Shown) -> None:
    paths(table)
    assert fitted(table, "--episode", "", "--terminated", "") == 2
    said = refusal(capsys)
    assert "no column 'next_state'" in said
    assert "or --episode or --time says which row follows which" in said
    paths(table, state_next=np.zeros(400))
    assert fitted(table, "--state", "state") == 2
    assert "if 'state_next' is none of it, --next-state \"\" takes what the next row has" in refusal(capsys)
    assert fitted(table, "--state", "state", "--next-state", "") == 0


@pytest.mark.parametrize("task", ["policy-evaluation", "action-value", "hitting-time", "linear-control", "iv"])
def test_groups_cluster_errors_by_their_own_option(task: str, table: Path, capsys: Shown) -> None:
    paths(table)
    more = {
        "hitting-time": ["--target", "state > 1"],
        "linear-control": ["--terminal", "terminated", "--cost", "day"],
        "iv": ["--x", "state", "--y", "reward"],
    }.get(task, [])
    errors = []
    for group in ([], ["--group", "clinic"]):
        assert fitted(table, *more, *group, "--json", task=task) == 0
        errors.append(document(capsys)["headline"]["stderr"])
    assert errors[0] != errors[1]
    model = saving.load(table.parent / "model.dualembed")
    assert model.columns_["group"] == ["clinic"]
    assert main(["score", str(table.parent / "model.dualembed"), str(table), "--json"]) == 0


def test_episode_is_still_another_name_of_group_where_nothing_follows(table: Path, capsys: Shown) -> None:
    paths(table)
    errors = []
    for option in ("--episode", "--group"):
        assert fitted(table, "--x", "state", "--y", "reward", option, "clinic", "--json", task="iv") == 0
        found = document(capsys)
        errors.append(found["headline"]["stderr"])
        assert found["columns"][option.removeprefix("--")] == ["clinic"]
        assert main(["score", str(table.parent / "model.dualembed"), str(table), "--json"]) == 0
        assert document(capsys)["error"]["stderr"] > 0
    assert errors[0] == errors[1]
    assert fitted(table, "--x", "state", "--y", "reward", "--episode", "day", "--group", "clinic", task="iv") == 2
    assert "--episode is another name of --group; give one of them" in refusal(capsys)


def test_truncated_rows_are_cut_off(table: Path, capsys: Shown) -> None:
    rows = paths(table)
    cut = (rows["day"] == 4) * 1
    paths(table, limit=cut)
    assert fitted(table, "--truncated", "limit", "--json") == 0
    found = document(capsys)
    assert found["columns"]["truncated"] == ["limit"]
    assert found["answer"]["rows_left_out"] == 20 + 40
    assert fitted(table, "--truncated", "limit", "--x", "day", task="iv") == 2
    assert "--truncated has no use in iv" in refusal(capsys)


def test_columns_with_other_libraries_names_are_found(table: Path, capsys: Shown) -> None:
    rows = paths(table)
    names = {"state": "obs_0", "reward": "rewards", "terminated": "terminals", "episode": "episode_ids"}
    csv.write_csv(pa.table({names.get(name, name): column for name, column in rows.items()}), table)
    assert fitted(table, "--json") == 0
    assert document(capsys)["columns"] == {
        "state": ["obs_0"],
        "reward": ["rewards"],
        "terminated": ["terminals"],
        "episode": ["episode_ids"],
    }


# Refusals


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["policy-evaluaton"], "did you mean 'policy-evaluation'?"),
        (["guess"], "choose one of: policy-evaluation, action-value"),
        (["policy-evaluation", "--reward", "rewad"], "did you mean 'reward'?"),
        (["policy-evaluation", "--state", "s*"], "next_sales"),
        (["policy-evaluation", "--state", "z*"], "matches no column"),
        (["policy-evaluation", "--reward", "kind"], "'kind' holds"),
        (["policy-evaluation", "--reward", "reward,cost"], "--reward must be one column, not 2"),
        (["policy-evaluation", "--next-state", "next_state_a"], "a column for each of --state"),
        (["policy-evaluation", "--next-state", "state_a,state_b"], "by --state and by --next-state"),
        (["policy-evaluation", "--state", ""], "--state is empty"),
        (["policy-evaluation", "--x", "price"], "--x has no use in policy-evaluation"),
        (["policy-evaluation", "--target", "state_a > 0"], "--target has no use"),
        (["policy-evaluation", "--discount", "1.5"], "--discount must be from 0 to 1, not 1.5"),
        (["policy-evaluation", "--discount", "nan"], "--discount must be from 0 to 1, not nan"),
        (["policy-evaluation", "--discount", "1"], "unless a column terminated marks"),
        (["policy-evaluation", "--discount", "much"], "--discount"),
        (["policy-evaluation", "--solver", "magic"], "--solver must be one of auto, closed-form"),
        (["policy-evaluation", "--primal", "magic"], "--primal must be one of auto, linear"),
        (["policy-evaluation", "--seed", "-1"], "--seed"),
        (["policy-evaluation", "--report", "page.pdf"], "must end in .html"),
        (["iv", "--y", "sales"], "the table has no column 'x'"),
        (["hitting-time"], "needs --target"),
        (["hitting-time", "--target", "state_c > 0"], "'state_c'"),
        (["hitting-time", "--target", "state_a > 1e9"], "no transition reaches the target"),
        (["stationary", "--where", "state_a > 1e9"], "where holds in none of the states"),
    ],
)
def test_bad_orders_are_one_sentence_and_code_2(
    arguments: list[str], words: str, table: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    assert fitted(table, *arguments[1:], task=arguments[0]) == 2
    assert words in refusal(capsys)
    assert os.listdir(table.parent) == ["log.csv"]


def test_bad_tables_are_one_sentence_and_code_2(table: Path, capsys: Shown) -> None:
    assert fitted(table.with_name("lag.csv")) == 2
    assert "did you mean 'log.csv'?" in refusal(capsys)
    table.write_text("")
    assert fitted(table) == 2
    assert "is empty" in refusal(capsys)
    table.write_text("state,reward,next_state\n")
    assert fitted(table) == 2
    assert "no rows" in refusal(capsys)
    reward = [str(number) for number in range(ROWS)]
    reward[41] = "forty-one"
    changed(table, reward=np.array(reward))
    assert fitted(table) == 2
    assert "'reward' holds 'forty-one' in data row 42" in refusal(capsys)


def test_files_that_cannot_or_must_not_be_written_are_refused_before_the_work(
    table: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PolicyEvaluator, "fit", None)  # any use of it would be an error of another kind
    before = table.read_bytes()
    for out, words in (
        (table / "model.dualembed", "cannot be written"),
        (table.parent, "is a folder"),
        (table, "would overwrite"),
    ):
        assert main(["fit", "policy-evaluation", str(table), "--out", str(out)]) == 2
        assert words in refusal(capsys)
    model = str(table.parent / "model.dualembed")
    page = str(table / "page.html")
    assert main(["fit", "policy-evaluation", str(table), "--out", model, "--report", page]) == 2
    assert "cannot be written" in refusal(capsys)
    assert table.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(table: Path, capsys: Shown) -> None:
    locked = table.parent / "locked"
    locked.mkdir(mode=0o500)
    assert main(["fit", "policy-evaluation", str(table), "--out", str(locked / "model.dualembed")]) == 2
    assert "permission denied" in refusal(capsys)


def test_columns_that_never_change_are_refused(table: Path, capsys: Shown) -> None:
    changed(table, state_a=np.ones(ROWS), state_b=np.zeros(ROWS))
    assert fitted(table) == 2
    assert "the same value in all 400 rows (state_a, state_b)" in refusal(capsys)


# Interruption


def test_an_interruption_leaves_the_old_model_and_no_other_file(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = table.parent / "model.dualembed"
    old.write_bytes(b"old")

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(PolicyEvaluator, "fit", interrupted)
        assert fitted(table) == 130
    assert fitted(table, "--report", "/dev/null/page.html") == 2
    assert sorted(os.listdir(table.parent)) == ["log.csv", "model.dualembed"]
    assert old.read_bytes() == b"old"
    monkeypatch.setattr(os, "replace", interrupted)
    assert fitted(table) == 130
    assert sorted(os.listdir(table.parent)) == ["log.csv", "model.dualembed"]
    assert old.read_bytes() == b"old"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")
@pytest.mark.parametrize("lost", [False, True], ids=["raised", "lost in a callback"])
def test_ctrl_c_ends_a_fit_with_code_130_and_no_traceback(lost: bool, table: Path) -> None:
    # Compiled code calls back into Python, and an exception that comes up there may be dropped.
    program = (
        "import sys, time\n"
        "from dualembed.cli import main\n"
        "from dualembed.estimators import PolicyEvaluator\n"
        "def fit(self, table):\n"
        "    print('ready', flush=True)\n"
        "    try:\n"
        "        time.sleep(3600)\n"
        "    except KeyboardInterrupt:\n"
        f"        time.sleep({3600 * lost})\n"
        "        raise\n"
        "PolicyEvaluator.fit = fit\n"
        "sys.exit(main())\n"
    )
    command = ["fit", "policy-evaluation", str(table), "--out", str(table.parent / "model.dualembed")]
    with subprocess.Popen(
        [sys.executable, "-c", program, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=600)  # no measure of speed, only no endless wait
        finally:
            process.kill()
    assert process.returncode == 130
    assert errors == "dualembed: stopped; nothing was written\n"
    assert os.listdir(table.parent) == ["log.csv"]


def test_an_interruption_between_model_and_report_says_what_is_there(
    table: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dualembed.report.write_report", interrupted)
    assert fitted(table, "--report", str(table.parent / "page.html")) == 130
    model = table.parent / "model.dualembed"
    assert capsys.readouterr().err == f"dualembed: stopped; the model {model} is written, but not the report\n"
    assert sorted(os.listdir(table.parent)) == ["log.csv", "model.dualembed"]


def test_what_goes_wrong_in_drawing_loses_neither_answer_nor_model(
    table: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("no ink")

    monkeypatch.setattr("dualembed.report.write_report", fails)
    assert fitted(table, "--report", str(table.parent / "page.html")) == 2
    shown = capsys.readouterr()
    assert "The policy's value" in shown.out
    assert "could not be drawn (no ink)" in shown.err
    assert sorted(os.listdir(table.parent)) == ["log.csv", "model.dualembed"]


def test_the_answer_is_printed_before_the_report_is_drawn(
    table: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr("dualembed.report.write_report", lambda *_, **__: seen.append(capsys.readouterr().out))
    assert fitted(table, "--report", str(table.parent / "page.html")) == 0
    assert "The policy's value" in seen[0]
    assert capsys.readouterr().out.startswith("Report: ")


def test_in_anothers_process_an_interruption_stays_an_exception(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: list[Any] = []

    def looked(*_: Any, **__: Any) -> None:
        handlers.append(signal.getsignal(signal.SIGINT))
        raise KeyboardInterrupt

    monkeypatch.setattr(PolicyEvaluator, "fit", looked)
    own = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        assert fitted(table) == 130
    finally:
        signal.signal(signal.SIGINT, own)
    assert handlers == [signal.default_int_handler]


# What new users meet


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit"], "TASK is missing: one of policy-evaluation, action-value, iv,"),
        (["fit", "iv"], "TABLE is missing: a CSV, Parquet or Arrow file"),
        (["score"], "MODEL is missing: a model file that `dualembed fit` has written"),
    ],
)
def test_what_is_left_out_is_explained(arguments: list[str], words: str, capsys: Shown) -> None:
    assert main(arguments) == 2
    assert words in refusal(capsys)


@pytest.mark.parametrize("said", [("no", "yes"), ("False", "True"), ("n", "Y")])
def test_marks_may_be_written_as_yes_and_no(said: tuple[str, str], table: Path, capsys: Shown) -> None:
    rows = paths(table)
    assert fitted(table, "--json") == 0
    expected = document(capsys)["headline"]
    paths(table, terminated=np.array(said)[rows["terminated"]])
    assert fitted(table, "--json") == 0
    assert document(capsys)["headline"] == expected
    paths(table, terminated=np.where(rows["terminated"] > 0, "yes", "maybe"))
    assert fitted(table) == 2
    assert "'terminated' holds 'maybe' in data row 1" in refusal(capsys)


def test_decimals_with_commas_and_columns_without_them_are_told_apart(table: Path, capsys: Shown) -> None:
    state = np.array([f"{number:.3f}".replace(".", ",") for number in paths(table)["state"]])
    paths(table, state=state)
    assert fitted(table) == 2
    assert "with a comma in it; write decimals with a point" in refusal(capsys)
    paths(table)
    table.write_text(table.read_text().replace(",", ";").replace('"', ""))
    for more in ([], ["--state", "state"]):
        assert fitted(table, *more) == 2
        assert "the file seems to have ';' between its columns, where commas must be" in refusal(capsys)


def test_a_column_called_last_is_pointed_out_too(table: Path, capsys: Shown) -> None:
    rows = paths(table)
    paths(table, last=(rows["day"] == 9) * 1)
    assert fitted(table, "--json") == 0
    assert document(capsys)["warnings"] == []  # terminated says it
    csv.write_csv(read_table(table).drop_columns(["terminated"]), table)
    assert fitted(table, "--json") == 0
    assert "give --terminated last" in " ".join(document(capsys)["warnings"])


def test_a_single_equals_sign_is_answered_with_two(table: Path, capsys: Shown) -> None:
    paths(table)
    assert fitted(table, "--target", "state = 1", task="hitting-time") == 2
    assert "is equal is written ==" in refusal(capsys)


def test_a_table_by_the_names_of_rllib_is_fitted_to_without_options(tmp_path: Path, capsys: Shown) -> None:
    """Its vectors, its labels and times in any order, and the logarithms of its probabilities."""
    rng = np.random.default_rng(0)
    state = rng.normal(size=(30, 11, 2))
    action = rng.integers(2, size=300)
    order = rng.permutation(300)
    columns = {
        "obs": state[:, :-1].reshape(300, 2).tolist(),
        "new_obs": state[:, 1:].reshape(300, 2).tolist(),
        "actions": action.tolist(),
        "rewards": state[:, :-1, 0].ravel().tolist(),
        "terminateds": [False] * 300,
        "eps_id": np.repeat(rng.permutation(30), 10).tolist(),
        "t": np.tile(np.arange(10), 30).tolist(),
        "action_logp": np.log(np.full(300, 0.5)).tolist(),
        "evaluated": np.where(action == 1, 0.7, 0.3).tolist(),
    }
    shuffled = {name: [column[row] for row in order] for name, column in columns.items()}
    parquet.write_table(pa.table(shuffled), tmp_path / "log.parquet")
    words = ["fit", "policy-evaluation", str(tmp_path / "log.parquet"), "--target-probability", "evaluated", "--json"]
    assert main([*words, *LINEAR]) == 0
    found = document(capsys)
    assert found["columns"] == {
        "state": ["obs_0", "obs_1"],
        "reward": ["rewards"],
        "next_state": ["new_obs_0", "new_obs_1"],
        "terminated": ["terminateds"],
        "propensity": ["action_logp"],
        "target_probability": ["evaluated"],
        "episode": ["eps_id"],
        "time": ["t"],
    }
    weights = {"propensities": np.full(300, 0.5), "target_probabilities": np.array(columns["evaluated"])}
    model = PolicyEvaluator(primal="linear", dual="linear").fit(
        np.array(columns["obs"]),
        columns["rewards"],
        np.array(columns["new_obs"]),
        episodes=columns["eps_id"],
        **weights,
    )
    assert found["headline"]["value"] == pytest.approx(model.value().value)


def test_transitions_of_a_reversible_process_may_count_backwards(tmp_path: Path, capsys: Shown) -> None:
    steps = np.random.default_rng(0).choice([-1, 1], size=600)
    write_table({"s": np.cumsum(steps) % 6, "run": np.arange(600) // 100}, tmp_path / "ring.csv")
    given = ["fit", "hitting-time", str(tmp_path / "ring.csv"), "--state", "s", "--episode", "run", "--target", "s < 1"]
    rows: list[int] = []
    for more in ([], ["--reversible"]):
        model = tmp_path / f"{len(rows)}.dualembed"
        assert main([*given, "--out", str(model), *more, "--json"]) == 0
        assert ("--reversible --solver" in document(capsys)["command"]) == bool(more)
        rows.append(saving.describe(model)["rows"])
    assert rows[1] == 2 * rows[0]
