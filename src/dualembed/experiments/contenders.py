"""The methods of the experiments: stochastic solvers, the closed form, and the model chosen from the data alone."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualembed import schedules, solvers
from dualembed.experiments.experiment import Contender, Curve, Settings
from dualembed.problems.base import Problem
from dualembed.saddle import Saddle
from dualembed.selection import auto
from dualembed.solvers.base import ITERATES, DivergenceWarning, Result
from dualembed.solvers.stochastic import StochasticSolver
from dualembed.spaces.base import Function

LOOKS = 10  # at the metric, equally spaced in the logarithm of the samples
TOGETHER = 64  # settings run at once by a sweep
MANY = 50  # settings, from which on a sweep looks roughly
STEPS = ("primal rate", "dual rate", "offset", "power")  # what differs between runs that share their kernel values


@dataclass(frozen=True)
class Ground:
    """What a trial stands on: its problem, the metric of a function there, and further figures for the last one.

    A sweep's look at many settings at once may be a `rough` one.
    """

    problem: Problem
    error: Callable[[Function], float]
    beside: Callable[[Function], dict[str, float]] = lambda _: {}
    rough: Callable[[Function], float] | None = None

    def judge(self, candidates: int) -> Callable[[Function], float]:
        """The metric by which so many settings are compared."""
        return self.rough if self.rough is not None and candidates > MANY else self.error


Grounds = Callable[[int, int], Ground]  # (seed, samples) -> the trial


@dataclass(frozen=True)
class Axes:
    """A grid: every combination of the values of each name, but for offsets of steps whose power is 0."""

    values: dict[str, Sequence[Any]]

    def __iter__(self) -> Iterator[Settings]:
        seen = set()
        for choice in itertools.product(*self.values.values()):
            settings = dict(zip(self.values, choice, strict=True))
            if settings.get("power") == 0:
                settings["offset"] = 0.0
            name = json.dumps(settings)
            if name not in seen:
                seen.add(name)
                yield settings


@dataclass(frozen=True)
class Stochastic(Contender):
    """A stochastic solver on batches of a size; its settings are those of its steps, and the saddle's own.

    The iterate ("averaged" or "last") is a setting too. A sweep runs settings that differ in their steps only at once:
    they visit the same samples, so that kernel values are shared.
    """

    solver: Callable[..., StochasticSolver]
    grounds: Grounds
    saddle: Callable[[Settings, Problem], Saddle]
    batch: int
    axes: Axes

    def grid(self) -> list[Settings]:
        """The axes' combinations, both iterates of each."""
        return [{**each, "iterate": iterate} for each in self.axes for iterate in ITERATES]

    def run(self, settings: Settings, seed: int, samples: int) -> Curve:
        """A run over so many samples, looked at along the way; infinite from where it diverged."""
        ground, steps = self.grounds(seed, samples), samples // self.batch
        probe = solvers.Probe(lambda primal, _: ground.error(primal), at=marks_of(steps), iterates=settings["iterate"])
        saddle = self.saddle(settings, ground.problem)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DivergenceWarning)  # the curve says so
            result = solvers.solve(seed, saddle, self._stepping(settings, steps), probe)
        return curve_of(result, settings["iterate"], steps, batch=self.batch, beside=ground.beside)

    def finals(self, candidates: list[Settings], seed: int, samples: int) -> list[float]:
        """The metric at the end of every run; settings with the same saddle go together."""
        ground = self.grounds(seed, samples)
        ground = replace(ground, error=ground.judge(len(candidates)))
        return finals_of(candidates, lambda group: self._together(group, ground, seed, samples))

    def _together(
        self, group: list[Settings], ground: Ground, seed: int, samples: int
    ) -> Iterator[tuple[float, float]]:
        """(averaged, last) errors of settings that differ in their steps only."""
        saddle, steps = self.saddle(group[0], ground.problem), samples // self.batch
        columns = stacked(group)

        @jax.vmap
        def solved(moving: dict[str, jax.Array]) -> Result:
            return solvers.solve(seed, saddle, self._stepping({**group[0], **moving}, steps))

        results = solved(columns)
        for number in range(len(group)):
            one = jax.tree.map(lambda leaf, number=number: leaf[number], results)
            functions = (one.primal, one.last.primal)
            yield tuple(ground.error(each) if one.finite else math.inf for each in functions)  # type: ignore[misc]

    def _stepping(self, settings: Settings, steps: int) -> StochasticSolver:
        dual = schedule(settings, "dual") if "dual rate" in settings else None
        return self.solver(steps, self.batch, schedule(settings), dual)


