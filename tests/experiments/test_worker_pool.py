"""Several processes share out the work so that each compiles what it can use again, and answer as one does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from dualembed.experiments.experiment import Contender, find_experiment
from dualembed.experiments.run import TaskQueue, worker_pool
from dualembed.experiments.sweep import SweepTask


@dataclass(frozen=True)
class Step:
    method: str
    number: int
    experiment: str = "made up"

    def answer(self, contender: Contender) -> Any:
        raise AssertionError("nobody works here")


def steps(**counts: int) -> list[Step]:
    return [
        Step(method, number) for number in range(max(counts.values())) for method in counts if number < counts[method]
    ]


def test_who_has_begun_a_method_goes_on_with_it_and_others_take_other_methods_from_the_last_on() -> None:
    queue = TaskQueue(steps(a=2, b=2, c=2))
    first, second = queue.next(), queue.next()
    assert (first, second) == (Step("c", 0), Step("b", 0))
    assert queue.next(after=second) == Step("b", 1)
    assert queue.next(after=second) == Step("a", 0)
    assert queue.next(after=first) == Step("c", 1)


def test_who_has_nothing_left_helps_where_most_is_left() -> None:
    queue = TaskQueue(steps(a=3, b=5, c=1))
    assert [queue.next() for _ in range(3)] == [Step("c", 0), Step("b", 0), Step("a", 0)]
    helper = Step("c", 0)
    assert [queue.next(after=helper) for _ in range(3)] == [Step("b", 1), Step("b", 2), Step("a", 1)]


def test_everything_is_handed_out_once() -> None:
    tasks = steps(a=3, b=1, c=4)
    queue, handed = TaskQueue(tasks), list[Any]()
    last: list[Step | None] = [None, None]
    while True:
        worker = len(handed) % 2
        last[worker] = queue.next(after=last[worker])
        if last[worker] is None:
            break
        handed.append(last[worker])
    assert sorted(handed, key=str) == sorted(tasks, key=str)
    assert TaskQueue([]).next() is None


@pytest.mark.slow
def test_two_processes_answer_as_one_does_whatever_the_order() -> None:
    experiment = find_experiment("complexity")
    tasks = [
        SweepTask(
            "complexity", method, "", seed, 200, False, experiment.contenders[method].choices(200)[0].candidates[:3]
        )
        for seed in (1000, 1001)
        for method in ("batch-saa", "closed-form")
    ]
    found = []
    for jobs in (1, 2):
        with worker_pool(experiment, jobs) as answers:
            found.append({(task.method, task.seed): errors for task, errors in answers(tasks)})
            assert list(answers([])) == []
    alone, together = found
    assert set(alone) == set(together) == {(task.method, task.seed) for task in tasks}
    for name, errors in alone.items():
        assert together[name] == pytest.approx(errors, rel=1e-6)
