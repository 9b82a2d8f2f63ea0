"""What was tried and what was chosen, for people to read and for solvers to use."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from dualembed.saddle import Saddle
from dualembed.solvers.base import Solver


@dataclasses.dataclass(frozen=True)
class Choice:
    """One choice.

    Attributes
    ----------
    question : str
        What was to be chosen.
    answer : str
        What was, in words.
    numbers : dict of float
        The numbers it was made by.
    """

    question: str
    answer: str
    numbers: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in self.numbers.items())
        return f"{self.question}: {self.answer}" + (f" ({numbers})" if numbers else "")


@dataclasses.dataclass(frozen=True)
class Selection:
    """Every choice in order, one line each.

    Attributes
    ----------
    steps : tuple of Choice
        The choices.
    """

    steps: tuple[Choice, ...]

    def __str__(self) -> str:
        return "\n".join(str(step) for step in self.steps)


@dataclasses.dataclass(frozen=True)
class Record(Selection):
    """The choices with what they add up to, ready to be solved again.

    Attributes
    ----------
    steps : tuple of Choice
        The choices.
    saddle : Saddle
        The saddle that they add up to.
    solver : Solver or None
        The solver that solved it.
    """

    saddle: Saddle = dataclasses.field(repr=False)
    solver: Solver | None = dataclasses.field(default=None, repr=False)
