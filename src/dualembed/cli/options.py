"""What the command line offers: the tasks it knows, options that commands share, and the help of `dualembed fit`."""

from __future__ import annotations

import copy
import functools
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from dualembed.answers.task import Task
from dualembed.data.roles import ROLES

Table = Annotated[
    Path, typer.Argument(metavar="TABLE", help="A CSV, Parquet or Arrow file, or a folder of Parquet files.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file that `dualembed fit` has written.")]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Drop rows that lack a number.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else.")]

INDEX = Path(__file__).parent.parent / "estimators" / "index.json"
PLUG_INS = "dualembed.estimators"  # entry points: the name of a task, and the class that has it
ASKED = "dualembed.task"  # where a context keeps the task that help is asked about
WIDTH = 76
IN_FORMULAS = ("X", "y", "instruments", "controls")  # roles that a formula names
COLUMNS = (
    "COLUMNS are names with commas between them, or the start of names with an asterisk, as in 's*'; a name with a "
    "comma in it stands in double quotes, as in '\"left, right\",speed'. Text names categories."
)


@functools.cache
def _index() -> tuple[Task, ...]:
    """The library's own tasks, without an import of the estimators that they are of."""
    return tuple(Task.from_dict(record) for record in json.loads(INDEX.read_text(encoding="utf-8")))


def known_tasks() -> dict[str, Task]:
    """Every task by its name, in the order in which they are listed."""
    found = {task.name: task for task in _index()}
    registry = sys.modules.get("dualembed.estimators.registry")
    others = {} if registry is None else registry.ESTIMATORS
    return found | {name: each.task for name, each in others.items() if each.task.examples and name not in found}


def load_plug_in(words: Sequence[str]) -> None:
    """Import the estimator of another package whose task is named after `fit`, if it is none of those known."""
    asked = [word for word in words if not word.startswith("-")][:2]
    if len(asked) < 2 or asked[0] != "fit" or asked[1] in known_tasks():
        return
    from importlib.metadata import entry_points

    for point in entry_points(group=PLUG_INS, name=asked[1]):
        point.load()


def task_named(name: str) -> Task:
    """The task of that name, or a refusal with the nearest."""
    tasks = known_tasks()
    if name in tasks:
        return tasks[name]
    from dualembed.checks import InputError, nearest

    advice = nearest(name, tasks) or f"; choose one of: {', '.join(tasks)}"
    raise InputError(f"there is no task named '{name}'{advice}")


def estimator_of(task: Task) -> Any:
    """The class that has the task."""
    from dualembed import estimators  # noqa: F401  (which enters those of the library)
    from dualembed.estimators.registry import ESTIMATORS

    return ESTIMATORS[task.name]


def option_of(name: str) -> str:
    """The option of a setting, or of a role by the word for it.

    >>> option_of("next_state")
    '--next-state'
    """
    return f"--{name.replace('_', '-')}"


def takes_formula(task: Task) -> bool:
    """Whether --formula may stand in the place of a task's options for columns."""
    return {*IN_FORMULAS} <= {role.name for role in task.roles}


def examples(*given: tuple[str, str]) -> str:
    """A paragraph of commands, for tasks and arguments; long ones go on in further lines, before an option."""
    lines = ["\b", "Examples:"]
    for name, arguments in given:
        line = f"  dualembed fit {name}"
        for piece in re.split(r" (?=--)", arguments):
            if len(line) + len(piece) > WIDTH:
                lines.append(f"{line} \\")
                line = " " * 5
            line = f"{line} {piece}"
        lines.append(line)
    return "\n".join(lines)


def general() -> str:
    """The help of all tasks."""
    tasks = known_tasks()
    return "\n\n".join(
        [
            "Fit a model to a table and say what it found; --out keeps the model.",
            "\b\nTasks (dualembed fit TASK --help tells the options of one):\n"
            + "\n".join(f"  {name:<19}{task.line}" for name, task in tasks.items()),
            f"{COLUMNS} An option that is left out stands for the columns of its own name (state or state_*, reward, "
            'next_state, ...) where the table has them; --weight "" takes none.',
            examples(*((name, tasks[name].examples[0]) for name in ("policy-evaluation", "iv"))),
        ]
    )


class FitCommand(TyperCommand):
    """`fit`, whose help is about the task that is named beside it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The rest of the arguments; --help is answered while they are parsed, when no task is known yet."""
        ctx.meta[ASKED] = next((word for word in args if word in known_tasks()), None)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, of one task with its own options alone, those first that it needs."""
        name = ctx.meta.get(ASKED)
        shown = copy.copy(self)
        if name is not None:
            task = known_tasks()[name]
            shown.help = _about(task)
            shown.params = [_called(each, name) for each in sorted(self.params, key=_order(task))]
            shown.params = [each for each in shown.params if _of_use(each.name, task)]
        super(FitCommand, shown).format_help(ctx, formatter)


def _about(task: Task) -> str:
    """What a task does, which columns it needs and may have, and examples."""
    needs = [ROLES[name].option for name in task.needs if name not in task.derives]
    needs += [setting.option for setting in task.settings if setting.default is None and not setting.optional]
    derives = [ROLES[name].option for name in task.derives]
    takes = [ROLES[name].option for name in task.takes]
    derived = (
        f" Without {' and '.join(derives)} {'it is that' if len(derives) == 1 else 'they are those'} of the next row "
        "of the --episode, in the order of the rows or of --time."
    )
    return "\n\n".join(
        [
            f"Find {task.line}: {task.symbol}.",
            f"It needs {', '.join(needs)}; it may have {', '.join([*derives, *takes])}. An option that is left "
            f"out stands for the columns of its own name ({_own_names(task)}) where the table has them."
            f"{derived if derives else ''}",
            COLUMNS,
            examples(*((task.name, each) for each in task.examples)),
        ]
    )


def _own_names(task: Task) -> str:
    first, *others = (ROLES[name].word for name in task.needs)
    return f"{first} or {first}_*, {', '.join(others)}"


def _order(task: Task) -> Any:
    """A key to sort parameters by: arguments, what must be given, columns that may be, and the rest as it stands."""
    words = {role.name: role.word for role in task.roles}
    needs, takes = ([words[name] for name in names] for names in (task.needs, task.takes))
    first = ["task", "table", *needs, *(setting.name for setting in task.settings), *takes, "out"]
    return lambda parameter: first.index(parameter.name) if parameter.name in first else len(first)


def _of_use(parameter: str | None, task: Task) -> bool:
    if parameter == "formula":
        return takes_formula(task)
    if parameter in ("derivative", "effect", "by"):
        return task.effects
    return parameter not in set().union(*map(_words, known_tasks().values())) or parameter in _words(task)


def _words(task: Task) -> set[str]:
    """The parameters of the command that are a task's."""
    return {role.word for role in task.roles} | {setting.name for setting in task.settings}


def _called(parameter: Any, name: str) -> Any:
    """The parameter as it is of this task: the task's name as it is to be written, and columns as it speaks of them."""
    found = copy.copy(parameter)
    if parameter.name == "task":
        found.metavar, found.hidden = name, True
    words = {role.word: role.help for role in known_tasks()[name].roles}
    found.help = words.get(parameter.name, parameter.help)
    return found
