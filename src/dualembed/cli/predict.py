"""`dualembed predict`: what a saved model says of the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualembed.cli import options

if TYPE_CHECKING:
    import pyarrow as pa

    from dualembed.answers import Task
    from dualembed.cli.roles import Columns

NAMES = ("prediction", "stderr", "lower", "upper")

_HELP = "\n\n".join(
    [
        "Write a table with the model's predictions beside its own columns.",
        "The columns prediction, stderr (its standard error), lower and upper (a 95 % interval) are added; the last "
        "three where the model's solver gives them. Columns are found by the names that the model was fitted to. "
        "Tables may be larger than memory.",
        "\b\nExamples:\n"
        "  dualembed predict value.dualembed states.parquet --out values.parquet\n"
        "  dualembed predict effect.dualembed prices.csv --out effects.csv --suffix _of_model --drop-missing",
    ]
)


def predict(
    model: options.Model,
    table: options.Table,
    out: Annotated[
        Path, typer.Option(metavar="PREDICTIONS", help="The file to write: .csv, .parquet, .arrow or .feather.")
    ],
    suffix: Annotated[str, typer.Option(metavar="TEXT", help="Put after the names of the added columns.")] = "",
    drop_missing: options.DropMissing = False,
    as_json: options.AsJson = False,
) -> None:
    from dualembed.cli.interrupts import ending_at_once
    from dualembed.cli.models import columns_for_predicting, loaded
    from dualembed.cli.places import check_ending, check_writable, working
    from dualembed.cli.printing import counted, print_json
    from dualembed.cli.streaming import change_table
    from dualembed.data.io import WRITABLE, check_there

    check_there(table.expanduser())
    check_ending("--out", out, WRITABLE)
    check_writable("--out", out, table, model)
    with ending_at_once():
        fitted, task = loaded(model)
    columns = columns_for_predicting(model, fitted, task)

    def change(part: pa.Table) -> pa.Table:
        return _predicted(part, fitted, task, columns, source=model, suffix=suffix, drop=drop_missing)

    with working("Predicting"):
        rows, written = change_table(table, out, change)
    if as_json:
        added = [f"{each}{suffix}" for each in _names(fitted)]
        counts = {"rows": written, "dropped": rows - written}
        print_json({"task": task.name, "predictions": str(out), **counts, "added": added})
    else:
        dropped = f" ({counted(rows - written, 'row')} without a number dropped)" if rows > written else ""
        typer.echo(f"Wrote {counted(written, 'row')} with {task.symbol} as prediction{suffix} to {out}{dropped}.")


predict.__doc__ = _HELP


def _names(model: Any) -> tuple[str, ...]:
    """The columns that predictions have: without standard errors the first alone."""
    return NAMES if model.uncertainty_ is not None else NAMES[:1]


def _predicted(
    table: pa.Table, model: Any, task: Task, columns: Columns, *, source: Path, suffix: str, drop: bool
) -> pa.Table:
    """The table with predictions beside its columns."""
    import pyarrow as pa

    from dualembed.checks import InputError
    from dualembed.cli.inputs import arguments, complete
    from dualembed.cli.models import categories_of, check_columns
    from dualembed.data.columns import missing_rows

    check_columns(columns, table.column_names, source)
    for name in _names(model):
        if f"{name}{suffix}" in table.column_names:
            raise InputError(
                f"the table has a column {name}{suffix} already, which predictions would overwrite; give --suffix to "
                f"name theirs otherwise, such as --suffix {suffix}_new"
            )
    missing = missing_rows(table, [name for names in columns.values() for name in names])
    table = table.filter(~missing) if drop else complete(table, columns, drop=False)[0]
    given = arguments(table, columns, task.asks, categories=categories_of(model))
    for name, values in zip(_names(model), _values(model, given, table.num_rows), strict=True):
        table = table.append_column(f"{name}{suffix}", pa.array(values))
    return table


def _values(model: Any, given: dict[str, Any], rows: int) -> list[Any]:
    """What the columns of predictions hold."""
    import numpy as np

    if not rows:
        return [np.empty(0) for _ in _names(model)]
    if model.uncertainty_ is None:
        return [model.predict(**given)]
    found, std = model.predict(**given, return_std=True)
    return [found, std, *model.interval(**given)]
