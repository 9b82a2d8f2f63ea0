"""The comparison of instrumental-variable methods goes on where it stopped, and measures what it says."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from benchmarks import iv_designs

SHORT = ["--sizes", "200", "--methods", "2sls-3", "sieve", "--seeds", "3:5", "--instruments", "1", "2"]


@pytest.fixture
def methods(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(iv_designs.__file__).parent))
    return importlib.import_module("iv_methods")


def test_a_later_run_adds_only_what_is_missing(
    methods: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lines.jsonl"
    methods.main(["--out", str(out), "--designs", "linear", *SHORT])
    lines = out.read_text().splitlines()
    assert len(lines) == 8
    out.write_text("\n".join(lines[:5]) + '\n{"design": "lin\n')  # stopped within a line
    methods.main(["--out", str(out), "--designs", "linear", *SHORT])
    again = [json.loads(line) for line in out.read_text().splitlines() if line.endswith("}")]
    assert [{**entry, "seconds": 0} for entry in again] == [{**json.loads(line), "seconds": 0} for line in lines]
    capsys.readouterr()
    before = out.read_text()
    methods.main(["--out", str(out), "--designs", "linear", "abs", *SHORT, "--table"])
    shown = capsys.readouterr().out.splitlines()
    assert out.read_text() == before
    assert len(shown) == 5
    assert "sieve" in shown[2]


def test_answers_are_measured_against_the_truth(methods: ModuleType) -> None:
    design = iv_designs.one_dimensional("linear", 300, 0)
    wide = design.test_f - 1, design.test_f + 2
    half = design.test_f - 1, np.where(np.arange(1000) < 400, design.test_f + 1, design.test_f - 0.5)
    found = methods.measure(design, lambda design, seed: methods.Answers(design.test_f + 0.5, half, wide), 0)
    assert found["mse"] == pytest.approx(0.25)
    assert found["coverage"] == pytest.approx(0.4)
    assert found["covered"] is True
    assert found["width"] == pytest.approx(0.4 * 2 + 0.6 * 0.5)
    assert (
        methods.measure(design, lambda design, seed: methods.Answers(design.test_f, wide, half), 0)["covered"] is False
    )


def test_columns_in_x_and_in_z_are_controls(methods: ModuleType) -> None:
    design = iv_designs.demand(50, 0, 0.5)
    assert methods.not_in(design.x, design.z).tolist() == [True, False, False]
    assert methods.not_in(design.z, design.x).tolist() == [True, False, False]
    assert methods.draw("demand", 2, 50, 0) is None
    assert methods.draw("exponential rise", 2, 50, 0).z.shape == (50, 2)


def test_landmarks_do_as_well_as_all_rows(methods: ModuleType) -> None:
    design = iv_designs.one_dimensional("sin", 600, 0)
    exact = methods.kernel_iv(design, 0).f
    few = methods.kernel_iv_on_landmarks(design, 0)
    assert np.mean((few - exact) ** 2) < 0.05 * np.var(exact)
