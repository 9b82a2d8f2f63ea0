"""Runs of an experiment: what is known is not computed again, and an interrupted run ends as if it never had been."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dualembed.checks import InputError
from dualembed.experiments.experiment import Contender, Curve, Experiment, find_experiment
from dualembed.experiments.report import Report, document
from dualembed.experiments.run import Ledger, run
from dualembed.progress import track


class Noisy(Contender):
    """Numbers that follow from (settings, seed, samples); interrupts itself when `left` runs are done."""

    def __init__(self, left: float = math.inf) -> None:
        self.left = left
        self.calls: list[tuple[Any, ...]] = []

    def run(self, settings: dict[str, Any], seed: int, samples: int) -> Curve:
        if len(self.calls) == self.left:
            raise KeyboardInterrupt
        self.calls.append((settings.get("rate"), seed, samples))
        values = np.random.default_rng([seed, samples, int(8 * settings.get("rate", 0))]).uniform(size=2).tolist()
        return Curve([samples // 2, samples], values, {"worst": max(values), "picture": values})


class Shared(Contender):
    """A second method that counts its calls with the first's."""

    def __init__(self, first: Noisy) -> None:
        self.first = first

    def run(self, settings: dict[str, Any], seed: int, samples: int) -> Curve:
        return self.first.run({"rate": 16.0}, seed, samples)


def experiment(left: float = math.inf, **changes: Any) -> tuple[Experiment, Noisy]:
    first = Noisy(left)
    whole = Experiment(
        "unswept", "Unswept", "MSE", {"batch": 2}, {"a": first, "b": Shared(first)}, samples=100, quick_samples=10
    )
    return dataclasses.replace(whole, **changes), first


def report(whole: Experiment, ledger: Ledger | None = None, **changes: Any) -> Report:
    options: dict[str, Any] = {"trials": 3, "seed": 5, "quick": False, "progress": track, "ledger": ledger}
    return run(whole, **(options | changes))


def numbers(one: Report) -> dict[str, Any]:
    """The report without its clock."""
    plain = document(one)
    for method in plain["methods"].values():
        assert len(method.pop("seconds")) == one.trials
    return plain


@pytest.mark.parametrize("done", range(6))
def test_an_interrupted_run_computes_only_the_rest_and_reports_the_same(done: int, tmp_path: Path) -> None:
    whole, first = experiment()
    uninterrupted = numbers(report(whole))
    wanted = list(first.calls)
    whole, first = experiment(left=done)
    with pytest.raises(KeyboardInterrupt):
        report(whole, Ledger(tmp_path / "ledger"))
    assert first.calls == wanted[:done]
    whole, first = experiment()
    resumed = report(whole, Ledger(tmp_path / "ledger"))
    assert first.calls == wanted[done:]
    assert numbers(resumed) == uninterrupted


def test_a_finished_run_is_told_again_without_a_computation(tmp_path: Path) -> None:
    whole, _ = experiment()
    told = document(report(whole, Ledger(tmp_path / "ledger")))
    whole, first = experiment(left=0)
    assert document(report(whole, Ledger(tmp_path / "ledger"))) == told  # the seconds are those it took, too
    assert first.calls == []


@pytest.mark.parametrize(
    ("changes", "computed"),
    [
        ({}, []),
        ({"chosen": {"a": {"rate": 2.0}}}, [(2.0, 5, 100), (2.0, 6, 100), (2.0, 7, 100)]),
        ({"seed": 6}, [(None, 8, 100), (16.0, 8, 100)]),
        ({"trials": 4}, [(None, 8, 100), (16.0, 8, 100)]),
        ({"quick": True, "trials": 1}, [(None, 5, 10), (16.0, 5, 10)]),
    ],
)
def test_the_ledger_serves_only_the_same_settings_seed_and_size(changes: dict[str, Any], computed: list[Any]) -> None:
    whole, first = experiment()
    ledger = Ledger()
    report(whole, ledger)
    first.calls.clear()
    known = report(whole, ledger, **changes)
    assert first.calls == computed
    assert numbers(known) == numbers(report(whole, Ledger(), **changes))


