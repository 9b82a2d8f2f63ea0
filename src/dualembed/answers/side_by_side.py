"""Average effects of a smooth f beside the coefficients of a straight line, and what tests say, as lines of text."""

from __future__ import annotations

from dualembed.answers.average_effects import AverageEffects
from dualembed.answers.coefficients import aligned, format_p
from dualembed.answers.linear_results import LinearResults
from dualembed.estimates import format_number

NONE = "–"


def econometric_lines(effects: AverageEffects | None, linear: LinearResults | None, *, is_line: bool) -> list[str]:
    """What econometricians print of a fit: the numbers of f, and the tests of the linear model.

    Of a straight line these are its coefficients; of any other f its average effects, beside those of the line.
    """
    if is_line and linear is not None:
        return [linear.title[0].upper() + linear.title[1:], *linear.table(), *_block(linear.test_table())]
    lines = []
    if effects is not None and len(effects.names):
        beside = "" if linear is None else f", beside a straight line by {linear.method} (errors {linear.errors})"
        lines.append(
            f"What one unit of each column adds to {effects.outcome} on average over the rows, others as they are, "
            f"errors {effects.errors}{beside}:"
        )
        lines += effects.table() if linear is None else _both(effects, linear)
    if linear is not None:
        lines += [*_block(linear.test_table()), "", *linear.sentences()]
    return lines


def _both(effects: AverageEffects, linear: LinearResults) -> list[str]:
    """A row for each term: what f says of it with an interval, and the line's coefficient."""
    own, others = ({row["term"]: row for row in each.records()} for each in (effects, linear))
    rows = [("", "effect", "std. error", "p", "95 % from", "to", "line", "std. error", "p")]
    for term in dict.fromkeys([*own, *others]):
        first, second = own.get(term), others.get(term)
        cells = [NONE] * 5
        if first is not None:
            numbers = (format_number(first[name]) for name in ("estimate", "std_error", "conf_low", "conf_high"))
            estimate, error, low, high = numbers
            cells = [estimate, error, format_p(first["p_value"]), low, high]
        if second is None:
            cells += [NONE] * 3
        else:
            cells += [format_number(second[name]) for name in ("estimate", "std_error")]
            cells.append(format_p(second["p_value"]))
        rows.append((term, *cells))
    return aligned(rows)


def _block(lines: list[str]) -> list[str]:
    return ["", *lines] if lines else []
