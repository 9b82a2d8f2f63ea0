"""Runs of an experiment: every method on the same trials, each at the setting that a sweep chose.

What has been computed is kept in a ledger, so that an interrupted run goes on where it stopped, with the same numbers.
Other processes may work on it, each with a core and a JAX of its own.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from dualembed import __version__
from dualembed.checks import InputError
from dualembed.experiments import NAMES
from dualembed.experiments.experiment import TUNING_SEEDS, Contender, Curve, Experiment, Settings, find_experiment
from dualembed.experiments.report import Method, Report
from dualembed.progress import Track

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


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
    """Run an experiment over trials seeded with seed, seed + 1, and so on.

    What the ledger knows is not computed again.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    trials : int
        Number of trials.
    seed : int
        Seed of the first trial.
    quick : bool
        Whether to run the small version.
    progress : callable
        Shows how far the run is, as `progress.track` does.
    ledger : Ledger, optional
        What is known already; by default nothing.
    chosen : dict, optional
        Settings in place of the recorded ones, by the name of the method.
    jobs : int, default=1
        Processes that work at a time, each on one method of one trial. The numbers are the same but for rounding.

    Returns
    -------
    Report
        Every method's curves.

    Raises
    ------
    InputError
        If settings were chosen on one of the seeds, or a method has no settings on record.
    """
    if experiment.most_trials is not None:
        trials = min(trials, experiment.most_trials)
    _check_seeds(seed, trials)
    ledger = Ledger() if ledger is None else ledger
    settings = experiment.chosen() | (chosen or {})
    samples = experiment.quick_samples if quick else experiment.samples
    _check_known(experiment, settings, samples)
    tasks = [
        TrialTask(experiment.name, name, settings[name], experiment.settings, seed + number, samples, __version__)
        for number in range(trials)
        for name in experiment.contenders
    ]
    left = [task for task in tasks if ledger.recall(asdict(task)) is None]
    with progress(len(tasks), experiment.name) as bar, worker_pool(experiment, jobs) as answers:
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
class TrialTask:
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
        seconds = time.perf_counter() - start
        # Ledgers and results.json call the extras so: words that are written to files stay.
        return {"samples": curve.samples, "values": curve.values, "beside": curve.extras, "seconds": seconds}


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
            extras=_numbers(own),
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
        name: [curve.extras[name] for curve in own]
        for name, value in own[0].extras.items()
        if isinstance(value, int | float)
    }


class Ledger:
    """Answers under their questions, both plain JSON values.

    They are one line each in a file, or in memory where there is none. A line goes to the disk as soon as it is known.
    The last one may have been cut short by a crash, and is then left out. JSON keeps every digit of a float, so that
    what is recalled is what was computed.

    Parameters
    ----------
    path : Path, optional
        The file.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.remember({"trial": 3}, 0.1)
    >>> ledger.recall({"trial": 3}), ledger.recall({"trial": 4})
    (0.1, None)
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._answers: dict[str, Any] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    entry = json.loads(line)
                    self._answers[_name(entry["question"])] = entry["answer"]
                except (ValueError, KeyError, TypeError):
                    continue

    def __len__(self) -> int:
        return len(self._answers)

    def recall(self, question: Any) -> Any:
        """The answer, or None where there is none yet."""
        return self._answers.get(_name(question))

    def remember(self, question: Any, answer: Any) -> None:
        """Keep the answer, on the disk too."""
        self.remember_all([(question, answer)])

    def remember_all(self, answered: Iterable[tuple[Any, Any]]) -> None:
        """Keep the answers to several questions that are known at once."""
        lines = ""
        for question, answer in answered:
            self._answers[_name(question)] = answer
            lines += json.dumps({"question": question, "answer": answer}) + "\n"
        if self._path is None:
            return
        with self._path.open("a", encoding="utf-8") as file:
            # A line of its own even after one that was cut short; empty lines are no entries.
            file.write("\n" + lines)
            file.flush()
            os.fsync(file.fileno())


