"""The settings that there are for each method of the benchmark `garnet`, and the sweep that chooses among them.

Settings are chosen in two stages, on Garnets that are no trial's: `shortlist(case, name)` runs the whole grid of a
method on the two of the seeds `FIRST_STAGE` and keeps the best twelve settings; `chosen(case, name)` runs those on the
eight of `SECOND_STAGE`, none of which the first stage saw, and gives their mean excess, the least first. Two Garnets
cannot tell which large step sizes diverge on a third. To choose again, in about an hour:

    for case in CASES:
        for name in (OURS, *CLOSED, *STEPPING):
            print(case, name, next(iter(chosen(case, name).items())))
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualembed import baselines, problems, schedules, solvers, sources, spaces
from dualembed.experiments.garnet import Garnet, Lookup, garnet, normalised
from dualembed.saddle import Saddle
from dualembed.solvers import Result, solve

ROWS = 8000
BATCH, STEPS = 8, 50 * ROWS // 8
TUNING_SEED = 2**32 - 1000  # of the first Garnet that settings are chosen on; no trial can have it for its seed
FIRST_STAGE = tuple(range(TUNING_SEED, TUNING_SEED + 2))
SECOND_STAGE = tuple(range(TUNING_SEED + 2, TUNING_SEED + 10))
SHORTLIST = 12  # settings of a method that reach the second stage
OURS, EMBEDDED = "closed form", "MDP embedding"
UNTUNED = "as it is"

CASES: dict[str, dict[str, bool]] = {
    "uniform behaviour, constant feature": {"constant": True},
    "uniform behaviour": {},
    "random behaviour": {"random_behaviour": True},
}


@dataclass(frozen=True)
class Contender:
    """A solver with the penalties of its saddle; `kernel` is the bandwidth of a Gaussian dual in place of indicators.

    A schedule in the place of a solver stands for SGD in the process that is embedded by indicators of the state.

    `weights` says which importance weights it sees: those normalised in each state, the raw ones, or none. `last` says
    that its last iterate counts, not the average.
    """

    solver: solvers.Solver | schedules.Schedule
    penalty: float = 0.0
    dual_penalty: float = 0.0
    kernel: float | None = None
    weights: str = "normalised"
    last: bool = False

    def iterates(self, world: Garnet, data: sources.Dataset, seed: int) -> jax.Array:
        """The average's values in all states, and those of the last iterate: (2, S)."""
        result, states = self._result(world, data, seed), np.arange(world.states)
        return jnp.stack([result.primal(states), result.last.primal(states)])

    def _result(self, world: Garnet, data: sources.Dataset, seed: int) -> Result:
        problem = problems.PolicyEvaluation(WEIGHINGS[self.weights](data), world.discount)
        if isinstance(self.solver, schedules.Schedule):
            rival = baselines.MDPRandomFeatureEmbedding(
                world.primal, world.dual, 1e-9, steps=STEPS, batch=BATCH, step=self.solver
            )
            return rival.fit(seed, problem)
        dual = world.dual if self.kernel is None else spaces.Basis(Lookup(_root(world.features, self.kernel)))
        saddle = Saddle(problem, world.primal, dual, primal_penalty=self.penalty, dual_penalty=self.dual_penalty)
        return solve(seed, saddle, self.solver)


def _unweighted(data: sources.Dataset) -> sources.Dataset:
    return sources.Dataset(**{name: column for name, column in data.table.items() if not name.endswith("weight")})


WEIGHINGS: dict[str, Callable[[sources.Dataset], sources.Dataset]] = {
    "normalised": normalised,
    "raw": lambda data: data,
    "no": _unweighted,
}