def test_another_experiment_method_or_version_is_not_served_either(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger()
    whole, first = experiment()
    for each in (
        whole,
        dataclasses.replace(whole, name="other"),
        dataclasses.replace(whole, contenders={"c": first, "d": Shared(first)}),
    ):
        first.calls.clear()
        report(each, ledger)
        assert len(first.calls) == 6
    monkeypatch.setattr("dualembed.experiments.run.__version__", "0.0.next")
    first.calls.clear()
    report(whole, ledger)
    assert len(first.calls) == 6


def test_a_report_holds_means_ends_and_the_numbers_beside_them() -> None:
    whole, first = experiment()
    told = report(whole, trials=2)
    curves = [first.run({}, seed, 100) for seed in (5, 6)]
    method = told.methods["a"]
    assert method.samples == [50, 100]
    assert method.mean == pytest.approx(np.mean([curve.values for curve in curves], axis=0))
    assert method.final == [curve.values[-1] for curve in curves]
    assert method.extras == {"worst": [curve.extras["worst"] for curve in curves]}  # the picture is no number
    assert told.settings == {"batch": 2, "samples": 100}


def test_a_trial_that_diverged_is_reported_as_such() -> None:
    class Diverging(Contender):
        def run(self, settings: dict[str, Any], seed: int, samples: int) -> Curve:
            return Curve([1, 2], [1.0, math.inf if seed == 6 else 1.0])

    whole, _ = experiment(contenders={"a": Diverging()})
    assert document(report(whole))["methods"]["a"]["final"] == [1.0, None, 1.0]


def test_the_figure_is_given_the_curves_of_every_trial() -> None:
    seen: list[Any] = []
    whole, first = experiment(draw=lambda told, curves: seen.append((told, curves)))
    told = report(whole, trials=2)
    told.draw()
    [(given, curves)] = seen
    assert given is told
    assert [curve.extras["picture"] for curve in curves["a"]] == [first.run({}, seed, 100).values for seed in (5, 6)]


def test_no_more_trials_are_run_than_an_experiment_has() -> None:
    whole, first = experiment(most_trials=2)
    assert report(whole, trials=10).trials == 2
    assert len(first.calls) == 4


def test_recorded_settings_are_used_and_chosen_ones_stand_in_for_them() -> None:
    illustrated = find_experiment("illustration")
    recorded = illustrated.chosen()
    assert recorded["embedding-sgd"]["primal bandwidth"] == 0.7
    assert recorded["self-tuned"] == {}
    whole = dataclasses.replace(illustrated, contenders=dict.fromkeys(recorded, Noisy()))
    told = report(whole, chosen={"closed-form": {"rate": 1.0}})
    used = {name: method.hyperparameters for name, method in told.methods.items()}
    assert used == {**recorded, "closed-form": {"rate": 1.0}}


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(InputError, match="no experiment named 'nosy'; choose one of: illustration"):
        find_experiment("nosy")


@pytest.mark.parametrize(
    ("seed", "words"), [(2**32 - 1, "must be below 2\\*\\*32"), (995, "meet those on which settings were chosen")]
)
def test_seeds_beyond_the_largest_or_of_the_sweep_are_refused_before_any_work(seed: int, words: str) -> None:
    whole, first = experiment()
    with pytest.raises(InputError, match=words):
        run(whole, trials=10, seed=seed, quick=True, progress=track)
    assert first.calls == []


def test_a_method_without_settings_on_record_says_how_to_find_them() -> None:
    class Choosy(Contender):
        def run(self, settings: dict[str, Any], seed: int, samples: int) -> Curve:
            raise AssertionError("must not be reached")

        def grid(self) -> list[dict[str, Any]]:
            return [{"rate": 1.0}, {"rate": 2.0}]

    whole, _ = experiment()
    with pytest.raises(InputError, match=r"no settings are on record for choosy; .* --sweep"):
        report(dataclasses.replace(whole, name="unswept", contenders={"choosy": Choosy()}), Ledger())
