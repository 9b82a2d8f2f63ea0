"""Old public names lead to the new ones for one release, with one warning that says where to."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings

import pytest

MOVED = {
    "dualembed.policies": "dualembed.data.policies",
    "dualembed.propensities": "dualembed.data.propensities",
    "dualembed.trajectories": "dualembed.data.trajectories",
}
RENAMED = {
    "transitions": "log",
    "average_return": "episode_returns",
    "Held": "ActionRepeat",
    "chosen_columns": "select_columns",
    "numbers_of": "to_numbers",
}
A_NAME = {"policies": "importance_weights", "propensities": "overlap", "trajectories": "follows"}


def said_by(code: str) -> list[str]:
    """The warnings of a program of its own; from 3.13 on Python repeats the line of code under each, indented."""
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True)
    return [line for line in done.stderr.splitlines() if not line.startswith("  ")]


@pytest.mark.parametrize("old", MOVED)
def test_a_module_that_moved_has_the_same_parts(old: str) -> None:
    name, new = A_NAME[old.partition(".")[2]], importlib.import_module(MOVED[old])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        assert getattr(importlib.import_module(old), name) is getattr(new, name)
        with pytest.raises(AttributeError, match=f"module '{old}' has no attribute 'nothing'"):
            importlib.import_module(old).nothing  # noqa: B018


@pytest.mark.parametrize("old", MOVED)
def test_it_warns_once_and_says_where_to(old: str) -> None:
    name = old.partition(".")[2]
    code = f"import dualembed as de\nde.{name}\nde.{name}.{A_NAME[name]}\nde.{name}.{A_NAME[name]}\n"
    assert said_by(code) == [f"<string>:3: FutureWarning: {old} is deprecated; use {MOVED[old]}"]


@pytest.mark.parametrize("old", RENAMED)
def test_a_part_of_data_that_was_renamed_has_its_old_name_too(old: str) -> None:
    code = (
        "import dualembed as de\n"
        f"from dualembed.data import {old}\n"
        f"assert {old} is de.data.{old} is de.data.{RENAMED[old]}\n"
        f"assert {old!r} not in dir(de.data)"
    )
    said = f"<string>:2: FutureWarning: dualembed.data.{old} is deprecated; use dualembed.data.{RENAMED[old]}"
    assert said_by(code) == [said]
