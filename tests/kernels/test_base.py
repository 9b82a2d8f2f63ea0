"""What every kernel obeys: symmetry, positive definiteness, one value whatever computes it, finite slopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualembed import kernels
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
    median_bandwidth,
)

WIDE = 12  # coordinates enough for the matrix-product form of distances on JAX as well

KERNELS = [
    Gaussian(0.7),
    Gaussian([0.5, 2.0, 1.0]),
    Laplacian(1.5),
    Laplacian([0.5, 2.0, 1.0]),
    Matern32(0.7),
    Matern52([0.5, 2.0, 1.0]),
    Periodic(1.3, 0.8),
    Periodic([1.3, 2.0, 0.7], [0.5, 2.0, 1.0]),
    Categorical(),
    Polynomial(3, 0.5, 0.2),
    Polynomial(2, 0, [0.5, 2.0, 1.0]),
    Polynomial(1, 0.5, 0.3, [5.0, -2.0, 1.0]),
    ArcCosine(0),
    ArcCosine(1, [0.5, 2.0, 1.0], bias=0.3),
    ArcCosine(2, 1.7),
    ArcSine(0.4),
    0.5 * Gaussian(0.7) + Polynomial(2),
    Gaussian(0.7) * Columns(Matern32(0.3), (1,)) * 2.0,
    Columns(Gaussian(0.05), (0,)) * Columns(Gaussian([0.3, 2.0]), (2, 1)),
    Columns(Categorical(), (2,)) + ArcSine(),
]
compiled = jax.jit(lambda kernel, x, z: kernel.gram(x, z))
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: "".join(repr(kernel).split()))


def points(count: int, dim: int = 3, *, seed: int = 0) -> np.ndarray:
    """Gaussian points, some of which share a last coordinate and two of which coincide."""
    rows = np.random.default_rng(seed).standard_normal((count, dim))
    rows[:, -1] = np.round(rows[:, -1])
    rows[1] = rows[0]
    return rows


def pairwise(function: Any, x: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.asarray([[function(a, b) for b in z] for a in x])


@every_kernel
def test_weights_on_values_are_pulled_back_to_hyper_parameters_as_jax_does(kernel: Kernel) -> None:
    rng = np.random.default_rng(5)
    x, z = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    z[0] = x[0]
    weights = rng.normal(size=(6, 4))
    values, pull = kernel.gram_with_slopes(x, z)
    np.testing.assert_allclose(values, kernel.gram(x, z), rtol=1e-12, atol=1e-30)
    with jax.enable_x64(True):
        doubled = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=jnp.float64), kernel)
        slopes = jax.grad(lambda each: jnp.sum(weights * each.gram(jnp.asarray(x), jnp.asarray(z))))(doubled)
        wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(slopes)]
    for found, own in zip(pull(weights), wanted, strict=True):
        np.testing.assert_allclose(found, own, rtol=1e-7, atol=1e-9)


@every_kernel
def test_gram_is_symmetric_and_positive_semi_definite(kernel: Kernel) -> None:
    gram = kernel.gram(points(40), points(40))
    np.testing.assert_allclose(gram, gram.T, atol=1e-12 * gram.max())
    # arccos near 1 keeps half of float64's digits, which sets the bound for the arc-cosine of degree 0.
    assert np.linalg.eigvalsh(gram).min() > -1e-7 * np.trace(gram)


@every_kernel
def test_diagonal_is_the_diagonal_of_gram(kernel: Kernel) -> None:
    x = points(20)
    np.testing.assert_allclose(kernel.diagonal(x), np.diag(kernel.gram(x, x)), rtol=3e-8)


@every_kernel
def test_numpy_and_jax_agree_in_kind_precision_and_value(kernel: Kernel) -> None:
    x, z = points(15), points(9, seed=1)
    exact = kernel(x, z)
    assert type(exact) is np.ndarray
    assert exact.dtype == np.float64
    assert kernel(x.astype(np.float32), z.astype(np.float32)).dtype == np.float32
    assert type(kernel.diagonal(x)) is np.ndarray
    single = compiled(kernel, x, z)
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, exact, atol=2e-5 * np.abs(exact).max())
    with jax.enable_x64(True):
        double = compiled(kernel, x, z)
        assert double.dtype == jnp.float64
        np.testing.assert_allclose(double, exact, atol=1e-12 * np.abs(exact).max())


def test_one_jax_argument_makes_the_values_jax() -> None:
    x, z = points(5), points(4, seed=1)
    for values in [Gaussian(0.7)(x, jnp.asarray(z)), Gaussian(0.7)(jnp.asarray(x), z)]:
        assert isinstance(values, jax.Array)
        np.testing.assert_allclose(values, Gaussian(0.7)(x, z), atol=1e-6)


@every_kernel
def test_slopes_are_finite_everywhere_also_where_points_coincide(kernel: Kernel) -> None:
    x = jnp.asarray(points(12))
    z = jnp.concatenate([x, 1e3 * x, jnp.zeros((1, 3))])

    def total(kernel: Kernel, x: Any) -> Any:
        return jnp.sum(kernel.gram(x, z))

    slopes = jax.tree.leaves(jax.jit(jax.grad(total, argnums=(0, 1)))(kernel, x))
    assert all(bool(jnp.all(jnp.isfinite(slope))) for slope in slopes)


def test_slopes_with_respect_to_a_bandwidth_pass_through_numpy_points() -> None:
    x, z = points(8, WIDE), points(5, WIDE, seed=1)

    @jax.jit
    def total(bandwidth: Any) -> Any:
        return jnp.sum((3.0 * Matern52(bandwidth)).gram(x, z))

    with jax.enable_x64(True):
        difference = (total(2.0 + 1e-6) - total(2.0 - 1e-6)) / 2e-6
        np.testing.assert_allclose(jax.grad(total)(2.0), difference, rtol=1e-6)
        assert jax.grad(total)(jnp.full(WIDE, 2.0)).shape == (WIDE,)


@pytest.mark.parametrize("dim", [1, 3, WIDE])
@pytest.mark.parametrize("namespace", [np, jnp], ids=["numpy", "jax"])
def test_values_are_those_of_the_formulas(dim: int, namespace: Any) -> None:
    x, z = points(7, dim), points(5, dim, seed=1)
    root3, root5 = np.sqrt(3), np.sqrt(5)

    def distance(a: Any, b: Any) -> Any:
        return np.linalg.norm(a - b) / 1.4

    def neurons(a: Any, b: Any) -> Any:
        top = 1 + a @ b / 1.4**2
        return top, 1 + a @ a / 1.4**2, 1 + b @ b / 1.4**2

    def arc_cosine(a: Any, b: Any) -> Any:
        top, aa, bb = neurons(a, b)
        theta = np.arccos(np.clip(top / np.sqrt(aa * bb), -1, 1))
        return np.sqrt(aa * bb) * (np.sin(theta) + (np.pi - theta) * np.cos(theta)) / np.pi

    def arc_sine(a: Any, b: Any) -> Any:
        top, aa, bb = neurons(a, b)
        return 2 / np.pi * np.arcsin(2 * top / np.sqrt((1 + 2 * aa) * (1 + 2 * bb)))

    formulas = [
        (Gaussian(1.4), lambda a, b: np.exp(-np.sum((a - b) ** 2) / (2 * 1.4**2))),
        (Laplacian(1.4), lambda a, b: np.exp(-np.sum(np.abs(a - b)) / 1.4)),
        (Matern32(1.4), lambda a, b: (1 + root3 * distance(a, b)) * np.exp(-root3 * distance(a, b))),
        (
            Matern52(1.4),
            lambda a, b: (1 + root5 * distance(a, b) + 5 / 3 * distance(a, b) ** 2) * np.exp(-root5 * distance(a, b)),
        ),
        (Periodic(0.9, 1.4), lambda a, b: np.exp(-2 * np.sum(np.sin(np.pi * (a - b) / 0.9) ** 2) / 1.4**2)),
        (Categorical(), lambda a, b: float(np.all(a == b))),
        (Polynomial(3, 0.5, 0.2), lambda a, b: (0.2 * a @ b + 0.5) ** 3),
        (ArcCosine(1, 1.4), arc_cosine),
        (ArcSine(1.4), arc_sine),
    ]
    for kernel, formula in formulas:
        with jax.enable_x64(True):
            values = kernel(x, z) if namespace is np else compiled(kernel, x, z)
        np.testing.assert_allclose(values, pairwise(formula, x, z), atol=1e-11, err_msg=repr(kernel))


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_arc_cosine_is_an_average_over_random_neurons(degree: int) -> None:
    x = np.random.default_rng(0).standard_normal((6, 2))
    weights = np.random.default_rng(1).standard_normal((3, 400_000))
    fields = np.column_stack([np.full(6, 0.8), x / 1.4]) @ weights
    neurons = np.maximum(fields, 0) ** degree * (fields > 0)
    kernel = ArcCosine(degree, 1.4, bias=0.8)
    scale = kernel.diagonal(x).max()
    # Cho and Saul's kernel is 2 E[...]; 0.03 of the largest value is about five standard errors.
    np.testing.assert_allclose(2 * neurons @ neurons.T / 400_000, kernel(x, x), atol=0.03 * scale)


@pytest.mark.parametrize("make", [Gaussian, Laplacian, Matern32, Matern52, ArcSine, lambda b: ArcCosine(1, b)])
@pytest.mark.parametrize("dim", [2, WIDE])
def test_a_bandwidth_for_each_coordinate_scales_the_inputs(make: Callable[[], Any], dim: int) -> None:
    x, z = points(8, dim), points(6, dim, seed=1)
    bandwidths = np.linspace(0.5, 2.0, dim).astype(np.float32).astype(np.float64)
    np.testing.assert_allclose(make(bandwidths)(x, z), make(1.0)(x / bandwidths, z / bandwidths), rtol=1e-12)


@pytest.mark.parametrize("dim", [1, 3, WIDE])
@pytest.mark.parametrize(
    "kernel", [Gaussian(0.3), Matern32(0.3), Matern52(0.3), Laplacian(0.3), Periodic(3.0)], ids=repr
)
def test_float32_keeps_five_digits_far_from_the_origin(dim: int, kernel: Kernel) -> None:
    # At 1e4 float32 is a grid of 1e-3; on that grid's own points nothing more than 1e-5 is lost.
    x, z = (1e4 + points(20, dim, seed=seed) / np.sqrt(dim) for seed in (0, 1))
    x, z = x.astype(np.float32), z.astype(np.float32)
    exact = kernel(x.astype(np.float64), z.astype(np.float64))
    np.testing.assert_allclose(compiled(kernel, x, z), exact, atol=1e-5)


def test_algebra_is_that_of_the_values() -> None:
    x, z = points(6), points(4, seed=1)
    first, second = Gaussian(0.7), ArcSine()
    np.testing.assert_allclose((first + second)(x, z), first(x, z) + second(x, z))
    np.testing.assert_allclose((first * second)(x, z), first(x, z) * second(x, z))
    for half in [0.5, np.float64(0.5), np.asarray(0.5), jnp.asarray(0.5)]:
        np.testing.assert_allclose((half * first)(x, z), first(x, z) / 2)
        np.testing.assert_allclose((first * half)(x, z), first(x, z) / 2)
    np.testing.assert_allclose(Columns(first, (2, 0))(x, z), first(x[:, [2, 0]], z[:, [2, 0]]))
    with pytest.raises(TypeError):
        first + 1.0


def test_a_new_bandwidth_does_not_recompile_and_bandwidths_can_be_mapped_over() -> None:
    traces = []

    @jax.jit
    def gram(kernel: Kernel, x: Any) -> Any:
        traces.append(kernel)
        return kernel.gram(x, x)

    x = jnp.asarray(points(6))
    several = jnp.stack([gram(Gaussian(bandwidth), x) for bandwidth in [0.5, 1, 2.0]])
    assert len(traces) == 1
    mapped = jax.vmap(lambda bandwidth: Gaussian(bandwidth).gram(x, x))(jnp.asarray([0.5, 1.0, 2.0]))
    np.testing.assert_allclose(mapped, several, rtol=1e-5)


def test_kernels_take_whole_numbers_and_no_rows() -> None:
    whole = np.arange(6).reshape(3, 2)
    np.testing.assert_allclose(Gaussian(1.0)(whole, whole), Gaussian(1.0)(whole * 1.0, whole * 1.0))
    for kernel in KERNELS:
        assert kernel(points(4), np.zeros((0, 3))).shape == (4, 0)
        assert jax.eval_shape(compiled, kernel, jnp.zeros((0, 3)), jnp.ones((2, 3))).shape == (0, 2)


bad_numbers = st.one_of(
    st.floats(max_value=0),
    st.just(float("inf")),
    st.just(float("nan")),
    st.just("wide"),
    st.none(),
    st.booleans(),
)


@given(bad_numbers)
@settings(max_examples=25, deadline=None, derandomize=True)
def test_bad_hyper_parameters_are_refused_in_one_sentence(bad: Any) -> None:
    makers = [Gaussian, Laplacian, Matern32, Matern52, Periodic, ArcSine, lambda b: ArcCosine(1, b)]
    if not isinstance(bad, bool):  # in a list, NumPy reads True as 1.0
        makers.append(lambda b: Gaussian([1.0, b]))
    for make in [*makers, lambda b: Polynomial(2, 1.0, b)]:
        with pytest.raises(InputError, match=r"^[^\n]* must be (positive|finite|a number)[^\n]*$"):
            make(bad)
    if not isinstance(bad, (str, type(None))):
        with pytest.raises(InputError, match="amplitude must be"):
            bad * Gaussian(1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gaussian([0.5, 2.0]).check(3), "Gaussian has 2 values of bandwidth for points of 3 coord"),
        (lambda: Gaussian([0.5, 2.0])(np.ones((4, 3)), np.ones((4, 3))), "one for each coordinate"),
        (lambda: (Gaussian(1.0) + Gaussian([1.0, 2.0])).check(1), "2 values of bandwidth"),
        (lambda: Columns(Gaussian(1.0), (0, 3)).check(3), "column 3 of points that have 3 coordinate"),
        (lambda: Columns(Gaussian([1.0, 2.0]), (0,)).check(3), "2 values of bandwidth for points of 1"),
        (lambda: Columns(Gaussian(1.0), ()), "wants column numbers"),
        (lambda: Columns(Gaussian(1.0), "x"), "wants column numbers"),
        (lambda: Columns(Gaussian(1.0), (-1,)), "column number must be a whole number"),
        (lambda: Columns(Gaussian(1.0), (1, 1)), "each column once"),
        (lambda: Columns(1.0, (1,)), "must be a Kernel, not 1.0"),
        (lambda: Gaussian(np.ones((2, 2))), r"its shape is \(2, 2\)"),
        (lambda: np.ones(3) * Gaussian(1.0), "amplitude must be one number"),
        (lambda: Polynomial(0), "degree must be a whole number of at least 1"),
        (lambda: Polynomial(2, -1.0), "offset must not be negative"),
        (lambda: ArcCosine(3), "degree must be 0, 1 or 2, not 3"),
        (lambda: ArcSine(1.0, [1.0, 2.0]), "bias must be one number"),
        (
            lambda: Gaussian(1.0)(np.ones(3), np.ones(3)),
            r"shape \(rows, coordinates\), not \(3,\) and \(3,\)",
        ),
        (lambda: Gaussian(1.0)(np.ones((3, 2)), np.ones((3, 1))), r"not \(3, 2\) and \(3, 1\)"),
    ],
)
def test_misfits_are_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_median_bandwidth_is_the_median_distance_and_is_seeded() -> None:
    assert median_bandwidth([0.0, 1.0, 3.0]) == 2.0
    assert median_bandwidth([[0.0, 0.0], [3.0, 4.0]], 0.5) == 2.5
    many = np.random.default_rng(0).standard_normal((3000, 2))
    assert median_bandwidth(many, seed=1) == median_bandwidth(many, seed=1) != median_bandwidth(many, seed=2)
    # The distance of two Gaussian points is sqrt(2) times a Rayleigh variable, of median sqrt(2 log 2).
    assert median_bandwidth(many) == pytest.approx(2 * np.sqrt(np.log(2)), rel=0.05)
    assert median_bandwidth([0.0] * 9 + [2.0]) == 2.0


def test_median_bandwidth_asks_for_one_when_points_coincide() -> None:
    with pytest.raises(InputError, match=r"all 5 point\(s\) looked at coincide; give a bandwidth"):
        median_bandwidth(np.ones((5, 2)))
    with pytest.raises(InputError, match="NaN"):
        median_bandwidth([0.0, float("nan")])


def test_every_kernel_has_a_name() -> None:
    concrete = {type(kernel) for kernel in KERNELS}
    assert set(kernels.BY_NAME.values()) <= concrete
