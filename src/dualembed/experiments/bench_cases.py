"""Cases of the benchmark `answers`: what is logged, what is asked, what is true and what rivals say."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from dualembed.data.gaussian_policy import GaussianPolicy
from dualembed.data.table import Table
from dualembed.experiments import bench_peers as peers
from dualembed.experiments.bench_worlds import POLICIES, WORLDS, Choice, Log, Policy, play_log, true_values
from dualembed.experiments.garnet import EpisodicGarnet, episodic_garnet

ROWS = 2000
ON_POLICY_DISCOUNTS = 0.9, 0.97, 0.99, 0.999
OFF_POLICY_DISCOUNTS = 0.95, 0.99
RIDGES = (1e-4, 1e-2)

GARNET_SIZES = ((10, 2), (25, 3), (50, 3))  # states and actions
GARNET_DISCOUNTS = 0.9, 0.95, 0.99
GARNET_TARGETS = ("logged", "near", "far", "sharp")
LSTD_RIDGES = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
DICE_RIDGES = (1e-6, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1)
DICE_DUAL_RIDGES = (1e-6, 1e-2, 1e-1, 1.0)


@final
@dataclass(frozen=True)
class Reply:
    """An answer with `value`, `stderr` and `interval(level)`, and 95 % intervals at each of the case's points.

    The intervals, (lower, upper), are left out where nothing was asked of other points, and so is the fitted model
    where nothing else of it is measured.
    """

    answer: Any
    intervals: tuple[np.ndarray, np.ndarray] | None = None
    model: Any = None


class Case(ABC):
    """A question with a known answer, asked of many logs."""

    kind: ClassVar[str]
    error: ClassVar[str]  # what is compared with the best rival's: "rms" or "median"

    @property
    @abstractmethod
    def name(self) -> str:
        """The case in a few words, unlike any other's."""

    @property
    def quick(self) -> bool:
        """Whether a quick run has it."""
        return False

    @property
    def may_refuse(self) -> bool:
        """Whether "not answerable" may be the right answer."""
        return False

    @abstractmethod
    def log(self, seed: int) -> Any:
        """What is known."""

    @abstractmethod
    def truth_of(self, log: Any) -> tuple[float, float]:
        """The answer, and the standard error with which it is known."""

    @abstractmethod
    def answer(self, log: Any) -> Reply:
        """What the library's estimator says, told nothing else."""

    @abstractmethod
    def rivals(self, log: Any) -> dict[str, float]:
        """What each rival says."""

    def at_points(self, log: Any) -> np.ndarray:
        """The truth (k,) at the points that a reply's intervals are of; none where there are none."""
        return np.zeros(0)

    def measures(self, log: Any, reply: Reply) -> dict[str, dict[str, float]]:
        """Other errors than the answer's, by name: "ours", and each rival's."""
        return {}


class OneTruth(Case):
    """A question whose answer is the same for every log."""

    @abstractmethod
    def truth(self) -> tuple[float, float]:
        """The answer, and the standard error with which it is known."""

    def truth_of(self, log: Any) -> tuple[float, float]:
        return self.truth()


@final
@dataclass(frozen=True)
class OnPolicy(OneTruth):
    """The value of the policy that played the log."""

    kind = "on-policy"
    error = "rms"
    world: str
    policy: str
    discount: float

    @property
    def name(self) -> str:
        return f"{self.world} {self.policy}, {self.discount:g}"

    @property
    def quick(self) -> bool:
        return self.world == "cartpole" and self.policy == "clumsy" and self.discount == 0.9

    def log(self, seed: int) -> Log:
        return play_log(WORLDS[self.world], POLICIES[self.world][self.policy], rows=ROWS, seed=seed)

    def truth(self) -> tuple[float, float]:
        return true_values(self.world, self.policy, ON_POLICY_DISCOUNTS)[self.discount]

    def answer(self, log: Log) -> Reply:
        from dualembed.estimators import PolicyEvaluator

        model = PolicyEvaluator(self.discount)
        model.fit(log.states, log.rewards, log.next_states, terminated=log.terminated, episodes=log.episodes)
        return Reply(model.value())

    def rivals(self, log: Log) -> dict[str, float]:
        return {"mean of returns": peers.mean_return(log, self.discount)}


