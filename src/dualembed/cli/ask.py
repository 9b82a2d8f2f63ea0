"""`dualembed ask`: one number of a saved model, its error, and how much it rests on."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualembed.cli import options
from dualembed.cli.effects import By, Derivative, Effect, check_by, effects, moves

if TYPE_CHECKING:
    import pyarrow as pa

    from dualembed.answers import Answer, Question, Task
    from dualembed.answers.subgroups import Subgroups
    from dualembed.data.columns import Columns

_HELP = "\n\n".join(
    [
        "Ask a model for one number: with its standard error, an interval, and a verdict on how much it rests on.",
        "Without a question it is the headline of the fit, such as what a policy is worth over the starts of episodes, "
        "or what the first column does. --at asks about "
        "one place, --points about the mean over the rows of a table, and --minus takes another place off: the "
        "difference has its own error, which is not that of its two sides. Columns go by the names that the model was "
        "fitted to.",
        "Of effects (task iv) --derivative asks what one unit more of a column adds, and --effect what one level of it "
        "does against another, 1 against 0 where they are left out: on average over the rows of --points, or else over "
        "those that the model was fitted to. --by answers the same in groups of "
        "these rows as well: at each level of a column, or between the quartiles of a number with many values.",
        "\b\nExamples:\n"
        "  dualembed ask value.dualembed\n"
        '  dualembed ask value.dualembed --at "x=1, speed=0" --minus "x=0, speed=0"\n'
        '  dualembed ask q.dualembed --at "x=1, move=left" --at "x=1, move=right" --level 0.9 --json\n'
        "  dualembed ask value.dualembed --points states.parquet\n"
        "  dualembed ask effect.dualembed --derivative price\n"
        "  dualembed ask effect.dualembed --effect treated --effect region=north,south --points people.csv\n"
        "  dualembed ask effect.dualembed --derivative price --by region",
    ]
)

At = Annotated[
    list[str] | None,
    typer.Option("--at", metavar="PLACE", help='A place, such as "x=1, speed=0"; one question each.'),
]
Minus = Annotated[
    list[str] | None,
    typer.Option("--minus", metavar="PLACE", help="The place to compare with: one for each question, or one for all."),
]
Points = Annotated[
    Path | None, typer.Option("--points", metavar="TABLE", help="A table, over whose rows the mean is asked for.")
]
Level = Annotated[float, typer.Option("--level", metavar="SHARE", help="How often the interval is to be right.")]


def ask(
    model: options.Model,
    at: At = None,
    minus: Minus = None,
    points: Points = None,
    derivative: Derivative = None,
    effect: Effect = None,
    by: By = None,
    level: Level = 0.95,
    drop_missing: options.DropMissing = False,
    as_json: options.AsJson = False,
) -> None:
    from dualembed.cli.console import exit_on_interrupt, print_json, spinner
    from dualembed.cli.saved import loaded
    from dualembed.data.io import check_exists

    places, others, moved = at or [], minus or [], moves(derivative or [], effect or [])
    # A table is asked about itself, or is what a column's effect is taken over.
    _check(level, asked=len(places) + (points is not None and not moved), others=len(others))
    check_by(by, len(moved))
    if points is not None:
        check_exists(points.expanduser())
    with spinner("Asking"), exit_on_interrupt():
        fitted, task = loaded(model)
        _check_errors(model, fitted)
        if moved or places or points is not None:
            reader = Reader(model, fitted, task, drop_missing)
            asked = reader.questions(places, None if moved else points)
            taken_off = reader.questions(others, option="--minus")
            questions = effects(reader, moved, points)
            groups = [] if by is None else [fitted.ask_by(each, reader.column(by, "--by")) for each in questions]
            answers = fitted.ask_all([*contrasts(asked, taken_off), *questions])
        else:
            answers, groups = [fitted.summary().headline], []
    found = {"task": task.name, "model": str(model), "answers": [each.to_dict(level) for each in answers]}
    found |= {"subgroups": [each.to_dict(level) for each in groups]} if groups else {}
    if as_json:
        print_json(found)
    else:
        _print(answers, level, groups)


ask.__doc__ = _HELP


def _check(level: float, *, asked: int, others: int) -> None:
    from dualembed.checks import InputError

    if not 0 < level < 1:
        raise InputError(f"--level must lie between 0 and 1, such as 0.95, not {level:g}")
    if others and not asked:
        raise InputError("--minus compares with a place that is asked about; give that as --at or --points")
    if others not in (0, 1, asked):
        raise InputError(f"--minus is given {others} times for {asked} questions; give one for each, or one for all")


def _check_errors(path: Path, model: Any) -> None:
    from dualembed.checks import InputError

    if model.uncertainty_ is None:
        raise InputError(
            f"{path} has no standard errors, since it was not solved in closed form; fit it with --solver auto, or use "
            "`dualembed predict` for values alone"
        )


def _print(answers: Sequence[Answer], level: float, groups: Sequence[Subgroups]) -> None:
    """Print the answers, for people; the last ones with those in groups of rows."""
    before = len(answers) - len(groups)
    for number, answer in enumerate(answers):
        if number:
            typer.echo("")
        typer.echo(f"{answer.title}: {answer.text(level)}.")
        if answer.verdict is None:
            typer.echo("Verdict: none, for this kind of fit does not know how much of the data an answer rests on.")
        else:
            typer.echo(f"Verdict: {answer.verdict}.")
        for warning in answer.warnings:
            typer.echo(f"Warning: {warning}.")
        if number >= before and groups:
            typer.echo(groups[number - before].text(level))


# One of name=value, either of which may stand in double quotes, as in a CSV file.
PART = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^"=,]*?))\s*=\s*(?:"((?:[^"]|"")*)"|([^",]*?))\s*(?:,|$)')


@dataclasses.dataclass(frozen=True)
class Reader:
    """Makes questions about a model, of places and tables in the words of the command line."""

    path: Path
    model: Any
    task: Task
    drop: bool

    @functools.cached_property
    def columns(self) -> Columns:
        """The columns that the model asks for, by meaning."""
        from dualembed.cli.saved import columns_for_predicting

        return columns_for_predicting(self.path, self.model, self.task)

    @functools.cached_property
    def known(self) -> dict[str, Any]:
        """How each of the columns is coded, by name."""
        return _known(self.model, self.task, self.columns)

    def questions(self, places: Sequence[str], points: Path | None = None, option: str = "--at") -> list[Question]:
        """One question for each place, and one for the table."""
        from dualembed.estimates import pluralise

        symbol = self.task.symbol
        tables = [(_table(self.known, each, option), f"{symbol} at {' '.join(each.split())}") for each in places]
        if points is not None:
            kept = self.table(points)
            tables.append((kept, f"{symbol} on average over {pluralise(kept.num_rows, 'row')} of {points}"))
        return [self.model.at(**self.arguments(table)).renamed(words) for table, words in tables]

    def table(self, path: Path) -> pa.Table:
        """A table with the model's columns, without rows that lack some, where these are to be dropped."""
        from dualembed.cli.saved import check_columns
        from dualembed.data.logs import read_log_table
        from dualembed.data.table import complete

        whole = read_log_table(path)
        check_columns(self.columns, whole.column_names, self.path)
        return complete(whole, self.columns, drop=self.drop)[0]

    def over(self, points: Path | None) -> str:
        """Which rows a mean is over, in words."""
        if points is not None:
            return f", over {points}"
        sample = self.model.sample_
        return (sample and sample.note) or ", over the rows of the fit"

    def column(self, name: str, option: str) -> str:
        """The name, if the model has such a column."""
        from dualembed.data.columns import no_such_column

        if name not in self.known:
            raise no_such_column(name, list(self.known), f"{option} {name!r}")
        return name

    def level(self, name: str, text: str, option: str) -> Any:
        """What a text stands for in a column: one of its levels, or a number."""
        return _value(self.known[name], name, text, option)

    def arguments(self, table: pa.Table) -> dict[str, Any]:
        """What the table holds, by the names of the model's arguments."""
        from dualembed.data.table import arguments

        categories = [name for name, column in self.known.items() if column.levels]
        return arguments(table, self.columns, self.task.asks, categories=categories)


