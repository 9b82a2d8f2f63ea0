"""The hyper-parameter sweep: every method's grid by successive halving, judged by its metric at the end.

As in the paper, the setting with the least final metric is chosen once per method. It is judged on trials of other
seeds than those that are reported (of QM7 on inner splits: see its settings); fewer samples sort out the hopeless
settings first.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dualembed import __version__
from dualembed.experiments.experiment import TUNING_SEEDS, Candidates, Contender, Experiment, Round, Settings
from dualembed.experiments.run import Answers, Ledger, worker_pool
from dualembed.files import write_atomically
from dualembed.progress import Track

QUICK_ROUNDS = (Round(1, 1, 1),)
MANY = 50  # settings, from which on a look at each is a rough one


def sweep(experiment: Experiment, *, quick: bool, progress: Track, ledger: Ledger, jobs: int = 1) -> dict[str, Any]:
    """Choose the settings of every method by successive halving.

    What the ledger knows of a setting is not computed again.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    quick : bool
        Whether to sweep over the small version, in one round.
    progress : callable
        Shows how far the sweep is, as `progress.track` does.
    ledger : Ledger
        What is known already.
    jobs : int, default=1
        Processes that work at a time.

    Returns
    -------
    dict
        The chosen settings, and what they were chosen from, to be written as a settings file.
    """
    samples = experiment.quick_samples if quick else experiment.samples
    rounds = QUICK_ROUNDS if quick else experiment.rounds
    races = [
        Race(name, choice, choice.candidates)
        for name, contender in experiment.contenders.items()
        for choice in contender.choices(samples)
    ]
    with worker_pool(experiment, jobs) as answers:
        for number, this in enumerate(rounds, start=1):
            running = [race for race in races if len(race.left) > 1]
            label = f"sweep of {experiment.name}, round {number} of {len(rounds)}"
            tasks = _open_tasks(experiment, running, this, ledger)
            _compute(tasks, answers, ledger, progress=progress, label=label)
            for race in running:
                race.end(this, _errors(experiment, race, this, ledger))
    return {"chosen": _choices(experiment, races), "sweep": _record(experiment, races, rounds, samples)}


def write_settings(results: dict[str, Any], folder: Path) -> Path:
    """Write the results of a sweep as settings.json.

    Parameters
    ----------
    results : dict
        What `sweep` returned.
    folder : Path
        Where to write.

    Returns
    -------
    Path
        The file.
    """
    path = folder / "settings.json"
    write_atomically(path, json.dumps(results, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    return path


@dataclass
class Race:
    """A choice that is being made for a method: the candidates that are left, and the best one's metric so far."""

    method: str
    choice: Candidates
    left: list[Settings]
    metric: float | None = None

    def samples(self, this: Round) -> int:
        """What the candidates are given in a round."""
        return round(this.share * self.choice.samples)

    def end(self, this: Round, errors: list[float]) -> None:
        """Keep the candidates with the least errors."""
        best = sorted(range(len(errors)), key=errors.__getitem__)[: this.kept]
        self.metric = errors[best[0]] if math.isfinite(errors[best[0]]) else None
        self.left = [self.left[number] for number in best]


@dataclass(frozen=True)
class SweepTask:
    """Some settings of a method, on one of the trials that settings are chosen on."""

    experiment: str
    method: str
    fixed: str  # a digest of the experiment's own settings
    seed: int
    samples: int
    rough: bool
    candidates: list[Settings]

    def answer(self, contender: Contender) -> list[float]:
        """The metric at the end for each."""
        return contender.finals(self.candidates, self.seed, self.samples, rough=self.rough)

    def questions(self) -> list[dict[str, Any]]:
        """Each setting as the ledger knows it."""
        asked = {
            "sweep": [self.experiment, self.method, self.fixed],
            "seed": self.seed,
            "samples": self.samples,
            "rough": self.rough,
            "version": __version__,
        }
        return [{**asked, "settings": settings} for settings in self.candidates]


def _all_tasks(experiment: Experiment, race: Race, this: Round) -> list[SweepTask]:
    """All that a round asks of a method, trial by trial."""
    fixed = hashlib.sha256(json.dumps(experiment.settings, sort_keys=True).encode()).hexdigest()[:16]
    rough = len(race.left) > MANY
    return [
        SweepTask(experiment.name, race.method, fixed, seed, race.samples(this), rough, race.left)
        for seed in TUNING_SEEDS[: this.trials]
    ]


def _open_tasks(experiment: Experiment, races: list[Race], this: Round, ledger: Ledger) -> list[SweepTask]:
    """What the ledger does not know of a round, in the batches that the methods want."""
    tasks = []
    for race in races:
        for task in _all_tasks(experiment, race, this):
            asked = zip(task.candidates, task.questions(), strict=True)
            unknown = [settings for settings, question in asked if ledger.recall(question) is None]
            batches = experiment.contenders[race.method].batches(unknown) if unknown else []
            tasks += [replace(task, candidates=batch) for batch in batches]
    return tasks


def _compute(
    tasks: list[SweepTask], answers: Answers[SweepTask], ledger: Ledger, *, progress: Track, label: str
) -> None:
    """Let the ledger know the answers."""
    with progress(len(tasks), label) as bar:
        for task, errors in answers(tasks):
            ledger.remember_all(zip(task.questions(), errors, strict=True))
            bar.advance(to=bar.step + 1)


def _errors(experiment: Experiment, race: Race, this: Round, ledger: Ledger) -> list[float]:
    """The mean final metric of every candidate that is left over the round's trials, all known to the ledger."""
    trials = [list(map(ledger.recall, task.questions())) for task in _all_tasks(experiment, race, this)]
    # A run that ended in NaN is as bad as one that diverged.
    return [sum(math.inf if math.isnan(one) else one for one in own) / len(own) for own in zip(*trials, strict=True)]


def _choices(experiment: Experiment, races: list[Race]) -> dict[str, Settings]:
    chosen: dict[str, Settings] = {name: {} for name in experiment.contenders}
    for race in races:
        best = race.left[0]
        chosen[race.method] |= best if race.choice.name is None else {race.choice.name: best}
    return chosen


def _record(experiment: Experiment, races: list[Race], rounds: tuple[Round, ...], samples: int) -> dict[str, Any]:
    return {
        "rounds": [
            {"samples": round(this.share * samples), "trials": this.trials, "settings kept": this.kept}
            for this in rounds
        ],
        "first seed": TUNING_SEEDS.start,
        "version": __version__,
        "methods": {name: _note([race for race in races if race.method == name]) for name in experiment.contenders},
    }


def _note(races: list[Race]) -> dict[str, Any]:
    """What there is to say of a method's choices; the metric of each by its name, where it has one."""
    made = [race for race in races if len(race.choice.candidates) > 1]
    if not made:
        return {"note": "nothing to choose from"}
    metrics = {race.choice.name: race.metric for race in made}
    tried = sum(len(race.choice.candidates) for race in made)
    return {"settings tried": tried, "metric": metrics.get(None, metrics)}
