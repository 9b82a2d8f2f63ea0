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

NOTHING = "stopped; nothing was written"


class Stopped(BaseException):
    """Ctrl-C, with a sentence on what has become of the work; no KeyboardInterrupt, of which Typer keeps no words."""


@contextmanager
def saying(sentence: str) -> Iterator[None]:
    """While the block runs, Ctrl-C raises `Stopped` with the sentence."""
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped(sentence) from None


@contextmanager
def ending_at_once(sentence: str = NOTHING) -> Iterator[None]:
    """While the block runs, Ctrl-C ends the process with the code of an interruption, after the sentence.

    The block must write no files but such as may be cut short. An exception would come up wherever Python happens to
    be. Inside a callback of JAX it is lost and the work goes on, or it is not expected and the process crashes. It
    stays an exception nevertheless in somebody else's process, and while other processes do the work: waiting for them
    is all that is interrupted then, and they are to be ended first.
    """
    with saying(sentence), _handled(sentence):
        yield


@contextmanager
def _handled(sentence: str) -> Iterator[None]:
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
