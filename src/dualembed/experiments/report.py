"""What an experiment reports, and how a report becomes results.json, a figure and a table.

Figures are readable at the width of a paper's column, and without colour.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed.files import atomic, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

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


@dataclass(frozen=True)
class Method:
    """One method's curves over samples seen, and each trial's end.

    Attributes
    ----------
    hyperparameters : dict
        Its settings.
    samples : list of int
        Numbers of samples of the curve's points.
    mean, std : list of float
        Mean and standard deviation of the metric over trials, at each point.
    final : list of float
        The metric at the end of each trial.
    seconds : list of float
        Seconds of each trial.
    extras : dict
        Other figures of the end by name, one for each trial.
    """

    hyperparameters: dict[str, Any]
    samples: list[int]
    mean: list[float]
    std: list[float]
    final: list[float]
    seconds: list[float]
    extras: dict[str, list[float]] = field(default_factory=dict)  # other figures of the end, by name

    @staticmethod
    def of(
        hyperparameters: dict[str, Any],
        samples: list[int],
        curves: Sequence[Sequence[float]],
        seconds: list[float],
        *,
        extras: dict[str, list[float]] | None = None,
    ) -> Method:
        """The record of one curve for each trial, all over the same samples."""
        columns = list(zip(*curves, strict=True))
        return Method(
            hyperparameters,
            samples,
            mean=[statistics.fmean(column) for column in columns],
            std=[_spread(column) for column in columns],
            final=[curve[-1] for curve in curves],
            seconds=seconds,
            extras=extras or {},
        )


@dataclass(frozen=True)
class Report:
    """An experiment's outcome: every method on the same metric.

    Attributes
    ----------
    experiment : str
        Name of the experiment.
    trials, seed : int
        Number of trials, and seed of the first.
    metric : str
        What the errors are.
    methods : dict
        Curves by the name of the method.
    draw : callable
        Makes the figure.
    settings : dict
        What is the same for all methods.
    title : str
        Title of the figure.
    """

    experiment: str
    trials: int
    seed: int
    metric: str
    methods: dict[str, Method]
    draw: Callable[[], Figure]
    settings: dict[str, Any] = field(default_factory=dict)
    title: str = ""


def write(report: Report, folder: Path) -> tuple[Path, Path]:
    """Write results.json, figure.png and figure.pdf, each whole or not at all.

    Parameters
    ----------
    report : Report
        The report.
    folder : Path
        Where to write.

    Returns
    -------
    tuple of Path
        The results, and the first figure.
    """
    results, figure = folder / "results.json", folder / "figure.png"
    write_atomically(results, json.dumps(document(report), indent=2, allow_nan=False, ensure_ascii=False) + "\n")
    drawn = report.draw()
    for path in (figure, figure.with_suffix(".pdf")):
        with atomic(path) as temporary:
            drawn.savefig(temporary, dpi=200)
    return results, figure


def document(report: Report) -> dict[str, Any]:
    """The report as plain JSON values. A number that is not finite becomes null, as JSON has no other."""
    _check(report)
    methods = {
        name: {
            "hyperparameters": _plain(method.hyperparameters),
            "samples": _plain(method.samples),
            "mean": _plain(method.mean),
            "std": _plain(method.std),
            "final": _plain(method.final),
            "seconds": _plain(method.seconds),
            **({"beside": _plain(method.extras)} if method.extras else {}),
        }
        for name, method in report.methods.items()
    }
    return {
        "experiment": report.experiment,
        "trials": int(report.trials),
        "seed": int(report.seed),
        "metric": report.metric,
        "settings": _plain(report.settings),
        "methods": methods,
    }


def table(report: Report) -> Table:
    """Each method's final metric, mean ± standard deviation over trials, and mean seconds a trial."""
    from rich.markup import escape
    from rich.table import Table

    trials = "1 trial" if report.trials == 1 else f"{report.trials} trials"
    # A metric may have brackets, E[f(z) | x], which would be taken for markup.
    grid = Table(title=escape(f"{report.experiment}: {report.metric}, {trials}"), title_justify="left")
    grid.add_column("method", no_wrap=True)
    grid.add_column("samples", justify="right")
    grid.add_column("final", justify="right", no_wrap=True)
    grid.add_column("seconds", justify="right")
    for name, method in report.methods.items():
        samples = f"{int(method.samples[-1]):,}" if len(method.samples) else ""
        seconds = f"{statistics.fmean(map(float, method.seconds)):.1f}"
        grid.add_row(name, samples, _summary(method.final), seconds)
    return grid


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


def _summary(final: list[float]) -> str:
    values = [float(value) for value in final]
    mean = statistics.fmean(values)
    return f"{mean:.3g}" if len(values) == 1 else f"{mean:.3g} ± {_spread(values):.2g}"


def _spread(values: Sequence[float]) -> float:
    """The standard deviation; 0 of one value, NaN where one is not finite."""
    if not all(map(math.isfinite, values)):
        return math.nan
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _check(report: Report) -> None:
    """Raise if the lists of a method do not fit together: a mistake in the experiment, not by the user."""
    for name, method in report.methods.items():
        if not len(method.samples) == len(method.mean) == len(method.std):
            raise ValueError(f"{name}: samples, mean and std must have one entry per point of the curve")
        if not len(method.final) == len(method.seconds) == report.trials:
            raise ValueError(f"{name}: final and seconds must have one entry per trial ({report.trials})")


def _plain(value: Any) -> Any:
    """The value in JSON's own types: arrays and their scalars become lists and numbers."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
