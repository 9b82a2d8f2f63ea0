"""Figures show the numbers that the model gives, in the data's own units, and leave matplotlib's settings alone."""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
import io
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from tests.report.models import HOSTILE, ROWS, levels_model, line_model, map_model, policy_model, space, wide_model

from dualembed import plot
from dualembed.checks import InputError
from dualembed.estimators import IVRegressor, PolicyEvaluator
from dualembed.plot.style import VERMILION, label


def axes() -> Axes:
    found: Axes = Figure(layout="constrained").subplots()
    return found


def draw(ax: Axes) -> None:
    """Draw the figure for good: what cannot be drawn shows then only."""
    ax.figure.savefig(io.BytesIO(), format="png")


@functools.cache
def bent_model() -> tuple[IVRegressor, dict[str, Any]]:
    """A straight line through a parabola: wrong where the parabola is far from it."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, size=ROWS)
    data = {"X": x[:, None], "y": x**2 + 0.1 * rng.normal(size=ROWS)}
    return IVRegressor(primal="linear", dual=space(0.7)).fit(**data), data


def test_curve_is_the_prediction_in_the_columns_own_units() -> None:
    model, data = line_model()
    ax = plot.function(model, data, ax=axes())
    prices, values = ax.lines[0].get_data()
    assert prices[0] > 4  # prices lie around 10, and standardised ones would around 0
    assert prices[-1] <= data["X"]["price"].max()
    np.testing.assert_allclose(values, model.predict(pd.DataFrame({"price": prices})))
    assert ax.get_xlabel() == "price"


def test_band_is_the_interval() -> None:
    model, data = policy_model()
    ax = plot.function(model, data, ax=axes())
    grid = np.asarray(ax.lines[0].get_xdata())
    lower, upper = model.interval(grid)
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(lower.min(), abs=1e-3)
    assert heights.max() == pytest.approx(upper.max(), abs=1e-3)


def test_without_data_the_curve_spans_two_deviations_around_the_mean() -> None:
    model, _ = line_model()
    prices = np.asarray(plot.function(model, ax=axes()).lines[0].get_xdata())
    column = model.coding_.columns[0]
    assert prices[[0, -1]] == pytest.approx([column.mean - 2 * column.scale, column.mean + 2 * column.scale])


def test_two_numbers_are_a_map_with_lines_of_equal_error() -> None:
    model, data = map_model()
    ax = plot.function(model, data, ax=axes())
    maps = [each for each in ax.collections if isinstance(each, QuadContourSet)]
    assert len(maps) == 2
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("state 0", "state 1")
    draw(ax)


def test_number_and_category_are_a_curve_for_each_level() -> None:
    model, data = levels_model()
    ax = plot.function(model, data, ax=axes())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["kind = a", "kind = b"]
    rising, falling = (np.asarray(line.get_ydata()) for line in ax.lines[:2])
    assert rising[60] > rising[20]
    assert falling[60] < falling[20]


def test_more_columns_have_a_panel_each_and_constant_ones_none() -> None:
    model, data = wide_model()
    ax = plot.function(model, data, ax=axes())
    panels = [each for each in ax.figure.axes if each is not ax]
    assert len(panels) == 4
    assert [each.get_xlabel() for each in panels][1:] == ["second", "third", "region"]
    draw(ax)


def test_dependence_is_the_mean_of_predictions_over_rows() -> None:
    model, data = wide_model()
    ax = plot.function(model, data, column="second", ax=axes())
    grid, values = ax.lines[0].get_data()
    moved = data["X"].assign(second=grid[7])
    assert values[7] == pytest.approx(model.predict(moved).mean())


def test_category_has_a_mark_with_its_interval_for_each_level() -> None:
    model, data = wide_model()
    ax = plot.function(model, data, column="region", ax=axes())
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["<b>west</b>", "north", "south"]
    marks, _, (bars,) = ax.containers[0]
    assert len(marks.get_ydata()) == len(bars.get_segments()) == 3


def test_names_with_dollars_are_drawn_as_they_are() -> None:
    model, data = wide_model()
    assert "$x" in HOSTILE
    draw(plot.function(model, data, column=HOSTILE, ax=axes()))
    assert label("cost in $ and $") == r"cost in \$ and \$"


def test_witness_marks_where_the_equation_fails() -> None:
    model, data = bent_model()
    ax = plot.witness(model, data, ax=axes())
    marked = [line for line in ax.lines if to_hex(line.get_color()).upper() == VERMILION]
    assert len(marked) == 1
    places, values = (np.asarray(each, dtype=float) for each in marked[0].get_data())
    middle = values[np.abs(places) < 0.2]
    assert np.nanmin(middle) > 0.1  # the line lies above the parabola in the middle, by a third


def test_witness_of_a_right_function_is_hardly_marked() -> None:
    model, data = policy_model()
    ax = plot.witness(model, data, ax=axes())
    marked = [line for line in ax.lines if to_hex(line.get_color()).upper() == VERMILION]
    assert sum(np.isfinite(np.asarray(line.get_ydata(), dtype=float)).mean() for line in marked) < 0.2


def test_witness_of_several_columns_has_tenths_of_the_data() -> None:
    model, data = map_model()
    ax = plot.witness(model, data, ax=axes())
    first = next(each for each in ax.figure.axes if each is not ax)
    assert sum(len(container[0].get_xdata()) for container in first.containers) == 10


def test_witness_of_instruments_is_along_the_instruments() -> None:
    model, data = line_model()
    assert plot.witness(model, data, ax=axes()).get_xlabel() == "tax"


def test_errors_are_those_of_the_diagnostics() -> None:
    model, _ = policy_model()
    ax = plot.errors(model, ax=axes())
    found = model.diagnostics_.held_out
    assert found is not None
    assert [bar.get_width() for bar in ax.patches] == [found.value, found.squared, found.fitted]


def test_singular_values_are_those_of_the_diagnostics() -> None:
    model, _ = policy_model()
    ax = plot.singular_values(model, ax=axes())
    np.testing.assert_allclose(ax.lines[0].get_ydata(), model.diagnostics_.singular_values)


def test_singular_values_near_zero_are_counted_and_not_drawn() -> None:
    model = copy.copy(policy_model()[0])
    model.diagnostics_ = dataclasses.replace(model.diagnostics_, singular_values=np.array([1.0, 0.1, 0.0]))
    ax = plot.singular_values(model, ax=axes())
    assert list(ax.lines[0].get_ydata()) == [1.0, 0.1]
    assert ax.get_title() == "1 more are below 0.0001"


def test_weights_say_what_they_are_worth() -> None:
    model, data = policy_model()
    weights = np.repeat([0.0, 2.0], ROWS // 2)
    ax = plot.weights(model, {**data, "weights": weights}, ax=axes())
    assert ax.get_title() == f"worth {ROWS // 2} of {ROWS} unweighted rows"
    with pytest.raises(InputError, match="data must hold the importance weights"):
        plot.weights(model, data, ax=axes())


def test_axes_are_given_back_and_made_where_none_are_given() -> None:
    from matplotlib import pyplot

    pyplot.switch_backend("agg")
    model, data = policy_model()
    ax = axes()
    assert plot.function(model, data, ax=ax) is ax
    made = plot.function(model, data)
    assert made.figure in map(pyplot.figure, pyplot.get_fignums())
    pyplot.close("all")


def test_settings_of_matplotlib_stay_as_they_were() -> None:
    before = dict(matplotlib.rcParams)
    model, data = policy_model()
    for each in (plot.function, plot.witness):
        draw(each(model, data, ax=axes()))
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("package", ["plot", "report"])
def test_matplotlib_is_imported_only_to_draw(package: str) -> None:
    for path in Path(plot.__file__).parent.parent.joinpath(package).glob("*.py"):
        tops = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        assert not any("matplotlib" in ast.unparse(node) for node in tops), path


def test_what_cannot_be_drawn_is_refused_in_a_sentence() -> None:
    model, data = wide_model()
    with pytest.raises(InputError, match="has not been fitted"):
        plot.function(PolicyEvaluator(), ax=axes())
    with pytest.raises(InputError, match=r"choose one of .*second"):
        plot.function(model, data, column="secnd", ax=axes())
    with pytest.raises(InputError, match="cannot be divided into 4 panels"):
        plot.function(model, data, ax=Figure().add_axes((0, 0, 1, 1)))
