"""The README's example runs as printed and does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

README = Path(__file__).parent.parent / "README.md"


def test_the_readmes_python_recovers_the_function_it_names() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.S)
    names: dict[str, np.ndarray] = {}
    exec(code, names)
    grid = np.linspace(-1, 1, 101)
    assert np.sqrt(np.mean((names["f"] - np.sin(3 * grid)) ** 2)) < 0.1


def test_the_readme_shows_the_two_commands() -> None:
    text = README.read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
