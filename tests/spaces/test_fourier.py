"""The fast cosine and sine keep their promise."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualembed.spaces import fourier


@pytest.mark.parametrize("name", ["cosine", "sine"])
def test_within_two_millionths_up_to_ten_thousand(name: str) -> None:
    angles = np.linspace(-1e4, 1e4, 2_000_003).astype(np.float32)
    exact = {"cosine": np.cos, "sine": np.sin}[name](angles.astype(np.float64))
    assert np.max(np.abs(np.asarray(getattr(fourier, name)(jnp.asarray(angles))) - exact)) < 2e-6


@pytest.mark.parametrize("name", ["cosine", "sine"])
def test_absurd_angles_stay_bounded(name: str) -> None:
    angles = jnp.asarray([1e6, -3e7, 1e9, 1e12, -1e30, 3e38])
    assert np.all(np.abs(getattr(fourier, name)(angles)) <= 1.001)


def test_derivatives_are_those_of_cosine_and_sine() -> None:
    angles = jnp.linspace(-20.0, 20.0, 101)
    slopes = jax.vmap(jax.grad(fourier.cosine))(angles)
    np.testing.assert_allclose(slopes, -jnp.sin(angles), atol=5e-6)
    slopes = jax.vmap(jax.grad(fourier.sine))(angles)
    np.testing.assert_allclose(slopes, jnp.cos(angles), atol=5e-6)


def test_numpy_angles_are_good_to_a_ten_millionth_and_double_precision_is_exact() -> None:
    angles = np.linspace(-5e4, 5e4, 1_000_001)
    for fast, exact in ((fourier.cosine, np.cos), (fourier.sine, np.sin)):
        assert fast(angles).dtype == np.float64
        np.testing.assert_allclose(fast(angles), exact(angles), rtol=0, atol=2e-7)
    angles = np.linspace(-50.0, 50.0, 1001)
    with jax.enable_x64(True):
        np.testing.assert_allclose(fourier.sine(jnp.asarray(angles)), np.sin(angles), atol=1e-15)
