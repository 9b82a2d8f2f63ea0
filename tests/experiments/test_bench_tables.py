"""Table worlds of the benchmark `worlds`: what linear algebra says of them, and answers from their logs."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from dualembed.experiments import bench_processes, bench_tables
from dualembed.experiments.bench_answers import run_case


@pytest.mark.parametrize(
    ("world", "exact"), [("FrozenLake", 0.0123561), ("FrozenLake8x8", 0.00109961), ("CliffWalking", -1072.236)]
)
def test_values_of_uniform_policies_are_those_of_linear_algebra(world: str, exact: float) -> None:
    known = bench_tables.dynamics(world)
    assert known.starts @ known.values(known.policy("uniform")) == pytest.approx(exact, rel=1e-5)
    np.testing.assert_allclose((known.goes_on + known.ends).sum(axis=2), 1.0)
    assert np.all(known.values(known.policy("better")) >= known.values(known.policy("uniform")) - 1e-9)


@pytest.mark.parametrize("target", ["uniform", "better"])
def test_the_value_in_a_lake_is_found_from_a_log_of_names(target: str) -> None:
    case = bench_tables.InTable("FrozenLake", target, 6000)
    log = case.log(0)
    assert len(log.states) >= 6000
    assert not log.terminated[log.next_states == 0].any()
    outcome = run_case(case, range(1))
    assert outcome.covers.all()
    assert abs(outcome.values[0] - outcome.truth) < 0.03
    assert {"counts, ridge 0.001"} < {*outcome.rivals}


@pytest.mark.parametrize(("asked", "exact"), [("passage time", 56_467.869), ("committor", 0.5)])
def test_the_double_well_is_deeptimes(asked: str, exact: float) -> None:
    pytest.importorskip("deeptime")
    case = bench_tables.DoubleWell(asked, 5000)
    assert case.truth()[0] == pytest.approx(exact)
    state, following = case.log(0)
    assert np.abs(state - following).max() < 20
    assert np.isfinite(case.rivals((state, following))["counts"])


def test_worlds_of_packages_that_are_not_there_are_left_out_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "committor of double_well_discrete, 50000"
    assert name in bench_processes.CASES
    found = importlib.util.find_spec

    def without(package: str, *rest: Any) -> Any:
        return None if package == "deeptime" else found(package, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    with pytest.warns(UserWarning, match="left out, since deeptime is not installed; pip install deeptime"):
        assert not bench_tables.is_there(bench_processes.CASES[name])
    assert bench_tables.is_there(bench_processes.CASES["FrozenLake, uniform policy, 20000"])
