"""The figures: the learnt function, where its equation fails, and the numbers of the diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed import checks
from dualembed.answers.task import Fitted
from dualembed.plot.style import BLUE, CYCLE, DASHES, FONT, GREY, SKY, VERMILION, axes_for, finish, label, name_levels
from dualembed.plot.surface import Axis, Surface, function_surface, tables_of, witness_surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAP = 40  # values a side of a map
PANELS = 9  # at most
TICKS = 200  # of the data's values along an axis
SIGNIFICANT = 2.0  # standard errors
BINS = 10  # of the data, over which the witness is averaged
LEAST = 1e-4  # singular values below are counted, not drawn


def function(model: Fitted, data: Any = None, *, column: str | None = None, ax: Axes | None = None) -> Axes:
    """Plot the learnt function with 95 % intervals, in the columns' own units.

    One column gives a curve, or points for a category. Two give a map, on which dashed lines are standard errors, or
    a curve for each category. More give a panel for each column, over which f is averaged in the others (with `data`
    over its rows, without at their means). Panels divide the space of `ax`, which is given back without a frame.

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
    return draw(axes_for(ax), surface) if column is None else dependence(axes_for(ax), surface, surface.axis(column))


def draw(ax: Axes, surface: Surface) -> Axes:
    """A function of all its columns: a curve, a map, curves by category, or a panel for each column."""
    if len(surface.axes) == 1:
        return dependence(ax, surface, surface.axes[0])
    numbers = [axis for axis in surface.axes if not axis.levels]
    if len(surface.axes) == 2 and len(numbers) == 2:
        return _map(ax, surface)
    categories = [axis for axis in surface.axes if axis.levels]
    if len(surface.axes) == 2 and len(numbers) == 1 and len(categories[0].levels) <= len(CYCLE):
        return _curves(ax, surface, numbers[0], categories[0])
    return panels(ax, surface, dependence)


def dependence(ax: Axes, surface: Surface, axis: Axis) -> Axes:
    """f along one column, averaged over the others."""
    grid, values, std = surface.dependence(axis)
    half = np.zeros(len(values)) if std is None else surface.unit * std
    if axis.levels:
        ax.errorbar(np.arange(len(grid)), values, half, fmt="o", color=BLUE, ecolor=BLUE, capsize=3)
        name_levels(ax, grid)
    else:
        ax.fill_between(grid, values - half, values + half, color=BLUE, alpha=0.2, linewidth=0)
        ax.plot(grid, values, color=BLUE, linewidth=2)
        _rug(ax, surface, axis)
    return finish(ax, x=label(axis.name), y=surface.symbol)


def _rug(ax: Axes, surface: Surface, axis: Axis) -> None:
    """Where the data are: small marks along the axis."""
    if surface.rows is not None:
        seen, low, high = axis.decode(surface.rows[:TICKS]), *ax.get_xlim()
        seen = seen[(seen >= low) & (seen <= high)]
        ax.plot(seen, np.zeros(len(seen)), "|", color=GREY, alpha=0.4, markersize=5, transform=ax.get_xaxis_transform())


def _map(ax: Axes, surface: Surface) -> Axes:
    across, up = surface.axes
    sides = [surface.grid(axis, MAP) for axis in (across, up)]
    mesh = [each.ravel() for each in np.meshgrid(*sides)]
    points = up.with_value(across.with_value(np.repeat(surface.background()[:1], MAP * MAP, axis=0), mesh[0]), mesh[1])
    values, std = surface.evaluate(points)
    shades = ax.contourf(*sides, values.reshape(MAP, MAP), levels=14, cmap="cividis")
    bar = ax.figure.colorbar(shades, ax=ax)
    bar.set_label(surface.symbol, fontsize=FONT)
    bar.ax.tick_params(labelsize=FONT - 1)
    if surface.rows is not None:
        ax.plot(
            across.decode(surface.rows[:TICKS]),
            up.decode(surface.rows[:TICKS]),
            ".",
            color="white",
            markersize=2,
            alpha=0.5,
        )
    if std is not None and np.ptp(std) > 1e-9 * max(float(np.max(std)), 1e-300):
        lines = ax.contour(*sides, std.reshape(MAP, MAP), levels=4, colors="white", linestyles="--", linewidths=0.8)
        ax.clabel(lines, fmt="±%.2g", fontsize=FONT - 2)
    ax.set(xlim=(sides[0][0], sides[0][-1]), ylim=(sides[1][0], sides[1][-1]))
    ax.locator_params(nbins=5)
    finish(ax, x=label(across.name), y=label(up.name))
    ax.grid(False)
    return ax


