"""The guide's way from a fit to a table in a paper runs as printed, and names what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

GUIDE = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def section() -> tuple[str, dict[str, Any]]:
    """(the section, what its examples leave)."""
    text = GUIDE.split("## From a fit to a table in a paper\n")[1].split("\n## ")[0]
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", text, flags=re.S):
        exec(code, names)
    return text, names


def test_its_examples_find_what_is_so(section: tuple[str, dict[str, Any]]) -> None:
    _, names = section
    model, found = names["model"], names["found"]
    low, high = model.conf_int(0.999)["price"]
    assert low < -2 < high
    assert isinstance(model.tidy(), pd.DataFrame)
    assert found.reported == "two-stage least squares"
    assert found["LIML"].results.params["price"] == pytest.approx(model.params["price"], abs=0.05)


def test_its_table_lists_names_that_there_are(section: tuple[str, dict[str, Any]]) -> None:
    text, names = section
    listed = [cell for row in re.findall(r"^\| (`.*?) \|", text, flags=re.M) for cell in re.findall(r"`(\w+)", row)]
    assert len(listed) > 15
    assert [name for name in listed if name != "level" and not hasattr(names["model"], name)] == []


def test_the_improved_policy_is_worth_more_than_the_logged_one_as_playing_it_says() -> None:
    text = GUIDE.split("## A better policy from a log, and what it is worth\n")[1].split("\n## ")[0]
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", text, flags=re.S)[0], names)
    low, high = names["found"].values["improved"].interval(0.99)
    assert low < 3.98 < high
    assert names["found"].best().name == "improved"
