"""The PUMA arm moves as the published model says, and its policy brings it to rest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.recorded import DATA, needs_data

from dualembed.experiments import puma

PARAMETERS, ACCELERATIONS = DATA / "puma560.json", DATA / "puma560_oracle.npz"
AT_REST = np.append(puma.TARGET, np.zeros(6))


@pytest.fixture
def double() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def table() -> dict[str, np.ndarray]:
    return dict(puma.PROCESS.dataset(2000, 0).table)


def accelerations(angles: np.ndarray, velocities: np.ndarray, torques: np.ndarray) -> np.ndarray:
    """Of many states at once."""
    states = jnp.asarray(np.hstack([angles, velocities]))
    return np.asarray(jax.jit(jax.vmap(puma.derivative))(states, jnp.asarray(torques)))[:, 6:]


@needs_data
@pytest.mark.usefixtures("double")
def test_accelerations_match_an_independent_simulator_in_2000_states() -> None:
    known = np.load(ACCELERATIONS)
    found = accelerations(known["Q"], known["QD"], known["TAU"])
    error, true = found - known["AV"], known["AV"]
    assert found.shape == (2000, 6)
    assert np.max(np.linalg.norm(error, axis=1) / np.linalg.norm(true, axis=1)) < 1e-8
    assert np.max(np.abs(error) / np.maximum(np.abs(true), 1)) < 1e-8


@needs_data
def test_single_precision_is_good_to_a_few_digits() -> None:
    known = np.load(ACCELERATIONS)
    error = accelerations(known["Q"], known["QD"], known["TAU"]) - known["AV"]
    assert np.max(np.linalg.norm(error, axis=1) / np.linalg.norm(known["AV"], axis=1)) < 1e-4


@needs_data
@pytest.mark.usefixtures("double")
def test_inertia_gravity_and_acceleration_match_the_check_points() -> None:
    points = json.loads(PARAMETERS.read_text(encoding="utf-8"))["oracle_values"]
    assert len(points) == 6
    angles, velocities, torques = (np.array([point[name] for point in points]) for name in ("q", "qd", "tau"))
    resting = jnp.zeros((6, 6))
    expected = {
        "inertia": jax.jit(jax.vmap(puma.mass_matrix))(jnp.asarray(angles)),
        "gravload": jax.jit(jax.vmap(puma.bias_torques))(jnp.asarray(angles), resting),
        "accel_viscous": accelerations(angles, velocities, torques),
    }
    for name, found in expected.items():
        np.testing.assert_allclose(found, [point[name] for point in points], rtol=1e-8, atol=1e-8, err_msg=name)


@needs_data
def test_the_parameters_are_the_published_ones() -> None:
    links = json.loads(PARAMETERS.read_text(encoding="utf-8"))["links"]
    named = {
        "d": puma.LINK_OFFSETS,
        "a": puma.LINK_LENGTHS,
        "alpha": puma.LINK_TWISTS,
        "m": puma.MASSES,
        "r": puma.CENTRES,
        "I": [np.diag(each) for each in puma.INERTIAS],
        "G": puma.GEAR_RATIOS,
        "Jm": puma.MOTOR_INERTIAS,
        "B": puma.MOTOR_FRICTIONS,
    }
    for name, values in named.items():
        np.testing.assert_allclose(values, [link[name] for link in links], rtol=1e-14, err_msg=name)


@pytest.mark.usefixtures("double")
def test_energy_changes_only_by_the_power_of_torques_and_friction() -> None:
    """The law that ties M, h and gravity together: d/dt (kinetic + potential) = q' · (torques - friction)."""
    rng = np.random.default_rng(0)
    state, torques = jnp.asarray(rng.normal(size=12)), jnp.asarray(10 * rng.normal(size=6))

    @jax.jit
    def energy(state: jax.Array) -> jax.Array:
        _, links = puma.arm(state[:6])
        kinetic = state[6:] @ puma.mass_matrix(state[:6]) @ state[6:] / 2
        return kinetic + puma.GRAVITY * jnp.sum(links.moment[:, 2])

    moment = 1e-5 * jax.jit(puma.derivative)(state, torques)
    gain = (energy(state + moment) - energy(state - moment)) / 2e-5
    friction = np.square(puma.GEAR_RATIOS) * puma.MOTOR_FRICTIONS * np.asarray(state[6:])
    assert float(gain) == pytest.approx(float(state[6:] @ (torques - friction)), rel=1e-7)


