"""Evidence: the Gaussian density it says it is, climbed to its maximum; instruments as fine as responses ask for."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dualembed.kernels import Columns, Gaussian, Kernel, Matern52, Polynomial, Sum
from dualembed.selection import evidence as public_evidence
from dualembed.selection.evidence import (
    BLOCK,
    JITTER,
    Moments,
    Regression,
    _value_and_slope,
    bandwidths,
    evidence,
    kernel_on,
    maximise,
    moments,
    orthonormal,
    padded,
    padding,
    regression_evidence,
)

ROWS, COUNT = 80, 7


KERNELS: dict[str, Kernel] = {
    "gaussian": Gaussian([0.8, 1.3]),
    "matern": Matern52(0.9),
    "sum": Sum(0.7 * Matern52([0.8, 1.3]), Polynomial(1, 0.5, [0.4, 0.2], [0.1, -0.3])),
}


def double(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=jnp.float64), tree)


class Case:
    """Two points a sample, a context of one coordinate, and noise that is correlated across moments."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.points = rng.normal(size=(ROWS, 2, 2))
        self.weights = rng.normal(size=(ROWS, 2))
        self.target = self.points[:, 0, 0] + rng.normal(size=ROWS)
        self.instruments = np.linalg.qr(rng.normal(size=(ROWS, COUNT)))[0] * np.sqrt(ROWS)
        half = rng.normal(size=(COUNT, COUNT))
        self.noise = half @ half.T + 0.5 * np.eye(COUNT)
        self.landmarks = self.points[:15, 0]  # points of the data, as they are in use

    @property
    def observed(self) -> np.ndarray:
        return self.instruments.T @ self.target / ROWS

    def seen(self, noise: np.ndarray | None = None) -> Moments:
        noise = self.noise if noise is None else noise
        return moments(self.points, self.weights, self.target, instruments=self.instruments, noise=noise)

    def cross(self, kernel: Kernel) -> np.ndarray:
        """A = E[q gᵀ] in coordinates ψ with ψᵀψ = the kernel on the landmarks' span, jitter and all."""
        gram = np.asarray(kernel.gram(self.landmarks, self.landmarks), dtype=float)
        values, vectors = np.linalg.eigh(gram + JITTER * np.trace(gram) / len(gram) * np.eye(len(gram)))
        psi = np.asarray(kernel.gram(self.points.reshape(-1, 2), self.landmarks)) @ (vectors / np.sqrt(values))
        g = np.einsum("nk,nkm->nm", self.weights, psi.reshape(ROWS, 2, -1))
        return self.instruments.T @ g / ROWS


def value(kernel: Kernel, case: Case, noise: np.ndarray | None = None) -> float:
    with jax.enable_x64(True):
        return float(evidence(double(kernel), case.seen(noise), jnp.asarray(case.landmarks)))


@pytest.mark.parametrize("name", KERNELS)
def test_evidence_is_the_normal_log_density_of_the_moments(name: str) -> None:
    case, kernel = Case(), KERNELS[name]
    a = case.cross(kernel)
    density = stats.multivariate_normal(np.zeros(COUNT), a @ a.T + case.noise / ROWS).logpdf(case.observed)
    assert value(kernel, case) == pytest.approx(density + COUNT / 2 * np.log(2 * np.pi), abs=1e-6)
    assert public_evidence is evidence


@pytest.mark.parametrize("variance", [0.01, 1.0, 30.0])
def test_with_noise_of_one_variance_evidence_is_the_formula_of_singular_values(variance: float) -> None:
    case, amplitude = Case(1), 0.6
    left, s, _ = np.linalg.svd(case.cross(Gaussian(1.1)), full_matrices=False)
    b = case.observed
    along = left.T @ b
    ratio = 1 + ROWS * amplitude * s**2 / variance
    outside = b @ b - along @ along
    twice = (
        COUNT * np.log(variance / ROWS) + np.sum(np.log(ratio)) + ROWS / variance * (np.sum(along**2 / ratio) + outside)
    )
    found = value(amplitude * Gaussian(1.1), case, variance * np.eye(COUNT))
    assert found == pytest.approx(-0.5 * twice, abs=1e-6)


