"""Laws of every function space: averages, norms, balls, shrinkage, and functions handed over."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from tests.laws.cases import KERNEL, SPACES

from dualembed import kernels, spaces
from dualembed.checks import InputError
from dualembed.spaces.base import Layout, Regulariser, Update
from dualembed.spaces.doubly_stochastic import draw_block
from dualembed.spaces.nystrom import KMeansPlusPlus, LeverageScores

STEPS, BATCH, PER_SAMPLE, DIMENSION = 6, 5, 2, 2
XS = jax.random.normal(jax.random.key(5), (9, DIMENSION))


def pilot() -> jax.Array:
    return jax.random.normal(jax.random.key(0), (40, DIMENSION))


@functools.cache
def states(name: str, case: str, rows: int = STEPS * BATCH) -> list[Any]:
    """The states of a run with random slopes; with fewer rows than visits, rows are visited again."""
    space, regulariser = SPACES[name], CASES[case]
    layout = Layout(pilot(), steps=STEPS, batch=BATCH, per_sample=PER_SAMPLE, capacity=rows)
    points = jax.random.normal(jax.random.key(1), (rows, PER_SAMPLE, DIMENSION))
    found = [space.init(jax.random.key(2), layout)]
    advance = jax.jit(lambda state, update, step: space.descend(state, update, step, regulariser))
    evaluate = evaluation(name)
    for number in range(STEPS):
        slots = (number * BATCH + jnp.arange(BATCH)) % rows
        here = points[slots]
        values = evaluate(found[-1], here.reshape(-1, DIMENSION)).reshape(BATCH, PER_SAMPLE)
        slopes = jax.random.normal(jax.random.fold_in(jax.random.key(3), number), (BATCH, PER_SAMPLE))
        found.append(advance(found[-1], Update(here, values, slopes, slots, jnp.asarray(number)), step_size(number)))
    return found


def step_size(number: int) -> float:
    return 0.3 / np.sqrt(number + 1)


@functools.cache
def evaluation(name: str) -> Any:
    """The space's evaluation, compiled once."""
    return jax.jit(SPACES[name].evaluate)


CASES = {
    "free": Regulariser(),
    "penalty": Regulariser(penalty=0.7),
    "ball": Regulariser(radius=0.4),
    "both": Regulariser(penalty=0.7, radius=0.4),
}


# Rows that are visited again matter to the space that has a slot for each, and all cases are tried on it; every run is
# a program of its own to compile.
SLOTTED = [("rkhs", case, rows) for case in CASES for rows in (STEPS * BATCH, 11)]
RUNS = SLOTTED + [
    (name, case, STEPS * BATCH)
    for name in SPACES
    for case in (("free", "both") if SPACES[name].has_ball else ("free", "penalty"))
    if name != "rkhs"
]


@pytest.mark.parametrize(("name", "case", "rows"), [run for run in RUNS if run[0] != "network"])
def test_the_average_is_that_of_the_iterates_before_each_step_weighted_by_step_size(
    name: str, case: str, rows: int
) -> None:
    space = SPACES[name]
    run = states(name, case, rows)
    gammas = np.asarray([step_size(number) for number in range(STEPS)])
    values = np.asarray([evaluation(name)(state, XS) for state in run[:-1]])
    wanted = gammas @ values / gammas.sum()
    np.testing.assert_allclose(space.averaged(run[-1])(XS), wanted, atol=2e-6)
    np.testing.assert_allclose(space.averaged(run[-1]).trimmed()(XS), wanted, atol=2e-6)


def test_a_network_averages_its_parameters() -> None:
    run = states("network", "free")
    gammas = np.asarray([step_size(number) for number in range(STEPS)])
    flat = [jax.flatten_util.ravel_pytree(state.network.parameters)[0] for state in run]
    wanted = gammas @ np.asarray(flat[:-1]) / gammas.sum()
    got = jax.flatten_util.ravel_pytree(SPACES["network"].averaged(run[-1]).parameters)[0]
    np.testing.assert_allclose(got, wanted, atol=1e-6)


