"""Samplers draw from the distributions they name, and a resampled source draws anew at every visit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualembed as de
from dualembed import kernels, problems, samplers, schedules, solvers, sources, spaces
from dualembed.checks import InputError

KEY = jax.random.key(0)


def many(sampler: Any, x: Any, count: int = 4000) -> np.ndarray:
    return np.asarray(samplers.draws(KEY, sampler, np.asarray(x, dtype=float)[None], count)[0])


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows and how often each occurs."""
    return np.unique(np.round(rows, 4), axis=0, return_counts=True)


def test_additive_noise_has_its_mean_and_the_scale_of_each_coordinate() -> None:
    z = many(samplers.AdditiveNoise([0.1, 2.0]), [1.0, -1.0], 20_000)
    np.testing.assert_allclose(z.mean(axis=0), [1.0, -1.0], atol=0.05)
    np.testing.assert_allclose(z.std(axis=0), [0.1, 2.0], rtol=0.03)


@pytest.mark.parametrize("wrap", [False, True])
def test_image_shifts_are_all_whole_shifts_equally_often(wrap: bool) -> None:
    image = np.arange(1.0, 13.0).reshape(3, 4)
    rows, counts = distinct(many(samplers.ImageShift(3, 4, 1, wrap=wrap), image.reshape(-1)))
    wanted = []
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            moved = np.roll(image, (down, right), (0, 1))
            if not wrap:
                moved[{-1: slice(2, 3), 0: slice(0), 1: slice(0, 1)}[down]] = 0
                moved[:, {-1: slice(3, 4), 0: slice(0), 1: slice(0, 1)}[right]] = 0
            wanted.append(moved.reshape(-1))
    np.testing.assert_array_equal(rows, np.unique(wanted, axis=0))
    assert np.all(np.abs(counts - 4000 / 9) < 5 * np.sqrt(4000 / 9))


def test_the_channels_of_a_pixel_move_together() -> None:
    image = np.stack([np.arange(1.0, 10.0), np.arange(101.0, 110.0)], axis=1).reshape(-1)
    for sampler in (samplers.ImageShift(3, 3, 1), samplers.ImageRotation(3, 3, 0.0)):
        drawn = many(sampler, image, 20).reshape(20, 9, 2)
        assert np.all((drawn[..., 1] == drawn[..., 0] + 100) | (drawn[..., 1] == 0))


def test_a_rotated_image_is_the_image_where_the_angle_says() -> None:
    """A smooth blob at the right of the middle, seen again on the circle through it; its mass stays."""
    row, column = np.meshgrid(np.arange(41) - 20.0, np.arange(41) - 20.0, indexing="ij")
    image = np.exp(-(row**2 + (column - 10) ** 2) / 18)
    turned = many(samplers.ImageRotation(41, 41, 90.0), image.reshape(-1), 200).reshape(200, 41, 41)
    mass = turned.sum(axis=(1, 2))
    np.testing.assert_allclose(mass, image.sum(), rtol=0.01)
    down, right = (turned * row).sum(axis=(1, 2)) / mass, (turned * column).sum(axis=(1, 2)) / mass
    np.testing.assert_allclose(np.hypot(down, right), 10.0, rtol=0.01)
    angles = np.degrees(np.arctan2(-down, right))
    assert angles.min() < -80
    assert angles.max() > 80
    assert abs(angles.mean()) < 5 * 52 / np.sqrt(200)  # uniform on ±90 has a deviation of 52
    assert np.all(np.abs(angles) < 91)


def coulomb(atoms: int, seed: int = 0) -> np.ndarray:
    half = np.random.default_rng(seed).uniform(1, 5, (atoms, atoms))
    return half + half.T


def test_atom_permutations_keep_a_symmetric_matrix_with_its_eigenvalues_in_every_order() -> None:
    matrix = coulomb(3)
    drawn = many(samplers.AtomPermutation(3), matrix.reshape(-1))
    rows, counts = distinct(drawn)
    assert len(rows) == 6
    assert np.all(np.abs(counts - 4000 / 6) < 5 * np.sqrt(4000 / 6))
    for each in rows.reshape(-1, 3, 3):
        np.testing.assert_array_equal(each, each.T)
        np.testing.assert_allclose(np.linalg.eigvalsh(each), np.linalg.eigvalsh(matrix), rtol=1e-3)