def test_padding_of_moments_changes_nothing() -> None:
    case, kernel = Case(), KERNELS["sum"]
    seen = case.seen()
    assert seen.instruments.shape == (96, BLOCK)  # 80 rows and 7 moments
    with jax.enable_x64(True):
        bare = Moments(
            jnp.asarray(case.points),
            jnp.asarray(case.weights),
            jnp.asarray(case.instruments / ROWS),
            jnp.asarray(case.observed),
            jnp.asarray(case.noise / ROWS),
        )
        found = float(evidence(double(kernel), bare, jnp.asarray(case.landmarks)))
    assert found == pytest.approx(value(kernel, case), rel=1e-12)


@pytest.mark.parametrize(("rows", "wanted"), [(1, 64), (64, 64), (65, 96), (96, 96), (97, 128), (2500, 3072)])
def test_rows_are_padded_to_few_sizes(rows: int, wanted: int) -> None:
    assert rows + padding(rows) == wanted


@pytest.mark.parametrize("name", KERNELS)
def test_the_slope_in_every_hyper_parameter_is_that_of_central_differences(name: str) -> None:
    case = Case(2)
    with jax.enable_x64(True):
        seen, landmarks, kernel = case.seen(), jnp.asarray(case.landmarks), double(KERNELS[name])
        slopes, structure = jax.tree.flatten(jax.jit(jax.grad(evidence))(kernel, seen, landmarks))
        leaves = jax.tree.leaves(kernel)
        compiled = jax.jit(evidence)

        def shifted(which: int, index: tuple[int, ...], step: float) -> float:
            changed = [leaf.at[index].add(step) if k == which else leaf for k, leaf in enumerate(leaves)]
            return float(compiled(jax.tree.unflatten(structure, changed), seen, landmarks))

        for which, leaf in enumerate(leaves):
            for index in np.ndindex(leaf.shape):
                step = 1e-4
                wanted = (shifted(which, index, step) - shifted(which, index, -step)) / (2 * step)
                assert float(slopes[which][index]) == pytest.approx(wanted, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", ["matern", "sum"])
def test_the_compiled_value_is_the_eager_one_where_landmarks_are_data(name: str) -> None:
    # With the square root written as nested wheres, XLA took k(x, x) of Matérn kernels for another number here.
    case = Case(3)
    with jax.enable_x64(True):
        kernel, seen, landmarks = double(KERNELS[name]), case.seen(), jnp.asarray(case.landmarks)
        moves = jnp.zeros(sum(leaf.size for leaf in jax.tree.leaves(kernel)))
        eager = float(evidence(kernel, seen, landmarks))
        compiled, _ = _value_and_slope(moves, evidence, kernel, (seen, landmarks))
        assert float(compiled) == pytest.approx(eager, rel=1e-9)
    spread = jax.tree.map(np.zeros_like, KERNELS[name])
    spread = jax.tree.unflatten(jax.tree.structure(spread), [1e-6 + leaf for leaf in jax.tree.leaves(spread)])
    held = maximise(evidence, KERNELS[name], spread, (seen, landmarks))  # a prior that lets nothing move
    assert held.value == pytest.approx(eager, rel=1e-5)


def parabola(parameters: Any, top: Any) -> Any:
    """Concave in the logarithms, with its maximum 5 at `top`."""
    return 5.0 - sum(jnp.sum(jnp.log(parameters[name] / top[name]) ** 2) for name in top)


TOP = {"one": np.array([2.0, 0.5]), "two": np.array(3.0)}


CENTRE = {"one": np.ones(2), "two": np.array(1.0)}


def test_the_maximum_of_a_concave_function_is_found() -> None:
    spread = {"one": np.full(2, 1e4), "two": np.array(1e4)}
    found = maximise(parabola, CENTRE, spread, (TOP,))
    assert found.value == pytest.approx(5.0, abs=1e-4)
    assert found.evaluations > 1
    for name, top in TOP.items():
        np.testing.assert_allclose(found.parameters[name], top, rtol=1e-2)


def test_a_leaf_of_spread_zero_is_held_even_where_it_is_not_positive() -> None:
    def objective(parameters: Any, top: Any) -> Any:
        return parabola({"one": parameters["one"], "two": top["two"]}, top) - (parameters["two"] + 2.0) ** 2

    centre = CENTRE | {"two": np.array(-1.5)}
    found = maximise(objective, centre, {"one": np.array([1e4, 0.0]), "two": np.array(0.0)}, (TOP,))
    assert found.parameters["two"] == -1.5
    assert found.parameters["one"][1] == 1.0
    assert found.parameters["one"][0] == pytest.approx(2.0, rel=1e-2)


@pytest.mark.parametrize("spread", [0.1, 1.0, 10.0])
def test_the_hyper_prior_pulls_towards_the_centre_as_its_spread_says(spread: float) -> None:
    # -(x - a)² - x²/(2 s²) is largest at a · 2 s²/(1 + 2 s²), x the logarithm.
    found = maximise(parabola, CENTRE, jax.tree.map(lambda leaf: 0 * leaf + spread, CENTRE), (TOP,))
    share = 2 * spread**2 / (1 + 2 * spread**2)
    for name, top in TOP.items():
        np.testing.assert_allclose(np.log(found.parameters[name]), share * np.log(top), rtol=0.02, atol=0.005)


def test_the_start_does_not_matter_to_a_concave_maximum() -> None:
    start = {"one": np.array([0.1, 9.0]), "two": np.array(0.2)}
    spread = jax.tree.map(np.ones_like, CENTRE)
    one, other = maximise(parabola, CENTRE, spread, (TOP,)), maximise(parabola, CENTRE, spread, (TOP,), start=start)
    assert other.value == pytest.approx(one.value, abs=1e-4)


def test_values_that_are_not_finite_are_stepped_back_from() -> None:
    def cliff(parameters: Any, top: Any) -> Any:
        return parabola(parameters, top) + jnp.where(parameters["two"] > 2.0, jnp.nan, 0.0)

    found = maximise(cliff, CENTRE, jax.tree.map(lambda leaf: 0 * leaf + 3.0, CENTRE), (TOP,))
    assert np.isfinite(found.value)
    assert found.value >= float(parabola(CENTRE, TOP))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found.parameters))
    nowhere = maximise(lambda parameters, top: jnp.nan * parabola(parameters, top), CENTRE, CENTRE, (TOP,))
    assert nowhere.value < -1e20
    assert nowhere.parameters["two"] == 1.0


