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


def card(rows: int = 500) -> tuple[IVRegressor, dict[str, Any]]:
    """A straight line by an instrument, beside a number and a dummy; the outcome has a name."""
    rng = np.random.default_rng(7)
    near, hidden = 1.0 * (rng.random(rows) < 0.5), rng.normal(size=rows)
    controls = pd.DataFrame({"exper": rng.normal(size=rows), "black": 1.0 * (rng.random(rows) < 0.3)})
    educ = 12 + near + hidden + 0.5 * controls["exper"]
    wage = pd.Series(0.1 * educ + hidden - 0.2 * controls["black"], name="lwage")
    data = {"X": pd.DataFrame({"educ": educ}), "y": wage, "instruments": {"near": near}, "controls": controls}
    return IVRegressor(primal="linear", dual="linear").fit(**data), data


@functools.cache
def card_model() -> tuple[IVRegressor, dict[str, Any]]:
    """The same, fitted once."""
    return card()


@functools.cache
def curved_model() -> tuple[IVRegressor, dict[str, Any]]:
    """A curve by an instrument: the summary moves x by its quartiles."""
    rng = np.random.default_rng(8)
    z, hidden = rng.normal(size=(2, ROWS))
    x = z + 0.5 * hidden
    data = {"X": pd.DataFrame({"price": x}), "y": np.sin(x) + hidden, "instruments": {"tax": z}}
    return IVRegressor(primal=space(), dual=space()).fit(**data), data


def test_means_over_sets_in_one_pass_are_the_means_one_by_one() -> None:
    for model, _ in (policy_model(), map_model(), wide_model(), averaged_model()):
        rng = np.random.default_rng(0)
        sets = model.sample_.points[rng.integers(len(model.sample_.points), size=(5, 7))]
        for spread in model.uncertainty_.spreads:
            values, errors = spread.averages(sets)
            single = [spread.average(each) for each in sets]
            np.testing.assert_allclose(values, [each.value for each in single], rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(errors, [each.stderr for each in single], rtol=1e-6)
            moved, _ = spread.averages(sets[1:], sets[0])
            np.testing.assert_allclose(moved, values[1:] - values[0], atol=1e-9)


@functools.cache
def averaged_model() -> tuple[PolicyEvaluator, dict[str, Any]]:
    """A value by averaged ridge paths."""
    data = policy_model()[1]
    return PolicyEvaluator(0.5).fit(**data), data


def test_a_contrast_has_the_error_of_its_question() -> None:
    model, _ = curved_model()
    facts = model.summary().findings.facts
    move, answer = facts["effects"][0], model.summary().findings.answers[0]
    drawn = plot.data_of(plot.effect(model, ax=axes()))
    start = drawn.loc[np.isclose(drawn["at"], move["from"]), "estimate"]
    assert float(start.iloc[0]) == pytest.approx(0.0, abs=1e-9)
    assert np.interp(move["to"], drawn["at"], drawn["estimate"]) == pytest.approx(answer.value, rel=0.01)
    assert np.interp(move["to"], drawn["at"], drawn["std_error"]) == pytest.approx(answer.stderr, rel=0.02)


def test_the_average_slope_is_drawn_where_the_summary_leads_with_it() -> None:
    model, _ = curved_model()
    ax = plot.effect(model, ax=axes())
    dashed = next(line for line in ax.lines if line.get_linestyle() == "--")
    slope = np.diff(dashed.get_ydata())[0] / np.diff(dashed.get_xdata())[0]
    assert slope == pytest.approx(model.summary().headline.value)
    lines = plot.effect(card_model()[0], ax=axes()).lines
    assert not [line for line in lines if line.get_linestyle() == "--"]


def test_the_effect_is_called_by_the_outcome_and_the_treatment() -> None:
    model, data = card_model()
    ax = plot.effect(model, data, ax=axes())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("educ", "effect on lwage")
    assert model.summary().headline.question.startswith("the effect on lwage when educ moves")
    assert "near moves educ, and touches lwage through educ only" in model.task_.question


def test_effects_are_the_answers_of_the_summary() -> None:
    model, _ = card_model()
    frame = plot.data_of(plot.effects(model, ax=axes()))
    answers = model.summary().findings.answers
    assert frame["column"].tolist() == ["educ", "exper", "black"]
    assert frame["estimate"].tolist() == [each.value for each in answers]
    assert frame["std_error"].tolist() == [each.stderr for each in answers]
    with pytest.raises(InputError, match="effects are those of a regression"):
        plot.effects(policy_model()[0], ax=axes())


def test_a_number_of_two_values_has_two_marks_and_no_curve() -> None:
    model, data = card_model()
    ax = plot.function(model, data, column="black", ax=axes())
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "1"]
    assert ax.collections[-1] is ax.containers[0][2][0]
    assert len(plot.data_of(ax)) == 2


