"""`dualembed fit`: from a table to a saved model, and the answer in plain words."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any
from warnings import catch_warnings, simplefilter

import typer

from dualembed.cli import options
from dualembed.cli.tasks import TASKS, Task, option_of, task_named

SOLVERS = ("auto", "closed-form", "embedding-sgd")
SPACES = ("auto", "linear")
DISCOUNT = 0.99

_HELP = "\n\n".join(
    [
        "Fit a model to a table, save it, and say what it found.",
        "\b\nTasks:\n" + "\n".join(f"  {name:<19}{task.line}" for name, task in TASKS.items()),
        "COLUMNS are names with commas between them, or the start of names with an asterisk, as in s*. An option that "
        "is left out stands for the columns of its own name (state or state_*, reward, next_state, ...) where the "
        'table has them; --weight "" takes none.',
        "\b\nExamples:\n"
        "  dualembed fit policy-evaluation log.parquet --state 's*' --next-state 'n*' --episode run \\\n"
        "      --discount 0.95 --out value.dualembed --report value.html\n"
        "  dualembed fit iv survey.csv --x price --y sales --instrument tax --out effect.dualembed --json",
    ]
)


@dataclasses.dataclass(frozen=True)
class Order:
    """What was asked for: the task, the table, where to write, columns by meaning, and settings of the estimator."""

    name: str
    table: Path
    out: Path
    report: Path | None
    columns: dict[str, str | None]
    settings: dict[str, Any]
    categories: tuple[str, ...]
    drop_missing: bool

    @property
    def task(self) -> Task:
        """The task of that name."""
        return TASKS[self.name]

    @property
    def command(self) -> str:
        """The command that asks for the same."""
        given: dict[str, Any] = {option_of(role): spec for role, spec in self.columns.items() if spec is not None}
        given |= {option_of(name): value for name, value in self.settings.items()}
        given |= {"--categorical": ",".join(self.categories)} if self.categories else {}
        words = ["dualembed", "fit", self.name, str(self.table), "--out", str(self.out)]
        words += [word for option, value in given.items() for word in (option, str(value))]
        words += ["--drop-missing"] if self.drop_missing else []
        words += ["--report", str(self.report)] if self.report else []
        return shlex.join(words)


def fit(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="What is asked; see above.", autocompletion=lambda: list(TASKS))
    ],
    table: options.Table,
    out: Annotated[Path, typer.Option(metavar="MODEL", help="The file to save the model in.")],
    state: options.State = None,
    action: options.Action = None,
    reward: options.Reward = None,
    next_state: options.NextState = None,
    next_action: options.NextAction = None,
    terminated: options.Terminated = None,
    weight: options.Weight = None,
    episode: options.Episode = None,
    x: options.X = None,
    y: options.Y = None,
    instrument: options.Instrument = None,
    control: options.Control = None,
    cost: options.Cost = None,
    terminal: options.Terminal = None,
    terminal_cost: options.TerminalCost = None,
    target: Annotated[
        str | None, typer.Option(metavar="CONDITION", help='The target of hitting times, such as "s1 >= 1".')
    ] = None,
    categorical: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Those of the columns that name categories.")
    ] = None,
    drop_missing: options.DropMissing = False,
    discount: Annotated[
        float | None,
        typer.Option(help="By how much a reward counts less a step later.", show_default=str(DISCOUNT)),
    ] = None,
    solver: Annotated[str, typer.Option(metavar="NAME", help=f"One of {', '.join(SOLVERS)}.")] = "auto",
    primal: Annotated[str, typer.Option(metavar="NAME", help="Functions to learn among: auto or linear.")] = "auto",
    dual: Annotated[str, typer.Option(metavar="NAME", help="Functions to test by: auto or linear.")] = "auto",
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write a page about the model.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seeds everything random.")] = 0,
    as_json: options.AsJson = False,
) -> None:
    given = locals()
    roles = {role: given[role] for each in TASKS.values() for role in each.arguments}
    settings = {name: given[name] for name in ("discount", "target") if given[name] is not None}
    settings |= {"solver": solver, "primal": primal, "dual": dual, "seed": seed}
    categories = tuple(name.strip() for name in categorical.split(",") if name.strip()) if categorical else ()
    order = Order(task, table, out, report, roles, settings, categories, drop_missing)
    _check(order)
    _run(order, as_json=as_json)


fit.__doc__ = _HELP


def _check(order: Order) -> None:
    """Raise where the order cannot be carried out, as far as that can be known before the table is read."""
    from dualembed.cli.places import check_writable
    from dualembed.cli.roles import check_options
    from dualembed.data.refusal import refused

    task = task_named(order.name)
    check_options(task, order.name, order.columns)
    _check_settings(task, order)
    if not order.table.expanduser().exists():
        from dualembed.data import read_table

        read_table(order.table)  # refuses, and knows the nearest name
    check_writable("--out", order.out, order.table)
    if order.report is not None:
        if order.report.suffix.lower() not in (".html", ".htm"):
            raise refused(f"--report {order.report} must end in .html, since it is a page for a browser")
        check_writable("--report", order.report, order.table, order.out)


def _check_settings(task: Task, order: Order) -> None:
    from dualembed.data.refusal import refused

    settings = order.settings
    for name in ("discount", "target"):
        if name in settings and name not in task.settings:
            raise refused(f"{option_of(name)} has no use in {order.name}; leave it out")
    if "target" in task.settings and not settings.get("target", "").strip():
        raise refused(f'{order.name} needs --target, a condition on state columns such as --target "s1 >= 1"')
    discount = settings.get("discount", DISCOUNT)
    if not 0 <= discount <= 1:
        raise refused(
            f"--discount must be from 0 to 1, not {discount:g}: by it a reward counts less a step later; 0.99 is usual"
        )
    for name, known in (("solver", SOLVERS), ("primal", SPACES), ("dual", SPACES)):
        if settings[name] not in known:
            raise refused(f"--{name} must be one of {', '.join(known)}, not {settings[name]!r}")


def _run(order: Order, *, as_json: bool) -> None:
    from dualembed.cli.interrupts import ending_at_once
    from dualembed.cli.places import working
    from dualembed.cli.printing import print_json

    with ending_at_once():
        from dualembed.cli.answers import show_fit  # brings JAX, during whose import interrupts get lost, too

        model, data, found = _fitted(order)
    with working("Writing"):
        _write(order, model, data)
    if as_json:
        print_json(found)
    else:
        show_fit(found)


def _fitted(order: Order) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """(the fitted model, what it was fitted to, what there is to say of it)."""
    from dualembed.cli.answers import found_by
    from dualembed.cli.inputs import arguments, check_categories, check_varying, complete, fingerprint
    from dualembed.cli.places import working
    from dualembed.cli.roles import columns_by_role, forgotten
    from dualembed.data import read_table
    from dualembed.estimators.diagnostics import TrustWarning

    with working(f"Reading {order.table}"):
        whole = read_table(order.table)
        columns = columns_by_role(order.task, order.columns, whole.column_names)
        check_categories(order.categories, columns)
        table, dropped = complete(whole, columns, drop=order.drop_missing)
        check_varying(table, columns)
        data = arguments(table, columns, order.task.arguments, categories=order.categories)
        model = _estimator(order, columns, data)
    # Embedding-SGD has a bar of its own.
    with working("Fitting") if order.settings["solver"] != "embedding-sgd" else nullcontext(), catch_warnings():
        simplefilter("ignore", TrustWarning)  # the answer says it in its own place
        model.fit(**data)
    worries = (*model.diagnostics_.warnings, *forgotten(order.task, order.columns, columns, whole))
    model.diagnostics_ = dataclasses.replace(model.diagnostics_, warnings=worries)
    model.columns_, model.fingerprint_ = columns, fingerprint(table, columns, order.task)
    found = {
        "task": order.name,
        "table": str(order.table),
        "rows": table.num_rows,
        "dropped": dropped,
        "columns": columns,
        **found_by(order.name, model, data),
        "model": str(order.out),
        "report": None if order.report is None else str(order.report),
        "command": order.command,
    }
    return model, data, found


def _estimator(order: Order, columns: Mapping[str, list[str]], data: Mapping[str, Any]) -> Any:
    """The estimator that was ordered, not fitted yet."""
    from dualembed import estimators

    settings = dict(order.settings)
    settings["random_state"] = settings.pop("seed")
    settings["categorical_features"] = list(order.categories) or None
    if "discount" in order.task.settings:
        settings.setdefault("discount", DISCOUNT)
    if "target" in order.task.settings:
        settings["target"] = _target(settings["target"], columns["state"], data["states"])
    return getattr(estimators, order.task.estimator)(**settings)


def _target(text: str, names: list[str], states: Any) -> Any:
    """The condition on states that the text states, which must be about numbers."""
    from dualembed.data.columns import numbers_of
    from dualembed.data.conditions import Column, condition

    found = condition(text, names)
    sides = [side for parts in found.alternatives for each in parts for side in (each.left, each.right)]
    for side in sides:
        if isinstance(side, Column):
            numbers_of(states, names[side.place], "--target")
    return found


def _write(order: Order, model: Any, data: Mapping[str, Any]) -> None:
    from dualembed.saving import save

    save(model, order.out)
    if order.report is not None:
        from dualembed.report import write_report

        write_report(model, order.report, data=data, command=order.command)
