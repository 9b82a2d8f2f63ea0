"""Table worlds of the benchmark `worlds`: gymnasium's, whose values linear algebra knows, and deeptime's double well.

States are names, as of a grid's cells. Policies of gymnasium's worlds are uniform, which all logs are of, or half way
from there to the best.
"""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, final

import numpy as np

from dualembed.experiments import bench_peers as peers
from dualembed.experiments.bench_cases import OneTruth, Reply
from dualembed.experiments.bench_worlds import Choice, Log

DISCOUNT, LIMIT = 0.99, 200  # steps of an episode, where the world has no limit
RIDGES = (1e-6, 1e-3)
STEPS_BETWEEN, BETWEEN, CELLS = (20, 80), 50, 100  # of the double well


class Dynamics(NamedTuple):
    """What is known of a table world: P (S, A, S) of steps that go on, P (S, A, S) of those that end, mean rewards.

    `paid` (S, A, S) are mean rewards by next state, and `starts` (S,) how likely states are at first.
    """

    goes_on: np.ndarray
    ends: np.ndarray
    paid: np.ndarray
    starts: np.ndarray
    limit: int

    @property
    def rewards(self) -> np.ndarray:
        """Mean rewards (S, A)."""
        return np.asarray(np.sum((self.goes_on + self.ends) * self.paid, axis=2))

    def values(self, policy: np.ndarray) -> np.ndarray:
        """V (S,) of a policy (S, A)."""
        following = np.einsum("sa,sat->st", policy, self.goes_on)
        paid = np.sum(policy * self.rewards, axis=1)
        return np.asarray(np.linalg.solve(np.eye(len(paid)) - DISCOUNT * following, paid))

    def policy(self, target: str) -> np.ndarray:
        """The policy (S, A) of that name, "uniform" or "better"."""
        states, actions = self.rewards.shape
        uniform = np.full((states, actions), 1 / actions)
        if target == "uniform":
            return uniform
        best = uniform
        for _ in range(1000):
            earned = self.rewards + DISCOUNT * self.goes_on @ self.values(best)
            found = np.eye(actions)[np.argmax(np.round(earned, 10), axis=1)]
            if np.array_equal(found, best):
                break
            best = found
        return (uniform + best) / 2


