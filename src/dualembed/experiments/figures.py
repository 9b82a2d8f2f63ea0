"""Figures shared by the experiments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dualembed.experiments.base import Method

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#c0392b", "#1f4e79", "#2e8b57", "#8e6c00", "#7d3c98", "#5d6d7e", "#d35400", "#16a085")


def curves(methods: dict[str, Method], *, title: str, metric: str) -> Figure:
    """Every method's mean metric against samples seen, on logarithmic axes, with a band of one standard deviation."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for (name, method), colour in zip(methods.items(), COLOURS, strict=False):
        mean, spread = np.asarray(method.mean), np.asarray(method.std)
        axes.plot(method.samples, mean, color=colour, label=f"{name}  {mean[-1]:.2g}")
        # A band below zero has no place on a logarithmic axis.
        axes.fill_between(method.samples, np.maximum(mean - spread, mean / 10), mean + spread, color=colour, alpha=0.15)
    axes.set(xscale="log", yscale="log", xlabel="samples seen", ylabel=metric, title=title)
    axes.grid(True, which="both", alpha=0.2)
    axes.legend(frameon=False)
    return figure
