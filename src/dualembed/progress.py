"""A progress bar for work that lasts, and silence for everything else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TextIO

PATIENCE = 2.0
"""Seconds of work before a bar appears."""

_REDRAW_SECONDS = 0.1


class Tracker:
    """Work of `total` steps under a label; `advance(to=step)` says how far it has come.

    The bar is redrawn by `advance` itself and never by a thread of its own, so that nothing is left
    running when the work raises or the process forks.
    """

    def __init__(self, total: int | None, label: str, stream: TextIO | None, patience: float) -> None:
        self.total = total
        self.label = label
        self.step = 0
        self._stream = stream
        self._show_at = time.monotonic() + patience
        self._bar: Any = None
        self._task: Any = None

    def advance(self, to: int) -> None:
        """Record that `to` steps are done, and draw the bar when it is time."""
        self.step = int(to)
        now = time.monotonic()
        if self._stream is None or now < self._show_at:
            return
        if self._bar is None:
            self._open()
        self._show_at = now + _REDRAW_SECONDS
        self._bar.update(self._task, completed=self.step, refresh=True)

    def _open(self) -> None:
        # Imported here: most work ends before a bar is due, and rich takes a tenth of a second.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        console = Console(file=self._stream, soft_wrap=True)
        self._bar = Progress(*columns, console=console, auto_refresh=False, transient=True)
        self._task = self._bar.add_task(self.label, total=self.total)
        self._bar.start()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()


Track = Callable[[int | None, str], AbstractContextManager[Tracker]]
"""What code that reports progress is given: `track` itself, or a stand-in."""

_tracking = False


@contextmanager
def track(
    total: int | None, label: str, *, stream: TextIO | None = None, patience: float = PATIENCE
) -> Iterator[Tracker]:
    """A `Tracker` of `total` steps (None: unknown), shown on a terminal after `patience` seconds.

    >>> with track(3, "counting") as tracker:
    ...     for step in range(3):
    ...         tracker.advance(to=step + 1)

    Nothing is shown when standard error is not a terminal. Of nested trackers only the outermost is
    shown, since two bars would overwrite each other.
    """
    global _tracking
    stream = sys.stderr if stream is None else stream
    visible = not _tracking and _is_terminal(stream)
    tracker = Tracker(total, label, stream if visible else None, patience)
    _tracking = _tracking or visible
    try:
        yield tracker
    finally:
        if visible:
            _tracking = False
            tracker._close()


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # a closed stream
        return False
