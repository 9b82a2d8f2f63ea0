"""`dualembed compare`: what several policies are worth by one log, and by how much they differ."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings, simplefilter

import typer

from dualembed.cli import options
from dualembed.data.roles import ROLES

if TYPE_CHECKING:
    from dualembed.comparison import Comparison
    from dualembed.data.table import Table

_HELP = "\n\n".join(
    [
        "Say what several policies are worth by one log, by how much they differ, and which is best.",
        "The rows are steps: a state, the action that was taken, its reward, and the next state, which may be left out "
        "where --episode labels rows that follow each other. Without next states, episodes or times each row stands "
        "alone (a contextual bandit): values are then expected rewards.",
        "--policy NAME=COLUMNS is a policy by columns of the table, one for each action with its probability, whose "
        "names end in the action (p_left, p_right), or a single one with the action that it would take. What it does "
        "at next states is in columns of the same names after next_, where there are --next-state columns. --policy "
        "logged is the policy that made the log.",
        "All values and differences have intervals that hold at once; beside them stand importance sampling, LSTD and "
        "fitted Q, or for single decisions inverse propensities and a model of rewards.",
        "\b\nExamples:\n"
        '  dualembed compare log.parquet --policy "cql=p_cql_*" --policy logged --episode run\n'
        "  dualembed compare log.csv --state x,speed --action move --reward r --episode run --terminated end \\\n"
        '     --policy "bold=bold_left,bold_right" --policy "shy=shy_*" --discount 0.95 --plot policies.png\n'
        "  dualembed compare clicks.csv --state age,hour --action item --reward click --propensity pscore \\\n"
        '     --policy "new=p_new_*" --policy logged --json',
    ]
)
NAMES = (
    "states",
    "actions",
    "rewards",
    "next_states",
    "terminated",
    "truncated",
    "propensities",
    "episodes",
    "groups",
    "time",
)
LOGGED = "logged"
ENDINGS = (".png", ".svg", ".pdf")


def _column(name: str) -> Any:
    role = ROLES[name]
    return typer.Option(role.option, metavar="COLUMNS" if role.several else "COLUMN", help=role.help)


def compare(
    table: options.Table,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", metavar="NAME=COLUMNS", help="A policy; give one option for each, or `logged`."),
    ] = None,
    state: Annotated[str | None, _column("states")] = None,
    action: Annotated[str | None, _column("actions")] = None,
    reward: Annotated[str | None, _column("rewards")] = None,
    next_state: Annotated[str | None, _column("next_states")] = None,
    terminated: Annotated[str | None, _column("terminated")] = None,
    truncated: Annotated[str | None, _column("truncated")] = None,
    propensity: Annotated[str | None, _column("propensities")] = None,
    episode: Annotated[str | None, _column("episodes")] = None,
    group: Annotated[str | None, _column("groups")] = None,
    time: Annotated[str | None, _column("time")] = None,
    discount: Annotated[float, typer.Option(help="By how much a reward counts less a step later.")] = 0.99,
    categorical: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Those of the states whose numbers name categories.")
    ] = None,
    level: Annotated[float, typer.Option("--level", metavar="SHARE", help="How often all intervals hold.")] = 0.95,
    drop_missing: options.DropMissing = False,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Draw it: .png, .svg or .pdf.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seeds everything random.")] = 0,
    as_json: options.AsJson = False,
) -> None:
    from dualembed.cli.console import check_ending, check_writable, exit_on_interrupt, print_json, spinner

    specs = _policies(policy or [])
    _check(discount, level)
    if plot is not None:
        check_ending("--plot", plot, ENDINGS)
        check_writable("--plot", plot, table)
    given = (state, action, reward, next_state, terminated, truncated, propensity, episode, group, time)
    columns = {ROLES[name].word: spec for name, spec in zip(NAMES, given, strict=True)}
    with exit_on_interrupt():
        with spinner(f"Reading {table}"):
            data, known, rows, dropped = _read(table, columns, specs, categorical, drop=drop_missing)
        with spinner("Comparing"):
            found = _compared(data, specs, discount, seed)
    if plot is not None:
        _draw(found, plot, level)
    if as_json:
        about = {"table": str(table), "rows": rows, "dropped": dropped, "columns": known, "discount": discount}
        print_json({**about, **found.to_dict(level), "plot": None if plot is None else str(plot)})
    else:
        _print(found, rows, dropped, known, plot, level)


compare.__doc__ = _HELP


def _policies(given: list[str]) -> dict[str, str | None]:
    """Columns by the names of policies; None of the one that made the log."""
    from dualembed.checks import InputError

    found: dict[str, str | None] = {}
    for each in given:
        name, equals, spec = (part.strip() for part in each.partition("="))
        if (not equals and name != LOGGED) or not name or (equals and not spec):
            raise InputError(
                f"--policy {each!r} must be a name and its columns, as in --policy 'bold=p_bold_*', or the word "
                f"{LOGGED} for the policy that made the log"
            )
        if name in found:
            raise InputError(f"--policy names {name!r} more than once; give each policy a name of its own")
        found[name] = spec if equals else None
    if not found:
        raise InputError(
            f"nothing is there to compare; give policies, as in --policy 'bold=p_bold_*' --policy {LOGGED}"
        )
    return found


def _check(discount: float, level: float) -> None:
    from dualembed.checks import InputError

    if not 0 <= discount <= 1:
        raise InputError(f"--discount must be from 0 to 1, not {discount:g}; 0.99 is usual")
    if not 0 < level < 1:
        raise InputError(f"--level must lie between 0 and 1, such as 0.95, not {level:g}")


def _read(
    path: Path, asked: dict[str, str | None], specs: dict[str, str | None], categorical: str | None, *, drop: bool
) -> tuple[Table, dict[str, list[str]], int, int]:
    """(the log with the policies' columns, the names of its columns, rows, rows dropped)."""
    from dualembed.checks import InputError
    from dualembed.data.columns import ORDERS, columns_by_role, select_columns
    from dualembed.data.logs import read_log_table
    from dualembed.data.table import Table, arguments, categories_in, complete

    whole = read_log_table(path)
    roles, names = [ROLES[name] for name in NAMES], whole.column_names
    columns = columns_by_role(roles, asked, names, needs=("states", "actions", "rewards"))
    chosen = {name: select_columns(names, spec, "--policy") for name, spec in specs.items() if spec is not None}
    policy = [name for own in chosen.values() for name in own]
    policy += [f"next_{name}" for name in policy if f"next_{name}" in names]
    kept, dropped = complete(whole, {**columns, "policy": list(dict.fromkeys(policy))}, drop=drop)
    follows = ROLES["next_states"].word not in columns and any(word in columns for word in ORDERS)
    if dropped and follows:
        raise InputError(
            f"{dropped} rows lack a value, and what follows is that of the next row; fill them, or name what follows "
            "with --next-state"
        )
    categories = categories_in(kept, columns, categorical)
    given = arguments(kept, columns, roles, categories=categories)
    source = {name: kept.column(name).to_numpy() for name in policy}
    return Table(given, source=source), columns, kept.num_rows, dropped


def _compared(data: Table, specs: dict[str, str | None], discount: float, seed: int) -> Comparison:
    from dualembed.comparison import compare
    from dualembed.estimators.diagnostics import ReliabilityWarning

    with catch_warnings():
        simplefilter("ignore", ReliabilityWarning)  # the table says it in its own place
        return compare(data, specs, discount=discount, random_state=seed)


def _draw(found: Comparison, path: Path, level: float) -> None:
    from matplotlib.figure import Figure

    from dualembed.plot import comparison

    rows = len(found.values) * (2 + max((len(own) for own in found.estimates.values()), default=0))
    figure = Figure(figsize=(6.5, 1.2 + 0.19 * rows), layout="constrained")
    comparison(found, level=level, ax=figure.add_subplot())
    figure.savefig(path, dpi=150)


def _print(
    found: Comparison, rows: int, dropped: int, columns: dict[str, list[str]], plot: Path | None, level: float
) -> None:
    from dualembed.cli.console import print_columns
    from dualembed.estimates import pluralise

    lost = f", {dropped:,} dropped for missing values" if dropped else ""
    print_columns(columns, f"Read {pluralise(rows, 'row')}{lost}. Columns used:")
    typer.echo("")
    typer.echo(found.text(level))
    if plot is not None:
        typer.echo(f"Picture: {plot}")
