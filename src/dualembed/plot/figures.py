"""The learnt function: a curve, a map, curves by category, or a panel for each column on one scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed import checks
from dualembed.answers.task import Fitted
from dualembed.estimates import format_number, format_short
from dualembed.plot.drawn import joined, keep
from dualembed.plot.style import BLUE, CYCLE, DASHES, FONT, GREY, axes_for, finish, label, name_levels
from dualembed.plot.surface import NORMAL, Axis, Dependence, Surface, function_surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAP = 40  # values a side of a map
MOST_PANELS = 24
PANEL_GRID = 25  # values of a number in a panel
ACROSS = 4  # panels side by side, at most
TICKS = 200  # of the data's values along an axis


def function(model: Fitted, data: Any = None, *, column: str | None = None, ax: Axes | None = None) -> Axes:
    """Plot the learnt function with 95 % intervals, in the columns' own units.

    One column gives a curve, or points for a category. Two give a map, on which dashed lines are standard errors, or
    a curve for each category. More give a panel for each column on one scale, over which f is averaged in the others
    (with `data` over its rows, without at their means): curves for numbers, points for categories and for numbers with
    two values. Panels divide the space of `ax`, which is given back without a frame.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    data : table, optional
        Rows like those of the fit, for marks and averages.
    column : str, optional
        Name of one column to draw alone.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    surface = function_surface(model, data)
    if column is not None:
        drawn = surface.dependence(surface.axis(column))
        return keep(dependence(axes_for(ax), surface, drawn), drawn.columns(surface.unit), data)
    many = is_many(surface)
    size = panel_size(len(surface.axes)) if many else None
    return draw(axes_for(ax, size), surface, data)


def is_many(surface: Surface) -> bool:
    """Whether a panel for each column is all that can be drawn."""
    few = [levels for levels in (_levels(surface, axis) for axis in surface.axes) if levels]
    return len(surface.axes) > 2 or len(few) == 2 or any(len(levels) > len(CYCLE) for levels in few)


def draw(ax: Axes, surface: Surface, data: Any = None) -> Axes:
    """A function of all its columns: a curve, a map, curves by category, or a panel for each column."""
    if len(surface.axes) == 1:
        drawn = surface.dependence(surface.axes[0])
        return keep(dependence(ax, surface, drawn), drawn.columns(surface.unit), data)
    if is_many(surface):
        return panels(ax, surface, leading(surface, MOST_PANELS), dependence, data=data, unit=surface.unit)
    few = [axis for axis in surface.axes if _levels(surface, axis)]
    if not few:
        return keep(*_map(ax, surface), data)
    return keep(*_curves(ax, surface, next(axis for axis in surface.axes if axis is not few[-1]), few[-1]), data)


def _levels(surface: Surface, axis: Axis) -> tuple[Any, ...]:
    """The values of a column that has few: levels, or the two of a number."""
    both = surface.both(axis)
    return axis.levels if both is None else tuple(both.tolist())


def dependence(ax: Axes, surface: Surface, drawn: Dependence) -> Axes:
    """f along one column, averaged over the others: a curve, or a mark with its interval for each of few values."""
    half = drawn.half(surface.unit)
    if drawn.marked:
        marks(ax, drawn, half)
    else:
        spread_of(ax, drawn.grid, drawn.values, half)
        rug(ax, surface, drawn.axis)
    return finish(ax, x=label(drawn.axis.name), y=surface.symbol)


def spread_of(ax: Axes, grid: np.ndarray, values: np.ndarray, half: np.ndarray, color: str = BLUE, **look: Any) -> None:
    """A curve in its band."""
    ax.fill_between(grid, values - half, values + half, color=color, alpha=0.18, linewidth=0)
    ax.plot(grid, values, **{"color": color, "linewidth": 2, **look})


def marks(ax: Axes, drawn: Dependence, half: np.ndarray) -> None:
    """A point with its interval for each value of a column that has few."""
    ax.errorbar(np.arange(len(half)), drawn.values, half, fmt="o", color=BLUE, capsize=3, markersize=5, linewidth=1.5)
    name_levels(ax, drawn.names)


def rug(ax: Axes, surface: Surface, axis: Axis) -> None:
    """Where the data are: small marks along the axis."""
    if surface.rows is not None:
        seen, low, high = axis.decode(surface.rows[:TICKS]), *ax.get_xlim()
        seen = seen[(seen >= low) & (seen <= high)]
        ax.plot(seen, np.zeros(len(seen)), "|", color=GREY, alpha=0.4, markersize=5, transform=ax.get_xaxis_transform())


