"""Where the equation still fails, and whether that is more than chance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed.plot.fields import Field, Place, witnessed
from dualembed.plot.functions import panels
from dualembed.plot.style import BLUE, GREY, VERMILION, axes_for, finish, label, name_levels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIGNIFICANT = 2.0  # standard errors
BINS = 10


def witness(model: Any, data: Any = None, *, column: str | None = None, ax: Axes | None = None) -> Axes:
    """E[moment(f) - y | context] with ±2 standard errors; 0 where the equation holds, vermilion where it is not chance.

    Of one column a curve; of more a panel for each column, in which every mark is the mean over a tenth of the data's
    contexts, by that column. `column` names one to draw alone.
    """
    field = witnessed(model, data)
    ax = axes_for(ax)
    if column is not None or len(field.places) == 1:
        return remaining(ax, field, field.places[0] if column is None else field.place(column))
    return panels(ax, field, remaining)


def remaining(ax: Axes, field: Field, place: Place) -> Axes:
    """The witness along one column."""
    ax.axhline(0.0, color=GREY, linewidth=1)
    if len(field.places) == 1 and not place.levels:
        _curve(ax, *field.dependence(place))
    elif field.rows is None or place.levels:
        grid, values, std = field.dependence(place)
        _marks(ax, np.arange(len(grid)) if place.levels else grid, values, std)
    else:
        _marks(ax, *_binned(field, place))
    if place.levels:
        name_levels(ax, place.levels)
    return finish(ax, x=label(place.name), y="remaining error")


def _curve(ax: Axes, grid: np.ndarray, values: np.ndarray, std: np.ndarray | None) -> None:
    std = np.zeros(len(values)) if std is None else std
    ax.fill_between(
        grid,
        values - SIGNIFICANT * std,
        values + SIGNIFICANT * std,
        color=BLUE,
        alpha=0.2,
        linewidth=0,
        label="±2 s.e.",
    )
    ax.plot(grid, values, color=BLUE, linewidth=1.5)
    beyond = np.abs(values) > SIGNIFICANT * std
    if beyond.any():
        ax.plot(grid, np.where(beyond, values, np.nan), color=VERMILION, linewidth=3.5, label="more than chance")
        ax.legend(frameon=False, fontsize="x-small")


def _marks(ax: Axes, places: np.ndarray, values: np.ndarray, std: np.ndarray | None) -> None:
    half = SIGNIFICANT * (np.zeros(len(values)) if std is None else std)
    beyond = np.abs(values) > half
    for chosen, color, shape in ((~beyond, BLUE, "o"), (beyond, VERMILION, "D")):
        if chosen.any():
            ax.errorbar(places[chosen], values[chosen], half[chosen], fmt=shape, color=color, capsize=2, markersize=4)


def _binned(field: Field, place: Place) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean of the column, mean of the witness, its standard error) over tenths of the data, by the column."""
    rows = field.rows if field.rows is not None else field.base()
    seen = place.of(rows)
    inner = np.unique(np.quantile(seen, np.linspace(0, 1, BINS + 1)[1:-1]))
    bins = np.searchsorted(inner, seen, side="right")
    kept = [rows[bins == number] for number in np.unique(bins)]
    found = [field.average(part) for part in kept]
    middles = np.array([place.of(part).mean() for part in kept])
    return middles, np.array([each[0] for each in found]), np.array([each[1] for each in found], dtype=np.float64)
