"""Garnet problems (Archibald, McKinnon and Thomas 1995): random finite decision processes whose every error is exact.

A Garnet has S states, A actions and b possible next states for each pair of them, drawn uniformly, with probabilities
from b - 1 uniform cuts of [0, 1]; the reward depends on the state and is uniform on [0, 1] (Geist and Scherrer 2014).
The policy to evaluate has probabilities from A - 1 uniform cuts; the one that acts is uniform, or another such. The
value is sought in the span of m random features of a state, independent standard normal numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from dualembed import checks, problems, sources, spaces
from dualembed.experiments.bench_worlds import Log

DISCOUNT = 0.95
RESTART = 0.01  # a chain of few branches may fall into closed classes; restarting it makes one stationary law of them
BRANCHING = 3  # of those with episodes
STEPS = 10  # of an episode, which a time limit cuts


@dataclass(frozen=True)
class Garnet:
    """transitions P(s'|s,a) (S, A, S), reward (S,), behaviour and target policies (S, A), features φ (S, m).

    A value is given as an array (S,). With P_π, r of the target policy and μ of the acting one,

        MSBE(V) = Σ_s μ(s) (V(s) - r(s) - discount (P_π V)(s))².
    """

    transitions: np.ndarray
    reward: np.ndarray
    behaviour: np.ndarray
    target: np.ndarray
    features: np.ndarray
    discount: float = DISCOUNT

    @property
    def states(self) -> int:
        """The number S of states."""
        return len(self.reward)

    def chain(self, policy: np.ndarray) -> np.ndarray:
        """P(s'|s) (S, S) under the policy."""
        return np.einsum("sa,sat->st", policy, self.transitions)

    @cached_property
    def visits(self) -> np.ndarray:
        """μ (S,): the stationary law of the acting policy's chain that restarts uniformly in one step of a hundred."""
        moves = (1 - RESTART) * self.chain(self.behaviour)
        return np.linalg.solve(np.eye(self.states) - moves.T, np.full(self.states, RESTART / self.states))

    @cached_property
    def value(self) -> np.ndarray:
        """The target policy's value, (I - discount P_π)⁻¹ r."""
        return np.linalg.solve(np.eye(self.states) - self.discount * self.chain(self.target), self.reward)

    def msbe(self, value: np.ndarray) -> float:
        """MSBE(V), exactly."""
        residual = value - self.reward - self.discount * self.chain(self.target) @ value
        return float(self.visits @ residual**2)

    @cached_property
    def best_weights(self) -> np.ndarray:
        """θ (m,) that minimises MSBE(φθ)."""
        return self._projected(self.features - self.discount * self.chain(self.target) @ self.features)

    @cached_property
    def fixed_point(self) -> np.ndarray:
        """θ (m,) of temporal differences: the solution of E[φ(s) (moment)] = 0, projected Bellman error 0."""
        moved = self.features - self.discount * self.chain(self.target) @ self.features
        tested = self.visits[:, None] * self.features
        return np.linalg.solve(tested.T @ moved, tested.T @ self.reward)

    def excess(self, value: np.ndarray) -> float:
        """√(MSBE(V) - min MSBE over the features' span): the root of what a method adds to the least possible error.

        For V = φθ it is |φ(θ - θ*) - discount P_π φ(θ - θ*)| in the norm of μ, since θ* is a projection.
        """
        return float(np.sqrt(max(self.msbe(value) - self.msbe(self.features @ self.best_weights), 0.0)))

    def rmse(self, value: np.ndarray) -> float:
        """√(Σ_s μ(s) (V(s) - V_π(s))²), the distance from the target policy's value."""
        return float(np.sqrt(self.visits @ (value - self.value) ** 2))

    def sample(self, rows: int, seed: int) -> sources.Dataset:
        """Transitions of the acting policy from independent states of μ, with weight ρ = π(a|s) / π_b(a|s).

        Columns state, next_state (a state is its number), reward and weight; and second_next_state, second_weight, a
        second action and next state from the same state, for the one method that asks for it.
        """
        checks.count("rows", rows)
        checks.count("seed", seed, at_least=0)
        rng = np.random.default_rng(seed)
        state = draw_rows(rng, np.tile(self.visits, (rows, 1)))
        columns = {"state": state, "reward": self.reward[state]}
        for prefix in ("", "second_"):
            action = draw_rows(rng, self.behaviour[state])
            columns[f"{prefix}next_state"] = draw_rows(rng, self.transitions[state, action])
            columns[f"{prefix}weight"] = self.target[state, action] / self.behaviour[state, action]
        return sources.Dataset(**columns)

    def problem(self, rows: int, seed: int) -> problems.PolicyEvaluation:
        """Evaluation of the target policy from such transitions."""
        return problems.PolicyEvaluation(self.sample(rows, seed), self.discount)

    @property
    def primal(self) -> spaces.Basis:
        """The span of the m random features."""
        return spaces.Basis(Lookup(self.features))

    @property
    def dual(self) -> spaces.Basis:
        """All functions of a state: one indicator for each."""
        return spaces.Basis(Lookup(np.eye(self.states)))

    def on_states(self, function: Any) -> np.ndarray:
        """A learnt function as an array (S,) of its values."""
        return np.asarray(function(np.arange(self.states)), dtype=np.float64)

    def _projected(self, moved: np.ndarray) -> np.ndarray:
        root = np.sqrt(self.visits)
        return np.linalg.lstsq(root[:, None] * moved, root * self.reward, rcond=None)[0]


class Lookup(eqx.Module):
    """Features (n, m) of states given by their numbers (n, 1): rows of a table (S, m)."""

    table: Any

    def __call__(self, states: Any) -> Any:
        """The rows of the states."""
        return jnp.asarray(self.table)[states[:, 0].astype(int)]


def garnet(
    seed: int,
    *,
    states: int = 100,
    actions: int = 4,
    branching: int = 3,
    features: int = 20,
    constant: bool = False,
    random_behaviour: bool = False,
) -> Garnet:
    """A Garnet by its seed; `constant` puts a 1 in the place of the last feature.

    `random_behaviour` gives the acting policy probabilities from uniform cuts as well, which makes the importance
    weights heavy-tailed, where against a uniform one they are at most the number of actions.

    >>> garnet(0).transitions.shape
    (100, 4, 100)
    >>> int((garnet(0).transitions[7, 2] > 0).sum())
    3
    """
    for name, number in (("states", states), ("actions", actions), ("branching", branching), ("features", features)):
        checks.count(name, number)
    checks.count("seed", seed, at_least=0)
    if branching > states:
        raise checks.InputError(f"branching must not be above the number of states, {states}, not {branching}")
    rng = np.random.default_rng(seed)
    transitions = np.zeros((states, actions, states))
    for pair in np.ndindex(states, actions):
        transitions[pair][rng.choice(states, branching, replace=False)] = cuts(rng, branching, ())
    target, behaviour = cuts(rng, actions, (states,)), cuts(rng, actions, (states,))
    table = rng.standard_normal((states, features))
    if constant:
        table[:, -1] = 1.0
    uniform = np.full((states, actions), 1 / actions)
    reward = rng.uniform(size=states)
    return Garnet(transitions, reward, behaviour if random_behaviour else uniform, target, table)


def normalise_weights(data: sources.Dataset) -> sources.Dataset:
    """The same transitions with weights ρ over their mean in each state: weighted importance sampling.

    E[ρ | s] = 1 is known, so that a state's mean of ρ says by how much chance drew too many large weights; what it
    multiplies, E[moment | s], does not vanish where the features cannot represent the value.
    """
    state = data.table["state"].astype(int)
    counts = np.maximum(np.bincount(state), 1)
    columns = dict(data.table)
    for name in {"weight", "second_weight"} & set(columns):
        columns[name] = columns[name] / (np.bincount(state, columns[name]) / counts)[state]
    return sources.Dataset(**columns)


def cuts(rng: np.random.Generator, parts: int, shape: tuple[int, ...]) -> np.ndarray:
    """The lengths (*shape, parts) of the pieces into which parts - 1 uniform cuts divide [0, 1]."""
    inner = np.sort(rng.uniform(size=(*shape, parts - 1)), axis=-1)
    ends = np.zeros((*shape, 1))
    return np.diff(np.concatenate([ends, inner, ends + 1], axis=-1), axis=-1)


def draw_rows(rng: np.random.Generator, probabilities: np.ndarray) -> np.ndarray:
    """One number for each row of probabilities (n, k)."""
    levels = np.cumsum(probabilities, axis=1)
    # A uniform number below the last level, which rounding may have left short of 1, falls on a piece that has length.
    return np.sum(rng.uniform(size=(len(levels), 1)) * levels[:, -1:] >= levels, axis=1)


@final
@dataclass(frozen=True)
class EpisodicGarnet:
    """A Garnet, where its episodes start (S,), and how many steps of them a log has."""

    world: Garnet
    starts: np.ndarray
    steps: int = STEPS

    @cached_property
    def share(self) -> np.ndarray:
        """How much of a log is each state with each action, (S, A)."""
        chain, law, total = self.world.chain(self.world.behaviour), self.starts, np.zeros(self.world.states)
        for _ in range(self.steps):
            total, law = total + law / self.steps, law @ chain
        return np.asarray(total[:, None] * self.world.behaviour)

    @cached_property
    def visits(self) -> np.ndarray:
        """(1 - γ) Σ_t γᵗ P(s_t = s, a_t = a) of the target policy, (S, A)."""
        moves = np.eye(self.world.states) - self.world.discount * self.world.chain(self.world.target)
        states = (1 - self.world.discount) * np.linalg.solve(moves.T, self.starts)
        return np.asarray(states[:, None] * self.world.target)

    @cached_property
    def action_values(self) -> np.ndarray:
        """Q(s, a) of the target policy, (S, A)."""
        return np.asarray(self.world.reward[:, None] + self.world.discount * self.world.transitions @ self.world.value)

    @property
    def value(self) -> float:
        """What the target policy is worth over the starts of episodes."""
        return float(self.starts @ self.world.value)

    def msbe(self, values: np.ndarray) -> float:
        """The mean over the log's states of (V - r - γ P_π V)², exactly, of V (S,)."""
        world = self.world
        residual = values - world.reward - world.discount * world.chain(world.target) @ values
        return float(self.share.sum(axis=1) @ residual**2)

    def log(self, rows: int, seed: int) -> Log:
        """So many transitions of the acting policy; a state is its number."""
        rng = np.random.default_rng((seed, 8))
        episodes = -(-rows // self.steps)
        state = draw_rows(rng, np.tile(self.starts, (episodes, 1)))
        parts = []
        for _ in range(self.steps):
            action = draw_rows(rng, self.world.behaviour[state])
            following = draw_rows(rng, self.world.transitions[state, action])
            parts.append((state, action, following))
            state = following
        states, actions, following = (np.stack(each, axis=1).ravel()[:rows] for each in zip(*parts, strict=True))
        labels, steps = np.divmod(np.arange(rows), self.steps)
        over = np.zeros(rows, dtype=bool)
        whole = np.arange(rows // self.steps)
        return Log(seed, states, actions, self.world.reward[states], following, over, labels, steps, whole)


def episodic_garnet(seed: int, *, states: int, actions: int, discount: float, target: str) -> EpisodicGarnet:
    """A Garnet whose log is of a policy half uniform, half random, and which asks about one at some distance.

    The target "near" goes a third of the way to a random policy, "far" is that policy, and "sharp" takes in each state
    the action that it likes best nine times in ten. Episodes start anywhere, some places being likelier.
    """
    world = garnet(seed, states=states, actions=actions, branching=BRANCHING, features=1, random_behaviour=True)
    behaviour = (world.behaviour + 1 / actions) / 2
    best = np.eye(actions)[np.argmax(world.target, axis=1)]
    policy = {
        "logged": behaviour,
        "near": (2 * behaviour + world.target) / 3,
        "far": world.target,
        "sharp": 0.9 * best + 0.1 / actions,
    }[target]
    starts = cuts(np.random.default_rng((seed, 7)), states, ()) ** 2
    starts /= starts.sum()
    return EpisodicGarnet(replace(world, behaviour=behaviour, target=policy, discount=discount), starts)
