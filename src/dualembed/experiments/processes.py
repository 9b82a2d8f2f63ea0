"""Other processes that work on an experiment, each with a core and a JAX of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

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
    with _one_thread_each():
        pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_begin)
        try:
            yield lambda tasks: _answers(pool, tasks)
            pool.shutdown()
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - before:
                process.kill()
            if isinstance(error, BrokenProcessPool):
                raise InputError(
                    "a process of the run died, most likely for want of memory; run it again with --jobs 1: it goes on "
                    "where it stopped"
                ) from error
            raise


def _answers(pool: ProcessPoolExecutor, tasks: Sequence[SomeWork]) -> Iterator[tuple[SomeWork, Any]]:
    with _interrupts_ignored():  # by the processes, which start here and inherit it; Ctrl-C is for this one to handle
        futures = {pool.submit(_answer, task): task for task in tasks}
    for each in as_completed(futures):
        yield futures[each], each.result()


def _answer(task: Work) -> Any:
    return task.answer(named(task.experiment).contenders[task.method])


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
