"""An experiment: methods that are compared on the same data, and what a sweep may choose for each of them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module, resources
from typing import TYPE_CHECKING, Any, NamedTuple

from dualembed.checks import InputError
from dualembed.experiments import NAMES
from dualembed.experiments.report import Report, curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TUNING_SEEDS = range(1000, 1006)  # of trials on which settings are chosen, never reported

Settings = dict[str, Any]  # a method's hyper-parameters by name, as plain JSON values


@dataclass(frozen=True)
class Curve:
    """What one method made of one trial: its metric after so many samples, and what else there is to say of the end."""

    samples: list[int]
    values: list[float]
    beside: dict[str, Any] = field(default_factory=dict)


class Choice(NamedTuple):
    """One choice that a sweep makes for a method: of these candidates the best after so many samples.

    It makes up all of the method's settings, or, with a name, the part of them under that name.
    """

    candidates: list[Settings]
    samples: int
    name: str | None = None


class Contender(ABC):
    """A method in an experiment, with everything but its setting fixed."""

    @abstractmethod
    def run(self, settings: Settings, seed: int, samples: int) -> Curve:
        """Its curve on the trial of that seed."""

    def grid(self) -> list[Settings]:
        """Every setting that a sweep tries; by default there is nothing to choose."""
        return [{}]

    def choices(self, samples: int) -> list[Choice]:
        """What a sweep chooses for a run of so many samples; by default one setting of the grid for the whole run."""
        return [Choice(self.grid(), samples)]

    def batches(self, candidates: list[Settings]) -> list[list[Settings]]:
        """The candidates, those together that are cheaper to compute together; by default each by itself."""
        return [[each] for each in candidates]

    def finals(self, candidates: list[Settings], seed: int, samples: int, *, rough: bool = False) -> list[float]:
        """The metric at the end for each setting, or a rough look at it; infinite where a run diverged."""
        return [self.run(settings, seed, samples).values[-1] for settings in candidates]


class Round(NamedTuple):
    """One round of a sweep: on which share of the samples, over how many trials, and how many settings stay."""

    share: float
    trials: int
    kept: int


ROUNDS = (Round(1 / 8, 1, 24), Round(1 / 2, 1, 6), Round(1, 2, 1))


@dataclass(frozen=True)
class Experiment:
    """What `dualembed reproduce` runs: its methods, the size of it, how settings are chosen, and how it is drawn."""

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
        """The settings of every method that the recorded sweep chose."""
        file = resources.files("dualembed.experiments") / "settings" / f"{self.name}.json"
        recorded = json.loads(file.read_text(encoding="utf-8"))["chosen"] if file.is_file() else {}
        return {name: recorded.get(name, {}) for name in self.contenders}


def named(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in NAMES:
        raise InputError(f"there is no experiment named {name!r}; choose one of: {', '.join(NAMES)}")
    return import_module(f"dualembed.experiments.{name}").EXPERIMENT
