"""The learnt function: a curve, a map, or how it depends on each column."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed import checks
from dualembed.plot.fields import Field, Place, learnt
from dualembed.plot.style import BLUE, CYCLE, DASHES, FONT, GREY, axes_for, finish, label, name_levels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAP = 40  # values a side of a map
PANELS = 9  # at most
TICKS = 200  # of the data's values along an axis


def function(model: Any, data: Any = None, *, column: str | None = None, ax: Axes | None = None) -> Axes:
    """The learnt function with 95 % intervals, in the columns' own units.

    Of one column a curve, or points for a category; of two columns a map, on which dashed lines are standard errors, or
    a curve for each category; of more a panel for each column, over which f is averaged in the others (with `data`
    over its rows, without at their means). `column` names one to draw alone. Panels divide the space of `ax`, which is
    given back without a frame.
    """
    field = learnt(model, data)
    ax = axes_for(ax)
    if column is not None or len(field.places) == 1:
        return dependence(ax, field, field.places[0] if column is None else field.place(column))
    numbers = [place for place in field.places if not place.levels]
    if len(field.places) == 2 and len(numbers) == 2:
        return _map(ax, field)
    categories = [place for place in field.places if place.levels]
    if len(field.places) == 2 and len(numbers) == 1 and len(categories[0].levels) <= len(CYCLE):
        return _curves(ax, field, numbers[0], categories[0])
    return panels(ax, field, dependence)


def dependence(ax: Axes, field: Field, place: Place) -> Axes:
    """f along one column, averaged over the others."""
    grid, values, std = field.dependence(place)
    half = np.zeros(len(values)) if std is None else field.unit * std
    if place.levels:
        ax.errorbar(np.arange(len(grid)), values, half, fmt="o", color=BLUE, ecolor=BLUE, capsize=3)
        name_levels(ax, grid)
    else:
        ax.fill_between(grid, values - half, values + half, color=BLUE, alpha=0.2, linewidth=0)
        ax.plot(grid, values, color=BLUE, linewidth=2)
        _rug(ax, field, place)
    return finish(ax, x=label(place.name), y=field.symbol)


def _rug(ax: Axes, field: Field, place: Place) -> None:
    """Where the data are: small marks along the axis."""
    if field.rows is not None:
        seen, low, high = place.of(field.rows[:TICKS]), *ax.get_xlim()
        seen = seen[(seen >= low) & (seen <= high)]
        ax.plot(seen, np.zeros(len(seen)), "|", color=GREY, alpha=0.4, markersize=5, transform=ax.get_xaxis_transform())


def _map(ax: Axes, field: Field) -> Axes:
    across, up = field.places
    sides = [field.grid(place, MAP) for place in (across, up)]
    mesh = [each.ravel() for each in np.meshgrid(*sides)]
    points = up.put(across.put(np.repeat(field.base(1)[:1], MAP * MAP, axis=0), mesh[0]), mesh[1])
    values, std = field.at(points)
    shades = ax.contourf(*sides, values.reshape(MAP, MAP), levels=14, cmap="cividis")
    bar = ax.figure.colorbar(shades, ax=ax)
    bar.set_label(field.symbol, fontsize=FONT)
    bar.ax.tick_params(labelsize=FONT - 1)
    if field.rows is not None:
        ax.plot(across.of(field.rows[:TICKS]), up.of(field.rows[:TICKS]), ".", color="white", markersize=2, alpha=0.5)
    if std is not None and np.ptp(std) > 1e-9 * max(float(np.max(std)), 1e-300):
        lines = ax.contour(*sides, std.reshape(MAP, MAP), levels=4, colors="white", linestyles="--", linewidths=0.8)
        ax.clabel(lines, fmt="±%.2g", fontsize=FONT - 2)
    ax.set(xlim=(sides[0][0], sides[0][-1]), ylim=(sides[1][0], sides[1][-1]))
    ax.locator_params(nbins=5)
    finish(ax, x=label(across.name), y=label(up.name))
    ax.grid(False)
    return ax


def _curves(ax: Axes, field: Field, number: Place, category: Place) -> Axes:
    """A curve for each level of a category."""
    grid = field.grid(number)
    base = np.repeat(field.base(1)[:1], len(grid), axis=0)
    for level, color, dashes in zip(category.levels, CYCLE, DASHES, strict=False):
        values, std = field.at(number.put(category.put(base, level), grid))
        ax.plot(grid, values, color=color, linestyle=dashes, linewidth=1.8, label=label(f"{category.name} = {level}"))
        if std is not None:
            half = field.unit * std
            ax.fill_between(grid, values - half, values + half, color=color, alpha=0.15, linewidth=0)
    _rug(ax, field, number)
    ax.legend(frameon=False, fontsize=FONT - 1)
    return finish(ax, x=label(number.name), y=field.symbol)


def panels(ax: Axes, field: Field, draw: Callable[[Axes, Field, Place], Axes]) -> Axes:
    """A panel for each column, or for the nine that move f most, in the space of the axes."""
    places = leading(field, PANELS)
    spec = ax.get_subplotspec()
    if spec is None:
        raise checks.InputError(
            f"these axes cannot be divided into {len(places)} panels; draw one with column=..., or use axes of subplots"
        )
    wide = min(3, len(places))
    grid = spec.subgridspec(-(-len(places) // wide), wide)
    # The figure's own axes stay in its list, empty, so that subplots(...) of the caller keep their meaning.
    ax.set_axis_off()
    for number, place in enumerate(places):
        panel = draw(ax.figure.add_subplot(grid[number // wide, number % wide]), field, place)
        panel.locator_params(axis="y", nbins=5)
        if not place.levels:
            panel.locator_params(axis="x", nbins=4)
        panel.set_ylabel(field.symbol if number % wide == 0 else "", fontsize=FONT)
    return ax


def leading(field: Field, most: int) -> list[Place]:
    """At most so many places, those along which f moves most, in the order of the columns."""
    if len(field.places) <= most:
        return list(field.places)
    moves = [np.ptp(field.dependence(place)[1]) for place in field.places]
    kept = set(np.argsort(moves)[::-1][:most].tolist())
    return [place for number, place in enumerate(field.places) if number in kept]
