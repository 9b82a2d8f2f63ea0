"""`dualembed fit`: from a table to the answer in plain words, and to a saved model."""

from __future__ import annotations

import dataclasses
import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings, simplefilter

import typer

from dualembed.answers.task import Task
from dualembed.cli import options
from dualembed.cli.compare import Compare, check_compare, compared, print_comparison
from dualembed.cli.effects import By, Derivative, Effect, check_columns, check_effects, lead_with
from dualembed.cli.options import estimator_of, general, known_tasks, option_of, task_named
from dualembed.data.roles import ROLES, words_of

if TYPE_CHECKING:
    from dualembed.answers import Summary

SOLVERS = ("auto", "closed-form", "embedding-sgd")
SPACES = ("auto", "linear")


@dataclasses.dataclass(frozen=True)
class FitRequest:
    """What was asked for: the task, the table, where to write, columns by meaning, and settings of the estimator."""

    name: str
    table: Path
    out: Path | None
    report: Path | None
    columns: dict[str, str | None]
    settings: dict[str, Any]
    categories: str | None
    drop_missing: bool
    formula: str | None = None
    derivatives: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    by: str | None = None
    compare: bool = False

    @property
    def task(self) -> Task:
        """The task of that name."""
        return known_tasks()[self.name]

    @property
    def command(self) -> str:
        """The command that asks for the same."""
        given: dict[str, Any] = {option_of(role): spec for role, spec in self.columns.items() if spec is not None}
        given |= {"--formula": self.formula} if self.formula is not None else {}
        options = {setting.name: setting.option for setting in self.task.settings}
        given |= {options.get(name, option_of(name)): value for name, value in self.settings.items()}
        given |= {"--by": self.by} if self.by is not None else {}
        given |= {"--categorical": self.categories} if self.categories else {}
        words = ["dualembed", "fit", self.name, str(self.table)]
        words += ["--out", str(self.out)] if self.out else []
        words += [
            word for option, value in given.items() for word in ((option,) if value is True else (option, str(value)))
        ]
        words += [word for name in self.derivatives for word in ("--derivative", name)]
        words += [word for name in self.effects for word in ("--effect", name)]
        words += ["--drop-missing"] if self.drop_missing else []
        words += ["--compare"] if self.compare else []
        words += ["--report", str(self.report)] if self.report else []
        return shlex.join(words)


def fit_command() -> Callable[..., None]:
    """`fit` with an option for each role of the tasks that are known now, and for each of their settings."""

    def fit(**given: Any) -> None:
        tasks = known_tasks().values()
        words = {role.word for task in tasks for role in task.roles}
        named = {setting.name for task in tasks for setting in task.settings}
        settings = {name: value for name, value in given.items() if name in named and value is not None}
        settings |= {name: given[name] for name in ("solver", "primal", "dual", "seed")}
        columns = {word: given[word] for word in given if word in words}
        request = FitRequest(
            given["task"],
            given["table"],
            given["out"],
            given["report"],
            columns=columns,
            settings=settings,
            categories=given["categorical"],
            drop_missing=given["drop_missing"],
            formula=given["formula"],
            derivatives=tuple(given["derivative"] or ()),
            effects=tuple(given["effect"] or ()),
            by=given["by"],
            compare=given["compare"],
        )
        _check(request)
        _run(request, as_json=given["as_json"])

    fit.__signature__ = inspect.Signature(list(_parameters()))  # type: ignore[attr-defined]
    fit.__doc__ = general()
    return fit


