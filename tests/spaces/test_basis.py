"""Tables that find their points in the samples shown before a run: refused only where some may be missing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualembed.checks import InputError
from dualembed.spaces import Layout, Table

ROWS = 3500  # more than a solver could show a part of without saying so


def layout(*, complete: bool, capacity: int = ROWS) -> Layout:
    """Two points a sample, 70 distinct ones in all."""
    pilot = jnp.arange(2 * ROWS, dtype=float)[:, None] % 70
    return Layout(pilot, steps=1000, batch=10, per_sample=2, capacity=capacity, complete=complete)


def test_all_points_of_a_pilot_that_is_the_whole_data_set_are_found() -> None:
    found = Table().feature_map(jax.random.key(0), layout(complete=True))
    np.testing.assert_array_equal(found.points[:, 0], np.arange(70))
    state = Table().init(jax.random.key(0), layout(complete=True))
    assert Table().evaluate(state, jnp.zeros((3, 1))).shape == (3,)


@pytest.mark.parametrize("capacity", [100, ROWS])
def test_many_samples_that_may_be_a_part_are_refused(capacity: int) -> None:
    with pytest.raises(InputError, match=rf"here {ROWS}, which may be some of many; give them: Table\(points\)"):
        Table().feature_map(jax.random.key(0), layout(complete=False, capacity=capacity))


def test_a_layout_that_does_not_say_is_taken_for_a_part() -> None:
    silent = Layout(layout(complete=True).pilot, steps=1000, batch=10, per_sample=2, capacity=ROWS)
    with pytest.raises(InputError, match="which may be some of many"):
        Table().feature_map(jax.random.key(0), silent)
