"""The table that tests of the command line fit, and what they read off its output."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

LINEAR = ["--primal", "linear", "--dual", "linear"]
DISCOUNT = 0.5
ROWS = 400

Shown = pytest.CaptureFixture[str]


def columns(seed: int = 0, rows: int = ROWS) -> dict[str, np.ndarray]:
    """Transitions s' = s / 2 + noise with reward s_a, whose value is s_a / (1 - discount / 2); and all other roles."""
    rng = np.random.default_rng(seed)
    state = rng.normal(size=(rows, 2))
    following = 0.5 * state + 0.5 * rng.normal(size=(rows, 2))
    action, hidden, tax = rng.integers(2, size=rows), rng.normal(size=rows), rng.normal(size=rows)
    ends = following[:, 0] > 0.5
    return {
        "state_a": state[:, 0],
        "state_b": state[:, 1],
        "action": action,
        "reward": state[:, 0],
        "next_state_a": following[:, 0],
        "next_state_b": following[:, 1],
        "next_action": rng.integers(2, size=rows),
        "episode": np.arange(rows) // 5,
        "price": tax + hidden,
        "sales": tax + 3 * hidden,
        "tax": tax,
        "cost": np.full(rows, 0.1),
        "terminal": ends.astype(int),
        "terminal_cost": np.where(ends, 0.0, np.nan),
        "kind": np.array(["red", "green", "blue"])[rng.integers(3, size=rows)],
    }


def document(capsys: Shown) -> Any:
    """The one JSON document on standard output."""
    shown = capsys.readouterr()
    assert shown.err == ""
    return json.loads(shown.out)


def refusal(capsys: Shown) -> str:
    """The one sentence on standard error."""
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("dualembed: ")
    assert shown.err.count("\n") == 1
    return shown.err
