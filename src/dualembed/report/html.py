"""Escaped elements and images of a page. All text that is given comes out escaped; what is HTML already is `Markup`."""

from __future__ import annotations

import base64
import html
import io
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dualembed.estimates import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Markup(str):
    """Text that is HTML already, and is not escaped again."""


def text(given: Any) -> Markup:
    """The given text with all that HTML would read as its own escaped."""
    return given if isinstance(given, Markup) else Markup(html.escape(str(given)))


def element(name: str, *children: Any, **attributes: Any) -> Markup:
    """<name attributes>children</name>; a trailing underscore of an attribute goes, others become hyphens."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"' for key, value in attributes.items()
    )
    return Markup(f"<{name}{given}>{''.join(text(child) for child in children)}</{name}>")


def paragraph(*children: Any, **attributes: Any) -> Markup:
    """A paragraph."""
    return element("p", *children, **attributes)


def listed(items: Iterable[Any], **attributes: Any) -> Markup:
    """A list with dots."""
    return element("ul", *(element("li", item) for item in items), **attributes)


def table(caption: str, heads: Sequence[Any], rows: Iterable[Sequence[Any]]) -> Markup:
    """A table whose first cells name their rows, in a frame that scrolls by itself, also by keyboard.

    On a telephone its rows are lists, in which each cell tells its head. Roles say that they are rows nevertheless.
    """
    lines = list(rows)
    head = element("tr", *(_head(each, lines, column) for column, each in enumerate(heads)), role="row")
    body = [_line(line, heads) for line in lines]
    parts = (
        element("caption", caption),
        element("thead", head, role="rowgroup"),
        element("tbody", *body, role="rowgroup"),
    )
    whole = element("table", *parts, role="table")
    return element("div", whole, class_="wide", tabindex="0", role="region", aria_label=caption)


def across(words: str, columns: int) -> Markup:
    """A cell as wide as several columns."""
    return element("td", words, colspan=columns, role="cell")


def _head(name: Any, lines: Sequence[Sequence[Any]], column: int) -> Markup:
    """The head of a column; over numbers it stands to the right, as they do."""
    numbers = any(column < len(line) and column > 0 and isinstance(line[column], float) for line in lines)
    return element("th", name, scope="col", role="columnheader", class_="number" if numbers else "text")


def _line(line: Sequence[Any], heads: Sequence[Any]) -> Markup:
    first = element("th", line[0], scope="row", role="rowheader", data_head=heads[0])
    cells = []
    for cell, head in zip(line[1:], heads[1:], strict=False):  # one may be across several
        if isinstance(cell, Markup) and cell.startswith("<td"):
            cells.append(cell)
        elif isinstance(cell, float):
            cells.append(element("td", number(cell), class_="number", role="cell", data_head=head))
        else:
            cells.append(element("td", cell, role="cell", data_head=head))
    return element("tr", first, *cells, role="row")


def number(value: float | None) -> str:
    """A number with four digits, and a proper minus."""
    return "–" if value is None else proper(format_number(value))


def proper(written: str) -> str:
    """The text with proper minus signs before its numbers."""
    return re.sub(r"(?<![\w.,-])-(?=\d)", "−", written)


def shown(setting: Any) -> str:
    """A setting as code would give it; a function by its name, not by where it lies in memory."""
    name = getattr(setting, "__qualname__", None)
    return f"{setting.__module__}.{name}" if name and callable(setting) else repr(setting)


def percent(share: float) -> str:
    """A share in hundredths."""
    return f"{100 * share:.0f} %"


SIZE = (4.2, 2.9)  # inches: at this width letters stay readable on a telephone
NARROW = "(max-width: 34rem)"  # windows for which there may be a drawing of their own


class Drawing(NamedTuple):
    """What is drawn into axes of a size in inches."""

    draw: Callable[[Axes], Any]
    size: tuple[float, float] = SIZE


def image(drawing: Drawing, alternative: str, narrow: Drawing | None = None) -> Markup:
    """<img> of a drawing, as SVG in its address; an image of its own, so that no two share names.

    With a `narrow` drawing it is a <picture>, which shows that on a telephone.
    """
    width, height = (round(96 * side) for side in drawing.size)
    tag = f'<img src="{_address(drawing)}" alt="{text(alternative)}" width="{width}" height="{height}">'
    if narrow is None:
        return Markup(tag)
    small = tuple(round(96 * side) for side in narrow.size)
    source = f'<source media="{NARROW}" srcset="{_address(narrow)}" width="{small[0]}" height="{small[1]}"/>'
    return Markup(f"<picture>{source}{tag}</picture>")


def _address(drawing: Drawing) -> str:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    made = Figure(figsize=drawing.size, layout="constrained")
    drawing.draw(made.subplots())
    written = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "dualembed"}), warnings.catch_warnings():
        # Letters that matplotlib's font lacks are the browser's to draw; only their widths are guessed here.
        warnings.filterwarnings("ignore", message="Glyph")
        made.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return "data:image/svg+xml;base64," + base64.b64encode(written.getvalue()).decode()


def figure(drawing: Drawing, caption: str, alternative: str, narrow: Drawing | None = None) -> Markup:
    """<figure> with a caption; `alternative` says in words what there is to see."""
    return element("figure", image(drawing, alternative, narrow), element("figcaption", caption))


def gallery(figures: list[Markup], name: str = "") -> Markup:
    """Figures side by side where there is room."""
    return element("div", *figures, class_=name or ("gallery" if len(figures) > 1 else "single"))