@pytest.mark.parametrize(("name", "case", "rows"), [run for run in RUNS if run[0] != "doubly-stochastic"])
def test_the_norm_kept_is_the_norm_computed_afresh(name: str, case: str, rows: int) -> None:
    space = SPACES[name]
    state = states(name, case, rows)[-1]
    np.testing.assert_allclose(space.norm2(state), space.last(state).norm2(), rtol=1e-4)


@pytest.mark.parametrize("name", [name for name in SPACES if SPACES[name].has_ball])
def test_the_ball_is_kept_and_its_projection_is_the_nearest_point(name: str) -> None:
    space = SPACES[name]
    free, bounded = states(name, "free"), states(name, "ball")
    assert max(float(space.norm2(state)) for state in free) > 0.5**2
    for state in bounded:
        assert float(space.norm2(state)) <= 0.4**2 * (1 + 1e-5)
    # The first step starts at zero in both, so that the bounded one is the free one scaled onto the sphere.
    scale = min(1.0, 0.4 / np.sqrt(float(space.norm2(free[1]))))
    evaluate = evaluation(name)
    np.testing.assert_allclose(evaluate(bounded[1], XS), scale * evaluate(free[1], XS), atol=1e-6)


@pytest.mark.parametrize("name", list(SPACES))
def test_functions_agree_with_the_state_they_came_from_and_can_be_differentiated(name: str) -> None:
    space = SPACES[name]
    state = states(name, "free")[-1]
    function = space.last(state).trimmed()
    np.testing.assert_allclose(function(XS), evaluation(name)(state, XS), atol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda xs: function(xs))(XS), function(XS), atol=1e-6)
    slope = jax.grad(lambda x: function(x[None])[0])(XS[0])
    step = 1e-2
    for axis in range(DIMENSION):
        ahead, behind = XS[0].at[axis].add(step), XS[0].at[axis].add(-step)
        difference = (function(ahead[None])[0] - function(behind[None])[0]) / (2 * step)
        np.testing.assert_allclose(slope[axis], difference, atol=3e-3)


@pytest.mark.parametrize("name", list(SPACES))
def test_wrong_points_are_named(name: str) -> None:
    function = SPACES[name].last(states(name, "free")[-1])
    with pytest.raises(InputError, match=r"xs must have shape \(n, 2\), but has \(4, 3\)"):
        function(np.zeros((4, 3)))
    with pytest.raises(InputError, match="NaN"):
        function(np.full((4, 2), np.nan))
    assert function(np.zeros((3000, 2))).shape == (3000,)


def test_later_passes_do_not_grow_a_kernel_expansion() -> None:
    state = states("rkhs", "free", 11)[-1]
    assert int(state.used) == 11


def test_doubly_stochastic_predictions_redrawn_from_seeds_equal_stored_features() -> None:
    space = SPACES["doubly-stochastic"]
    state = states("doubly-stochastic", "penalty")[-1]
    blocks = [draw_block(state.key, number, KERNEL, size=16, dimension=DIMENSION) for number in range(STEPS)]
    stored = jnp.concatenate([block(XS) for block in blocks], axis=1)  # (points, all features)
    for coefficients, function in (
        (state.coefficients, space.last(state)),
        (state.average.averages(), space.averaged(state)),
    ):
        # The same numbers in another order of summation: equal to rounding of the last digit.
        np.testing.assert_allclose(function(XS), stored @ coefficients.reshape(-1), rtol=0, atol=5e-7)
    again = [draw_block(state.key, number, KERNEL, size=16, dimension=DIMENSION) for number in range(STEPS)]
    for first, second in zip(blocks, again, strict=True):
        np.testing.assert_array_equal(first(XS), second(XS))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Fourier(KERNEL, size=4096),
        spaces.Fourier(KERNEL, size=4096, pairs=True),
        spaces.Fourier(KERNEL, size=4096, pairs=True, orthogonal=True),
        spaces.Fourier(kernels.Matern32(0.8), size=8192, orthogonal=True),
        spaces.Fourier(kernels.Laplacian(0.8), size=8192),
    ],
)
def test_random_features_reproduce_their_kernel(space: spaces.Fourier) -> None:
    layout = Layout(pilot(), steps=1, batch=1, per_sample=1, capacity=1)
    features = space.feature_map(jax.random.key(0), layout)(XS)
    # Five standard errors of a mean of products of cosines, each of standard deviation at most 1.
    np.testing.assert_allclose(features @ features.T, space.kernel.gram(XS, XS), atol=5 / np.sqrt(space.size / 2))


