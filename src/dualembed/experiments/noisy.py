"""Noisy measurement: recover a function from inputs measured with noise, one virtual clean input for each visit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from dualembed import kernels, problems, schedules, solvers, sources, spaces
from dualembed.experiments.base import Method, Report, run_trials
from dualembed.experiments.figures import curves
from dualembed.progress import Track
from dualembed.saddle import Saddle

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOISE = 0.05  # of the measured input, and of the virtual samples drawn around it

SETTINGS: dict[str, Any] = {
    "batch": 50,
    "gradient": "mean over the batch",
    "draws of z for each visit": 1,
    "visits": 100_000,
    "test inputs": "401 clean inputs, evenly spaced on [-0.5, 0.5]",
}
EMBEDDING_SGD: dict[str, float] = {
    "primal bandwidth": 0.05,
    "dual bandwidth for x": 0.07,
    "dual bandwidth for y": 3.0,
    "primal penalty": 1e-4,
    "primal rate": 40.0,
    "dual rate": 5.0,
    "offset": 30.0,
}


def clean(x: jax.Array) -> jax.Array:
    """The function behind the measurements."""
    waves = jnp.sin(3.53 * jnp.pi * x) + jnp.cos(7.7 * jnp.pi * x)
    return waves * jnp.exp(-1.6 * jnp.pi * jnp.abs(x)) + 3 * x**2


def draw(key: jax.Array) -> dict[str, jax.Array]:
    """One visit: a measured input x, its output y, and one virtual sample z ~ N(x, NOISE²)."""
    input_key, noise_key = jax.random.split(key)
    inside = jax.random.uniform(input_key, minval=-0.5, maxval=0.5)
    measured, output, virtual = jax.random.normal(noise_key, (3,))
    x = inside + NOISE * measured
    return {"x": x, "y": clean(inside) + 0.01 * output, "z": x + NOISE * virtual}


def saddle(source: sources.Source) -> Saddle:
    """The problem with Gaussian RKHSs on both sides."""
    settings = EMBEDDING_SGD
    on_x = kernels.Columns(kernels.Gaussian(settings["dual bandwidth for x"]), (0,))
    on_y = kernels.Columns(kernels.Gaussian(settings["dual bandwidth for y"]), (1,))
    primal = spaces.RKHS(kernels.Gaussian(settings["primal bandwidth"]))
    dual = spaces.RKHS(on_x * on_y)
    return Saddle(problems.Invariance(source), primal, dual, primal_penalty=settings["primal penalty"])


def solver(visits: int) -> solvers.EmbeddingSGD:
    """Embedding-SGD for so many visits."""
    settings = EMBEDDING_SGD
    return solvers.EmbeddingSGD(
        steps=visits // SETTINGS["batch"],
        batch=SETTINGS["batch"],
        primal_step=schedules.OffsetSqrt(settings["primal rate"], settings["offset"]),
        dual_step=schedules.OffsetSqrt(settings["dual rate"], settings["offset"]),
    )


def mean_square_error(function: Any) -> float:
    """MSE of f against the clean function on clean inputs."""
    inputs = jnp.linspace(-0.5, 0.5, 401)
    return float(jnp.mean((function(inputs) - clean(inputs)) ** 2))


def embedding_sgd(seed: int, visits: int) -> solvers.Trace:
    """The trace of one run on fresh samples; its metric is the MSE."""
    probe = solvers.Probe(lambda primal, dual: mean_square_error(primal), every=max(1, visits // 1000))
    result = solvers.solve(seed, saddle(sources.Simulator(draw)), solver(visits), probe)
    if result.trace is None:
        raise RuntimeError("a run outside jit always has a trace")
    return result.trace


def run(*, trials: int, seed: int, quick: bool, progress: Track) -> Report:
    """Embedding-SGD on fresh samples, averaged and last iterates."""
    visits = 5_000 if quick else SETTINGS["visits"]
    traces, seconds = run_trials(lambda each: embedding_sgd(each, visits), trials, seed, progress=progress)
    samples = traces[0].samples.tolist()
    methods = {
        "embedding-sgd": Method.of(EMBEDDING_SGD, samples, [trace.averaged for trace in traces], seconds),
        "embedding-sgd-last": Method.of(EMBEDDING_SGD, samples, [trace.last for trace in traces], seconds),
    }

    def figure() -> Figure:
        return curves(methods, title="Noisy measurement", metric="MSE on clean inputs")

    settings = {**SETTINGS, "visits": visits}
    return Report("noisy", trials, seed, "MSE of f on clean inputs", methods, figure, settings)
