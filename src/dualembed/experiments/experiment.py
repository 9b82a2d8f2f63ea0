"""An experiment: methods that are compared on the same data, and what a sweep may choose for each of them.

The methods that most of them share are here too: stochastic solvers, the closed form, and the model chosen from the
data alone.
"""

from __future__ import annotations

import itertools
import json
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualembed import schedules, solvers
from dualembed.checks import InputError
from dualembed.experiments import NAMES
from dualembed.experiments.report import Report, curves
from dualembed.problems.base import Problem
from dualembed.saddle import Saddle
from dualembed.selection import auto
from dualembed.solvers.base import ITERATES, DivergenceWarning, Result
from dualembed.solvers.stochastic import StochasticSolver
from dualembed.spaces.base import Function

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TUNING_SEEDS = range(1000, 1006)  # of trials on which settings are chosen, never reported
LOOKS = 10  # at the metric, equally spaced in the logarithm of the samples
TOGETHER = 64  # runs of a sweep at once
STEPS = ("primal rate", "dual rate", "offset", "power")  # what differs between runs that share their kernel values

Settings = dict[str, Any]  # a method's hyper-parameters by name, as plain JSON values


@dataclass(frozen=True)
class Curve:
    """What one method made of one trial.

    Attributes
    ----------
    samples : list of int
        Numbers of samples at which the metric was looked at.
    values : list of float
        The metric there; infinite from where a run diverged.
    extras : dict
        What else there is to say of the end, by name.
    """

    samples: list[int]
    values: list[float]
    extras: dict[str, Any] = field(default_factory=dict)


class Candidates(NamedTuple):
    """One choice that a sweep makes for a method.

    Attributes
    ----------
    candidates : list of dict
        The settings to choose from.
    samples : int
        Samples after which the best is chosen.
    name : str, optional
        The part of the method's settings that the choice makes up; by default all of them.
    """

    candidates: list[Settings]
    samples: int
    name: str | None = None


class Contender(ABC):
    """A method in an experiment, with everything but its setting fixed."""

    @abstractmethod
    def run(self, settings: Settings, seed: int, samples: int) -> Curve:
        """Run the method on one trial.

        Parameters
        ----------
        settings : dict
            The method's hyper-parameters by name.
        seed : int
            Seed of the trial.
        samples : int
            Samples that the method may use.

        Returns
        -------
        Curve
            Its metric along the way.
        """

    def grid(self) -> list[Settings]:
        """List every setting that a sweep tries; by default there is nothing to choose.

        Returns
        -------
        list of dict
            The settings.
        """
        return [{}]

    def choices(self, samples: int) -> list[Candidates]:
        """List what a sweep chooses; by default one setting of the grid for the whole run.

        Parameters
        ----------
        samples : int
            Samples of the run.

        Returns
        -------
        list of Candidates
            The choices.
        """
        return [Candidates(self.grid(), samples)]

    def batches(self, candidates: list[Settings]) -> list[list[Settings]]:
        """Group candidates that are cheaper to compute together; by default each is by itself.

        Parameters
        ----------
        candidates : list of dict
            Settings.

        Returns
        -------
        list of list of dict
            The groups.
        """
        return [[each] for each in candidates]

    def finals(self, candidates: list[Settings], seed: int, samples: int, *, rough: bool = False) -> list[float]:
        """Compute the metric at the end for each setting.

        Parameters
        ----------
        candidates : list of dict
            Settings.
        seed : int
            Seed of the trial.
        samples : int
            Samples that the method may use.
        rough : bool, default=False
            Whether a rough look at the metric will do.

        Returns
        -------
        list of float
            The metrics; infinite where a run diverged.
        """
        return [self.run(settings, seed, samples).values[-1] for settings in candidates]


class Round(NamedTuple):
    """One round of a sweep.

    Attributes
    ----------
    share : float
        Share of the samples.
    trials : int
        Number of trials.
    kept : int
        Settings that stay for the next round.
    """

    share: float
    trials: int
    kept: int


ROUNDS = (Round(1 / 8, 1, 24), Round(1 / 2, 1, 6), Round(1, 2, 1))


