"""The benchmark `worlds`: committors, long-run averages, rates and passage times of processes that are known.

Most cases are a particle in a one-dimensional potential, logged as many short paths or as one long one. The truth is
that of the same steps on a fine grid, and rivals are Markov state models: counts of transitions between 20, 50 or 100
cells, which know the sets exactly. The others are worlds whose states are a table (`bench_tables`).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import numpy as np

from dualembed import checks
from dualembed.experiments import bench_tables
from dualembed.experiments.bench_answers import Outcome, run_case, together
from dualembed.experiments.bench_answers import tables as tables  # of lines alike
from dualembed.experiments.bench_cases import OneTruth, Reply
from dualembed.progress import Track

CELLS = (20, 50, 100)


@final
@dataclass(frozen=True)
class Well:
    """dx = force(x) dt + deviation dW, in Euler's steps of length `step`, looked at after `skip` of them each time.

    A is below and B above; paths start uniformly in `starts`, and the grid covers `ends`.
    """

    force: Callable[[np.ndarray], np.ndarray]
    deviation: float
    step: float
    skip: int
    below: float
    above: float
    starts: tuple[float, float]
    ends: tuple[float, float]
    grid: int

    def places(self, x: np.ndarray) -> np.ndarray:
        """1 in A, 2 in B, 0 in neither."""
        return np.where(x < self.below, 1, np.where(x > self.above, 2, 0))

    def paths(self, seed: int, count: int, length: int) -> np.ndarray:
        """So many paths (count, 1 + length)."""
        rng = np.random.default_rng((seed, 7))
        x = rng.uniform(*self.starts, count)
        found = [x]
        for _ in range(length):
            for _ in range(self.skip):
                x = x + self.step * self.force(x) + self.deviation * np.sqrt(self.step) * rng.standard_normal(count)
            found.append(x)
        return np.stack(found, axis=1)

    def chain(self) -> tuple[np.ndarray, np.ndarray]:
        """(states (n,), their transitions (n, n)) on the grid."""
        width = (self.ends[1] - self.ends[0]) / self.grid
        x = self.ends[0] + width * (np.arange(self.grid) + 0.5)
        away = x - (x + self.step * self.force(x))[:, None]
        shares = np.exp(-(away**2) / (2 * self.deviation**2 * self.step))
        return x, np.linalg.matrix_power(shares / shares.sum(axis=1, keepdims=True), self.skip)


def _triple(x: np.ndarray) -> np.ndarray:
    terms = (-24.82, 82.8502, -82.6032, 34.12512, -6.2003, 0.4104)
    return -np.polynomial.polynomial.polyval(x, terms)


def _quadruple(x: np.ndarray) -> np.ndarray:
    bumps = ((0.8, 80, 0.0), (0.2, 80, 0.5), (0.5, 40, -0.5))
    pushed = sum(2 * size * sharp * (x - at) * np.exp(-sharp * (x - at) ** 2) for size, sharp, at in bumps)
    return -4 * (8 * x**7 - np.asarray(pushed))


WELLS = {
    "Ornstein-Uhlenbeck": Well(np.negative, 0.5**0.5, 1e-2, 20, -0.7, 0.7, (-1.5, 1.5), (-2.4, 2.4), 480),
    "four wells": Well(_quadruple, 2**0.5, 1e-3, 20, -0.5, 0.45, (-1.1, 1.1), (-1.5, 1.5), 300),
    "three wells": Well(_triple, 0.75, 1e-2, 50, 1.2, 4.2, (0.0, 5.5), (-0.8, 6.2), 350),
}


def solutions(shares: np.ndarray, places: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
    """What is asked of a chain with these transitions (n, n), in whose sets the states x (n,) are."""
    outside, first = places == 0, places == 1
    inner = np.eye(int(outside.sum())) - shares[np.ix_(outside, outside)]
    ahead, left = (places == 2).astype(float), np.zeros(len(x))
    ahead[outside] = np.linalg.lstsq(inner, shares[outside] @ (places == 2), rcond=None)[0]
    left[outside] = np.linalg.lstsq(inner, np.ones(len(inner)), rcond=None)[0]
    system = np.vstack([shares.T - np.eye(len(x)), np.ones(len(x))])
    law = np.linalg.lstsq(system, np.append(np.zeros(len(x)), 1.0), rcond=None)[0]
    rate = float(law[first] @ (shares[first] @ ahead))
    time = float(law[first] @ (1 + shares[first] @ left))
    found = {"committor": ahead, "long-run mean": law @ x, "long-run probability": law[first].sum()}
    return {**found, "rate": np.asarray(rate), "passage time": np.asarray(time / rate if rate > 0 else np.inf)}


@cache
def truths(name: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """(states on the grid, what is asked there)."""
    x, shares = WELLS[name].chain()
    return x, solutions(shares, WELLS[name].places(x), x)


@final
@dataclass(frozen=True)
class Paths:
    """Transitions (n,) to (n,) of labelled paths."""

    seed: int
    states: np.ndarray
    next_states: np.ndarray
    episodes: np.ndarray


@final
@dataclass(frozen=True)
class InWells(OneTruth):
    """One question of one potential, of logs of so many rows in so many paths; of rates it is the median error."""

    kind = "worlds"
    error = "median"
    well: str
    asked: str
    rows: int
    paths: int

    @property
    def name(self) -> str:
        return f"{self.asked} of {self.well}, {self.rows} in {self.paths}"

    @property
    def quick(self) -> bool:
        return self.well == "Ornstein-Uhlenbeck" and self.asked in ("committor", "long-run mean")

    @property
    def may_refuse(self) -> bool:
        return self.well == "three wells"

    @property
    def middle(self) -> float:
        """Where the committor is asked for."""
        return (WELLS[self.well].below + WELLS[self.well].above) / 2

    def truth(self) -> tuple[float, float]:
        x, known = truths(self.well)
        found = known[self.asked]
        return float(np.interp(self.middle, x, found) if found.ndim else found), 0.0

    def log(self, seed: int) -> Paths:
        x = WELLS[self.well].paths(seed, self.paths, self.rows // self.paths)
        labels = np.repeat(np.arange(self.paths), self.rows // self.paths)
        return Paths(seed, x[:, :-1].ravel(), x[:, 1:].ravel(), labels)

    def answer(self, log: Paths) -> Reply:
        from dualembed.estimators import CommittorRegressor, StationaryAverage

        well, steps = WELLS[self.well], (log.states, log.next_states)
        below, above = (lambda s, number=number: well.places(np.asarray(s)[:, 0]) == number for number in (1, 2))
        if self.asked.startswith("long-run"):
            asked = None if self.asked.endswith("mean") else below
            return Reply(StationaryAverage(asked).fit(*steps, episodes=log.episodes).mean())
        model = CommittorRegressor(below, above).fit(*steps, episodes=log.episodes)
        if self.asked == "committor":
            return Reply(model.ask(model.at([self.middle])))
        return Reply(model.rate() if self.asked == "rate" else model.passage_time())

    def rivals(self, log: Paths) -> dict[str, float]:
        return {f"{cells} cells": self._counted(log, cells) for cells in CELLS}

    def _counted(self, log: Paths, cells: int) -> float:
        """What counts between cells say; a cell that is in part of a set is two."""
        well = WELLS[self.well]
        edges = np.linspace(*well.starts, cells + 1)[1:-1]

        def code(x: np.ndarray) -> np.ndarray:
            return 3 * np.searchsorted(edges, x, side="right") + well.places(x)

        both = np.concatenate([log.states, log.next_states])
        names, numbers = np.unique(code(both), return_inverse=True)
        counts = np.zeros((len(names), len(names)))
        np.add.at(counts, tuple(np.split(numbers, 2)), 1.0)
        counts[counts.sum(axis=1) == 0] = 1.0  # what was never left may lead anywhere
        means = np.bincount(numbers, both) / np.bincount(numbers)
        found = solutions(counts / counts.sum(axis=1, keepdims=True), names % 3, means)[self.asked]
        asked = np.flatnonzero(names == code(np.array([self.middle]))[0])
        return float((found[asked[0]] if len(asked) else np.nan) if found.ndim else found)


ASKED = ("committor", "long-run mean", "long-run probability", "rate", "passage time")
LOGS = (("Ornstein-Uhlenbeck", 2000, 200), ("four wells", 2000, 200), ("three wells", 4000, 400))
LONG = (("Ornstein-Uhlenbeck", 4000, 1), ("four wells", 4000, 1))
IN_WELLS = (InWells(well, asked, rows, paths) for well, rows, paths in (*LOGS, *LONG) for asked in ASKED)
CASES: dict[str, OneTruth] = {case.name: case for case in (*IN_WELLS, *bench_tables.EVERY)}
"""Every case by its name."""


def bench(
    *, trials: int, seed: int, quick: bool, progress: Track, case: str | None = None, kind: str | None = None
) -> Iterator[dict[str, Any]]:
    """A line for each case as soon as it is known, and one for all; `trials` is the number of logs of a case."""
    if kind not in (None, "worlds"):
        raise checks.InputError(f"there is no set of cases named '{kind}' in worlds, which has the one set worlds")
    cases = [each for name, each in CASES.items() if case is None or fnmatch.fnmatchcase(name, case)]
    cases = [each for each in cases if each.quick] or cases[:1] if quick else cases
    if not cases:
        raise checks.InputError(
            f"no case is named '{case}'; names are such as '{next(iter(CASES))}', '*' stands for any"
        )
    cases = [each for each in cases if bench_tables.is_there(each)]
    outcomes: list[Outcome] = []
    with progress(len(cases), "worlds") as bar:
        for number, each in enumerate(cases):
            outcomes.append(run_case(each, range(seed, seed + trials)))
            bar.advance(to=number + 1)
            yield {**outcomes[-1].line(), "bench": "worlds"}
    yield {**together(outcomes), "bench": "worlds"}
