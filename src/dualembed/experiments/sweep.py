"""The hyper-parameter sweep: every method's grid by successive halving, judged by its metric at the end.

As in the paper, the setting with the least final metric is chosen once per method. It is judged on trials of other
seeds than those that are reported (of QM7 on inner splits: see its settings); fewer samples sort out the hopeless
settings first.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from dualembed import __version__
from dualembed.experiments.experiment import TUNING_SEEDS, Contender, Experiment, Settings
from dualembed.experiments.ledger import Ledger
from dualembed.files import write_atomically
from dualembed.progress import Track

# (share of the samples, trials, settings kept): each round sees those that the round before kept.
ROUNDS = ((1 / 8, 1, 24), (1 / 2, 1, 6), (1, 2, 1))
QUICK_ROUNDS = ((1, 1, 1),)


def sweep(experiment: Experiment, *, quick: bool, progress: Track, ledger: Ledger) -> dict[str, Any]:
    """What the sweep found, to be written as a settings file: the chosen settings, and what they were chosen from."""
    samples = experiment.quick_samples if quick else experiment.samples
    rounds = QUICK_ROUNDS if quick else ROUNDS
    chosen: dict[str, Settings] = {}
    notes: dict[str, Any] = {}
    with progress(len(experiment.contenders) * len(rounds), f"sweep of {experiment.name}") as bar:
        for name, contender in experiment.contenders.items():
            left = contender.grid()
            note: dict[str, Any] = {"settings tried": len(left)}
            for share, trials, kept in rounds:
                if len(left) > 1:
                    where = {
                        "sweep": [experiment.name, name],
                        "fixed": experiment.settings,
                        "samples": round(share * samples),
                    }
                    errors = _errors(contender, left, where, trials=trials, ledger=ledger)
                    best = sorted(range(len(left)), key=errors.__getitem__)[:kept]
                    note["metric"] = errors[best[0]] if math.isfinite(errors[best[0]]) else None
                    left = [left[number] for number in best]
                bar.advance(to=bar.step + 1)
            chosen[name], notes[name] = left[0], note if "metric" in note else {"note": "nothing to choose from"}
    record = {
        "rounds": [
            {"samples": round(share * samples), "trials": trials, "settings kept": kept}
            for share, trials, kept in rounds
        ],
        "first seed": TUNING_SEEDS.start,
        "version": __version__,
        "methods": notes,
    }
    return {"chosen": chosen, "sweep": record}


def write_settings(found: dict[str, Any], folder: Path) -> Path:
    """Write what the sweep found as settings.json into the folder; return its path."""
    path = folder / "settings.json"
    write_atomically(path, json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    return path


def _errors(
    contender: Contender, candidates: list[Settings], where: dict[str, Any], *, trials: int, ledger: Ledger
) -> list[float]:
    """The mean final metric of every candidate over the trials; what the ledger knows is not computed again."""
    totals = [0.0] * len(candidates)
    for seed in TUNING_SEEDS[:trials]:
        question = {**where, "version": __version__, "seed": seed, "candidates": candidates}
        errors = ledger.recall(question)
        if errors is None:
            errors = contender.finals(candidates, seed, where["samples"])
            ledger.remember(question, errors)
        # A run that ended in NaN is as bad as one that diverged.
        totals = [total + (math.inf if math.isnan(one) else one) for total, one in zip(totals, errors, strict=True)]
    return [total / trials for total in totals]
