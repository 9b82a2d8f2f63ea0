"""Garnets of the benchmark `answers`: random finite processes, of which linear algebra knows values and visits."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from dualembed.data.table import Table
from dualembed.experiments import bench_peers as peers
from dualembed.experiments.bench_cases import ROWS, Case, Reply
from dualembed.experiments.bench_logs import Choice, Log
from dualembed.experiments.garnet import Garnet, cuts, drawn, garnet

BRANCHING = 3
STEPS = 10  # of an episode, which a time limit cuts
SIZES = ((10, 2), (25, 3), (50, 3))  # states and actions
DISCOUNTS = 0.9, 0.95, 0.99
TARGETS = ("logged", "near", "far", "sharp")
LSTD_RIDGES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
DICE_RIDGES = (1e-6, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1)
DICE_DUAL_RIDGES = (1e-6, 1e-2, 1e-1, 1.0)


@final
@dataclass(frozen=True)
class Process:
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
        state = drawn(rng, np.tile(self.starts, (episodes, 1)))
        parts = []
        for _ in range(self.steps):
            action = drawn(rng, self.world.behaviour[state])
            following = drawn(rng, self.world.transitions[state, action])
            parts.append((state, action, following))
            state = following
        states, actions, following = (np.stack(each, axis=1).ravel()[:rows] for each in zip(*parts, strict=True))
        labels, steps = np.divmod(np.arange(rows), self.steps)
        over = np.zeros(rows, dtype=bool)
        whole = np.arange(rows // self.steps)
        return Log(seed, states, actions, self.world.reward[states], following, over, labels, steps, whole)


def process(seed: int, *, states: int, actions: int, discount: float, target: str) -> Process:
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
    return Process(replace(world, behaviour=behaviour, target=policy, discount=discount), starts)


@final
@dataclass(frozen=True)
class Known:
    """A log and the process that it is of."""

    process: Process
    log: Log

    @cached_property
    def seen(self) -> np.ndarray:
        """The states that the log has met, in order: of others an estimator knows nothing, not even their names."""
        return np.unique(np.concatenate([self.log.states, self.log.next_states]))

    @cached_property
    def counts(self) -> np.ndarray:
        """How many rows each state has with each action, (S, A)."""
        found = np.zeros(self.process.share.shape)
        np.add.at(found, (self.log.states, self.log.actions), 1)
        return found


@final
@dataclass(frozen=True)
class OnGarnet(Case):
    """The value of a policy in a random finite process, another one for every seed; states are categories."""

    kind = "garnet"
    error = "rms"
    states: int
    actions: int
    discount: float
    target: str

    @property
    def name(self) -> str:
        return f"garnet {self.states} x {self.actions}, {self.target}, {self.discount:g}"

    @property
    def quick(self) -> bool:
        return self.states == 10 and self.discount == 0.9 and self.target in ("logged", "far")

    @property
    def may_refuse(self) -> bool:
        return self.target == "sharp"

    @property
    def on_policy(self) -> bool:
        """Whether the asked policy played the log, which is evaluated by V alone."""
        return self.target == "logged"

    def log(self, seed: int) -> Known:
        own = 2**31 * zlib.crc32(self.name.encode()) + seed  # no two cases have a process in common
        sizes: dict[str, Any] = {"states": self.states, "actions": self.actions}
        found = process(own, **sizes, discount=self.discount, target=self.target)
        return Known(found, found.log(ROWS, own))

    def truth_of(self, log: Known) -> tuple[float, float]:
        return log.process.value, 0.0

    def answer(self, log: Known) -> Reply:
        from dualembed.estimators import ActionValueEvaluator, PolicyEvaluator

        rows = log.log
        if self.on_policy:
            on = PolicyEvaluator(self.discount, categorical_features=[0])
            on.fit(rows.states, rows.rewards, rows.next_states, episodes=rows.episodes)
            return Reply(on.value(), on.interval(*self._places(log)), on)
        target = log.process.world.target
        off = ActionValueEvaluator(self.discount, lambda states: target[states], categorical_features=[0])
        off.fit(rows.states, rows.actions, rows.rewards, rows.next_states, episodes=rows.episodes)
        return Reply(off.value(), off.interval(*self._places(log)), off)

    def at_points(self, log: Known) -> np.ndarray:
        """V of the states that were met, or Q of their pairs, (k,): what the reply's intervals are of."""
        exact = log.process.world.value if self.on_policy else log.process.action_values
        return exact[log.seen].ravel()

    def rivals(self, log: Known) -> dict[str, float]:
        first = log.log.states[log.log.steps == 0]
        return {name: float(values[first].mean()) for name, values in self._lstd(log).items()}

    def measures(self, log: Known, reply: Reply) -> dict[str, dict[str, float]]:
        """Errors of V over the states that were met, the exact MSBE, and errors of density ratios."""
        known, seen = log.process, log.seen
        rivals = self._lstd(log)
        values = {"ours": self._values(log, reply.model)} | {name: each[seen] for name, each in rivals.items()}
        weights = known.share.sum(axis=1)[seen]
        away = {name: (each - known.world.value[seen]) ** 2 for name, each in values.items()}
        found = {
            "V, by visits": {name: float(np.sqrt(weights @ each)) for name, each in away.items()},
            "V, by states": {name: float(np.sqrt(each.mean())) for name, each in away.items()},
            "MSBE": {name: known.msbe(self._everywhere(log, each)) for name, each in values.items()},
        }
        return found | self._ratios(log, reply.model)

    def _ratios(self, log: Known, model: Any) -> dict[str, dict[str, float]]:
        """Errors of our density ratio and of DualDICE's in our features, weighted by the exact share of the log.

        They are over what was logged, since a log says nothing of a pair that it does not have; and over all pairs of
        states that were met.
        """
        share, visits, counts = (each[log.seen] for each in (log.process.share, log.process.visits, log.counts))
        if self.on_policy:
            share, visits, counts = share.sum(axis=1), visits.sum(axis=1), counts.sum(axis=1)
        exact, share, logged = (visits / share).ravel(), share.ravel(), counts.ravel() > 0
        points = self._places(log)
        coded, _ = model._locate(Table.of(**dict(zip(("states", "actions"), points, strict=False))))
        ridges: dict[str, Any] = {"ridges": DICE_RIDGES, "dual_ridges": DICE_DUAL_RIDGES}
        ratios = {"ours": model.density_ratio(*points)}
        ratios |= peers.dual_dice_of(model.solved_, self.discount, coded, **ridges)
        weights = share * logged / share[logged].sum()
        found: dict[str, Callable[[Any], Any]] = {
            "density ratio": lambda each: np.sqrt(weights @ (each - exact) ** 2),
            "density ratio, 1 - correlation": lambda each: 1 - _correlation(each, exact, weights),
            "density ratio, with pairs not logged": lambda each: np.sqrt(share @ (each - exact) ** 2 / share.sum()),
        }
        return {
            measure: {name: float(error(each)) for name, each in ratios.items()} for measure, error in found.items()
        }

    def _values(self, log: Known, model: Any) -> np.ndarray:
        """V of the states that were met, as the model has it."""
        found = np.asarray(model.predict(*self._places(log)))
        if self.on_policy:
            return found
        return np.asarray(np.sum(log.process.world.target[log.seen] * found.reshape(-1, self.actions), axis=1))

    def _everywhere(self, log: Known, values: np.ndarray) -> np.ndarray:
        """V of all states (S,): the mean of the others at a state that was not met."""
        found = np.full(self.states, values.mean())
        found[log.seen] = values
        return found

    def _lstd(self, log: Known) -> dict[str, np.ndarray]:
        """V (S,) by tables, for each ridge."""
        target = Choice(lambda states: log.process.world.target[states])
        shape = self.states, 1 if self.on_policy else self.actions
        values = peers.tabular_lstd(log.log, target, self.discount, shape=shape, ridges=LSTD_RIDGES)
        return {f"tabular LSTD, ridge {ridge:g}": each for ridge, each in zip(LSTD_RIDGES, values, strict=True)}

    def _places(self, log: Known) -> tuple[Any, ...]:
        """The states that were met, off-policy with every action."""
        if self.on_policy:
            return (log.seen,)
        return np.repeat(log.seen, self.actions), np.tile(np.arange(self.actions), len(log.seen))


def _correlation(first: np.ndarray, second: np.ndarray, weights: np.ndarray) -> float:
    """The correlation of two functions under weights that sum to one; 0 where one is constant."""
    a, b = first - weights @ first, second - weights @ second
    size = np.sqrt((weights @ a**2) * (weights @ b**2))
    return float(weights @ (a * b) / size) if size > 0 else 0.0


CASES = [
    OnGarnet(states, actions, discount, target)
    for states, actions in SIZES
    for discount in DISCOUNTS
    for target in TARGETS
]