@dataclass(frozen=True)
class Batch(Contender):
    """A method that takes all its samples at once: a point of its curve for each of a few sizes of the data."""

    fit: Callable[[Settings, Problem, int], Function]  # (settings, problem, seed) -> the function
    grounds: Grounds
    shares: tuple[float, ...] = (1 / 16, 1 / 4, 1)  # of the samples
    axes: Axes = field(default_factory=lambda: Axes({}))

    def grid(self) -> list[Settings]:
        """The axes' combinations."""
        return list(self.axes)

    def run(self, settings: Settings, seed: int, samples: int) -> Curve:
        """The metric of a fit to each size."""
        sizes = [round(share * samples) for share in self.shares]
        values, beside = [], {}
        for size in sizes:
            ground = self.grounds(seed, size)
            function = self.fit(settings, ground.problem, seed)
            values.append(ground.error(function))
            if size == sizes[-1]:
                beside = ground.beside(function)
        return Curve(sizes, values, beside)

    def finals(self, candidates: list[Settings], seed: int, samples: int) -> list[float]:
        """The metric of a fit to all samples, for each setting."""
        ground = self.grounds(seed, samples)
        error = ground.judge(len(candidates))
        return [error(self.fit(settings, ground.problem, seed)) for settings in candidates]


def schedule(settings: Settings, player: str = "primal") -> schedules.Schedule:
    """The player's steps, rate / (offset + t^power)."""
    return schedules.OffsetPower(settings[f"{player} rate"], settings["offset"], settings["power"])


def self_tuned(grounds: Grounds) -> Batch:
    """Everything chosen from the data alone, by `auto`; all of the data only, since it is slow."""
    return Batch(lambda _, problem, seed: auto(seed, problem).primal, grounds, shares=(1,))


def closed_form(saddle: Callable[[Settings, Problem], Saddle], grounds: Grounds, axes: Axes) -> Batch:
    """`solvers.ClosedForm` with one fold."""

    def fit(settings: Settings, problem: Problem, seed: int) -> Function:
        return solvers.solve(seed, saddle(settings, problem), solvers.ClosedForm(1)).primal

    return Batch(fit, grounds, axes=axes)


def marks_of(steps: int) -> list[int]:
    """The steps at which a run's metric is looked at: equally spaced in their logarithm, the last one among them."""
    return sorted({max(1, round(each)) for each in np.geomspace(steps / 200, steps, LOOKS)})


def curve_of(
    result: Result, iterate: str, steps: int, *, batch: int, beside: Callable[[Function], dict[str, float]]
) -> Curve:
    """The curve of a probed run; infinite from where it diverged."""
    averaged, marks = iterate == "averaged", marks_of(steps)
    seen = result.trace.averaged if averaged else result.trace.last  # type: ignore[union-attr]
    reached = len(marks) if result.finite else sum(mark < result.steps for mark in marks)
    values = [*seen[:reached], *[math.inf] * (len(marks) - reached)]
    figures = beside(result.primal if averaged else result.last.primal)
    figures = figures if result.finite else dict.fromkeys(figures, math.inf)
    return Curve([mark * batch for mark in marks], values, figures)


def finals_of(
    candidates: list[Settings], together: Callable[[list[Settings]], Iterator[tuple[float, float]]]
) -> list[float]:
    """The metric of every candidate's iterate, where `together` runs settings that differ in their steps only."""
    groups: dict[str, dict[str, Settings]] = {}
    for settings in candidates:
        fixed = {name: value for name, value in settings.items() if name not in (*STEPS, "iterate")}
        groups.setdefault(json.dumps(fixed), {})[_key(settings, "either")] = settings
    errors: dict[str, float] = {}
    for group in groups.values():
        for some in _batched(list(group.values())):
            for settings, pair in zip(some, together(some), strict=True):
                errors |= zip((_key(settings, iterate) for iterate in ITERATES), pair, strict=True)
    return [errors[_key(settings, settings["iterate"])] for settings in candidates]


def stacked(group: list[Settings]) -> dict[str, jax.Array]:
    """The steps of settings that differ in nothing else, one array for each name."""
    return {name: jnp.asarray([each[name] for each in group], dtype=float) for name in STEPS if name in group[0]}


def _batched(settings: list[Settings]) -> Iterator[list[Settings]]:
    for start in range(0, len(settings), TOGETHER):
        yield settings[start : start + TOGETHER]


def _key(settings: Settings, iterate: str) -> str:
    return json.dumps({**settings, "iterate": iterate}, sort_keys=True)