def test_random_coulomb_matrices_are_sorted_by_norm_up_to_the_noise() -> None:
    matrix = coulomb(5)
    order = np.argsort(-np.linalg.norm(matrix, axis=1))
    still = many(samplers.AtomPermutation(5, noise=0.0), matrix.reshape(-1), 3)
    np.testing.assert_allclose(still, np.tile(matrix[np.ix_(order, order)].reshape(-1), (3, 1)), rtol=1e-6)
    # Two rows apart by d change places with the chance that noise of √2 · 1 exceeds d.
    two = np.diag([2.0, 1.0])
    swapped = np.mean(many(samplers.AtomPermutation(2, noise=1.0), two.reshape(-1), 20_000)[:, 0] == 1.0)
    assert abs(swapped - 0.2398) < 0.015  # P(N(0, 2) > 1)


def test_a_group_draws_each_element_equally_often() -> None:
    quarter = np.array([[0.0, -1.0], [1.0, 0.0]])
    matrices = np.stack([np.linalg.matrix_power(quarter, power) for power in range(4)])
    rows, counts = distinct(many(samplers.Group(matrices), [2.0, 0.0]))
    np.testing.assert_array_equal(rows, [[-2, 0], [0, -2], [0, 2], [2, 0]])
    assert np.all(np.abs(counts - 1000) < 5 * np.sqrt(1000))


@pytest.mark.parametrize(("sampler", "dim"), [(samplers.Rotation2D(), 2), (samplers.Rotation3D(), 3)])
def test_rotations_of_a_cloud_keep_its_products_and_its_hand_and_go_everywhere(sampler: Any, dim: int) -> None:
    cloud = np.random.default_rng(0).normal(size=(4, dim))
    drawn = many(sampler, cloud.reshape(-1), 4000).reshape(-1, 4, dim)
    np.testing.assert_allclose(drawn @ drawn.transpose(0, 2, 1), np.tile(cloud @ cloud.T, (4000, 1, 1)), atol=2e-5)
    np.testing.assert_allclose(np.linalg.det(drawn[:, :dim]), np.linalg.det(cloud[:dim]), rtol=1e-3)
    directions = drawn[:, 0] / np.linalg.norm(cloud[0])
    np.testing.assert_allclose(directions.mean(axis=0), 0.0, atol=4 / np.sqrt(dim * 4000))
    np.testing.assert_allclose(directions.T @ directions / 4000, np.eye(dim) / dim, atol=0.03)


def test_a_limited_rotation_stays_within_its_angle() -> None:
    drawn = many(samplers.Rotation2D(30.0), [1.0, 0.0], 500)
    angles = np.degrees(np.arctan2(drawn[:, 1], drawn[:, 0]))
    assert -30.01 < angles.min() < -25
    assert 25 < angles.max() < 30.01


def test_draws_differ_by_row_and_are_the_same_for_a_key_and_in_any_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    xs = np.zeros((7, 2))
    z = samplers.draws(KEY, samplers.AdditiveNoise(1.0), xs, 3)
    assert z.shape == (7, 3, 2)
    assert len(np.unique(z)) == 42
    np.testing.assert_array_equal(z, samplers.draws(KEY, samplers.AdditiveNoise(1.0), xs, 3))
    monkeypatch.setattr(samplers, "TILE", 2)
    np.testing.assert_array_equal(z, samplers.draws(KEY, lambda key, x: x + jax.random.normal(key, x.shape), xs, 3))


@pytest.mark.parametrize(
    ("sampler", "rows"),
    [
        (samplers.AdditiveNoise(0.5), 1),
        (samplers.ImageShift(3, 3, 1, wrap=True), 9),
        (samplers.AtomPermutation(3), 9),
        (samplers.AtomPermutation(3, noise=0.1), 9),
        (samplers.Group(np.eye(4)[None]), 4),
        (samplers.Rotation2D(1e-9), 4),
        (lambda key, x: x + jax.random.uniform(key, x.shape), 5),
    ],
)
def test_draws_of_large_numbers_keep_their_digits(sampler: Any, rows: int) -> None:
    """In float32, whose neighbours are 128 apart here, a draw could be no closer than that to its input."""
    x = 1.7e9 + np.arange(float(rows))
    z = samplers.draws(KEY, sampler, np.tile(x, (20, 1)), 3)
    assert z.dtype == np.float64
    near = np.min(np.abs(z[..., None] - x), axis=-1)
    assert np.max(near) < 10
    with jax.enable_x64(True):
        orbit = np.asarray(samplers.Orbit(KEY, sampler, 3)(x[None]))
    assert np.max(np.min(np.abs(orbit[..., None] - x), axis=-1)) < 10


