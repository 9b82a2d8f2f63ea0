"""How wrong, how ill-posed, how well covered: the numbers of the diagnostics as figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed import checks
from dualembed.plot.fields import tables_of
from dualembed.plot.style import BLUE, FONT, GREY, SKY, VERMILION, axes_for, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST = 1e-4  # singular values below are counted, not drawn


def singular_values(model: Any, *, ax: Axes | None = None) -> Axes:
    """How much of each direction of f the contexts tell: 1 is all of it, near 0 next to nothing."""
    found = model.diagnostics_.singular_values
    if found is None:
        raise checks.InputError("singular values are there after a closed form only; use solver='auto'")
    from matplotlib.ticker import MaxNLocator

    ax = axes_for(ax)
    kept = np.asarray(found)[np.asarray(found) >= LEAST]
    order = np.arange(1, len(kept) + 1)
    ax.semilogy(order, kept, "o-", color=BLUE, markersize=4, linewidth=1)
    ax.set_ylim(min(0.5 * float(kept.min(initial=1.0)), 0.5), 1.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    title = f"{len(found) - len(kept)} more are below {LEAST:g}" if len(kept) < len(found) else ""
    return finish(ax, x="direction of f", y="singular value", title=title)


def errors(model: Any, *, ax: Axes | None = None) -> Axes:
    """The honest error on rows left out, ±2 standard errors, beside the mean squares of single rows, in and out."""
    found = model.diagnostics_.held_out
    if found is None:
        raise checks.InputError("there is no held-out error: the fit had too few rows, or another loss than the square")
    ax = axes_for(ax)
    names = ["honest error,\nrows left out", "squared residuals,\nrows left out", "squared residuals,\nrows fitted"]
    values = [found.value, found.squared, found.fitted]
    heights = np.arange(3)[::-1]
    ax.barh(heights, values, color=[BLUE, SKY, SKY], height=0.6)
    ax.errorbar(found.value, heights[0], xerr=2 * found.stderr, fmt="none", ecolor="black", capsize=4)
    ends = [found.value + 2 * found.stderr, found.squared, found.fitted]
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


def weights(model: Any, data: Any, *, ax: Axes | None = None) -> Axes:
    """A histogram of the importance weights that the model was fitted with, their mean being 1."""
    given = tables_of(model, data).get("weights")
    if given is None:
        raise checks.InputError("data must hold the importance weights of the fit, as dict(states=..., weights=...)")
    values = np.asarray(given, dtype=np.float64).ravel()
    values = values / max(float(values.mean()), np.finfo(float).tiny)
    ax = axes_for(ax)
    ax.hist(values, bins=40, color=BLUE, log=True)
    ax.axvline(1.0, color=VERMILION, linewidth=1.5, linestyle="--")
    size = values.sum() ** 2 / max(float(np.sum(values**2)), np.finfo(float).tiny)
    title = f"worth {size:,.0f} of {len(values):,} unweighted rows"
    return finish(ax, x="importance weight (mean 1)", y="rows", title=title)


def density_ratio(model: Any, states: Any, actions: Any = None, *, ax: Axes | None = None) -> Axes:
    """A histogram of how often the evaluated policy is at these places, against how often the log is.

    What lies below zero, which no ratio can, is of another colour. The title says how many of the log's rows that
    leaves in use.
    """
    found = model.density_ratio(states) if actions is None else model.density_ratio(states, actions)
    ax = axes_for(ax)
    bins = np.histogram_bin_edges(np.append(found, [0.0, 1.0]), bins=40)
    edge = bins[1] - bins[0]
    bins = np.arange(np.floor(bins[0] / edge), np.ceil(bins[-1] / edge) + 1) * edge  # so that 0 is an edge
    _, _, bars = ax.hist(found, bins=bins, color=BLUE, log=True)
    for bar in bars.patches if hasattr(bars, "patches") else ():
        if bar.get_x() < -edge / 2:
            bar.set_facecolor(VERMILION)
    ax.axvline(1.0, color=GREY, linewidth=1.5, linestyle="--")
    title = f"worth {100 * model.value().effective:.0f} % of the rows it was fitted to"
    return finish(ax, x="density ratio (mean 1)", y="rows", title=title)