def test_panels_share_one_scale() -> None:
    model, data = wide_model()
    ax = plot.function(model, data, ax=axes())
    scales = {panel.get_ylim() for panel in ax.figure.axes if panel is not ax}
    assert len(scales) == 1


def test_first_stage_is_the_line_of_the_instrument_beyond_controls() -> None:
    model, data = card_model()
    ax = plot.first_stage(model, data, ax=axes())
    places, heights = ax.lines[1].get_data()
    beside = np.column_stack([np.ones(len(data["y"])), data["controls"]])
    exact = np.linalg.lstsq(np.column_stack([data["instruments"]["near"], beside]), data["X"]["educ"], rcond=None)[0][0]
    assert np.diff(heights)[0] / np.diff(places)[0] == pytest.approx(exact)
    assert "first-stage F" in ax.get_title()
    assert ax.get_ylabel() == "educ, beyond controls"
    with pytest.raises(InputError, match="needs instruments"):
        plot.first_stage(*wide_model(), ax=axes())


def test_returns_stand_beside_what_was_predicted() -> None:
    rng = np.random.default_rng(9)
    episodes, steps = 60, 12
    quality = np.repeat(rng.uniform(-1, 1, size=episodes), steps)
    step = np.tile(np.arange(steps), episodes)
    states = np.column_stack([quality, step])
    data = {
        "states": states,
        "rewards": quality + rng.normal(size=len(step)),
        "next_states": np.column_stack([quality, step + 1]),
        "terminated": 1.0 * (step == steps - 1),
        "episodes": np.repeat(np.arange(episodes), steps),
    }
    model = PolicyEvaluator(0.9, primal=space(2.0), dual=space(2.0)).fit(**data)
    frame = plot.data_of(plot.returns(model, data, ax=axes()))
    discounts = 0.9 ** step.reshape(episodes, steps)
    exact = np.sum(discounts * data["rewards"].reshape(episodes, steps), axis=1)
    np.testing.assert_allclose(frame["observed"], exact)
    np.testing.assert_allclose(frame["predicted"], model.predict(states[step == 0]))
    assert set(frame["cut"]) == {0.0}
    with pytest.raises(InputError, match="whole episodes"):
        plot.returns(model, {**data, "episodes": None}, ax=axes())


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_data_come_in_the_library_that_was_drawn(library: str) -> None:
    pytest.importorskip(library)
    import narwhals as nw

    model, data = levels_model()
    table = nw.from_dict({"dose": data["X"]["dose"].tolist(), "kind": data["X"]["kind"].tolist()}, backend=library)
    frame = plot.data_of(plot.function(model, table.to_native(), ax=axes()))
    assert nw.get_native_namespace(frame).__name__ == library
    assert set(nw.from_native(frame)["kind"].to_list()) == {"a", "b"}


def test_every_figure_hands_over_what_it_draws() -> None:
    model, data = card_model()
    value, log = policy_model()
    weighted = {**log, "importance_weights": np.ones(ROWS)}
    for ax in (
        plot.function(model, data, ax=axes()),
        plot.effect(model, data, ax=axes()),
        plot.effects(model, ax=axes()),
        plot.first_stage(model, data, ax=axes()),
        plot.witness(value, log, ax=axes()),
        plot.errors(value, ax=axes()),
        plot.singular_values(value, ax=axes()),
        plot.weights(value, weighted, ax=axes()),
        plot.function(map_model()[0], ax=axes()),
    ):
        assert len(plot.data_of(ax)) > 0
    with pytest.raises(InputError, match="were not drawn by dualembed"):
        plot.data_of(axes())
