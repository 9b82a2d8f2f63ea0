"""Where columns are many for the rows, those that matter are kept, and effects are those of few instruments."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from doubleml.plm.datasets import make_pliv_CHS2015

import dualembed as de
from dualembed.selection.sparse import equal_rows, is_wide, lasso, select_columns


def many(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(controls, outcome, treatment, instruments): 200 controls, 150 instruments, 500 rows; the effect is 1."""
    state = np.random.get_state()
    np.random.seed(seed)
    controls, outcome, treatment, instruments = make_pliv_CHS2015(500, alpha=1.0, return_type="array")
    np.random.set_state(state)
    return controls, outcome.ravel(), treatment.ravel(), instruments


def fitted(seed: int, **settings: Any) -> de.IVRegressor:
    controls, outcome, treatment, instruments = many(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return de.IVRegressor(**settings).fit(treatment, outcome, instruments=instruments, controls=controls)


@pytest.fixture(scope="module")
def model() -> de.IVRegressor:
    return fitted(0)


def test_the_effect_is_covered_and_not_that_of_plain_regression(model: de.IVRegressor) -> None:
    answer = model.ask(model.mean_derivative(0))
    lower, upper = answer.interval()
    assert lower < 1 < upper
    assert answer.stderr < 0.15
    assert model.linear_ is not None
    low, high = model.linear_.conf_int()["x0"]
    assert low < 1 < high


def test_few_columns_are_kept_and_named(model: de.IVRegressor) -> None:
    (step,) = (step for step in model.selection_.steps if step.question == "columns that matter")
    assert "of 200 controls" in step.answer
    assert "of 150 instruments" in step.answer
    assert model.controls_ is not None
    assert 2 <= model.controls_.dimension < 15


def test_what_is_left_out_changes_no_prediction_and_cannot_be_asked_about(
    model: de.IVRegressor, tmp_path: Path
) -> None:
    controls, _, treatment, _ = many(0)
    moved = np.array(controls)
    moved[:, 199] += 5.0
    assert np.array_equal(model.predict(treatment, controls), model.predict(treatment, moved))
    with pytest.raises(de.checks.InputError, match="left out of the fit, since beside the others it says nothing"):
        model.average_effect("control 199", 1, 0)
    assert "columns that matter" in str(model.summary()) + str(model.selection_)
    de.save(model, tmp_path / "wide.dualembed")
    again = de.load(tmp_path / "wide.dualembed")
    assert np.array_equal(again.predict(treatment, controls), model.predict(treatment, controls))


def test_the_lasso_keeps_what_matters_and_next_to_nothing_else() -> None:
    falsely = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        columns = rng.normal(size=(300, 100))
        active, _ = lasso(columns, columns[:, 0] - columns[:, 1] + rng.normal(size=300) * (1 + abs(columns[:, 2])))
        assert active[:2].all()
        falsely += int(active[2:].sum())
    assert falsely <= 4


def test_units_and_order_of_rows_change_nothing_of_the_choice() -> None:
    controls, outcome, treatment, instruments = many(1)
    order = np.random.default_rng(0).permutation(500)
    first = select_columns(outcome, treatment[:, None], controls, instruments)
    other = select_columns(
        outcome[order], 100 * treatment[order, None] - 3, 0.01 * controls[order] + 7, 5 * instruments[order]
    )
    for one, another in zip(first, other, strict=True):
        assert np.array_equal(one, another)


def test_instruments_of_which_none_matters_are_all_kept_and_answer_nothing() -> None:
    rng = np.random.default_rng(0)
    instruments, (hidden, noise) = rng.normal(size=(400, 60)), rng.normal(size=(2, 400))
    x = hidden + 0.3 * noise
    _, kept = select_columns(x + hidden, x[:, None], instruments[:, :0], instruments)
    assert kept.all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = de.IVRegressor().fit(x, x + 2 * hidden, instruments=instruments)
    assert model.ask(model.mean_derivative(0)).verdict != "solid"


def test_columns_that_vary_by_cluster_are_judged_by_clusters() -> None:
    kept = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        groups = np.repeat(np.arange(40), 20)
        columns, shocks = rng.normal(size=(40, 60))[groups], rng.normal(size=40)[groups]
        kept += int(lasso(columns, shocks + rng.normal(size=800), groups)[0].sum())
    assert kept <= 3


def test_usual_tables_are_not_wide() -> None:
    assert not is_wide(30, 100)
    assert not is_wide(99, 2000)
    assert is_wide(50, 500)


def test_weighted_rows_and_absorbed_effects_leave_columns_out_too() -> None:
    controls, outcome, treatment, instruments = many(2)
    rng = np.random.default_rng(0)
    levels, counts = rng.integers(0, 25, 500), rng.integers(0, 3, 500)
    shifted = outcome + 5.0 * rng.normal(size=25)[levels]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = de.IVRegressor(weighting="survey").fit(
            treatment, shifted, instruments=instruments, controls=controls, absorb=levels, sample_weight=counts
        )
    assert found.selection_.steps[0].question == "columns that matter"
    lower, upper = found.ask(found.mean_derivative(0)).interval()
    assert lower < 1 < upper
    assert upper - lower < 1


def test_least_squares_of_weighted_columns_are_those_of_repeated_rows() -> None:
    controls, outcome, treatment, instruments = many(3)
    counts = np.random.default_rng(0).integers(0, 3, 500)
    columns = [outcome[:, None], treatment[:, None], controls, instruments]
    some = counts > 0
    repeated = [np.repeat(each, counts, axis=0) for each in columns]
    weighted = [equal_rows(each[some], counts[some].astype(float)) for each in columns]
    y, others = repeated[0][:, 0], repeated[1:]
    normal = np.linalg.lstsq(np.column_stack([*others[:1], np.ones(len(y))]), y, rcond=None)[0][:1]
    same = np.linalg.lstsq(weighted[1], weighted[0][:, 0], rcond=None)[0]
    assert same == pytest.approx(normal, rel=1e-9)