@pytest.mark.parametrize("truth", [0.3, 1.5])
def test_the_bandwidth_that_made_the_data_is_the_most_evident(truth: float) -> None:
    rng = np.random.default_rng(7)
    rows = 400
    x = rng.uniform(-3, 3, (rows, 1))
    gram = np.asarray(Gaussian(truth).gram(x, x)) + 1e-9 * np.eye(rows)
    target = np.linalg.cholesky(gram) @ rng.normal(size=rows) + 0.2 * rng.normal(size=rows)
    instruments = np.sqrt(2) * np.cos(np.arange(20) * np.pi * (x + 3) / 6)
    instruments[:, 0] = 1.0
    ones = np.ones((rows, 1))
    seen = moments(x[:, None], ones, target, instruments=instruments, noise=0.04 * np.eye(20))
    with jax.enable_x64(True):
        landmarks = jnp.asarray(x[:80])
        compiled = jax.jit(evidence)
        widths = (0.1, 0.3, 0.6, 1.5, 4.0)
        found = {width: float(compiled(double(Gaussian(width)), seen, landmarks)) for width in widths}
    assert max(found, key=found.__getitem__) == truth
    best = maximise(evidence, Gaussian(0.7), Gaussian(1.0), (seen, landmarks)).parameters
    assert float(best.bandwidth) == pytest.approx(truth, rel=0.4)


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
        with jax.enable_x64(True):
            model = double(Regression(kernel, self.amplitudes, self.noises))
            more = padding(len(self.inputs))
            responses, real = np.pad(self.responses, ((0, more), (0, 0))), np.pad(np.ones(len(self.inputs)), (0, more))
            columns = padded(self.inputs, more), responses, self.inputs[:landmarks], real
            return float(jax.jit(regression_evidence)(model, *(jnp.asarray(part) for part in columns)))


@pytest.mark.parametrize("kernel", [Gaussian(0.3), Matern52(0.5)], ids=str)
def test_regression_evidence_is_a_lower_bound_that_landmarks_lift_to_the_exact_log_evidence(kernel: Kernel) -> None:
    curve = Curve()
    exact = curve.exact(kernel)
    bounds = [curve.bound(kernel, count) for count in (3, 12, 40)]
    assert np.all(np.diff(bounds) > -1e-5)
    assert bounds[0] < exact - 1.0
    assert bounds[-1] <= exact + 1e-4
    assert bounds[-1] == pytest.approx(exact, abs=1e-3)


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
