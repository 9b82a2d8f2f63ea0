"""The cart-pole is what it says: dynamics match, energy is kept, and a data set is what its simulator draws."""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.recorded import DATA, needs_data

from dualembed.experiments import cartpole, navigation
from dualembed.experiments.bellman import BLOCK

CHECK_POINTS = DATA / "cartpole_swingup.json"


@needs_data
def test_cartpole_matches_the_check_points() -> None:
    document = json.loads(CHECK_POINTS.read_text(encoding="utf-8"))
    wanted = {"l_m": 0.5, "m_pendulum_kg": 0.5, "M_cart_kg": 0.5, "b_friction_N_per_m_per_s": 0.1, "g": 9.82}
    assert document["parameters"] == wanted
    with jax.enable_x64(True):
        for point in document["oracle_values"]:
            state, force = jnp.asarray(point["z"]), jnp.asarray(point["u"])
            assert np.allclose(cartpole.derivative(state, force), point["dz"], rtol=1e-12, atol=1e-12)
            after = cartpole.advance(state, force)
            error = np.abs(np.asarray(after) - point["z_after_dt0p1_zoh"]).max()
            assert error <= 1.1 * point["rk4_10substeps_err"]


def test_cartpole_keeps_its_energy_without_force_and_friction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cartpole, "FRICTION", 0.0)

    def energy(state: Any) -> float:
        _, velocity, spin, angle = np.asarray(state)
        return float(velocity**2 / 2 + spin**2 / 48 + (velocity * spin - 9.82) * np.cos(angle) / 8)

    with jax.enable_x64(True):
        state = jnp.asarray([0.1, -0.5, 2.0, 1.0])
        assert energy(cartpole.advance(state, jnp.asarray(0.0))) == pytest.approx(energy(state), abs=1e-6)


def test_cartpole_policy_keeps_the_state_bounded() -> None:
    states = jnp.asarray(cartpole.PROCESS.test_states(200))
    advance = jax.jit(jax.vmap(cartpole.next_mean))
    for _ in range(100):
        states = advance(states)
    assert float(jnp.abs(states[:, :3]).max()) < 5.0


@pytest.mark.parametrize(("module", "dimension"), [(navigation, 2), (cartpole, 4)])
def test_a_data_set_is_what_its_simulator_draws(module: Any, dimension: int) -> None:
    """One whole block of it: blocks of fewer rows are cut from one."""
    process = module.PROCESS
    draw = jax.jit(jax.vmap(process.draw))
    fresh = draw(jax.random.split(jax.random.key(1), BLOCK))
    shapes = {name: column.shape for name, column in process.dataset(7, 1).columns.items()}
    assert shapes == {"state": (7, dimension), "reward": (7,), "next_state": (7, dimension)}
    for rows in (BLOCK, 7):
        kept = process.dataset(rows, 1).columns
        assert all(np.allclose(fresh[name][:rows], kept[name], rtol=1e-5, atol=1e-6) for name in fresh)
