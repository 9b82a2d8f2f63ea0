"""Tasks: the index is that of the classes, and roles and arguments of `fit` are the same."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from dualembed import estimators
from dualembed.answers import Task
from dualembed.cli.options import known_tasks
from dualembed.data.roles import ROLES
from dualembed.estimators.registry import INDEX, index_text

CLASSES = [getattr(estimators, name) for name in estimators.__all__]


def test_the_index_is_that_of_the_classes() -> None:
    assert INDEX.read_text(encoding="utf-8") == index_text(), "run make format"


def test_a_task_is_the_same_after_a_round_trip() -> None:
    for task in known_tasks().values():
        assert Task.from_dict(task.to_dict()) == task


@pytest.mark.parametrize("estimator", CLASSES)
def test_roles_are_arguments_of_fit_and_settings_of_the_constructor(estimator: Any) -> None:
    task, given = estimator.task, inspect.signature(estimator.fit).parameters
    assert {*task.needs, *task.takes} <= set(given)
    assert {*task.inputs} <= set(inspect.signature(estimator.predict).parameters)
    assert {*task.inputs, *task.context} <= {*task.needs, *task.takes}
    assert {setting.name for setting in task.settings} <= set(inspect.signature(estimator).parameters)


def test_roles_that_share_a_word_are_of_one_kind() -> None:
    kinds = {(role.word, role.kind) for role in ROLES.values()}
    assert len(kinds) == len({word for word, _ in kinds})
