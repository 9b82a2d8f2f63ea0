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

from dualembed.cli import options, pages
from dualembed.cli.tasks import TASKS, Task, option_of, task_named

SOLVERS = ("auto", "closed-form", "embedding-sgd")
SPACES = ("auto", "linear")
DISCOUNT = 0.99


@dataclasses.dataclass(frozen=True)
class Order:
    """What was asked for: the task, the table, where to write, columns by meaning, and settings of the estimator."""

    name: str
    table: Path
    out: Path
    report: Path | None
    columns: dict[str, str | None]
    settings: dict[str, Any]
    categories: str | None
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
        given |= {"--categorical": self.categories} if self.categories else {}
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
        str | None,
        typer.Option(
            metavar="CONDITION",
            help='States in which a hitting time ends, such as "s1 >= 1"; it is 0 inside, and from outside it counts '
            "the step that enters.",
        ),
    ] = None,
    categorical: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Those of the columns whose numbers name categories, as text does."),
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
    order = Order(task, table, out, report, roles, settings, categorical, drop_missing)
    _check(order)
    _run(order, as_json=as_json)


fit.__doc__ = pages.GENERAL


def _check(order: Order) -> None:
    """Raise where the order cannot be carried out, as far as that can be known before the table is read."""
    from dualembed.checks import InputError
    from dualembed.cli.places import check_writable
    from dualembed.cli.roles import check_options
    from dualembed.data.tables import check_there

    task = task_named(order.name)
    check_options(task, order.name, order.columns)
    _check_settings(task, order)
    check_there(order.table.expanduser())
    check_writable("--out", order.out, order.table)
    if order.report is not None:
        if order.report.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"--report {order.report} must end in .html, since it is a page for a browser")
        check_writable("--report", order.report, order.table, order.out)


def _check_settings(task: Task, order: Order) -> None:
    from dualembed.checks import InputError

    settings = order.settings
    for name in ("discount", "target"):
        if name in settings and name not in task.settings:
            raise InputError(f"{option_of(name)} has no use in {order.name}; leave it out")
    if "target" in task.settings and not settings.get("target", "").strip():
        raise InputError(f'{order.name} needs --target, a condition on state columns such as --target "s1 >= 1"')
    discount = settings.get("discount", DISCOUNT)
    if not 0 <= discount <= 1:
        raise InputError(
            f"--discount must be from 0 to 1, not {discount:g}: by it a reward counts less a step later; 0.99 is usual"
        )
    for name, known in (("solver", SOLVERS), ("primal", SPACES), ("dual", SPACES)):
        if settings[name] not in known:
            raise InputError(f"--{name} must be one of {', '.join(known)}, not {settings[name]!r}")


def _run(order: Order, *, as_json: bool) -> None:
    from dualembed.cli.interrupts import ending_at_once, saying
    from dualembed.cli.places import working
    from dualembed.cli.printing import print_json

    with ending_at_once():
        with working(f"Reading {order.table}"):
            given = _read(order)
        model, found = _fitted(order, given)
    with working("Writing"):
        _write(order, model, given.data)
    with saying(f"stopped; the model {order.out} is written"):
        if as_json:
            print_json(found)
        else:
            from dualembed.cli.answers import show_fit

            show_fit(found)


@dataclasses.dataclass(frozen=True)
class Given:
    """What a table holds: rows that lack nothing, columns by meaning, categories, and the arguments of `fit`."""

    table: Any
    dropped: int
    columns: dict[str, list[str]]
    categories: list[str]
    data: dict[str, Any]
    settings: dict[str, Any]
    worries: list[str]


def _read(order: Order) -> Given:
    """What there is to fit to; mistakes with columns, cells and the target are found here, before JAX is waited for."""
    from dualembed.cli.inputs import arguments, categories_in, check_varying, complete
    from dualembed.cli.roles import columns_by_role, forgotten
    from dualembed.data import read_table

    whole = read_table(order.table)
    columns = columns_by_role(order.task, order.columns, whole.column_names)
    table, dropped = complete(whole, columns, drop=order.drop_missing)
    check_varying(table, columns)
    categories = categories_in(table, columns, order.categories)
    data = arguments(table, columns, order.task.arguments, categories=categories)
    settings = {**order.settings, "categorical_features": categories or None}
    if "target" in order.task.settings:
        settings["target"] = _target(settings["target"], columns["state"], data["states"])
    worries = forgotten(order.task, order.columns, columns, whole)
    return Given(table, dropped, columns, categories, data, settings, worries)


def _fitted(order: Order, given: Given) -> tuple[Any, dict[str, Any]]:
    """(the fitted model, what there is to say of it)."""
    from dualembed.cli.answers import found_by
    from dualembed.cli.inputs import fingerprint
    from dualembed.cli.places import working
    from dualembed.estimators.diagnostics import TrustWarning

    model = _estimator(order, given.settings)
    # Embedding-SGD has a bar of its own.
    with working("Fitting") if order.settings["solver"] != "embedding-sgd" else nullcontext(), catch_warnings():
        simplefilter("ignore", TrustWarning)  # the answer says it in its own place
        model.fit(**given.data)
    worries = (*model.diagnostics_.warnings, *given.worries)
    model.diagnostics_ = dataclasses.replace(model.diagnostics_, warnings=worries)
    model.columns_, model.fingerprint_ = given.columns, fingerprint(given.table, given.columns, order.task)
    return model, {
        "task": order.name,
        "table": str(order.table),
        "rows": given.table.num_rows,
        "dropped": given.dropped,
        "columns": given.columns,
        "categories": given.categories,
        **found_by(order.name, model, given.data),
        "model": str(order.out),
        "report": None if order.report is None else str(order.report),
        "command": order.command,
    }


def _estimator(order: Order, given: Mapping[str, Any]) -> Any:
    """The estimator that was ordered, not fitted yet."""
    from dualembed import estimators

    settings = dict(given)
    settings["random_state"] = settings.pop("seed")
    if "discount" in order.task.settings:
        settings.setdefault("discount", DISCOUNT)
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
    from dualembed.cli.interrupts import NOTHING, saying
    from dualembed.saving import save

    with saying(NOTHING):
        save(model, order.out)
    if order.report is not None:
        from dualembed.report import write_report

        with saying(f"stopped; the model {order.out} is written, but not the report"):
            write_report(model, order.report, data=data, command=order.command)
