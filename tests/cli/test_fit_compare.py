"""`dualembed fit iv --compare`: models beside each other, printed and as JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.tables import LINEAR, Shown, columns, document, refusal

from dualembed.answers.coefficients import TIDY
from dualembed.cli import main
from dualembed.data import write_table


@pytest.fixture
def order(tmp_path: Path) -> list[str]:
    write_table(columns(), tmp_path / "log.csv")
    given = ["--x", "price", "--y", "sales", "--instrument", "tax", *LINEAR]
    return ["fit", "iv", str(tmp_path / "log.csv"), "--out", str(tmp_path / "model.dualembed"), *given]


def test_models_are_printed_beside_each_other_with_the_verdict(order: list[str], capsys: Shown) -> None:
    assert main([*order, "--compare"]) == 0
    shown = capsys.readouterr().out
    assert "What one unit of price adds to sales, on average over 400 rows" in shown
    for name in ("least squares", "two-step GMM", "sieve", "smooth"):
        assert f"\n{name}  " in shown
    assert "Report two-stage least squares" in shown
    assert shown.count("The first-stage F of the instruments for price") == 1  # of the summary


def test_json_has_the_rows_the_tests_and_the_verdict(order: list[str], capsys: Shown) -> None:
    assert main([*order, "--compare", "--json"]) == 0
    found = document(capsys)
    assert found["command"].endswith("--compare")
    rows = {row["model"]: row for row in found["comparison"]["models"]}
    assert {*TIDY} < {*rows["smooth"]}
    assert rows["two-stage least squares"]["estimate"] == pytest.approx(1, abs=0.4)
    assert found["comparison"]["reported"] == "two-stage least squares"
    assert [{*row} for row in found["answer"]["average_effects"]] == [{*TIDY}]


def test_comparisons_without_instruments_are_refused_in_one_sentence(tmp_path: Path, capsys: Shown) -> None:
    write_table(columns(), tmp_path / "log.csv")
    start = ["fit", "hitting-time", str(tmp_path / "log.csv"), "--state", "state_a", "--target", "state_a > 0.5"]
    assert main([*start, "--out", str(tmp_path / "m.dualembed"), "--compare"]) == 2
    assert "--compare has no use in hitting-time, which has no instruments" in refusal(capsys)
    plain = ["fit", "iv", str(tmp_path / "log.csv"), "--x", "price", "--y", "sales", "--instrument", "", *LINEAR]
    assert main([*plain, "--out", str(tmp_path / "m.dualembed"), "--compare"]) == 2
    assert "there are none; name some with --instrument" in refusal(capsys)


@pytest.mark.parametrize("option", ["--absorb", "--time", "--weight"])
def test_what_not_all_models_know_of_is_refused_before_anything_is_read(
    option: str, order: list[str], capsys: Shown
) -> None:
    assert main([*order, "--compare", option, "no such column"]) == 2
    assert f"--compare goes without {option}" in refusal(capsys)
