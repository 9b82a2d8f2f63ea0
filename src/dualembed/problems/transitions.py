"""What problems on transitions (s, ..., s') check at the entrance, each with one clear sentence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.sources import Sample

NEAR_NAMES = {
    "terminated": ("done", "dones", "terminal", "terminals"),
    "weight": ("weights", "rho"),
}


def check_names(columns: Iterable[str]) -> None:
    """Raise where a column has another library's name for one that is missing here: it would not be read."""
    for meant, others in NEAR_NAMES.items():
        for name in others:
            if name in columns and meant not in columns:
                hint = "1 where nothing follows, 0 at a time limit" if meant == "terminated" else "π(a|s) / π_b(a|s)"
                raise checks.InputError(
                    f"a column {name} is not read here: rename it to {meant} ({hint}), or leave it out"
                )


def check_vectors(sample: Sample, *names: str) -> None:
    """Raise unless every one of these columns that is there has one number a row."""
    rows = np.shape(sample["state"])[:1]
    for name in names:
        if name in sample and np.shape(sample[name]) != rows:
            raise checks.InputError(f"{name} must have shape {rows}, but has {np.shape(sample[name])}")


def check_marks(sample: Sample, name: str, hint: str) -> None:
    """Raise unless the column, where it is there, is 0 or 1 throughout."""
    marks = sample.get(name)
    if marks is None or checks.traced(marks):
        return
    strange = np.asarray(marks)[~np.isin(np.asarray(marks), (0, 1))]
    if strange.size:
        raise checks.InputError(f"{name} must be 0 or 1, not {strange.flat[0]}; {hint}")


def check_not_negative(sample: Sample, name: str, hint: str) -> None:
    """Raise unless the column, where it is there, has no negative number and no NaN."""
    values = sample.get(name)
    if values is None or checks.traced(values):
        return
    lowest = np.min(np.asarray(values))
    if not lowest >= 0:
        raise checks.InputError(f"{name} must not be negative, not {lowest}; {hint}")


def check_discount(discount: Any) -> None:
    """Raise unless 0 <= discount <= 1; whether 1 will do depends on the samples."""
    hint = "give a number of at least 0 and below 1, such as 0.99"
    checks.not_negative("discount", discount, hint)
    checks.single("discount", discount)
    if not checks.traced(discount) and np.any(np.asarray(discount) > 1):
        raise checks.InputError(f"discount must not be above 1, not {discount!r}; {hint}")


def check_endings(sample: Sample, discount: Any) -> None:
    """Raise where nothing is discounted and nothing ends; a matter of the whole data set, not of one batch of it."""
    ends = sample.get("terminated", np.zeros(1))
    if checks.traced(discount, ends) or np.any(np.asarray(discount) < 1):
        return
    if not np.any(np.asarray(ends)):
        raise checks.InputError(
            "discount must be below 1, not 1, unless a column terminated marks transitions that end an episode, since "
            "otherwise V plus any constant is a solution too; lower the discount or give that column"
        )
