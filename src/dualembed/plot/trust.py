"""Figures of how far to trust a fit: where its equation fails, and the numbers of the diagnostics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed import checks
from dualembed.answers.task import Fitted
from dualembed.estimates import format_number, format_to
from dualembed.plot.drawn import keep
from dualembed.plot.figures import MOST_PANELS, panel_size, panels
from dualembed.plot.style import BLUE, FONT, GREY, SKY, VERMILION, axes_for, finish, label, name_levels
from dualembed.plot.surface import Axis, Dependence, Surface, tables_of, witness_surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIGNIFICANT = 2.0  # standard errors
BINS = 10  # of the data, over which the witness is averaged
LEAST = 1e-4  # singular values below are counted, not drawn
MARKED = 40  # singular values that have a mark each, at most
SEEN = 0.1  # least singular value that a plain scale shows well
TINY = float(np.finfo(float).tiny)


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
    if column is not None or len(surface.axes) == 1:
        drawn = failing(surface, surface.axes[0] if column is None else surface.axis(column))
        return keep(remaining(axes_for(ax), surface, drawn), drawn.columns(SIGNIFICANT), data)
    drawn_all = failures(surface, MOST_PANELS)
    return panels(axes_for(ax, panel_size(len(drawn_all))), surface, drawn_all, remaining, data=data, unit=SIGNIFICANT)


def failures(surface: Surface, most: int) -> list[Dependence]:
    """The witness along at most so many columns, those along which it differs most from 0."""
    known = [failing(surface, axis) for axis in surface.axes]
    worst = [float(np.max(np.abs(each.values) / np.maximum(each.half(1.0), TINY))) for each in known]
    kept = set(np.argsort(worst)[::-1][:most].tolist())
    return [each for number, each in enumerate(known) if number in kept]


def failing(surface: Surface, axis: Axis) -> Dependence:
    """The witness along one column: means over rows by the column, where there are rows."""
    if len(surface.axes) == 1 and not axis.levels:
        return surface.dependence(axis)
    if surface.rows is None or axis.levels or surface.both(axis) is not None:
        return surface.dependence(axis, 2 * BINS)
    return Dependence(axis, *_binned(surface, axis))


def remaining(ax: Axes, surface: Surface, drawn: Dependence) -> Axes:
    """The witness along one column."""
    ax.axhline(0.0, color=GREY, linewidth=1)
    places = np.arange(len(drawn.grid)) if drawn.marked else drawn.grid
    if len(surface.axes) == 1 and not drawn.marked:
        _curve(ax, places, drawn.values, drawn.half(SIGNIFICANT))
    else:
        _marks(ax, places, drawn.values, drawn.half(SIGNIFICANT))
    if drawn.marked:
        name_levels(ax, drawn.names)
    return finish(ax, x=label(drawn.axis.name), y="remaining error")


def _curve(ax: Axes, grid: np.ndarray, values: np.ndarray, half: np.ndarray) -> None:
    ax.fill_between(grid, values - half, values + half, color=BLUE, alpha=0.18, linewidth=0, label="±2 s.e.")
    ax.plot(grid, values, color=BLUE, linewidth=1.5)
    beyond = np.abs(values) > half
    if beyond.any():
        ax.plot(grid, np.where(beyond, values, np.nan), color=VERMILION, linewidth=3.5, label="more than chance")
        ax.legend(frameon=False, fontsize="x-small")


def _marks(ax: Axes, places: np.ndarray, values: np.ndarray, half: np.ndarray) -> None:
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
    """Plot how much of each direction of f the contexts tell, from that of which they tell most to those they hide.

    A bar is a singular value σ of f -> E[moment(f) | context] between the fitted features: of a direction with σ = 1
    all is seen; with σ = 0.1 it takes 1/σ² = 100 times the rows to know it as well. Where few bars are long, the shape
    of f rests on few directions, and the rest on smoothness.

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
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    ax = axes_for(ax)
    kept = np.asarray(values)[np.asarray(values) >= LEAST]
    order = np.arange(1, len(kept) + 1)
    ax.plot(order, kept, "o-" if len(kept) <= MARKED else "-", color=BLUE, markersize=4, linewidth=1.5)
    ax.fill_between(
        order, kept, 0.0 if kept.min(initial=1.0) >= SEEN else LEAST / 10, color=BLUE, alpha=0.12, linewidth=0
    )
    least = float(kept.min(initial=1.0))
    if least >= SEEN:
        ax.set_ylim(0.0, 1.05)
    else:
        ax.set_yscale("log")
        ax.set_ylim(0.5 * least, 1.5)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    hidden = len(values) - len(kept)
    title = f"{hidden} more are below {LEAST:g}" if hidden else ""
    keep(ax, {"direction": order.tolist(), "singular_value": kept.tolist()})
    return finish(ax, x="direction of f, best seen first", y="singular value: share seen", title=title)


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
        told = format_to(value, error.stderr) if height == heights[0] else format_number(value)
        ax.annotate(
            told.replace("-", "−"),
            (max(end, 0.0), height),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=FONT - 1,
        )
    ax.axvline(0.0, color=GREY, linewidth=1)
    ax.margins(x=0.15)
    ax.set_yticks(heights, names)
    spreads = [error.stderr, None, None]
    keep(ax, {"error": [name.replace("\n", " ") for name in names], "estimate": values, "std_error": spreads})
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
    counts, edges, _ = ax.hist(values, bins=40, color=BLUE, log=True)
    keep(ax, _histogram(counts, edges), data)
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
    counts, edges, bars = ax.hist(ratios, bins=bins, color=BLUE, log=True)
    keep(ax, _histogram(counts, edges), states)
    for bar in bars.patches if hasattr(bars, "patches") else ():
        if bar.get_x() < -edge / 2:
            bar.set_facecolor(VERMILION)
    ax.axvline(1.0, color=GREY, linewidth=1.5, linestyle="--")
    title = f"worth {100 * model.value().effective:.0f} % of the rows it was fitted to"
    return finish(ax, x="density ratio (mean 1)", y="rows", title=title)


def _histogram(counts: Any, edges: Any) -> dict[str, list[Any]]:
    """The bars of a histogram as columns."""
    found = np.asarray(counts).astype(int)
    return {"from": np.asarray(edges)[:-1].tolist(), "to": np.asarray(edges)[1:].tolist(), "rows": found.tolist()}
