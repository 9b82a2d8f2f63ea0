"""Sample complexity: its error is exact, its truth has the norm it claims, and what is recorded was chosen fairly."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dualembed.experiments import complexity
from dualembed.experiments.bellman import smooth
from dualembed.experiments.complexity import EXPERIMENT, NODES, NORM, SIZED, Ball, Trial
from dualembed.experiments.report import document, write
from dualembed.experiments.run import Ledger, run
from dualembed.experiments.sweep import sweep
from dualembed.progress import track
from dualembed.spaces.rkhs import KernelFunction

TUNED = [name for name, each in SIZED.items() if len(each.candidates(complexity.SIZES[-1])) > 1]


def test_the_excess_is_that_of_exact_local_averages_on_a_fine_grid() -> None:
    trial = Trial(3)
    other = KernelFunction(complexity.KERNEL, np.array([[-2.0], [4.5]]), np.array([1.0, -0.7]), tile=2)
    x = np.linspace(-5, 5, 20_001)
    gap = np.asarray(smooth(other, complexity.DEVIATION)(x)) - trial.local_average(x)
    assert trial.excess(other) == pytest.approx(0.5 * np.mean(gap**2), rel=1e-3)


def test_the_truth_itself_has_no_excess() -> None:
    assert Trial(3).excess(Trial(3).truth) < 1e-12


def test_every_truth_has_the_stated_norm_and_lies_in_the_space() -> None:
    for seed in (0, 1):
        truth = Trial(seed).truth
        primal, _ = complexity.both_spaces(np.float64)
        features, values = primal.function(NODES[:, None]), np.asarray(truth(NODES))
        weights, *_ = np.linalg.lstsq(features, values, rcond=1e-10)
        assert np.max(np.abs(features @ weights - values)) < 1e-6
        assert float(weights @ weights) == pytest.approx(NORM**2, rel=1e-4)


def test_the_slopes_at_the_saddle_point_have_the_stated_second_moment() -> None:
    trial = Trial(5)
    table = trial.problem(200_000).source.table
    drawn = np.mean((np.asarray(trial.truth(table["z"][:, 0])) - table["y"]) ** 2)
    assert trial.slope_moment == pytest.approx(drawn, rel=0.02)


def test_so_many_draws_are_shared_out_among_the_inputs() -> None:
    table = Trial(0).problem(800, 8).source.table
    assert table["x"].shape == (100,)
    assert table["z"].shape == (100, 8, 1)


def test_one_draw_an_input_leaves_the_sample_average_biased_where_the_dual_is_not() -> None:
    trial, many = Trial(0), 12_800
    (biased,) = complexity.batch_saa([{"m": 1, "penalty": 1e-4}], trial, many)
    (averaged,) = complexity.batch_saa([{"m": 32, "penalty": 1e-4}], trial, many)
    (dual,) = complexity.closed_form([{"primal penalty": 1e-4, "dual penalty": 1e-4}], trial, many)
    assert dual < averaged < biased / 10


@pytest.mark.slow
def test_a_ball_without_the_truth_keeps_away_from_it_and_a_huge_one_with_its_steps_does_too() -> None:
    curve = Ball().run({}, seed=0, samples=1_600)
    at_most_draws = np.asarray(curve.extras["theorem"])[-1]
    best = int(np.argmin(at_most_draws))
    assert at_most_draws[0] > 10 * curve.values[-1]
    assert at_most_draws[-1] > 10 * at_most_draws[best]
    assert complexity.RELATIVE_RADII[best] >= 1


@pytest.mark.parametrize("name", TUNED)
def test_recorded_settings_are_candidates_at_every_size(name: str) -> None:
    recorded = EXPERIMENT.chosen()[name]
    assert list(recorded) == [str(size) for size in complexity.SIZES]
    for size in complexity.SIZES:
        assert recorded[str(size)] in SIZED[name].candidates(size)


def test_the_best_number_of_draws_an_input_grows_and_is_inside_its_grid() -> None:
    chosen = [EXPERIMENT.chosen()["batch-saa"][str(size)]["m"] for size in complexity.SIZES]
    assert chosen == sorted(chosen)
    for size, draws in zip(complexity.SIZES, chosen, strict=True):
        tried = [each["m"] for each in SIZED["batch-saa"].candidates(size)]
        assert min(tried) < draws < max(tried)


def test_a_sweep_makes_a_choice_for_each_size_where_there_is_something_to_choose() -> None:
    for method in (SIZED[name] for name in TUNED):
        choices = method.choices(3_200)
        assert [(choice.name, choice.samples) for choice in choices] == [("200", 200), ("800", 800), ("3200", 3_200)]
        assert all(choice.candidates == method.candidates(choice.samples) for choice in choices)
    assert EXPERIMENT.contenders["self-tuned"].choices(3_200) == []
    assert all(each.candidates == [{}] for each in Ball().choices(3_200))


@pytest.fixture(scope="module")
def without_self_tuned() -> Any:
    """The experiment without the one method that takes long to compile."""
    return dataclasses.replace(
        EXPERIMENT, contenders={name: each for name, each in EXPERIMENT.contenders.items() if name != "self-tuned"}
    )


@pytest.mark.slow
def test_a_quick_run_writes_its_figure_and_a_second_one_recalls_it(without_self_tuned: Any, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "trials.jsonl")
    report = run(without_self_tuned, trials=2, seed=0, quick=True, progress=track, ledger=ledger)
    results, figure = write(report, tmp_path)
    assert results.stat().st_size > 1_000
    assert figure.stat().st_size > 30_000
    methods = document(report)["methods"]
    assert methods["embedding-sgd"]["samples"] == [200, 800]
    assert all(slope < 0 for slope in methods["embedding-sgd"]["beside"]["slope"])
    known = len(ledger)
    again = run(
        without_self_tuned, trials=2, seed=0, quick=True, progress=track, ledger=Ledger(tmp_path / "trials.jsonl")
    )
    assert document(again) == document(report)
    assert len(Ledger(tmp_path / "trials.jsonl")) == known


def test_a_sweep_chooses_what_is_on_record_by_the_recorded_error() -> None:
    """At 200 draws, by the mean over the six trials."""
    recorded = json.loads(Path(complexity.__file__).with_name("settings").joinpath("complexity.json").read_text())
    names = ("embedding-sgd", "closed-form")
    small = dataclasses.replace(
        EXPERIMENT, contenders={name: EXPERIMENT.contenders[name] for name in names}, samples=200
    )
    found = sweep(small, quick=False, progress=track, ledger=Ledger())
    for name in names:
        assert found["chosen"][name] == {"200": recorded["chosen"][name]["200"]}
        metric = recorded["sweep"]["methods"][name]["metric"]["200"]
        assert found["sweep"]["methods"][name]["metric"] == {"200": pytest.approx(metric, rel=1e-3)}
