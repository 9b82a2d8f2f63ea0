"""The command line: `dualembed`, or `python -m dualembed.cli`.

Exit codes: 0 on success, 2 on bad input (one sentence on standard error), 130 when interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

SUCCESS, BAD_INPUT = 0, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line on the arguments (default: the process's own) and return its exit code."""
    from dualembed.cli.console import INTERRUPTED, NOTHING, Interrupted

    try:
        outcome = _run(arguments)
    except (KeyboardInterrupt, Interrupted) as interrupt:
        print(f"dualembed: {interrupt if isinstance(interrupt, Interrupted) else NOTHING}", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        sentence = _user_message(error)
        if sentence is None:
            raise
        print(f"dualembed: {sentence}", file=sys.stderr)
        return BAD_INPUT
    return outcome if isinstance(outcome, int) else SUCCESS


def _run(arguments: Sequence[str] | None) -> Any:
    """What the command gives back."""
    from dualembed.cli import console
    from dualembed.cli.app import command

    console.own_process = arguments is None
    outcome = command(arguments).main(arguments, prog_name="dualembed", standalone_mode=False)
    if outcome == console.INTERRUPTED:  # which Typer makes of Ctrl-C
        raise KeyboardInterrupt
    return outcome


def _user_message(error: Exception) -> str | None:
    """What to tell the user about bad input; None for any other error, which is ours."""
    if hasattr(error, "format_message"):  # the command line's own complaints about options and arguments
        return _missing(error) if type(error).__name__ == "MissingParameter" else str(error.format_message())
    # Asked without importing checks, which would bring NumPy: if it was not imported, it raised nothing.
    checks = sys.modules.get("dualembed.checks")
    if checks is not None and isinstance(error, checks.InputError):
        return str(error)
    return None


def _missing(error: Any) -> str:
    """What an argument or option that was left out is, and where all are explained."""
    from dualembed.cli.options import known_tasks

    parameter, command = error.param, error.ctx.command_path
    name, what = parameter.opts[0], str(parameter.help).rstrip(".")
    if parameter.param_type_name == "argument":
        name = str(parameter.metavar or parameter.name).strip("{}").upper()
    if name == "TASK":
        what = f"one of {', '.join(known_tasks())}"
    return f"{name} is missing: {what[0].lower()}{what[1:]}; `{command} --help` tells more"
