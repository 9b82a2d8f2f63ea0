"""The rivals do what their authors say."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import iv_designs
from dualembed.baselines import KernelIV, TwoStageLeastSquares
from dualembed.baselines.instrumental import KernelFirstStage, Monomials, second_stage
from dualembed.checks import InputError
from dualembed.kernels import Gaussian


def confounded(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, y, z and the confounder u of y = 2 x + 1 + 3 u."""
    z, u, e = np.random.default_rng(seed).standard_normal((3, n))
    x = z + u + 0.1 * e
    return x, 2 * x + 1 + 3 * u, z, u


@pytest.mark.parametrize("coefficients", [(1.0, 2.0), (0.5, -1.0, 0.3, 0.2)])
def test_two_stage_least_squares_recovers_a_polynomial_without_noise(coefficients: Any) -> None:
    rng = np.random.default_rng(0)
    z = rng.standard_normal(300)
    x = z + 0.5 * rng.standard_normal(300)
    truth = np.polynomial.Polynomial(coefficients)
    result = TwoStageLeastSquares(degree=3).fit(x, truth(x), z)
    points = np.linspace(-2, 2, 41)
    assert np.allclose(result.primal(points), truth(points), atol=1e-5)
    assert np.allclose(result.dual(points), 0.0, atol=1e-5)


def test_two_stage_least_squares_recovers_interactions_of_discrete_coordinates() -> None:
    """A coordinate of two values has dependent powers; the fit is still right where the data are."""
    rng = np.random.default_rng(1)
    z = np.stack([rng.standard_normal(400), rng.integers(0, 2, 400)], axis=1)
    x = np.stack([z[:, 0] + 0.3 * rng.standard_normal(400), z[:, 1]], axis=1)
    y = 1 + x[:, 0] * x[:, 1] - x[:, 0] ** 2
    assert np.allclose(TwoStageLeastSquares(degree=3).fit(x, y, z).primal(x), y, atol=1e-4)


def test_two_stage_least_squares_removes_the_confounding_that_biases_regression() -> None:
    x, y, z, _ = confounded(20_000, 2)
    function = TwoStageLeastSquares(degree=1).fit(x, y, z).primal
    assert float(function([1.0])[0] - function([0.0])[0]) == pytest.approx(2.0, abs=0.1)
    assert np.polyfit(x, y, 1)[0] > 3.3


def test_two_stage_least_squares_is_the_textbook_formula() -> None:
    rng = np.random.default_rng(3)
    z = rng.standard_normal((200, 2))
    x = z[:, 0] + rng.standard_normal(200)
    y = np.sin(x) + rng.standard_normal(200)
    psi, phi = (Monomials.of(each, 2).compute(np, each) for each in (x[:, None], z))
    projection = phi @ np.linalg.inv(phi.T @ phi) @ phi.T
    theta = np.linalg.solve(psi.T @ projection @ psi, psi.T @ projection @ y)
    result = TwoStageLeastSquares(degree=2).fit(x, y, z)
    assert np.allclose(result.primal.weights, theta, rtol=1e-4, atol=1e-5)
    assert np.allclose(result.dual(z), projection @ (psi @ theta - y), atol=1e-4)


def test_polynomials_are_all_monomials_and_differentiable_at_zero() -> None:
    monomials = Monomials(np.zeros(2), np.ones(2), 3)
    assert monomials.size == 10
    features = monomials.compute(np, np.asarray([[2.0, 3.0]]))[0]
    assert sorted(features) == sorted(2.0**i * 3.0**j for i in range(4) for j in range(4 - i))
    slopes = jax.jit(jax.jacobian(lambda point: monomials(point[None])[0]))(jnp.zeros(2))
    assert np.array_equal(slopes[1:3], np.eye(2))
    assert np.count_nonzero(slopes) == 2


def test_two_stage_least_squares_refuses_too_few_instruments_or_rows() -> None:
    rng = np.random.default_rng(4)
    x, y, z = rng.standard_normal((50, 2)), rng.standard_normal(50), rng.standard_normal(50)
    with pytest.raises(InputError, match="10 polynomials of x, 4 of z"):
        TwoStageLeastSquares().fit(x, y, z)
    with pytest.raises(InputError, match="there are 50 rows"):
        TwoStageLeastSquares().fit(z, y, rng.standard_normal((50, 20)))
    with pytest.raises(InputError, match="equally many rows"):
        TwoStageLeastSquares().fit(x, y, z[:10])


