"""A report stands alone, says what the model says, and lets nothing of the user's text become HTML."""

from __future__ import annotations

import base64
import copy
import dataclasses
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.report.models import HOSTILE, ROWS, line_model, policy_model, wide_model

from dualembed import report
from dualembed.answers.answer import meaning
from dualembed.answers.summary import error_verdict
from dualembed.checks import InputError
from dualembed.estimates import format_estimate, format_interval, format_number
from dualembed.estimators import ActionValueEvaluator, IVRegressor, PolicyEvaluator
from dualembed.report.html import Markup, element, number, proper, shown, text
from dualembed.report.page import page
from dualembed.selection import HeldOut

EMPTY = {"meta", "link", "img"}  # elements without an end


class Reader(HTMLParser):
    """The elements of a page in order, their attributes and their texts; ends must meet their beginnings."""

    def __init__(self, written: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(written)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]

    @property
    def said(self) -> str:
        return " ".join(self.texts)


@pytest.fixture(scope="module")
def policy_page() -> Reader:
    model, data = policy_model()
    return Reader(page(model, data=data, command="dualembed fit 'a & b.csv' --report r.html"))


@pytest.fixture(scope="module")
def wide_page() -> Reader:
    model, data = wide_model()
    return Reader(page(model, data=data, title=HOSTILE))


def bare(model: Any) -> Any:
    """The model as a stochastic solver leaves it: without standard errors, witness and scores."""
    left = copy.copy(model)
    left.uncertainty_ = left.witness_ = left._headline_answer = left._summary = None
    left.diagnostics_ = type(model.diagnostics_)(model.diagnostics_.rows)
    return left


