"""What moving a column does: the effect as the column moves, and that of every column side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed import checks
from dualembed.answers.task import Fitted
from dualembed.estimates import format_short
from dualembed.plot.drawn import keep
from dualembed.plot.figures import PANEL_GRID, dependence, panel_size, panels
from dualembed.plot.style import BLUE, FONT, GREY, SKY, VERMILION, axes_for, finish, label
from dualembed.plot.surface import Dependence, Surface, function_surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_BARS = 16  # effects side by side


def effect(model: Fitted, data: Any = None, *, column: str | None = None, ax: Axes | None = None) -> Axes:
    """Plot what moving a column of X does to y, from where `summary()` moves it from on, with 95 % intervals.

    It is the difference of f on average over the rows of the fit, so that the mark in it is the move that the table of
    `summary()` has; a dashed line has the average slope, where that is what the summary leads with. Of a straight line,
    whose answer is of one unit, it starts from the column's median. Without a `column` there is a panel for each column
    of X.

    Parameters
    ----------
    model : estimator
        A fitted regression.
    data : table, optional
        Rows like those of the fit, for marks along the axis.
    column : str, optional
        Name of one column to draw alone, which may be a control.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    surface = function_surface(model, data)
    names = treatments(model) if column is None else [surface.axis(column).name]
    return draw_effects(
        axes_for(ax, None if len(names) == 1 else panel_size(len(names), 3)), model, surface, names, data
    )


def treatments(model: Fitted) -> list[str]:
    """The columns of X that vary."""
    return [column.name for column in model._codings()[0].columns if column.width]


def draw_effects(
    ax: Axes, model: Fitted, surface: Surface, names: Sequence[str], data: Any = None, across: int = 3
) -> Axes:
    """What moving each of these columns does."""
    moves = moves_of(model)
    axes = [surface.axis(name) for name in names]
    starts = [_start(surface, name, moves.get(name, [])) for name in names]
    drawn = surface.contrasts(axes, starts, 41 if len(names) == 1 else PANEL_GRID)
    ends = {
        name: [each for each in moves.get(name, []) if each["from"] == start]
        for name, start in zip(names, starts, strict=True)
    }
    findings = model.summary().findings
    slope, measure = findings.facts.get("average_slope", {}), findings.measure
    known = dict(zip(names, starts, strict=True))

    def along(own: Axes, surface: Surface, each: Dependence) -> Axes:
        own.axhline(0.0, color=GREY, linewidth=1)
        dependence(own, surface, each)
        if not each.marked:
            _mark(own, ends[each.axis.name])
            if slope.get("column") == each.axis.name:
                line = slope["value"] * (each.grid - known[each.axis.name])
                own.plot(each.grid, line, "--", color=VERMILION, linewidth=1.3)
        return finish(own, x=label(each.axis.name), y=label(measure, 48))

    if len(drawn) > 1:
        return panels(ax, surface, drawn, along, data=data, across=across, unit=surface.unit)
    return keep(along(ax, surface, drawn[0]), drawn[0].columns(surface.unit), data)


def _mark(ax: Axes, ends: Sequence[dict[str, Any]]) -> None:
    """The answers that the summary gives of a column, where it moves to."""
    for each in ends:
        ax.plot([each["from"]], [0.0], "o", color="white", markeredgecolor=BLUE, markersize=6, zorder=4)
        if each["lower"] is None:
            continue
        half = [[each["value"] - each["lower"]], [each["upper"] - each["value"]]]
        ax.errorbar([each["to"]], [each["value"]], half, fmt="o", color=BLUE, capsize=4, markersize=6, linewidth=2)


def _start(surface: Surface, name: str, moves: Sequence[dict[str, Any]]) -> Any:
    """Where a column moves from: where the summary's own answer does, if that is among the data, or the median."""
    axis = surface.axis(name)
    start = moves[0]["from"] if moves else axis.levels[0] if axis.levels else None
    if axis.levels:
        return start
    both = surface.both(axis)
    if both is not None:
        return float(both[0])
    low, high = surface.ends(axis)
    return start if start is not None and low <= start <= high else surface.quantiles(axis, (50.0, 50.0))[0]


def moves_of(model: Fitted) -> dict[str, list[dict[str, Any]]]:
    """The summary's answers about moving columns, by column: from, to, value, lower, upper."""
    found: dict[str, list[dict[str, Any]]] = {}
    for each in model.summary().findings.facts.get("effects", []):
        found.setdefault(each["column"], []).append(each)
    return found


def effects(model: Fitted, *, ax: Axes | None = None) -> Axes:
    """Plot what moving every column does, with 95 % intervals, one below the other: the table of `summary()`.

    Parameters
    ----------
    model : estimator
        A fitted regression.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    known = [each for moves in moves_of(model).values() for each in moves]
    if not known:
        raise checks.InputError("effects are those of a regression; draw plot.function of this model")
    return draw_bars(axes_for(ax, (5.0, 0.27 * min(len(known), MOST_BARS) + 0.8)), model, known[:MOST_BARS])


def draw_bars(ax: Axes, model: Fitted, moves: Sequence[dict[str, Any]]) -> Axes:
    """The effects of moves, the first of them on top in a darker colour."""
    heights = np.arange(len(moves))[::-1]
    ax.axvline(0.0, color=GREY, linewidth=1)
    for height, each in zip(heights, moves, strict=True):
        lower, upper = (each["value"] if each[end] is None else each[end] for end in ("lower", "upper"))
        color = BLUE if height == heights[0] else SKY
        ax.plot([lower, upper], [height, height], color=color, linewidth=2.2, solid_capstyle="butt")
        ax.plot([each["value"]], [height], "o", color=color, markersize=5.5)
    ax.set_yticks(heights, [label(_words(each), 40) for each in moves])
    ax.set_ylim(-0.7, len(moves) - 0.3)
    ax.tick_params(axis="y", length=0)
    columns = {
        "column": [each["column"] for each in moves],
        "from": [str(each["from"]) for each in moves],
        "to": [str(each["to"]) for each in moves],
        "estimate": [each["value"] for each in moves],
        "std_error": [each["stderr"] for each in moves],
        "conf_low": [each["lower"] for each in moves],
        "conf_high": [each["upper"] for each in moves],
    }
    keep(finish(ax, x=label(model.summary().findings.measure, 48)), columns)
    ax.tick_params(axis="y", labelsize=FONT - 0.5)
    return ax


def _words(move: dict[str, Any]) -> str:
    """A move in few words."""
    start, end = (format_short(each) if isinstance(each, float) else str(each) for each in (move["from"], move["to"]))
    return (
        f"{move['column']}  {start} → {end}".replace("-", "−")
        if isinstance(move["from"], float)
        else f"{move['column']}  {start} → {end}"
    )
