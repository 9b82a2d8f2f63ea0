"""The benchmark `garnet`: excess Bellman errors of the closed form and of its rivals, each at its best setting.

The settings were chosen on Garnets of other seeds than the trials', by the least mean excess, in the two stages of
`garnet_sweep.chosen`, for closed forms and for SGD, which makes 50 passes over the data. What was chosen is `CHOSEN`,
and what there was to choose from `garnet_sweep.grid`.

Without a constant feature no method comes near the value itself (about 10 everywhere), and a heavy ridge or a tiny step
size, which keep V near 0, are then the best settings of temporal differences; the row V = 0 says what that is worth.
SGD in the process embedded by indicators aims at the minimum that the closed form with one fold computes, so that it is
not to be beaten here, only to be reached in one step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dualembed.experiments.garnet import garnet
from dualembed.experiments.garnet_sweep import CASES, NAMES, OURS, ROWS, STEPPING, UNTUNED, Contender, grid
from dualembed.experiments.garnet_sweep import errors as errors_of
from dualembed.progress import Track

UNIT = "excess RMSBE"

# The best setting of each grid, with its mean excess over the second stage's eight Garnets.
CHOSEN: dict[str, dict[str, str]] = {
    "uniform behaviour, constant feature": {
        "closed form": "folds 1, λ1 0, λ2 0, normalised weights",  # 0.0186
        "LSTD": "ridge 0, normalised weights",  # 0.0507
        "plain LSTD": "ridge 0, no weights",  # 0.0530
        "BRM": "λ1 0, raw weights",  # 0.0576
        "plain BRM": "λ1 0, no weights",  # 0.0618
        "kernel Bellman loss": "V-statistic, Gaussian 2, λ1 0, normalised weights",  # 0.0402
        "MDP embedding": "rate 0.2, averaged, normalised weights",  # 0.0276
        "Embedding-SGD": "rate 0.1, dual 10 times, averaged, no weights",  # 0.0550
        "residual gradient": "rate 0.2, dual 1 times, averaged, no weights",  # 0.0651
        "double sampling": "rate 0.2, dual 1 times, averaged, no weights",  # 0.0455
        "TD(0)": "rate 0.2, dual 1 times, averaged, normalised weights",  # 0.0505
        # The mean over 18 tuning Garnets, ten of them beyond the two stages. A trial prompted those: the setting that
        # the stages choose, "rate 0.1, dual 0.1 times, averaged, normalised weights" (0.0638), diverged on seed 6.
        "GTD2": "rate 3 / (10 + √t), dual 0.03 times, last, no weights",  # 0.0633
        "TDC": "rate 0.2, dual 0.3 times, averaged, normalised weights",  # 0.0529
    },
    "uniform behaviour": {
        "closed form": "folds 1, λ1 0.05, λ2 0, normalised weights",  # 0.0381
        "LSTD": "ridge 2, normalised weights",  # 0.1363
        "plain LSTD": "ridge 2, no weights",  # 0.1361
        "BRM": "λ1 0, normalised weights",  # 0.0661
        "plain BRM": "λ1 0, no weights",  # 0.0888
        "kernel Bellman loss": "V-statistic, Gaussian 1, λ1 0.005, normalised weights",  # 0.0810
        "MDP embedding": "rate 0.1 / (10 + √t), averaged, normalised weights",  # 0.0383
        "Embedding-SGD": "rate 0.001, dual 100 times, averaged, normalised weights",  # 0.0391
        "residual gradient": "rate 0.03 / (10 + √t), dual 1 times, last, normalised weights",  # 0.0662
        "double sampling": "rate 0.0003, dual 1 times, averaged, normalised weights",  # 0.0508
        "TD(0)": "rate 0.001 / (10 + √t), dual 1 times, last, no weights",  # 0.1357
        "GTD2": "rate 0.001 / (10 + √t), dual 100 times, last, normalised weights",  # 0.1290
        "TDC": "rate 0.001 / (10 + √t), dual 100 times, last, normalised weights",  # 0.1289
    },
    "random behaviour": {
        "closed form": "folds 1, λ1 0.05, λ2 0, normalised weights",  # 0.0557
        "LSTD": "ridge 2, normalised weights",  # 0.1444
        "plain LSTD": "ridge 2, no weights",  # 0.1446
        "BRM": "λ1 10, normalised weights",  # 0.1549
        "plain BRM": "λ1 0, no weights",  # 0.1087
        "kernel Bellman loss": "V-statistic, Gaussian 1, λ1 0.005, normalised weights",  # 0.0927
        "MDP embedding": "rate 0.03 / (10 + √t), averaged, normalised weights",  # 0.0557
        "Embedding-SGD": "rate 0.0003, dual 100 times, averaged, normalised weights",  # 0.0560
        "residual gradient": "rate 0.1 / (10 + √t), dual 1 times, last, no weights",  # 0.1085
        "double sampling": "rate 0.0003, dual 1 times, averaged, no weights",  # 0.1003
        "TD(0)": "rate 0.001 / (10 + √t), dual 1 times, last, normalised weights",  # 0.1445
        "GTD2": "rate 0.001 / (10 + √t), dual 100 times, last, normalised weights",  # 0.1360
        "TDC": "rate 0.001 / (10 + √t), dual 100 times, last, raw weights",  # 0.1403
    },
}
TARGETS = {"LSTD": 2.0}  # how many times ours a rival's error must be; 1 where nothing is said


def bench(*, trials: int, seed: int, quick: bool, progress: Track) -> list[dict[str, Any]]:
    """One comparison for each case and rival: mean excess over the trials, and how many times ours that is.

    `quick` leaves out all but the first case, and the SGD.
    """
    cases = list(CASES)[:1] if quick else list(CASES)
    names = [name for name in NAMES if not (quick and name in STEPPING)]
    lines, done = [], 0
    with progress(len(cases) * trials * len(names), "garnet") as bar:
        for case in cases:
            errors: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
            for trial in range(seed, seed + trials):
                world = garnet(trial, **CASES[case])
                data = world.sample(ROWS, trial)
                for name in names:
                    errors[name].append(errors_of(world, contender_of(case, name), data, seed=trial))
                    done += 1
                    bar.advance(to=done)
            lines += [_line(case, name, np.asarray(errors[name]), np.asarray(errors[OURS])) for name in names]
    return [line for line in lines if line["peer"] != OURS]


def contender_of(case: str, name: str) -> Contender:
    """The method at the setting chosen for the case."""
    return grid(name)[CHOSEN[case].get(name, UNTUNED)]


def _line(case: str, name: str, errors: np.ndarray, ours: np.ndarray) -> dict[str, Any]:
    """The comparison of (trials, 2) excesses and RMSEs with ours."""
    value, own = float(errors[:, 0].mean()), float(ours[:, 0].mean())
    return {
        "bench": "garnet",
        "case": case,
        "peer": name,
        "value": value,
        "unit": UNIT,
        "ratio": value / own,
        "target": TARGETS.get(name, 1.0),
        "ours": own,
        "better in": int(np.sum(ours[:, 0] < errors[:, 0])),
        "trials": len(errors),
        "median": float(np.median(errors[:, 0])),  # far below the mean where a run has diverged
        "rmse": float(errors[:, 1].mean()),
        "rmse of ours": float(ours[:, 1].mean()),
        "setting": CHOSEN[case].get(name, UNTUNED),
        "setting of ours": CHOSEN[case][OURS],
    }