def _curves(ax: Axes, surface: Surface, number: Axis, category: Axis) -> Axes:
    """A curve for each level of a category."""
    grid = surface.grid(number)
    base = np.repeat(surface.background()[:1], len(grid), axis=0)
    for level, color, dashes in zip(category.levels, CYCLE, DASHES, strict=False):
        values, std = surface.evaluate(number.with_value(category.with_value(base, level), grid))
        ax.plot(grid, values, color=color, linestyle=dashes, linewidth=1.8, label=label(f"{category.name} = {level}"))
        if std is not None:
            half = surface.unit * std
            ax.fill_between(grid, values - half, values + half, color=color, alpha=0.15, linewidth=0)
    _rug(ax, surface, number)
    ax.legend(frameon=False, fontsize=FONT - 1)
    return finish(ax, x=label(number.name), y=surface.symbol)


def panels(ax: Axes, surface: Surface, draw: Callable[[Axes, Surface, Axis], Axes]) -> Axes:
    """A panel for each column, or for the nine that move f most, in the space of the axes."""
    axes = leading(surface, PANELS)
    spec = ax.get_subplotspec()
    if spec is None:
        raise checks.InputError(
            f"these axes cannot be divided into {len(axes)} panels; draw one with column=..., or use axes of subplots"
        )
    wide = min(3, len(axes))
    grid = spec.subgridspec(-(-len(axes) // wide), wide)
    # The figure's own axes stay in its list, empty, so that subplots(...) of the caller keep their meaning.
    ax.set_axis_off()
    for number, axis in enumerate(axes):
        panel = draw(ax.figure.add_subplot(grid[number // wide, number % wide]), surface, axis)
        panel.locator_params(axis="y", nbins=5)
        if not axis.levels:
            panel.locator_params(axis="x", nbins=4)
        panel.set_ylabel(surface.symbol if number % wide == 0 else "", fontsize=FONT)
    return ax


def leading(surface: Surface, most: int) -> list[Axis]:
    """At most so many axes, those along which f moves most, in the order of the columns."""
    if len(surface.axes) <= most:
        return list(surface.axes)
    moves = [np.ptp(surface.dependence(axis)[1]) for axis in surface.axes]
    kept = set(np.argsort(moves)[::-1][:most].tolist())
    return [axis for number, axis in enumerate(surface.axes) if number in kept]


def witness(model: Fitted, data: Any = None, *, column: str | None = None, ax: Axes | None = None) -> Axes:
    """Plot E[moment(f) - y | context] with ±2 standard errors; vermilion where it differs from 0 by more than chance.

    One column gives a curve. More give a panel for each column, in which every mark is the mean over a tenth of the
    data's contexts, by that column.

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
    surface = witness_surface(model, data)
    ax = axes_for(ax)
    if column is not None or len(surface.axes) == 1:
        return remaining(ax, surface, surface.axes[0] if column is None else surface.axis(column))
    return panels(ax, surface, remaining)


def remaining(ax: Axes, surface: Surface, axis: Axis) -> Axes:
    """The witness along one column."""
    ax.axhline(0.0, color=GREY, linewidth=1)
    if len(surface.axes) == 1 and not axis.levels:
        _curve(ax, *surface.dependence(axis))
    elif surface.rows is None or axis.levels:
        grid, values, std = surface.dependence(axis)
        _marks(ax, np.arange(len(grid)) if axis.levels else grid, values, std)
    else:
        _marks(ax, *_binned(surface, axis))
    if axis.levels:
        name_levels(ax, axis.levels)
    return finish(ax, x=label(axis.name), y="remaining error")


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


def _binned(surface: Surface, axis: Axis) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(mean of the column, mean of the witness, its standard error) over tenths of the data, by the column."""
    rows = surface.rows if surface.rows is not None else surface.background()
    seen = axis.decode(rows)
    inner = np.unique(np.quantile(seen, np.linspace(0, 1, BINS + 1)[1:-1]))
    bins = np.searchsorted(inner, seen, side="right")
    kept = [rows[bins == number] for number in np.unique(bins)]
    means = [surface.average(part) for part in kept]
    middles = np.array([axis.decode(part).mean() for part in kept])
    return middles, np.array([each[0] for each in means]), np.array([each[1] for each in means], dtype=np.float64)


def singular_values(model: Fitted, *, ax: Axes | None = None) -> Axes:
    """Plot how much of each direction of f the contexts tell: 1 is all of it, near 0 next to nothing.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    values = model.diagnostics_.singular_values
    if values is None:
        raise checks.InputError("singular values are there after a closed form only; use solver='auto'")
    from matplotlib.ticker import MaxNLocator

    ax = axes_for(ax)
    kept = np.asarray(values)[np.asarray(values) >= LEAST]
    order = np.arange(1, len(kept) + 1)
    ax.semilogy(order, kept, "o-", color=BLUE, markersize=4, linewidth=1)
    ax.set_ylim(min(0.5 * float(kept.min(initial=1.0)), 0.5), 1.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    title = f"{len(values) - len(kept)} more are below {LEAST:g}" if len(kept) < len(values) else ""
    return finish(ax, x="direction of f", y="singular value", title=title)


def errors(model: Fitted, *, ax: Axes | None = None) -> Axes:
    """Plot the honest error on rows left out, ±2 standard errors, beside the mean squares of single rows, in and out.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    error = model.diagnostics_.held_out
    if error is None:
        raise checks.InputError("there is no held-out error: the fit had too few rows, or another loss than the square")
    ax = axes_for(ax)
    names = ["honest error,\nrows left out", "squared residuals,\nrows left out", "squared residuals,\nrows fitted"]
    values = [error.value, error.squared, error.fitted]
    heights = np.arange(3)[::-1]
    ax.barh(heights, values, color=[BLUE, SKY, SKY], height=0.6)
    ax.errorbar(error.value, heights[0], xerr=2 * error.stderr, fmt="none", ecolor="black", capsize=4)
    ends = [error.value + 2 * error.stderr, error.squared, error.fitted]
    for height, value, end in zip(heights, values, ends, strict=True):
        ax.annotate(
            f"{value:.3g}",
            (max(end, 0.0), height),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=FONT - 1,
        )
    ax.axvline(0.0, color=GREY, linewidth=1)
    ax.margins(x=0.15)
    ax.set_yticks(heights, names)
    return finish(ax, x="mean squared error")


def weights(model: Fitted, data: Any, *, ax: Axes | None = None) -> Axes:
    """Plot a histogram of the importance weights that the model was fitted with; their mean is 1.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    data : table
        The rows of the fit.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    given = tables_of(model, data).get("importance_weights")
    if given is None:
        raise checks.InputError(
            "data must hold the importance weights of the fit, as dict(states=..., importance_weights=...)"
        )
    values = np.asarray(given, dtype=np.float64).ravel()
    values = values / max(float(values.mean()), np.finfo(float).tiny)
    ax = axes_for(ax)
    ax.hist(values, bins=40, color=BLUE, log=True)
    ax.axvline(1.0, color=VERMILION, linewidth=1.5, linestyle="--")
    size = values.sum() ** 2 / max(float(np.sum(values**2)), np.finfo(float).tiny)
    title = f"worth {size:,.0f} of {len(values):,} unweighted rows"
    return finish(ax, x="importance weight (mean 1)", y="rows", title=title)


def density_ratio(model: Any, states: Any, actions: Any = None, *, ax: Axes | None = None) -> Axes:
    """Plot a histogram of how often the evaluated policy is at these places, against how often the log is.

    What lies below zero, which no ratio can, is of another colour. The title says how many of the log's rows that
    leaves in use.

    Parameters
    ----------
    model : estimator
        A fitted `PolicyEvaluator` or `ActionValueEvaluator`.
    states : table
        States.
    actions : array, optional
        Actions, for an `ActionValueEvaluator`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    ratios = model.density_ratio(states) if actions is None else model.density_ratio(states, actions)
    ax = axes_for(ax)
    bins = np.histogram_bin_edges(np.append(ratios, [0.0, 1.0]), bins=40)
    edge = bins[1] - bins[0]
    bins = np.arange(np.floor(bins[0] / edge), np.ceil(bins[-1] / edge) + 1) * edge  # so that 0 is an edge
    _, _, bars = ax.hist(ratios, bins=bins, color=BLUE, log=True)
    for bar in bars.patches if hasattr(bars, "patches") else ():
        if bar.get_x() < -edge / 2:
            bar.set_facecolor(VERMILION)
    ax.axvline(1.0, color=GREY, linewidth=1.5, linestyle="--")
    title = f"worth {100 * model.value().effective:.0f} % of the rows it was fitted to"
    return finish(ax, x="density ratio (mean 1)", y="rows", title=title)