@final
@dataclass(frozen=True)
class OffPolicy(OneTruth):
    """The value of another policy than the one that played the log, or for comparison of the same."""

    kind = "off-policy"
    error = "rms"
    world: str
    policy: str
    target: str
    discount: float

    @property
    def name(self) -> str:
        return f"{self.world} {self.policy} to {self.target}, {self.discount:g}"

    @property
    def quick(self) -> bool:
        return self.world == "chain" and self.target == "mild" and self.discount == 0.95

    @property
    def may_refuse(self) -> bool:
        return self.target == "sharp"

    @property
    def evaluated(self) -> Policy:
        """The policy whose value is asked for."""
        return POLICIES[self.world][self.target]

    def log(self, seed: int) -> Log:
        return play_log(WORLDS[self.world], POLICIES[self.world][self.policy], rows=ROWS, seed=seed)

    def truth(self) -> tuple[float, float]:
        return true_values(self.world, self.target, OFF_POLICY_DISCOUNTS)[self.discount]

    def answer(self, log: Log) -> Reply:
        from dualembed.estimators import ActionValueEvaluator

        model = ActionValueEvaluator(self.discount, as_given(self.evaluated))
        columns = log.states, log.actions, log.rewards, log.next_states
        model.fit(*columns, terminated=log.terminated, episodes=log.episodes)
        return Reply(model.value())

    def rivals(self, log: Log) -> dict[str, float]:
        behaviour = POLICIES[self.world][self.policy]
        values = peers.lstdq(log, self.evaluated, self.discount, ridges=RIDGES)
        answers = {f"LSTDQ, ridge {ridge:g}": value for ridge, value in zip(RIDGES, values, strict=True)}
        answers["importance sampling"] = peers.importance_sampling(log, self.evaluated, behaviour, self.discount)
        return answers


def as_given(policy: Policy) -> Any:
    """The policy as the estimator takes it."""
    if isinstance(policy, Choice):
        return policy.probabilities
    return GaussianPolicy(policy.mean, policy.deviation)


@final
@dataclass(frozen=True)
class Known:
    """A log and the process that it is of."""

    process: EpisodicGarnet
    log: Log

    @cached_property
    def seen(self) -> np.ndarray:
        """The states that the log has met, in order: of others an estimator knows nothing, not even their names."""
        return np.unique(np.concatenate([self.log.states, self.log.next_states]))

    @cached_property
    def counts(self) -> np.ndarray:
        """How many rows each state has with each action, (S, A)."""
        counts = np.zeros(self.process.share.shape)
        np.add.at(counts, (self.log.states, self.log.actions), 1)
        return counts


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
        process = episodic_garnet(own, **sizes, discount=self.discount, target=self.target)
        return Known(process, process.log(ROWS, own))

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
        errors = {
            "V, by visits": {name: float(np.sqrt(weights @ each)) for name, each in away.items()},
            "V, by states": {name: float(np.sqrt(each.mean())) for name, each in away.items()},
            "MSBE": {name: known.msbe(self._everywhere(log, each)) for name, each in values.items()},
        }
        return errors | self._ratios(log, reply.model)

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
        ratios |= peers.dual_dice_of(model.paths_, self.discount, coded, **ridges)
        weights = share * logged / share[logged].sum()
        errors: dict[str, Callable[[Any], Any]] = {
            "density ratio": lambda each: np.sqrt(weights @ (each - exact) ** 2),
            "density ratio, 1 - correlation": lambda each: 1 - _correlation(each, exact, weights),
            "density ratio, with pairs not logged": lambda each: np.sqrt(share @ (each - exact) ** 2 / share.sum()),
        }
        return {
            measure: {name: float(error(each)) for name, each in ratios.items()} for measure, error in errors.items()
        }

    def _values(self, log: Known, model: Any) -> np.ndarray:
        """V of the states that were met, as the model has it."""
        values = np.asarray(model.predict(*self._places(log)))
        if self.on_policy:
            return values
        return np.asarray(np.sum(log.process.world.target[log.seen] * values.reshape(-1, self.actions), axis=1))

    def _everywhere(self, log: Known, values: np.ndarray) -> np.ndarray:
        """V of all states (S,): the mean of the others at a state that was not met."""
        everywhere = np.full(self.states, values.mean())
        everywhere[log.seen] = values
        return everywhere

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
