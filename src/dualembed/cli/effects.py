"""What columns do, as the command line asks for it: `--derivative`, `--effect` and `--by` of `ask` and of `fit`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dualembed.answers import Question, Task
    from dualembed.cli.ask import Reader
    from dualembed.data.columns import Columns

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
By = Annotated[
    str | None,
    typer.Option("--by", metavar="COLUMN", help="A column, in each of whose groups of rows these effects are told."),
]

# COLUMN or COLUMN=A,B, any of which may stand in double quotes.
_TEXT = r'\s*(?:"((?:[^"]|"")*)"|([^"=,]+?))\s*'
EFFECT = re.compile(rf"{_TEXT}(?P<levels>={_TEXT},{_TEXT})?$")


def check_by(by: str | None, asked: int) -> None:
    """Raise where there is no effect to tell by a column."""
    from dualembed.checks import InputError

    if by is not None and not asked:
        raise InputError(f"--by {by!r} tells effects in groups of rows; say which, with --effect or --derivative")


def check_effects(task: Task, derivatives: Sequence[str], effects: Sequence[str], by: str | None) -> None:
    """Raise where a fit is asked for effects that it cannot tell."""
    from dualembed.checks import InputError

    given = {"--derivative": derivatives, "--effect": effects, "--by": by}
    idle = [option for option, value in given.items() if value]
    if idle and not task.effects:
        raise InputError(f"{idle[0]} is about effects of columns, which {task.name} has none of; leave it out")
    check_by(by, len(moves(derivatives, effects)))


def check_columns(
    task: Task, columns: Columns, derivatives: Sequence[str], effects: Sequence[str], by: str | None
) -> None:
    """Raise where f is of no such column, before it is waited for."""
    from dualembed.data.columns import no_such_column

    known = [name for role in task.asks for name in columns.get(role.word, ())]
    asked = [(option, name) for option, name, _ in moves(derivatives, effects)]
    for option, name in [*asked, *([] if by is None else [("--by", by)])]:
        if name not in known:
            raise no_such_column(name, known, f"{option} {name!r}")


def lead_with(
    model: Any, task: Task, derivatives: Sequence[str], effects_: Sequence[str], *, by: str | None = None
) -> None:
    """Make the effects that are asked for the headline of a fit."""
    from dualembed.cli.ask import Reader

    reader = Reader(Path("the fit"), model, task, drop=False)
    model.lead_with(*effects(reader, moves(derivatives, effects_), None), by=by)


def moves(derivatives: Sequence[str], effects: Sequence[str]) -> list[tuple[str, str, tuple[str, str] | None]]:
    """(option, column, the two levels where they are given) of the columns whose effects are asked for."""
    from dualembed.checks import InputError

    found: list[tuple[str, str, tuple[str, str] | None]] = [
        ("--derivative", name.strip(), None) for name in derivatives
    ]
    for text in effects:
        match = EFFECT.match(text)
        if match is None:
            raise InputError(
                f"--effect {text!r} is no effect; give a column, such as treated, and two of its levels where they are "
                "not 1 and 0, such as region=north,south"
            )
        name, *levels = ((quoted or plain or "").replace('""', '"').strip() for quoted, plain in _pairs(match.groups()))
        found.append(("--effect", name, None if match.group("levels") is None else (levels[0], levels[1])))
    return found


def _pairs(groups: Sequence[Any]) -> list[tuple[str | None, str | None]]:
    """Each text that stands in quotes or without them: (in quotes, without)."""
    name, _, first, second = groups[:2], groups[2], groups[3:5], groups[5:7]
    return [(each[0], each[1]) for each in (name, first, second)]


def effects(
    reader: Reader, moved: Sequence[tuple[str, str, tuple[str, str] | None]], points: Path | None
) -> list[Question]:
    """What columns do, each over the rows of the table, or over those of the fit."""
    from dualembed.checks import InputError

    if not moved:
        return []
    if not reader.task.effects:
        raise InputError(
            f"{moved[0][0]} is about effects of columns, which {reader.path} has none of; ask with --at and --minus"
        )
    rows = {} if points is None else reader.arguments(reader.table(points))
    over, found = reader.over(points), []
    for option, name, levels in moved:
        reader.column(name, option)
        if option == "--derivative":
            question: Question = reader.model.mean_derivative(name, **rows)
            words = f"the mean derivative of f along {name}"
        else:
            texts = levels or ("1", "0")
            treated, control = (reader.level(name, text, option) for text in texts)
            question = reader.model.average_effect(name, treated=treated, control=control, **rows)
            words = f"the average effect of {name}={texts[0]} against {texts[1]}"
        found.append(question.renamed(words + over))
    return found
