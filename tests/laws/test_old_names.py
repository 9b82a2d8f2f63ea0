"""Names of the engine that have changed are still there for one release, with one warning that says the new one."""

from __future__ import annotations

import importlib

import pytest

from dualembed.problems import HittingTime
from dualembed.sources import Dataset
from dualembed.spaces import Layout

RENAMED = [
    ("control", "Round", "Improvement"),
    ("report", "html_of", "card"),
    ("selection", "Step", "Choice"),
    ("selection", "evident_penalty", "evidence_penalty"),
    ("sources", "LaidOut", "PlannedSource"),
    ("spaces", "Move", "Update"),
]


@pytest.mark.parametrize(("module", "old", "new"), RENAMED)
def test_an_old_name_is_the_new_one_and_warns_once(module: str, old: str, new: str) -> None:
    found = importlib.import_module(f"dualembed.{module}")
    vars(found).pop(old, None)  # where another test has asked for it
    with pytest.warns(
        FutureWarning, match=rf"dualembed\.{module}\.{old} is deprecated; use dualembed\.{module}\.{new}"
    ):
        assert getattr(found, old) is getattr(found, new)
    assert getattr(found, old) is getattr(found, new)  # a second warning would be an error
    assert old not in getattr(found, "__all__", ())


@pytest.mark.parametrize("module", sorted({module for module, _, _ in RENAMED}))
def test_other_names_are_not_there(module: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'dualembed.{module}' has no attribute 'Nothing'"):
        importlib.import_module(f"dualembed.{module}").Nothing  # noqa: B018


def test_a_layout_still_says_whether_it_is_whole() -> None:
    layout = Layout(None, steps=1, batch=1, per_sample=1, capacity=1, complete=True)
    with pytest.warns(FutureWarning, match="Layout.whole is deprecated; use Layout.complete"):
        assert layout.whole


def test_a_hitting_time_still_takes_whole_for_whether_arrivals_are_checked() -> None:
    with pytest.warns(FutureWarning, match="whole= of HittingTime is deprecated; use check_reached="):
        problem = HittingTime(Dataset(state=[0.0], next_state=[1.0], arrived=[0]), whole=False)
    assert not problem.check_reached
