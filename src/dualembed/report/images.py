"""Drawings as images inside a page: vectors, in the page's own text."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dualembed.report.elements import Markup, element, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = (4.2, 2.9)  # inches: at this width letters stay readable on a telephone


def image(draw: Callable[[Axes], Any], alternative: str, *, size: tuple[float, float] = SIZE) -> Markup:
    """<img> of what `draw` does to axes, as SVG in its address; an image of its own, so that no two share names."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    draw(figure.subplots())
    written = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "dualembed"}), warnings.catch_warnings():
        # Letters that matplotlib's font lacks are the browser's to draw; only their widths are guessed here.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    address = "data:image/svg+xml;base64," + base64.b64encode(written.getvalue()).decode()
    width, height = (round(96 * side) for side in size)
    tag = f'<img src="{address}" alt="{text(alternative)}" width="{width}" height="{height}">'
    return Markup(tag)


def figure(draw: Callable[[Axes], Any], caption: str, alternative: str) -> Markup:
    """<figure> with a caption; `alternative` says in words what there is to see."""
    return element("figure", image(draw, alternative), element("figcaption", caption))


def gallery(figures: list[Markup]) -> Markup:
    """Figures side by side where there is room."""
    return element("div", *figures, class_="gallery" if len(figures) > 1 else "single")