@dataclass(frozen=True)
class Experiment:
    """What `dualembed reproduce` runs.

    Attributes
    ----------
    name : str
        The name of the experiment, which is that of its module.
    title : str
        Title of the figure.
    metric : str
        What the errors are.
    settings : dict
        What is the same for all methods, as results.json tells it.
    contenders : dict
        The methods by name.
    samples : int
        Samples of a run.
    quick_samples : int
        Samples of a run with --quick.
    most_trials : int, optional
        Trials at most, where the data have no more.
    draw : callable
        From the report and the curves of all methods to the figure.
    rounds : tuple of Round
        Rounds of the sweep.
    """

    name: str
    title: str
    metric: str
    settings: Settings
    contenders: dict[str, Contender]
    samples: int
    quick_samples: int
    most_trials: int | None = None
    draw: Callable[[Report, dict[str, list[Curve]]], Figure] = lambda report, _: curves(report)
    rounds: tuple[Round, ...] = ROUNDS

    def chosen(self) -> dict[str, Settings]:
        """Read the settings that the recorded sweep chose.

        Returns
        -------
        dict
            Settings by the name of the method.
        """
        file = resources.files("dualembed.experiments") / "settings" / f"{self.name}.json"
        recorded = json.loads(file.read_text(encoding="utf-8"))["chosen"] if file.is_file() else {}
        return {name: recorded.get(name, {}) for name in self.contenders}


def find_experiment(name: str) -> Experiment:
    """Find an experiment by its name.

    Parameters
    ----------
    name : str
        One of `experiments.NAMES`.

    Returns
    -------
    Experiment
        The experiment.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    if name not in NAMES:
        raise InputError(f"there is no experiment named {name!r}; choose one of: {', '.join(NAMES)}")
    return import_module(f"dualembed.experiments.{name}").EXPERIMENT


@dataclass(frozen=True)
class Setup:
    """What a trial stands on.

    Attributes
    ----------
    problem : Problem
        The problem to solve.
    error : callable
        The metric of a function.
    extras : callable
        Further figures of the last function, by name.
    rough : callable, optional
        A rough look at the metric, for sweeps over many settings.
    """

    problem: Problem
    error: Callable[[Function], float]
    extras: Callable[[Function], dict[str, Any]] = lambda _: {}
    rough: Callable[[Function], float] | None = None

    def judge(self, rough: bool) -> Callable[[Function], float]:
        """The metric, or the rough one where that is wanted and there is one."""
        return self.rough if rough and self.rough is not None else self.error


Setups = Callable[[int, int], Setup]  # (seed, samples) -> the trial


@dataclass(frozen=True)
class Axes:
    """A grid: every combination of the values of each name, but for offsets of steps whose power is 0.

    Attributes
    ----------
    values : dict
        The values of each setting by name.
    """

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


class Stepping(Contender):
    """A method whose settings are those of its steps, and others.

    The iterate ("averaged" or "last") is a setting too, and a run tells both. A sweep makes runs that differ in their
    steps only at once: they visit the same samples, so that kernel values are shared.
    """

    axes: Axes
    batch: int

    @abstractmethod
    def setup(self, settings: Settings, seed: int, samples: int) -> Setup:
        """The trial; the settings matter where the inputs depend on them."""

    @abstractmethod
    def solve(self, settings: Settings, problem: Problem, seed: int, *, samples: int, probe: solvers.Probe) -> Result:
        """One run over so many samples, looked at along the way."""

    @abstractmethod
    def solve_together(
        self, group: list[Settings], seed: int, samples: int, *, rough: bool
    ) -> Iterator[tuple[float, float]]:
        """(averaged, last) metrics of settings that differ in their steps only; infinite where a run diverged."""

    def steps(self, samples: int) -> int:
        """The number of steps that use so many samples up."""
        return max(1, samples // self.batch)

    def run(self, settings: Settings, seed: int, samples: int) -> Curve:
        """A run over so many samples, looked at along the way; infinite from where it diverged."""
        setup, marks = self.setup(settings, seed, samples), log_spaced(self.steps(samples))
        averaged = settings["iterate"] == "averaged"
        probe = solvers.Probe(lambda primal, _: setup.error(primal), at=marks, iterates=settings["iterate"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DivergenceWarning)  # the curve says so
            result = self.solve(settings, setup.problem, seed, samples=samples, probe=probe)
        seen = result.trace.averaged if averaged else result.trace.last  # type: ignore[union-attr]
        reached = len(marks) if result.finite else sum(mark < result.steps for mark in marks)
        values = [*seen[:reached], *[math.inf] * (len(marks) - reached)]
        extras = setup.extras(result.primal if averaged else result.last.primal)
        extras = extras if result.finite else dict.fromkeys(extras, math.inf)
        return Curve([mark * self.batch for mark in marks], values, extras)

    def grid(self) -> list[Settings]:
        """The axes' combinations, both iterates of each."""
        return [{**each, "iterate": iterate} for each in self.axes for iterate in ITERATES]

    def batches(self, candidates: list[Settings]) -> list[list[Settings]]:
        """Candidates that differ in their steps only, as many as make TOGETHER runs."""
        alike: dict[str, dict[str, list[Settings]]] = {}
        for settings in candidates:
            others = {name: value for name, value in settings.items() if name not in (*STEPS, "iterate")}
            alike.setdefault(json.dumps(others), {}).setdefault(_run_of(settings), []).append(settings)
        batches = []
        for runs in (list(each.values()) for each in alike.values()):
            for start in range(0, len(runs), TOGETHER):
                batches.append(list(itertools.chain.from_iterable(runs[start : start + TOGETHER])))
        return batches

    def finals(self, candidates: list[Settings], seed: int, samples: int, *, rough: bool = False) -> list[float]:
        """The metric at the end of every run; settings with the same saddle go together."""
        errors: dict[tuple[str, str], float] = {}
        for batch in self.batches(candidates):
            runs = {_run_of(settings): settings for settings in batch}
            pairs = self.solve_together(list(runs.values()), seed, samples, rough=rough)
            for run, pair in zip(runs, pairs, strict=True):
                errors |= zip(((run, iterate) for iterate in ITERATES), pair, strict=True)
        return [errors[_run_of(settings), settings["iterate"]] for settings in candidates]


