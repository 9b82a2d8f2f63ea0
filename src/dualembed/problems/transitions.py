"""What problems on transitions (s, ..., s') read of a sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualembed import checks
from dualembed.problems.base import columns_of, library, require
from dualembed.sources import Sample


def states_of(problem: str, sample: Sample, *needed: str) -> tuple[Any, Any]:
    """(state, next_state), both (B, d), in a sample that has every column the problem needs."""
    require(problem, sample, "state", *needed, "next_state")
    given = [np.shape(sample[name]) for name in ("state", "next_state")]
    if given[0] != given[1]:
        raise checks.InputError(f"state and next_state must have the same shape, but have {given[0]} and {given[1]}")
    return columns_of("state", sample["state"]), columns_of("next_state", sample["next_state"])


def optional(sample: Sample, name: str, default: float) -> Any:
    """The column (B,), or as many defaults."""
    rows = np.shape(sample["state"])[0]
    xp = library(sample)
    return xp.asarray(sample[name]) if name in sample else xp.full(rows, default, dtype=float)
