"""The README's example runs as printed and does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[2] / "README.md"


def test_the_readmes_python_finds_what_the_rule_is_worth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.S)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)
    value = names["model"].value()
    said, error, truth = map(float, re.search(r"([\d.]+) ± ([\d.]+) \(.*says ([\d.]+)\)", code).groups())
    assert abs(value.value - said) < 0.5
    assert abs(value.stderr - error) < 1
    assert abs(value.value - truth) < 2 * value.stderr
    assert names["values"].shape == names["errors"].shape == (2000,)
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_readme_shows_the_two_commands() -> None:
    text = README.read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text
