"""The terminal: spinner, interrupts, printed tables, JSON, and checks of where to write.

Ctrl-C must be heard from the first moment on, so that nothing is imported here but the standard library.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualembed.answers import Summary

INTERRUPTED = 130  # the exit code
SHOWN = 12  # answers of a printed table

own_process = False
"""Whether the command line is the whole process, so that ending the one is ending the other."""

NOTHING = "stopped; nothing was written"


class Interrupted(BaseException):
    """Ctrl-C, with a sentence on what has become of the work; no KeyboardInterrupt, of which Typer keeps no words."""


@contextmanager
def on_interrupt(sentence: str) -> Iterator[None]:
    """While the block runs, Ctrl-C raises `Interrupted` with the sentence."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(sentence) from None


@contextmanager
def exit_on_interrupt(sentence: str = NOTHING) -> Iterator[None]:
    """While the block runs, Ctrl-C ends the process with the code of an interruption, after the sentence.

    The block must write no files but such as may be cut short. An exception would come up wherever Python happens to
    be. Inside a callback of JAX it is lost and the work goes on, or it is not expected and the process crashes. It
    stays an exception nevertheless in somebody else's process, and while other processes do the work: waiting for them
    is all that is interrupted then, and they are to be ended first.
    """
    with on_interrupt(sentence), _handle_sigint(sentence):
        yield


@contextmanager
def _handle_sigint(sentence: str) -> Iterator[None]:
    ours = own_process and threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def end(*_: Any) -> None:
        if _others_work():
            raise KeyboardInterrupt
        # Past the buffer of standard error, whose emptying may be what was interrupted.
        cursor = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # which a spinner hides
        os.write(sys.stderr.fileno(), f"{cursor}dualembed: {sentence}\n".encode())
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _others_work() -> bool:
    processes = sys.modules.get("multiprocessing")  # if it was not imported, there are none
    return processes is not None and bool(processes.active_children())


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """A spinner with these words while the block runs; on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def check_writable(option: str, path: Path, *others: Path) -> None:
    """Raise unless a file can be written there; none of the other files is to be lost by that."""
    from dualembed.checks import InputError
    from dualembed.files import folder_for_writing

    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file in it")
    for other in others:
        if path.resolve() == other.resolve():
            raise InputError(f"{option} {path} would overwrite another file of this command; name another")
    folder_for_writing(path.parent)


def check_ending(option: str, path: Path, endings: tuple[str, ...]) -> None:
    """Raise unless the name ends in one of the endings."""
    from dualembed.checks import InputError

    if not path.name.lower().endswith(endings):
        raise InputError(f"{option} {path} must end in one of {', '.join(endings)}, which says how to write it")


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Print rows of text under heads, the first column to the left and the others to the right."""
    import typer
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    if title:  # not the table's own, which would be wrapped to its width
        typer.echo(title)
    grid = Table(show_header=any(heads))
    for place, head in enumerate(heads):
        grid.add_column(head, justify="right" if place and any(heads) else "left", overflow="fold")
    for row in rows:
        grid.add_row(*map(escape, row))
    Console().print(grid)


def print_columns(columns: Mapping[str, Sequence[str]], title: str) -> None:
    """Print a row for each meaning of columns, with their names."""
    rows = [[meaning.replace("_", " "), ", ".join(names)] for meaning, names in columns.items()]
    print_table(["", ""], rows, title=title)


def print_summary(summary: Summary) -> None:
    """Print what a fit has found: the answer, what else there is to say, the honest error, and warnings."""
    import typer

    for sentence in summary.sentences():
        typer.echo(sentence)
    heads, rows = summary.table()
    if rows:
        print_table(heads, rows[:SHOWN], title=f"{summary.findings.about}:")
    if len(rows) > SHOWN:
        typer.echo(f"{len(rows) - SHOWN} more are in --json.")
    if summary.findings.lines:
        typer.echo("\n".join(["", *summary.findings.lines, ""]))
    typer.echo(summary.error_text())
    for warning in summary.warnings:
        typer.echo(f"Warning: {warning}.")


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document; numbers that JSON lacks are null."""
    import typer

    typer.echo(json.dumps(_plain(document), ensure_ascii=False, allow_nan=False, indent=2))


def _plain(value: Any) -> Any:
    """The value in JSON's terms."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
        listed = value if isinstance(value, (list, tuple)) else value.tolist()
        return [_plain(each) for each in listed] if isinstance(listed, (list, tuple)) else _plain(listed)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
