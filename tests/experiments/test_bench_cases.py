"""Garnets of the benchmark `answers`: what is exact is, rivals find it with many rows, and lines have their keys."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from dualembed.cli.experiments import KEYS
from dualembed.experiments import bench_answers, bench_cases, bench_peers
from dualembed.experiments.bench_cases import OnGarnet
from dualembed.experiments.bench_worlds import Choice
from dualembed.experiments.garnet import EpisodicGarnet, episodic_garnet

SIZES: dict[str, Any] = {"states": 6, "actions": 2, "discount": 0.9}


@pytest.fixture(scope="module")
def known() -> EpisodicGarnet:
    return episodic_garnet(3, **SIZES, target="far")


def test_the_value_is_what_discounted_visits_earn(known: EpisodicGarnet) -> None:
    assert known.visits.sum() == pytest.approx(1)
    assert known.share.sum() == pytest.approx(1)
    earned = np.sum(known.visits.sum(axis=1) * known.world.reward) / (1 - known.world.discount)
    assert known.value == pytest.approx(earned)
    assert np.sum(known.world.target * known.action_values, axis=1) == pytest.approx(known.world.value)
    assert known.msbe(known.world.value) == pytest.approx(0, abs=1e-20)


def test_a_log_has_the_share_of_each_state_and_action(known: EpisodicGarnet) -> None:
    log = known.log(100_000, seed=0)
    counts = np.zeros_like(known.share)
    np.add.at(counts, (log.states, log.actions), 1 / len(log.states))
    np.testing.assert_allclose(counts, known.share, atol=0.01)
    inside = log.steps[1:] > 0
    np.testing.assert_array_equal(log.states[1:][inside], log.next_states[:-1][inside])


@pytest.mark.parametrize("target", bench_cases.GARNET_TARGETS)
def test_targets_are_policies(target: str) -> None:
    found = episodic_garnet(0, **SIZES, target=target).world.target
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert found.min() >= 0


def test_dual_dice_on_indicators_is_the_exact_ratio_with_many_rows(known: EpisodicGarnet) -> None:
    log, pairs = known.log(200_000, seed=1), known.share.size
    first, shares = log.states * 2 + log.actions, known.world.target
    counts = np.zeros((pairs, 6))
    np.add.at(counts, (first, log.next_states), 1 / len(first))
    following = (counts[:, :, None] * shares).reshape(pairs, pairs)
    dual = np.diag(counts.sum(axis=1))
    starts = np.bincount(log.states[log.steps == 0], minlength=6) / np.sum(log.steps == 0)
    given = dual - 0.9 * following, dual, (starts[:, None] * shares).ravel(), 0.9
    found = bench_peers.dual_dice(*given, ridge=1e-9, dual_ridge=1e-9)
    np.testing.assert_allclose(found, (known.visits / known.share).ravel(), atol=0.05)
    assert np.diag(dual) @ found == pytest.approx(1, abs=1e-4)
    shrunk = bench_peers.dual_dice(*given, ridge=10.0, dual_ridge=1e-9)
    assert np.abs(shrunk).max() < np.abs(found).max()


@pytest.mark.parametrize("target", ["logged", "far"])
def test_tables_come_near_the_truth_with_many_rows(target: str) -> None:
    known = episodic_garnet(3, **SIZES, target=target)
    shape = (6, 1) if target == "logged" else (6, 2)
    policy = Choice(lambda states: known.world.target[states])
    found = bench_peers.tabular_lstd(known.log(200_000, seed=1), policy, 0.9, shape=shape, ridges=(0.0, 1e-6, 1e3))
    np.testing.assert_allclose(found[0], known.world.value, atol=0.05)
    np.testing.assert_allclose(found[1], found[0], atol=1e-3)
    assert np.ptp(found[2]) < 0.01  # a large ridge leaves the constant alone


def test_a_state_that_the_log_has_not_met_is_left_out() -> None:
    case = OnGarnet(6, 2, 0.9, "far")
    log = case.log(0)
    kept = (log.log.states != 5) & (log.log.next_states != 5)
    met = bench_cases.Known(log.process, _some(log.log, kept))
    assert met.seen.tolist() == [0, 1, 2, 3, 4]
    assert len(case.at_points(met)) == 10


def _some(log: Any, kept: np.ndarray) -> Any:
    import dataclasses

    columns = ("states", "actions", "rewards", "next_states", "terminated", "episodes", "steps")
    return dataclasses.replace(log, **{name: getattr(log, name)[kept] for name in columns})


@pytest.mark.parametrize("target", ["logged", "far"])
def test_lines_of_a_garnet_have_their_keys(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_cases, "ROWS", 600)
    outcome = bench_answers.run_case(OnGarnet(6, 2, 0.9, target), range(2))
    lines = outcome.lines()
    whole = bench_answers.together([outcome])
    together = list(bench_answers.measures_together(lines[1:]))
    for line in (*lines, whole, *together):
        assert set(KEYS) <= set(line)
        assert line["set"] == "garnet"
    assert 0 <= lines[0]["pointwise cover"] <= 1
    assert [line["measure"] for line in lines[1:]] == [line["measure"] for line in together]
    for line in lines[1:]:
        assert line["ratio"] == pytest.approx(min(line["errors of rivals"].values()) / line["ours"])
        assert line["peer"] in line["errors of rivals"]
    json.dumps([*lines, whole, *together], allow_nan=False)
    assert len(list(bench_answers.tables([*lines, whole, *together]))) == len(lines)


def test_each_process_has_a_truth_of_its_own() -> None:
    case = OnGarnet(6, 2, 0.9, "far")
    truths = [case.truth_of(case.log(seed))[0] for seed in range(2)]
    outcome = bench_answers.run_case(case, range(2), lambda case, log: _Said(case.truth_of(log)[0]))
    assert truths[0] != truths[1]
    assert outcome.rms == 0
    assert outcome.truth == pytest.approx(np.mean(truths))


class _Said:
    stderr = 1.0

    def __init__(self, value: float) -> None:
        self.value = value

    def interval(self, level: float) -> tuple[float, float]:
        return self.value - 2, self.value + 2
