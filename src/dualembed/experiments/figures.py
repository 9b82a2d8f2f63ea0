"""Figures shared by the experiments: readable at the width of a paper's column, and without colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed.experiments.base import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = (4.6, 4.4)  # inches
FONT = 8

# Colours by Okabe and Ito, which colour-blind readers tell apart; lines and markers say the same without colour. As in
# the paper, what minimises only a bound of the objective is dotted.
STYLES: dict[str, dict[str, Any]] = {
    "embedding-sgd": {"color": "#D55E00", "linewidth": 2.0, "zorder": 5},
    "centred-sgd": {"color": "#882255", "linewidth": 1.6, "linestyle": (0, (6, 1.5)), "zorder": 5},
    "preconditioned-sgd": {"color": "#CC79A7", "linestyle": (0, (5, 1))},
    "closed-form": {"color": "#000000", "linestyle": "none", "marker": "s", "markersize": 4},
    "self-tuned": {"color": "#009E73", "linestyle": "none", "marker": "o", "markersize": 4.5},
    "virtual-samples": {"color": "#0072B2", "linestyle": ":"},
    "sgd-saa": {"color": "#56B4E9", "linestyle": "--"},
    "gtd2": {"color": "#0072B2", "linestyle": "--"},
    "residual-gradient": {"color": "#56B4E9", "linestyle": "-."},
    "kernel-mdp": {"color": "#E69F00", "linestyle": (0, (3, 1, 1, 1))},
}
FIXED = {"embedding-sgd": "o", "sgd-saa": "^", "virtual-samples": "v"}  # markers of runs over a fixed training set
STYLES |= {
    f"{name}-fixed": {**STYLES[name], "linewidth": 1.0, "marker": marker, "markersize": 3, "alpha": 0.7}
    for name, marker in FIXED.items()
}
NAMES = {
    "embedding-sgd": "Embedding-SGD",
    "centred-sgd": "centred dual",
    "preconditioned-sgd": "preconditioned",
    "closed-form": "closed form",
    "virtual-samples": "virtual samples",
    "sgd-saa": "SGD-SAA",
    "gtd2": "GTD2",
    "residual-gradient": "residual gradient",
    "kernel-mdp": "kernel MDP",
}
NAMES |= {f"{name}-fixed": f"{NAMES[name]}, fixed data" for name in FIXED}


def curves(report: Report) -> Figure:
    """Every method's mean metric against samples seen, on logarithmic axes, with a band of one standard deviation."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    for name, method in report.methods.items():
        samples, mean, spread = (np.asarray(each, dtype=float) for each in (method.samples, method.mean, method.std))
        style, end = STYLES.get(name, {"color": "#444444"}), mean[-1]
        shown = np.isfinite(mean) & (mean > 0)
        samples, mean, spread = samples[shown], mean[shown], spread[shown]
        label = f"{NAMES.get(name, name)}  {_short(end) if np.isfinite(end) else 'diverged'}"
        axes.plot(samples, mean, label=label, **style)
        # A band below zero has no place on a logarithmic axis.
        lower = np.maximum(mean - spread, mean / 10)
        if style.get("linestyle") == "none":
            axes.errorbar(samples, mean, [mean - lower, spread], fmt="none", ecolor=style["color"], linewidth=0.8)
        else:
            axes.fill_between(samples, lower, mean + spread, color=style["color"], alpha=0.15, linewidth=0)
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel("samples seen", fontsize=FONT)
    axes.set_ylabel(report.metric, fontsize=FONT)
    axes.set_title(report.title or report.experiment, fontsize=FONT + 1)
    axes.tick_params(labelsize=FONT)
    axes.grid(True, which="major", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=FONT - 1)
    return figure


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
