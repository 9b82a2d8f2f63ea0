"""From a table to its report leads a short way: few functions in few files, so that a reader can follow it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import dualembed
from dualembed.cli import main
from dualembed.examples import TRANSITIONS

MOST_FUNCTIONS = 615
MOST_FILES = 80
SOURCE = Path(dualembed.__file__).parent


def import_all() -> None:
    """Imports every module outside experiments, since what runs on import is no part of the way."""
    for found in pkgutil.walk_packages(dualembed.__path__, "dualembed."):
        if "experiments" not in found.name and not found.name.endswith("__main__"):
            importlib.import_module(found.name)


def passed(work: Callable[[], object]) -> set[CodeType]:
    """Functions of dualembed that ran, in any thread; expressions with a scope of their own are their function's."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    named = (code for code in codes if code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<"))
    return {code for code in named if Path(code.co_filename).is_relative_to(SOURCE)}


def test_a_fit_with_its_report_passes_few_functions(tmp_path: Path) -> None:
    columns = ["--state", "stock,demand", "--reward", "profit", "--episode", "shop", "--discount", "0.95"]
    files = ["--out", str(tmp_path / "model.dualembed"), "--report", str(tmp_path / "report.html")]
    import_all()
    functions = passed(lambda: main(["fit", "policy-evaluation", str(TRANSITIONS), *columns, *files]))
    assert (tmp_path / "report.html").exists()
    assert len({(code.co_filename, code.co_qualname) for code in functions}) <= MOST_FUNCTIONS
    assert len({code.co_filename for code in functions}) <= MOST_FILES
