"""Formulas for instrumental variables, in the forms of linearmodels and of fixest, as columns by role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from dualembed.checks import InputError
from dualembed.data.table import Table
from dualembed.data.terms import Side, plain_names, side_of, taken

FORMS = "'y ~ [x ~ z] + controls' or 'y ~ controls | x ~ z'"
OPENING, CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class Formula:
    """What a formula says, as the text of each role.

    Two forms are read: linearmodels' `y ~ [x ~ z] + controls`, and fixest's `y ~ controls | absorbed | x ~ z`, whose
    middle part may be left out. Without `x ~ z` all on the right is x, and the problem plain regression. Terms are
    names of columns, `a:b`, `a*b`, arithmetic within `I(...)`, `C(x)` for categories, and log, exp, sqrt, abs, poly and
    bs of columns; what is more than names takes formulaic (`pip install 'dualembed[formula]'`). A constant is always
    part of what is fitted: `0 +` and `- 1` only keep the first level of a category.

    Attributes
    ----------
    text : str
        The formula itself.
    outcome : str
        The term for y.
    treatments : str
        Terms for x, what the effect is of.
    controls : str
        Terms for what may move y itself and is held fixed; empty if there are none.
    instruments : str
        Terms for z; empty for plain regression.
    absorbed : str
        Names of factors whose levels each have an effect of their own; empty if there are none.

    Examples
    --------
    >>> Formula.of("lwage ~ [educ ~ nearc4] + exper + black")
    Formula('lwage ~ [educ ~ nearc4] + exper + black')
    >>> formula = Formula.of("y ~ age | firm + year | price ~ cost")
    >>> formula.treatments, formula.controls, formula.instruments, formula.absorbed
    ('price', 'age', 'cost', 'firm + year')
    """

    text: str
    outcome: str
    treatments: str
    controls: str = ""
    instruments: str = ""
    absorbed: str = ""

    def __repr__(self) -> str:
        return f"Formula({self.text!r})"

    @staticmethod
    def of(text: str) -> Formula:
        """The formula of a text.

        Parameters
        ----------
        text : str
            The text.

        Returns
        -------
        Formula
            What it says.

        Raises
        ------
        InputError
            If it has neither form.
        """
        if not isinstance(text, str):
            raise InputError(f"a formula must be text, such as {FORMS}, not {text!r}")
        main, *parts = _split(text, "|")
        outcome, right = _sides(main, text)
        stages = [part for part in parts if len(_split(part, "~")) > 1]
        others = [part for part in parts if len(_split(part, "~")) == 1]
        if len(stages) > 1 or len(others) > 1 or (stages and parts[-1] is not stages[0]):
            raise InputError(f"after its controls a formula has | factors | x ~ z, in this order, not {text!r}")
        right, bracket = _without_bracket(right, text)
        if bracket and stages:
            raise InputError(f"a formula has [x ~ z] or | x ~ z, not both, as {text!r} has; leave one out")
        absorbed = others[0] if others else ""
        if others and not absorbed:
            raise InputError(f"there is nothing between the | of {text!r}; name factors there, or leave one | out")
        if not bracket and not stages:
            return Formula(text, outcome, _given(right, "x", text), absorbed=absorbed)
        x, z = _sides(bracket or stages[0], text)
        return Formula(text, outcome, x, right, z, absorbed)

    def read(self, frame: Any) -> FormulaColumns:
        """The columns of a table by role.

        Parameters
        ----------
        frame : table
            A data frame of pandas, polars, Arrow or another library that narwhals knows, or a dictionary of columns.

        Returns
        -------
        FormulaColumns
            The columns, and how they were made.

        Raises
        ------
        InputError
            If a column is not there, a term cannot be made of it, or one stands for two roles.
        """
        table = arrow_table(frame)
        x, z, controls = (side_of(each, table) for each in (self.treatments, self.instruments, self.controls))
        outcome = side_of(self.outcome, table).columns(table)
        if outcome is None or outcome.num_columns != 1:
            raise InputError(f"the left of a formula must be one column, not {self.outcome!r}")
        treatments = x.columns(table)
        if treatments is None:
            raise InputError(f"a formula needs a column for x, which {self.treatments!r} is not; name one")
        names = plain_names(self.absorbed, table.column_names)
        if names is None:
            raise InputError(f"factors to absorb must be names of columns with + between them, not {self.absorbed!r}")
        found = FormulaColumns(
            outcome.column(0).to_numpy(),
            treatments,
            z.columns(table),
            controls.columns(table),
            taken(table, names) if names else None,
            outcome.column_names[0],
            (x, controls),
        )
        _check_once(found)
        return found


@dataclass(frozen=True, eq=False)
class FormulaColumns:
    """The columns that a formula names or makes, by role, one sample a row.

    Attributes
    ----------
    y : array of shape (n,)
        Outcomes.
    X : pyarrow.Table
        Treatments, by name.
    instruments : pyarrow.Table or None
        Instruments.
    controls : pyarrow.Table or None
        Controls.
    absorbed : pyarrow.Table or None
        Factors whose levels each have an effect of their own.
    outcome : str
        The name of y.
    sides : tuple of Side
        How X and controls were coded.
    """

    y: np.ndarray
    X: pa.Table
    instruments: pa.Table | None
    controls: pa.Table | None
    absorbed: pa.Table | None
    outcome: str
    sides: tuple[Side, Side]

    @property
    def table(self) -> Table:
        """X, y, instruments, controls and factors to absorb, as an estimator takes them."""
        given = {"instruments": self.instruments, "controls": self.controls, "absorb": self.absorbed}
        return Table.of(X=self.X, y=self.y, **given)

    def again(self, frame: Any) -> dict[str, pa.Table]:
        """X and controls of other rows, coded as the first were, for predictions.

        Parameters
        ----------
        frame : table
            Other rows of the same columns, those of y and of instruments aside.

        Returns
        -------
        dict
            X, and controls where there are some.

        Raises
        ------
        InputError
            If a column is not there, or has a category that the first rows did not have.
        """
        table = arrow_table(frame)
        found = {role: side.columns(table) for role, side in zip(("X", "controls"), self.sides, strict=True)}
        return {role: columns for role, columns in found.items() if columns is not None}


def arrow_table(frame: Any) -> pa.Table:
    """A table with names, of any library or a dictionary, in Arrow."""
    try:
        if isinstance(frame, dict):
            return pa.table({str(name): np.asarray(column) for name, column in frame.items()})
        known = nw.from_native(frame, pass_through=True)
        known = known.collect() if isinstance(known, nw.LazyFrame) else known
        if isinstance(known, nw.DataFrame):
            return known.to_arrow()
    except (pa.ArrowException, nw.exceptions.NarwhalsError) as error:
        raise InputError(f"the table of a formula could not be read ({error}); give columns of one kind each") from None
    raise InputError(f"a formula needs a table with names, such as a data frame or a dictionary, not {type(frame)}")


def _check_once(found: FormulaColumns) -> None:
    """Raise where one column stands for two roles."""
    tables = {"a treatment": found.X, "an instrument": found.instruments, "a control": found.controls}
    seen = {found.outcome: "the outcome"}
    for role, table in tables.items():
        for name in () if table is None else table.column_names:
            if name in seen:
                raise InputError(f"the formula has {name!r} both as {seen[name]} and as {role}; keep it in one place")
            seen[name] = role


def _sides(text: str, whole: str) -> tuple[str, str]:
    """What stands left and right of the ~."""
    sides = _split(text, "~")
    if len(sides) != 2:
        count = "no ~" if len(sides) == 1 else f"{len(sides) - 1} ~"
        raise InputError(f"a formula is of the form {FORMS}, but {text.strip()!r} has {count}")
    left, right = sides
    return _given(left, "left of the ~", whole), _given(right, "right of the ~", whole)


def _given(text: str, where: str, whole: str) -> str:
    if not text:
        raise InputError(f"the formula {whole!r} has nothing {where}; name a column there")
    return text


def _without_bracket(text: str, whole: str) -> tuple[str, str]:
    """(the terms outside of the brackets, what is in them or nothing)."""
    # What follows a name directly is a place in it, which terms refuse, unless it has a ~.
    spans = [
        (start, end)
        for start, end in _brackets(text)
        if "~" in text[start:end] or not text[:start].strip()[-1:].isalnum()
    ]
    if not spans:
        return text, ""
    if len(spans) > 1:
        raise InputError(f"a formula has one [x ~ z], not {len(spans)} as {whole!r}; put all of x and of z into one")
    start, end = spans[0]
    before, after = text[:start].strip(), text[end + 1 :].strip()
    if before[-1:] not in ("", "+") or after[:1] not in ("", "+", "-"):
        raise InputError(f"[x ~ z] must be a term of its own, with + before and after it, in {whole!r}")
    before = before[:-1].strip()
    after = after.removeprefix("+").strip() if not before else after
    return f"{before} {after}".strip(), text[start + 1 : end].strip()


def _brackets(text: str) -> Iterator[tuple[int, int]]:
    """Where [ and its ] are, outside of all other brackets."""
    start = 0
    for place, depth in _depths(text):
        if text[place] == "[" and depth == 1:
            start = place
        elif text[place] == "]" and depth == 0:
            yield start, place


def _split(text: str, mark: str) -> list[str]:
    """The parts between the marks that are outside of brackets and quotes, without space around them."""
    parts, begin = [], 0
    for place, depth in _depths(text):
        if text[place] == mark and depth == 0:
            parts.append(text[begin:place].strip())
            begin = place + 1
    return [*parts, text[begin:].strip()]


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """(place, how many brackets are open after it) of all that is outside of quotes."""
    depth, quote = 0, ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
            continue
        if letter in "`'\"":
            quote = letter
            continue
        depth += (letter in OPENING) - (letter in CLOSING)
        yield place, depth
    if quote or depth:
        raise InputError(f"a bracket or a quote is open or closed once too often in {text!r}")