@pytest.mark.usefixtures("double")
def test_the_policy_rests_at_the_target_and_only_shrinks_small_departures() -> None:
    holding = jax.jit(puma.bias_torques)(jnp.asarray(puma.TARGET), jnp.zeros(6))
    np.testing.assert_allclose(holding, puma.HOLDING_TORQUES, atol=1e-9)
    departures = 1e-5 * np.vstack([np.zeros(12), np.eye(12), -np.eye(12)])
    after = np.asarray(jax.jit(jax.vmap(puma.next_mean))(jnp.asarray(AT_REST + departures)))
    np.testing.assert_allclose(after[0], AT_REST, atol=1e-9)
    modes = np.linalg.eigvals((after[1:13] - after[13:]).T / 2e-5)
    assert np.max(np.abs(modes)) == pytest.approx(0.8256, abs=1e-3)
    assert np.max(np.abs(modes.imag)) < 1e-6


@pytest.mark.usefixtures("double")
def test_a_period_is_solved_far_below_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = jax.vmap(puma.draw_start)(jax.random.split(jax.random.key(1), 100))
    found = []
    for substeps in (puma.SUBSTEPS, 16):
        monkeypatch.setattr(puma, "SUBSTEPS", substeps)
        found.append(np.asarray(jax.jit(jax.vmap(lambda state: puma.next_mean(state)))(starts)))
    assert 0 < np.max(np.abs(found[0] - found[1])) < puma.NOISE / 100


def test_precisions_may_alternate() -> None:
    """JAX may hand the constants of one precision to a program of the other."""
    for wide in (False, True, False, True):
        with jax.enable_x64(wide):
            start = jax.vmap(puma.draw_start)(jax.random.split(jax.random.key(0), 3))
            costs = jax.vmap(puma.cost)(start)
            slopes = jax.jit(jax.vmap(lambda state: puma.derivative(state, puma.policy(state))))(start)
            assert {start.dtype, costs.dtype, slopes.dtype} == {np.dtype("float64" if wide else "float32")}


def test_nothing_is_paid_at_rest_at_the_target_and_every_coordinate_counts_alike() -> None:
    assert float(puma.cost(jnp.asarray(AT_REST))) == 0
    np.testing.assert_allclose(puma.cost(jnp.asarray(AT_REST + 2 * np.eye(12))), 2.0, rtol=1e-6)


def test_rows_are_transitions_under_the_policy_with_the_stated_noise(table: Any) -> None:
    means = np.asarray(jax.jit(jax.vmap(puma.next_mean))(jnp.asarray(table["state"])))
    noise = table["next_state"] - means
    np.testing.assert_allclose(noise.mean(axis=0), 0, atol=5 * puma.NOISE / np.sqrt(2000))
    np.testing.assert_allclose(noise.std(axis=0), puma.NOISE, rtol=0.08)
    np.testing.assert_allclose(table["reward"], puma.cost(jnp.asarray(table["state"])), rtol=1e-5)


def test_states_stay_about_the_target_and_within_the_motors_power(table: Any) -> None:
    away = table["state"] - AT_REST
    assert np.max(np.abs(away[:, :6])) < 1.5
    assert np.max(np.abs(away[:, 6:])) < 4
    np.testing.assert_allclose(away.mean(axis=0), 0, atol=0.1)
    torques = table["state"] @ np.transpose(puma.GAINS) + puma.BIAS
    assert np.all(np.abs(torques) < puma.LARGEST_TORQUES)


def test_evaluation_states_are_always_the_same_and_not_those_of_a_data_set(table: Any) -> None:
    first, second = puma.PROCESS.test_states(2000), puma.PROCESS.test_states(2000)
    assert np.array_equal(first, second)
    assert first.shape == (2000, 12)
    assert not np.any(np.all(np.isclose(first, table["state"]), axis=1))


def test_the_settings_hold_the_policy_in_full() -> None:
    gains, bias = (np.asarray(puma.SETTINGS[name]) for name in ("A", "b"))
    state = np.random.default_rng(0).normal(size=12)
    np.testing.assert_allclose(puma.policy(jnp.asarray(state)), gains @ state + bias, rtol=1e-5, atol=1e-4)
    json.dumps(puma.SETTINGS)
