"""Schedules follow their formulas."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from dualembed import schedules
from dualembed.checks import InputError


@pytest.mark.parametrize(
    ("schedule", "at_sixteen"),
    [
        (schedules.Constant(0.5), 0.5),
        (schedules.InverseSqrt(2.0), 0.5),
        (schedules.OffsetSqrt(3.0, 2.0), 0.5),
        (schedules.OffsetLinear(9.0, 2.0), 0.5),
    ],
)
def test_the_value_at_step_sixteen(schedule: schedules.Schedule, at_sixteen: float) -> None:
    np.testing.assert_allclose(schedule(jnp.asarray(16)), at_sixteen)


@pytest.mark.parametrize(
    "kind", [schedules.Constant, schedules.InverseSqrt, schedules.OffsetSqrt, schedules.OffsetLinear]
)
@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf"), "fast", None])
def test_a_bad_rate_is_named(kind: type[schedules.Schedule], rate: object) -> None:
    with pytest.raises(InputError, match="rate must be"):
        kind(rate)


@pytest.mark.parametrize(("power", "words"), [(-1.0, "power must not be negative"), ("half", "power must be a number")])
def test_a_bad_power_is_named(power: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        schedules.Power(1.0, power)
