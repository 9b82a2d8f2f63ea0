"""How long until a molecule folds? Hitting times of alanine dipeptide, against counts along its path.

    python docs/examples/alanine.py --figure docs/images/example_alanine.png

Three simulated paths of 20 ns give the two torsion angles φ and ψ of alanine dipeptide every picosecond. From an
extended shape (ψ near 150°) the molecule turns into a helical one (ψ near -50°) and back many times. How long does it
take to the helix, from each shape? The estimator sees single steps of 10 ps, in shuffled order if you like; whole paths
are used for the check only: the mean time until the path next enters the helix is simply counted.

Then two of the paths, with a row every 2 ps, predict the third at several lags, beside a Markov state model of 100
cells (deeptime). That sees the helix at multiples of the lag alone, and misses more visits the longer the lag is.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import dualembed as de

DATA = Path(os.environ.get("DUALEMBED_DATA", Path(__file__).parents[3] / "shared" / "data"))
TORSIONS = DATA / "markov" / "ala2_phipsi_3x20ns.npz"
STEP = 10  # picoseconds between the states of a transition; the path forgets what came before within a few
REGIONS = {"extended (β)": (-155.0, 155.0), "polyproline (PII)": (-70.0, 145.0), "edge of PII": (-80.0, 80.0)}
FINE = 2  # picoseconds between the rows of the paths that predict the third
LAGS = (1, 3, 10)  # in rows
CELLS = 100  # of the Markov state model
REACH = 20.0  # degrees around a region's centre, along either angle


# An angle of 179° is next to one of -179°, which numbers do not know: sines and cosines do.
def coordinates(angles: np.ndarray) -> np.ndarray:
    """cos φ, sin φ, cos ψ, sin ψ of angles (n, 2) in degrees, shape (n, 4)."""
    phi, psi = np.radians(angles).T
    return np.stack([np.cos(phi), np.sin(phi), np.cos(psi), np.sin(psi)], axis=1)


# The target is a function of states as they are given to the estimator.
def helical(states: np.ndarray) -> np.ndarray:
    """Whether φ < 0 and -120° < ψ < 30°, for coordinates (n, 4)."""
    psi = np.degrees(np.arctan2(states[:, 3], states[:, 2]))
    return (states[:, 1] < 0) & (psi > -120) & (psi < 30)


def paths_of(file: Path, step: int) -> list[np.ndarray]:
    """The angles (n, 2) in degrees along each path, every so many picoseconds."""
    with np.load(file) as table:
        return [np.degrees(table[name][::step].astype(float)) for name in table.files]


def fitted(paths: list[np.ndarray], step: int) -> de.HittingTimeRegressor:
    """The mean time to the helix, learnt from single steps of the paths."""
    states = np.concatenate([coordinates(path[:-1]) for path in paths])
    following = np.concatenate([coordinates(path[1:]) for path in paths])
    durations = np.full(len(states), float(step))
    return de.HittingTimeRegressor(helical).fit(states, following, durations=durations)


# The check: from each moment on, the time until the path is next in the helix; moments after its last visit are left
# out, which makes the count a little too short.
def counted(path: np.ndarray, step: int) -> np.ndarray:
    """The time in picoseconds to the next visit from each state of a path, NaN where there is none."""
    visits = np.flatnonzero(helical(coordinates(path)))
    following = np.searchsorted(visits, np.arange(len(path)), side="right")
    padded = np.append(visits.astype(float), np.nan)
    return step * (padded[following] - np.arange(len(path)))


# Moments within one wait share its end: the error of a counted mean is that of the mean over waits, not over moments.
def counts_near(paths: list[np.ndarray], centre: tuple[float, float], step: int) -> tuple[float, float, int]:
    """(mean, standard error, number of waits) of the counted times from the states around a centre."""
    sums, sizes = [], []
    for path in paths:
        times = counted(path, step)
        kept = np.flatnonzero(around(path, centre) & np.isfinite(times))
        _, waits = np.unique(kept + times[kept] / step, return_inverse=True)
        sums += np.bincount(waits, times[kept]).tolist()
        sizes += np.bincount(waits).tolist()
    total, rows = np.array(sums), np.array(sizes)
    mean = total.sum() / rows.sum()
    return mean, float(np.sqrt(np.sum((total - mean * rows) ** 2)) / rows.sum()), len(rows)


def around(angles: np.ndarray, centre: tuple[float, float]) -> np.ndarray:
    """Whether angles (n, 2) are near the centre, across ±180° too."""
    return np.all(np.abs((angles - centre + 180) % 360 - 180) < REACH, axis=1)


class Prediction(NamedTuple):
    """The mean time to the helix from extended shapes of the third path, by the others at several lags, and counted."""

    lags: np.ndarray  # picoseconds
    learnt: np.ndarray
    errors: np.ndarray
    cells: np.ndarray  # by a Markov state model
    counted: float
    counted_error: float


def predicted(paths: list[np.ndarray], step: int) -> Prediction:
    """What two paths say of the third."""
    name, centre = next(iter(REGIONS.items()))
    inside = paths[2][around(paths[2], centre)]
    model = de.HittingTimeRegressor(helical, dt=float(step))
    others = [coordinates(path) for path in paths[:2]]
    answers = []
    for lag in LAGS:
        found = model.set_params(lagtime=lag).fit(others)
        answers.append(found.ask(found.at(coordinates(inside))))
    mean, error, waits = counts_near(paths[2:], centre, step)
    cells = np.array([cell_time(paths[:2], inside, lag) for lag in LAGS]) * step
    print(f"the third path, {name}: counted {mean:.0f} ± {error:.0f} ps ({waits} waits)")
    for lag, answer, own in zip(LAGS, answers, cells, strict=True):
        learnt = f"{answer.value:.0f} ± {answer.stderr:.0f} ps"
        print(f"  lag {lag * step} ps: learnt {learnt}, Markov state model {own:.0f} ps")
    values, errors = (np.array([getattr(each, key) for each in answers]) for key in ("value", "stderr"))
    return Prediction(step * np.array(LAGS), values, errors, cells, mean, error)


def cell_time(paths: list[np.ndarray], inside: np.ndarray, lag: int) -> float:
    """The mean time in rows by a Markov state model: cells, transitions between them over a lag, linear algebra."""
    from deeptime.clustering import KMeans
    from deeptime.markov import TransitionCountEstimator
    from deeptime.markov.msm import MaximumLikelihoodMSM

    data = [coordinates(path) for path in paths]
    centres = KMeans(CELLS, fixed_seed=13, max_iter=50).fit_fetch(np.concatenate(data)[::5])
    counts = TransitionCountEstimator(lag, "sliding").fit_fetch([centres.transform(each) for each in data])
    model = MaximumLikelihoodMSM(reversible=True).fit_fetch(counts.submodel_largest())
    known = model.count_model.state_symbols
    target = np.flatnonzero(helical(centres.cluster_centers[known]))
    number = np.zeros(CELLS, dtype=int)
    number[known] = np.arange(len(known))
    states = number[centres.transform(coordinates(inside))]
    times = {state: 0.0 if state in target else model.mfpt([state], target) for state in np.unique(states)}
    return float(np.mean([times[state] for state in states]))


def main(step: int = STEP, fine: int = FINE, figure: Path | None = None) -> dict[str, tuple[float, ...]]:
    """(learnt, its standard error, counted, its standard error) for each region, printed and drawn."""
    paths = paths_of(TORSIONS, step)
    began = time.perf_counter()
    model = fitted(paths, step)
    print(f"{sum(map(len, paths)) - len(paths):,} steps of {step} ps, fitted in {time.perf_counter() - began:.1f} s")
    found = {}
    for name, centre in REGIONS.items():
        inside = np.concatenate([path[around(path, centre)] for path in paths])
        learnt, std = (float(np.mean(each)) for each in model.predict(coordinates(inside), return_std=True))
        mean, error, waits = counts_near(paths, centre, step)
        print(f"{name}: learnt {learnt:.0f} ± {std:.0f} ps, counted {mean:.0f} ± {error:.0f} ps ({waits} waits)")
        found[name] = (learnt, std, mean, error)
    third = predicted(paths_of(TORSIONS, fine), fine)
    if figure is not None:
        draw(model, paths, third, figure)
    return found


def draw(model: de.HittingTimeRegressor, paths: list[np.ndarray], third: Prediction, figure: Path) -> None:
    """A map of the learnt times where the paths have been, with the helix outlined; and predictions at several lags."""
    from matplotlib import pyplot

    angles = np.concatenate(paths)
    angles = angles[angles[:, 0] < 0]  # the few visits to φ > 0 say nothing there
    times = model.predict(coordinates(angles))
    _, (ax, beside) = pyplot.subplots(1, 2, figsize=(8.8, 3.8), layout="constrained", width_ratios=[5.2, 3.6])
    shades = ax.hexbin(*angles.T, C=times, gridsize=45, mincnt=2, cmap="cividis")
    ax.plot([-178, 0, 0, -178, -178], [-120, -120, 30, 30, -120], "--", color="#D55E00", label="helix, the target")
    ax.figure.colorbar(shades, ax=ax, label="mean time to the helix, ps")
    ax.set(xlabel="φ, degrees", ylabel="ψ, degrees", xlim=(-180, 5), ylim=(-180, 180))
    ax.legend(frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.66))
    beside.axhspan(*(third.counted + sign * 2 * third.counted_error for sign in (-1, 1)), color="#DDDDDD", lw=0)
    beside.axhline(third.counted, color="#555555", linestyle="--", label="counted along the third path")
    beside.errorbar(third.lags, third.learnt, 2 * third.errors, fmt="o", capsize=3, color="#0072B2", label="learnt")
    beside.plot(third.lags, third.cells, "s", color="#D55E00", label=f"Markov state model, {CELLS} cells")
    beside.set(xlabel="lag, ps", ylabel="mean time to the helix, ps", ylim=(0, None))
    beside.legend(frameon=False, fontsize=8, loc="lower right")
    pyplot.savefig(figure, dpi=110)
    pyplot.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=Path, help="where to save the figure")
    main(figure=parser.parse_args().figure)
