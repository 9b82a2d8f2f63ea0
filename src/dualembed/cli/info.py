"""`dualembed info`: what a saved model is, what it knows of itself, and how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from dualembed.cli import options

_HELP = "\n\n".join(
    [
        "Show what a model file holds: the task, the columns, what was chosen, the honest error and the warnings.",
        "Nothing in the file is run by looking at it.",
        "\b\nExamples:\n  dualembed info value.dualembed\n  dualembed info value.dualembed --json",
    ]
)


def info(model: options.Model, as_json: options.AsJson = False) -> None:
    from dualembed.cli.interrupts import ending_at_once
    from dualembed.cli.printing import print_json
    from dualembed.data.io import check_there

    path = model.expanduser()
    check_there(path)
    with ending_at_once():
        from dualembed.saving import describe, load

        found = _found(describe(path), load(path))
    if as_json:
        print_json({"model": str(model), **found})
    else:
        _show(str(model), found)


info.__doc__ = _HELP


def _found(described: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """What there is to say, as plain data."""
    from dualembed.cli.answers import choices, honest_error
    from dualembed.report.facts import facts

    task = model.task if model.task.examples else None
    fitted = hasattr(model, "function_")
    diagnostics = getattr(model, "diagnostics_", None)
    freedom, singular = (getattr(diagnostics, name, None) for name in ("degrees_of_freedom", "singular_values"))
    return {
        "task": None if task is None else task.name,
        "estimator": described["class"],
        "version": described["version"],
        "format": described["format"],
        "bytes": described["bytes"],
        "fitted": fitted,
        "rows": described["rows"],
        "columns": getattr(model, "columns_", None) or _names(described),
        "settings": {**described["parameters"], **_target(model)},
        "functions_to_give_again": described["functions"],
        "selection": choices(model) if fitted else [],
        "honest_error": honest_error(model) if fitted and task is not None else None,
        "facts": list(facts(diagnostics)) if fitted else [],
        "degrees_of_freedom": freedom,
        "first_stage": dict(getattr(diagnostics, "first_stage", ())),
        "singular_values": None if singular is None else singular[:20],
        "warnings": list(diagnostics.warnings) if diagnostics is not None else [],
    }


def _target(model: Any) -> dict[str, str]:
    """The condition that is a model's target, as it was written."""
    text = getattr(getattr(model, "target", None), "text", None)
    return {} if text is None else {"target": text}


def _names(described: Mapping[str, Any]) -> dict[str, list[str]]:
    return {"columns": described["columns"]} if described["columns"] else {}


def _show(path: str, found: Mapping[str, Any]) -> None:
    from dualembed.cli.answers import columns_in_words, error_in_words
    from dualembed.cli.printing import counted, print_table
    from dualembed.cli.tasks import task_named

    what = f"{found['task']}: {task_named(found['task']).line}" if found["task"] else found["estimator"]
    typer.echo(f"{path}\n{what}")
    typer.echo(f"Saved by dualembed {found['version']} (format {found['format']}, {found['bytes']:,} bytes).")
    if not found["fitted"]:
        typer.echo("It was saved before it was fitted.")
    if found["rows"] is not None:
        typer.echo(f"Fitted to {counted(found['rows'], 'row')}.")
    if found["columns"]:
        print_table(["", ""], columns_in_words(found["columns"]), title="Columns:")
    print_table(["", ""], [[name, str(value)] for name, value in found["settings"].items()], title="Settings:")
    if found["selection"]:
        chosen = [[step["question"], step["answer"]] for step in found["selection"]]
        print_table(["", ""], chosen, title="Chosen from the data:")
    if found["fitted"] and found["task"]:
        typer.echo(error_in_words(found["honest_error"]))
    for sentence in found["facts"]:
        typer.echo(sentence)
    for warning in found["warnings"]:
        typer.echo(f"Warning: {warning}.")
