"""The example of the paper's section 3: recover f* from noisy values of its local averages y = E[f*(z) | x] + noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import kernels, problems, schedules, solvers, sources, spaces
from dualembed.checks import InputError
from dualembed.experiments.experiment import (
    Axes,
    Contender,
    Curve,
    Experiment,
    Settings,
    Setup,
    closed_form,
    self_tuned,
)
from dualembed.experiments.report import Report
from dualembed.problems.base import Problem
from dualembed.saddle import DualFunction, Saddle

if TYPE_CHECKING:
    import matplotlib.axes
    from matplotlib.figure import Figure

ITERATIONS = (0, 50, 150, 400, 1000, 2000)
BATCH = 50
LANDMARKS = 200
ROWS = 10_000  # that the closed form and the self-tuned model see at most
SETTINGS: dict[str, Any] = {
    "variance of z given x": 0.3,
    "length-scale of f*": 1.0,
    "noise of y": 0.1,
    "x": "uniform on [-5, 5]",
    "central region": [-3.0, 3.0],
    "batch": BATCH,
    "gradient": "mean over the batch",
    "samples of the closed form and of the self-tuned model": f"{ROWS:,} at most",
}


class Truth(eqx.Module):
    """A draw f* = √(2/m) Σ a_j cos(ω_j x + b_j) from a Gaussian process, whose local averages are known exactly."""

    amplitudes: jax.Array
    frequencies: jax.Array
    phases: jax.Array

    @staticmethod
    def draw(key: jax.Array, count: int = 400) -> Truth:
        """A function with the Gaussian kernel's covariance, up to the number of waves."""
        amplitude_key, frequency_key, phase_key = jax.random.split(key, 3)
        waves = jax.random.normal(frequency_key, (count,)) / SETTINGS["length-scale of f*"]
        phases = jax.random.uniform(phase_key, (count,), maxval=2 * np.pi)
        return Truth(jax.random.normal(amplitude_key, (count,)) * np.sqrt(2 / count), waves, phases)

    def __call__(self, x: jax.Array) -> jax.Array:
        """f*(x)."""
        return jnp.cos(x[..., None] * self.frequencies + self.phases) @ self.amplitudes

    def smooth(self, x: jax.Array) -> jax.Array:
        """E[f*(z) | x]: each wave loses the factor exp(-ω² variance / 2)."""
        kept = jnp.exp(-0.5 * SETTINGS["variance of z given x"] * self.frequencies**2)
        return jnp.cos(x[..., None] * self.frequencies + self.phases) @ (self.amplitudes * kept)


class NoisySampler(eqx.Module):
    """Draws one (x, y, z)."""

    truth: Truth

    def __call__(self, key: jax.Array) -> dict[str, jax.Array]:
        """x uniform, y its noisy local average, z one draw around x."""
        place_key, noise_key = jax.random.split(key)
        x = jax.random.uniform(place_key, minval=-5.0, maxval=5.0)
        output, spread = jax.random.normal(noise_key, (2,))
        y = self.truth.smooth(x) + SETTINGS["noise of y"] * output
        return {"x": x, "y": y, "z": x + jnp.sqrt(SETTINGS["variance of z given x"]) * spread}


GRID = np.linspace(-5.0, 5.0, 401)


class World(eqx.Module):
    """One trial: a random truth, and noisy local averages of it on the grid."""

    truth: Truth
    observed: np.ndarray
    run_key: jax.Array

    @staticmethod
    def of(seed: int) -> World:
        """That of the seed."""
        truth_key, noise_key, run_key = jax.random.split(jax.random.key(seed), 3)
        truth = Truth.draw(truth_key)
        noise = SETTINGS["noise of y"] * jax.random.normal(noise_key, GRID.shape)
        return World(truth, np.asarray(truth.smooth(jnp.asarray(GRID)) + noise), run_key)


def rows(seed: int, samples: int) -> Setup:
    """A data set of that many samples; of a function there are its error, and its values for the picture."""
    world = World.of(seed)
    columns = sources.Simulator(NoisySampler(world.truth)).pilot(world.run_key, samples)
    return Setup(
        problems.Invariance(sources.Dataset(**columns)),
        lambda function: relative_error(np.asarray(function(GRID)), world.truth),
        lambda function: {"function": np.asarray(function(GRID)).tolist()},
    )


def relative_error(values: np.ndarray, truth: Truth) -> float:
    """|f - f*| / |f*| in L2 of the central region."""
    low, high = SETTINGS["central region"]
    central = (low <= GRID) & (high >= GRID)
    wanted = np.asarray(truth(jnp.asarray(GRID)))[central]
    return float(np.linalg.norm(values[central] - wanted) / np.linalg.norm(wanted))


