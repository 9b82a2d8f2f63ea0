"""One number of a saved model: `dualembed ask` says what the model says, with its error and a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cli.tables import LINEAR, Shown, columns, document, refusal

from dualembed import saving
from dualembed.cli import main
from dualembed.data import write_table
from dualembed.estimators import PolicyEvaluator

KEYS = {
    *("question", "value", "stderr", "lower", "upper", "level", "freedom"),
    *("verdict", "warnings", "negative", "effective"),
}
HERE, THERE = "state_a=1, state_b=0", "state_a=0, state_b=0"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saved models, fitted once for all tests: a policy's value, action values and effects."""
    folder = tmp_path_factory.mktemp("models")
    table = folder / "log.csv"
    write_table({**columns(), "next_kind": np.roll(columns()["kind"], -1)}, table)
    iv = ["--x", "price", "--y", "sales", "--instrument", "tax", "--control", "kind"]
    for name, task, *more in (
        ("value", "policy-evaluation", "--discount", "0.5"),
        ("actions", "action-value", "--action", "kind", "--discount", "0.5", *LINEAR),
        ("effect", "iv", *iv, *LINEAR),
    ):
        assert main(["fit", task, str(table), "--out", str(folder / f"{name}.dualembed"), *more]) == 0
    return folder


def ask(path: Path, *more: str) -> int:
    return main(["ask", str(path), *more])


def states(a: list[float], b: list[float]) -> Any:
    return pa.table({"state_a": a, "state_b": b})


def test_without_a_question_it_is_what_the_policy_is_worth(folder: Path, capsys: Shown) -> None:
    assert ask(folder / "value.dualembed", "--level", "0.8", "--json") == 0
    (found,) = document(capsys)["answers"]
    answer = saving.load(folder / "value.dualembed").value()
    assert found.keys() == KEYS
    assert (found["lower"], found["upper"]) == pytest.approx(answer.interval(0.8), rel=1e-9)
    assert found["stderr"] == pytest.approx(answer.stderr, rel=1e-9)
    assert (found["verdict"], found["freedom"]) == ("solid", answer.freedom)


def test_each_place_is_a_question_and_a_table_is_one_of_its_mean(folder: Path, tmp_path: Path, capsys: Shown) -> None:
    write_table({"state_b": [0.0, 1.0], "state_a": [0.5, 1.5], "other": ["a", "b"]}, tmp_path / "points.csv")
    points = str(tmp_path / "points.csv")
    assert ask(folder / "value.dualembed", "--at", HERE, "--at", THERE, "--points", points, "--json") == 0
    found = document(capsys)["answers"]
    model = saving.load(folder / "value.dualembed")
    asked = [model.at(states([1.0], [0.0])), model.at(states([0.0], [0.0])), model.at(states([0.5, 1.5], [0.0, 1.0]))]
    for each, answer in zip(found, model.ask_all(asked), strict=True):
        assert (each["value"], each["stderr"]) == pytest.approx((answer.value, answer.stderr), rel=1e-9)
    assert [each["question"] for each in found] == [
        f"V(s) at {HERE}",
        f"V(s) at {THERE}",
        f"V(s) on average over 2 rows of {points}",
    ]


def test_a_contrast_has_the_error_of_the_difference(folder: Path, capsys: Shown) -> None:
    model = folder / "value.dualembed"
    assert ask(model, "--at", HERE, "--minus", THERE, "--json") == 0
    (found,) = document(capsys)["answers"]
    fitted = saving.load(model)
    answer = fitted.ask(fitted.at(states([1.0], [0.0])) - fitted.at(states([0.0], [0.0])))
    assert (found["value"], found["stderr"]) == pytest.approx((answer.value, answer.stderr), rel=1e-9)
    assert ask(model, "--at", HERE, "--at", THERE, "--minus", THERE, "--json") == 0
    assert [each["value"] for each in document(capsys)["answers"]] == pytest.approx([answer.value, 0.0], abs=1e-9)


def test_far_from_the_data_it_says_that_they_have_no_answer(folder: Path, capsys: Shown) -> None:
    assert ask(folder / "value.dualembed", "--at", "state_a=30, state_b=0") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("V(s) at state_a=30, state_b=0: ")
    assert " ± " in shown
    assert "(95 % interval " in shown
    assert "Verdict: not answerable.\n" in shown
    assert "Warning: 100% of the points asked about lie outside the data.\n" in shown


