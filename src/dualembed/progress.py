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

    def __init__(
        self, total: int | None, label: str, stream: TextIO | None, patience: float, whole: Tracker | None = None
    ) -> None:
        self.total = total
        self.label = label
        self.step = 0
        self._stream = stream
        self._show_at = time.monotonic() + patience
        self._bar: Any = None
        self._task: Any = None
        self._whole = whole  # of which this is a part, which is shown in its place
        self.stages = total is None

    def advance(self, to: int) -> None:
        """Record that `to` steps are done, and draw the bar when it is time."""
        self.step = int(to)
        if self._whole is not None:
            self._whole._draw(self.step)
        else:
            self._draw(self.step)

    def _draw(self, step: int) -> None:
        now = time.monotonic()
        if self._stream is None or now < self._show_at:
            return
        if self._bar is None:
            self._open()
        self._show_at = now + _REDRAW_SECONDS
        self._bar.update(self._task, completed=step, refresh=True)

    def _show(self, part: Tracker) -> None:
        """Show the part that begins."""
        self.total, self.label = part.total, part.label
        if self._bar is not None:
            self._bar.reset(self._task, description=self.label)
            self._bar.tasks[0].total = self.total  # which reset leaves as it is where there is none
        self._draw(0)

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

_outermost: Tracker | None = None


@contextmanager
def track(
    total: int | None, label: str, *, stream: TextIO | None = None, patience: float = PATIENCE
) -> Iterator[Tracker]:
    """A `Tracker` of `total` steps (None: unknown), shown on a terminal after `patience` seconds.

    >>> with track(3, "counting") as tracker:
    ...     for step in range(3):
    ...         tracker.advance(to=step + 1)

    Nothing is shown when standard error is not a terminal. Of nested trackers only the outermost is
    shown, since two bars would overwrite each other; one that does not know its total shows the part
    that is under way.
    """
    global _outermost
    stream = sys.stderr if stream is None else stream
    if _outermost is not None:
        whole = _outermost if _outermost.stages else None
        tracker = Tracker(total, label, None, patience, whole)
        if whole is not None:
            whole._show(tracker)
        yield tracker
        return
    tracker = Tracker(total, label, stream if _is_terminal(stream) else None, patience)
    if tracker._stream is None:
        yield tracker
        return
    _outermost = tracker
    try:
        yield tracker
    finally:
        _outermost = None
        tracker._close()


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # a closed stream
        return False
