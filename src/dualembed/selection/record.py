"""What was tried and what was chosen, for people to read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from dualembed.saddle import Saddle
from dualembed.solvers.closed_form import ClosedForm


@dataclasses.dataclass(frozen=True)
class Step:
    """One choice: the question, the answer in words, and the numbers it was made by."""

    question: str
    answer: str
    numbers: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in self.numbers.items())
        return f"{self.question}: {self.answer}" + (f" ({numbers})" if numbers else "")


@dataclasses.dataclass(frozen=True)
class Record:
    """Every choice in order, and the saddle that they add up to, ready for any other solver.

    `solver` is the closed form that solved it; None where f was found otherwise.
    """

    steps: tuple[Step, ...]
    saddle: Saddle = dataclasses.field(repr=False)
    solver: ClosedForm | None = dataclasses.field(default=None, repr=False)

    def __str__(self) -> str:
        return "\n".join(str(step) for step in self.steps)
