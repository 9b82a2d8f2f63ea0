"""The simulated problems are what they say: instruments are valid, dynamics match, expectations are exact."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualembed.checks import InputError
from dualembed.experiments import cartpole, iv_designs, navigation
from dualembed.experiments.bellman import BLOCK

DATA = Path(os.environ.get("DUALEMBED_DATA", Path(__file__).parents[2] / "shared" / "data"))
CHECK_POINTS = DATA / "cartpole_swingup.json"

CONFOUNDED = {
    **{f"one-dimensional {name}": (iv_designs.one_dimensional, name) for name in iv_designs.ONE_DIMENSIONAL},
    **{f"two-dimensional {name}": (iv_designs.two_dimensional, name) for name in iv_designs.TWO_DIMENSIONAL},
}


@pytest.mark.parametrize("case", CONFOUNDED)
def test_the_noise_is_confounded_with_x_but_not_with_the_instrument(case) -> None:
    make, name = CONFOUNDED[case]
    design = make(name, 20_000, 0)
    raw = iv_designs.CURVES[name](design.x[:, 0])
    # y is an affine map of f(x) + e, and test_f is the same map of f at test_x, which gives the map away.
    curve = iv_designs.CURVES[name](design.test_x[:, 0])
    scale, centre = np.polyfit(curve, design.test_f, 1)
    noise = (design.y - centre) / scale - raw
    assert abs(design.y.mean()) < 1e-12
    assert design.y.std() == pytest.approx(1.0)
    assert np.corrcoef(noise, design.x[:, 0])[0, 1] > 0.3
    assert all(abs(np.corrcoef(noise, column)[0, 1]) < 0.03 for column in design.z.T)
    assert noise.std() == pytest.approx(np.sqrt(4.01), rel=0.03)
    assert design.test_x.shape == (1000, 1)


def test_demand_has_the_stated_correlation_and_grid() -> None:
    design = iv_designs.demand(50_000, 1, 0.9)
    noise = design.y - iv_designs.demanded(design.x)
    price_noise = design.x[:, 0] - 25 - (design.z[:, 0] + 3) * iv_designs.season(design.x[:, 1])
    assert np.corrcoef(noise, price_noise)[0, 1] == pytest.approx(0.9, abs=0.01)
    assert noise.std() == pytest.approx(1.0, abs=0.02)
    assert np.array_equal(design.x[:, 1:], design.z[:, 1:])
    assert design.test_x.shape == (2800, 3)
    assert np.array_equal(np.unique(design.test_x[:, 2]), np.arange(1.0, 8.0))


def test_standardised_demand_rescales_the_truth_and_not_the_noise() -> None:
    plain, standard = (iv_designs.demand(500, 3, 0.5, standardised=each) for each in (False, True))
    assert np.array_equal(plain.x, standard.x)
    assert np.allclose(standard.test_f, (plain.test_f - 100 + 292.1) / 158)
    noise = plain.y - iv_designs.demanded(plain.x)
    assert np.allclose(standard.y, (iv_designs.demanded(plain.x) - 100 + 292.1) / 158 + noise)


@pytest.mark.parametrize(("r", "naive"), [(100, 1.28), (280, 1.53)])
def test_many_moments_bias_two_stage_least_squares_as_stated(r, naive) -> None:
    slopes = []
    for seed in range(30):
        design = iv_designs.many_moments(1000, r, seed)
        fitted = design.z @ np.linalg.lstsq(design.z, design.x[:, 0], rcond=None)[0]
        slopes.append(fitted @ design.y / (fitted @ design.x[:, 0]))
    assert np.mean(slopes) == pytest.approx(naive, abs=0.03)


def test_designs_follow_from_their_seed_and_refuse_other_names() -> None:
    first, again, other = (iv_designs.one_dimensional("sin", 50, seed).y for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    with pytest.raises(InputError, match="one of abs, sin, step"):
        iv_designs.one_dimensional("linear", 50, 0)
    with pytest.raises(InputError, match="rho must be a correlation"):
        iv_designs.demand(50, 0, 1.5)


def peak(states) -> np.ndarray:
    """V(s) = 2 exp(-30 |s|²), whose expectations under a normal law are known."""
    return 2 * np.exp(-30 * np.sum(np.asarray(states) ** 2, axis=-1))


def peak_expected(means: np.ndarray) -> np.ndarray:
    """E[V(s')] for s' ~ N(means, 0.1 I): each coordinate's bump widens from 1/60 to 1/60 + 0.1."""
    widening = 1 + 60 * navigation.NOISE_VARIANCE
    return 2 / widening * np.exp(-30 * np.sum(means**2, axis=1) / widening)


def test_navigation_expectations_are_exact() -> None:
    means = np.asarray(navigation.next_mean(navigation.PROCESS.test_states(200)), dtype=float)
    assert np.allclose(navigation.expected_value(peak, means), peak_expected(means), rtol=1e-6, atol=1e-9)


def test_navigation_msbe_agrees_with_brute_force() -> None:
    states = navigation.PROCESS.test_states(20)
    rng = np.random.default_rng(0)
    bellman = []
    for state in states:
        reward = np.exp(-100 * state @ state)
        following = (1 - 0.2 * reward) * state + np.sqrt(0.1) * rng.standard_normal((200_000, 2))
        bellman.append(peak(state) - reward - 0.9 * peak(following).mean())
    assert navigation.PROCESS.msbe(peak, states) == pytest.approx(np.mean(np.square(bellman)), rel=0.02)


def test_navigation_transitions_have_the_stated_moments() -> None:
    columns = {name: np.asarray(column) for name, column in navigation.PROCESS.dataset(20_000, 0).columns.items()}
    assert set(columns) == {"state", "reward", "next_state"}
    assert np.allclose(np.cov(columns["state"].T), 0.2 * np.eye(2), atol=0.01)
    moved = columns["next_state"] - np.asarray(navigation.next_mean(columns["state"]))
    assert np.allclose(np.cov(moved.T), 0.1 * np.eye(2), atol=0.005)
    assert np.allclose(columns["reward"], np.exp(-100 * np.sum(columns["state"] ** 2, axis=1)), rtol=1e-4)


@pytest.mark.skipif(not CHECK_POINTS.exists(), reason=f"no check points at {CHECK_POINTS}; set DUALEMBED_DATA")
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


def test_cartpole_keeps_its_energy_without_force_and_friction(monkeypatch) -> None:
    monkeypatch.setattr(cartpole, "FRICTION", 0.0)

    def energy(state) -> float:
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
def test_a_data_set_is_what_its_simulator_draws(module, dimension) -> None:
    """One whole block of it: blocks of fewer rows are cut from one."""
    process = module.PROCESS
    draw = jax.jit(jax.vmap(process.draw))
    fresh = draw(jax.random.split(jax.random.key(1), BLOCK))
    shapes = {name: column.shape for name, column in process.dataset(7, 1).columns.items()}
    assert shapes == {"state": (7, dimension), "reward": (7,), "next_state": (7, dimension)}
    for rows in (BLOCK, 7):
        kept = process.dataset(rows, 1).columns
        assert all(np.allclose(fresh[name][:rows], kept[name], rtol=1e-5, atol=1e-6) for name in fresh)
