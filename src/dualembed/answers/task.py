"""What an estimator is for: a record on its class, which command line, report, plots and saving read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from dualembed.data.roles import ROLES, Role

if TYPE_CHECKING:
    from dualembed.answers.answer import Answer
    from dualembed.answers.question import Question
    from dualembed.answers.summary import Summary
    from dualembed.data.coding import Coding, Schema
    from dualembed.linear.fit import LinearFit
    from dualembed.linear.moment_fit import Spread, Uncertainty
    from dualembed.saddle import DualFunction
    from dualembed.spaces.base import Function


@dataclasses.dataclass(frozen=True)
class Setting:
    """A parameter of the constructor that is an option of the command line.

    It is a number, whole where its default is, a `condition` on states, or one of several `words`. Without a default it
    must be given, unless it is `optional`. `called` is the word that the command line has for it, where that is another
    than its name.
    """

    name: str
    help: str
    default: float | str | bool | None = None
    condition: bool = False
    words: tuple[str, ...] = ()
    optional: bool = False
    called: str = ""

    @property
    def option(self) -> str:
        """The option's name."""
        return f"--{(self.called or self.name).replace('_', '-')}"


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
    noisy_error
        Whether the noise of y is a part of it, as where the context tells y: then it is never zero.
    mean
        A sentence about f over the rows of a table, with the places {mean}, {lowest} and {highest}.
    needs, takes
        Roles of `fit`, those it must have and those it may, by their names.
    derives
        Those of `needs` that are known from the next row of an episode where they are not given.
    inputs
        Roles that f depends on, in the order of its coordinates: the arguments of `predict`.
    context
        Roles that the witness depends on.
    settings
        Parameters of the constructor that are options of the command line.
    effects
        Whether it can be asked what moving a column does.
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
    noisy_error: bool = False
    mean: str = "f is {mean} on average over the data's rows, from {lowest} to {highest}."
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    derives: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    effects: bool = False
    examples: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What f is called beside an axis, such as "value V(s)"."""
        return f"{self.noun} {self.symbol}".strip()

    @property
    def the_function(self) -> str:
        """What f is called in a sentence, such as "the value V(s)"."""
        return f"the {self.label}" if self.noun else self.symbol

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
        fields: dict[str, Any] = {
            name: tuple(each) if isinstance(each, list) else each for name, each in record.items()
        }
        settings = [{**each, "words": tuple(each.get("words", ()))} for each in record["settings"]]
        fields["settings"] = tuple(Setting(**each) for each in settings)
        return Task(**fields)


class Fitted(Protocol):
    """All that reports, figures and the command line know of a model.

    `uncertainty_` has the spreads that f's standard errors come from, `witness_` is that of the witness, and `sample_`
    has the points of the rows that means are taken over; each is None where there is none. Codings say how tables are
    coded: f's own, and those that the witness depends on.
    """

    task: Task
    uncertainty_: LinearFit | Spread | Uncertainty | None
    witness_: Spread | None
    function_: Function
    dual_: DualFunction
    schema_: Schema
    diagnostics_: Any
    sample_: Any
    fit: Any

    @property
    def task_(self) -> Task: ...

    @property
    def columns_(self) -> dict[str, list[str]] | None: ...

    def __sklearn_is_fitted__(self) -> bool: ...

    def summary(self) -> Summary: ...

    def ask(self, question: Question) -> Answer: ...

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...

    def _codings(self) -> list[Coding]: ...

    def _quantile(self, level: float) -> float: ...

    def _episodes(self, tables: Mapping[str, Any]) -> Any: ...

    def _point_codings(self) -> list[Coding]: ...

    def _context_codings(self) -> list[Coding]: ...