def test_actions_and_categories_are_text(folder: Path, capsys: Shown) -> None:
    place = "state_a=1, state_b=0, kind={}"
    assert ask(folder / "actions.dualembed", "--at", place.format("red"), "--json") == 0
    (found,) = document(capsys)["answers"]
    expected = saving.load(folder / "actions.dualembed").predict(states([1.0], [0.0]), ["red"])
    assert found["value"] == pytest.approx(expected[0], rel=1e-9)
    assert ask(folder / "effect.dualembed", "--at", 'price=1, "kind"="red"', "--minus", "price=0, kind=red") == 0
    assert "Verdict: solid" in capsys.readouterr().out
    assert ask(folder / "effect.dualembed", "--at", "price=1, kind=rad") == 2
    assert "kind=rad, but the model was fitted with blue, green, red there; did you mean 'red'?" in refusal(capsys)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("value", ["--at", "stat_a=1, state_b=0"], "did you mean 'state_a'?"),
        ("value", ["--at", "state_a=1"], "says nothing of state_b"),
        ("value", ["--at", "state_a=1, state_b=red"], "state_b is a number"),
        ("value", ["--at", "state_a=1, state_b=nan"], "state_b is a number"),
        ("value", ["--at", "state_a=1, state_a=2, state_b=0"], "more than once"),
        ("value", ["--at", "state_a: 1"], "is no place; give each column as name=value"),
        ("value", ["--level", "1"], "--level must lie between 0 and 1, such as 0.95, not 1"),
        ("value", ["--level", "nan"], "--level must lie between 0 and 1"),
        ("value", ["--minus", HERE], "give that as --at or --points"),
        ("value", ["--at", HERE, *(["--minus", HERE] * 2)], "given 2 times for 1 questions"),
        ("value", ["--at", HERE, "--minus", "state_a=1"], "--minus 'state_a=1' says nothing of state_b"),
        ("value", ["--points", "absent.csv"], "there is no file absent.csv"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(
    name: str, arguments: list[str], words: str, folder: Path, capsys: Shown
) -> None:
    assert ask(folder / f"{name}.dualembed", *arguments) == 2
    assert words in refusal(capsys)


def test_models_without_errors_or_names_are_refused(folder: Path, tmp_path: Path, capsys: Shown) -> None:
    model = saving.load(folder / "value.dualembed")
    model.uncertainty_ = model.solution_ = None
    saving.save(model, tmp_path / "unsure.dualembed")
    assert ask(tmp_path / "unsure.dualembed", "--at", HERE) == 2
    assert "has no standard errors" in refusal(capsys)
    data = columns()
    state, following = (np.stack([data[f"{name}_a"], data[f"{name}_b"]], axis=1) for name in ("state", "next_state"))
    nameless = PolicyEvaluator(0.5, primal="linear", dual="linear").fit(state, data["reward"], following)
    saving.save(nameless, tmp_path / "nameless.dualembed")
    assert ask(tmp_path / "nameless.dualembed", "--at", HERE) == 2
    assert "saved from Python" in refusal(capsys)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("effect", "the effect on sales when price moves from "),
        ("actions", "the policy's value over the starts of episodes"),
    ],
)
def test_without_a_question_it_is_what_the_fit_is_for(name: str, words: str, folder: Path, capsys: Shown) -> None:
    assert ask(folder / f"{name}.dualembed", "--json") == 0
    (found,) = document(capsys)["answers"]
    headline = saving.load(folder / f"{name}.dualembed").summary().headline
    assert found["question"].startswith(words)
    assert (found["value"], found["stderr"]) == pytest.approx((headline.value, headline.stderr), rel=1e-9)


def test_effects_of_columns_are_those_of_the_model(folder: Path, tmp_path: Path, capsys: Shown) -> None:
    effect = folder / "effect.dualembed"
    asked = ["--derivative", "price", "--effect", "price", "--effect", 'kind=red,"blue"', "--level", "0.9"]
    assert ask(effect, *asked, "--json") == 0
    found = document(capsys)["answers"]
    model = saving.load(effect)
    questions = [
        model.mean_derivative("price"),
        model.average_effect("price"),
        model.average_effect("kind", treated="red", control="blue"),
    ]
    for each, answer in zip(found, model.ask_all(questions), strict=True):
        assert each.keys() == KEYS
        assert (each["value"], each["stderr"]) == pytest.approx((answer.value, answer.stderr), rel=1e-9)
        assert (each["lower"], each["upper"]) == pytest.approx(answer.interval(0.9), rel=1e-9)
    assert [each["question"] for each in found] == [
        "the mean derivative of f along price, over the rows of the fit",
        "the average effect of price=1 against 0, over the rows of the fit",
        "the average effect of kind=red against blue, over the rows of the fit",
    ]
    points = tmp_path / "points.csv"
    write_table({"kind": ["red", "green"], "price": [0.0, 2.0]}, points)
    assert ask(effect, "--derivative", "price", "--points", str(points), "--at", "price=0, kind=red", "--json") == 0
    at, over = document(capsys)["answers"]
    assert at["question"] == "f(x) at price=0, kind=red"
    assert over["question"].endswith(f"along price, over {points}")
    assert over["value"] == pytest.approx(found[0]["value"], rel=1e-6)  # it is a line


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("value", ["--derivative", "state_a"], "is about effects of columns, which"),
        ("effect", ["--derivative", "prize"], "did you mean 'price'?"),
        ("effect", ["--derivative", "kind"], "is a category, along which nothing has a derivative"),
        ("effect", ["--effect", "kind"], "kind=1, but the model was fitted with blue, green, red there"),
        ("effect", ["--effect", "kind=red"], "is no effect; give a column"),
        ("effect", ["--effect", "price=1,red"], "price is a number"),
        ("effect", ["--effect", "price", "--minus", "price=0, kind=red"], "give that as --at or --points"),
    ],
)
def test_effects_that_cannot_be_asked_for_are_refused(
    name: str, arguments: list[str], words: str, folder: Path, capsys: Shown
) -> None:
    assert ask(folder / f"{name}.dualembed", *arguments) == 2
    assert words in refusal(capsys)