RIDGES = (0.0, *(digit * 10.0**power for power in range(-3, 2) for digit in (1, 2, 5)), 100.0)
# Far apart: with neighbours at a ratio of 2, which hardly differ, one λ1 would fill the shortlist.
DUAL_PENALTIES = (0.0, 1e-3, 1e-2, 0.1)
BANDWIDTHS = (None, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0)
KEPT = ("normalised", "raw")
STOCHASTIC: dict[str, Any] = {
    "Embedding-SGD": solvers.EmbeddingSGD,
    "residual gradient": baselines.ResidualGradient,
    "double sampling": baselines.DoubleSampling,
    "TD(0)": baselines.TD0,
    "GTD2": baselines.GTD2,
    "TDC": baselines.TDC,
}
FIXED = {
    "closed form, raw weights": Contender(solvers.ClosedForm(), weights="raw"),
    "LSTD, no ridge": Contender(baselines.LSTD()),
    "V = 0": Contender(baselines.LSTD(1e12)),  # what learning nothing costs
}
CLOSED = ("LSTD", "plain LSTD", "BRM", "plain BRM", "kernel Bellman loss")
STEPPING = (EMBEDDED, *STOCHASTIC)
NAMES = (OURS, *FIXED, *CLOSED, *STEPPING)


def grid(name: str) -> dict[str, Contender]:
    """All settings of a method, by what there is to say of each."""
    if name in FIXED:
        return {UNTUNED: FIXED[name]}
    if name in STOCHASTIC:
        return _stochastic(name)
    if name == EMBEDDED:
        return {
            f"{steps}, {_iterate(last)}, {weights} weights": Contender(schedule(1.0), weights=weights, last=last)
            for weights, (steps, schedule), last in product(WEIGHINGS, _schedules().items(), (False, True))
        }
    return _closed(name)


def _closed(name: str) -> dict[str, Contender]:
    """Penalties, and what else a method without steps has to choose."""
    if name == OURS:
        return {
            f"folds {folds}, λ1 {penalty:g}, λ2 {dual:g}, {weights} weights": Contender(
                solvers.ClosedForm(folds), penalty, dual, weights=weights
            )
            for folds, penalty, dual, weights in product((1, 5), RIDGES, DUAL_PENALTIES, WEIGHINGS)
        }
    if name == "kernel Bellman loss":
        return {
            f"{pairs}-statistic, {_kernel_name(kernel)}, λ1 {penalty:g}, {weights} weights": Contender(
                baselines.KernelBellmanLoss(pairs == "U"), penalty, kernel=kernel, weights=weights
            )
            for pairs, kernel, penalty, weights in product("VU", BANDWIDTHS, RIDGES, WEIGHINGS)
        }
    weighings = ("no",) if name.startswith("plain") else KEPT
    if name.endswith("LSTD"):
        return {
            f"ridge {ridge:g}, {weights} weights": Contender(baselines.LSTD(ridge), weights=weights)
            for ridge, weights in product(RIDGES, weighings)
        }
    return {
        f"λ1 {ridge:g}, {weights} weights": Contender(baselines.BRM(), ridge, weights=weights)
        for ridge, weights in product(RIDGES, weighings)
    }


def _stochastic(name: str) -> dict[str, Contender]:
    """Step sizes, the dual's `faster` times as large; the average of the iterates, and the last; all the weights."""
    make = STOCHASTIC[name]
    paces = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0) if make.has_dual else (1.0,)
    return {
        f"{steps}, dual {faster:g} times, {_iterate(last)}, {weights} weights": Contender(
            make(STEPS, BATCH, schedule(1.0), schedule(faster)), weights=weights, last=last
        )
        for weights, (steps, schedule), faster, last in product(WEIGHINGS, _schedules().items(), paces, (False, True))
    }


