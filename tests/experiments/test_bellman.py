"""Bellman errors: exact for kernels and waves, without bias for anything else, and the paper's plug-in on top."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualembed import kernels, spaces
from dualembed.experiments import bellman, cartpole, navigation
from dualembed.experiments.bellman import smooth
from dualembed.spaces.base import Function, Layout
from dualembed.spaces.linear import LinearFunction, LinearSpace
from dualembed.spaces.nystrom import whitened
from dualembed.spaces.rkhs import KernelFunction

PROCESS = navigation.PROCESS
STATES = PROCESS.test_states(60)
BANDWIDTHS = np.array([0.15, 0.25])  # one for each coordinate


def of_features(space: LinearSpace) -> LinearFunction:
    layout = Layout(jnp.asarray(PROCESS.test_states(100)), steps=1, batch=1, per_sample=1, capacity=1)
    features = space.feature_map(jax.random.key(1), layout)
    return LinearFunction(features, jax.random.normal(jax.random.key(2), (features.size,)))


def expansion(used: int | None = None) -> KernelFunction:
    centres, coefficients = PROCESS.test_states(64), np.random.default_rng(3).normal(size=64)
    last = None if used is None else jnp.asarray(used)
    return KernelFunction(kernels.Gaussian(BANDWIDTHS), jnp.asarray(centres), jnp.asarray(coefficients), last, tile=16)


FUNCTIONS: dict[str, Callable[[], Function]] = {
    "waves with phases": lambda: of_features(spaces.Fourier(kernels.Gaussian(BANDWIDTHS), 32)),
    "pairs of waves": lambda: of_features(spaces.Fourier(kernels.Gaussian(0.2), 32, pairs=True)),
    "waves of another kernel": lambda: of_features(spaces.Fourier(kernels.Matern52(0.3), 32)),
    "landmarks": lambda: LinearFunction(
        whitened(kernels.Gaussian(0.2), PROCESS.test_states(40)), np.random.default_rng(4).normal(size=40)
    ),
    "an expansion": expansion,
    "an expansion that is not full": lambda: expansion(used=32),
}


def unknown(function: Function) -> Callable[[Any], Any]:
    """The same values from something that nothing is known of."""
    return lambda points: function(points)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_exact_error_is_that_of_quadrature(name: str) -> None:
    function = FUNCTIONS[name]()
    assert smooth(function, PROCESS.deviation) is not None
    assert smooth(unknown(function), PROCESS.deviation) is None
    assert PROCESS.msbe(function, STATES) == pytest.approx(PROCESS.msbe(unknown(function), STATES), rel=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_plug_in_exceeds_the_error_by_the_variance_of_a_mean_of_100(name: str) -> None:
    function = FUNCTIONS[name]()
    process = dataclasses.replace(PROCESS, states=PROCESS.test_states(bellman.SOME_STATES))
    means = np.asarray(navigation.next_mean(process.states), dtype=float)
    square = navigation.expected_value(lambda points: np.asarray(function(points), dtype=float) ** 2, means)
    variance = square - navigation.expected_value(function, means) ** 2
    excess = process.plug_in_msbe(function) - process.msbe(function)
    assert excess == pytest.approx(0.9**2 * np.mean(variance) / 100, rel=0.05)


def test_a_rough_error_is_that_of_the_first_states() -> None:
    function = expansion()
    some = PROCESS.test_states(bellman.SOME_STATES)
    assert PROCESS.rough_msbe(function) == pytest.approx(PROCESS.msbe(function, some), rel=1e-9)
    assert PROCESS.rough_msbe(function) != PROCESS.msbe(function)


def test_a_kernel_without_a_closed_form_is_left_to_quadrature() -> None:
    centres = PROCESS.test_states(40)
    weights = np.random.default_rng(4).normal(size=40)
    for function in (
        KernelFunction(kernels.Matern52(0.2), jnp.asarray(centres), jnp.asarray(weights)),
        LinearFunction(whitened(kernels.Matern52(0.2), centres), weights),
    ):
        assert smooth(function, PROCESS.deviation) is None


def test_where_nothing_is_exact_the_error_is_estimated_without_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two drawn next states make the bias that is taken off as large as it can be."""
    function = unknown(FUNCTIONS["an expansion"]())
    process = dataclasses.replace(PROCESS, quadrature=None, states=STATES)
    monkeypatch.setattr(bellman, "NEXT_STATES", 2)
    found = []
    for seed in range(100):
        monkeypatch.setattr(bellman, "TEST_SEED", seed)
        found.append(process.msbe(function))
    spread = np.std(found) / np.sqrt(100)
    truth = PROCESS.msbe(function, STATES)
    assert abs(np.mean(found) - truth) < 3 * spread
    # What is taken off is large enough that leaving it out would be seen.
    means = np.asarray(navigation.next_mean(STATES), dtype=float)
    square = navigation.expected_value(lambda points: np.asarray(function(points), dtype=float) ** 2, means)
    bias = 0.9**2 * np.mean(square - navigation.expected_value(function, means) ** 2) / 2
    assert bias > 10 * spread


def test_cartpole_msbe_is_unbiased_and_the_plug_in_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """V linear in the state has E[V(s') | s] = V(E[s' | s]), so its error is known."""
    weights = np.asarray([1.0, -2.0, 3.0, 10.0])
    states = cartpole.PROCESS.test_states(50)
    process = dataclasses.replace(cartpole.PROCESS, states=states)

    def linear(each: Any) -> np.ndarray:
        return np.asarray(each, dtype=float) @ weights

    following = np.asarray(jax.jit(jax.vmap(cartpole.next_mean))(jnp.asarray(states)))
    cost = 0.5 * (np.sum(states[:, :3] ** 2, axis=1) + 5 * (states[:, 3] - np.pi) ** 2)
    exact = np.mean((linear(states) - cost - 0.96 * linear(following)) ** 2)
    excess = 0.96**2 * 0.1**2 * weights @ weights / 2
    monkeypatch.setattr(bellman, "NEXT_STATES", 2)
    figures = []
    for seed in range(100):
        monkeypatch.setattr(bellman, "TEST_SEED", seed)
        figures += [process.msbe(linear) - exact, process.plug_in_msbe(linear) - exact]
    spread = np.std(figures[::2]) / np.sqrt(100)
    assert abs(np.mean(figures[::2])) < 4 * spread
    assert abs(np.mean(figures[1::2]) - excess) < 4 * spread
    # The correction itself is seen more sharply in pairs.
    assert np.mean(np.subtract(figures[1::2], figures[::2])) == pytest.approx(excess, rel=0.05)


def test_the_true_value_of_a_solvable_process_has_no_error() -> None:
    """s' ~ N(s / 2, 0.3² I) and R(s) = the sum of s: V(s) = Σ s / (1 - discount / 2)."""
    process = bellman.Process(
        draw_state=lambda key: jax.random.normal(key, (3,)),
        next_mean=lambda state: state / 2,
        reward=jnp.sum,
        deviation=0.3,
        discount=0.8,
        quadrature=lambda function, means: np.asarray(function(means)),  # exact for linear functions
    )
    assert process.msbe(lambda states: np.sum(states, axis=1) / 0.6) < 1e-10
    assert process.msbe(lambda states: np.sum(states, axis=1)) == pytest.approx(0.4**2 * 3, rel=0.1)
    assert process.test_states(7).shape == (7, 3)
    assert np.array_equal(process.test_states(7), process.test_states(7))