def _known(model: Any, task: Task, columns: Columns) -> dict[str, Any]:
    """How each of the columns that the model asks for is coded, by name; of a copy, how the other is."""
    codings = {role.word: coding for role, coding in zip(task.asks, model._codings(), strict=False)}
    found = {}
    for word, names in columns.items():
        coded = codings[word].columns
        for name, column in zip(names, coded, strict=True):
            found[name] = column if column.copy_of is None else coded[column.copy_of]
    return found


def contrasts(asked: list[Question], taken_off: list[Question]) -> list[Question]:
    """Each question less that of the same place, or less the only one."""
    if not taken_off:
        return asked
    others = taken_off * len(asked) if len(taken_off) == 1 else taken_off
    return [each - other for each, other in zip(asked, others, strict=True)]


def _table(known: Mapping[str, Any], place: str, option: str) -> pa.Table:
    """The place as a table of one row."""
    import pyarrow as pa

    from dualembed.checks import InputError, some
    from dualembed.data.columns import no_such_column

    given = _parts(place, option)
    for name in given:
        if name not in known:
            raise no_such_column(name, list(known), f"{option} {place!r}")
    missing = [name for name in known if name not in given]
    if missing:
        raise InputError(
            f"{option} {place!r} says nothing of {some(missing)}; give all of the model's columns: {some(known)}"
        )
    return pa.table({name: [_value(column, name, given[name], option)] for name, column in known.items()})


def _parts(place: str, option: str) -> dict[str, str]:
    """The text of each column's value, by the column's name."""
    from dualembed.checks import InputError

    found: dict[str, str] = {}
    start, text = 0, place.strip().rstrip(",")
    while start < len(text):
        match = PART.match(text, start)
        if match is None:
            raise InputError(
                f'{option} {place!r} is no place; give each column as name=value with commas between, such as "x=1, '
                'speed=0", and names or values that hold commas in double quotes'
            )
        texts = [(text or "").replace('""', '"') for text in match.groups()]
        name, value = texts[0] or texts[1], texts[2] or texts[3]
        if name in found:
            raise InputError(f"{option} {place!r} gives the column {name!r} more than once; give it once")
        found[name], start = value, match.end()
    return found


def _value(column: Any, name: str, text: str, option: str) -> Any:
    """What the text stands for in a column: one of its levels, or a number."""
    from dualembed.checks import InputError, nearest, some

    if column.levels:
        level = next((level for level in column.levels if _same(level, text)), None)
        if level is None:
            names = [str(each) for each in column.levels]
            raise InputError(
                f"{option} has {name}={text}, but the model was fitted with {some(names)} there{nearest(text, names)}"
            )
        return level
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if not abs(found) < float("inf"):
        raise InputError(f"{option} has {name}={text}, but {name} is a number; give one, such as {name}=1")
    return found


def _same(level: Any, text: str) -> bool:
    """Whether a text names a level; of numbers 1 and 1.0 are the same."""
    if str(level) == text or (isinstance(level, bool) and str(level).lower() == text.lower()):
        return True
    try:
        return not isinstance(level, str) and float(level) == float(text)
    except ValueError:
        return False
