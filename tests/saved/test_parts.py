"""The parts of models keep types, dtypes and bits on their way through a description."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dualembed import kernels, spaces
from dualembed.checks import InputError
from dualembed.saving.encoding import Decoder, Encoder
from dualembed.spaces.base import Layout


def round_trip(value: Any) -> Any:
    """A part of a model after a round trip through its description."""
    describer = Encoder()
    node = describer.value(value, "place")
    return Decoder(describer.tensors, {}).value(node)


PARTS: dict[str, Any] = {
    "numbers": [1, -0.0, 1e-320, 0.1, True, None, 2**70],
    "numbers that JSON lacks": (float("inf"), -float("inf")),
    "NumPy's numbers": (np.float64(0.1), np.float32(0.1), np.int8(3), np.bool_(True), np.str_("é")),
    "text": ["", "ä\n\x00\ud800", b"\xff\x00"],
    "collections": {"a": (1, [2, {3: (), "4": []}]), 5: {"x", "y"}, (1, 2): frozenset({0.5})},
    "arrays": [np.arange(6.0).reshape(2, 3), np.array(3, dtype=np.uint8), np.empty((0, 2)), np.array([True, False])],
    "arrays of text": [np.array(["a", "größer"]), np.array([["x"], [""]]), np.array("one")],
    "arrays of objects": np.array(["a", 1, None, (1, 2)], dtype=object),
    "JAX": [jnp.arange(3), jnp.ones((2, 2), jnp.float16), jnp.array(1.5)],
}


def assert_same(found: Any, value: Any) -> None:
    """Equality of types, of dtypes and of every bit."""
    assert isinstance(found, jax.Array) == isinstance(value, jax.Array)
    if isinstance(value, (np.ndarray, jax.Array)):
        assert found.dtype == value.dtype
        assert found.shape == value.shape
        assert np.asarray(found).tolist() == np.asarray(value).tolist()
        return
    assert type(found) is type(value)
    if isinstance(value, (list, tuple)):
        assert len(found) == len(value)
        for pair in zip(found, value, strict=True):
            assert_same(*pair)
    else:
        assert repr(found) == repr(value) or found == value


@pytest.mark.parametrize("name", PARTS)
def test_parts_keep_type_and_bits(name: str) -> None:
    assert_same(round_trip(PARTS[name]), PARTS[name])


def test_double_precision_and_random_keys_of_jax_are_kept() -> None:
    with jax.enable_x64(True):
        value = jnp.array([0.1])
    assert_same(round_trip(value), value)
    key = jax.random.key(3, impl="rbg")
    assert round_trip(key).dtype == key.dtype
    assert jnp.array_equal(jax.random.key_data(round_trip(key)), jax.random.key_data(key))


def test_the_order_in_memory_is_kept() -> None:
    turned = np.arange(6.0).reshape(2, 3).T
    found = round_trip(turned)
    assert found.flags.f_contiguous
    assert_same(found, turned)


def test_big_endian_numbers_keep_their_values() -> None:
    assert round_trip(np.arange(3, dtype=">i4")).tolist() == [0, 1, 2]


def functions_of_spaces() -> dict[str, Any]:
    """A function of every kind of space, fresh from its start."""
    kernel = 0.5 * kernels.Gaussian(0.5) + kernels.Columns(kernels.Gaussian(2.0), (1,))
    layers = [eqx.nn.Linear(2, 3, key=jax.random.key(1)), eqx.nn.Lambda(jax.nn.relu)]

    def build(key: jax.Array, dimension: int) -> Any:
        return eqx.nn.Sequential([*layers, eqx.nn.Linear(3, "scalar", key=key)])

    return {
        "RKHS": spaces.RKHS(kernel),
        "Nystrom": spaces.Nystrom(kernel, 5),
        "Fourier": spaces.Fourier(kernel, 8, pairs=True),
        "DoublyStochastic": spaces.DoublyStochastic(kernel, 8),
        "Network": spaces.Network(width=4, depth=1),
        "own layers": spaces.Network(build),
    }


@pytest.mark.parametrize("name", functions_of_spaces())
def test_functions_of_all_spaces_keep_their_values(name: str) -> None:
    points = jnp.asarray(np.random.default_rng(0).normal(size=(80, 2)), dtype=jnp.float32)
    space = functions_of_spaces()[name]
    state = space.init(jax.random.key(0), Layout(points, 2, 4, 1, 8))
    state = jax.tree.map(lambda leaf: leaf + 1 if eqx.is_inexact_array(leaf) else leaf, state)
    function = space.last(state)
    np.testing.assert_array_equal(round_trip(function)(points), function(points), strict=True)


def test_a_network_trains_again_with_its_default_optimiser_only() -> None:
    assert round_trip(spaces.Network()).optimiser is spaces.Network().optimiser
    own = round_trip(spaces.Network(optimiser=optax.scale_by_rms()))
    with pytest.raises(InputError, match=r"place\.optimiser\.init"):
        own.optimiser.init(0.0)


def test_equal_arrays_are_stored_once() -> None:
    describer = Encoder()
    describer.value([np.ones(3), jnp.ones(3), np.ones(3), np.ones((1, 3)), np.ones(3, dtype=np.float32)], "place")
    assert len(describer.tensors) == 3
