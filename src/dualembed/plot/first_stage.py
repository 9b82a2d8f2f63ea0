"""The first stage: how far instruments move a treatment, beyond what controls say of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dualembed import checks
from dualembed.answers.task import Fitted
from dualembed.arrays import Floats
from dualembed.data.coding import Coding
from dualembed.estimates import format_short
from dualembed.plot.drawn import joined, keep
from dualembed.plot.style import BLUE, FONT, GREY, VERMILION, axes_for, finish, label
from dualembed.plot.surface import NORMAL, tables_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 20
FOLDS = 5  # of the prediction by several instruments
MOST = 4  # treatments that are drawn


class Stage(NamedTuple):
    """A treatment and what is to move it, both without what a line in the controls says of them."""

    name: str
    by: str
    moved: Floats
    mover: Floats

    def line(self) -> tuple[float, float]:
        """(intercept, slope) of the least squares line."""
        slope, intercept = np.polyfit(self.mover, self.moved, 1)
        return float(intercept), float(slope)

    def bins(self) -> dict[str, list[Any]]:
        """Means of both over rows in the order of the mover, with the standard error of the treatment's."""
        cuts = np.unique(np.quantile(self.mover, np.linspace(0, 1, BINS + 1)[1:-1]))
        numbers = np.searchsorted(cuts, self.mover, side="right")
        parts = [numbers == number for number in np.unique(numbers)]
        means = [float(self.moved[part].mean()) for part in parts]
        errors = [
            float(self.moved[part].std(ddof=1) / np.sqrt(part.sum())) if part.sum() > 1 else 0.0 for part in parts
        ]
        return {
            "column": [self.name] * len(parts),
            "at": [float(self.mover[part].mean()) for part in parts],
            "rows": [int(part.sum()) for part in parts],
            "estimate": means,
            "std_error": errors,
            "conf_low": [mean - NORMAL * error for mean, error in zip(means, errors, strict=True)],
            "conf_high": [mean + NORMAL * error for mean, error in zip(means, errors, strict=True)],
        }


def first_stage(model: Fitted, data: Any, *, ax: Axes | None = None) -> Axes:
    """Plot each treatment against its instrument, beyond the controls: means over twentieths of the rows, and a line.

    A line in the controls is taken out of both. With several instruments, what they predict of the treatment on rows
    left out stands in their place. The steeper the line and the closer the marks to it, the stronger the instruments.

    Parameters
    ----------
    model : estimator
        A model that was fitted with instruments.
    data : dict
        The rows of the fit, as in `model.fit(**data)`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default on a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    stages = stages_of(model, tables_of(model, data))
    if not stages:
        raise checks.InputError(
            "a first stage needs instruments and a treatment that is a number; give data with all columns of the fit, "
            "as dict(X=..., y=..., instruments=...)"
        )
    return draw_stages(axes_for(ax, (3.6 * len(stages) + 0.6, 3.0)), model, stages, data)


def stages_of(model: Fitted, tables: Mapping[str, Any]) -> list[Stage]:
    """The first stages of treatments that are numbers; none where there are no instruments or tables lack them."""
    codings = {coding.role: coding for coding in [*model._codings(), *model._context_codings()]}
    if "instruments" not in codings or any(role not in tables for role in codings):
        return []
    coded = {role: coding.encode(tables[role]) for role, coding in codings.items()}
    rows = len(coded["X"])
    beside = np.column_stack([np.ones(rows), *([coded["controls"]] if "controls" in coded else [])])
    movers, names = (
        _without(beside, _in_units(codings["instruments"], coded["instruments"])),
        _named(codings["instruments"]),
    )
    found: list[Stage] = []
    for column, start in zip(codings["X"].columns, codings["X"].starts, strict=True):
        if column.width != 1 or len(found) == MOST:
            continue
        scale = 1.0 if column.levels else column.scale
        moved = _without(beside, scale * coded["X"][:, start : start + 1])[:, 0]
        if movers.shape[1] == 1:
            found.append(Stage(column.name, names[0], moved, movers[:, 0]))
        else:
            found.append(Stage(column.name, f"{column.name}, as predicted", moved, _predicted(movers, moved)))
    return found


def _named(coding: Coding) -> list[str]:
    return [column.name for column in coding.columns for _ in range(column.width)]


def _in_units(coding: Coding, coded: Floats) -> Floats:
    """Coded columns in their own units, up to a shift."""
    scales = [1.0 if column.levels else column.scale for column in coding.columns for _ in range(column.width)]
    return np.asarray(coded[:, : len(scales)] * np.asarray(scales))


def _without(beside: Floats, columns: Floats) -> Floats:
    """What a line in other columns leaves."""
    return np.asarray(columns - beside @ np.linalg.lstsq(beside, columns, rcond=1e-10)[0])


def _predicted(movers: Floats, moved: Floats) -> Floats:
    """The line in the movers at each row, through rows of other folds."""
    folds = np.random.default_rng(0).permutation(len(moved)) % FOLDS
    found = np.empty(len(moved))
    for fold in range(FOLDS):
        out = folds == fold
        found[out] = movers[out] @ np.linalg.lstsq(movers[~out], moved[~out], rcond=1e-10)[0]
    return found


def draw_stages(ax: Axes, model: Fitted, stages: list[Stage], data: Any = None) -> Axes:
    """Means over bins with a line, a panel for each treatment."""
    own = [ax]
    if len(stages) > 1:
        spec = ax.get_subplotspec()
        if spec is None:
            raise checks.InputError(f"these axes cannot be divided into {len(stages)} panels; use axes of subplots")
        grid = spec.subgridspec(1, len(stages))
        ax.set_axis_off()
        own = [ax.figure.add_subplot(grid[0, number]) for number in range(len(stages))]
    strength = _strengths(model)
    beyond = ", beyond controls" if "controls" in [coding.role for coding in model._context_codings()] else ""
    for each, stage in zip(own, stages, strict=True):
        _draw(each, stage, strength.get(stage.name, ""), beyond)
    return keep(ax, joined([stage.bins() for stage in stages]), data)


def _strengths(model: Fitted) -> dict[str, str]:
    """What the first-stage F of each treatment is, in words."""
    linear = model.summary().findings.facts.get("linear") or {}
    return {
        each["column"]: f"first-stage F {format_short(each['f'])} ({linear['errors']})"
        for each in linear.get("first_stage", [])
        if each["f"] is not None and np.isfinite(each["f"])
    }


def _draw(ax: Axes, stage: Stage, title: str, beyond: str) -> None:
    bins = stage.bins()
    places, means = np.asarray(bins["at"]), np.asarray(bins["estimate"])
    intercept, slope = stage.line()
    ends = np.array([places.min(), places.max()])
    ax.axhline(0.0, color=GREY, linewidth=0.8)
    ax.plot(ends, intercept + slope * ends, color=VERMILION, linewidth=1.8)
    half = NORMAL * np.asarray(bins["std_error"])
    ax.errorbar(places, means, half, fmt="o", color=BLUE, markersize=4.5, capsize=0, linewidth=1.2, alpha=0.9)
    finish(ax, x=label(f"{stage.by}{beyond}", 48), y=label(f"{stage.name}{beyond}", 48), title=title)
    ax.title.set_fontsize(FONT)