def test_page_is_written_small_and_whole(tmp_path: Path) -> None:
    model, data = policy_model()
    report.write_report(model, tmp_path / "report.html", data=data)
    written = (tmp_path / "report.html").read_bytes()
    assert written.startswith(b"<!DOCTYPE html>")
    assert len(written) < 2_000_000
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_failure_leaves_the_old_page(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("old")
    with pytest.raises(InputError, match="has not been fitted"):
        report.write_report(PolicyEvaluator(), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == "old"


def test_same_model_gives_the_same_page() -> None:
    model, data = line_model()
    assert page(model, data=data) == page(model, data=data)


def test_page_needs_nothing_from_elsewhere(policy_page: Reader, wide_page: Reader) -> None:
    for reader in (policy_page, wide_page):
        addresses = [each[name] or "" for _, each in reader.found for name in ("src", "href") if name in each]
        assert len(addresses) > 10
        assert all(address.startswith(("#", "data:")) for address in addresses)
        assert reader.all("script") == []


def test_links_lead_to_sections_with_headings(policy_page: Reader) -> None:
    targets = [(each["href"] or "")[1:] for each in policy_page.all("a")]
    sections = [each["id"] for each in policy_page.all("section")]
    assert targets == ["answer", *sections]
    assert len(policy_page.all("h1")) == 1
    assert len(policy_page.all("h2")) == len(sections) == 9


def test_figures_have_words_and_tables_captions(policy_page: Reader, wide_page: Reader) -> None:
    for reader in (policy_page, wide_page):
        images = reader.all("img")
        assert images
        assert all(len(each["alt"] or "") > 10 for each in images)
        assert len(reader.all("figcaption")) == len(reader.all("figure")) == len(images)
        assert len(reader.all("caption")) == len(reader.all("table"))
        assert all("scope" in each for each in reader.all("th"))


def test_text_of_users_stays_text(wide_page: Reader) -> None:
    assert wide_page.all("b") == []
    assert HOSTILE in wide_page.texts  # the title, to the letter
    assert "<b>west</b>" in wide_page.said


def test_names_in_drawings_stay_text(wide_page: Reader) -> None:
    images = [each["src"] or "" for each in wide_page.all("img")]
    drawings = [base64.b64decode(each.partition(",")[2]).decode() for each in images]
    assert any("&lt;script&gt;" in drawing for drawing in drawings)
    assert not any("<script" in drawing for drawing in drawings)


def test_value_of_the_policy_is_the_answer(policy_page: Reader) -> None:
    found = policy_model()[0].value()
    said = f"The policy's value over the starts of episodes is {format_estimate(found.value, found.stderr)}"
    assert proper(said) in policy_page.said


def test_the_verdict_stands_beside_the_answer_where_the_model_can_give_one() -> None:
    data = policy_model()[1]
    model = PolicyEvaluator(0.5).fit(**data)
    found = model.value()
    reader = Reader(page(model, data=data))
    assert f"(95 % interval {proper(format_interval(*found.interval()))})" in reader.said
    assert meaning(found.verdict, found.because) in reader.said
    assert f"which is {found.verdict}." in Reader(report.card(model)).said
    assert "which is" not in Reader(report.card(bare(model))).said
    assert "This answer is" not in Reader(page(bare(model), data=data)).said


def test_value_of_a_policy_that_is_given_is_the_models_with_and_without_errors() -> None:
    rng = np.random.default_rng(0)
    action = rng.integers(2, size=ROWS)
    data = {
        "states": rng.normal(size=ROWS),
        "actions": action,
        "rewards": 1.0 * action,
        "next_states": rng.normal(size=ROWS),
        "episodes": np.arange(ROWS) // 8,
    }
    evaluator = ActionValueEvaluator(0.5, lambda states: np.full((len(states), 2), 0.5), primal="linear", dual="linear")
    model = evaluator.fit(**data)
    found, without = model.summary(), bare(model).summary()
    assert found.headline == model.value()
    assert without.headline.value == pytest.approx(found.headline.value, rel=1e-5)
    value = without.to_dict()["answer"]["policy_value"]
    assert (value["stderr"], value["episodes"]) == (None, 50)


def test_effect_of_a_line_is_its_coefficient() -> None:
    model, data = line_model()
    reader = Reader(page(model, data=data))
    row = reader.texts.index("price from 0 to 1 (one unit)")
    effect, _, stderr = reader.texts[row + 1].partition(" ± ")
    assert float(effect) == pytest.approx(model.coef_[0], abs=0.6 * 10 ** -len(effect.partition(".")[2]))
    assert 0.02 < float(stderr) < 0.2  # of two-stage least squares: √5 · 2 / √400 and smaller


def test_a_column_of_two_values_moves_from_the_one_to_the_other() -> None:
    rng = np.random.default_rng(0)
    treated, dose = 1.0 * (np.arange(ROWS) % 10 == 0), rng.normal(size=ROWS)  # of the first both quartiles are 0
    X, y = pd.DataFrame({"treated": treated, "dose": dose}), 2 * treated + dose
    model = IVRegressor(primal="linear", dual="linear").fit(X, y)
    first, second = model.summary().findings.answers
    assert first.question == "treated from 0 to 1"
    assert first.value == pytest.approx(2.0, abs=0.01)
    assert second.question == "dose from 0 to 1 (one unit)"


def test_a_number_moves_by_its_quartiles_where_f_is_no_line() -> None:
    model, data = wide_model()
    low, high = (format_number(each) for each in np.percentile(data["X"]["second"], (25, 75)))
    assert model.summary().findings.answers[1].question == f"second from {low} to {high} (quartiles)"


def test_levels_of_a_category_are_compared_with_the_most_frequent_and_the_rarest_left_out() -> None:
    kind = np.repeat([f"kind {number:02}" for number in range(14)], np.arange(14) + 1).astype(object)
    model = IVRegressor(primal="linear", dual="linear").fit({"kind": kind}, np.arange(len(kind)) % 2)
    found = model.summary().to_dict()["answer"]
    assert {each["from"] for each in found["effects"]} == {"kind 13"}
    assert [each["to"] for each in found["effects"]] == [f"kind {number:02}" for number in range(12, 2, -1)]
    assert found["effects_unshown"] == ["Of kind the 10 most frequent of 13 other levels are compared."]
    older = copy.copy(model)
    older.sample_ = older._summary = None
    assert older.summary().to_dict()["answer"]["effects"][0]["to"] == "kind 01"


def test_honest_error_stands_beside_the_naive_ones(policy_page: Reader) -> None:
    found = policy_model()[0].diagnostics_.held_out
    assert found is not None
    for expected in (proper(format_estimate(found.value, found.stderr)), number(found.squared), number(found.fitted)):
        assert expected in policy_page.texts


def test_data_are_described_by_their_ranges(policy_page: Reader, wide_page: Reader) -> None:
    states = policy_model()[1]["states"]
    assert number(float(states.min())) in policy_page.texts
    assert number(float(np.median(states))) in policy_page.texts
    assert "from 50 episodes (8 rows in the median one)" in policy_page.said
    assert "3 levels: <b>west</b>, north, south" in wide_page.texts
    assert "always 1.0, left out" in wide_page.texts


def test_worst_contexts_come_first_with_their_scores(policy_page: Reader) -> None:
    model, data = policy_model()
    values, std = model.witness(data["states"], return_std=True)
    worst = int(np.argmax(np.abs(values / std)))
    row = policy_page.texts.index("z-score")
    assert policy_page.texts[row + 1 : row + 4] == [
        number(float(each)) for each in (data["states"][worst], values[worst], (values / std)[worst])
    ]


def test_choices_and_the_way_to_reproduce_are_there(policy_page: Reader) -> None:
    steps = policy_model()[0].selection_.steps
    assert [step.question for step in steps] == ["penalty of f", "products of moments"]
    for step in steps:
        assert step.question in policy_page.texts
        assert step.answer in policy_page.texts
    assert "dualembed fit 'a & b.csv' " in policy_page.texts
    assert " ".join(policy_page.said.split()).count("dualembed fit 'a & b.csv' --report r.html") == 1
    assert "random_state" in policy_page.texts


def test_warnings_are_said_or_their_absence(wide_page: Reader) -> None:
    model, data = policy_model()
    quiet = copy.copy(model)
    quiet._summary = None
    quiet.diagnostics_ = dataclasses.replace(model.diagnostics_, warnings=())
    assert "Nothing looked wrong: there are no warnings." in Reader(page(quiet, data=data)).texts
    assert "There are no warnings besides the honest error, which is more than chance." in wide_page.texts
    worried = copy.copy(model)
    worried._summary = None
    worried.diagnostics_ = dataclasses.replace(model.diagnostics_, warnings=("few <rows>",))
    assert "Few <rows>." in Reader(page(worried, data=data)).texts


def test_page_makes_do_without_data() -> None:
    reader = Reader(page(wide_model()[0]))
    assert "The data themselves were not given to this page" in reader.said
    # The answer, errors, singular values, all columns of f together, and all of its witness.
    assert len(reader.all("figure")) == 5


def test_page_makes_do_without_standard_errors() -> None:
    model, data = policy_model()
    said = Reader(page(bare(model), data=data)).said
    for expected in ("this solver gives no intervals", "Where it fails cannot be drawn", "There is no honest error"):
        assert expected in said


def test_card_names_what_was_set_and_found() -> None:
    model, _ = policy_model()
    reader = Reader(report.card(model))
    assert "discount=0.8" in reader.said
    assert "random_state" not in reader.said  # as by default
    assert "Honest held-out error" in reader.said
    assert len(reader.all("img")) == 1
    assert "Not fitted yet." in Reader(report.card(PolicyEvaluator())).said


def test_subclasses_speak_as_their_parents() -> None:
    class Mine(PolicyEvaluator):
        """A user's own."""

    assert Mine().task_ == PolicyEvaluator().task_


def test_card_is_small_and_without_markup_of_users() -> None:
    written = report.card(wide_model()[0])
    assert len(written) < 200_000
    assert Reader(written).all("script") == []


def test_text_is_escaped_once_and_markup_not_again() -> None:
    assert text("<&>") == "&lt;&amp;&gt;"
    assert element("p", element("b", "<"), class_='a"b') == '<p class="a&quot;b"><b>&lt;</b></p>'
    assert text(Markup("<p>")) == "<p>"


def test_numbers_have_as_many_digits_as_their_errors_leave() -> None:
    assert format_estimate(0.017253, 0.2468) == "0.02 ± 0.25"
    assert proper(format_estimate(-1234.5678, 3.21)) == "−1,234.6 ± 3.2"
    assert format_estimate(98765.4, 321.0) == "98,770 ± 320"
    assert format_estimate(1.5, 0.0) == "1.5 ± 0"
    assert format_estimate(2.0, None) == "2"


def test_settings_are_shown_without_addresses() -> None:
    assert shown(np.mean) == "numpy.mean"
    assert "0x" not in shown(lambda state: state)
    assert shown("auto") == "'auto'"


def test_an_error_as_vague_as_it_could_be_is_no_good_news() -> None:
    assert "exactly right" in error_verdict(HeldOut(value=0.01, stderr=0.02, squared=1.0, fitted=1.0, rows=100))
    assert "cannot tell how wrong" in error_verdict(HeldOut(value=-9.4, stderr=4.2, squared=2.1, fitted=2.0, rows=100))
    assert "still wrong" in error_verdict(HeldOut(value=0.5, stderr=0.1, squared=1.0, fitted=1.0, rows=100))


def test_the_answer_comes_first_and_in_one_picture(policy_page: Reader, wide_page: Reader) -> None:
    for reader in (policy_page, wide_page):
        order = [tag for tag, _ in reader.found]
        assert [each["id"] for each in reader.all("section")][:3] == ["answer", "question", "data"]
        before_menu = order[: order.index("nav")]
        assert before_menu.count("img") == 1
        assert before_menu.count("table") == 0


def test_panels_that_are_left_out_are_named() -> None:
    rng = np.random.default_rng(0)
    columns = {f"c{number:02}": rng.normal(size=200) for number in range(27)}
    y = columns["c00"] + 0.1 * rng.normal(size=200)
    said = Reader(page(IVRegressor(primal="linear", dual="linear").fit(columns, y), data=columns)).said
    left = said.partition("Not drawn, since they move it less: ")[2].partition(".")[0].split(", ")
    assert len(left) == 3
    assert set(left) < set(columns)


def test_the_outcome_is_called_by_its_name() -> None:
    rng = np.random.default_rng(0)
    z, hidden = rng.normal(size=(2, ROWS))
    frame = {"tax": z, "price": z + hidden}
    y = pd.Series(2 * hidden + z, name="sales")
    model = IVRegressor(primal="linear", dual="linear").fit(
        {"price": frame["price"]}, y, instruments={"tax": frame["tax"]}
    )
    data = {"X": {"price": frame["price"]}, "y": y, "instruments": {"tax": frame["tax"]}}
    reader = Reader(page(model, data=data))
    assert "The effect on sales when price moves" in reader.said
    assert "First-stage F" in reader.said
    row = reader.texts.index("sales")
    assert reader.texts[row + 1] == "outcome"
    assert "y" not in reader.texts
