"""`dualembed ask`: one number of a saved model, its error, and how much it rests on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualembed.cli import options

if TYPE_CHECKING:
    import pyarrow as pa

    from dualembed.answers import Answer, Question
    from dualembed.cli.roles import Columns
    from dualembed.cli.tasks import Task

# One of name=value, either of which may stand in double quotes, as in a CSV file.
PART = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^"=,]*?))\s*=\s*(?:"((?:[^"]|"")*)"|([^",]*?))\s*(?:,|$)')

_HELP = "\n\n".join(
    [
        "Ask a model for one number: with its standard error, an interval, and a verdict on how much it rests on.",
        "Without a question it is the headline: what a policy is worth over the starts of episodes. --at asks about "
        "one place, --points about the mean over the rows of a table, and --minus takes another place off: the "
        "difference has its own error, which is not that of its two sides. Columns go by the names that the model was "
        "fitted to.",
        "\b\nExamples:\n"
        "  dualembed ask value.dualembed\n"
        '  dualembed ask value.dualembed --at "x=1, speed=0" --minus "x=0, speed=0"\n'
        '  dualembed ask q.dualembed --at "x=1, move=left" --at "x=1, move=right" --level 0.9 --json\n'
        "  dualembed ask value.dualembed --points states.parquet",
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
    level: Level = 0.95,
    drop_missing: options.DropMissing = False,
    as_json: options.AsJson = False,
) -> None:
    from dualembed.cli.interrupts import ending_at_once
    from dualembed.cli.models import loaded
    from dualembed.cli.places import working
    from dualembed.cli.printing import print_json
    from dualembed.data.tables import check_there

    places, others = at or [], minus or []
    _check(level, asked=len(places) + (points is not None), others=len(others))
    if points is not None:
        check_there(points.expanduser())
    with working("Asking"), ending_at_once():
        fitted, name, task = loaded(model)
        _check_errors(model, fitted)
        if places or points is not None:
            asked = _questions(model, fitted, task, places=places, points=points, drop=drop_missing)
            taken_off = _questions(model, fitted, task, places=others, option="--minus")
            answers = fitted.ask_all(_contrasts(asked, taken_off))
        else:
            answers = [_headline(model, fitted)]
    found = {"task": name, "model": str(model), "answers": [_plain(each, level) for each in answers]}
    if as_json:
        print_json(found)
    else:
        _show(found)


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


def _headline(path: Path, model: Any) -> Answer:
    """The policy's value over the starts of episodes."""
    from dualembed.checks import InputError

    if not hasattr(model, "starts_"):
        raise InputError(f'{path} has no headline to ask for; give a question, such as --at "column=value" or --points')
    if model.starts_ is None:
        way = "the policy itself in Python" if hasattr(model, "actions_") else "--episode"
        raise InputError(
            f"{path} does not know what its policy does at the starts of episodes, over which its value is taken; fit "
            f"it with {way}, or ask with --at or --points"
        )
    found: Answer = model.value()
    return found


def _questions(
    path: Path,
    model: Any,
    task: Task,
    *,
    places: Sequence[str],
    points: Path | None = None,
    drop: bool = False,
    option: str = "--at",
) -> list[Question]:
    """One question for each place, and one for the table."""
    from dualembed.cli.inputs import arguments, complete
    from dualembed.cli.models import check_columns, columns_for_predicting
    from dualembed.cli.printing import counted
    from dualembed.data.tables import read_table

    columns = columns_for_predicting(path, model, task)
    known = _known(model, columns)
    tables = [(_table(known, place, option), f"{task.symbol} at {' '.join(place.split())}") for place in places]
    if points is not None:
        whole = read_table(points)
        check_columns(columns, whole.column_names, path)
        kept, _ = complete(whole, columns, drop=drop)
        tables.append((kept, f"{task.symbol} on average over {counted(kept.num_rows, 'row')} of {points}"))
    categories = [name for name, column in known.items() if column.levels]
    found: list[Question] = [
        model.at(**arguments(table, columns, task.asks, categories=categories)).renamed(words)
        for table, words in tables
    ]
    return found


def _known(model: Any, columns: Columns) -> dict[str, Any]:
    """How each of the columns that the model asks for is coded, by name; of a copy, how the other is."""
    codings = {"state": model.coding_, "x": model.coding_}
    codings |= {"action": getattr(model, "actions_", None), "control": getattr(model, "controls_", None)}
    found = {}
    for role, names in columns.items():
        coded = codings[role].columns
        for name, column in zip(names, coded, strict=True):
            found[name] = column if column.copy_of is None else coded[column.copy_of]
    return found


def _contrasts(asked: list[Question], taken_off: list[Question]) -> list[Question]:
    """Each question less that of the same place, or less the only one."""
    if not taken_off:
        return asked
    others = taken_off * len(asked) if len(taken_off) == 1 else taken_off
    return [each - other for each, other in zip(asked, others, strict=True)]


def _table(known: Mapping[str, Any], place: str, option: str) -> pa.Table:
    """The place as a table of one row."""
    import pyarrow as pa

    from dualembed.checks import InputError
    from dualembed.data.columns import no_such_column
    from dualembed.data.refusal import some

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
    from dualembed.checks import InputError
    from dualembed.data.refusal import nearest, some

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


def _plain(answer: Answer, level: float) -> dict[str, Any]:
    """The answer in terms that JSON has."""
    lower, upper = answer.interval(level)
    return {
        "question": answer.question,
        "value": answer.value,
        "stderr": answer.stderr,
        "lower": lower,
        "upper": upper,
        "level": level,
        "freedom": answer.freedom,
        "verdict": None if answer.verdict is None else str(answer.verdict),
        "warnings": list(answer.warnings),
        "negative": answer.negative,
        "effective": answer.effective,
    }


def _show(found: Mapping[str, Any]) -> None:
    """Print the answers, for people."""
    for number, answer in enumerate(found["answers"]):
        if number:
            typer.echo("")
        question = answer["question"]  # a symbol such as h(s) stays as it is
        shown = f"The{question[3:]}" if question.startswith("the ") else question
        typer.echo(f"{shown}: {_in_words(answer)}.")
        if answer["verdict"] is None:
            typer.echo("Verdict: none, for this kind of fit does not know how much of the data an answer rests on.")
        else:
            typer.echo(f"Verdict: {answer['verdict']}.")
        for warning in answer["warnings"]:
            typer.echo(f"Warning: {warning}.")


def _in_words(answer: Mapping[str, Any]) -> str:
    import math

    from dualembed.cli.printing import give_or_take, number

    if not math.isfinite(answer["stderr"]):
        return f"{number(answer['value'])}, with an error that the data cannot tell"
    said = give_or_take(answer["value"], answer["stderr"])
    return f"{said} ({100 * answer['level']:g} % interval {number(answer['lower'])} to {number(answer['upper'])})"
