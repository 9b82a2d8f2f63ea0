"""The cart-pole swing-up and the PUMA 560 arm as gymnasium environments.

Importing this module registers "dualembed/CartPoleSwingUp-v0" and "dualembed/Puma560-v0":

>>> import gymnasium
>>> gymnasium.make("dualembed/Puma560-v0").action_space.shape
(6,)
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from dualembed import checks
from dualembed.experiments import cartpole, puma

try:
    import gymnasium
except ImportError:
    raise ImportError(
        "dualembed.experiments.environments needs gymnasium, which is missing; pip install 'dualembed[rl]' brings it"
    ) from None

EPISODES = {"dualembed/CartPoleSwingUp-v0": ("cart_pole_swing_up", 100), "dualembed/Puma560-v0": ("puma_560", 100)}
"""Of every environment: the function here that makes it, and the steps after which an episode is truncated."""


@dataclasses.dataclass(frozen=True)
class System:
    """Controlled dynamics with a cost: `advance(state, controls)` is the mean of the next state, for one state."""

    advance: Callable[[jax.Array, jax.Array], jax.Array]
    cost: Callable[[jax.Array], jax.Array]
    draw_start: Callable[[jax.Array], jax.Array]
    limits: tuple[float, ...]  # of the controls, either way
    noise: float  # standard deviation in every coordinate of the next state


class Simulated(gymnasium.Env[np.ndarray, np.ndarray]):
    """The system, played step by step.

    An action has a number from -1 to 1 for each control, in shares of its limit; what lies beyond is cut. The reward is
    minus the cost of the state in which the action is taken, because gymnasium's agents maximise. No state is terminal.
    The state is kept in float64; an observation is its float32 copy.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - gymnasium declares it so

    def __init__(self, system: System, render_mode: None = None) -> None:
        if render_mode is not None:
            raise checks.InputError(f"render_mode must be None, not {render_mode!r}; there are no pictures")
        self.system = system
        self.render_mode = None
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (len(system.limits),), np.float32)
        start = jax.eval_shape(system.draw_start, jax.random.key(0))
        # Noise has no bounds, and so the states have none; gymnasium's checks frown on infinity.
        largest = float(np.finfo(np.float32).max)
        self.observation_space = gymnasium.spaces.Box(-largest, largest, start.shape, np.float32)
        self.state = np.zeros(start.shape)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """(the state an episode starts in, no more to tell); options are not looked at."""
        super().reset(seed=seed)
        with jax.enable_x64(True):
            self.state = np.array(_start(self.system, int(self.np_random.integers(2**32))))
        return self.state.astype(np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """(next state, minus the cost of this one, False, False, no more to tell)."""
        shares = np.asarray(action, dtype=float)
        if shares.shape != self.action_space.shape or not np.all(np.isfinite(shares)):
            count = len(self.system.limits)
            raise checks.InputError(f"an action must be {count} finite number(s) from -1 to 1, not {action!r}")
        with jax.enable_x64(True):
            mean, cost = _advance(self.system, self.state, np.clip(shares, -1, 1) * self.system.limits)
        self.state = np.asarray(mean) + self.system.noise * self.np_random.standard_normal(self.state.shape)
        return self.state.astype(np.float32), -float(cost), False, False, {}


# With the system a static argument everything is compiled once, for all environments of one system.
@functools.partial(jax.jit, static_argnums=0)
def _start(system: System, seed: jax.Array) -> jax.Array:
    return system.draw_start(jax.random.key(seed))


@functools.partial(jax.jit, static_argnums=0)
def _advance(system: System, state: jax.Array, controls: jax.Array) -> tuple[jax.Array, jax.Array]:
    return system.advance(state, controls), system.cost(state)


def _pushed(state: jax.Array, controls: jax.Array) -> jax.Array:
    """The cart-pole's only control is a force."""
    return cartpole.advance(state, controls[0])


CART_POLE = System(_pushed, cartpole.cost, cartpole.draw_start, (cartpole.LARGEST_FORCE,), cartpole.NOISE)
PUMA = System(puma.advance, puma.cost, puma.draw_start, puma.LARGEST_TORQUES, puma.NOISE)


def cart_pole_swing_up(render_mode: None = None) -> Simulated:
    """Cart-pole, one action: the force in shares of 10 N."""
    return Simulated(CART_POLE, render_mode)


def puma_560(render_mode: None = None) -> Simulated:
    """The PUMA arm, six actions: the joints' torques in shares of the motors' largest.

    Actions drawn at random from the whole box are simulated to about 0.01 a step or better, those that hold the largest
    torques for seconds to about 1 at worst: they spin the joints at tens of rad/s, for which the time step is too long.
    """
    return Simulated(PUMA, render_mode)


def register() -> None:
    """Make both environments known to gymnasium; those that are known already stay as they are."""
    for name, (maker, steps) in EPISODES.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=f"{__name__}:{maker}", max_episode_steps=steps)


register()
