"""Places to write to, tried before the work rather than after it; and what is shown during it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dualembed.checks import InputError


def check_writable(option: str, path: Path, *others: Path) -> None:
    """Raise unless a file can be written there; none of the other files is to be lost by that."""
    from dualembed.files import folder_for_writing

    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file in it")
    for other in others:
        if path.resolve() == other.resolve():
            raise InputError(f"{option} {path} would overwrite another file of this command; name another")
    folder_for_writing(path.parent)


def check_ending(option: str, path: Path, endings: tuple[str, ...]) -> None:
    """Raise unless the name ends in one of the endings."""
    if not path.name.lower().endswith(endings):
        raise InputError(f"{option} {path} must end in one of {', '.join(endings)}, which says how to write it")


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner with these words while the block runs; on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
