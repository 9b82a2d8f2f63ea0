"""What fit says of each task: categories by themselves, instruments in words, levels, policies, times to a target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather
from tests.cli.tables import LINEAR, ROWS, Shown, columns, document, refusal

from dualembed.cli import main
from dualembed.data import read_table
from dualembed.saving import load


def written(folder: Path, **new: Any) -> Path:
    """The table with columns replaced or added."""
    csv.write_csv(pa.table({**columns(), **new}), folder / "log.csv")
    return folder / "log.csv"


def fit(table: Path, task: str, *more: str) -> int:
    return main(["fit", task, str(table), "--out", str(table.parent / "model.dualembed"), *LINEAR, *more])


# Categories


def test_text_of_few_values_is_a_category_by_itself_from_fit_to_score(tmp_path: Path, capsys: Shown) -> None:
    table = written(tmp_path)
    arguments = ["--x", "price", "--y", "sales", "--instrument", "tax", "--control", "kind"]
    assert fit(table, "iv", *arguments) == 0
    assert "taken as categories" in capsys.readouterr().out
    assert fit(table, "iv", *arguments, "--json") == 0
    found = document(capsys)
    assert found["categories"] == ["kind"]
    assert "--categorical" not in found["command"]
    model, values = tmp_path / "model.dualembed", tmp_path / "values.csv"
    assert main(["predict", str(model), str(table), "--out", str(values)]) == 0
    assert len(set(read_table(values)["prediction"].to_pylist())) > 3
    capsys.readouterr()
    assert main(["score", str(model), str(table), "--json"]) == 0
    assert document(capsys)["fitted_to_these_rows"] is True


def test_categories_of_states_are_those_of_next_states_and_declared_ones_may_be_numbers(
    tmp_path: Path, capsys: Shown
) -> None:
    data: dict[str, Any] = {name: columns()[name] for name in ("state_a", "reward", "next_state_a")}
    room = np.random.default_rng(0).integers(3, size=ROWS + 1)
    data |= {"room": pa.array(room[:-1]).dictionary_encode(), "next_room": pa.array(room[1:]).dictionary_encode()}
    feather.write_feather(pa.table(data), tmp_path / "log.feather")
    assert fit(tmp_path / "log.feather", "policy-evaluation", "--state", "state_a,room", "--json") == 0
    assert document(capsys)["categories"] == ["room"]


def test_several_actions_may_be_text_and_numbers(tmp_path: Path, capsys: Shown) -> None:
    kind = columns()["kind"]
    table = written(tmp_path, force=columns()["tax"], next_force=columns(1)["tax"], next_kind=np.roll(kind, -1))
    assert fit(table, "action-value", "--action", "kind,force", "--discount", "0.5", "--json") == 0
    assert document(capsys)["columns"]["next_action"] == ["next_kind", "next_force"]


def test_a_bad_cell_among_numbers_is_named_and_not_made_a_category(tmp_path: Path, capsys: Shown) -> None:
    price = columns()["price"].astype(str).astype(object)
    price[41] = "n/k"
    table = written(tmp_path, price=price)
    assert fit(table, "iv", "--x", "price", "--y", "sales") == 2
    said = refusal(capsys)
    assert "'price' holds 'n/k' in data row 42" in said
    assert "--categorical price" in said


def test_text_of_many_values_is_refused(tmp_path: Path, capsys: Shown) -> None:
    table = written(tmp_path, note=np.array([f"note {row}" for row in range(ROWS)]))
    assert fit(table, "iv", "--x", "price,note", "--y", "sales") == 2
    assert "at most 64 categories, but the column 'note' holds 400 different ones, the first 'note 0'" in refusal(
        capsys
    )
    assert fit(table, "iv", "--x", "price", "--y", "sales", "--categorical", "prise") == 2
    assert "did you mean 'price'?" in refusal(capsys)


def test_each_level_is_compared_with_the_most_frequent_one(tmp_path: Path, capsys: Shown) -> None:
    kind = np.array(["c", "a", "b", "c"])[np.arange(ROWS) % 4]
    sales = np.select([kind == "a", kind == "b"], [1.0, 3.0], 0.0) + 0.1 * columns()["tax"]
    assert fit(written(tmp_path, kind=kind, sales=sales), "iv", "--x", "kind", "--y", "sales", "--json") == 0
    effects = document(capsys)["answer"]["effects"]
    assert [(each["from"], each["to"]) for each in effects] == [("c", "a"), ("c", "b")]
    assert [each["value"] for each in effects] == pytest.approx([1.0, 3.0], abs=0.1)


# Instruments


@pytest.mark.parametrize(("instrument", "word"), [("tax", "strong"), ("state_a", "weak")])
def test_the_strength_of_instruments_is_said_by_fit_and_by_info(
    instrument: str, word: str, tmp_path: Path, capsys: Shown
) -> None:
    table = written(tmp_path)
    assert fit(table, "iv", "--x", "price", "--y", "sales", "--instrument", instrument) == 0
    said = "On rows left out the instruments predict"
    shown = capsys.readouterr().out
    assert said in shown
    assert "The first-stage F of the instruments for price is" in shown
    assert ("Warning: the instruments are weak for price" in shown) == (word == "weak")
    assert main(["info", str(tmp_path / "model.dualembed")]) == 0
    assert said in capsys.readouterr().out
    assert main(["info", str(tmp_path / "model.dualembed"), "--json"]) == 0
    share = document(capsys)["first_stage"]["price"]
    assert 0.3 < share < 0.7 if word == "strong" else share < 0.05  # of price = tax + hidden


# Policies


def test_the_value_of_the_logs_own_actions_is_told_at_the_starts(tmp_path: Path, capsys: Shown) -> None:
    action = columns()["action"]
    table = written(tmp_path, reward=1.0 * action, next_action=np.roll(action, -1))
    assert fit(table, "action-value", "--discount", "0.5", "--json") == 0
    value = document(capsys)["answer"]["policy_value"]
    assert value["episodes"] == 80
    assert value["where"] == "the starts of 80 episodes"
    assert value["lower"] < 0.5 / (1 - 0.5) < value["upper"]  # a coin's reward for ever
    assert value["stderr"] < 0.2
    assert fit(table, "action-value", "--discount", "0.5") == 0
    assert "The policy's value over the starts of episodes is" in capsys.readouterr().out


def test_the_value_has_the_models_own_interval_and_verdict_beside_the_mean_of_returns(
    tmp_path: Path, capsys: Shown
) -> None:
    rng = np.random.default_rng(0)
    path = rng.normal(size=(30, 11)).cumsum(axis=1)
    ends = np.tile(np.arange(10) == 9, 30).astype(int)
    state, following = path[:, :-1].ravel(), path[:, 1:].ravel()
    table = {"state": state, "reward": np.tanh(state), "next_state": following, "terminated": ends}
    csv.write_csv(pa.table({**table, "episode": np.repeat(np.arange(30), 10)}), tmp_path / "log.csv")
    arguments = ["fit", "policy-evaluation", str(tmp_path / "log.csv"), "--out", str(tmp_path / "model.dualembed")]
    assert main([*arguments, "--discount", "0.8", "--json"]) == 0
    found = document(capsys)["answer"]
    model = load(tmp_path / "model.dualembed")
    answer, value = model.value(), found["policy_value"]
    assert (value["lower"], value["upper"]) == pytest.approx(answer.interval(), rel=1e-9)
    assert (value["verdict"], value["freedom"]) == (str(answer.verdict), answer.freedom)
    returns = (0.8 ** np.arange(10) * np.tanh(path[:, :-1])).sum(axis=1)
    assert found["mean_return"]["value"] == pytest.approx(returns.mean(), rel=1e-9)
    assert found["mean_return"]["episodes"] == 30
    assert main([*arguments, "--discount", "0.8"]) == 0
    shown = capsys.readouterr().out
    assert f", which is {answer.verdict}: " in shown
    assert "The plain mean of the returns of 30 whole episodes is " in shown


def test_fits_that_cannot_know_give_no_verdict(tmp_path: Path, capsys: Shown) -> None:
    table = written(tmp_path)
    assert fit(table, "policy-evaluation", "--discount", "0.5", "--json") == 0
    value = document(capsys)["answer"]["policy_value"]
    assert [value[name] for name in ("verdict", "warnings", "negative", "effective")] == [None, [], None, None]
    assert fit(table, "policy-evaluation", "--discount", "0.5") == 0
    assert "solid" not in capsys.readouterr().out


def test_the_value_of_another_policy_is_told_where_its_actions_are_known(tmp_path: Path, capsys: Shown) -> None:
    table = written(tmp_path, reward=1.0 * columns()["action"], next_action=np.ones(ROWS, dtype=int))
    assert fit(table, "action-value", "--discount", "0.5", "--json") == 0
    value = document(capsys)["answer"]["policy_value"]
    assert value["episodes"] is None
    assert "next states" in value["where"]
    assert value["value"] == pytest.approx(2.0, abs=0.2)  # action 1 for ever; the log's own start would say 1.5


# Times


def test_times_to_a_target_are_told_of_states_outside_it(tmp_path: Path, capsys: Shown) -> None:
    rng = np.random.default_rng(0)
    table = written(tmp_path, state=rng.uniform(size=ROWS), next_state=rng.uniform(size=ROWS))
    arguments = ["--target", "state > 0.5", "--episode", ""]
    assert fit(table, "hitting-time", *arguments, "--json") == 0
    answer = document(capsys)["answer"]
    inside = int(np.sum(read_table(table)["state"].to_numpy() > 0.5))
    assert answer["rows_inside"] == inside
    assert answer["rows"] == ROWS - inside
    assert answer["mean"]["value"] == pytest.approx(2.0, abs=0.3)
    assert fit(table, "hitting-time", *arguments) == 0
    assert f"Inside the target, where {inside} rows begin, the time is 0." in capsys.readouterr().out
