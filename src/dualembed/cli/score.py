"""`dualembed score`: how wrong a saved model is on rows that it was not fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from dualembed.cli import options

_HELP = "\n\n".join(
    [
        "Tell the honest error of a model on a table it was not fitted to, and whether the table speaks against it.",
        "The error is of a conditional mean, without the variance of single rows around it, and comes with its "
        "standard error; it may be slightly negative. A small p-value says that the model's equation fails on these "
        "rows. Columns are found by the names that the model was fitted to.",
        "\b\nExamples:\n"
        "  dualembed score value.dualembed other-log.parquet\n"
        "  dualembed score effect.dualembed next-year.csv --drop-missing --json",
    ]
)


def score(
    model: options.Model,
    table: options.Table,
    drop_missing: options.DropMissing = False,
    as_json: options.AsJson = False,
) -> None:
    from dualembed.cli.inputs import arguments, complete, fingerprint
    from dualembed.cli.interrupts import ending_at_once
    from dualembed.cli.models import categories_of, check_columns, columns_for_scoring, loaded
    from dualembed.cli.places import working
    from dualembed.cli.printing import print_json
    from dualembed.data.io import check_there, read_table

    check_there(table.expanduser())
    with working("Scoring"), ending_at_once():
        fitted, task = loaded(model)
        columns = columns_for_scoring(model, fitted)
        whole = read_table(table)
        check_columns(columns, whole.column_names, model)
        kept, dropped = complete(whole, columns, drop=drop_missing)
        given = arguments(kept, columns, task.roles, categories=categories_of(fitted))
        error = fitted.error(**given)
        found = {
            "task": task.name,
            "rows": kept.num_rows,
            "dropped": dropped,
            "error": {"what": task.error, "value": error.value, "stderr": error.stderr},
            "consistency": _consistency(fitted, given),
            "fitted_to_these_rows": fingerprint(kept, columns, task) == getattr(fitted, "fingerprint_", None),
        }
    if as_json:
        print_json(found)
    else:
        _show(found)


score.__doc__ = _HELP


def _consistency(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The p-value of the test, or why there is none."""
    from dualembed.checks import InputError

    try:
        found = model.consistency_test(**given)
    except InputError as error:
        return {"p_value": None, "words": f"no test of consistency: {error}"}
    return {"p_value": found.p_value, "words": str(found)}


def _show(found: Mapping[str, Any]) -> None:
    from dualembed.cli.printing import counted, give_or_take

    error = found["error"]
    typer.echo(
        f"Honest error on {counted(found['rows'], 'row')}: {give_or_take(error['value'], error['stderr'])} "
        f"({error['what']})."
    )
    if found["dropped"]:
        typer.echo(f"Dropped for want of a number: {counted(found['dropped'], 'row')}.")
    words = found["consistency"]["words"]
    typer.echo(f"Consistency: {words}.")
    if found["fitted_to_these_rows"]:
        typer.echo("Warning: the model was fitted to these very rows, which makes it look better than it is.")
