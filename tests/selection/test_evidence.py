"""Evidence: the Gaussian density it says it is, with the slopes it has, climbed to its maximum."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dualembed.kernels import Gaussian, Kernel, Matern32, Matern52, Polynomial, Sum
from dualembed.selection import evidence as public_evidence
from dualembed.selection.evidence import JITTER, Moments, evidence, evidence_with_slopes, maximise, moments

ROWS, COUNT = 80, 7


KERNELS: dict[str, Kernel] = {
    "gaussian": Gaussian([0.8, 1.3]),
    "matern": Matern52(0.9),
    "sum": Sum(0.7 * Matern52([0.8, 1.3]), Polynomial(1, 0.5, [0.4, 0.2], [0.1, -0.3])),
    "rough sum": Sum(0.7 * Matern32([0.8, 1.3]), Polynomial(2, 0.5, 0.4, 0.1)),
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
    return evidence_with_slopes(kernel, case.seen(noise), case.landmarks)[0]


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


@pytest.mark.parametrize("name", KERNELS)
def test_written_out_slopes_are_those_that_jax_finds(name: str) -> None:
    case, kernel = Case(2), KERNELS[name]
    with jax.enable_x64(True):
        found, slopes = jax.value_and_grad(evidence)(double(kernel), case.seen(), jnp.asarray(case.landmarks))
    own, written = evidence_with_slopes(kernel, case.seen(), case.landmarks)
    assert own == pytest.approx(float(found), rel=1e-9)
    for each, wanted in zip(written, jax.tree.leaves(slopes), strict=True):
        assert each.shape == wanted.shape
        np.testing.assert_allclose(each, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_the_slope_in_every_hyper_parameter_is_that_of_central_differences(name: str) -> None:
    case = Case(2)
    leaves, structure = jax.tree.flatten(jax.tree.map(lambda leaf: np.asarray(leaf, dtype=float), KERNELS[name]))

    def shifted(which: int, index: tuple[int, ...], step: float) -> float:
        changed = [leaf.copy() for leaf in leaves]
        changed[which][index] += step
        return value(jax.tree.unflatten(structure, changed), case)

    _, slopes = evidence_with_slopes(KERNELS[name], case.seen(), case.landmarks)
    for which, leaf in enumerate(leaves):
        for index in np.ndindex(leaf.shape):
            wanted = (shifted(which, index, 1e-4) - shifted(which, index, -1e-4)) / 2e-4
            assert float(slopes[which][index]) == pytest.approx(wanted, rel=1e-5, abs=1e-5)


def test_both_ways_climb_to_the_same_maximum() -> None:
    case, kernel = Case(4), KERNELS["sum"]
    spread = jax.tree.map(lambda leaf: 0 * np.abs(leaf) + 0.5, kernel)
    data = case.seen(), case.landmarks
    written, by_jax = (
        maximise(evidence_with_slopes, kernel, spread, data, with_slopes=True),
        maximise(evidence, kernel, spread, data),
    )
    assert written.value == pytest.approx(by_jax.value, rel=1e-6)
    for own, other in zip(*map(jax.tree.leaves, (written.parameters, by_jax.parameters)), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-2)


def test_a_matrix_that_rounding_spoils_is_stepped_back_from() -> None:
    case = Case()
    value, slopes = evidence_with_slopes(Gaussian(1.0), case.seen(-np.eye(COUNT)), case.landmarks)
    assert value == -np.inf
    assert [slope.shape for slope in slopes] == [()]


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
    found = {width: evidence_with_slopes(Gaussian(width), seen, x[:80])[0] for width in (0.1, 0.3, 0.6, 1.5, 4.0)}
    assert max(found, key=found.__getitem__) == truth
    best = maximise(evidence, Gaussian(0.7), Gaussian(1.0), (seen, x[:80])).parameters
    assert float(best.bandwidth) == pytest.approx(truth, rel=0.4)