@cache
def dynamics(world: str) -> Dynamics:
    """Those of a world of gymnasium, as its newest version has them."""
    import gymnasium

    versions = [name for name in gymnasium.registry if name.startswith(f"{world}-v")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env: Any = gymnasium.make(max(versions))
    table, limit = env.unwrapped.P, env.spec.max_episode_steps or LIMIT
    states, actions = len(table), len(table[0])
    goes_on, ends, paid = np.zeros((3, states, actions, states))
    for state, action in np.ndindex(states, actions):
        for chance, following, reward, ended in table[state][action]:
            (ends if ended else goes_on)[state, action, following] += chance
            paid[state, action, following] += chance * reward
    total = goes_on + ends
    paid = np.divide(paid, total, out=np.zeros_like(paid), where=total > 0)
    return Dynamics(goes_on, ends, paid, np.asarray(env.unwrapped.initial_state_distrib), limit)


def play(known: Dynamics, rows: int, seed: int) -> Log:
    """The first transitions of episodes that the uniform policy plays one after the other, until one is over."""
    rng = np.random.default_rng((seed, 3))
    states, actions = known.rewards.shape
    both = np.concatenate([known.goes_on, known.ends], axis=2).cumsum(axis=2)
    starts = known.starts.cumsum()
    found: list[tuple[Any, ...]] = []
    episode = step = 0
    state = int(np.searchsorted(starts, rng.random() * starts[-1], side="right"))
    while len(found) < rows or step:
        action = int(rng.integers(actions))
        place = int(np.searchsorted(both[state, action], rng.random() * both[state, action, -1], side="right"))
        following, ended = place % states, place >= states
        reward = known.paid[state, action, following]
        found.append((state, action, reward, following, ended, episode, step))
        state, step = following, step + 1
        if ended or step == known.limit:
            episode, step = episode + 1, 0
            state = int(np.searchsorted(starts, rng.random() * starts[-1], side="right"))
    columns = [np.array(column) for column in zip(*found, strict=True)]
    return Log(seed, *[*columns, np.unique(columns[-2])])


@final
@dataclass(frozen=True)
class InTable(OneTruth):
    """The value of a policy in a world of gymnasium, from the logs of the uniform one."""

    kind = "worlds"
    error = "rms"
    world: str
    target: str
    rows: int

    @property
    def name(self) -> str:
        return f"{self.world}, {self.target} policy, {self.rows}"

    @property
    def needs(self) -> str:
        """The package that it is of."""
        return "gymnasium"

    @property
    def may_refuse(self) -> bool:
        return self.target != "uniform"

    def truth(self) -> tuple[float, float]:
        known = dynamics(self.world)
        return float(known.starts @ known.values(known.policy(self.target))), 0.0

    def log(self, seed: int) -> Log:
        return play(dynamics(self.world), self.rows, seed)

    def answer(self, log: Log) -> Reply:
        from dualembed.estimators import ActionValueEvaluator, PolicyEvaluator

        marks: dict[str, Any] = {"terminated": log.terminated, "episodes": log.episodes}
        if self.target == "uniform":
            on = PolicyEvaluator(DISCOUNT, categorical_features=[0])
            return Reply(on.fit(log.states, log.rewards, log.next_states, **marks).value())
        policy = dynamics(self.world).policy(self.target)
        off = ActionValueEvaluator(DISCOUNT, lambda states: policy[states], categorical_features=[0])
        return Reply(off.fit(log.states, log.actions, log.rewards, log.next_states, **marks).value())

    def rivals(self, log: Log) -> dict[str, float]:
        known = dynamics(self.world)
        uniform, target = (Choice(known.policy(name).__getitem__) for name in ("uniform", self.target))
        states, actions = known.rewards.shape
        shape = states, 1 if self.target == "uniform" else actions  # ours does not know the logged policy either
        values = peers.tabular_lstd(log, target, DISCOUNT, shape=shape, ridges=RIDGES)
        found = {
            f"counts, ridge {ridge:g}": float(known.starts @ each) for ridge, each in zip(RIDGES, values, strict=True)
        }
        if self.target == "uniform":
            return found | {"mean of returns": peers.mean_return(log, DISCOUNT)}
        return found | {"importance sampling": peers.importance_sampling(log, target, uniform, DISCOUNT)}


@final
@dataclass(frozen=True)
class DoubleWell(OneTruth):
    """One question of deeptime's discrete double well, of single steps from all states alike."""

    kind = "worlds"
    error = "median"
    asked: str
    rows: int

    @property
    def name(self) -> str:
        return f"{self.asked} of double_well_discrete, {self.rows}"

    @property
    def needs(self) -> str:
        """The package that it is of."""
        return "deeptime"

    @property
    def may_refuse(self) -> bool:
        return True

    def truth(self) -> tuple[float, float]:
        return _of_chain(_double_well(), self.asked), 0.0

    def log(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng((seed, 5))
        state = rng.integers(CELLS, size=self.rows)
        return state, np.sum(rng.random((self.rows, 1)) > _double_well().cumsum(axis=1)[state], axis=1)

    def answer(self, log: tuple[np.ndarray, np.ndarray]) -> Reply:
        from dualembed.estimators import CommittorRegressor, HittingTimeRegressor

        first, last = STEPS_BETWEEN
        if self.asked == "committor":
            which = CommittorRegressor([first], [last]).fit(*log)
            return Reply(which.ask(which.at([BETWEEN])))
        times = HittingTimeRegressor([last]).fit(*log)
        return Reply(times.ask(times.at([first])))

    def rivals(self, log: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
        counts = np.zeros((CELLS, CELLS))
        np.add.at(counts, log, 1.0)
        return {"counts": _of_chain(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0), self.asked)}


@cache
def _double_well() -> np.ndarray:
    from deeptime.data import double_well_discrete

    return np.asarray(double_well_discrete().analytic_msm.transition_matrix)


def _of_chain(shares: np.ndarray, asked: str) -> float:
    """The time from one state to another of a chain with these transitions (n, n), or the committor between both."""
    first, last = STEPS_BETWEEN
    inner = np.setdiff1d(np.arange(CELLS), STEPS_BETWEEN if asked == "committor" else [last])
    known = shares[inner, last] if asked == "committor" else np.ones(len(inner))
    found = np.linalg.lstsq(np.eye(len(inner)) - shares[np.ix_(inner, inner)], known, rcond=None)[0]
    return float(found[inner == (BETWEEN if asked == "committor" else first)][0])


TABLES = (("FrozenLake", 20_000), ("FrozenLake8x8", 20_000), ("CliffWalking", 20_000))
EVERY = (
    *(InTable(world, target, rows) for world, rows in TABLES for target in ("uniform", "better")),
    InTable("Taxi", "uniform", 20_000),
    *(DoubleWell(asked, 50_000) for asked in ("passage time", "committor")),
)


def is_there(case: Any) -> bool:
    """Whether the package is installed that the case is of, if it is of one; said where it is not."""
    needs = getattr(case, "needs", None)
    if needs is None or importlib.util.find_spec(needs) is not None:
        return True
    warnings.warn(f"{case.name} is left out, since {needs} is not installed; pip install {needs}", stacklevel=2)
    return False
