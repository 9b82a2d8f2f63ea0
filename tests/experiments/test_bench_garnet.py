"""The benchmark `garnet`: runs at once are those one by one, and settings are chosen on Garnets that are no trial's."""

from __future__ import annotations

import numpy as np
import pytest

from dualembed import baselines, schedules
from dualembed.experiments import bench_garnet
from dualembed.experiments.bench_garnet import FIRST_STAGE, SECOND_STAGE, WEIGHINGS, Setting, choose, iterates, sweep
from dualembed.experiments.garnet import garnet

SMALL = garnet(3, states=12, actions=3, branching=2, features=4)


@pytest.mark.parametrize("weights", list(WEIGHINGS))
def test_runs_made_at_once_are_the_runs_one_by_one(weights: str) -> None:
    data = SMALL.sample(100, 7)
    runs = [
        Setting(make(40, 4, schedule, schedule), weights=weights)
        for make in (baselines.DoubleSampling, baselines.GTD2)
        for schedule in (schedules.Constant(0.01), schedules.Constant(0.2), schedules.OffsetSqrt(0.3, 10.0))
    ]
    together = iterates(SMALL, runs, data, seed=0)
    for run, found in zip(runs, together, strict=True):
        np.testing.assert_allclose(found, run.iterates(SMALL, data, 0), rtol=1e-4, atol=1e-6)
    assert np.max(np.abs(together[0] - together[1])) > 0.1


def test_no_trial_can_have_a_seed_that_settings_were_chosen_on() -> None:
    assert min(*FIRST_STAGE, *SECOND_STAGE) > 2**31 + 10**9  # the command line takes seeds below 2**31
    assert max(*FIRST_STAGE, *SECOND_STAGE) < 2**32  # JAX's are below this


def test_the_second_stage_has_eight_garnets_that_the_first_did_not_see() -> None:
    assert len(set(SECOND_STAGE)) == 8
    assert not set(FIRST_STAGE) & set(SECOND_STAGE)


def test_what_does_best_on_the_first_garnets_and_fails_on_the_next_is_not_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Setting i has excess i at first, then 100 - i, where only the best twelve are run."""
    settings = {f"setting {number}": Setting(baselines.LSTD(float(number))) for number in range(20)}

    def swept(case: str, given: dict[str, Setting], seeds: tuple[int, ...]) -> dict[str, float]:
        numbers = {label: setting.solver.ridge for label, setting in given.items()}
        return numbers if seeds == FIRST_STAGE else {label: 100 - number for label, number in numbers.items()}

    monkeypatch.setattr(bench_garnet, "grid", lambda name: settings)
    monkeypatch.setattr(bench_garnet, "sweep", swept)
    found = choose("uniform behaviour", "LSTD")
    assert list(found) == [f"setting {number}" for number in range(11, -1, -1)]
    assert list(found.values()) == sorted(found.values())


def test_a_run_that_ends_in_no_number_counts_as_infinite(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"sound": Setting(baselines.LSTD(1.0)), "broken": Setting(baselines.LSTD(2.0))}
    monkeypatch.setattr(bench_garnet, "ROWS", 100)
    monkeypatch.setattr(bench_garnet, "garnet", lambda seed, **options: SMALL)
    monkeypatch.setattr(
        bench_garnet,
        "iterates",
        lambda world, runs, data, seed: [np.full((2, 12), np.nan if run.solver.ridge == 2 else 0.0) for run in runs],
    )
    found = sweep("uniform behaviour", settings, (0, 1))
    assert found["broken"] == np.inf
    np.testing.assert_allclose(found["sound"], SMALL.excess(np.zeros(12)))
