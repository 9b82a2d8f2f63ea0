"""The example of the paper's section 3: recover f* from noisy values of its local averages y = E[f*(z) | x] + noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import kernels, problems, schedules, solvers, sources, spaces
from dualembed.experiments.base import Method, Report, run_trials
from dualembed.progress import Track
from dualembed.saddle import DualFunction, Saddle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ITERATIONS = (0, 50, 150, 400, 1000, 2000)
SETTINGS: dict[str, Any] = {
    "variance of z given x": 0.3,
    "length-scale of f*": 1.0,
    "noise of y": 0.1,
    "x": "uniform on [-5, 5]",
    "central region": [-3.0, 3.0],
    "batch": 50,
    "gradient": "mean over the batch",
}
HYPERPARAMETERS: dict[str, float] = {
    "primal bandwidth": 0.7,
    "dual bandwidth for x": 0.5,
    "dual bandwidth for y": 1.0,
    "primal rate": 10.0,
    "dual rate": 5.0,
    "offset": 1.0,
}


class Truth(eqx.Module):
    """A draw f* = √(2/m) Σ a_j cos(ω_j x + b_j) from a Gaussian process, whose local averages are known exactly."""

    amplitudes: jax.Array
    frequencies: jax.Array
    phases: jax.Array

    @staticmethod
    def drawn(key: jax.Array, count: int = 400) -> Truth:
        """A function with the Gaussian kernel's covariance, up to the number of waves."""
        amplitude_key, frequency_key, phase_key = jax.random.split(key, 3)
        waves = jax.random.normal(frequency_key, (count,)) / SETTINGS["length-scale of f*"]
        phases = jax.random.uniform(phase_key, (count,), maxval=2 * np.pi)
        return Truth(jax.random.normal(amplitude_key, (count,)) * np.sqrt(2 / count), waves, phases)

    def __call__(self, x: jax.Array) -> jax.Array:
        """f*(x)."""
        return jnp.cos(x[..., None] * self.frequencies + self.phases) @ self.amplitudes

    def smoothed(self, x: jax.Array) -> jax.Array:
        """E[f*(z) | x]: each wave loses the factor exp(-ω² variance / 2)."""
        kept = jnp.exp(-0.5 * SETTINGS["variance of z given x"] * self.frequencies**2)
        return jnp.cos(x[..., None] * self.frequencies + self.phases) @ (self.amplitudes * kept)


class Sampler(eqx.Module):
    """Draws one (x, y, z)."""

    truth: Truth

    def __call__(self, key: jax.Array) -> dict[str, jax.Array]:
        """x uniform, y its noisy local average, z one draw around x."""
        place_key, noise_key = jax.random.split(key)
        x = jax.random.uniform(place_key, minval=-5.0, maxval=5.0)
        output, spread = jax.random.normal(noise_key, (2,))
        y = self.truth.smoothed(x) + SETTINGS["noise of y"] * output
        return {"x": x, "y": y, "z": x + jnp.sqrt(SETTINGS["variance of z given x"]) * spread}


class Snapshot(eqx.Module):
    """f and u(·, y) on a grid at one iteration, and f's relative error in the central region."""

    function: np.ndarray
    dual: np.ndarray
    error: float


class Outcome(eqx.Module):
    """One trial: the truth, the noisy y on the grid, and the snapshots."""

    truth: Truth
    observed: np.ndarray
    steps: np.ndarray
    snapshots: list[Snapshot]


GRID = np.linspace(-5.0, 5.0, 401)


def trial(seed: int, iterations: tuple[int, ...]) -> Outcome:
    """Embedding-SGD on fresh samples of one random truth, seen at the given iterations (averaged iterates)."""
    truth_key, noise_key, run_key = jax.random.split(jax.random.key(seed), 3)
    truth = Truth.drawn(truth_key)
    observed = truth.smoothed(jnp.asarray(GRID)) + SETTINGS["noise of y"] * jax.random.normal(noise_key, GRID.shape)

    def look(primal: spaces.Function, dual: DualFunction) -> Snapshot:
        values = np.asarray(primal(GRID))
        context = jnp.stack([jnp.asarray(GRID), observed], axis=1)
        return Snapshot(values, np.asarray(dual(context, observed)), relative_error(values, truth))

    settings = HYPERPARAMETERS
    on_x = kernels.Columns(kernels.Gaussian(settings["dual bandwidth for x"]), (0,))
    on_y = kernels.Columns(kernels.Gaussian(settings["dual bandwidth for y"]), (1,))
    saddle = Saddle(
        problems.Invariance(sources.Simulator(Sampler(truth))),
        spaces.RKHS(kernels.Gaussian(settings["primal bandwidth"])),
        spaces.RKHS(on_x * on_y),
    )
    solver = solvers.EmbeddingSGD(
        steps=iterations[-1],
        batch=SETTINGS["batch"],
        primal_step=schedules.OffsetSqrt(settings["primal rate"], settings["offset"]),
        dual_step=schedules.OffsetSqrt(settings["dual rate"], settings["offset"]),
    )
    result = solvers.solve(run_key, saddle, solver, solvers.Probe(look, at=iterations))
    if result.trace is None:
        raise RuntimeError("a run outside jit always has a trace")
    return Outcome(truth, np.asarray(observed), result.trace.steps, result.trace.averaged)


def relative_error(values: np.ndarray, truth: Truth) -> float:
    """|f - f*| / |f*| in L2 of the central region."""
    low, high = SETTINGS["central region"]
    central = (low <= GRID) & (high >= GRID)
    wanted = np.asarray(truth(jnp.asarray(GRID)))[central]
    return float(np.linalg.norm(values[central] - wanted) / np.linalg.norm(wanted))


def run(*, trials: int, seed: int, quick: bool, progress: Track) -> Report:
    """The six panels for the first trial, and the error at each of them over all trials."""
    iterations = tuple(step // 10 for step in ITERATIONS) if quick else ITERATIONS
    outcomes, seconds = run_trials(lambda each: trial(each, iterations), trials, seed, progress=progress)
    samples = (outcomes[0].steps * SETTINGS["batch"]).tolist()
    errors = [[snapshot.error for snapshot in outcome.snapshots] for outcome in outcomes]
    methods = {"embedding-sgd": Method.of(HYPERPARAMETERS, samples, errors, seconds)}
    metric = "relative L2 error of f on the central region"
    return Report("illustration", trials, seed, metric, methods, lambda: panels(outcomes[0]), SETTINGS)


def panels(outcome: Outcome) -> Figure:
    """Six panels: f approaching f*, and the dual u fading where E[f(z) | x] meets y."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5.6), layout="constrained")
    grid = figure.subplots(2, 3, sharex=True, sharey=True)
    for axes, step, snapshot in zip(grid.flat, outcome.steps, outcome.snapshots, strict=True):
        _panel(axes, outcome, step, snapshot)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _panel(axes: Axes, outcome: Outcome, step: int, snapshot: Snapshot) -> None:
    axes.axvspan(*SETTINGS["central region"], color="#f4f4f4", zorder=0)
    axes.plot(GRID, outcome.observed, color="#76c7d6", linewidth=0.8, label="noisy y at x")
    axes.plot(GRID, np.asarray(outcome.truth(jnp.asarray(GRID))), "--", color="#1f4e79", label="f*, the truth")
    axes.plot(GRID, snapshot.dual, color="#2e8b57", linewidth=0.9, label="u(x, y), the dual")
    axes.plot(GRID, snapshot.function, color="#c0392b", linewidth=1.8, label="f, recovered")
    axes.set_title(f"iteration {step}    error {snapshot.error:.2f}", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
