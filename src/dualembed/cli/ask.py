"""`dualembed ask`: one number of a saved model, its error, and how much it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualembed.cli import options

if TYPE_CHECKING:
    from dualembed.answers import Answer

_HELP = "\n\n".join(
    [
        "Ask a model for one number: with its standard error, an interval, and a verdict on how much it rests on.",
        "Without a question it is the headline: what a policy is worth over the starts of episodes. --at asks about "
        "one place, --points about the mean over the rows of a table, and --minus takes another place off: the "
        "difference has its own error, which is not that of its two sides. Columns go by the names that the model was "
        "fitted to.",
        "Of effects (task iv) --derivative asks what one unit more of a column adds, and --effect what one level of it "
        "does against another, 1 against 0 where they are left out: on average over the rows of --points, or else over "
        "those that the model was fitted to.",
        "\b\nExamples:\n"
        "  dualembed ask value.dualembed\n"
        '  dualembed ask value.dualembed --at "x=1, speed=0" --minus "x=0, speed=0"\n'
        '  dualembed ask q.dualembed --at "x=1, move=left" --at "x=1, move=right" --level 0.9 --json\n'
        "  dualembed ask value.dualembed --points states.parquet\n"
        "  dualembed ask effect.dualembed --derivative price\n"
        "  dualembed ask effect.dualembed --effect treated --effect region=north,south --points people.csv",
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
Derivative = Annotated[
    list[str] | None,
    typer.Option("--derivative", metavar="COLUMN", help="A column, whose mean derivative is asked for."),
]
Effect = Annotated[
    list[str] | None,
    typer.Option(
        "--effect", metavar="COLUMN[=A,B]", help="A column, whose average effect is asked for: of A against B, or 1, 0."
    ),
]
Level = Annotated[float, typer.Option("--level", metavar="SHARE", help="How often the interval is to be right.")]


def ask(
    model: options.Model,
    at: At = None,
    minus: Minus = None,
    points: Points = None,
    derivative: Derivative = None,
    effect: Effect = None,
    level: Level = 0.95,
    drop_missing: options.DropMissing = False,
    as_json: options.AsJson = False,
) -> None:
    from dualembed.cli.interrupts import ending_at_once
    from dualembed.cli.models import loaded
    from dualembed.cli.places import working
    from dualembed.cli.printing import print_json
    from dualembed.cli.questions import Reader, contrasts, effects, moves
    from dualembed.data.io import check_there

    places, others, moved = at or [], minus or [], moves(derivative or [], effect or [])
    # A table is asked about itself, or is what a column's effect is taken over.
    _check(level, asked=len(places) + (points is not None and not moved), others=len(others))
    if points is not None:
        check_there(points.expanduser())
    with working("Asking"), ending_at_once():
        fitted, task = loaded(model)
        _check_errors(model, fitted)
        if moved or places or points is not None:
            reader = Reader(model, fitted, task, drop_missing)
            asked = reader.questions(places, None if moved else points)
            taken_off = reader.questions(others, option="--minus")
            answers = fitted.ask_all([*contrasts(asked, taken_off), *effects(reader, moved, points)])
        else:
            answers = [_headline(model, fitted)]
    found = {"task": task.name, "model": str(model), "answers": [_plain(each, level) for each in answers]}
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
