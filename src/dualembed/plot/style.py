"""The house look: colours that colour-blind readers tell apart, thin axes, no setting of matplotlib's changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FONT = 9
SIZE = (4.2, 3.0)  # inches
LONGEST = 32  # letters of a label

# By Okabe and Ito.
BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7"
GREY = "#555555"
CYCLE = (BLUE, VERMILION, GREEN, ORANGE, SKY, PURPLE)
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (3, 1, 1, 1)), (0, (6, 2)))  # the same without colour


def axes_for(ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
    """The axes, or those of a new figure that a notebook shows, of that size in inches."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    made: Axes = pyplot.subplots(figsize=size or SIZE, layout="constrained")[1]
    return made


def label(text: Any, most: int = LONGEST) -> str:
    """A name as matplotlib may show it: on one line, not too long, dollar signs no mathematics."""
    line = " ".join(str(text).split())
    short = line if len(line) <= most else line[: most - 1] + "…"
    return short.replace("$", r"\$")


def finish(ax: Axes, *, x: str = "", y: str = "", title: str = "") -> Axes:
    """The axes with labels and the house look."""
    ax.set_xlabel(x, fontsize=FONT)
    ax.set_ylabel(y, fontsize=FONT)
    if title:
        ax.set_title(title, fontsize=FONT)
    ax.tick_params(labelsize=FONT - 1)
    ax.grid(True, which="major", alpha=0.25)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def name_levels(ax: Axes, levels: Any) -> None:
    """Ticks at 0, 1, ... with the names of levels, slanted where they would touch."""
    names = [label(level) for level in levels]
    slanted = sum(map(len, names)) > 30
    ax.set_xticks(range(len(names)), names, rotation=30 if slanted else 0, ha="right" if slanted else "center")
    ax.set_xlim(-0.5, len(names) - 0.5)
