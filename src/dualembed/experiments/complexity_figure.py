"""The two panels of the experiment on sample complexity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed.experiments.experiment import Curve
from dualembed.experiments.report import FONT, Report

if TYPE_CHECKING:
    import matplotlib.axes
    from matplotlib.figure import Figure

CAPTION = (
    "The paper's worst cases: Embedding-SGD reaches an excess objective of ε with 1/ε² draws, the sample average with "
    "1/ε⁴.\nThe two-step's 1/ε⁴ is for an error of ε of the embedding in its RKHS; its square bounds the excess here.\n"
    "Slopes of log error against log n: mean ± standard error over trials. Bands: one standard deviation."
)

STYLES: dict[str, dict[str, Any]] = {
    "embedding-sgd": {"label": "Embedding-SGD", "color": "#D55E00", "marker": "o", "linewidth": 2.0, "zorder": 5},
    "batch-saa": {"label": "sample average, best m", "color": "#0072B2", "marker": "^", "linestyle": "--"},
    "two-step": {"label": "two-step embedding", "color": "#E69F00", "marker": "v", "linestyle": "-."},
    "closed-form": {"label": "closed form", "color": "#000000", "marker": "s", "linestyle": ":"},
    "self-tuned": {"label": "self-tuned", "color": "#009E73", "marker": "D", "linestyle": (0, (5, 1))},
}


def panels(report: Report, curves: dict[str, list[Curve]]) -> Figure:
    """(a) The excess against draws of z, with fitted slopes; (b) against the radius of the balls."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 4.0), layout="constrained")
    figure.supxlabel(CAPTION, fontsize=FONT - 1.5)
    left, right = figure.subplots(1, 2)
    _against_draws(left, report)
    _against_radius(right, curves["ball"])
    for axes in (left, right):
        axes.set(xscale="log", yscale="log")
        axes.tick_params(labelsize=FONT)
        axes.grid(True, which="major", alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=FONT - 1.5, handlelength=3)
    return figure


def _against_draws(axes: matplotlib.axes.Axes, report: Report) -> None:
    shown = [name for name in STYLES if name in report.methods]
    for name in shown:
        method, style = report.methods[name], STYLES[name]
        n, mean, spread = (np.asarray(each, dtype=float) for each in (method.samples, method.mean, method.std))
        slopes = np.asarray(method.beside["slope"])
        error = f" ± {slopes.std(ddof=1) / np.sqrt(len(slopes)):.2f}" if len(slopes) > 1 else ""
        label = f"{style['label']}: slope {slopes.mean():.2f}{error}"
        axes.plot(n, mean, **{**style, "label": label}, markersize=3.5)
        _band(axes, n, mean, spread=spread, colour=style["color"])
    n = np.asarray(report.methods["embedding-sgd"].samples, dtype=float)
    top = 1.5 * max(report.methods[name].mean[0] for name in shown)
    for power, line, meaning in ((-0.25, (0, (1, 3)), "1/ε⁴ draws"), (-0.5, (0, (4, 4)), "1/ε² draws")):
        label = f"$n^{{{power:g}}}$: {meaning} for an excess ε"
        axes.plot(n, top * (n / n[0]) ** power, color="#777777", linewidth=0.9, linestyle=line, label=label)
    axes.set_xlabel("draws of z, n", fontsize=FONT)
    axes.set_ylabel(report.metric, fontsize=FONT)
    axes.set_title("(a) error and samples", fontsize=FONT + 1)


def _band(axes: matplotlib.axes.Axes, places: np.ndarray, mean: np.ndarray, *, spread: np.ndarray, colour: str) -> None:
    """One standard deviation around the mean; below zero there is no place on a logarithmic axis."""
    lower = np.maximum(mean - spread, mean / 10)
    axes.fill_between(places, lower, mean + spread, color=colour, alpha=0.12, linewidth=0)


def _against_radius(axes: matplotlib.axes.Axes, own: list[Curve]) -> None:
    styles = (("#56B4E9", "v"), ("#0072B2", "s"), ("#D55E00", "o"))
    radii = own[0].beside["radii"]
    theorem = np.asarray([curve.beside["theorem"] for curve in own], dtype=float)
    best = np.asarray([curve.beside["any γ"] for curve in own], dtype=float).mean(axis=0).min(axis=-1)
    for number, (budget, (colour, marker)) in enumerate(zip(own[0].samples, styles, strict=True)):
        mean, spread = theorem[:, number].mean(axis=0), theorem[:, number].std(axis=0)
        axes.plot(radii, mean, color=colour, marker=marker, markersize=3.5, label=f"n = {budget:,}, γ ∝ R")
        _band(axes, np.asarray(radii), mean, spread=spread, colour=colour)
        label = "best γ for each R" if number == 2 else None
        axes.plot(radii, best[number], color=colour, linestyle=":", linewidth=1, label=label)
    axes.axvline(1, color="#777777", linewidth=0.9, linestyle="--", label="|f*|")
    axes.set_xlabel("radius R = √δ of both balls, in units of |f*|", fontsize=FONT)
    axes.set_title("(b) error and the size of the balls", fontsize=FONT + 1)
