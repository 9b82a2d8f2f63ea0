"""The one picture of an answer: what moving the treatments does, what episodes collected, or the function itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from dualembed.answers.summary import Summary
from dualembed.answers.task import Fitted
from dualembed.plot.effects import MOST_BARS, draw_bars, draw_effects, moves_of, treatments
from dualembed.plot.figures import MOST_PANELS, dependence, draw, is_many, leading, panel_size, panels
from dualembed.plot.returns import draw_returns
from dualembed.plot.surface import Dependence, Surface, function_surface
from dualembed.report.html import SIZE, Drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 3  # treatments that have a panel each
LEADING = 2  # columns that stand for a function of many
CARD_BARS = 7  # effects in a small picture
BAR = 0.25  # inches


def surface_of(model: Fitted, data: Any = None) -> Surface:
    """The function with rows to average over: those of the data, or without data those that the model has kept."""
    surface = function_surface(model, data)
    return surface if surface.rows is not None else dataclasses.replace(surface, rows=surface.sample)


class Picture(NamedTuple):
    """A drawing, what it shows, and one for telephones where that differs."""

    drawing: Drawing
    caption: str
    alternative: str
    narrow: Drawing | None = None


def picture_of(
    model: Fitted, summary: Summary, surface: Surface, tables: Mapping[str, Any], size: tuple[float, float] = SIZE
) -> Picture:
    """The picture of the fit's headline."""
    moves = [each for own in moves_of(model).values() for each in own]
    if moves:
        names = treatments(model)
        return _one(model, summary, surface, names, size) if len(names) <= FEW else _all(summary, moves, model, size)
    episodes = model._episodes(tables) if tables else None
    if episodes is not None:
        cut = " (with what the value says of the rest, where it was cut off)" if episodes.cut.any() else ""
        return Picture(
            Drawing(lambda ax: draw_returns(ax, episodes), size),
            f"Each dot is an episode: what it collected{cut} against what the value predicts at its start. Single "
            "episodes scatter by luck; their means should lie on the dashed line.",
            "Observed against predicted returns of episodes, with means of parts of them and the line where both agree",
        )
    return _function(surface, size)


def _one(model: Fitted, summary: Summary, surface: Surface, names: list[str], size: tuple[float, float]) -> Picture:
    """What moving each of few treatments does."""
    around = "bands and bars are 95 % intervals" if surface.spreads else "this solver gives no intervals"
    told = "; the full mark is the move between quartiles" if _is_marked(model, surface, names[0]) else ""
    slope = summary.findings.facts.get("average_slope", {}).get("value")
    told += "; the dashed line has the average slope" if slope is not None else ""
    told += ", which is the answer" if slope == summary.headline.value else ""
    moving = f"of moving {' and '.join(names)}, on average over the rows"
    caption = f"The {summary.findings.measure} {moving}; {around}{told}."
    wide = size if len(names) == 1 else (1.25 * size[0], size[1])
    return Picture(Drawing(partial(_effects, model, surface, names), wide), caption, caption)


def _is_marked(model: Fitted, surface: Surface, name: str) -> bool:
    """Whether the answer itself stands in the curve of its column."""
    axis, moves = surface.axis(name), moves_of(model).get(name)
    if moves is None or axis.levels or surface.both(axis) is not None or not surface.spreads:
        return False
    low, high = surface.ends(axis)
    return bool(low <= moves[0]["from"] <= high)


def _effects(model: Fitted, surface: Surface, names: list[str], ax: Axes) -> None:
    draw_effects(ax, model, surface, names)


def _all(summary: Summary, moves: list[dict[str, Any]], model: Fitted, size: tuple[float, float]) -> Picture:
    """Every effect, one below the other."""
    most = MOST_BARS if size == SIZE else CARD_BARS
    shown, rest = moves[:most], len(moves) - most
    caption = (
        f"The {summary.findings.measure} when one column moves and the others stay, with 95 % intervals; the "
        f"first column is on top.{f' {rest} more are in the table.' if rest > 0 else ''}"
    )
    tall = max(BAR * len(shown) + 0.7, size[1])
    return Picture(Drawing(lambda ax: draw_bars(ax, model, shown), (size[0] * 1.1, tall)), caption, caption)


def _function(surface: Surface, size: tuple[float, float]) -> Picture:
    names = [axis.name for axis in surface.axes]
    if not is_many(surface):
        caption = f"The {surface.symbol} against {' and '.join(names)}; {intervals(surface)}."
        return Picture(Drawing(lambda ax: draw(ax, surface), size), caption, caption)
    drawn = leading(surface, LEADING)
    told = " and ".join(each.axis.name for each in drawn)
    caption = f"The {surface.symbol} along {told}, which move it most; {intervals(surface)}."
    wide = (size[0] * 1.2, size[1])
    return Picture(Drawing(partial(_panels, surface, drawn, LEADING), wide), caption, caption)


def _panels(surface: Surface, drawn: list[Dependence], across: int, ax: Axes) -> None:
    panels(ax, surface, drawn, dependence, across=across, unit=surface.unit)


def whole_function(surface: Surface) -> Picture:
    """The function along all of its columns."""
    names = [axis.name for axis in surface.axes]
    if not is_many(surface):
        return _function(surface, SIZE)
    drawn = leading(surface, MOST_PANELS)
    how = "averaged over the rows of the data" if surface.rows is not None else "at their middle"
    caption = (
        f"The {surface.symbol} along each column, all on one scale, the other columns {how}; {intervals(surface)}."
    )
    kept = {each.axis.name for each in drawn}
    if left := [name for name in names if name not in kept]:
        caption += f" Not drawn, since they move it less: {', '.join(left)}."
    alternative = f"The {surface.symbol} along each of {len(drawn)} columns, a panel each"
    return Picture(
        Drawing(partial(_panels, surface, drawn, 4), panel_size(len(drawn), 4)),
        caption,
        alternative,
        Drawing(partial(_panels, surface, drawn, 2), panel_size(len(drawn), 2)),
    )


def intervals(surface: Surface) -> str:
    """What the figures' bands and lines are."""
    if not surface.spreads:
        return "this solver gives no intervals"
    few = [axis for axis in surface.axes if axis.levels or surface.both(axis) is not None]
    if len(surface.axes) == 2 and not few:
        return "dashed lines are standard errors"
    return "bands and bars are 95 % intervals" if few else "bands are 95 % intervals"
