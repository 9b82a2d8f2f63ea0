"""What a fit knows about itself, in sentences: how much the data determine, and how strong the instruments are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dualembed.report.html import number, percent

WEAK, STRONG = 0.05, 0.2  # shares of a column's variance that instruments predict; below the first is a warning
MOST = 8  # columns that are spoken of


def facts(diagnostics: Any) -> Iterator[str]:
    """All that there is to say, a sentence each."""
    if diagnostics.degrees_of_freedom is not None:
        yield (
            f"The data determine about {diagnostics.degrees_of_freedom:.1f} directions of the function; the rest is "
            "smoothness that was assumed."
        )
    if diagnostics.residual_variance is not None:
        yield f"The noise of a single row has a variance of about {number(diagnostics.residual_variance)}."
    yield from strengths(diagnostics)
    if diagnostics.overlap is not None:
        yield (
            f"After importance weighting the data are worth {diagnostics.overlap.effective_sample_size:,.0f} rows "
            f"({percent(diagnostics.overlap.share)}); the largest weight is {number(diagnostics.overlap.largest)} "
            "times the mean."
        )


def strengths(diagnostics: Any) -> Iterator[str]:
    """How strong the instruments are for the columns that they are to move, the weakest first."""
    told: dict[str, list[str]] = {}
    for name, share in sorted(diagnostics.first_stage, key=lambda each: each[1])[:MOST]:
        told.setdefault(_strength(share), []).append(f"{name} ({percent(share)})")
    for strength, names in told.items():
        yield (
            f"The instruments are {strength} for {', '.join(names)}: that share of the variance they predict, on rows "
            "left out."
        )


def _strength(share: float) -> str:
    if share < WEAK:
        return "weak"
    return "strong" if share >= STRONG else "of middling strength"
