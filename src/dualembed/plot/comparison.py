"""Several policies on one log: their values with intervals, and beside them what other estimators say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed.plot.drawn import keep
from dualembed.plot.style import BLUE, FONT, GREEN, GREY, ORANGE, PURPLE, VERMILION, axes_for, finish, label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKS = ("o", "^", "v", "D", "P", "X")
COLOURS = (ORANGE, GREEN, VERMILION, PURPLE, GREY, "#999999")
STRETCH = 1.5  # of what our intervals reach over, to either side: what is further off is drawn at the edge


def comparison(found: Any, *, level: float = 0.95, ax: Axes | None = None) -> Axes:
    """Plot the values of several policies, and what other estimators say of each.

    Squares are the debiased values, with intervals that hold for all values and differences at once. The marks below
    are other estimators, each with its own interval; an arrow at the edge is one that is too far off to be drawn.

    Parameters
    ----------
    found : Comparison
        What `compare` gives.
    level : float, default=0.95
        Level of the intervals.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    names = list(found.values)
    rows = [row for row in found.table(level) if row["what"] in names]
    others = list(dict.fromkeys(_short(name) for own in found.estimates.values() for name in own))
    most = max(len(own) for own in found.estimates.values()) if found.estimates else 0
    ax = axes_for(ax, (6.0, 0.9 + len(names) * (0.35 + 0.17 * most)))
    low, high = _ends([row for row in rows if row["estimator"] not in _all(found)])
    for place, name in enumerate(names):
        below = 0
        for row in (row for row in rows if row["what"] == name):
            if row["estimator"] in found.estimates.get(name, {}):
                below += 1
                kind = others.index(_short(row["estimator"]))
                look = _look(kind)
                _mark(ax, row, -place - 0.12 - 0.62 * below / max(most, 1), (low, high), look, thin=True)
            else:
                _mark(ax, row, -place, (low, high), {"color": BLUE, "marker": "s", "markersize": 7}, thin=False)
    ax.set_yticks(-np.arange(len(names)), [label(name, 24) for name in names])
    ax.set_ylim(-len(names) + 0.1, 0.5)
    ax.set_xlim(low, high)
    _legend(ax, others)
    finish(ax, x="value")
    ax.tick_params(axis="y", length=0, labelsize=FONT)
    return keep(ax, {key: [row[key] for row in rows] for key in rows[0]})


def _look(kind: int) -> dict[str, Any]:
    return {"color": COLOURS[kind % len(COLOURS)], "marker": MARKS[kind % len(MARKS)], "markersize": 4.5}


def _short(name: str) -> str:
    return name.split(",")[0]


def _all(found: Any) -> set[str]:
    return {name for own in found.estimates.values() for name in own}


def _ends(ours: list[dict[str, Any]]) -> tuple[float, float]:
    """Between which values are drawn."""
    known = [row[end] for row in ours for end in ("lower", "upper", "value") if np.isfinite(row[end])]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    slack = (STRETCH - 1) * (high - low) / 2 or 0.1 * max(abs(high), 1.0)
    return low - slack, high + slack


def _mark(
    ax: Axes, row: dict[str, Any], height: float, ends: tuple[float, float], look: dict[str, Any], *, thin: bool
) -> None:
    """A value with its interval; at the edge, as an arrow, where it is beyond."""
    low, high = ends
    value = row["value"]
    if not np.isfinite(value):
        return
    if not low < value < high:
        edge, arrow = (high, ">") if value >= high else (low, "<")
        ax.plot([edge], [height], linestyle="", clip_on=False, **(look | {"marker": arrow}))
        return
    if np.isfinite(row["lower"]):
        ax.plot([row["lower"], row["upper"]], [height] * 2, color=look["color"], linewidth=1.0 if thin else 2.4)
    ax.plot([value], [height], linestyle="", **look)


def _legend(ax: Axes, others: list[str]) -> None:
    ax.plot([], [], "s", color=BLUE, markersize=7, label="debiased, all at once")
    for kind, name in enumerate(others):
        look = _look(kind)
        ax.plot([], [], linestyle="", label=name, **look)
    style: dict[str, Any] = {"columnspacing": 1.0, "handletextpad": 0.3, "frameon": False, "fontsize": FONT - 1.5}
    ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=3, **style)
