"""The page on the architecture names rooms that exist, all of them, and its examples run as they are printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.laws.test_architecture import ROWS, SOURCE

PAGE = (Path(__file__).parents[2] / "docs" / "architecture.md").read_text(encoding="utf-8")
OWN = {"__main__", "policies", "propensities", "trajectories", "deprecation", "examples", "comparison"}


def test_every_room_is_on_the_page() -> None:
    table = PAGE[PAGE.index("## The rooms") : PAGE.index("## The one way through")]
    rooms = [room for line in re.findall(r"^\| (`.*?) \|", table, flags=re.M) for room in re.findall(r"`(\w+)`", line)]
    assert set(rooms) == set.union(*ROWS) - OWN
    assert [room for room in rooms if not list(SOURCE.glob(f"{room}*"))] == []


def test_the_examples_run_and_print_what_they_say(tmp_path: Path) -> None:
    """In a process of their own: an estimator that is defined is known from then on."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.S)
    script = tmp_path / "examples.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run([sys.executable, "-W", "error", str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *tests, last = done.stdout.splitlines()
    assert tests == ["True"] * (len(blocks) - 1)
    value, error = map(float, re.match(r"([\d.]+) ± ([\d.]+) \(solid\)", last).groups())
    assert abs(value - 4 / 3) < 2 * error
