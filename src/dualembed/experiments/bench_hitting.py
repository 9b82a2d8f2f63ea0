"""Hitting times of the benchmark `answers`: walks, a grid and a process of Ornstein and Uhlenbeck."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np

from dualembed.experiments.bench_cases import OneTruth, Reply
from dualembed.experiments.bench_peers import tabular


@final
@dataclass(frozen=True)
class Moves:
    """Transitions (n, d) to (n, d) that do not start in the target."""

    seed: int
    states: np.ndarray
    next_states: np.ndarray


class Hitting(OneTruth):
    """The mean number of steps from one state to a target; also asked, for its intervals, at all `points`."""

    kind = "hitting"
    error = "median"

    @property
    @abstractmethod
    def points(self) -> np.ndarray:
        """States (k, d) outside the target; the first is the one that is asked about."""

    @abstractmethod
    def times(self) -> np.ndarray:
        """The true mean times from the points, (k,)."""

    @abstractmethod
    def target(self, states: np.ndarray) -> np.ndarray:
        """Whether states (n, d) are in the target, (n,)."""

    def truth(self) -> tuple[float, float]:
        return float(self.times()[0]), 0.0

    def at_points(self, log: Moves) -> np.ndarray:
        return self.times()

    def answer(self, log: Moves) -> Reply:
        from dualembed.estimators import HittingTimeRegressor

        model = HittingTimeRegressor(self.target).fit(log.states, log.next_states)
        return Reply(model.ask(model.at(self.points[:1])), model.interval(self.points))


@final
@dataclass(frozen=True)
class Walk(Hitting):
    """From 0 to `last`, one up with probability `up`, else one down; from 0 always up."""

    last: int
    up: float
    rows: int

    @property
    def name(self) -> str:
        return f"walk 0..{self.last}, up {self.up:g}, {self.rows}"

    @property
    def quick(self) -> bool:
        return self.last <= 10

    @property
    def points(self) -> np.ndarray:
        return np.arange(self.last, dtype=float)[:, None]

    def target(self, states: np.ndarray) -> np.ndarray:
        return np.asarray(states)[:, 0] >= self.last

    def times(self) -> np.ndarray:
        shares = np.zeros((self.last, self.last + 1))
        inner = np.arange(1, self.last)
        shares[inner, inner + 1], shares[inner, inner - 1], shares[0, 1] = self.up, 1 - self.up, 1.0
        return np.linalg.solve(np.eye(self.last) - shares[:, :-1], np.ones(self.last))

    def log(self, seed: int) -> Moves:
        rng = np.random.default_rng((seed, 4))
        states = rng.integers(self.last, size=self.rows)
        moves = np.where((rng.random(self.rows) < self.up) | (states == 0), 1, -1)
        return Moves(seed, states[:, None].astype(float), (states + moves)[:, None].astype(float))

    def rivals(self, log: Moves) -> dict[str, float]:
        origins, destinations = log.states[:, 0].astype(int), log.next_states[:, 0].astype(int)
        return {"counts": float(tabular(origins, destinations, states=self.last)[0])}


@final
@dataclass(frozen=True)
class Grid(Hitting):
    """A walk to one of four neighbours on a square of cells, which stays where there is a wall; to the far corner."""

    side: int
    rows: int

    @property
    def name(self) -> str:
        return f"grid {self.side} x {self.side}, {self.rows}"

    @property
    def points(self) -> np.ndarray:
        return self._cells(np.arange(self.side**2 - 1))

    def target(self, states: np.ndarray) -> np.ndarray:
        return np.asarray(states).sum(axis=1) >= 2 * (self.side - 1)

    def times(self) -> np.ndarray:
        count = self.side**2
        shares = np.zeros((count, count))
        for move in _MOVES:
            np.add.at(shares, (np.arange(count), self._numbers(self._moved(self._cells(np.arange(count)), move))), 0.25)
        return np.linalg.solve(np.eye(count - 1) - shares[:-1, :-1], np.ones(count - 1))

    def log(self, seed: int) -> Moves:
        rng = np.random.default_rng((seed, 5))
        states = self._cells(rng.integers(self.side**2 - 1, size=self.rows))
        return Moves(seed, states, self._moved(states, _MOVES[rng.integers(4, size=self.rows)]))

    def rivals(self, log: Moves) -> dict[str, float]:
        origins, destinations = self._numbers(log.states), self._numbers(log.next_states)
        return {"counts": float(tabular(origins, destinations, states=self.side**2 - 1)[0])}

    def _moved(self, cells: np.ndarray, moves: np.ndarray) -> np.ndarray:
        return np.clip(cells + moves, 0, self.side - 1)

    def _cells(self, numbers: np.ndarray) -> np.ndarray:
        return np.stack(np.divmod(numbers, self.side), axis=1).astype(float)

    def _numbers(self, cells: np.ndarray) -> np.ndarray:
        return (self.side * cells[:, 0] + cells[:, 1]).astype(int)


_MOVES = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])


@final
@dataclass(frozen=True)
class OrnsteinUhlenbeck(Hitting):
    """x' = 0.9 x + 0.3 noise, from 0 until x is at least 1; states are uniform on [-1.5, 1.2], as far as outside."""

    rows: int

    @property
    def name(self) -> str:
        return f"Ornstein-Uhlenbeck, {self.rows}"

    @property
    def points(self) -> np.ndarray:
        return np.append(0.0, np.linspace(-1.4, 0.95, 48))[:, None]

    def target(self, states: np.ndarray) -> np.ndarray:
        return np.asarray(states)[:, 0] >= 1

    def times(self) -> np.ndarray:
        return np.interp(self.points[:, 0], *_fine_times())

    def log(self, seed: int) -> Moves:
        rng = np.random.default_rng((seed, 6))
        drawn = rng.uniform(-1.5, 1.2, self.rows)
        states = drawn[drawn < 1][:, None]
        return Moves(seed, states, 0.9 * states + 0.3 * rng.standard_normal(states.shape))

    def rivals(self, log: Moves) -> dict[str, float]:
        """Counts of 30 bins between -1.5 and 1; what leaves them to the left counts for the first."""
        edges = np.linspace(-1.5, 1, _BINS + 1)
        origins = np.clip(np.searchsorted(edges, log.states[:, 0], side="right") - 1, 0, _BINS - 1)
        destinations = np.clip(np.searchsorted(edges, log.next_states[:, 0], side="right") - 1, 0, _BINS)
        times = tabular(origins, destinations, states=_BINS)
        return {f"{_BINS} bins": float(np.interp(0.0, (edges[:-1] + edges[1:]) / 2, times))}


_BINS = 30


@cache
def _fine_times() -> tuple[Any, Any]:
    """States and their mean times, on a fine grid whose cells end at the target."""
    width = 0.004
    grid = 1 - width / 2 - width * np.arange(1250)[::-1]
    density = np.exp(-((grid - 0.9 * grid[:, None]) ** 2) / (2 * 0.3**2)) * width / (0.3 * np.sqrt(2 * np.pi))
    return grid, np.linalg.solve(np.eye(len(grid)) - density, np.ones(len(grid)))


CASES: list[Hitting] = [
    *(Walk(last, up, rows) for last, rows in ((10, 3000), (30, 20_000)) for up in (0.5, 0.45, 0.55)),
    Grid(10, 10_000),
    OrnsteinUhlenbeck(3000),
    OrnsteinUhlenbeck(20_000),
]
