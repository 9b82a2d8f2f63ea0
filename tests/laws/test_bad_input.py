"""Whatever is wrong with the input, the answer is one clear sentence that names it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import dualembed as de
from dualembed import kernels, losses, problems, schedules, solvers, sources, spaces

QUICK = settings(max_examples=40, deadline=None)
NOT_POSITIVE = st.one_of(
    st.floats(max_value=0.0, allow_nan=False),
    st.sampled_from([float("nan"), float("inf"), float("-inf"), None, "wide", [], [1.0, -1.0], [1.0, float("nan")]]),
)


def sentence(error: pytest.ExceptionInfo[de.InputError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    assert 10 < len(text) < 400
    return text


@QUICK
@given(NOT_POSITIVE)
def test_bandwidths_must_be_positive(bandwidth: Any) -> None:
    for kernel in (kernels.Gaussian, kernels.Laplacian, kernels.Matern32, kernels.Matern52):
        with pytest.raises(de.InputError) as error:
            kernel(bandwidth)
        assert "bandwidth" in sentence(error)


@QUICK
@given(NOT_POSITIVE)
def test_steps_must_be_positive(rate: Any) -> None:
    for schedule in (schedules.Constant, schedules.InverseSqrt, schedules.OffsetSqrt, schedules.OffsetLinear):
        with pytest.raises(de.InputError) as error:
            schedule(rate)
        assert "rate" in sentence(error)


SPACE = spaces.Fourier(kernels.Gaussian(0.5), size=8)
SOLVER = solvers.EmbeddingSGD(2, 2)


def solve(columns: dict[str, Any], loss: losses.Loss | None = None) -> de.Result:
    problem = problems.Invariance(sources.Dataset(**columns), loss or losses.Square())
    return de.solve(0, de.Saddle(problem, SPACE, SPACE), SOLVER)


@QUICK
@given(
    column=st.sampled_from(["x", "y", "z"]),
    row=st.integers(0, 4),
    poison=st.sampled_from([float("nan"), float("inf"), float("-inf"), 1e300]),
)
def test_a_value_that_is_not_finite_is_found_wherever_it_is(column: str, row: int, poison: float) -> None:
    columns = {name: np.linspace(0, 1, 5) for name in "xyz"}
    columns[column] = columns[column].copy()
    columns[column][row] = poison
    with pytest.raises(de.InputError) as error:
        solve(columns)
    text = sentence(error)
    assert text.startswith(column)
    assert poison == 1e300 or f"row {row}" in text


@QUICK
@given(st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(lambda sizes: len(set(sizes)) > 1))
def test_columns_of_unequal_length_are_refused(sizes: list[int]) -> None:
    with pytest.raises(de.InputError) as error:
        solve({name: np.zeros(size) for name, size in zip("xyz", sizes, strict=True)})
    assert "rows" in sentence(error) or "empty" in sentence(error)


@QUICK
@given(st.sampled_from([(5, 2, 2, 2), (0,), (0, 3), ()]), st.sampled_from(["x", "z"]))
def test_wrong_shapes_are_refused(shape: tuple[int, ...], column: str) -> None:
    columns = {name: np.zeros(5) for name in "xyz"}
    columns[column] = np.zeros(shape)
    with pytest.raises(de.InputError) as error:
        solve(columns)
    sentence(error)


@QUICK
@given(st.floats(-3, 3, width=32).filter(lambda y: abs(y) != 1))
def test_labels_outside_a_losss_domain_are_refused(label: float) -> None:
    columns = {"x": np.zeros(4), "z": np.zeros(4), "y": np.asarray([1.0, -1.0, 1.0, label])}
    for loss in (losses.Logistic(), losses.Hinge(), losses.SmoothedHinge(), losses.SquaredHinge()):
        with pytest.raises(de.InputError) as error:
            solve(columns, loss)
        assert "-1" in sentence(error)
    with pytest.raises(de.InputError) as error:
        solve(columns, losses.Poisson())
    assert "Poisson" in sentence(error)


def test_labels_are_checked_in_every_row_not_only_in_a_pilot() -> None:
    y = np.ones(6000)
    y[-1] = 0.0
    with pytest.raises(de.InputError, match="-1"):
        solve({"x": np.zeros(6000), "z": np.zeros(6000), "y": y}, losses.Logistic())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"points": jnp.zeros((4, 1))}, r"points\[:, None, :\]"),
        ({"weights": jnp.zeros(4)}, r"Terms.weights must have shape \(4, 1\)"),
        ({"offset": jnp.zeros((4, 1))}, r"Terms.offset must have shape \(4,\)"),
        ({"context": jnp.zeros(4)}, "Terms.context must have shape"),
        ({"target": jnp.full(4, jnp.nan)}, "Terms.target has 4 NaN"),
        ({"known": (True, False)}, "Terms.known"),
    ],
)
def test_terms_of_the_wrong_shape_are_named(change: dict[str, Any], words: str) -> None:
    def terms(sample: dict[str, Any]) -> de.Terms:
        good = {
            "points": jnp.zeros((4, 1, 1)),
            "weights": jnp.ones((4, 1)),
            "offset": jnp.zeros(4),
            "context": jnp.zeros((4, 1)),
            "target": jnp.zeros(4),
        }
        return de.Terms(**(good | change))

    problem = problems.Moment(sources.Dataset(x=np.zeros(4)), terms)
    with pytest.raises(de.InputError, match=words):
        de.solve(0, de.Saddle(problem, SPACE, SPACE), SOLVER)


# What estimators are given: one of each, with a column that is wrong.

N = 60
SHIFT, HIDDEN = np.random.default_rng(0).normal(size=(2, N))
CAUSE = (SHIFT + HIDDEN)[:, None]
DAYS = np.datetime64("2020-01-01") + np.arange(N)
LINES: dict[str, Any] = {"primal": "linear", "dual": "linear"}


def _inside(states: Any) -> Any:
    return np.asarray(states)[:, 0] > 0.8


def _far(states: Any) -> Any:
    return np.asarray(states)[:, 0] < -0.4


def _even(states: Any) -> Any:
    return np.full((len(states), 2), 0.5)


STEPS = {"states": CAUSE, "next_states": 0.5 * CAUSE}
FITS: dict[str, tuple[Any, dict[str, Any], str, str]] = {  # with the names of a column of numbers and of the target
    "iv": (de.IVRegressor(**LINES), {"X": CAUSE, "y": HIDDEN, "instruments": SHIFT}, "X", "y"),
    "regression": (de.IVRegressor(**LINES), {"X": CAUSE, "y": HIDDEN}, "X", "y"),
    "invariant": (de.InvariantRegressor("noise", **LINES), {"X": CAUSE, "y": HIDDEN}, "X", "y"),
    "policy": (de.PolicyEvaluator(0.5, **LINES), {**STEPS, "rewards": HIDDEN}, "states", "rewards"),
    "actions": (
        de.ActionValueEvaluator(0.5, _even, **LINES),
        {**STEPS, "actions": np.arange(N) % 2, "rewards": HIDDEN},
        "states",
        "rewards",
    ),
    "times": (de.HittingTimeRegressor(_inside, **LINES), STEPS, "states", "next_states"),
    "committor": (de.CommittorRegressor(_far, _inside, **LINES), STEPS, "states", "next_states"),
    "stationary": (
        de.StationaryAverage(**LINES),
        {**STEPS, "observable": HIDDEN},
        "states",
        "observable",
    ),
    "control": (
        de.LinearControl(**LINES),
        {**STEPS, "costs": np.full(N, 0.1), "terminal": CAUSE[:, 0] > 1},
        "states",
        "costs",
    ),
}


def _poisoned(column: Any, value: float) -> Any:
    found = np.array(column, dtype=float)
    found[3] = value
    return found


WRONG: dict[str, Any] = {
    "missing": lambda column: _poisoned(column, np.nan),
    "infinite": lambda column: _poisoned(column, np.inf),
    "one row less": lambda column: column[1:],
    "dates": lambda column: DAYS if np.ndim(column) == 1 else DAYS[:, None],
    "spans of time": lambda column: (DAYS - DAYS[0]) if np.ndim(column) == 1 else (DAYS - DAYS[0])[:, None],
    "text": lambda column: np.array([f"{each:.6f}m" for each in np.ravel(column)], dtype=object).reshape(column.shape),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("place", [2, 3], ids=["column", "target"])
def test_a_column_that_is_wrong_is_refused_in_a_sentence(name: str, place: int, wrong: str) -> None:
    estimator, data, *places = FITS[name]
    column = places[place - 2]
    if wrong == "text" and data[column].ndim == 2:
        pytest.skip("text is a category there, which may have few rows of each level")
    with pytest.raises(de.InputError) as error:
        clone(estimator).fit(**{**data, column: WRONG[wrong](data[column])})
    sentence(error)


@pytest.mark.parametrize("name", FITS)
def test_one_row_is_refused_in_a_sentence(name: str) -> None:
    estimator, data, *_ = FITS[name]
    with pytest.raises(de.InputError) as error:
        clone(estimator).fit(**{role: column[:1] for role, column in data.items()})
    sentence(error)


@pytest.mark.parametrize("role", ["groups", "instruments", "controls"])
def test_labels_and_columns_of_another_length_are_refused(role: str) -> None:
    estimator, data, *_ = FITS["iv"]
    with pytest.raises(de.InputError, match=str(N - 1)) as error:
        clone(estimator).fit(**{**data, role: np.arange(N - 1) % 7})
    sentence(error)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": CAUSE[:, 0]}, "y is a copy of the column x0 of X"),
        ({"y": SHIFT * 0.0 + 1.5, "controls": SHIFT * 0.0 + 1.5, "X": SHIFT[:, None] * 0}, "no column of X varies"),
        ({"controls": HIDDEN, "y": HIDDEN}, "y is a copy of the control control"),
        ({"X": pd.DataFrame(np.hstack([CAUSE, CAUSE**2]), columns=["a", "a"])}, "more than one column named 'a'"),
        ({"X": pa.table([CAUSE[:, 0], SHIFT], names=["a", "a"])}, "more than one column named 'a'"),
        ({"y": {"y": HIDDEN}}, "y is a dictionary of 1 columns"),
        ({"y": np.array(["red"] * N)}, "y holds text such as 'red'"),
        ({"X": CAUSE * 0 + 2.0}, "no column of X varies"),
    ],
)
def test_what_cannot_be_an_effect_is_refused(change: dict[str, Any], words: str) -> None:
    estimator, data, *_ = FITS["iv"]
    with pytest.raises(de.InputError, match=words) as error:
        clone(estimator).fit(**{**data, **change})
    sentence(error)


def test_few_rows_are_refused_by_the_default_too() -> None:
    for rows in (1, 2, 3):
        with pytest.raises(de.InputError) as error:
            de.IVRegressor().fit(CAUSE[:rows], HIDDEN[:rows], instruments=SHIFT[:rows])
        sentence(error)
