"""The guide's way from a fit to a table in a paper runs as printed, and names what there is."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dualembed.control import ConvexityWarning
from dualembed.solvers import EarlyStopWarning

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


@pytest.fixture(scope="module")
def improved() -> dict[str, Any]:
    """What the examples of better policies leave, one after the other."""
    text = GUIDE.split("## A better policy from a log, and what it is worth\n")[1].split("\n## ")[0]
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvexityWarning)
        warnings.simplefilter("ignore", EarlyStopWarning)  # of stages that have played little
        for code in re.findall(r"```python\n(.*?)```", text, flags=re.S):
            exec(code, names)
    return names


def test_the_improved_policy_is_worth_more_than_the_logged_one_as_playing_it_says(improved: dict[str, Any]) -> None:
    low, high = improved["found"].values["improved"].interval(0.99)
    assert low < 3.98 < high
    assert improved["found"].best().name == "improved"


def test_q_learning_from_the_log_finds_as_good_a_policy_by_episodes_left_out(improved: dict[str, Any]) -> None:
    learnt, logged = (improved["judged"].values[name] for name in ("Q-learning", "logged"))
    assert learnt.interval()[0] > logged.interval()[1]
    assert learnt.value == pytest.approx(4.0, abs=0.6)


def test_a_policy_improved_by_playing_balances_longer_in_episodes_of_its_own(improved: dict[str, Any]) -> None:
    assert improved["stages"][0].mean_return < 30
    assert improved["lengths"].mean() > 60
