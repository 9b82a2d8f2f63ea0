"""Public names, parameters of estimators and keys of `dualembed fit --json` only grow."""

from __future__ import annotations

import importlib
import json

import pytest
from tests.pinned.make import KEYS, NAMES, TASKS, keys_of_fit, parameters

from dualembed.cli.options import known_tasks
from dualembed.data.roles import role_named

NAMED = json.loads(NAMES.read_text(encoding="utf-8"))
PRINTED = json.loads(KEYS.read_text(encoding="utf-8"))["keys"]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")  # of old names of what has moved
@pytest.mark.parametrize("module", NAMED["names"])
def test_public_names_are_still_there(module: str) -> None:
    found = importlib.import_module(module)
    lost = [name for name in NAMED["names"][module] if not hasattr(found, name)]
    assert lost == []


@pytest.mark.parametrize("function", NAMED["parameters"])
def test_parameters_of_estimators_are_still_there(function: str) -> None:
    lost = {role_named(name) for name in NAMED["parameters"][function]} - set(parameters()[function])
    assert lost == set()  # an older name leads to the newer one


@pytest.mark.parametrize("task", PRINTED)
def test_the_document_of_a_fit_has_all_its_keys(task: str) -> None:
    lost = set(PRINTED[task]) - set(keys_of_fit(task))
    assert lost == set()


def test_every_task_is_recorded() -> None:
    assert set(known_tasks()) == set(TASKS) == set(PRINTED)