def _parameters() -> Iterator[inspect.Parameter]:
    """The command's parameters, as Typer reads them."""
    tasks = known_tasks()

    def parameter(name: str, annotation: Any, **default: Any) -> inspect.Parameter:
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, **default)

    task = typer.Argument(metavar="TASK", help="What is asked; see above.", autocompletion=lambda: list(known_tasks()))
    yield parameter("task", Annotated[str, task])
    yield parameter("table", options.Table)
    yield parameter("out", Annotated[Path | None, _OUT], default=None)
    roles = {role.word: role for each in tasks.values() for role in each.roles}
    for word, role in sorted(roles.items(), key=lambda item: list(ROLES).index(item[1].name)):
        shown = typer.Option(*role.options, metavar="COLUMNS" if role.several else "COLUMN", help=role.help)
        yield parameter(word, Annotated[str | None, shown], default=None)
    yield parameter("formula", Annotated[str | None, _FORMULA], default=None)
    yield parameter("derivative", Derivative, default=None)
    yield parameter("effect", Effect, default=None)
    yield parameter("by", By, default=None)
    for setting in {each.name: each for task in tasks.values() for each in task.settings}.values():
        flag, whole, number = (isinstance(setting.default, each) for each in (bool, int, float))
        kind: Any = str if setting.condition or setting.words else bool if flag else int if whole else float
        usual = f"{setting.default:g}" if number else str(setting.default)
        default = False if flag or setting.default is None else usual
        metavar = "CONDITION" if setting.condition else "NAME" if setting.words else None
        option = typer.Option(setting.option, help=setting.help, metavar=metavar, show_default=default)
        yield parameter(setting.name, Annotated[kind | None, option], default=None)
    yield parameter("categorical", Annotated[str | None, _CATEGORICAL], default=None)
    yield parameter("drop_missing", options.DropMissing, default=False)
    yield parameter("compare", Compare, default=False)
    yield parameter("solver", Annotated[str, _SOLVER], default="auto")
    yield parameter("primal", Annotated[str, _PRIMAL], default="auto")
    yield parameter("dual", Annotated[str, _DUAL], default="auto")
    report = typer.Option(metavar="FILE.html", help="Write a page about the model.")
    yield parameter("report", Annotated[Path | None, report], default=None)
    seed = typer.Option(min=0, max=2**31 - 1, help="Seeds everything random.")
    yield parameter("seed", Annotated[int, seed], default=0)
    yield parameter("as_json", options.AsJson, default=False)


_OUT = typer.Option(
    metavar="MODEL", help="Keep the model in this file, for `ask`, `predict` and `score`; without it, print the answer."
)
_CATEGORICAL = typer.Option(metavar="COLUMNS", help="Those of the columns whose numbers name categories, as text does.")
_SOLVER = typer.Option(metavar="NAME", help=f"One of {', '.join(SOLVERS)}.")
_PRIMAL = typer.Option(metavar="NAME", help="Functions to learn among: auto or linear.")
_DUAL = typer.Option(metavar="NAME", help="Functions to test by: auto or linear.")
_FORMULA = typer.Option(
    metavar="FORMULA",
    help="Of iv: columns by a formula, in place of --x, --y, --instrument and --control: 'y ~ [x ~ z] + controls', or "
    "'y ~ controls | x ~ z'. Terms such as log(a), a:b and C(a) take formulaic; predictions need them as columns.",
)


def _check(request: FitRequest) -> None:
    """Raise where the request cannot be carried out, as far as that can be known before the table is read."""
    from dualembed.checks import InputError
    from dualembed.cli.console import check_writable
    from dualembed.data.io import check_exists

    task = task_named(request.name)
    _check_options(task, request.columns)
    _check_settings(task, request)
    if request.compare:
        check_compare(request.name, "instruments" in task.takes, request.columns)
    if request.formula is not None:
        from dualembed.cli.formula import check_formula

        check_formula(task, request.formula, request.columns)
    check_effects(task, request.derivatives, request.effects, request.by)
    check_exists(request.table.expanduser())
    if request.out is not None:
        check_writable("--out", request.out, request.table)
    if request.report is not None:
        if request.report.suffix.lower() not in (".html", ".htm"):
            raise InputError(f"--report {request.report} must end in .html, since it is a page for a browser")
        others = [path for path in (request.table, request.out) if path is not None]
        check_writable("--report", request.report, *others)


def _check_options(task: Task, given: Mapping[str, str | None]) -> None:
    """Raise where an option for columns is given that the task has no use for."""
    from dualembed.checks import InputError

    words = {role.word: role for role in task.roles}
    known = {word for role in task.roles for word in words_of(role, task.roles)}
    idle = [word for word, spec in given.items() if spec is not None and word not in known]
    if idle:
        used = ", ".join(role.option for role in task.roles)
        raise InputError(f"{option_of(idle[0])} has no use in {task.name}, whose columns are {used}; leave it out")
    for word, spec in given.items():
        needed = word in words and words[word].name in task.needs and words[word].name not in task.derives
        if spec is not None and not spec.strip() and needed:
            raise InputError(f"{words[word].option} is empty, but {task.name} needs it; name its columns")


