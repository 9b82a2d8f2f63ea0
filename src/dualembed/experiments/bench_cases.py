"""Cases of the benchmark `answers`: what is logged, what is asked, what is true and what rivals say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from dualembed.data.policies import GaussianPolicy
from dualembed.experiments import bench_peers as peers
from dualembed.experiments.bench_logs import POLICIES, WORLDS, Choice, Log, Policy, logged, true_values

ROWS = 2000
ON_POLICY_DISCOUNTS = 0.9, 0.97, 0.99, 0.999
OFF_POLICY_DISCOUNTS = 0.95, 0.99
RIDGES = (1e-4, 1e-2)


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
        return logged(WORLDS[self.world], POLICIES[self.world][self.policy], rows=ROWS, seed=seed)

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
        return logged(WORLDS[self.world], POLICIES[self.world][self.policy], rows=ROWS, seed=seed)

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
        found = {f"LSTDQ, ridge {ridge:g}": value for ridge, value in zip(RIDGES, values, strict=True)}
        found["importance sampling"] = peers.importance_sampling(log, self.evaluated, behaviour, self.discount)
        return found


def as_given(policy: Policy) -> Any:
    """The policy as the estimator takes it."""
    if isinstance(policy, Choice):
        return policy.probabilities
    return GaussianPolicy(policy.mean, policy.deviation)
