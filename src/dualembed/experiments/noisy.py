"""Noisy measurement: recover a function from inputs measured with noise, by virtual clean inputs drawn around them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dualembed import baselines, kernels, problems, solvers, sources, spaces
from dualembed.experiments.experiment import (
    Axes,
    Contender,
    Experiment,
    Settings,
    Setup,
    Setups,
    Stochastic,
    closed_form,
    self_tuned,
)
from dualembed.problems.base import Problem
from dualembed.saddle import Saddle
from dualembed.spaces.base import Function

NOISE = 0.05  # of the measured input, and of the virtual samples drawn around it
BATCH = 50
DRAWS = 10  # virtual samples of each datum
ROUNDS = 10  # over a fixed training set
LANDMARKS = 200

SETTINGS: dict[str, Any] = {
    "batch": BATCH,
    "gradient": "mean over the batch",
    "steps": "rate / (offset + t^power)",
    "penalties": "1e-4 of f, none of u; those of closed-form are settings",
    "draws of z": "1 for a visit of embedding-sgd, 10 for one of sgd-saa and virtual-samples, 10 a row for the others",
    "fixed": f"methods named so visit a tenth as many data {ROUNDS} times; each has {DRAWS} virtual samples",
    "rivals' space": f"{LANDMARKS} landmarks, which span the RKHS here: an expansion would have a million centres",
    "test inputs": "401 clean inputs, evenly spaced on [-0.5, 0.5]",
}
PENALTY = 1e-4
INPUTS = np.linspace(-0.5, 0.5, 401)


def clean(x: jax.Array) -> jax.Array:
    """The function behind the measurements."""
    waves = jnp.sin(3.53 * jnp.pi * x) + jnp.cos(7.7 * jnp.pi * x)
    return waves * jnp.exp(-1.6 * jnp.pi * jnp.abs(x)) + 3 * x**2


def draw(key: jax.Array, draws: int = 1) -> dict[str, jax.Array]:
    """One visit: a measured input x, its output y, and virtual samples z ~ N(x, NOISE²), (draws, 1)."""
    input_key, noise_key, virtual_key = jax.random.split(key, 3)
    inside = jax.random.uniform(input_key, minval=-0.5, maxval=0.5)
    measured, output = jax.random.normal(noise_key, (2,))
    x = inside + NOISE * measured
    z = x + NOISE * jax.random.normal(virtual_key, (draws, 1))
    return {"x": x, "y": clean(inside) + 0.01 * output, "z": z}


def draw_many(key: jax.Array) -> dict[str, jax.Array]:
    """One visit with all its virtual samples."""
    return draw(key, DRAWS)


def data(seed: int, rows: int) -> dict[str, np.ndarray]:
    """Columns of that many visits, with all their virtual samples."""
    return {
        name: np.asarray(each) for name, each in sources.Simulator(draw_many).pilot(jax.random.key(seed), rows).items()
    }


def mean_square_error(function: Function) -> float:
    """MSE of f against the clean function on clean inputs."""
    return float(np.mean((np.asarray(function(INPUTS)) - np.asarray(clean(jnp.asarray(INPUTS)))) ** 2))


def fresh(seed: int, samples: int) -> Setup:
    """Endless visits, one virtual sample each."""
    return Setup(problems.Invariance(sources.Simulator(draw)), mean_square_error)


def fresh_many(seed: int, samples: int) -> Setup:
    """Endless visits, ten virtual samples each."""
    return Setup(problems.Invariance(sources.Simulator(draw_many)), mean_square_error)


def rows(seed: int, samples: int) -> Setup:
    """That many visits, ten virtual samples each."""
    return Setup(problems.Invariance(sources.Dataset(**data(seed, samples))), mean_square_error)


def fixed(seed: int, samples: int) -> Setup:
    """One shuffled pass over all pairs of a datum and one of its virtual samples."""
    table = data(seed, samples // ROUNDS)
    spread = {name: np.repeat(table[name], DRAWS) for name in ("x", "y")}
    return Setup(problems.Invariance(sources.Dataset(**spread, z=table["z"].reshape(-1, 1))), mean_square_error)


def fixed_many(seed: int, samples: int) -> Setup:
    """Rounds over a training set, with all virtual samples of each datum."""
    return rows(seed, samples // ROUNDS)


def expansion(settings: Settings, problem: Problem) -> Saddle:
    """Gaussian RKHSs on both sides."""
    primal = spaces.RKHS(kernels.Gaussian(settings["primal bandwidth"]))
    return Saddle(problem, primal, spaces.RKHS(_on_context(settings)), primal_penalty=PENALTY)


def landmarks(settings: Settings, problem: Problem) -> Saddle:
    """Landmarks on both sides; a rival without a dual has no use for the other one."""
    primal = spaces.Nystrom(kernels.Gaussian(settings["primal bandwidth"]), LANDMARKS)
    dual = spaces.Nystrom(_on_context(settings), LANDMARKS) if "dual bandwidth for x" in settings else primal
    penalties = {name: settings.get(f"{name} penalty") for name in ("primal", "dual")}
    return Saddle(problem, primal, dual, primal_penalty=penalties["primal"] or PENALTY, dual_penalty=penalties["dual"])


def _on_context(settings: Settings) -> kernels.Kernel:
    on_x = kernels.Columns(kernels.Gaussian(settings["dual bandwidth for x"]), (0,))
    on_y = kernels.Columns(kernels.Gaussian(settings["dual bandwidth for y"]), (1,))
    return on_x * on_y


EMBEDDING = Axes(
    {
        "primal bandwidth": (0.05, 0.07, 0.1),
        "dual bandwidth for x": (0.05, 0.07, 0.1, 0.15),
        "dual bandwidth for y": (0.3, 3.0),
        "power": (0.5,),
        "primal rate": (3.0, 10.0, 20.0, 40.0, 80.0),
        "dual rate": (1.0, 3.0, 5.0, 10.0, 20.0),
        "offset": (1.0, 10.0, 30.0, 100.0),
    }
)
RIVALS = Axes(
    {
        "primal bandwidth": (0.05, 0.07, 0.1, 0.15, 0.2),
        "power": (0.5,),
        "primal rate": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
        "offset": (1.0, 10.0, 30.0, 100.0),
    }
)
CLOSED = Axes(
    {
        "primal bandwidth": (0.05, 0.07, 0.1),
        "dual bandwidth for x": (0.05, 0.07, 0.1),
        "dual bandwidth for y": (3.0, 30.0),
        "primal penalty": (1e-7, 1e-6, 1e-5, 1e-4),
        "dual penalty": (1e-6, 1e-4),
    }
)


def embedding_sgd(setups: Setups) -> Stochastic:
    """Embedding-SGD with one virtual sample a visit."""
    return Stochastic(solvers.EmbeddingSGD, lambda _: setups, expansion, BATCH, EMBEDDING)


def rival(solver: Any, setups: Setups) -> Stochastic:
    """A method without a dual, with all virtual samples at every visit."""
    return Stochastic(solver, lambda _: setups, landmarks, BATCH, RIVALS)


CONTENDERS: dict[str, Contender] = {
    "embedding-sgd": embedding_sgd(fresh),
    "sgd-saa": rival(baselines.SGDSAA, fresh_many),
    "virtual-samples": rival(baselines.VirtualSamples, fresh_many),
    "closed-form": closed_form(landmarks, rows, CLOSED),
    "self-tuned": self_tuned(rows),
    "embedding-sgd-fixed": embedding_sgd(fixed),
    "sgd-saa-fixed": rival(baselines.SGDSAA, fixed_many),
    "virtual-samples-fixed": rival(baselines.VirtualSamples, fixed_many),
}
EXPERIMENT = Experiment(
    "noisy",
    "Noisy measurement",
    "MSE of f on clean inputs",
    SETTINGS,
    CONTENDERS,
    samples=100_000,
    quick_samples=5_000,
)
