"""The package's own gymnasium environments keep gymnasium's rules and the simulators' dynamics."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from dualembed.checks import InputError
from dualembed.experiments import cartpole, environments, puma

SYSTEMS = {"dualembed/CartPoleSwingUp-v0": cartpole, "dualembed/Puma560-v0": puma}
LIMITS = {"dualembed/CartPoleSwingUp-v0": cartpole.LARGEST_FORCE, "dualembed/Puma560-v0": puma.LARGEST_TORQUES}
every_environment = pytest.mark.parametrize("name", SYSTEMS)


def play(env: gymnasium.Env, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(observations, rewards) of fixed actions from a seeded reset."""
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, *env.action_space.shape)).astype(np.float32)
    seen, rewards = [env.reset(seed=seed)[0]], []
    for action in actions:
        observation, reward, *_ = env.step(action)
        seen.append(observation)
        rewards.append(reward)
    return np.array(seen), np.array(rewards)


@every_environment
def test_gymnasiums_own_checks_pass(name: str) -> None:
    check_env(gymnasium.make(name).unwrapped)


@every_environment
def test_a_seed_gives_the_same_episode_and_another_seed_another(name: str) -> None:
    first, again, other = (play(gymnasium.make(name), 5, seed) for seed in (1, 1, 2))
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])
    assert not np.any(first[0] == other[0])


@every_environment
def test_a_step_is_the_mean_of_the_simulator_plus_its_noise(name: str) -> None:
    system, env = SYSTEMS[name], gymnasium.make(name).unwrapped
    env.reset(seed=0)
    noise, means = [], []
    with jax.enable_x64(True):
        for _ in range(50):
            state = env.state.copy()
            action = np.atleast_1d(system.policy(jnp.asarray(state)) / jnp.asarray(LIMITS[name]))
            rng = copy.deepcopy(env.np_random)
            observation, reward, *_ = env.step(action)
            drawn = system.NOISE * rng.standard_normal(len(state))
            means.append(np.asarray(jax.jit(system.next_mean)(jnp.asarray(state))))
            noise.append(env.state - means[-1])
            np.testing.assert_allclose(noise[-1], drawn, atol=1e-9)
            assert np.array_equal(observation, env.state.astype(np.float32))
            assert reward == pytest.approx(-float(system.cost(jnp.asarray(state))), rel=1e-12)
    assert np.std(noise) == pytest.approx(system.NOISE, rel=0.2)


@every_environment
def test_episodes_are_truncated_and_never_terminated(name: str) -> None:
    env = gymnasium.make(name)
    env.reset(seed=0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(100)]
    assert not any(terminated for terminated, _ in ends)
    assert [truncated for _, truncated in ends] == [False] * 99 + [True]


@every_environment
def test_the_largest_controls_for_a_whole_episode_leave_the_state_finite(name: str) -> None:
    env = gymnasium.make(name)
    env.reset(seed=0)
    for _ in range(100):
        observation, reward, *_ = env.step(env.action_space.high)
    assert np.all(np.isfinite(observation))
    assert np.isfinite(reward)


@every_environment
def test_actions_beyond_the_box_are_cut(name: str) -> None:
    ends = []
    for scale in (1, 5):
        env = gymnasium.make(name)
        env.reset(seed=0)
        ends.append(env.step(scale * env.action_space.high)[0])
    assert np.array_equal(*ends)


@every_environment
@pytest.mark.parametrize("bad", [np.full(7, 0.5), np.nan])
def test_a_bad_action_is_refused_in_one_sentence(name: str, bad: Any) -> None:
    env = gymnasium.make(name).unwrapped
    env.reset(seed=0)
    action = bad if np.ndim(bad) else np.full(env.action_space.shape, bad)
    with pytest.raises(InputError, match=r"an action must be \d finite number\(s\) from -1 to 1"):
        env.step(action)


def test_pictures_are_refused() -> None:
    with pytest.raises(InputError, match="render_mode must be None, not 'human'"):
        environments.puma_560(render_mode="human")


@every_environment
def test_registering_again_changes_nothing(name: str) -> None:
    known = gymnasium.spec(name)
    environments.register()
    assert gymnasium.spec(name) is known


@every_environment
def test_a_copy_plays_on_by_itself(name: str) -> None:
    env = gymnasium.make(name).unwrapped
    env.reset(seed=0)
    twin = copy.deepcopy(env)
    action = env.action_space.high
    assert np.array_equal(env.step(action)[0], twin.step(action)[0])
    assert twin.state is not env.state


def test_without_gymnasium_the_import_says_what_to_install() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import dualembed.experiments.environments"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.strip().splitlines()[-1].startswith("ImportError: dualembed.experiments.environments needs gym")
    assert "pip install 'dualembed[rl]'" in done.stderr
