"""Trials of an experiment: every method on the same data, each at the setting that a sweep chose."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from dualembed import __version__
from dualembed.checks import InputError
from dualembed.experiments.experiment import TUNING_SEEDS, Contender, Curve, Experiment, Settings
from dualembed.experiments.ledger import Ledger
from dualembed.experiments.processes import working
from dualembed.experiments.report import Method, Report
from dualembed.progress import Track


def run(
    experiment: Experiment,
    *,
    trials: int,
    seed: int,
    quick: bool,
    progress: Track,
    ledger: Ledger | None = None,
    chosen: dict[str, Settings] | None = None,
    jobs: int = 1,
) -> Report:
    """The report over trials seeded with seed, seed + 1, ...; what the ledger knows is not computed again.

    `chosen` stands in for the recorded settings, method by method. With several jobs, that many processes work at a
    time, each on one method of one trial; the numbers are the same but for rounding.
    """
    if experiment.most_trials is not None:
        trials = min(trials, experiment.most_trials)
    _check_seeds(seed, trials)
    ledger = Ledger() if ledger is None else ledger
    settings = experiment.chosen() | (chosen or {})
    samples = experiment.quick_samples if quick else experiment.samples
    _check_known(experiment, settings, samples)
    tasks = [
        Task(experiment.name, name, settings[name], experiment.settings, seed + number, samples, __version__)
        for number in range(trials)
        for name in experiment.contenders
    ]
    left = [task for task in tasks if ledger.recall(asdict(task)) is None]
    with progress(len(tasks), experiment.name) as bar, working(experiment, jobs) as answers:
        bar.advance(to=len(tasks) - len(left))
        for task, entry in answers(left):
            ledger.remember(asdict(task), entry)
            bar.advance(to=bar.step + 1)
    entries: dict[str, list[dict[str, Any]]] = {name: [] for name in experiment.contenders}
    for task in tasks:
        entries[task.method].append(ledger.recall(asdict(task)))
    return _report(experiment, entries, settings, trials=trials, seed=seed, samples=samples)


def _check_known(experiment: Experiment, settings: dict[str, Settings], samples: int) -> None:
    """Raise one clear sentence where a method has something to choose, and nothing was chosen."""
    unknown = [
        name
        for name, each in experiment.contenders.items()
        if not settings[name] and any(choice.candidates != [{}] for choice in each.choices(samples))
    ]
    if unknown:
        raise InputError(f"no settings are on record for {', '.join(unknown)}; run the sweep that finds them, --sweep")


def _check_seeds(seed: int, trials: int) -> None:
    """Raise one clear sentence for seeds that are too large, or on which settings were chosen."""
    named_seeds = f"seeds {seed} to {seed + trials - 1}"
    if seed + trials > 2**32:
        raise InputError(f"{named_seeds} must be below 2**32; lower --seed")
    if seed < TUNING_SEEDS.stop and seed + trials > TUNING_SEEDS.start:
        tuning = f"{TUNING_SEEDS.start} to {TUNING_SEEDS.stop - 1}"
        raise InputError(f"{named_seeds} meet those on which settings were chosen, {tuning}; choose another --seed")


@dataclass(frozen=True)
class Task:
    """One method on one trial."""

    experiment: str
    method: str
    settings: Settings
    fixed: Settings  # of the experiment
    seed: int
    samples: int
    version: str

    def answer(self, contender: Contender) -> dict[str, Any]:
        """The method's curve, and the seconds it took."""
        start = time.perf_counter()
        curve = contender.run(self.settings, self.seed, self.samples)
        return {**asdict(curve), "seconds": time.perf_counter() - start}


def _report(
    experiment: Experiment,
    entries: dict[str, list[dict[str, Any]]],
    settings: dict[str, Settings],
    *,
    trials: int,
    seed: int,
    samples: int,
) -> Report:
    traced = {
        name: [Curve(each["samples"], each["values"], each["beside"]) for each in own] for name, own in entries.items()
    }
    methods = {
        name: Method.of(
            settings[name],
            own[0].samples,
            [curve.values for curve in own],
            [entry["seconds"] for entry in entries[name]],
            beside=_numbers(own),
        )
        for name, own in traced.items()
    }
    report = Report(
        experiment.name,
        trials,
        seed,
        experiment.metric,
        methods,
        lambda: experiment.draw(report, traced),
        {**experiment.settings, "samples": samples},
        title=experiment.title,
    )
    return report


def _numbers(own: list[Curve]) -> dict[str, list[float]]:
    """The numbers beside the metric, one for each trial; what is no number is for the figure alone."""
    return {
        name: [curve.beside[name] for curve in own]
        for name, value in own[0].beside.items()
        if isinstance(value, int | float)
    }
