"""An experiment: methods that are run on the same data over some trials, each at the setting that a sweep chose."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any

from dualembed import __version__
from dualembed.checks import InputError
from dualembed.experiments import NAMES
from dualembed.experiments.base import Method, Report
from dualembed.experiments.figures import curves
from dualembed.experiments.ledger import Ledger
from dualembed.progress import Track

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TUNING_SEEDS = range(1000, 1006)  # of trials on which settings are chosen, never reported
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")

Settings = dict[str, Any]  # a method's hyper-parameters by name, as plain JSON values


@dataclass(frozen=True)
class Curve:
    """What one method made of one trial: its metric after so many samples, and what else there is to say of the end."""

    samples: list[int]
    values: list[float]
    beside: dict[str, Any] = field(default_factory=dict)


class Contender(ABC):
    """A method in an experiment, with everything but its setting fixed."""

    @abstractmethod
    def run(self, settings: Settings, seed: int, samples: int) -> Curve:
        """Its curve on the trial of that seed."""

    def grid(self) -> list[Settings]:
        """Every setting that a sweep tries; by default there is nothing to choose."""
        return [{}]

    def finals(self, candidates: list[Settings], seed: int, samples: int) -> list[float]:
        """The metric at the end for many settings; infinite where a run diverged."""
        return [self.run(settings, seed, samples).values[-1] for settings in candidates]


@dataclass(frozen=True)
class Experiment:
    """What `dualembed reproduce` runs: its methods, the size of it, and how it is drawn."""

    name: str
    title: str
    metric: str
    settings: Settings
    contenders: dict[str, Contender]
    samples: int
    quick_samples: int
    most_trials: int | None = None
    draw: Callable[[Report, dict[str, list[Curve]]], Figure] = lambda report, _: curves(report)

    def chosen(self) -> dict[str, Settings]:
        """The settings of every method that the recorded sweep chose."""
        file = resources.files("dualembed.experiments") / "settings" / f"{self.name}.json"
        recorded = json.loads(file.read_text(encoding="utf-8"))["chosen"] if file.is_file() else {}
        return {name: recorded.get(name, {}) for name in self.contenders}


def named(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in NAMES:
        raise InputError(f"there is no experiment named {name!r}; choose one of: {', '.join(NAMES)}")
    return import_module(f"dualembed.experiments.{name}").EXPERIMENT


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
    unknown = [name for name, each in experiment.contenders.items() if not settings[name] and each.grid() != [{}]]
    if unknown:
        raise InputError(f"no settings are on record for {', '.join(unknown)}; run the sweep that finds them, --sweep")
    samples = experiment.quick_samples if quick else experiment.samples
    tasks = [
        Task(experiment.name, name, settings[name], experiment.settings, seed + number, samples, __version__)
        for number in range(trials)
        for name in experiment.contenders
    ]
    left = [task for task in tasks if ledger.recall(asdict(task)) is None]
    with progress(len(tasks), experiment.name) as bar, _answers(experiment, left, jobs) as answers:
        bar.advance(to=len(tasks) - len(left))
        for task, entry in answers:
            ledger.remember(asdict(task), entry)
            bar.advance(to=bar.step + 1)
    entries: dict[str, list[dict[str, Any]]] = {name: [] for name in experiment.contenders}
    for task in tasks:
        entries[task.method].append(ledger.recall(asdict(task)))
    return _report(experiment, entries, settings, trials=trials, seed=seed, samples=samples)


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


@contextmanager
def _answers(experiment: Experiment, tasks: list[Task], jobs: int) -> Iterator[Iterator[tuple[Task, dict[str, Any]]]]:
    """The tasks with their answers, as they come. Other processes know an experiment by its name only."""
    shared = experiment.name in NAMES and named(experiment.name) is experiment
    if jobs == 1 or len(tasks) <= 1 or not shared:
        yield ((task, task.answer(experiment.contenders[task.method])) for task in tasks)
        return
    # Fresh processes, since a forked JAX hangs; a core each, since their libraries would otherwise fight for all.
    before = set(multiprocessing.active_children())
    with _one_thread_each():
        pool = ProcessPoolExecutor(
            jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_leave_interrupts_to_the_parent
        )
        try:
            futures = {pool.submit(_answer, task): task for task in tasks}
            yield ((futures[each], each.result()) for each in as_completed(futures))
            pool.shutdown()
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()
            if isinstance(error, BrokenProcessPool):
                raise InputError(
                    "a process of the run died, most likely for want of memory; run it again with --jobs 1: it goes on "
                    "where it stopped"
                ) from error
            raise


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """What processes started meanwhile are told about threads."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _answer(task: Task) -> dict[str, Any]:
    return task.answer(named(task.experiment).contenders[task.method])


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