def test_a_whole_number_is_a_key() -> None:
    noise, xs = samplers.AdditiveNoise(1.0), np.zeros((7, 2))
    np.testing.assert_array_equal(samplers.draws(0, noise, xs, 3), samplers.draws(KEY, noise, xs, 3))
    np.testing.assert_array_equal(samplers.Orbit(0, noise, 3)(xs), samplers.Orbit(KEY, noise, 3)(xs))
    np.testing.assert_array_equal(kernels.rotations(0, 3, 2), kernels.rotations(KEY, 3, 2))


def test_a_function_of_the_users_own_is_a_sampler_and_numbers_are_inputs_of_one_coordinate() -> None:
    z = samplers.draws(KEY, lambda key, x: jnp.concatenate([x, jax.random.uniform(key, (1,))]), [1.0, 2.0], 4)
    assert z.shape == (2, 4, 2)
    np.testing.assert_array_equal(z[..., 0], [[1.0] * 4, [2.0] * 4])


@pytest.mark.parametrize("draws", [1, 3])
def test_a_resampled_source_visits_rows_as_its_data_set_and_draws_anew_each_time(draws: int) -> None:
    x, y = np.arange(6.0), np.arange(6.0) ** 2
    source = samplers.resampled(sources.Dataset(x=x, y=y), samplers.AdditiveNoise(0.01), draws=draws)
    plan = source.plan(KEY, batch=4, steps=6)  # four passes
    batch = jax.jit(lambda plan, step: plan.batch(step))
    batches = [batch(plan, step) for step in range(6)]
    seen = {name: np.concatenate([sample[name] for sample, _ in batches]) for name in ("x", "y", "z")}
    assert seen["z"].shape == ((24, 1) if draws == 1 else (24, 3, 1))
    np.testing.assert_array_equal(np.bincount(seen["x"].astype(int)), [4] * 6)
    np.testing.assert_array_equal(seen["y"], seen["x"] ** 2)
    assert np.all(np.abs(seen["z"].reshape(24, -1) - seen["x"][:, None]) < 0.06)
    assert len(np.unique(seen["z"])) == 24 * draws
    np.testing.assert_array_equal(np.concatenate([slots for _, slots in batches]), np.arange(24))
    assert source.capacity(batch=4, steps=6) == 24
    assert source.pilot(KEY, 3)["z"].shape[0] == 3


@pytest.mark.parametrize("kind", ["group", "noise"])
def test_a_resampled_source_keeps_all_digits_in_double_precision(kind: str) -> None:
    """The draws minus what they should be, which float32 matrices and scales would miss by tens."""
    angle, x = 0.1, np.array([1.7e9, 0.3e9]) + np.arange(8.0)[:, None]
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    sampler, wanted = {
        "group": (samplers.Group([turn]), x @ turn.T),
        "noise": (samplers.AdditiveNoise([0.1, 1e-3]), x),
    }[kind]
    with jax.enable_x64(True):
        source = samplers.resampled(sources.Dataset(x=x, y=x[:, 0]), sampler, draws=3)
        whole = source.pilot(KEY, 8)
        visited, _ = jax.jit(lambda plan: plan.batch(0))(source.plan(KEY, batch=8, steps=1))
        order = np.argsort(np.asarray(visited["y"]))
    for z in (np.asarray(whole["z"]), np.asarray(visited["z"])[order]):
        assert z.dtype == np.float64
        np.testing.assert_allclose(z, np.repeat(wanted[:, None], 3, axis=1), rtol=0, atol=0.5)


