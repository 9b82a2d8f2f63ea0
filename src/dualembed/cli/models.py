"""Saved models as the command line meets them: which task, which columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dualembed.answers.task import Task
from dualembed.checks import InputError
from dualembed.cli.roles import Columns
from dualembed.data.io import check_there


def loaded(path: Path) -> tuple[Any, Task]:
    """(model, its task) of a model file."""
    check_there(path.expanduser())
    from dualembed.saving import load  # brings JAX, which need not be waited for where there is no file

    model = load(path.expanduser())
    if not model.task.examples:
        raise InputError(
            f"{path} holds a {type(model).__name__}, which the command line cannot fit or ask; use "
            "dualembed.load in Python"
        )
    if not hasattr(model, "function_"):
        raise InputError(f"{path} holds a model that was saved before it was fitted; fit it and save it again")
    return model, model.task


def columns_for_predicting(path: Path, model: Any, task: Task) -> Columns:
    """The columns by meaning that predictions need; of a model saved from Python, as far as it knows names."""
    if hasattr(model, "columns_"):
        asked = {role.word for role in task.asks}
        return {word: list(names) for word, names in model.columns_.items() if word in asked}
    codings = zip(task.asks, model._codings(), strict=False)
    known = {role.word: coding for role, coding in codings}
    if not all(coding.named for coding in known.values()):
        raise _refusal(path)
    return {word: list(coding.names) for word, coding in known.items()}


def columns_for_scoring(path: Path, model: Any) -> Columns:
    """All columns by meaning that the model was fitted to."""
    if not hasattr(model, "columns_"):
        raise _refusal(path)
    return {role: list(names) for role, names in model.columns_.items()}


def categories_of(model: Any) -> list[str]:
    """The names of columns that name categories."""
    return list(model.categorical_features or ())


def check_columns(columns: Columns, names: list[str], path: Path) -> None:
    """Raise where the table lacks a column that the model needs, with the nearest that it has."""
    from dualembed.data.columns import no_such_column

    for needed in columns.values():
        for name in needed:
            if name not in names:
                raise no_such_column(name, names, f"the model {path}")


def _refusal(path: Path) -> ValueError:
    return InputError(
        f"{path} was saved from Python and does not know what the columns of a table mean; ask it in Python, or fit it "
        "with `dualembed fit`"
    )
