"""What an estimator is for: a record on its class, which command line, report, plots and saving read."""

from __future__ import annotations

import dataclasses
from typing import Any

from dualembed.data.roles import ROLES, Role


@dataclasses.dataclass(frozen=True)
class Setting:
    """A parameter of the constructor that is an option of the command line: a number, or a `condition` on states."""

    name: str
    help: str
    default: float | None = None  # None where it must be given
    condition: bool = False

    @property
    def option(self) -> str:
        """The option's name."""
        return f"--{self.name.replace('_', '-')}"


@dataclasses.dataclass(frozen=True)
class Task:
    """A kind of problem, in the words that are shown of it, and the roles of columns in it.

    Parameters
    ----------
    name, line
        What the command line calls it, and its line in the help.
    title, question, function, equation
        For people: a heading, what is asked, what f is, and what its equation says.
    symbol, noun
        f in a formula, and in a word, such as "V(s)" and "value"; the word may be empty.
    row
        What one row of the data is.
    error
        What the honest error is.
    mean
        A sentence about f over the rows of a table, with the places {mean}, {lowest} and {highest}.
    needs, takes
        Roles of `fit`, those it must have and those it may, by their names.
    inputs
        Roles that f depends on, in the order of its coordinates: the arguments of `predict`.
    context
        Roles that the witness depends on.
    settings
        Parameters of the constructor that are options of the command line.
    examples
        Arguments of `dualembed fit` after the task; without any, the command line cannot fit it.
    """

    name: str
    line: str
    title: str
    question: str
    function: str
    equation: str
    symbol: str
    noun: str = ""
    row: str = "row"
    error: str = "mean squared error of the equation"
    mean: str = "f is {mean} on average over the table's rows, from {lowest} to {highest}."
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    examples: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What f is called beside an axis, such as "value V(s)"."""
        return f"{self.noun} {self.symbol}".strip()

    @property
    def roles(self) -> list[Role]:
        """All roles of `fit`, those that it needs first."""
        return [ROLES[name] for name in (*self.needs, *self.takes)]

    @property
    def asks(self) -> list[Role]:
        """The roles of `predict`."""
        return [ROLES[name] for name in self.inputs]

    def to_dict(self) -> dict[str, Any]:
        """The record in terms that JSON has."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_dict(record: dict[str, Any]) -> Task:
        """The task of a record that `to_dict` gave."""
        found: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in record.items()}
        found["settings"] = tuple(Setting(**each) for each in record["settings"])
        return Task(**found)
