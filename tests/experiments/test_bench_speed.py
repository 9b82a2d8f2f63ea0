"""The benchmark of speed measures what it says, and its lines can be read by a program."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dualembed.checks import InputError
from dualembed.cli.experiments import KEYS
from dualembed.experiments import bench_speed
from dualembed.experiments.bench_speed import Comparison, bench, seconds, tables
from dualembed.progress import track


def test_a_line_has_the_keys_of_all_benchmarks_and_the_ratio_of_their_time_to_ours() -> None:
    line = Comparison("a fit", "a rival", 3.0, 1.5, 1.2, {"error": 0.1}).line()
    assert list(line)[: len(KEYS)] == list(KEYS)
    assert line["ratio"] == 2.0
    assert line["error"] == 0.1


def test_processor_time_is_that_of_the_work() -> None:
    little, much = seconds(lambda: sum(range(10_000))), seconds(lambda: sum(range(20_000_000)))
    assert much > 20 * little


def test_rivals_of_plain_regression_and_of_transitions_are_no_straw_men() -> None:
    plain = next(iter(bench_speed._nystroem_ridge(400)))
    assert plain.more["rival's error"] < 0.05  # of a variance of 1/2
    steps = next(iter(bench_speed._rbf_lstd(600)))
    assert steps.more["rival's error"] < 0.05  # V = 0 has 0.0196 and more, a diverged one thousands
    assert steps.more["error"] < steps.more["rival's error"]


def test_parts_are_chosen_by_name_and_shown_as_a_table() -> None:
    lines = list(bench(trials=1, seed=0, quick=True, progress=track, case="threads"))
    assert [line["case"] for line in lines] == ["two fits at once"]
    console = Console(file=io.StringIO(), width=120)
    for table in tables(lines):
        console.print(table)
    assert "two fits in turn" in console.file.getvalue()
    with pytest.raises(InputError, match="no part is named 'nothing'; parts are start, "):
        list(bench(trials=1, seed=0, quick=True, progress=track, case="nothing"))