def _name(question: Any) -> str:
    return json.dumps(question, sort_keys=True)


class Work(Protocol):
    """Something to ask of one method of an experiment; both are known by their names."""

    @property
    def experiment(self) -> str:
        """The experiment's name."""

    @property
    def method(self) -> str:
        """The method's name."""

    def answer(self, contender: Contender) -> Any:
        """What the method says to it."""


SomeWork = TypeVar("SomeWork", bound=Work)
Answers = Callable[[Sequence[SomeWork]], Iterator[tuple[SomeWork, Any]]]


@contextmanager
def worker_pool(experiment: Experiment, jobs: int) -> Iterator[Answers[Any]]:
    """Open a pool of processes that answer tasks while the block lasts.

    Other processes know an experiment by its name only: one without a name is worked on in this one.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    jobs : int
        Number of processes; 1 works in this one.

    Yields
    ------
    callable
        From tasks to pairs (task, answer) as they come.

    Raises
    ------
    InputError
        If a process died.
    """
    shared = experiment.name in NAMES and find_experiment(experiment.name) is experiment
    if jobs == 1 or not shared:
        yield lambda tasks: ((task, task.answer(experiment.contenders[task.method])) for task in tasks)
        return
    before = set(multiprocessing.active_children())
    # Fresh processes, since a forked JAX hangs; a core each, since their libraries would otherwise fight for all.
    spawning = multiprocessing.get_context("spawn")
    with _one_thread_each():
        crew = [ProcessPoolExecutor(1, mp_context=spawning, initializer=_begin) for _ in range(jobs)]
        try:
            yield lambda tasks: _answers(crew, tasks)
            for worker in crew:
                worker.shutdown()
        except BaseException as error:
            for worker in crew:
                worker.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - before:
                process.kill()
            if isinstance(error, BrokenProcessPool):
                raise InputError(
                    "a process of the run died, most likely for want of memory; run it again with --jobs 1: it goes on "
                    "where it stopped"
                ) from error
            raise


def _answers(crew: list[ProcessPoolExecutor], tasks: Sequence[SomeWork]) -> Iterator[tuple[SomeWork, Any]]:
    queue = TaskQueue(tasks)
    busy: dict[Future[Any], tuple[ProcessPoolExecutor, SomeWork]] = {}

    def hand(worker: ProcessPoolExecutor, task: SomeWork | None) -> None:
        if task is not None:
            busy[worker.submit(_answer, task)] = worker, task

    with _interrupts_held_back():  # Ctrl-C is for this process to handle
        for worker in crew:
            hand(worker, queue.next())
    while busy:
        done, _ = wait(busy, return_when=FIRST_COMPLETED)
        for future in done:
            worker, task = busy.pop(future)
            answer = future.result()
            hand(worker, queue.next(after=task))
            yield task, answer


class TaskQueue(Generic[SomeWork]):
    """Work that nobody has begun. Who has compiled a method goes on with it, while the others take other methods."""

    def __init__(self, tasks: Sequence[SomeWork]) -> None:
        self._tasks: dict[str, deque[SomeWork]] = {}
        for task in tasks:
            self._tasks.setdefault(task.method, deque()).append(task)
        # From the last on: it takes longest in every experiment, and would be waited for at the end.
        self._untouched = list(self._tasks)

    def next(self, after: SomeWork | None = None) -> SomeWork | None:
        """What to do after that; None where everything is begun."""
        method = after.method if after is not None else None
        if method is None or not self._tasks[method]:
            most = max(self._tasks, key=lambda name: len(self._tasks[name]), default=None)
            method = self._untouched.pop() if self._untouched else most
        return self._tasks[method].popleft() if method is not None and self._tasks[method] else None


def _answer(task: Work) -> Any:
    return task.answer(find_experiment(task.experiment).contenders[task.method])


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Processes started meanwhile inherit it and hear none; one for this process waits until the end of the block."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where a process is not interrupted with its parent
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """Leave interrupts to the parent, and do not outlive it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


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