class EmbeddingSGD(Contender):
    """Averaged iterates on fresh samples, seen at six iterations."""

    def grid(self) -> list[Settings]:
        """One setting, found by hand: the picture compares nothing."""
        return [EXPERIMENT.chosen()["embedding-sgd"]]

    def run(self, settings: Settings, seed: int, samples: int) -> Curve:
        """The error at each iteration; f, u and the rest of each panel beside it."""
        world = World.of(seed)
        context = jnp.stack([jnp.asarray(GRID), world.observed], axis=1)

        def look(primal: spaces.Function, dual: DualFunction) -> tuple[np.ndarray, np.ndarray]:
            return np.asarray(primal(GRID)), np.asarray(dual(context, world.observed))

        primal, dual = (spaces.RKHS(kernel) for kernel in _kernels(settings))
        saddle = Saddle(problems.Invariance(sources.Simulator(NoisySampler(world.truth))), primal, dual)
        steps = samples // BATCH
        iterations = sorted({each * steps // ITERATIONS[-1] for each in ITERATIONS})
        result = solvers.solve(world.run_key, saddle, _solver(settings, steps), solvers.Probe(look, at=iterations))
        if not result.finite:
            raise InputError(f"the illustration cannot be drawn: {result.message}")
        seen = result.trace.averaged  # type: ignore[union-attr]
        extras = {
            "iterations": iterations,
            "truth": np.asarray(world.truth(jnp.asarray(GRID))).tolist(),
            "observed": world.observed.tolist(),
            "functions": [function.tolist() for function, _ in seen],
            "duals": [dual.tolist() for _, dual in seen],
        }
        errors = [relative_error(function, world.truth) for function, _ in seen]
        return Curve([each * BATCH for each in iterations], errors, extras)


def landmarks(settings: Settings, problem: Problem) -> Saddle:
    """Landmarks for both players."""
    primal, dual = (spaces.Nystrom(kernel, LANDMARKS) for kernel in _kernels(settings))
    penalties = {f"{player}_penalty": settings[f"{player} penalty"] for player in ("primal", "dual")}
    return Saddle(problem, primal, dual, **penalties)


def _kernels(settings: Settings) -> tuple[kernels.Kernel, kernels.Kernel]:
    on_x = kernels.Columns(kernels.Gaussian(settings["dual bandwidth for x"]), (0,))
    on_y = kernels.Columns(kernels.Gaussian(settings["dual bandwidth for y"]), (1,))
    return kernels.Gaussian(settings["primal bandwidth"]), on_x * on_y


def _solver(settings: Settings, steps: int) -> solvers.EmbeddingSGD:
    primal, dual = (
        schedules.OffsetSqrt(settings[f"{player} rate"], settings["offset"]) for player in ("primal", "dual")
    )
    return solvers.EmbeddingSGD(steps, BATCH, primal, dual)


def panels(report: Report, curves: dict[str, list[Curve]]) -> Figure:
    """Six panels of the first trial: f approaching f*, and the dual u fading where E[f(z) | x] meets y."""
    from matplotlib.figure import Figure

    first = {name: own[0] for name, own in curves.items()}
    seen = first["embedding-sgd"]
    figure = Figure(figsize=(8.4, 4.6), layout="constrained")
    grid = figure.subplots(2, 3, sharex=True, sharey=True)
    for number, axes in zip(range(len(seen.values)), grid.flat, strict=False):
        _panel(axes, seen, number)
    for name, style in (("closed-form", ":"), ("self-tuned", "-.")):
        error = first[name].values[-1]
        label = f"f, {name.replace('-', ' ')}: error {error:.2f}"
        grid.flat[-1].plot(GRID, first[name].extras["function"], style, color="#000000", linewidth=1, label=label)
    handles, labels = grid.flat[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _panel(axes: matplotlib.axes.Axes, seen: Curve, number: int) -> None:
    extras = seen.extras
    axes.axvspan(*SETTINGS["central region"], color="#f4f4f4", zorder=0)
    axes.plot(GRID, extras["observed"], color="#56B4E9", linewidth=0.6, alpha=0.8, label="noisy y at x")
    axes.plot(GRID, extras["duals"][number], color="#009E73", linewidth=0.9, label="u(x, y), the dual")
    axes.plot(GRID, extras["truth"], "--", color="#0072B2", linewidth=1.4, label="f*, the truth")
    axes.plot(GRID, extras["functions"][number], color="#D55E00", linewidth=1.8, label="f, Embedding-SGD")
    axes.set_title(f"iteration {extras['iterations'][number]}    error {seen.values[number]:.2f}", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


# Bandwidths are those on record, found by hand.
PENALTIES = Axes(
    {
        "primal bandwidth": (0.7,),
        "dual bandwidth for x": (0.5,),
        "dual bandwidth for y": (10.0,),
        "primal penalty": (1e-6, 1e-5, 1e-4, 1e-3),
        "dual penalty": (1e-6, 1e-4),
    }
)
EXPERIMENT = Experiment(
    "illustration",
    "Illustration",
    "relative L2 error of f on the central region",
    SETTINGS,
    {
        "embedding-sgd": EmbeddingSGD(),
        "closed-form": closed_form(landmarks, rows, PENALTIES, shares=(1,), most=ROWS),
        "self-tuned": self_tuned(rows, most=ROWS),
    },
    samples=ITERATIONS[-1] * BATCH,
    quick_samples=ITERATIONS[-1] * BATCH // 10,
    draw=panels,
)
