"""Other processes that work on an experiment, each with a core and a JAX of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from dualembed.checks import InputError
from dualembed.experiments import NAMES
from dualembed.experiments.experiment import Contender, Experiment, named

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


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
def working(experiment: Experiment, jobs: int) -> Iterator[Answers[Any]]:
    """A function from work to its answers as they come, with so many processes while the block lasts.

    Other processes know an experiment by its name only: one without a name is worked on in this one.
    """
    shared = experiment.name in NAMES and named(experiment.name) is experiment
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
    waiting = Waiting(tasks)
    busy: dict[Future[Any], tuple[ProcessPoolExecutor, SomeWork]] = {}

    def hand(worker: ProcessPoolExecutor, task: SomeWork | None) -> None:
        if task is not None:
            busy[worker.submit(_answer, task)] = worker, task

    with _interrupts_held_back():  # Ctrl-C is for this process to handle
        for worker in crew:
            hand(worker, waiting.next())
    while busy:
        done, _ = wait(busy, return_when=FIRST_COMPLETED)
        for future in done:
            worker, task = busy.pop(future)
            answer = future.result()
            hand(worker, waiting.next(after=task))
            yield task, answer


class Waiting(Generic[SomeWork]):
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
    return task.answer(named(task.experiment).contenders[task.method])


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
