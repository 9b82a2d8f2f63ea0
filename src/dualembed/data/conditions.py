"""Conditions on states in words, such as "s1 >= 1 and 0.2 <= s2 < 0.5": parsed, never run as code."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from dualembed.checks import InputError
from dualembed.data.columns import no_such_column

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
EXAMPLE = 'write it like "s1 >= 1 and 0.2 <= s2 < 0.5"'

# Neither may go on into a word: 1st is a name, and so is order.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?(?![\w.])")
JOINT = re.compile(r"(and|or)\b", re.IGNORECASE)
SIGN = re.compile("|".join(COMPARISONS))
QUOTED = re.compile(r"""(["'`])(?P<name>.+?)\1""")
WORD = re.compile(r"[^\s<>=!]+")


@dataclass(frozen=True)
class ColumnRef:
    """A state column, by its place among the columns."""

    place: int


@dataclass(frozen=True)
class Comparison:
    """left sign right, each side a state column or a number."""

    left: ColumnRef | float
    sign: str
    right: ColumnRef | float

    def __call__(self, states: Any) -> Any:
        left, right = (
            states[:, side.place] if isinstance(side, ColumnRef) else side for side in (self.left, self.right)
        )
        return COMPARISONS[self.sign](left, right)


@dataclass(frozen=True, repr=False)
class Condition:
    """A condition on states (n, d); `condition(text, names)` makes it.

    Attributes
    ----------
    text : str
        The condition as it was written.
    names : tuple of str
        Names of the states' columns.
    alternatives : tuple of tuple of Comparison
        It holds if all comparisons of one alternative hold.
    """

    text: str
    names: tuple[str, ...]
    alternatives: tuple[tuple[Comparison, ...], ...]

    def __repr__(self) -> str:
        return f"condition({self.text!r}, {list(self.names)})"

    def __call__(self, states: Any) -> Any:
        """Whether each state fulfils the condition.

        Parameters
        ----------
        states : array of shape (n, d) or (n,)
            States.

        Returns
        -------
        array of bool of shape (n,)
            Whether it does.
        """
        states = np.asarray(states) if hasattr(states, "to_numpy") or not hasattr(states, "ndim") else states
        if states.ndim == 1 and len(self.names) == 1:
            states = states[:, None]
        if states.ndim != 2 or states.shape[1] != len(self.names):
            raise InputError(
                f"the condition {self.text!r} is about states of shape (n, {len(self.names)}), but is given "
                f"{states.shape}; give the columns {', '.join(self.names)}"
            )
        alternatives = (reduce(operator.and_, (each(states) for each in parts)) for parts in self.alternatives)
        return reduce(operator.or_, alternatives)


def condition(text: str, names: Sequence[str]) -> Condition:
    """The condition that a text states about columns; the text is parsed, never run.

    Comparisons (>=, >, <=, <, ==, !=) of a column with a number or another column are joined by "and" and "or", of
    which "and" binds tighter. A name with signs or spaces in it, or one that reads as a number, stands in quotes.

    Parameters
    ----------
    text : str
        The condition.
    names : sequence of str
        Names of the states' columns.

    Returns
    -------
    Condition
        A function of states.

    Examples
    --------
    >>> inside = condition("s1 >= 1 or 0.2 <= s2 < 0.5", ["s1", "s2"])
    >>> inside([[1.0, 0.0], [0.0, 0.2], [0.0, 0.5]])
    array([ True,  True, False])
    """
    tokens = list(_tokens(text, names))
    alternatives = [_split(part, "and") for part in _split(tokens, "or")]
    compared = tuple(tuple(pair for part in parts for pair in _chain(part, text)) for parts in alternatives)
    return Condition(text, tuple(names), compared)


Token = ColumnRef | float | str


def _tokens(text: str, names: Sequence[str]) -> Iterator[Token]:
    """Columns, numbers, signs of comparison, and the words and, or."""
    longest_first = sorted(names, key=len, reverse=True)
    place = 0
    while place < len(text):
        rest = text[place:]
        if rest[0].isspace():
            place += 1
            continue
        token, length = _token(rest, text, names, longest_first)
        yield token
        place += length


def _token(rest: str, text: str, names: Sequence[str], longest_first: Sequence[str]) -> tuple[Token, int]:
    """(the first token of the rest, its length)."""
    if found := NUMBER.match(rest):
        return float(found[0]), len(found[0])
    if found := JOINT.match(rest):
        return found[0].lower(), len(found[0])
    if found := SIGN.match(rest):
        return found[0], len(found[0])
    if found := QUOTED.match(rest):
        if found["name"] not in names:
            raise no_such_column(found["name"], names, f"the condition {text!r}, which is one on states,")
        return ColumnRef(names.index(found["name"])), len(found[0])
    for name in longest_first:
        if name and rest.startswith(name) and not re.match(r"\w", rest[len(name) :] if name[-1].isalnum() else ""):
            return ColumnRef(names.index(name)), len(name)
    word = WORD.match(rest)
    if word is None or rest[0] in "()&|":
        if rest[0] == "=":
            raise InputError(f"the condition {text!r} cannot be read at {rest[:12]!r}; is equal is written ==")
        raise InputError(f"the condition {text!r} cannot be read at {rest[:12]!r}; {EXAMPLE}, without parentheses")
    raise no_such_column(word[0], names, f"the condition {text!r}, which is one on states,")


def _split(tokens: Sequence[Token], word: str) -> list[list[Token]]:
    """The tokens between each two of that word."""
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token == word:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _chain(tokens: Sequence[Token], text: str) -> Iterator[Comparison]:
    """a < b <= c as a < b and b <= c."""
    sides = [each for each in tokens[::2] if not isinstance(each, str)]
    signs = [each for each in tokens[1::2] if isinstance(each, str)]
    if not signs or len(sides) != len(signs) + 1 or len(sides) + len(signs) != len(tokens):
        raise InputError(f"the condition {text!r} has a part that is no comparison of a column and a number; {EXAMPLE}")
    for left, sign, right in zip(sides[:-1], signs, sides[1:], strict=True):
        if not (isinstance(left, ColumnRef) or isinstance(right, ColumnRef)):
            raise InputError(f"the condition {text!r} compares two numbers; {EXAMPLE}")
        yield Comparison(left, sign, right)
