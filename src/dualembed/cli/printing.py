"""Numbers, tables and JSON as they are printed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer


def number(value: float) -> str:
    """The number with four digits that count."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def give_or_take(value: float, stderr: float | None) -> str:
    """The number with its standard error, where there is one."""
    return number(value) if stderr is None else f"{number(value)} ± {stderr:.2g}"


def counted(count: int, what: str) -> str:
    """So many of these: 1 row, 2 rows."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def print_json(found: Mapping[str, Any]) -> None:
    """Print one JSON document; numbers that JSON lacks are null."""
    typer.echo(json.dumps(_plain(found), ensure_ascii=False, allow_nan=False, indent=2))


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Print rows of text under heads, the first column to the left and the others to the right."""
    from rich.console import Console
    from rich.table import Table

    if title:  # not the table's own, which would be wrapped to its width
        typer.echo(title)
    grid = Table(show_header=any(heads))
    for place, head in enumerate(heads):
        grid.add_column(head, justify="right" if place and any(heads) else "left", overflow="fold")
    for row in rows:
        grid.add_row(*map(_escaped, row))
    Console().print(grid)


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _plain(value: Any) -> Any:
    """The value in JSON's terms."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
        listed = value if isinstance(value, (list, tuple)) else value.tolist()
        return [_plain(each) for each in listed] if isinstance(listed, (list, tuple)) else _plain(listed)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
