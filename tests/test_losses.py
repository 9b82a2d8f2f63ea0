"""What a caller sees of the losses: default links, extreme values in float32, and errors in one sentence."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualembed import losses
from dualembed.checks import InputError
from dualembed.links import Clipped, Direct, Legendre


def test_clipped_slope_leads_back_into_the_domain_from_outside() -> None:
    loss = losses.Hinge()
    y = jnp.ones(2)
    # The payoff u (moment - y) on [-1, 0] rises towards 0 for moment 3 and towards -1 for moment -3.
    slope = Clipped().slope(loss, jnp.asarray([-5.0, 5.0]), jnp.asarray([3.0, -3.0]), y)
    assert slope[0] > 0 > slope[1]


def test_default_links() -> None:
    direct, clipped, legendre = losses.Square(), losses.Hinge(), losses.Poisson()
    assert isinstance(direct.link, Direct)
    assert not direct.link.needs_target
    assert isinstance(clipped.link, Clipped)
    assert isinstance(legendre.link, Legendre)
    assert legendre.link.needs_target
    for loss in [losses.Huber(), losses.SmoothedHinge(), losses.SquaredHinge(), losses.Pinball()]:
        assert isinstance(loss.link, Clipped)
    assert isinstance(losses.Logistic().link, Legendre)


@pytest.mark.parametrize("v", [-1e4, -90.0, 90.0, 1e4])
def test_extreme_values_stay_finite_in_float32(v: float) -> None:
    y = jnp.asarray([-1.0, 1.0])
    values = jnp.full(2, v)
    for loss in [losses.Logistic(), losses.SmoothedHinge(0.1), losses.Huber(), losses.Pinball(0.1)]:
        for number in [loss.value(values, y), loss.slope(values, y), loss.curvature(values, y)]:
            assert number.dtype == jnp.float32
            assert jnp.all(jnp.isfinite(number))
    np.testing.assert_allclose(losses.Logistic().value(values, y), np.maximum(0, -y * values))


def test_poisson_slopes_stop_growing_at_the_ceiling() -> None:
    loss, y = losses.Poisson(), jnp.asarray([0.0, 3.0])
    far, ceiling = jnp.full(2, 200.0), jnp.full(2, losses.Poisson.ceiling)
    np.testing.assert_array_equal(loss.slope(far, y), loss.slope(ceiling, y))
    np.testing.assert_array_equal(loss.curvature(far, y), loss.curvature(ceiling, y))
    assert jnp.all(jnp.isfinite(loss.link.slope(loss, far, y, y) ** 2))


@pytest.mark.parametrize("name", sorted(losses.BY_NAME))
def test_losses_map_over_hyper_parameters_targets_and_integer_targets(name: str) -> None:
    loss = losses.BY_NAME[name]()
    v, y = jnp.linspace(-2, 2, 6), jnp.asarray([1, -1, 1, 1, -1, 1])
    y = jnp.abs(y) if name == "poisson" else y
    for method in [
        loss.value,
        loss.slope,
        loss.curvature,
        loss.conjugate,
        loss.conjugate_slope,
        loss.project,
    ]:
        one_by_one = jnp.stack([method(v[i], y[i]) for i in range(6)])
        np.testing.assert_allclose(jax.vmap(method)(v, y), one_by_one, rtol=1e-6)
        np.testing.assert_allclose(method(v, y), method(v, y * 1.0), rtol=1e-6)
    stacked = jax.tree.map(lambda leaf: jnp.asarray([leaf, leaf / 2]), loss)
    if jax.tree.leaves(stacked):
        rows = jax.vmap(lambda loss: loss.value(v, y * 1.0))(stacked)
        np.testing.assert_allclose(rows[0], loss.value(v, y * 1.0), rtol=1e-6)


LABELLED = [losses.Logistic(), losses.Hinge(), losses.SmoothedHinge(), losses.SquaredHinge()]


@pytest.mark.parametrize("loss", LABELLED, ids=repr)
def test_label_losses_refuse_other_labels_and_say_how_to_convert(loss: Any) -> None:
    loss.check_targets(np.asarray([-1, 1, 1]))
    with pytest.raises(InputError, match=r"needs targets -1 or \+1, not 0; convert 0/1 labels by 2 \* y - 1"):
        loss.check_targets(np.asarray([0, 1, 1]))
    with pytest.raises(InputError, match=r"not 2\.0; map one class to -1"):
        loss.check_targets([1.0, 2.0])
    jax.jit(lambda y: loss.check_targets(y))(jnp.zeros(3))  # a traced target has nothing to look at


def test_poisson_refuses_negative_counts_and_every_loss_refuses_nan() -> None:
    losses.Poisson().check_targets([0, 3])
    with pytest.raises(InputError, match=r"counts of at least 0, not -2\.5"):
        losses.Poisson().check_targets([1.0, -2.5])
    for name in sorted(losses.BY_NAME):
        with pytest.raises(InputError, match="NaN or infinite"):
            losses.BY_NAME[name]().check_targets([1.0, float("nan")])


@given(st.one_of(st.floats(max_value=0), st.just(float("nan")), st.just("wide"), st.none(), st.booleans()))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_hyper_parameters_are_refused_in_one_sentence(bad: Any) -> None:
    kinds: list[Any] = [losses.Huber, losses.SmoothedHinge, losses.Pinball]
    for make in kinds:
        with pytest.raises(InputError, match=r"^[^\n]* must be (positive|finite|a number)"):
            make(bad)


def test_pinball_refuses_a_quantile_of_one() -> None:
    with pytest.raises(InputError, match=r"below 1, not 1\.0"):
        losses.Pinball(1)


def test_a_new_hyper_parameter_does_not_recompile() -> None:
    traces = []

    @jax.jit
    def value(loss: losses.Loss, v: jax.Array) -> jax.Array:
        traces.append(loss)
        return loss.value(v, jnp.zeros_like(v))

    for threshold in [0.5, 1.0, 2.0]:
        value(losses.Huber(threshold), jnp.ones(3))
    assert len(traces) == 1