@pytest.mark.parametrize(("degree", "words"), [(3, "4 independent.*only 2 independent"), (2, "3 independent.*only 2")])
def test_two_stage_least_squares_refuses_a_degree_that_the_values_of_the_instrument_cannot_tell(
    degree: int, words: str
) -> None:
    """A coin has two values, so that it moves f in two directions alone: the line's level and slope."""
    coin, hidden = np.random.default_rng(6).integers(0, 2, 500), np.random.default_rng(7).standard_normal(500)
    x = coin + 0.1 * hidden
    with pytest.raises(InputError, match=words):
        TwoStageLeastSquares(degree).fit(x, 2 * x, coin)
    assert np.allclose(TwoStageLeastSquares(1).fit(x, 2 * x, coin).primal([0.0, 1.0]), [0.0, 2.0], atol=1e-5)


def test_kernel_iv_is_the_published_formula() -> None:
    """α = (W Wᵀ + m ξ K_XX)⁻¹ W ỹ with W = K_XX (K_ZZ + n λ)⁻¹ K_Zz̃, and its two losses, by plain solves."""
    rng = np.random.default_rng(5)
    z, held_z = rng.standard_normal((2, 40, 1))
    x, held_x = z + rng.standard_normal((40, 1)), held_z + rng.standard_normal((40, 1))
    y, held_y = np.sin(x[:, 0]), np.sin(held_x[:, 0]) + 0.1 * rng.standard_normal(40)
    kernel = Gaussian(0.7)
    stage = KernelFirstStage(kernel, kernel, x=x, z=z, held_x=held_x, held_z=held_z)
    gamma = np.linalg.solve(kernel.gram(z, z) + 40 * 0.01 * np.eye(40), kernel.gram(z, held_z))
    cross, gram = kernel.gram(held_x, x), kernel.gram(x, x)
    loss = np.trace(kernel.gram(held_x, held_x) - 2 * cross @ gamma + gamma.T @ gram @ gamma) / 40
    assert stage.error(0.01) == pytest.approx(loss, rel=1e-9)

    def predictions(ridge: float) -> np.ndarray:
        reach = gram @ gamma
        return gram @ np.linalg.solve(reach @ reach.T + 40 * ridge * gram + 1e-12 * np.eye(40), reach @ held_y)

    fitted = gram @ second_stage(stage, 0.01, y=y, held_y=held_y)
    grid = np.logspace(-8, 1, 400)
    losses = [np.mean((y - predictions(ridge)) ** 2) for ridge in grid]
    assert np.mean((y - fitted) ** 2) <= min(losses) * (1 + 1e-6)
    assert np.allclose(fitted, predictions(grid[np.argmin(losses)]), atol=2e-2)


def test_kernel_iv_beats_plain_regression_on_the_sine() -> None:
    design = iv_designs.one_dimensional("sin", 600, 0)
    result = KernelIV().fit(design.x, design.y, design.z)
    error = np.mean((np.asarray(result.primal(design.test_x)) - design.test_f) ** 2)
    plain = np.polynomial.Polynomial.fit(design.x[:, 0], design.y, 7)
    plain_error = np.mean((plain(design.test_x[:, 0]) - design.test_f) ** 2)
    assert error < 0.05
    assert error < plain_error / 4
    again = KernelIV().fit(design.x, design.y, design.z)
    assert np.array_equal(again.primal.coefficients, result.primal.coefficients)
    assert result.finite


def test_kernel_iv_dual_fades_where_the_moment_is_met() -> None:
    """u(z) estimates E[f(x) - y | z]: small for the fitted f, far smaller than the noise."""
    design = iv_designs.one_dimensional("sin", 600, 1)
    result = KernelIV(seed=3).fit(design.x, design.y, design.z)
    residual = np.asarray(result.primal(design.x)) - design.y
    assert np.std(np.asarray(result.dual(design.z))) < 0.3 * np.std(residual)


def test_kernel_iv_takes_several_coordinates_and_refuses_three_rows() -> None:
    design = iv_designs.demand(200, 0, 0.5, standardised=True)
    result = KernelIV().fit(design.x, design.y, design.z)
    assert result.primal(design.test_x).shape == (2800,)
    assert result.primal.kernel.bandwidth.shape == (3,)
    with pytest.raises(InputError, match="at least 4"):
        KernelIV().fit([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0.0, 1.0, 2.0])


def test_kernel_iv_does_not_mind_a_constant_column_but_wants_an_instrument_that_varies() -> None:
    design = iv_designs.one_dimensional("sin", 200, 2)
    padded = np.concatenate([design.x, np.ones((200, 1))], axis=1)
    plain, with_ones = (KernelIV().fit(each, design.y, design.z).primal for each in (design.x, padded))
    assert np.allclose(with_ones(padded), plain(design.x), atol=1e-4)
    with pytest.raises(InputError, match=r"z is \[1.0\] in every row"):
        KernelIV().fit(design.x, design.y, np.ones(200))


@pytest.mark.parametrize("seed", [-1, 1.5, "first"])
def test_a_seed_that_is_none_is_named(seed: object) -> None:
    with pytest.raises(InputError, match="seed must be a whole number of at least 0"):
        KernelIV(seed=seed)
