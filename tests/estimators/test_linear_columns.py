"""Columns that f is told to be linear in: one slope everywhere, whatever the others do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dualembed as de

ROWS = 600


def draw(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """y = educ + w² + sin 2w + hidden causes; educ is moved by w, by w² and by the instrument z."""
    rng = np.random.default_rng(seed)
    w, z, hidden, noise = rng.normal(size=(4, ROWS))
    educ = 0.8 * z + 0.7 * w**2 + 0.5 * w + hidden
    return pd.DataFrame({"educ": educ, "w": w, "z": z}), educ + w**2 + np.sin(2 * w) + hidden + 0.5 * noise


@pytest.fixture(scope="module")
def model() -> Any:
    table, y = draw()
    return de.IVRegressor(linear=["educ"]).fit(table[["educ"]], y, instruments=table[["z"]], controls=table[["w"]])


def test_the_effect_is_one_number_everywhere_and_it_is_the_coefficient(model: Any) -> None:
    assert model.coef_names_ == ("educ",)
    before, after, controls = (
        pd.DataFrame({name: column})
        for name, column in [("educ", np.zeros(3)), ("educ", np.ones(3)), ("w", np.array([-1.5, 0.3, 2.0]))]
    )
    moved = model.predict(after, controls) - model.predict(before, controls)
    np.testing.assert_allclose(moved, model.coef_[0], rtol=1e-8)
    for answer in (
        model.effect(pd.DataFrame({"educ": [0.0]}), pd.DataFrame({"educ": [1.0]})),
        model.ask(model.mean_derivative("educ")),
    ):
        np.testing.assert_allclose([answer.value, answer.stderr], [model.coef_[0], model.coef_stderr_[0]], rtol=1e-6)


def test_it_is_nearer_than_a_line_in_the_controls_and_its_interval_holds(model: Any) -> None:
    assert abs(model.coef_[0] - 1) < 1.96 * model.coef_stderr_[0] < 0.2
    assert model.linear_.std_errors["educ"] > 1.2 * model.coef_stderr_[0]  # of two stages, which leave w² to the noise


def test_other_columns_are_as_curved_as_they_are(model: Any) -> None:
    grid = np.linspace(-1.5, 1.5, 7)
    found = model.predict(pd.DataFrame({"educ": np.zeros(7)}), pd.DataFrame({"w": grid}))
    truth = grid**2 + np.sin(2 * grid)
    assert np.corrcoef(found, truth)[0, 1] > 0.98


@pytest.mark.parametrize("linear", ["educ", 0, "X"])
def test_a_column_is_named_in_several_ways(linear: Any, model: Any) -> None:
    table, y = draw()
    again = de.IVRegressor(linear=linear)
    again.fit(table[["educ"]], y, instruments=table[["z"]], controls=table[["w"]])
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=1e-10)


def test_with_all_columns_linear_it_is_two_stage_least_squares() -> None:
    table, y = draw()
    given = {"instruments": table[["z"]], "controls": table[["w"]]}
    ours = de.IVRegressor(linear=["w", "educ"]).fit(table[["educ"]], y, **given)
    theirs = de.IVRegressor(primal="linear", dual="linear").fit(table[["educ"]], y, **given)
    np.testing.assert_allclose([ours.coef_, ours.coef_stderr_], [theirs.coef_, theirs.coef_stderr_], rtol=1e-10)


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"linear": ["educ", "edc"]}, "edc.*no column.*educ"), ({"linear": [5]}, "5.*no column"),
     ({"linear": ["educ"], "primal": "linear"}, "leave either out")],
)  # fmt: skip
def test_what_cannot_be_linear_is_refused(settings: dict[str, Any], said: str) -> None:
    table, y = draw()
    with pytest.raises(de.InputError, match=said):
        de.IVRegressor(**settings).fit(table[["educ"]], y, instruments=table[["z"]], controls=table[["w"]])


def test_a_control_is_found_beside_an_x_that_never_varies() -> None:
    table, y = draw()
    flat = np.full((ROWS, 1), 3.0)
    model = de.IVRegressor(linear=["w"]).fit(flat, y - table["w"] ** 2, controls=table[["w", "z"]])
    ends = (np.tile([[value, 0.4]], (1, 1)) for value in (0.0, 1.0))
    low, high = (model.predict(flat[:1], pd.DataFrame(each, columns=["w", "z"]))[0] for each in ends)
    assert model.coef_names_ == ("w",)
    np.testing.assert_allclose(high - low, model.coef_[0], rtol=1e-8)
