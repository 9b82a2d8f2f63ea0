"""A bar appears on terminals only, and only for work that lasts."""

from __future__ import annotations

import io
import sys
import threading

import numpy as np
import pytest

import dualembed as de
from dualembed.progress import track


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def count_to(total: int, stream: io.StringIO, patience: float = 0.0) -> str:
    with track(total, "counting sheep", stream=stream, patience=patience) as tracker:
        for step in range(1, total + 1):
            tracker.advance(to=step)
    return stream.getvalue()


def test_lasting_work_on_a_terminal_is_shown() -> None:
    shown = count_to(5, Terminal())
    assert "counting sheep" in shown
    assert "/5" in shown


def test_short_work_is_silent() -> None:
    assert count_to(5, Terminal(), patience=60.0) == ""


def test_work_away_from_a_terminal_is_silent() -> None:
    assert count_to(5, io.StringIO()) == ""


def test_missing_or_closed_standard_error_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (None, closed):
        monkeypatch.setattr(sys, "stderr", stream)
        with track(2, "quiet", patience=0.0) as tracker:
            tracker.advance(to=2)
        assert tracker.step == 2


def test_unknown_total_is_shown_without_an_end() -> None:
    stream = Terminal()
    with track(None, "streaming", stream=stream, patience=0.0) as tracker:
        tracker.advance(to=7)
    assert "7/?" in stream.getvalue()


def test_only_the_outermost_of_nested_trackers_is_shown() -> None:
    outer, inner = Terminal(), Terminal()
    with track(2, "outer", stream=outer, patience=0.0) as tracker:
        tracker.advance(to=1)
        assert count_to(3, inner) == ""
        tracker.advance(to=2)
    assert "outer" in outer.getvalue()
    assert count_to(3, inner) != ""


def test_failing_work_closes_its_bar_and_leaves_no_thread() -> None:
    threads = set(threading.enumerate())

    def fail() -> None:
        with track(9, "doomed", stream=Terminal(), patience=0.0) as tracker:
            tracker.advance(to=1)
            assert set(threading.enumerate()) == threads
            raise RuntimeError("as planned")

    with pytest.raises(RuntimeError, match="as planned"):
        fail()
    assert set(threading.enumerate()) == threads
    assert "counting sheep" in count_to(2, Terminal())


def test_work_without_an_end_shows_the_part_that_is_under_way() -> None:
    stream = Terminal()
    with track(None, "working", stream=stream, patience=0.0) as whole:
        whole.advance(to=0)
        count_to(5, Terminal())
        with track(None, "thinking", stream=Terminal()) as part:
            part.advance(to=3)
    shown = stream.getvalue()
    assert "working" in shown
    assert "counting sheep" in shown
    assert "thinking" in shown
    assert "0/5" in shown
    assert "0/?" in shown


def test_a_fit_says_what_it_is_at(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(track.__wrapped__, "__kwdefaults__", {"stream": None, "patience": 0.0})
    rng = np.random.default_rng(0)
    states = rng.normal(size=(300, 1))
    de.PolicyEvaluator(0.9).fit(states, states[:, 0], 0.5 * states + rng.normal(size=(300, 1)))
    shown = stream.getvalue()
    for stage in ("Choosing kernels", "Adding up rows", "Solving for every ridge", "Judging by rows left out"):
        assert stage in shown