def _check_settings(task: Task, request: FitRequest) -> None:
    from dualembed.checks import InputError

    settings, own = request.settings, {setting.name: setting for setting in task.settings}
    for each in known_tasks().values():
        for setting in each.settings:
            if setting.name in settings and setting.name not in own:
                raise InputError(f"{setting.option} has no use in {request.name}; leave it out")
    for setting in own.values():
        if setting.words and settings.get(setting.name, setting.default) not in setting.words:
            known = ", ".join(setting.words)
            raise InputError(f"{setting.option} must be one of {known}, not {settings[setting.name]!r}")
        left_out = setting.optional and setting.name not in settings
        if setting.condition and not left_out and not settings.get(setting.name, "").strip():
            way = f'{setting.option} "s1 >= 1"'
            raise InputError(f"{request.name} needs {setting.option}, a condition on state columns such as {way}")
    discount = settings.get("discount", 1.0)
    if not 0 <= discount <= 1:
        raise InputError(
            f"--discount must be from 0 to 1, not {discount:g}: by it a reward counts less a step later; 0.99 is usual"
        )
    for name, words in (("solver", SOLVERS), ("primal", SPACES), ("dual", SPACES)):
        if settings[name] not in words:
            raise InputError(f"--{name} must be one of {', '.join(words)}, not {settings[name]!r}")


def _run(request: FitRequest, *, as_json: bool) -> None:
    from dualembed.cli.console import exit_on_interrupt, on_interrupt, print_json, spinner

    with exit_on_interrupt():
        with spinner(f"Reading {request.table}"):
            given = _read(request)
        model = _fitted(request, given)
        if request.derivatives or request.effects:
            lead_with(model, request.task, request.derivatives, request.effects, by=request.by)
        summary = model.summary()
        beside = compared(model, given.data) if request.compare else None
    with spinner("Writing"):
        _save(request, model)
    # The answer comes first: a report takes its time, and what goes wrong there loses nothing.
    with on_interrupt(_stopped(request)):
        if as_json:
            more = {} if beside is None else {"comparison": beside.to_dict()}
            print_json({**_document(request, given, summary), **more})
        else:
            _print(request, given, summary)
            if beside is not None:
                print_comparison(beside)
    if request.report is not None:
        with on_interrupt(_stopped(request)):
            _draw(request, model, given.data.columns, request.report)
        if not as_json:
            typer.echo(f"Report: {request.report} (open it in a browser)")


def _document(request: FitRequest, given: FitData, summary: Summary) -> dict[str, Any]:
    """What was read, found and written, in terms that JSON has."""
    return {
        "task": request.name,
        "table": str(request.table),
        "rows": given.table.num_rows,
        "dropped": given.dropped,
        "columns": given.columns,
        "categories": given.categories,
        **summary.to_dict(),
        "solver": request.settings["solver"],
        "model": None if request.out is None else str(request.out),
        "report": None if request.report is None else str(request.report),
        "command": request.command,
    }


def _print(request: FitRequest, given: FitData, summary: Summary) -> None:
    """Print the same for people."""
    from dualembed.cli.console import print_columns, print_summary
    from dualembed.estimates import pluralise

    dropped = f", {given.dropped:,} dropped for missing numbers" if given.dropped else ""
    categories = {"taken as categories": given.categories} if given.categories else {}
    title = f"Read {pluralise(given.table.num_rows + given.data.left_out, 'row')}{dropped}. Columns used:"
    print_columns({**given.columns, **categories}, title)
    typer.echo("")
    print_summary(summary)
    typer.echo("")
    typer.echo(f"Model:  {request.out}" if request.out else f"Model:  not kept; {_how_to_keep(request)}")


def _how_to_keep(request: FitRequest) -> str:
    """How the model would be kept, in words."""
    return f"add --out {request.table.stem}.dualembed to keep it for `dualembed ask`, `predict` and `score`"


