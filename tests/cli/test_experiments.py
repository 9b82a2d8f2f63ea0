"""`dualembed bench`: a table for people, a line of JSON for each comparison for programs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dualembed.cli import main
from dualembed.cli.experiments import BENCHES, KEYS

HEAVY = ("jax", "numpy", "scipy", "matplotlib", "equinox", "optax")


class Bench(ModuleType):
    """A benchmark that remembers how it was called."""

    def __init__(self) -> None:
        super().__init__("dualembed.experiments.bench_garnet")
        self.calls: list[dict[str, Any]] = []

    def bench(self, *, trials: int, seed: int, quick: bool, progress: Any) -> list[dict[str, Any]]:
        self.calls.append({"trials": trials, "seed": seed, "quick": quick})
        with progress(trials, "a trial") as tracker:
            tracker.advance(to=trials)
        line = {"bench": "garnet", "case": "one", "unit": "error", "value": 0.2, "target": 2.0, "ours": 0.0987}
        line["rmse of ours"] = 0.374
        lstd, brm = {"ratio": 2.5, "rmse": 0.363}, {"ratio": 1.5, "rmse": 0.51}
        return [{**line, "peer": "LSTD", **lstd}, {**line, "peer": "BRM", **brm}]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    module = Bench()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_json_is_one_object_a_line_and_nothing_else(fake: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "garnet", "--json", "--seed", "3", "--trials", "4"]) == 0
    shown = capsys.readouterr()
    lines = [json.loads(line) for line in shown.out.splitlines()]
    assert [line["peer"] for line in lines] == ["LSTD", "BRM"]
    assert all(set(KEYS) <= set(line) for line in lines)
    assert shown.err == ""
    assert fake.calls == [{"trials": 4, "seed": 3, "quick": False}]


def test_json_has_null_for_what_is_no_number(fake: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    fake.bench = lambda **_: [{"case": "one", "value": np.inf, "errors": {"rival": float("nan"), "ours": 1.0}}]  # type: ignore[method-assign]
    assert main(["bench", "garnet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"case": "one", "value": None, "errors": {"rival": None, "ours": 1.0}}


def test_the_table_says_what_holds(
    fake: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in {*BENCHES} - {"garnet", "fqe"}:  # others take their time
        monkeypatch.delitem(BENCHES, name)
    assert main(["bench", "--quick"]) == 0  # all benchmarks there are
    shown = capsys.readouterr().out
    rows = {line.split()[1]: line for line in shown.splitlines() if "LSTD" in line or "BRM" in line}
    assert "yes" in rows["LSTD"]
    assert "no" in rows["BRM"]
    assert "0.0987" in shown
    assert "1 of 2 comparisons hold: the ratio of the rival's error to ours" in " ".join(shown.split())
    assert fake.calls == [{"trials": 2, "seed": 0, "quick": True}]


def test_the_table_shows_the_error_that_is_not_compared(fake: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "garnet"]) == 0
    shown = capsys.readouterr().out
    assert "RMSE is shown beside it, not compared" in " ".join(shown.split())
    rows = {line.split()[1]: line for line in shown.splitlines() if "0." in line and "│" in line}
    assert "0.374" in rows["(ours)"]
    assert "0.363" in rows["LSTD"]
    assert "0.51" in rows["BRM"]


def test_help_names_the_benchmarks_without_heavy_imports() -> None:
    program = (
        "import sys\n"
        "from dualembed.cli import main\n"
        "code = main(['bench', '--help'])\n"
        f"heavy = [name for name in {HEAVY} if name in sys.modules]\n"
        "sys.exit(f'imported {heavy}' if heavy else code)\n"
    )
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    for name, (_, line) in BENCHES.items():
        assert name in outcome.stdout
        assert line in outcome.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bench", "grnet"], "did you mean 'garnet'?"),
        (["bench", "zzz"], "choose one of: garnet"),
        (["bench", "garnet", "--trials", "0"], "--trials"),
        (["bench", "garnet", "--seed", "-1"], "--seed"),
        (["bench", "garnet", "--case", "uniform*"], "--case and --set are for the benchmark answers"),
        (["bench", "--set", "hitting"], "--case and --set are for the benchmark answers"),
        (["bench", "answers", "--case", "zzz*"], "no case is named 'zzz*'"),
        (["bench", "answers", "--set", "zzz"], "choose one of: hitting, on-policy, off-policy"),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_every_benchmark_can_be_imported_and_run() -> None:
    import importlib

    for place, _ in BENCHES.values():
        module, _, function = place.partition(":")
        assert callable(getattr(importlib.import_module(module), function or "bench"))


def test_every_setting_chosen_for_the_garnets_is_one_of_its_grid() -> None:
    from dualembed.experiments import bench_garnet

    for case in bench_garnet.CASES:
        for name in bench_garnet.NAMES:
            bench_garnet.chosen_setting(case, name)
    assert all(case in bench_garnet.CASES for case in bench_garnet.CHOSEN)


def test_the_closed_form_has_the_least_error_and_half_of_lstds_on_two_garnets() -> None:
    from dualembed.experiments.bench_garnet import bench
    from dualembed.progress import track

    lines = bench(trials=2, seed=0, quick=True, progress=track)
    assert {"LSTD", "plain LSTD", "BRM", "kernel Bellman loss", "LSTD, no ridge"} <= {line["peer"] for line in lines}
    for line in lines:
        np.testing.assert_allclose(line["ratio"], line["value"] / line["ours"], rtol=1e-12)
        assert set(KEYS) <= set(line)
        json.dumps(line, allow_nan=False)
    assert all(line["ratio"] > 1 for line in lines)
    assert next(line["ratio"] for line in lines if line["peer"] == "LSTD") > 2
