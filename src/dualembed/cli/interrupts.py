"""Ctrl-C during work in compiled code."""

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
def ending_at_once() -> Iterator[None]:
    """While the block runs, which must write no files, Ctrl-C ends the process with the code of an interruption.

    An exception would come up wherever Python happens to be. Inside a callback of JAX it is lost and the work goes on,
    or it is not expected and the process crashes. In somebody else's process it stays an exception nevertheless.
    """
    ours = own_process and threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: Any) -> None:
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # the cursor, which a spinner hides
    os._exit(INTERRUPTED)
