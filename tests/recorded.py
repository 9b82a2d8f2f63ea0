"""Data recorded elsewhere, which some tests read. Where their folder is, so are the files, and no test is left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("DUALEMBED_DATA", Path(__file__).parents[2] / "shared" / "data"))
MISSING = f"there are no recorded data at {DATA}; set DUALEMBED_DATA to their folder"

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=MISSING)


def skip_without_data() -> None:
    """As `needs_data`, for fixtures."""
    if not DATA.is_dir():
        pytest.skip(MISSING)