def _schedules() -> dict[str, Callable[[float], schedules.Schedule]]:
    """Steps that fade and steps that do not, by what there is to say of them, so many times as large."""
    fading = {
        f"rate {rate:g} / (10 + √t)": lambda times, rate=rate: schedules.OffsetSqrt(times * rate, 10.0)
        for rate in (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
    }
    constant = {
        f"rate {rate:g}": lambda times, rate=rate: schedules.Constant(times * rate)
        for rate in (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
    }
    return {**fading, **constant}


def _iterate(last: bool) -> str:
    return "last" if last else "averaged"


def _kernel_name(bandwidth: float | None) -> str:
    return "indicators" if bandwidth is None else f"Gaussian {bandwidth:g}"


def _root(features: np.ndarray, bandwidth: float) -> np.ndarray:
    """A square root of the Gaussian kernel's matrix between all states' features."""
    squares = np.sum((features[:, None] - features) ** 2, axis=2)
    values, vectors = np.linalg.eigh(np.exp(-squares / (2 * bandwidth**2)))
    return vectors * np.sqrt(np.maximum(values, 0.0))


def shortlist(case: str, name: str) -> dict[str, Contender]:
    """The settings of a method with the least mean excess over the Garnets of the first stage, in the grid's order."""
    settings = grid(name)
    found = sweep(case, settings, FIRST_STAGE)
    best = set(sorted(found, key=lambda label: found[label])[:SHORTLIST])
    # In the grid's order, neighbours can be run at once.
    return {label: contender for label, contender in settings.items() if label in best}


def chosen(case: str, name: str) -> dict[str, float]:
    """The mean excess of each shortlisted setting over the Garnets of the second stage, the least first."""
    found = sweep(case, shortlist(case, name), SECOND_STAGE)
    return {label: found[label] for label in sorted(found, key=lambda label: found[label])}


def sweep(case: str, settings: dict[str, Contender], seeds: Sequence[int]) -> dict[str, float]:
    """The mean excess of every setting over Garnets of these seeds.

    Diverged runs count as they ended, and as infinite where that is no number, which no order could place.
    """
    runs = list(dict.fromkeys(_run(contender) for contender in settings.values()))
    found: dict[str, list[float]] = {label: [] for label in settings}
    for seed in seeds:
        world = garnet(seed, **CASES[case])
        values = dict(zip(runs, iterates(world, runs, world.sample(ROWS, seed), seed=seed), strict=True))
        for label, contender in settings.items():
            excess = world.excess(values[_run(contender)][int(contender.last)])
            found[label].append(excess if np.isfinite(excess) else np.inf)
    return {label: float(np.mean(values)) for label, values in found.items()}


def errors(world: Garnet, contender: Contender, data: sources.Dataset, *, seed: int) -> tuple[float, float]:
    """(excess, RMSE) of what the contender makes of the data."""
    (values,) = iterates(world, [contender], data, seed=seed)
    value = values[int(contender.last)]
    return world.excess(value), world.rmse(value)


def _run(contender: Contender) -> Contender:
    """What the average and the last iterate of one run have in common."""
    return dataclasses.replace(contender, last=False)


def iterates(world: Garnet, runs: list[Contender], data: sources.Dataset, *, seed: int) -> list[np.ndarray]:
    """The iterates (2, S) of every run; neighbours whose solvers differ in step sizes alone go at once, by vmap."""
    found: list[np.ndarray] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", solvers.DivergenceWarning)  # of steps too large: their error says enough
        for _, alike in groupby(runs, lambda run: (run.weights, jax.tree.structure(run.solver))):
            group = list(alike)
            if len(group) == 1 or not isinstance(group[0].solver, solvers.StochasticSolver):
                found += [np.asarray(run.iterates(world, data, seed), dtype=np.float64) for run in group]
                continue
            stacked = jax.tree.map(lambda *numbers: jnp.asarray(numbers), *(run.solver for run in group))
            together = jax.vmap(partial(_of_solver, group[0], world=world, data=data, seed=seed))(stacked)
            found += list(np.asarray(together, dtype=np.float64))
    return found


def _of_solver(run: Contender, solver: Any, *, world: Garnet, data: sources.Dataset, seed: int) -> jax.Array:
    return dataclasses.replace(run, solver=solver).iterates(world, data, seed)
