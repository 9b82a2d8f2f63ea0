"""Every source hands the loop the batches it promises."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualembed.checks import InputError
from dualembed.sources import Dataset, Simulator, Stream


def test_each_pass_visits_every_row_once_and_in_a_new_order() -> None:
    plan = Dataset(x=np.arange(12.0)).plan(jax.random.key(0), batch=4, steps=9)
    visits = np.asarray([plan.batch(step)[0]["x"] for step in range(9)]).reshape(3, 12)
    for visit in visits:
        np.testing.assert_array_equal(np.sort(visit), np.arange(12.0))
    assert not np.array_equal(visits[0], visits[1])
    assert not np.array_equal(visits[1], visits[2])


def test_a_batch_may_straddle_two_passes() -> None:
    plan = Dataset(x=np.arange(5.0)).plan(jax.random.key(0), batch=3, steps=5)
    visits = np.concatenate([plan.batch(step)[0]["x"] for step in range(5)])
    np.testing.assert_array_equal(np.bincount(visits.astype(int)), [3] * 5)


def test_a_row_keeps_its_slot_and_occupied_slots_are_a_prefix() -> None:
    plan = Dataset(x=np.arange(12.0)).plan(jax.random.key(1), batch=4, steps=6)
    slot_of: dict[float, int] = {}
    for step in range(6):
        sample, slots = plan.batch(step)
        for x, slot in zip(np.asarray(sample["x"]), np.asarray(slots), strict=True):
            assert slot_of.setdefault(float(x), int(slot)) == slot
        assert sorted(slot_of.values()) == list(range(len(slot_of)))


def test_a_simulator_gives_fresh_samples_that_depend_only_on_key_and_step() -> None:
    source = Simulator(lambda key: {"x": jax.random.normal(key)})
    plan = source.plan(jax.random.key(0), batch=5, steps=3)
    first, again, second = plan.batch(0)[0]["x"], plan.batch(0)[0]["x"], plan.batch(1)[0]["x"]
    np.testing.assert_array_equal(first, again)
    assert not np.any(np.isin(np.asarray(first), np.asarray(second)))


def test_a_stream_cuts_uneven_batches_into_even_ones_and_keeps_the_rest() -> None:
    source = Stream({"x": part} for part in np.split(np.arange(23.0), [2, 11, 12]))
    np.testing.assert_array_equal(source.pilot(jax.random.key(0), 3)["x"], [0, 1, 2])
    seen = []
    for plan, start, stop in source.spans(jax.random.key(0), batch=4, marks=[0, 2, 5, 9]):
        seen += [np.asarray(plan.batch(jnp.asarray(step))[0]["x"]) for step in range(start, stop)]
    np.testing.assert_array_equal(np.concatenate(seen), np.arange(20.0))
    assert source.leftover == 3


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({}, "at least one column"),
        ({"x": []}, "x is empty"),
        ({"x": [1.0, 2.0], "y": [1.0]}, "equally many rows"),
        ({"x": [1.0, float("nan")]}, "x has 1 NaN or infinite value"),
        ({"x": ["a", "b"]}, "x must hold numbers"),
        ({"x": [[1.0, 2.0], [3.0]]}, "x could not be read"),
        ({"x": 3.0}, "equally many rows"),
    ],
)
def test_bad_columns_are_named(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Dataset(**columns)


def test_bad_streams_are_named() -> None:
    with pytest.raises(InputError, match="iterable"):
        Stream(3)
    with pytest.raises(InputError, match="empty"):
        Stream([]).pilot(jax.random.key(0), 4)
    with pytest.raises(InputError, match="same columns"):
        Stream([{"x": [1.0]}, {"y": [1.0]}]).pilot(jax.random.key(0), 4)
    with pytest.raises(InputError, match="as drawn by the simulator has"):
        Simulator(lambda key: {"x": jnp.nan}).pilot(jax.random.key(0), 4)