@pytest.mark.parametrize("rule", [spaces.nystrom.Uniform(), KMeansPlusPlus(), LeverageScores()])
def test_landmarks_are_distinct_and_all_of_them_give_the_kernel_back(rule: spaces.nystrom.Landmarks) -> None:
    points = pilot()
    rows = rule.choose(jax.random.key(0), points, count=12, kernel=KERNEL)
    assert rows.shape == (12,)
    assert len(set(np.asarray(rows).tolist())) == 12
    features = spaces.nystrom.whitened(KERNEL, points)(points)
    np.testing.assert_allclose(features @ features.T, KERNEL.gram(points, points), atol=2e-3)


def test_informed_landmarks_cover_clustered_data_better_than_uniform_ones() -> None:
    key = jax.random.key(0)
    crowd = 0.05 * jax.random.normal(key, (980, 2))
    outliers = jnp.stack(jnp.meshgrid(jnp.arange(-2.0, 3.0), jnp.arange(-2.0, 2.0)), axis=-1).reshape(-1, 2) * 2
    points = jnp.concatenate([crowd, outliers])

    def unexplained(rule: spaces.nystrom.Landmarks, seed: int) -> float:
        rows = rule.choose(jax.random.key(seed), points, count=24, kernel=KERNEL)
        features = spaces.nystrom.whitened(KERNEL, points[rows])(points)
        return float(jnp.mean(KERNEL.diagonal(points) - jnp.sum(features**2, axis=1)))

    uniform = np.mean([unexplained(spaces.nystrom.Uniform(), seed) for seed in range(3)])
    for rule in (KMeansPlusPlus(), LeverageScores()):
        assert np.mean([unexplained(rule, seed) for seed in range(3)]) < 0.5 * uniform


def test_any_network_will_do() -> None:
    def build(key: jax.Array, dimension: int) -> tuple[Any, Any]:
        return {"w": jax.random.normal(key, (dimension,))}, lambda parameters, x: jnp.tanh(parameters["w"] @ x)

    space = spaces.Network(build)
    space.check(3)
    with pytest.raises(InputError, match="one number"):
        spaces.Network(lambda key, d: ({"w": jnp.ones((4, d))}, lambda p, x: p["w"] @ x)).check(3)
    with pytest.raises(InputError, match="failed on points of dimension 3"):
        spaces.Network(lambda key, d: ({"w": jnp.ones(5)}, lambda p, x: p["w"] @ x)).check(3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: spaces.RKHS(0.5), "kernel must be a Kernel, not 0.5"),
        (lambda: spaces.Fourier(KERNEL, size=7, pairs=True), "size must be even"),
        (lambda: spaces.Fourier(KERNEL, size=0), "size must be a whole number"),
        (lambda: spaces.Fourier(kernels.Laplacian(1.0), orthogonal=True).check(2), "orthogonal"),
        (lambda: spaces.Fourier(kernels.Categorical()).check(2), "use the Nystrom"),
        (lambda: spaces.DoublyStochastic(kernels.Polynomial(2)).check(2), "use the Nystrom"),
        (lambda: spaces.Nystrom(KERNEL, size=2.5), "size must be a whole number"),
        (lambda: spaces.Network(width=-1), "width must be a whole number"),
        (lambda: spaces.Network(optimiser="adam"), "optimiser must be"),
        (lambda: spaces.Basis(3), "function"),
        (lambda: spaces.Basis(lambda x: x[:, 0]).check(2), "gave shape"),
        (lambda: spaces.RKHS(kernels.Gaussian([1.0, 2.0, 3.0])).check(2), "bandwidth"),
    ],
)
def test_bad_spaces_are_named(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
