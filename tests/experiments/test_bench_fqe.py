"""The benchmarks against fitted Q evaluation: without the rival they say how to get it, and lines can be read."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest

from dualembed.checks import InputError
from dualembed.cli.experiments import KEYS
from dualembed.experiments import bench_fqe
from dualembed.progress import track


def test_the_benchmark_without_its_rival_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "d3rlpy", None)
    with pytest.raises(InputError, match=r"needs d3rlpy, which is not installed; pip install 'dualembed\[bench\]'"):
        bench_fqe.bench(trials=1, seed=0, quick=True, progress=track)


def test_the_benchmarks_ratios_are_the_rivals_error_and_time_over_ours() -> None:
    rows = np.array([[0.1, 1.0, 0.3, 40.0], [-0.1, 1.0, -0.3, 60.0]])
    value, seconds = bench_fqe._lines(rows, 17.0)
    assert value["ratio"] == pytest.approx(3.0)
    assert seconds["ratio"] == pytest.approx(50.0)
    assert (value["target"], seconds["target"]) == (1.0, 20.0)


def test_fitted_q_evaluation_counts_at_its_best_in_hindsight(monkeypatch: pytest.MonkeyPatch) -> None:
    case = bench_fqe.CASES["acrobot logged to soft, 0.95"]
    monkeypatch.setattr(type(case), "truth", lambda self: (-10.0, 0.0))
    ours = {"stderr": 1.0, "seconds": 2.0, "covers": True, "rival's seconds": 60.0}
    rows = [
        {**ours, "ours": -10 + away, "rivals": {"early": -10 + 3 * away, "late": -10 + 2 * away}}
        for away in (1.0, -1.0)
    ]
    line = bench_fqe.line(case, rows)
    assert set(KEYS) <= set(line)
    assert (line["peer"], line["value"], line["ratio"]) == ("d3rlpy FQE, late", pytest.approx(2), pytest.approx(2))
    assert (line["cover"], line["logs"]) == (2, 2)
    json.dumps(line, allow_nan=False)
    assert len(list(bench_fqe.tables([line]))) == 2


def test_environments_are_chosen_by_name_and_have_no_sets() -> None:
    shared: dict[str, Any] = {"trials": 1, "seed": 0, "quick": True, "progress": track}
    with pytest.raises(InputError, match="choose one of: cartpole clumsy to soft"):
        next(bench_fqe.bench_worlds(**shared, case="frozenlake"))
    with pytest.raises(InputError, match="has no sets"):
        next(bench_fqe.bench_worlds(**shared, kind="garnet"))
