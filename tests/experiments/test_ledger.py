"""The ledger gives back what was computed, bit for bit, and survives being cut short."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dualembed.experiments.run import Ledger

ANSWERS: list[Any] = [
    0.1 + 0.2,
    5e-324,
    -0.0,
    math.inf,
    -math.inf,
    [1.0, math.inf, 1 / 3],
    {"values": [math.pi], "beside": {"plug-in √": 1e-300}},
    float(np.float32(0.1)),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trials.jsonl"


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_is_recalled_is_what_was_computed_after_reopening_too(answer: Any, path: Path) -> None:
    ledger = Ledger(path)
    ledger.remember({"trial": 1}, answer)
    for each in (ledger, Ledger(path)):
        assert repr(each.recall({"trial": 1})) == repr(answer)
        assert each.recall({"trial": 2}) is None


def test_a_nan_is_recalled_as_one(path: Path) -> None:
    Ledger(path).remember("q", [math.nan, 1.0])
    first, second = Ledger(path).recall("q")
    assert math.isnan(first)
    assert second == 1.0


def test_questions_are_the_same_whatever_the_order_of_their_names(path: Path) -> None:
    Ledger(path).remember({"seed": 1, "settings": {"a": 1.0, "b": 2}}, 3.0)
    assert Ledger(path).recall({"settings": {"b": 2, "a": 1.0}, "seed": 1}) == 3.0
    assert Ledger(path).recall({"settings": {"b": 2, "a": 1.5}, "seed": 1}) is None


def test_a_last_line_cut_short_anywhere_is_left_out_and_the_next_entry_is_read(path: Path) -> None:
    ledger = Ledger(path)
    ledger.remember("first", [1.5, 2.5])
    whole = path.stat().st_size
    ledger.remember("second", [3.5, 4.5])
    text = path.read_bytes()
    for length in range(whole, len(text) - 2):  # without its end of line the second entry would be whole
        path.write_bytes(text[:length])
        reopened = Ledger(path)
        assert (reopened.recall("first"), reopened.recall("second")) == ([1.5, 2.5], None)
        reopened.remember("third", length)
        again = Ledger(path)
        assert (again.recall("first"), again.recall("second"), again.recall("third")) == ([1.5, 2.5], None, length)
        assert len(again) == 2


def test_of_several_answers_at_once_those_are_kept_that_were_written_before_the_cut(path: Path) -> None:
    Ledger(path).remember_all([("first", 1.5), ("second", math.inf), ("third", 2.5)])
    assert [Ledger(path).recall(name) for name in ("first", "second", "third")] == [1.5, math.inf, 2.5]
    path.write_bytes(path.read_bytes()[:-5])
    assert [Ledger(path).recall(name) for name in ("first", "second", "third")] == [1.5, math.inf, None]


def test_lines_of_another_kind_are_passed_over(path: Path) -> None:
    path.write_text('not json\n[1, 2]\n{"question": 1}\n\n{"question": "q", "answer": 7}\n3\n')
    assert len(Ledger(path)) == 1
    assert Ledger(path).recall("q") == 7


def test_a_later_answer_stands_for_an_earlier_one(path: Path) -> None:
    ledger = Ledger(path)
    ledger.remember("q", 1)
    ledger.remember("q", 2)
    assert ledger.recall("q") == Ledger(path).recall("q") == 2
    assert len(ledger) == len(Ledger(path)) == 1


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = Ledger()
    ledger.remember("q", 1)
    assert ledger.recall("q") == 1
    assert list(tmp_path.iterdir()) == []
