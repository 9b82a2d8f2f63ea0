"""Instruments: orthonormal on the data, and as fine as responses ask for by the evidence of a regression."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy import stats

from dualembed.kernels import Columns, Gaussian, Kernel, Matern52
from dualembed.selection.instruments import Regression, bandwidths, kernel_on, orthonormal, regression_evidence


class Curve:
    """Two responses of one input each with its own amplitude and noise."""

    def __init__(self) -> None:
        rng = np.random.default_rng(11)
        self.inputs = rng.uniform(-2, 2, (40, 1))
        smooth = np.concatenate([np.sin(2 * self.inputs), self.inputs**2], axis=1)
        self.responses = smooth + 0.3 * rng.normal(size=(40, 2))
        self.amplitudes, self.noises = np.array([0.8, 2.0]), np.array([0.1, 0.3])

    def exact(self, kernel: Kernel) -> float:
        gram = np.asarray(kernel.gram(self.inputs, self.inputs), dtype=float)
        total = 0.0
        for response, amplitude, noise in zip(self.responses.T, self.amplitudes, self.noises, strict=True):
            law = stats.multivariate_normal(np.zeros(40), amplitude * gram + noise * np.eye(40))
            total += law.logpdf(response) + 20 * np.log(2 * np.pi)
        return total

    def bound(self, kernel: Kernel, landmarks: int) -> float:
        model = Regression(kernel, self.amplitudes, self.noises)
        return regression_evidence(model, self.inputs, self.responses, self.inputs[:landmarks], np.ones(40))[0]


@pytest.mark.parametrize("kernel", [Gaussian(0.3), Matern52(0.5)], ids=str)
def test_regression_evidence_is_a_lower_bound_that_landmarks_lift_to_the_exact_log_evidence(kernel: Kernel) -> None:
    curve = Curve()
    exact = curve.exact(kernel)
    bounds = [curve.bound(kernel, count) for count in (3, 12, 40)]
    assert np.all(np.diff(bounds) > -1e-5)
    assert bounds[0] < exact - 1.0
    assert bounds[-1] <= exact + 1e-4
    assert bounds[-1] == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize("kernel", [Gaussian(0.3), Matern52(0.5)], ids=str)
def test_its_slopes_are_those_of_central_differences(kernel: Kernel) -> None:
    curve, mass = Curve(), np.random.default_rng(1).uniform(0.5, 3, 40)
    leaves, structure = jax.tree.flatten(Regression(kernel, curve.amplitudes, curve.noises))
    leaves = [np.asarray(leaf, dtype=float) for leaf in leaves]

    def at(parts: list[np.ndarray]) -> tuple[float, list[np.ndarray]]:
        model = jax.tree.unflatten(structure, parts)
        return regression_evidence(model, curve.inputs, curve.responses, curve.inputs[:12], mass)

    slopes = at(leaves)[1]
    for which, leaf in enumerate(leaves):
        for index in np.ndindex(leaf.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [each.copy() for each in leaves]
                moved[which][index] += step
                ends.append(at(moved)[0])
            assert float(slopes[which][index]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-4)


def test_rows_that_count_twice_are_rows_given_twice() -> None:
    curve = Curve()
    model = Regression(Gaussian(0.5), curve.amplitudes, curve.noises)
    mass = np.where(np.arange(40) % 3 == 0, 2.0, 1.0)
    rows = np.repeat(np.arange(40), mass.astype(int))
    counted = regression_evidence(model, curve.inputs, curve.responses, curve.inputs[:12], mass)
    repeated = curve.inputs[rows], curve.responses[rows], curve.inputs[:12], np.ones(len(rows))
    assert counted[0] == pytest.approx(regression_evidence(model, *repeated)[0], rel=1e-9)


CONTEXTS = 500


def contexts(dimension: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(CONTEXTS, dimension))


CONTEXT_KERNELS: dict[str, tuple[Kernel, int]] = {
    "gaussian": (Gaussian(0.7), 1),
    "wide": (Gaussian(20.0), 1),
    "one width a column": (Gaussian([0.7, 2.0]), 2),
    "matern": (Matern52(1.0), 2),
    "some columns": (kernel_on((1,), np.array([0.8]), 2), 2),
}


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("name", CONTEXT_KERNELS)
def test_instruments_are_orthonormal_on_the_contexts_and_the_first_is_a_constant(name: str, tolerance: float) -> None:
    kernel, dimension = CONTEXT_KERNELS[name]
    some = contexts(dimension)
    found = orthonormal(kernel, some, some[:60], tolerance=tolerance)
    q = found(some)
    assert q.dtype == np.float64
    assert q.shape == (CONTEXTS, found.size)
    assert found.dimension == dimension
    assert np.all(q[:, 0] == 1.0)
    np.testing.assert_allclose(q.T @ q / CONTEXTS, np.eye(found.size), atol=1e-8)


def test_they_are_functions_of_one_context_at_a_time_compiled_or_not() -> None:
    some = contexts(2)
    found = orthonormal(Gaussian([0.7, 2.0]), some, some[:60], tolerance=1e-4)
    np.testing.assert_allclose(found(some[7:9]), found(some)[7:9], rtol=1e-9, atol=1e-9)
    with jax.enable_x64(True):
        np.testing.assert_allclose(eqx.filter_jit(found)(some), found(some), rtol=1e-6, atol=1e-7)


def test_a_lower_tolerance_keeps_more_of_the_same_instruments() -> None:
    some = contexts(1)
    found = [orthonormal(Gaussian(0.7), some, some[:60], tolerance=each) for each in (1e-1, 1e-2, 1e-4, 1e-6)]
    sizes = [each.size for each in found]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] <= 61
    coarse, fine = found[1](some), found[2](some)
    inside = fine @ (fine.T @ coarse / CONTEXTS)
    np.testing.assert_allclose(inside, coarse, atol=1e-7)


def test_copies_among_landmarks_and_a_constant_context_leave_fewer_instruments() -> None:
    some = contexts(1)
    copied = orthonormal(Gaussian(0.7), some, np.tile(some[:5], (4, 1)), tolerance=1e-6)
    assert copied.size <= 6
    flat = np.ones((CONTEXTS, 1))
    alone = orthonormal(Gaussian(0.7), flat, flat[:10], tolerance=1e-4)
    assert alone.size == 1
    assert np.all(alone(flat) == 1.0)


def test_a_kernel_on_some_columns_ignores_the_others() -> None:
    some = contexts(3)
    kernel = kernel_on((0, 2), np.array([0.8, 1.5]), 3)
    assert isinstance(kernel, Columns)
    found = orthonormal(kernel, some, some[:60], tolerance=1e-4)
    moved = some.copy()
    moved[:, 1] = 1e6
    assert np.array_equal(found(moved), found(some))
    moved[:, 2] += 1.0
    assert not np.allclose(found(moved), found(some))
    alone = orthonormal(kernel_on((0, 1), np.array([0.8, 1.5]), 2), some[:, [0, 2]], some[:60, [0, 2]], tolerance=1e-4)
    np.testing.assert_allclose(np.abs(alone(some[:, [0, 2]])), np.abs(found(some)), atol=1e-6)


WIDEST = np.array([1.4, 1.4])


def response(name: str, some: np.ndarray) -> np.ndarray:
    noise = np.random.default_rng(1).normal(size=(len(some), 1))
    return {
        "wiggly": np.sin(6 * some[:, :1]) + 0.1 * noise,
        "gentle": some[:, :1] + 0.1 * noise,
        "noise": noise,
        "constant": np.full_like(noise, 3.0),
    }[name]


@pytest.fixture(scope="module")
def widths() -> dict[str, np.ndarray]:
    some = contexts(2)
    found = {
        name: bandwidths(some, response(name, some), widest=WIDEST)
        for name in ("wiggly", "gentle", "noise", "constant")
    }
    both = np.concatenate([response("noise", some), response("wiggly", some)], axis=1)
    found["noise and wiggly"] = bandwidths(some, both, widest=WIDEST)
    with_constant = np.concatenate([response("constant", some), response("wiggly", some)], axis=1)
    found["constant and wiggly"] = bandwidths(some, with_constant, widest=WIDEST)
    found["wiggly in other units"] = bandwidths(1000 * some, 7 - 50 * response("wiggly", some), widest=1000 * WIDEST)
    return found


def test_bandwidths_shorten_in_the_column_where_the_response_wiggles(widths: dict[str, np.ndarray]) -> None:
    assert widths["wiggly"][0] < 0.5 * WIDEST[0]
    assert widths["wiggly"][1] > 0.7 * WIDEST[1]
    assert widths["wiggly"][0] < 0.6 * widths["gentle"][0]


@pytest.mark.parametrize("name", ["noise", "constant"])
def test_bandwidths_stay_where_there_is_nothing_to_predict(name: str, widths: dict[str, np.ndarray]) -> None:
    np.testing.assert_allclose(widths[name], WIDEST, rtol=0.1)


def test_one_wiggly_response_among_others_is_enough(widths: dict[str, np.ndarray]) -> None:
    assert widths["noise and wiggly"][0] < 0.5 * WIDEST[0]
    np.testing.assert_allclose(widths["constant and wiggly"], widths["wiggly"], rtol=1e-6)


def test_bandwidths_never_exceed_the_widest_and_keep_up_with_units(widths: dict[str, np.ndarray]) -> None:
    for name, found in widths.items():
        assert np.all(found > 0)
        assert np.all(found <= WIDEST * (1000 if name == "wiggly in other units" else 1))
    np.testing.assert_allclose(widths["wiggly in other units"], 1000 * widths["wiggly"], rtol=0.02)
