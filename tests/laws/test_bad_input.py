"""Whatever is wrong with the input, the answer is one clear sentence that names it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
