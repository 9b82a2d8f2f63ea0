"""Successive halving finds the best setting, whatever diverges on the way, and goes on where it was interrupted."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dualembed.experiments import run as running
from dualembed.experiments import sweep as sweeping
from dualembed.experiments.experiment import ROUNDS, TUNING_SEEDS, Candidates, Contender, Curve, Experiment, Round
from dualembed.experiments.run import Ledger
from dualembed.experiments.sweep import MANY, sweep, write_settings
from dualembed.progress import track

SAMPLES = 800


class Bowl(Contender):
    """A metric that is least at rate 37; large rates diverge, and the largest ones end in NaN.

    Fewer samples blur it by less than what tells the best from the 24th of 100.
    """

    def __init__(self, size: int = 100, left: float = math.inf) -> None:
        self.size = size
        self.left = left
        self.seen: list[tuple[int, int, int]] = []  # (rate, seed, samples) of every setting that was computed
        self.rough: set[tuple[int, bool]] = set()  # (samples, whether the look was a rough one)

    def grid(self) -> list[dict[str, Any]]:
        return [{"rate": rate} for rate in range(self.size)]

    def run(self, settings: dict[str, Any], seed: int, samples: int) -> Curve:
        rate = settings["rate"]
        if rate >= 95:
            return Curve([samples], [math.nan])
        if rate >= 90:
            return Curve([samples], [math.inf])
        blur = (7 * rate + seed) % 5 * (1 - samples / SAMPLES)
        return Curve([samples], [abs(rate - 37) + blur])

    def batches(self, candidates: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
        return [candidates[start : start + 10] for start in range(0, len(candidates), 10)]

    def finals(self, candidates: list[dict[str, Any]], seed: int, samples: int, *, rough: bool = False) -> list[float]:
        if len(self.seen) >= self.left:
            raise KeyboardInterrupt
        self.seen += [(each["rate"], seed, samples) for each in candidates]
        self.rough.add((samples, rough))
        return super().finals(candidates, seed, samples)

    def rounds(self) -> list[tuple[int, int, int]]:
        """(settings, seed, samples) of every round and trial."""
        counted = Counter((samples, seed) for _, seed, samples in self.seen)
        return [(count, seed, samples) for (samples, seed), count in counted.items()]


def swept(*contenders: Contender, quick: bool = False, ledger: Ledger | None = None, **changes: Any) -> dict[str, Any]:
    named = {f"method {number}": each for number, each in enumerate(contenders)}
    whole = Experiment("made up", "", "error", {}, named, samples=SAMPLES, quick_samples=40, **changes)
    return sweep(whole, quick=quick, progress=track, ledger=Ledger() if ledger is None else ledger)


def test_the_best_setting_is_found_and_each_round_is_smaller_and_longer() -> None:
    bowl = Bowl()
    found = swept(bowl)
    assert found["chosen"] == {"method 0": {"rate": 37}}
    assert bowl.rounds() == [(100, 1000, 100), (24, 1000, 400), (6, 1000, 800), (6, 1001, 800)]
    assert found["sweep"]["methods"] == {"method 0": {"settings tried": 100, "metric": 0.0}}
    assert [each["samples"] for each in found["sweep"]["rounds"]] == [100, 400, 800]


def test_trials_of_a_sweep_are_none_that_are_reported() -> None:
    bowl = Bowl()
    swept(bowl)
    assert min(seed for _, seed, _ in bowl.seen) == TUNING_SEEDS.start


def test_the_last_round_judges_by_the_mean_of_its_trials() -> None:
    class Lucky(Contender):
        def grid(self) -> list[dict[str, Any]]:
            return [{"rate": "lucky"}, {"rate": "steady"}]

        def run(self, settings: dict[str, Any], seed: int, samples: int) -> Curve:
            lucky = 0.0 if seed == TUNING_SEEDS.start else 3.0
            return Curve([samples], [lucky if settings["rate"] == "lucky" else 1.0])

    assert ROUNDS[-1].trials > 1
    found = swept(Lucky())
    assert found["chosen"] == {"method 0": {"rate": "steady"}}
    assert found["sweep"]["methods"]["method 0"]["metric"] == 1.0


@pytest.mark.parametrize("lost", [math.nan, math.inf])
@pytest.mark.parametrize("quick", [False, True])
def test_a_setting_without_a_finite_metric_loses_wherever_it_stands(lost: float, quick: bool) -> None:
    class Mostly(Contender):
        def grid(self) -> list[dict[str, Any]]:
            return [{"rate": rate} for rate in range(30)]

        def run(self, settings: dict[str, Any], seed: int, samples: int) -> Curve:
            return Curve([samples], [1e30 if settings["rate"] == 17 else lost])

    assert swept(Mostly(), quick=quick)["chosen"] == {"method 0": {"rate": 17}}


def test_where_everything_diverges_there_is_no_metric_and_the_file_is_json_all_the_same(tmp_path: Path) -> None:
    class Lost(Bowl):
        def run(self, settings: dict[str, Any], seed: int, samples: int) -> Curve:
            return Curve([samples], [math.nan])

    found = swept(Lost(size=4))
    assert found["sweep"]["methods"]["method 0"]["metric"] is None
    path = write_settings(found, tmp_path)
    assert path.name == "settings.json"
    assert json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON")) == found


def test_a_method_with_nothing_to_choose_is_not_run() -> None:
    bowl = Bowl(size=1)
    found = swept(bowl)
    assert found["chosen"] == {"method 0": {"rate": 0}}
    assert found["sweep"]["methods"] == {"method 0": {"note": "nothing to choose from"}}
    assert bowl.seen == []


def test_a_quick_sweep_is_one_round_of_the_quick_size() -> None:
    bowl = Bowl()
    assert swept(bowl, quick=True)["chosen"]["method 0"] in [{"rate": rate} for rate in range(33, 42)]
    assert bowl.rounds() == [(100, 1000, 40)]


@pytest.mark.parametrize("done", [0, 10, 90, 110, 124, 130])
def test_an_interrupted_sweep_computes_only_the_settings_that_are_left_and_finds_the_same(
    done: int, tmp_path: Path
) -> None:
    whole = Bowl()
    uninterrupted = swept(whole, Bowl())
    cut = Bowl(left=done)
    with pytest.raises(KeyboardInterrupt):
        swept(cut, Bowl(), ledger=Ledger(tmp_path / "ledger"))
    assert len(cut.seen) == done
    rest = Bowl()
    assert swept(rest, Bowl(), ledger=Ledger(tmp_path / "ledger")) == uninterrupted
    assert cut.seen + rest.seen == whole.seen


def test_a_finished_sweep_is_told_again_without_a_computation(tmp_path: Path) -> None:
    found = swept(Bowl(), ledger=Ledger(tmp_path / "ledger"))
    assert swept(Bowl(left=0), ledger=Ledger(tmp_path / "ledger")) == found


def test_a_wider_grid_computes_its_new_settings_only() -> None:
    ledger = Ledger()
    swept(Bowl(60), ledger=ledger)
    wider = Bowl(80)
    assert swept(wider, ledger=ledger) == swept(Bowl(80))
    assert [rate for rate, _, samples in wider.seen if samples == 100] == list(range(60, 80))


def test_many_settings_are_looked_at_roughly_and_few_as_a_run_is() -> None:
    bowl = Bowl()
    swept(bowl)
    assert bowl.rough == {(100, True), (400, False), (800, False)}
    few = Bowl(MANY)
    swept(few)
    assert not any(rough for _, rough in few.rough)


def test_a_rough_look_is_not_served_for_a_careful_one() -> None:
    ledger = Ledger()
    swept(Bowl(MANY + 1), quick=True, ledger=ledger)
    few = Bowl(MANY)
    swept(few, quick=True, ledger=ledger)
    assert len(few.seen) == MANY


class Sized(Bowl):
    """A setting of its own for each of two sizes; the best rate is the size."""

    def choices(self, samples: int) -> list[Candidates]:
        return [Candidates([{"rate": rate} for rate in range(size + 3)], size, f"n = {size}") for size in (4, 6)]

    def run(self, settings: dict[str, Any], seed: int, samples: int) -> Curve:
        return Curve([samples], [abs(settings["rate"] - samples) + 0.5])


def test_parts_of_a_methods_settings_are_chosen_one_by_one_each_at_its_size() -> None:
    sized = Sized()
    found = swept(sized, Bowl(1), rounds=(Round(1, 2, 1),))
    assert found["chosen"]["method 0"] == {"n = 4": {"rate": 4}, "n = 6": {"rate": 6}}
    assert found["sweep"]["methods"]["method 0"] == {"settings tried": 16, "metric": {"n = 4": 0.5, "n = 6": 0.5}}
    assert sized.rounds() == [(7, 1000, 4), (7, 1001, 4), (9, 1000, 6), (9, 1001, 6)]
    assert found["sweep"]["rounds"] == [{"samples": SAMPLES, "trials": 2, "settings kept": 1}]


def test_as_many_processes_are_asked_for_as_there_are_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def worker_pool(experiment: Experiment, jobs: int) -> Any:
        asked.append(jobs)
        return running.worker_pool(experiment, 1)

    monkeypatch.setattr(sweeping, "worker_pool", worker_pool)
    whole = Experiment("made up", "", "error", {}, {"bowl": Bowl(5)}, samples=SAMPLES, quick_samples=40)
    sweep(whole, quick=True, progress=track, ledger=Ledger(), jobs=3)
    assert asked == [3]