def _stopped(request: FitRequest) -> str:
    """What an interruption leaves, once all is done but to print and to draw, in words."""
    from dualembed.cli.console import NOTHING

    if request.out is None:
        return NOTHING
    return f"stopped; the model {request.out} is written{', but not the report' if request.report else ''}"


@dataclasses.dataclass(frozen=True)
class FitData:
    """What a table holds: rows that lack nothing, columns by meaning, categories, and the table for `fit`."""

    table: Any
    dropped: int
    columns: dict[str, list[str]]
    categories: list[str]
    data: Any
    settings: dict[str, Any]


def _read(request: FitRequest) -> FitData:
    """What there is to fit to; mistakes with columns, cells and the target are found here, before JAX is waited for."""
    from dualembed.data.columns import columns_by_role
    from dualembed.data.logs import read_log_table
    from dualembed.data.table import categories_in, check_varying, prepare, unused_end_marks

    task, whole = request.task, read_log_table(request.table)
    roles, needed = task.roles, {"needs": task.needs, "derives": task.derives}
    asked = request.columns
    if request.formula is not None:
        from dualembed.cli.formula import with_terms

        whole, named = with_terms(request.formula, whole)
        asked = {**asked, **named}
    columns = columns_by_role(roles, asked, whole.column_names, **needed)
    check_columns(task, columns, request.derivatives, request.effects, request.by)
    rows = prepare(whole, columns, derives=task.derives, drop=request.drop_missing)
    check_varying(rows.table, columns)
    categories = categories_in(rows.table, columns, request.categories)
    data = rows.to_table(roles, needs=task.needs, categories=categories)
    settings = {**request.settings, "categorical_features": categories or None}
    for setting in request.task.settings:
        if setting.condition and (text := settings.get(setting.name)) is not None:
            settings[setting.name] = _condition(text, columns["state"], data.states, setting.option)
    if "terminated" in task.takes and "terminated" not in columns and request.columns.get("terminated") is None:
        used = {name for own in columns.values() for name in own}
        others = {name: whole[name].unique().to_pylist() for name in whole.column_names if name not in used}
        notes = (*data.warnings, *unused_end_marks(others, "--terminated {}"))
        data = dataclasses.replace(data, warnings=notes)
    return FitData(rows.table, rows.dropped, columns, categories, data, settings)


def _fitted(request: FitRequest, given: FitData) -> Any:
    """The fitted model."""
    from dualembed.estimators.diagnostics import ReliabilityWarning

    model = _estimator(request, given.settings)
    with catch_warnings():
        simplefilter("ignore", ReliabilityWarning)  # the answer says it in its own place
        model.fit(given.data)
    return model


def _estimator(request: FitRequest, given: Mapping[str, Any]) -> Any:
    """The estimator that was ordered, not fitted yet."""
    settings = dict(given)
    settings["random_state"] = settings.pop("seed")
    for setting in request.task.settings:
        settings.setdefault(setting.name, setting.default)
    return estimator_of(request.task)(**settings)


def _condition(text: str, names: list[str], states: Any, option: str) -> Any:
    """The condition on states that the text states, which must be about numbers."""
    from dualembed.data.columns import to_numbers
    from dualembed.data.conditions import ColumnRef, condition

    found = condition(text, names)
    sides = [side for parts in found.alternatives for each in parts for side in (each.left, each.right)]
    for side in sides:
        if isinstance(side, ColumnRef):
            to_numbers(states, names[side.place], option)
    return found


def _save(request: FitRequest, model: Any) -> None:
    from dualembed.cli.console import NOTHING, on_interrupt

    if request.out is not None:
        from dualembed.saving import save

        with on_interrupt(NOTHING):
            save(model, request.out)


def _draw(request: FitRequest, model: Any, data: Mapping[str, Any], path: Path) -> None:
    """Write the report; whatever keeps it from being drawn, the sentence says what is there nevertheless."""
    from dualembed.checks import InputError
    from dualembed.report import write_report

    try:
        write_report(model, path, data=data, command=request.command)
    except Exception as error:
        kept = "" if request.out is None else f", and the model {request.out} is written"
        raise InputError(f"the report {path} could not be drawn ({error}); the answer above stands{kept}") from error
