"""Questions to a model file: `dualembed predict`, `dualembed score` and `dualembed info`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualembed.cli import options

if TYPE_CHECKING:
    import pyarrow as pa

    from dualembed.answers import Summary, Task
    from dualembed.data.columns import Columns

PREDICTED = ("prediction", "stderr", "lower", "upper")

_PREDICT = "\n\n".join(
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
    from dualembed.cli.console import check_ending, check_writable, exit_on_interrupt, print_json, spinner
    from dualembed.data.io import WRITABLE, check_exists, transform_file
    from dualembed.estimates import pluralise

    check_exists(table.expanduser())
    check_ending("--out", out, WRITABLE)
    check_writable("--out", out, table, model)
    with exit_on_interrupt():
        fitted, task = loaded(model)
    columns = columns_for_predicting(model, fitted, task)

    def change(part: pa.Table) -> pa.Table:
        return _with_predictions(part, fitted, task, columns, source=model, suffix=suffix, drop=drop_missing)

    with spinner("Predicting"):
        rows, written = transform_file(table, out, change)
    if as_json:
        added = [f"{each}{suffix}" for each in _added(fitted)]
        counts = {"rows": written, "dropped": rows - written}
        print_json({"task": task.name, "predictions": str(out), **counts, "added": added})
    else:
        dropped = f" ({pluralise(rows - written, 'row')} without a number dropped)" if rows > written else ""
        typer.echo(f"Wrote {pluralise(written, 'row')} with {task.symbol} as prediction{suffix} to {out}{dropped}.")


predict.__doc__ = _PREDICT


def _added(model: Any) -> tuple[str, ...]:
    """The columns that predictions have: without standard errors the first alone."""
    return PREDICTED if model.uncertainty_ is not None else PREDICTED[:1]


def _with_predictions(
    table: pa.Table, model: Any, task: Task, columns: Columns, *, source: Path, suffix: str, drop: bool
) -> pa.Table:
    """The table with predictions beside its columns."""
    import pyarrow as pa

    from dualembed.checks import InputError
    from dualembed.data.columns import missing_rows
    from dualembed.data.table import arguments, complete

    check_columns(columns, table.column_names, source)
    for name in _added(model):
        if f"{name}{suffix}" in table.column_names:
            raise InputError(
                f"the table has a column {name}{suffix} already, which predictions would overwrite; give --suffix to "
                f"name theirs otherwise, such as --suffix {suffix}_new"
            )
    missing = missing_rows(table, [name for names in columns.values() for name in names])
    table = table.filter(~missing) if drop else complete(table, columns, drop=False)[0]
    given = arguments(table, columns, task.asks, categories=categories_of(model))
    for name, values in zip(_added(model), _predictions(model, given, table.num_rows), strict=True):
        table = table.append_column(f"{name}{suffix}", pa.array(values))
    return table


def _predictions(model: Any, given: dict[str, Any], rows: int) -> list[Any]:
    """What the columns of predictions hold."""
    import numpy as np

    if not rows:
        return [np.empty(0) for _ in _added(model)]
    if model.uncertainty_ is None:
        return [model.predict(**given)]
    found, std = model.predict(**given, return_std=True)
    return [found, std, *model.interval(**given)]


_SCORE = "\n\n".join(
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
    from dualembed.cli.console import exit_on_interrupt, print_json, spinner
    from dualembed.data.io import check_exists
    from dualembed.data.logs import read_log_table
    from dualembed.data.table import arguments, fingerprint, prepare

    check_exists(table.expanduser())
    with spinner("Scoring"), exit_on_interrupt():
        fitted, task = loaded(model)
        columns = columns_for_scoring(model, fitted)
        whole = read_log_table(table)
        check_columns(columns, whole.column_names, model)
        rows = prepare(whole, columns, derives=task.derives, drop=drop_missing)
        given = arguments(rows.table, rows.whole, task.roles, categories=categories_of(fitted))
        error = fitted.error(**given)
        found = {
            "task": task.name,
            "rows": rows.table.num_rows,
            "dropped": rows.dropped,
            "left_out": rows.left_out,
            "error": {"what": task.error, "value": error.value, "stderr": error.stderr},
            "consistency": _consistency(fitted, given),
            "fitted_to_these_rows": fingerprint(rows.table, rows.whole, task.needs) == fitted.schema_.digest,
        }
    if as_json:
        print_json(found)
    else:
        _print_score(found)


score.__doc__ = _SCORE


def _consistency(model: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """The p-value of the test, or why there is none."""
    from dualembed.checks import InputError

    try:
        found = model.consistency_test(**given)
    except InputError as error:
        return {"p_value": None, "words": f"no test of consistency: {error}"}
    return {"p_value": found.p_value, "words": str(found)}


def _print_score(found: Mapping[str, Any]) -> None:
    from dualembed.estimates import format_estimate, pluralise

    error = found["error"]
    typer.echo(
        f"Honest error on {pluralise(found['rows'], 'row')}: {format_estimate(error['value'], error['stderr'])} "
        f"({error['what']})."
    )
    if found["dropped"]:
        typer.echo(f"Dropped for want of a number: {pluralise(found['dropped'], 'row')}.")
    if found["left_out"]:
        typer.echo(f"Left out, since it is not known what follows: {pluralise(found['left_out'], 'row')}.")
    words = found["consistency"]["words"]
    typer.echo(f"Consistency: {words}.")
    if found["fitted_to_these_rows"]:
        typer.echo("Warning: the model was fitted to these very rows, which makes it look better than it is.")


_INFO = "\n\n".join(
    [
        "Show what a model file holds: the task, the columns, what was chosen, the honest error and the warnings.",
        "Nothing in the file is run by looking at it.",
        "\b\nExamples:\n  dualembed info value.dualembed\n  dualembed info value.dualembed --json",
    ]
)


def info(model: options.Model, as_json: options.AsJson = False) -> None:
    from dualembed.cli.console import exit_on_interrupt, print_json
    from dualembed.data.io import check_exists

    path = model.expanduser()
    check_exists(path)
    with exit_on_interrupt():
        from dualembed.saving import describe, load

        fitted = load(path)
        found = _describe(describe(path), fitted)
    if as_json:
        print_json({"model": str(model), **found})
    else:
        _print_info(str(model), found, fitted)


info.__doc__ = _INFO


def _describe(described: Mapping[str, Any], model: Any) -> dict[str, Any]:
    """What there is to say, as plain data."""
    task = model.task if model.task.examples else None
    fitted = model.__sklearn_is_fitted__()
    return {
        "task": None if task is None else task.name,
        "estimator": described["class"],
        "version": described["version"],
        "format": described["format"],
        "bytes": described["bytes"],
        "fitted": fitted,
        "rows": described["rows"],
        "columns": (fitted and model.columns_) or ({"columns": described["columns"]} if described["columns"] else {}),
        "settings": {**described["parameters"], **_conditions(model)},
        "functions_to_give_again": described["functions"],
        **(_findings(model.summary()) if fitted else {"selection": [], "honest_error": None, "warnings": []}),
    }


def _findings(summary: Summary) -> dict[str, Any]:
    """What a fit says of itself."""
    diagnostics, found = summary.diagnostics, summary.to_dict()
    singular = diagnostics.singular_values
    return {
        "selection": found["selection"],
        "headline": found["headline"],
        "honest_error": found["honest_error"],
        "facts": diagnostics.sentences(),
        "degrees_of_freedom": diagnostics.degrees_of_freedom,
        "first_stage": dict(diagnostics.first_stage),
        "singular_values": None if singular is None else singular[:20],
        "warnings": found["warnings"],
    }


def _conditions(model: Any) -> dict[str, str]:
    """The settings that are conditions, as they were written."""
    from dualembed.data.conditions import Condition

    found = {setting.name: model.get_params()[setting.name] for setting in model.task.settings if setting.condition}
    return {name: value.text for name, value in found.items() if isinstance(value, Condition)}


def _print_info(path: str, found: Mapping[str, Any], model: Any) -> None:
    from dualembed.cli.console import print_columns, print_table
    from dualembed.estimates import pluralise

    what = f"{found['task']}: {model.task.line}" if found["task"] else found["estimator"]
    typer.echo(f"{path}\n{what}")
    typer.echo(f"Saved by dualembed {found['version']} (format {found['format']}, {found['bytes']:,} bytes).")
    if not found["fitted"]:
        typer.echo("It was saved before it was fitted.")
    if found["rows"] is not None:
        typer.echo(f"Fitted to {pluralise(found['rows'], 'row')}.")
    if found["columns"]:
        print_columns(found["columns"], "Columns:")
    print_table(["", ""], [[name, str(value)] for name, value in found["settings"].items()], title="Settings:")
    if not found["fitted"]:
        return
    summary = model.summary()
    if summary.selection:
        chosen = [[step.question, step.answer] for step in summary.selection]
        print_table(["", ""], chosen, title="Chosen from the data:")
    for sentence in [summary.sentences()[0], summary.error_text(), *found["facts"]]:
        typer.echo(sentence)
    for warning in summary.warnings:
        typer.echo(f"Warning: {warning}.")


def loaded(path: Path) -> tuple[Any, Task]:
    """(model, its task) of a model file."""
    from dualembed.checks import InputError
    from dualembed.data.io import check_exists

    check_exists(path.expanduser())
    from dualembed.saving import load  # brings JAX, which need not be waited for where there is no file

    model = load(path.expanduser())
    if not model.task.examples:
        raise InputError(
            f"{path} holds a {type(model).__name__}, which the command line cannot fit or ask; use "
            "dualembed.load in Python"
        )
    if not model.__sklearn_is_fitted__():
        raise InputError(f"{path} holds a model that was saved before it was fitted; fit it and save it again")
    return model, model.task


def columns_for_predicting(path: Path, model: Any, task: Task) -> Columns:
    """The columns by meaning that predictions need; of a model saved from Python, as far as it knows names."""
    if model.columns_ is not None:
        asked = {role.word for role in task.asks}
        return {word: list(names) for word, names in model.columns_.items() if word in asked}
    asked = model._named_inputs
    if asked is not None:
        return {word: list(names) for word, names in asked.items()}
    codings = zip(task.asks, model._codings(), strict=False)
    known = {role.word: coding for role, coding in codings}
    if not all(coding.named for coding in known.values()):
        raise _refusal(path)
    return {word: list(coding.names) for word, coding in known.items()}


def columns_for_scoring(path: Path, model: Any) -> Columns:
    """All columns by meaning that the model was fitted to."""
    if model.columns_ is None:
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
    from dualembed.checks import InputError

    return InputError(
        f"{path} was saved from Python and does not know what the columns of a table mean; ask it in Python, or fit it "
        "with `dualembed fit`"
    )
