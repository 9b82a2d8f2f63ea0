"""Kernels on distributions: invariant, positive definite, and the integrals they say; the averaged problem solved."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import dualembed as de
from dualembed import kernels, problems, samplers, solvers, sources, spaces
from dualembed.checks import InputError
from dualembed.kernels import Gaussian, HaarIntegral, Matern52, MeanOverDraws, Polynomial, ProbabilityProduct


def turns(count: int) -> np.ndarray:
    """The rotations of the plane by multiples of 2π / count."""
    angles = 2 * np.pi * np.arange(count) / count
    return np.stack([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]).transpose(2, 0, 1)


PERMUTATIONS = np.stack([np.eye(3)[list(order)] for order in itertools.permutations(range(3))])
GROUPS = {"turns": turns(5), "mirror": np.array([np.eye(2), np.diag([-1.0, 1.0])]), "permutations": PERMUTATIONS}
# One whose values the group leaves alone, and two it does not: per coordinate, and not of the difference.
BASES = [Gaussian(0.8), Polynomial(2, 0.5, 0.3), Matern52(0.8) * kernels.Columns(Gaussian(0.4), (0,))]


def points(count: int, dim: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, dim))


@pytest.mark.parametrize("base", BASES, ids=lambda base: type(base).__name__)
@pytest.mark.parametrize("name", GROUPS)
def test_a_haar_integral_over_a_finite_group_is_invariant(name: str, base: kernels.Kernel) -> None:
    group = GROUPS[name]
    x, z = points(6, group.shape[1]), points(4, group.shape[1], seed=1)
    kernel = HaarIntegral(base, group)
    for element in group:
        np.testing.assert_allclose(kernel.gram(x @ element.T, z), kernel.gram(x, z), rtol=1e-12)
    if not isinstance(base, Gaussian):
        assert not np.allclose(base.gram(x @ group[1].T, z), base.gram(x, z), rtol=1e-2)


@pytest.mark.parametrize(
    "kernel",
    [
        *(HaarIntegral(base, turns(5)) for base in BASES),
        HaarIntegral(BASES[2], kernels.rotations(jax.random.key(0), 7, 2)),
        HaarIntegral(Gaussian(0.5), lambda x: x[:, None, :] * np.array([1.0, -1.0])[:, None]),
        MeanOverDraws(Gaussian(0.5), 1),
        ProbabilityProduct(0.4),
        ProbabilityProduct([0.4, 2.0], 0.5),
    ],
    ids=lambda kernel: "".join(repr(kernel).split())[:60],
)
def test_a_kernel_on_distributions_is_positive_definite_and_one_whatever_computes_it(kernel: kernels.Kernel) -> None:
    x, z = points(20, 2), points(7, 2, seed=1)
    gram = kernel.gram(x, x)
    assert gram.dtype == np.float64
    np.testing.assert_allclose(gram, gram.T, atol=1e-14)
    assert np.linalg.eigvalsh(gram)[0] > -1e-12 * np.max(gram)
    np.testing.assert_allclose(kernel.diagonal(x), np.diag(gram), rtol=1e-12)
    traced = jax.jit(lambda kernel, x, z: (kernel.gram(x, z), kernel.diagonal(x)))(
        kernel, jnp.asarray(x), jnp.asarray(z)
    )
    np.testing.assert_allclose(traced[0], kernel.gram(x, z), rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(traced[1], kernel.diagonal(x), rtol=2e-5)


def test_a_haar_integral_is_the_mean_over_both_elements() -> None:
    x, z = points(3, 2), points(2, 2, seed=1)
    wanted = np.zeros((3, 2))
    for g, h in itertools.product(turns(3), repeat=2):
        wanted += Polynomial(3).gram(x @ g.T, z @ h.T) / 9
    np.testing.assert_allclose(HaarIntegral(Polynomial(3), turns(3)).gram(x, z), wanted, rtol=1e-12)


def test_drawn_rotations_are_rotations_and_make_a_kernel_nearly_invariant() -> None:
    drawn = kernels.rotations(jax.random.key(3), 400, 3)
    np.testing.assert_allclose(drawn @ drawn.transpose(0, 2, 1), np.broadcast_to(np.eye(3), drawn.shape), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(drawn), 1.0, rtol=1e-12)
    np.testing.assert_allclose(drawn.mean(axis=0), 0.0, atol=4 / np.sqrt(3 * 400))  # entries have variance 1/3
    x, z = points(5, 3), points(4, 3, seed=1)
    base = kernels.Columns(Gaussian(1.0), (0,))
    turned = x @ kernels.rotations(jax.random.key(4), 1, 3)[0].T

    def change(kernel: kernels.Kernel) -> float:
        return float(np.max(np.abs(kernel.gram(turned, z) - kernel.gram(x, z))))

    assert change(HaarIntegral(base, drawn)) < 0.2 * change(base)


def test_an_orbit_of_a_sampler_makes_an_invariant_kernel_of_what_is_no_matrix() -> None:
    every = samplers.Orbit(jax.random.key(0), samplers.ImageShift(1, 3, 2, wrap=True), 400)
    x = jnp.asarray(points(4, 3))
    kernel = HaarIntegral(Polynomial(2), every)
    shifted = kernel.gram(jnp.roll(x, 1, axis=1), x)
    base_change = jnp.max(jnp.abs(Polynomial(2).gram(jnp.roll(x, 1, axis=1), x) - Polynomial(2).gram(x, x)))
    assert jnp.max(jnp.abs(shifted - kernel.gram(x, x))) < 0.1 * base_change


@pytest.mark.parametrize("power", [1.0, 0.5, 0.7])
def test_a_probability_product_is_its_integral(power: float) -> None:
    noise, x, z = 0.4, 0.3, 0.9

    def density(s: float, mean: float) -> float:
        return float(np.exp(-((s - mean) ** 2) / (2 * noise**2)) / np.sqrt(2 * np.pi * noise**2))

    wanted = quad(lambda s: (density(s, x) * density(s, z)) ** power, -8, 8)[0]
    one = ProbabilityProduct(noise, power).gram([[x]], [[z]])[0, 0]
    np.testing.assert_allclose(one, wanted, rtol=1e-9)
    # Coordinates are independent, so that in two of them the integrals multiply.
    two = ProbabilityProduct([noise, noise], power).gram([[x, 0.0]], [[z, 0.2]])[0, 0]
    other = ProbabilityProduct(noise, power).gram([[0.0]], [[0.2]])[0, 0]
    np.testing.assert_allclose(two, one * other, rtol=1e-6)  # a list of noises is kept in float32


def test_the_named_probability_products_have_their_formulas() -> None:
    x, z = points(5, 3), points(4, 3, seed=1)
    squared = np.sum((x[:, None] - z) ** 2, axis=2)
    likelihood = (4 * np.pi * 0.25) ** -1.5 * np.exp(-squared / (4 * 0.25))
    np.testing.assert_allclose(ProbabilityProduct(0.5).gram(x, z), likelihood, rtol=1e-10)
    np.testing.assert_allclose(ProbabilityProduct(0.5, 0.5).gram(x, z), np.exp(-squared / (8 * 0.25)), rtol=1e-10)


def test_the_empirical_probability_product_is_that_of_the_smoothed_densities_and_converges() -> None:
    rng = np.random.default_rng(0)
    few = rng.normal(size=(2, 3))

    def smoothed(s: float, draws: np.ndarray) -> float:
        return float(np.mean(np.exp(-((s - draws) ** 2) / (2 * 0.3**2)) / np.sqrt(2 * np.pi * 0.3**2)))

    kernel = MeanOverDraws(ProbabilityProduct(0.3), 1)
    wanted = quad(lambda s: smoothed(s, few[0]) * smoothed(s, few[1]), -9, 9)[0]
    np.testing.assert_allclose(kernel.gram(few[:1], few[1:])[0, 0], wanted, rtol=1e-8)
    # Draws of N(0, 1) and N(1, 1), each smoothed by 0.3, are two normal densities of variance 1.09.
    many = rng.normal(size=(2, 1500)) + np.array([[0.0], [1.0]])
    exact = ProbabilityProduct(np.sqrt(1.09)).gram([[0.0]], [[1.0]])[0, 0]
    pairs = ProbabilityProduct(0.3).gram(many[0][:, None], many[1][:, None])
    error = np.sqrt((pairs.mean(axis=0).var() + pairs.mean(axis=1).var()) / 1500)  # of the mean over all pairs
    assert error < 0.03 * exact
    assert abs(kernel.gram(many[:1], many[1:])[0, 0] - exact) < 3 * error


def test_random_features_of_a_probability_product_approach_it() -> None:
    kernel = ProbabilityProduct([0.5, 0.8])
    x = points(6, 2)
    layout = spaces.Layout(jnp.asarray(x), steps=1, batch=1, per_sample=1, capacity=1)
    features = spaces.Fourier(kernel, size=20_000, pairs=True).feature_map(jax.random.key(0), layout)(jnp.asarray(x))
    np.testing.assert_allclose(features @ features.T, kernel.gram(x, x), atol=0.03 * float(kernel.spectral_mass()))
    with pytest.raises(InputError, match="noise of each coordinate"):
        ProbabilityProduct(0.5).spectral_mass()
    assert ProbabilityProduct(0.5, 0.5).spectral_mass() == 1.0


class Averaged:
    """y = radius² + noise at points of the plane, and the exact minimiser of the problem averaged over turns.

    min over f of mean (y_i - mean_g f(g x_i))² / 2 + λ/2 |f|², written out in orthonormal features of the whole orbit.
    """

    penalty = 1e-3
    kernel = Gaussian([0.6, 1.2])  # which the turns do not leave alone, so that f is not invariant by itself

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.x = rng.uniform(-1, 1, (25, 2))
        self.y = np.sum(self.x**2, axis=1) + 0.1 * rng.normal(size=25)
        self.new = rng.uniform(-1, 1, (12, 2))

    def orbits(self, x: np.ndarray) -> np.ndarray:
        return np.einsum("gij,nj->ngi", turns(4), x)

    def solved(self) -> np.ndarray:
        """mean_g f(g x) at the new points."""
        places = self.orbits(self.x).reshape(-1, 2)
        values, vectors = np.linalg.eigh(self.kernel.gram(places, places))
        kept = values > 1e-13 * values[-1]
        root = vectors[:, kept] / np.sqrt(values[kept])

        def means(x: np.ndarray) -> np.ndarray:
            images = self.orbits(x)
            features = self.kernel.gram(images.reshape(-1, 2), places) @ root
            return features.reshape(*images.shape[:2], -1).mean(axis=1)

        design = means(self.x)
        normal = design.T @ design / 25 + self.penalty * np.eye(design.shape[1])
        return means(self.new) @ np.linalg.solve(normal, design.T @ self.y / 25)


@pytest.mark.parametrize("array", [np.ones, jax.numpy.ones])
def test_no_points_have_an_empty_matrix(array: Any) -> None:
    kernel = HaarIntegral(Gaussian(1.0), turns(4))
    assert kernel.gram(array((0, 2)), array((3, 2))).shape == (0, 3)
    assert kernel.gram(array((3, 2)), array((0, 2))).shape == (3, 0)


def test_ridge_with_the_haar_integral_solves_the_averaged_problem() -> None:
    case = Averaged()
    kernel = HaarIntegral(case.kernel, turns(4))
    weights = np.linalg.solve(kernel.gram(case.x, case.x) + 25 * case.penalty * np.eye(25), case.y)
    np.testing.assert_allclose(kernel.gram(case.new, case.x) @ weights, case.solved(), rtol=1e-7)


@pytest.mark.parametrize("primal", ["rkhs", "nystrom"])
def test_the_closed_form_saddle_with_a_table_for_its_dual_solves_the_averaged_problem(primal: str) -> None:
    case = Averaged()
    data = sources.Dataset(x=case.x, y=case.y, z=case.orbits(case.x))
    space = spaces.RKHS(case.kernel) if primal == "rkhs" else spaces.Nystrom(case.kernel, size=100)
    # One dual number for each context (x, y): the maximum over them is the empirical average of the loss itself.
    saddle = de.Saddle(
        problems.Invariance(data), space, spaces.RKHS(kernels.Categorical()), primal_penalty=case.penalty
    )
    f = de.solve(0, saddle, solvers.ClosedForm(folds=1)).primal
    predicted = np.asarray(f(case.orbits(case.new).reshape(-1, 2)), dtype=np.float64).reshape(12, 4).mean(axis=1)
    np.testing.assert_allclose(predicted, case.solved(), rtol=1e-6)
    assert not np.allclose(f(case.new), case.solved(), rtol=1e-2)  # f is not invariant; its average is


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: HaarIntegral(Gaussian(1.0), np.eye(2)), r"shape \(elements, d, d\), not \(2, 2\)"),
        (lambda: HaarIntegral(Gaussian(1.0), np.full((1, 2, 2), np.nan)), "NaN or infinite"),
        (lambda: HaarIntegral("gaussian", turns(2)), "kernel must be a Kernel"),
        (lambda: HaarIntegral(Gaussian(1.0), turns(2)).gram(np.ones((3, 3)), np.ones((3, 3))), "act on 2 coordinate"),
        (lambda: HaarIntegral(Gaussian(1.0), lambda x: x).gram([[1.0]], [[1.0]]), "orbits"),
        (lambda: MeanOverDraws(Gaussian(1.0), 2).gram([[1.0, 2.0, 3.0]], [[1.0, 2.0]]), "whole draws"),
        (lambda: ProbabilityProduct(-1.0), "noise must be positive"),
        (lambda: ProbabilityProduct(1.0, 0.0), "power must be positive"),
        (lambda: kernels.rotations(jax.random.key(0), 3, 1), "dimension must be a whole number of at least 2"),
        (lambda: HaarIntegral(Gaussian(1.0), turns(2)).spectral_mass(), "no known spectral measure"),
    ],
)
def test_what_is_no_group_or_density_is_named(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