def test_the_matrices_of_a_group_are_those_given_to_the_last_digit() -> None:
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    z = samplers.draws(KEY, samplers.Group([turn]), [[1 / 3, 0.1]], 2)
    np.testing.assert_allclose(z[0, 0], turn @ [1 / 3, 0.1], rtol=1e-15)
    assert samplers.Orbit(0, samplers.Group([turn]), 2)(np.zeros((3, 2))).dtype == np.float32


def test_fresh_draws_at_every_visit_learn_what_one_draw_for_each_row_cannot() -> None:
    """Forty rows, z = x ± 1, y = E[max(z, 0) | x]: f is right on average where it has seen both draws of a row."""
    x = np.linspace(-2, 2, 40)
    y = (np.maximum(x + 1, 0) + np.maximum(x - 1, 0)) / 2

    def flip(key: jax.Array, x: jax.Array) -> jax.Array:
        return x + jnp.where(jax.random.bernoulli(key), 1.0, -1.0)

    primal = spaces.Fourier(kernels.Gaussian(2.0), size=50, pairs=True)
    on_x, on_y = (kernels.Columns(kernels.Gaussian(width), (column,)) for column, width in enumerate((2.0, 1.0)))
    dual = spaces.Fourier(on_x + on_y, size=100, pairs=True)
    solver = solvers.EmbeddingSGD(2000, 20, schedules.OffsetSqrt(5.0, 1.0))

    def error(source: sources.Source) -> float:
        f = de.solve(0, de.Saddle(problems.Invariance(source), primal, dual), solver).primal
        return float(np.mean(((np.asarray(f(x + 1)) + np.asarray(f(x - 1))) / 2 - y) ** 2))

    fresh = error(samplers.resampled(sources.Dataset(x=x, y=y), flip))
    assert fresh < 0.02  # of a variance of 0.38
    # Single draws are luck: their errors are 0.015 to 0.031 over ten keys.
    fixed = [error(sources.Dataset(x=x, y=y, z=samplers.draws(key, flip, x, 1)[:, 0])) for key in range(10)]
    assert fresh < 0.4 * np.mean(fixed)
    assert fresh < 0.6 * np.min(fixed)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: samplers.AdditiveNoise(-1.0), "scale must not be negative"),
        (lambda: samplers.draws(KEY, samplers.AdditiveNoise([1.0, 2.0]), np.zeros((2, 3))), "scale has 2 values"),
        (lambda: samplers.ImageShift(3, 3, 3), "most must be below"),
        (lambda: samplers.draws(KEY, samplers.ImageShift(3, 3, 1), np.zeros((2, 8))), "9 numbers for each channel"),
        (lambda: samplers.ImageRotation(3, 3, -1.0), "degrees must not be negative"),
        (lambda: samplers.AtomPermutation(0), "atoms must be a whole number"),
        (lambda: samplers.draws(KEY, samplers.AtomPermutation(2), np.zeros((1, 3))), "Coulomb matrix must have 2 x 2"),
        (lambda: samplers.Group(np.eye(2)), r"shape \(elements, d, d\)"),
        (lambda: samplers.draws(KEY, samplers.Group(np.eye(2)[None]), np.zeros((1, 3))), "must have 2 numbers"),
        (lambda: samplers.draws(KEY, samplers.Rotation3D(), np.zeros((1, 4))), "cannot have 4 numbers"),
        (lambda: samplers.draws(-1, samplers.Rotation2D(), np.zeros((1, 4))), "key must be a whole number"),
        (lambda: samplers.draws(KEY, "noise", np.zeros((1, 4))), "a function of a key and an input"),
        (lambda: samplers.draws(KEY, lambda key, x: x[None], np.zeros((1, 4))), r"gave shape \(1, 4\)"),
        (lambda: samplers.draws(KEY, lambda key, x: x @ jnp.eye(3), np.zeros((1, 4))), "the sampler failed"),
        (lambda: samplers.resampled(sources.Dataset(y=[1.0]), samplers.AdditiveNoise(1.0)), "from a column x"),
        (lambda: samplers.resampled({"x": [1.0]}, samplers.AdditiveNoise(1.0)), "dataset must be a Dataset"),
        (lambda: samplers.resampled(sources.Dataset(x=[1.0]), samplers.AdditiveNoise(1.0), 0), "draws must be"),
    ],
)
def test_what_is_no_sampler_or_does_not_fit_it_is_named(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
