"""The terms of one side of a formula as named columns: plain names as they are, all others made by formulaic.

A formula may come from a command line, and formulaic evaluates what it holds as Python. So every factor is looked
through first: columns, numbers, arithmetic and a short list of functions, and nothing else.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from dualembed.checks import InputError, nearest
from dualembed.data.columns import missing_rows, no_such_column
from dualembed.data.frames import describe_rows

# What may be called, with the options that may be given by name. Each takes a column or an expression of columns.
FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "log": (), "log2": (), "log10": (), "exp": (), "sqrt": (), "abs": (), "I": (), "C": ("levels",),
    "poly": ("degree", "raw"),
    "bs": ("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound"),
}  # fmt: skip
OF_NUMPY = ("log", "log2", "log10", "exp", "sqrt", "abs")
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.Mod, ast.BitAnd, ast.BitOr)
MOST = 100  # as a power, a degree or a number of functions: more is a mistake, or meant to run for ever
CONTEXT = {"sqrt": np.sqrt, "abs": np.abs}  # formulaic has the others
NAME = re.compile(r"`([^`]+)`|([^\W\d][\w.]*)")


@dataclass(frozen=True)
class Side:
    """Some terms of a formula and how they were coded, so that other rows are coded alike.

    `names` are those of columns that are taken as they are; `coding` is formulaic's where terms had to be made.
    """

    text: str
    names: tuple[str, ...] = ()
    coding: Any = None

    def columns(self, table: pa.Table) -> pa.Table | None:
        """The terms as columns of other rows, coded as the first were; None where there are no terms."""
        if self.coding is None:
            return taken(table, self.names) if self.names else None
        return made(self.coding, table, self.text)


def side_of(text: str, table: pa.Table) -> Side:
    """The terms of the text, coded by the table."""
    names = plain_names(text, table.column_names)
    if names is not None:
        return Side(text, names)
    return Side(text, coding=coding_of(text, table))


def plain_names(text: str, columns: list[str]) -> tuple[str, ...] | None:
    """The names, where the text is nothing but names of columns, 0 and 1 with + between them; None where it is more.

    >>> plain_names("1 + educ + `log wage`", ["educ", "log wage"])
    ('educ', 'log wage')
    >>> plain_names("log(wage)", ["wage"]) is None
    True
    """
    text = re.sub(r"-\s*1\s*$", "", text)
    names = []
    for piece in (each.strip() for each in text.split("+")):
        found = NAME.fullmatch(piece)
        if piece in columns:
            names.append(piece)
        elif found:
            names.append(found[1] or found[2])
        elif piece not in ("0", "1") and text.strip():
            return None
    return tuple(dict.fromkeys(names))


def taken(table: pa.Table, names: tuple[str, ...]) -> pa.Table:
    """Columns as they are, categories among them; refused with the nearest name where one is not there."""
    for name in names:
        if name not in table.column_names:
            raise no_such_column(name, table.column_names, "the formula")
    return table.select(list(names))


def coding_of(text: str, table: pa.Table) -> Any:
    """How formulaic codes the terms of this table, after a look at every factor."""
    formulaic = _formulaic(text)
    try:
        # Outside of I(...) a power is of sets of terms: x**2 is x, and (a + b + c)**50 takes for ever.
        if any(token.token in ("**", "^") for token in formulaic.parser.DefaultFormulaParser().get_tokens(text)):
            raise InputError(f"the formula has a power in {text!r}; write I(x**2) for a square, a*b for interactions")
        formula = formulaic.Formula(text)
    except InputError:
        raise
    except (formulaic.errors.FormulaicError, SyntaxError, ValueError, RecursionError) as error:
        raise _unreadable(text, error) from None
    if not isinstance(formula, formulaic.SimpleFormula):
        raise InputError(f"the formula has one ~ or | too many in {text!r}; see the forms that there are")
    factors = {factor for term in formula for factor in term.factors}
    used = {name for factor in factors for name in columns_in(factor, table.column_names, text)}
    return _matrix(formulaic.ModelSpec(formula, na_action="ignore"), complete(table, used, text), text).model_spec


def complete(table: pa.Table, names: Collection[str], text: str) -> pa.Table:
    """The columns, without rows that lack one of them: formulaic makes a category of nothing."""
    found = table.select(sorted(names)).filter(~missing_rows(table, names))
    if not found.num_rows:
        raise InputError(f"no row has all columns of the formula's part {text!r}; fill them")
    return found


def made(coding: Any, table: pa.Table, text: str) -> pa.Table:
    """The terms as columns (n,) of numbers, without the constant; refused where they are no numbers but columns are."""
    used = sorted(str(name) for name in coding.variables_by_source.get("data", ()))
    taken(table, tuple(used))
    matrix, there = _matrix(coding, complete(table, used, text), text), ~missing_rows(table, used)
    found = {name: np.full(table.num_rows, np.nan) for name in matrix.columns if name != "Intercept"}
    for name, values in found.items():
        values[there] = matrix[name]
        bad = ~np.isfinite(values) & there
        if bad.any():
            raise InputError(
                f"the formula's {name} is NaN or infinite in {describe_rows(bad)}, where its columns are not; leave "
                "those rows out, or write it another way"
            )
    return pa.table(found)


def columns_in(factor: Any, columns: list[str], text: str) -> Iterator[str]:
    """The columns that a factor needs; refused where it has anything else in it than it may."""
    kind = factor.eval_method.value
    if kind == "lookup":
        if factor.expr not in columns:
            raise no_such_column(factor.expr, columns, "the formula")
        yield factor.expr
    elif kind == "python":
        quoted: dict[str, str] = {}
        plain = re.sub(r"`([^`]+)`", lambda found: _keep(quoted, found[1]), factor.expr)
        try:
            tree = ast.parse(plain, mode="eval").body
        except (SyntaxError, ValueError, RecursionError) as error:
            raise _unreadable(text, error) from None
        for name in _names(tree, factor.expr):
            name = quoted.get(name, name)
            if name not in columns:
                raise no_such_column(name, columns, "the formula")
            yield name


def _keep(quoted: dict[str, str], name: str) -> str:
    """A Python name that stands for a quoted one."""
    own = f"quoted_{len(quoted)}_"
    quoted[own] = name
    return own


def _names(node: ast.expr, text: str) -> Iterator[str]:
    """The columns in an expression; refused unless it is arithmetic, comparisons and known functions of them."""
    match node:
        case ast.Name():
            yield node.id
        case ast.Constant(value=bool() | int() | float()):
            return
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Invert()):
            yield from _names(node.operand, text)
        case ast.BinOp() if isinstance(node.op, OPERATORS):
            base = list(_names(node.left, text))
            if isinstance(node.op, ast.Pow):
                _check_power(node, base, text)
            yield from base
            yield from _names(node.right, text)
        case ast.Compare():
            for each in (node.left, *node.comparators):
                yield from () if _is_text(each) else _names(each, text)
        case ast.Call():
            yield from _call(node, text)
        case _:
            _refuse(text, f"{ast.unparse(node)!r} is none of these")


def _call(node: ast.Call, text: str) -> Iterator[str]:
    """The names of columns in a call of a known function with known options."""
    match node.func:
        case ast.Name(id=name) if name in FUNCTIONS:
            pass
        case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in OF_NUMPY:
            pass
        case _:
            _refuse(text, f"{ast.unparse(node.func)!r} is not among them", ast.unparse(node.func))
    options = FUNCTIONS[name]
    first, *others = node.args or [ast.Constant(None)]
    for keyword in node.keywords:
        if keyword.arg not in options:
            _refuse(text, f"{name} takes no {keyword.arg!r} here")
    if others and (not options or len(others) > 1):
        _refuse(text, f"{name} takes one column")
    for given in (*others, *(keyword.value for keyword in node.keywords)):
        _check_option(given, text)
    yield from _names(first, text)


def _check_option(node: ast.expr, text: str) -> None:
    """Raise unless an option is a number, not a large one, a word, or a list of such."""
    if isinstance(node, ast.List | ast.Tuple):
        for each in node.elts:
            _check_option(each, text)
        return
    inner = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    if not isinstance(inner, ast.Constant) or isinstance(inner.value, bytes | complex):
        _refuse(text, f"the option {ast.unparse(node)} is no plain number")
    if isinstance(inner.value, int) and inner.value > MOST:
        _refuse(text, f"the option {inner.value} is above {MOST}")


def _check_power(node: ast.BinOp, base: list[str], text: str) -> None:
    """Raise for powers of numbers alone, and for large ones: 9**9**9 would never end."""
    match node.right:
        case ast.Constant(value=int() | float() as power) if base and power <= MOST:
            return
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as power)) if base and power <= MOST:
            return
    _refuse(text, f"{ast.unparse(node)} is not a column to the power of a number up to {MOST}")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _refuse(text: str, why: str, name: str = "") -> NoReturn:
    raise InputError(
        f"the formula has {text!r}, but may have columns, numbers, arithmetic, {', '.join(FUNCTIONS)} only; {why}"
        f"{nearest(name, FUNCTIONS) if name else ''}"
    )


def _unreadable(text: str, error: Exception) -> InputError:
    """formulaic's complaint in one line, without the colours of a terminal."""
    said = re.sub(r"\x1b\[[0-9;]*m|[⧛⧚]", "", str(error)).strip().splitlines()
    return InputError(f"the formula's part {text!r} could not be read ({said[0] if said else type(error).__name__})")


def _matrix(coding: Any, table: pa.Table, text: str) -> Any:
    """formulaic's matrix of the table. Logarithms of 0 are refused later and in words, new categories at once."""
    mismatch = _formulaic(text).errors.DataMismatchWarning
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", mismatch)
        try:
            return coding.get_model_matrix(table.to_pandas(), context=CONTEXT)
        except Exception as error:  # whatever a function says to what a column holds
            raise _unreadable(text, error) from None


def _formulaic(text: str) -> Any:
    try:
        import formulaic
        import formulaic.errors
        import formulaic.parser
    except ImportError:
        raise InputError(
            f"the formula's part {text!r} is more than names of columns, which takes formulaic; pip install "
            "'dualembed[formula]' brings it"
        ) from None
    return formulaic
