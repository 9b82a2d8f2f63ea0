"""Spectral measures: averages of cosines over drawn frequencies are the kernel."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualembed.checks import InputError
from dualembed.kernels import (
    ArcCosine,
    ArcSine,
    Categorical,
    Columns,
    Gaussian,
    Kernel,
    Laplacian,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
)

COUNT = 10_000
# A mean of COUNT cosines has a standard error below 1 / sqrt(COUNT); five of them, over 50 pairs.
BOUND = 5 / np.sqrt(COUNT)

SPECTRAL = [
    Gaussian(0.8),
    Gaussian([0.5, 2.0, 1.0]),
    Laplacian([0.5, 2.0, 1.0]),
    Matern32(0.8),
    Matern52([0.5, 2.0, 1.0]),
    Periodic(1.3, 0.8),
    Periodic([1.3, 0.7, 2.0], [0.5, 2.0, 1.0]),
    3.0 * Gaussian(0.8),
    0.5 * Gaussian(2.0) + 1.5 * Laplacian(0.3),
    Gaussian(0.8) * Matern32(1.5) * 2.0,
    Columns(Matern52([0.5, 2.0]), (2, 0)),
    Columns(Gaussian(0.3), (0,)) * Columns(Laplacian(0.9), (1, 2)) + 0.2 * Columns(Periodic(1.0), 1),
]


def points(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, 3))


def average_of_cosines(kernel: Kernel, frequencies: Any, x: Any, z: Any) -> Any:
    differences = x[:, None, :] - z
    cosines = np.cos(differences.reshape(-1, x.shape[1]) @ np.asarray(frequencies, np.float64).T)
    return np.asarray(kernel.spectral_mass()) * cosines.mean(axis=1).reshape(differences.shape[:2])


@pytest.mark.parametrize("kernel", SPECTRAL, ids=lambda kernel: "".join(repr(kernel).split()))
def test_average_of_cosines_is_the_kernel(kernel: Kernel) -> None:
    x, z = points(10, 0), 0.5 * points(5, 1)
    frequencies = kernel.frequencies(jax.random.key(3), COUNT, 3)
    assert frequencies.shape == (COUNT, 3)
    assert jnp.all(jnp.isfinite(frequencies))
    mass = float(kernel.spectral_mass())
    np.testing.assert_allclose(kernel.diagonal(x), mass, rtol=1e-6)
    np.testing.assert_allclose(average_of_cosines(kernel, frequencies, x, z), kernel(x, z), atol=BOUND * mass)


@pytest.mark.parametrize(
    "kernel", [Gaussian([0.5, 2.0, 1.0]), Matern32(0.8), Matern52(0.8), 2.0 * Gaussian(0.8)], ids=repr
)
def test_radii_along_even_directions_are_frequencies(kernel: Kernel) -> None:
    assert kernel.rotation_invariant
    x, z = points(10, 0), 0.5 * points(5, 1)
    directions = jax.random.normal(jax.random.key(0), (COUNT, 3))
    directions = directions / jnp.linalg.norm(directions, axis=1, keepdims=True)
    frequencies = kernel.stretch(directions * kernel.radii(jax.random.key(1), COUNT, 3)[:, None])
    mass = float(kernel.spectral_mass())
    np.testing.assert_allclose(average_of_cosines(kernel, frequencies, x, z), kernel(x, z), atol=BOUND * mass)


def test_kernels_that_are_not_radial_say_so() -> None:
    for kernel in [Laplacian(1.0), Periodic(1.0), Gaussian(1.0) + Gaussian(2.0), Columns(Gaussian(1.0), 0)]:
        assert not kernel.rotation_invariant
        with pytest.raises(InputError, match=f"^{type(kernel).__name__} has no known spectral measure"):
            kernel.radii(jax.random.key(0), 2, 3)


def test_frequencies_of_other_columns_are_zero() -> None:
    frequencies = Columns(Gaussian(1.0), (2, 0)).frequencies(jax.random.key(0), 5, 4)
    assert jnp.all(frequencies[:, [1, 3]] == 0)
    assert jnp.all(frequencies[:, [0, 2]] != 0)
    with pytest.raises(InputError, match="column 2"):
        Columns(Gaussian(1.0), 2).frequencies(jax.random.key(0), 5, 2)


def test_frequencies_draw_under_jit_and_slope_in_the_bandwidth() -> None:
    def total(bandwidth: Any) -> Any:
        kernel = 2.0 * Gaussian(bandwidth) + Columns(Periodic(bandwidth), 1)
        return jnp.sum(kernel.frequencies(jax.random.key(0), 6, 3) ** 2) * kernel.spectral_mass()

    assert jnp.isfinite(jax.jit(jax.grad(total))(0.7))


@pytest.mark.parametrize("kernel", [Polynomial(2), ArcCosine(1), ArcSine(), Categorical()], ids=repr)
def test_kernels_without_a_spectral_measure_name_the_way_out(kernel: Kernel) -> None:
    name = type(kernel).__name__
    for combined in [
        kernel,
        2.0 * kernel,
        kernel * Gaussian(1.0),
        Gaussian(1.0) + kernel,
        Columns(kernel, 0),
    ]:
        with pytest.raises(InputError, match=f"^{name} has no known spectral measure.*Nystrom or the RKHS"):
            combined.frequencies(jax.random.key(0), 2, 3)
        with pytest.raises(InputError, match=f"^{name} has no known"):
            combined.spectral_mass()
