"""Tables of columns with roles: whole logs, rows in the order of time, and next states that are not given."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dualembed.checks import InputError
from dualembed.data.roles import ROLES, role_named
from dualembed.data.table import Table

STATE = np.arange(6.0)
FRAMES = {
    "array": lambda column: column,
    "pandas": lambda column: pd.DataFrame({"place": column}),
    "polars": lambda column: pl.DataFrame({"place": column}),
    "arrow": lambda column: pa.table({"place": column}),
    "dictionary": lambda column: {"place": column},
}


def places(table: Any) -> list[float]:
    """What the one column of a table holds."""
    return np.asarray(table["place"] if not isinstance(table, np.ndarray) else table, dtype=float).ravel().tolist()


def test_roles_are_attributes_and_other_names_are_not() -> None:
    table = Table.of(states=STATE, groups=None)
    assert table.states is STATE
    assert table.groups is None
    assert "groups" not in table.columns
    with pytest.raises(AttributeError, match="colour is no role"):
        _ = table.colour


@pytest.mark.parametrize("form", FRAMES)
def test_rows_of_an_episode_are_put_in_the_order_of_time(form: str) -> None:
    order = np.random.default_rng(0).permutation(6)
    given = Table.of(
        states=FRAMES[form](STATE[order]),
        next_states=FRAMES[form](STATE[order] + 1),
        episodes=np.array(list("aaabbb"))[order],
        time=pd.Timestamp("2020-01-01").to_datetime64() + order.astype("timedelta64[D]"),
        terminal_costs=0.0,
    )
    found = given.arranged()
    assert places(found.states) == STATE.tolist()
    assert places(found.next_states) == (STATE + 1).tolist()
    assert found.episodes.tolist() == list("aaabbb")
    assert found.terminal_costs == 0.0


@pytest.mark.parametrize("form", FRAMES)
def test_next_states_are_those_of_the_next_row(form: str) -> None:
    """Of an episode that ends the last row stays; of one that is cut off it goes."""
    ends = {"terminated": [0, 0, 1, 0, 0, 0], "episodes": ["b", "b", "b", "a", "a", "a"]}
    found = Table.of(states=FRAMES[form](STATE), **ends).arranged()
    assert places(found.states) == [3, 4, 0, 1, 2]
    assert places(found.next_states) == [4, 5, 1, 2, 2]


def test_marks_of_ends_cut_rows_into_episodes() -> None:
    found = Table.of(states=STATE, terminated=[0, 1, 0, 0, 0, 0], truncated=[0, 0, 0, 1, 0, 0]).arranged()
    assert found.states.tolist() == [0, 1, 2, 4]
    assert found.next_states.tolist() == [1, 1, 3, 5]
    assert found.episodes.tolist() == [0, 0, 1, 2]


def test_without_anything_that_says_what_follows_next_states_are_asked_for() -> None:
    with pytest.raises(InputError, match="next_states must be given, or what says which row follows which"):
        Table.of(states=STATE).arranged()
    with pytest.raises(InputError, match="no row is followed by another"):
        Table.of(states=STATE, episodes=np.arange(6)).arranged()


def test_a_log_is_a_whole_table_and_states_are_not() -> None:
    flat = {"observations": [[0.0], [1.0]], "actions": [0, 1], "rewards": [0, 1], "terminals": [0, 1]}
    found = Table.whole(flat)
    assert found is not None
    assert found.states.tolist() == [[0.0], [1.0]]
    assert found.terminated.tolist() == [0, 1]
    for states in (STATE, {"place": STATE}, pd.DataFrame({"episodes": STATE}), [[0.0], [1.0]]):
        assert Table.whole(states) is None


def test_names_of_other_libraries_mean_one_role_each() -> None:
    every = [alias for role in ROLES.values() for alias in role.aliases]
    assert len(every) == len({*every, *ROLES}) - len(ROLES)
    assert role_named("timeouts") == "truncated"


def test_a_table_is_read_and_coded_without_jax() -> None:
    program = (
        "import sys, dualembed.data.table, dualembed.data.coding as coding\n"
        "coding.Coding.fit('states', {'place': [0.0, 1.0]})\n"
        "assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