@dataclass(frozen=True)
class Stochastic(Stepping):
    """A stochastic solver; its settings are those of its steps, and the saddle's own.

    Attributes
    ----------
    solver : callable
        From steps, batch and the schedules of both players to the solver.
    setups : callable
        From the settings to the trials.
    saddle : callable
        From the settings and the problem to the saddle.
    batch : int
        Samples of a step.
    axes : Axes
        The grid, but for the iterate.
    samples_a_row : int, default=1
        Samples for which a row of the data counts.
    """

    solver: Callable[..., StochasticSolver]
    setups: Callable[[Settings], Setups]
    saddle: Callable[[Settings, Problem], Saddle]
    batch: int
    axes: Axes
    samples_a_row: int = 1

    def setup(self, settings: Settings, seed: int, samples: int) -> Setup:
        """The trial of the settings."""
        return self.setups(settings)(seed, samples)

    def solve(self, settings: Settings, problem: Problem, seed: int, *, samples: int, probe: solvers.Probe) -> Result:
        """One run over so many samples, looked at along the way."""
        return solvers.solve(seed, self.saddle(settings, problem), self._solver(settings, samples), probe)

    def solve_together(
        self, group: list[Settings], seed: int, samples: int, *, rough: bool
    ) -> Iterator[tuple[float, float]]:
        """(averaged, last) metrics of settings that differ in their steps only; infinite where a run diverged."""
        setup = self.setup(group[0], seed, samples)
        error, saddle = setup.judge(rough), self.saddle(group[0], setup.problem)

        @jax.vmap
        def solve(steps: dict[str, jax.Array]) -> Result:
            return solvers.solve(seed, saddle, self._solver({**group[0], **steps}, samples))

        results = solve(stack_steps(group))
        for number in range(len(group)):
            one = jax.tree.map(lambda leaf, number=number: leaf[number], results)
            averaged, last = (error(each) if one.finite else math.inf for each in (one.primal, one.last.primal))
            yield averaged, last

    def _solver(self, settings: Settings, samples: int) -> StochasticSolver:
        dual = schedule(settings, "dual") if "dual rate" in settings else None
        return self.solver(self.steps(samples), self.batch // self.samples_a_row, schedule(settings), dual)


@dataclass(frozen=True)
class Batch(Contender):
    """A method that takes all its samples at once: a point of its curve for each of a few sizes of the data.

    Attributes
    ----------
    fit : callable
        From settings, problem and seed to the function.
    setups : callable
        From seed and samples to the trial.
    shares : tuple of float
        Sizes of the data, as shares of the samples.
    axes : Axes
        The grid.
    most : int, optional
        Samples that it is given at most, for its cost.
    """

    fit: Callable[[Settings, Problem, int], Function]  # (settings, problem, seed) -> the function
    setups: Setups
    shares: tuple[float, ...] = (1 / 16, 1 / 4, 1)  # of the samples
    axes: Axes = field(default_factory=lambda: Axes({}))
    most: int | None = None  # samples that it is given, for its cost

    def grid(self) -> list[Settings]:
        """The axes' combinations."""
        return list(self.axes)

    def run(self, settings: Settings, seed: int, samples: int) -> Curve:
        """The metric of a fit to each size."""
        sizes = [round(share * self._affordable(samples)) for share in self.shares]
        values = []
        for size in sizes:
            setup = self.setups(seed, size)
            function = self.fit(settings, setup.problem, seed)
            values.append(setup.error(function))
        return Curve(sizes, values, setup.extras(function))

    def finals(self, candidates: list[Settings], seed: int, samples: int, *, rough: bool = False) -> list[float]:
        """The metric of a fit to all samples, for each setting."""
        setup = self.setups(seed, self._affordable(samples))
        error = setup.judge(rough)
        return [error(self.fit(settings, setup.problem, seed)) for settings in candidates]

    def _affordable(self, samples: int) -> int:
        return samples if self.most is None else min(samples, self.most)


def schedule(settings: Settings, player: str = "primal") -> schedules.Schedule:
    """The player's steps, rate / (offset + t^power)."""
    return schedules.OffsetPower(settings[f"{player} rate"], settings["offset"], settings["power"])


def preconditioned(steps: int, batch: int, primal: Any, dual: Any) -> solvers.EmbeddingSGD:
    """Embedding-SGD in whitened coordinates."""
    return solvers.EmbeddingSGD(steps, batch, primal, dual, solvers.Preconditioner())


def self_tuned(setups: Setups, *, most: int | None = None) -> Batch:
    """Everything chosen from the data alone, by `auto`; all of the data only, since it is slow."""
    return Batch(lambda _, problem, seed: fit_self_tuned(problem, seed), setups, shares=(1,), most=most)


def closed_form(
    saddle: Callable[[Settings, Problem], Saddle],
    setups: Setups,
    axes: Axes,
    *,
    shares: tuple[float, ...] = Batch.shares,
    most: int | None = None,
) -> Batch:
    """`solvers.ClosedForm` with one fold."""

    def fit(settings: Settings, problem: Problem, seed: int) -> Function:
        return fit_closed_form(saddle(settings, problem), seed)

    return Batch(fit, setups, shares=shares, axes=axes, most=most)


def fit_self_tuned(problem: Problem, seed: int) -> Function:
    """What `auto` makes of the problem."""
    return auto(seed, problem).primal


def fit_closed_form(saddle: Saddle, seed: int) -> Function:
    """The saddle point, by `solvers.ClosedForm` with one fold."""
    return solvers.solve(seed, saddle, solvers.ClosedForm(1)).primal


def log_spaced(steps: int) -> list[int]:
    """The steps at which a run's metric is looked at: equally spaced in their logarithm, the last one among them."""
    return sorted({max(1, round(each)) for each in np.geomspace(steps / 200, steps, LOOKS)})


def stack_steps(group: list[Settings]) -> dict[str, jax.Array]:
    """The steps of settings that differ in nothing else, one array for each name."""
    return {name: jnp.asarray([each[name] for each in group], dtype=float) for name in STEPS if name in group[0]}


def _run_of(settings: Settings) -> str:
    """The same for both iterates of a run."""
    return json.dumps({name: value for name, value in settings.items() if name != "iterate"}, sort_keys=True)