def test_effects_in_groups_of_rows_are_those_of_the_model(folder: Path, capsys: Shown) -> None:
    path = folder / "effect.dualembed"
    assert ask(path, "--derivative", "price", "--effect", "price=1,0", "--by", "kind", "--level", "0.9", "--json") == 0
    found = document(capsys)
    model = saving.load(path)
    for answer, groups, question in zip(
        found["answers"],
        found["subgroups"],
        (model.mean_derivative("price"), model.average_effect("price")),
        strict=True,
    ):
        expected = model.ask_by(question, "kind")
        assert [each["group"] for each in groups["groups"]] == ["blue", "green", "red"]
        assert [each["value"] for each in groups["groups"]] == pytest.approx(expected.values, rel=1e-9)
        assert np.array(groups["covariance"]) == pytest.approx(expected.covariance)
        assert (groups["average"]["value"], groups["average"]["stderr"]) == (answer["value"], answer["stderr"])
        assert groups["groups"][0]["level"] == 0.9
    assert ask(path, "--derivative", "price", "--by", "kind") == 0
    assert "That all are equal has p = " in capsys.readouterr().out
    for words, refused in (
        (["--by", "kind"], "say which, with --effect or --derivative"),
        (["--derivative", "price", "--by", "kid"], "did you mean 'kind'?"),
        (["--derivative", "price", "--by", "price"], "moves column price itself"),
    ):
        assert ask(path, *words) == 2
        assert refused in refusal(capsys)


def test_an_effect_is_asked_for_in_one_go_and_leads_all_that_is_said(folder: Path, capsys: Shown) -> None:
    words = ["fit", "iv", str(folder / "log.csv"), "--x", "price", "--y", "sales", "--instrument", "tax", *LINEAR]
    words += ["--control", "kind", "--effect", "price=3,1"]
    kept, page = folder / "led.dualembed", folder / "led.html"
    more = ["--derivative", "price", "--by", "kind", "--out", str(kept), "--report", str(page)]
    assert main([*words[:-2], *more, *words[-2:], "--json"]) == 0
    found = document(capsys)
    model = saving.load(kept)
    derivative, effect = (
        model.ask(each) for each in (model.mean_derivative("price"), model.average_effect("price", 3, 1))
    )
    assert (found["headline"]["value"], found["headline"]["stderr"]) == (derivative.value, derivative.stderr)
    asked = found["answer"]["asked"]
    assert (asked[1]["value"], asked[1]["stderr"]) == pytest.approx((effect.value, effect.stderr), rel=1e-9)
    assert [each["column"] for each in found["answer"]["subgroups"]] == ["kind", "kind"]
    assert "--effect price=3,1" in found["command"]
    assert ask(kept, "--json") == 0
    assert document(capsys)["answers"][0] == found["headline"]
    shown = "The mean derivative of f along price, over the rows of the fit"
    assert shown in model._repr_html_()
    assert shown in page.read_text(encoding="utf-8")
    assert main(words) == 0
    assert "The average effect of price=3 against 1, over the rows of the fit is " in capsys.readouterr().out
    for change, refused in (
        (["--effect", "prise"], "did you mean 'price'?"),
        (["--by", "tax"], "--by 'tax' names the column 'tax'"),
    ):
        assert main([*words, *change]) == 2
        assert refused in refusal(capsys)
    log = ["fit", "policy-evaluation", str(folder / "log.csv"), "--effect", "kind"]
    assert main(log) == 2
    assert "--effect is about effects of columns, which policy-evaluation has none of" in refusal(capsys)
