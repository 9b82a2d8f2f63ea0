"""Ctrl-C during work in compiled code, and in other processes."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dualembed.cli import INTERRUPTED

own_process = False
"""Whether the command line is the whole process, so that ending the one is ending the other."""


@contextmanager
def ending_at_once(saying: str = "") -> Iterator[None]:
    """While the block runs, Ctrl-C ends the process with the code of an interruption, after a sentence if one is given.

    The block must write no files but such as may be cut short. An exception would come up wherever Python happens to
    be. Inside a callback of JAX it is lost and the work goes on, or it is not expected and the process crashes. It
    stays an exception nevertheless in somebody else's process, and while other processes do the work: waiting for them
    is all that is interrupted then, and they are to be ended first.
    """
    try:
        with _handled(saying):
            yield
    except KeyboardInterrupt:
        print(_farewell(saying), end="", file=sys.stderr)
        raise


@contextmanager
def _handled(saying: str) -> Iterator[None]:
    ours = own_process and threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def end(*_: Any) -> None:
        if _others_work():
            raise KeyboardInterrupt
        # Past the buffer of standard error, whose emptying may be what was interrupted.
        cursor = "\x1b[?25h\n" if sys.stderr.isatty() else ""  # which a spinner hides
        os.write(sys.stderr.fileno(), (cursor + _farewell(saying)).encode())
        os._exit(INTERRUPTED)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _others_work() -> bool:
    processes = sys.modules.get("multiprocessing")  # if it was not imported, there are none
    return processes is not None and bool(processes.active_children())


def _farewell(saying: str) -> str:
    return f"dualembed: {saying}\n" if saying else ""