def _map(ax: Axes, surface: Surface) -> tuple[Axes, dict[str, Any]]:
    across, up = surface.axes
    sides = [np.linspace(*surface.ends(axis), MAP) for axis in (across, up)]
    mesh = [each.ravel() for each in np.meshgrid(*sides)]
    points = up.with_value(across.with_value(np.repeat(surface.background()[:1], MAP * MAP, axis=0), mesh[0]), mesh[1])
    values, std = surface.evaluate(points)
    shades = ax.contourf(*sides, values.reshape(MAP, MAP), levels=14, cmap="cividis")
    bar = ax.figure.colorbar(shades, ax=ax)
    bar.set_label(surface.symbol, fontsize=FONT)
    bar.ax.tick_params(labelsize=FONT - 1)
    if surface.rows is not None:
        places = (axis.decode(surface.rows[:TICKS]) for axis in (across, up))
        ax.plot(*places, ".", color="white", markersize=2, alpha=0.5)
    if std is not None and np.ptp(std) > 1e-9 * max(float(np.max(std)), 1e-300):
        lines = ax.contour(*sides, std.reshape(MAP, MAP), levels=3, colors="white", linestyles="--", linewidths=0.8)
        ax.clabel(lines, fmt=lambda value: f"±{format_short(value, 2)}", fontsize=FONT - 2)
    ax.set(xlim=(sides[0][0], sides[0][-1]), ylim=(sides[1][0], sides[1][-1]))
    ax.locator_params(nbins=5)
    finish(ax, x=label(across.name), y=label(up.name))
    ax.grid(False)
    places_of = {axis.name: each.tolist() for axis, each in zip((across, up), mesh, strict=True)}
    return ax, places_of | _estimates(surface, values, std)


def _estimates(surface: Surface, values: np.ndarray, std: np.ndarray | None) -> dict[str, list[Any]]:
    """The columns of estimates with their intervals."""
    half = None if std is None else surface.unit * std
    errors = [None] * len(values) if std is None else std.tolist()
    ends = [[None] * len(values)] * 2 if half is None else [(values - half).tolist(), (values + half).tolist()]
    return {"estimate": values.tolist(), "std_error": errors, "conf_low": ends[0], "conf_high": ends[1]}


def _curves(ax: Axes, surface: Surface, number: Axis, category: Axis) -> tuple[Axes, dict[str, Any]]:
    """A curve for each level of a category."""
    grid = np.linspace(*surface.ends(number), PANEL_GRID * 3)
    base, drawn = np.repeat(surface.background()[:1], len(grid), axis=0), []
    for level, color, dashes in zip(_levels(surface, category), CYCLE, DASHES, strict=False):
        values, std = surface.evaluate(number.with_value(category.with_value(base, level), grid))
        half = np.zeros(len(grid)) if std is None else surface.unit * std
        word = str(level) if category.levels else format_number(level)
        name = label(f"{category.name} = {word}")
        spread_of(ax, grid, values, half, color, linestyle=dashes, linewidth=1.8, label=name)
        places = {number.name: grid.tolist(), category.name: [word] * len(grid)}
        drawn.append(places | _estimates(surface, values, std))
    rug(ax, surface, number)
    ax.legend(frameon=False, fontsize=FONT - 1)
    return finish(ax, x=label(number.name), y=surface.symbol), joined(drawn)


def panels(
    ax: Axes,
    surface: Surface,
    drawn: Sequence[Dependence],
    draw: Callable[[Axes, Surface, Dependence], Axes],
    *,
    data: Any = None,
    across: int = ACROSS,
    unit: float = NORMAL,
) -> Axes:
    """A panel for each column, all on one scale, in the space of the axes."""
    spec = ax.get_subplotspec()
    if spec is None:
        raise checks.InputError(
            f"these axes cannot be divided into {len(drawn)} panels; draw one with column=..., or use axes of subplots"
        )
    wide = columns_for(len(drawn), across)
    grid = spec.subgridspec(-(-len(drawn) // wide), wide)
    # The figure's own axes stay in its list, empty, so that subplots(...) of the caller keep their meaning.
    ax.set_axis_off()
    first: Axes | None = None
    middle = wide * ((len(drawn) - 1) // wide // 2)  # the panel beside which the scale is named, once for all
    for number, each in enumerate(drawn):
        panel = ax.figure.add_subplot(grid[number // wide, number % wide], sharey=first)
        first = panel if first is None else first
        symbol = draw(panel, surface, each).get_ylabel()
        panel.locator_params(axis="y", nbins=5)
        if not each.marked:
            panel.locator_params(axis="x", nbins=4)
        panel.set_ylabel(symbol if number == middle else "", fontsize=FONT)
        panel.tick_params(labelleft=number % wide == 0)
    return keep(ax, joined([each.columns(unit) for each in drawn]), data)


def columns_for(count: int, across: int = ACROSS) -> int:
    """How many of so many panels stand side by side, so that rows are about as full as each other."""
    rows = -(-count // across)
    return -(-count // max(rows, 1)) if count else 1


def panel_size(count: int, across: int = ACROSS) -> tuple[float, float]:
    """The size in inches of a figure of so many panels."""
    wide = columns_for(min(count, MOST_PANELS), across)
    high = -(-min(count, MOST_PANELS) // wide)
    return (max(1.9 * wide + 0.5, 4.2), 1.75 * high + 0.2)


def leading(surface: Surface, most: int, count: int = PANEL_GRID) -> list[Dependence]:
    """f along at most so many columns, those that move it most, in the order of the columns."""
    known = surface.dependences(surface.axes, count)
    if len(known) <= most:
        return known
    moves = [np.ptp(each.values) for each in known]
    kept = set(np.argsort(moves)[::-1][:most].tolist())
    return [each for number, each in enumerate(known) if number in kept]
