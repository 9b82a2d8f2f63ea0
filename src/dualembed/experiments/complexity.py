"""Sample complexity: the error against the number n of draws of z, and against the radius of the balls.

f* = Σ_j c_j k(x_j, ·) with |f*| known, y = E[f*(z) | x] + noise. The error is the excess objective
L(f) - L(f*) = ½ E_x (E[f(z) | x] - E[f*(z) | x])², exact by quadrature. What the paper says of it, and of what else:

- Embedding-SGD: E[L(f) - L(f*)] <= O(δ^(3/2) / √n + E(δ)), δ the squared radius of the dual's ball and E(δ) how far the
  optimal duals are from it. Where that does not matter, an excess of ε takes 1/ε² draws: n^(-1/2) here.
- Sample average: an excess of ε takes 1/ε² inputs and as many draws for each, 1/ε⁴ in all: n^(-1/4).
- Conditional embedding: 1/ε⁴ draws, but there ε is the error of the embedding in its RKHS, not of the objective. By
  |E[f(z) | x] - its estimate| <= |f| ε that is n^(-1/4) for a Lipschitz loss, and n^(-1/2) for the square loss.

The dual is a function of x alone, which for the square loss changes L by a constant only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dualembed import baselines, kernels, problems, schedules, solvers, sources, spaces
from dualembed.experiments.bellman import smooth
from dualembed.experiments.experiment import (
    Axes,
    Candidates,
    Contender,
    Curve,
    Experiment,
    Round,
    Settings,
    fit_closed_form,
    fit_self_tuned,
)
from dualembed.experiments.report import FONT, Report
from dualembed.problems.base import finite_data
from dualembed.saddle import Saddle
from dualembed.spaces.nystrom import whitened

if TYPE_CHECKING:
    import matplotlib.axes
    from matplotlib.figure import Figure

SIZES = (200, 800, 3_200, 12_800, 51_200)
REACH, DEVIATION, NOISE = 5.0, 0.3**0.5, 0.1  # x is uniform on [-5, 5], z ~ N(x, 0.3)
CENTRES, NORM = 10, 3.0  # of f*
KERNEL = kernels.Gaussian(1.0)
LANDMARKS = np.linspace(-7.5, 7.5, 31)
RELATIVE_RADII = np.logspace(-1, 1.5, 11)  # 1 is among them
RATES = (0.3, 1.0, 3.0, 10.0, 20.0, 40.0, 80.0)  # γ, tried for every radius
BUDGETS = (1 / 64, 1 / 8, 1)  # of the samples, for the radii
SELF_TUNED_ROWS = 3_200  # at most, for its cost
TUNING_TRIALS = 6

SETTINGS: dict[str, Any] = {
    "x": "uniform on [-5, 5]",
    "variance of z given x": 0.3,
    "noise of y": NOISE,
    "f*": f"{CENTRES} Gaussians of width 1 with random places and heights, |f*| = {NORM:g}; another in every trial",
    "spaces": "the Gaussian RKHS of width 1 for f and for u(x), on 31 points 0.5 apart",
    "draws of z": "one for each x, but m for each x in the sample average; they are the samples that are counted",
    "embedding-sgd": "one draw a step, one pass, the step γ/√n throughout, no ball, averaged iterate",
    "settings": f"for each n the best of a grid on {TUNING_TRIALS} other trials; self-tuned is told nothing",
    "two-step": "60 landmarks beyond 1,000 draws",
    "ball": "|f| and |u| <= R = √δ, step γ/√n with γ = 2D/(√5 M), D = R, M² = E(f*(z) - y)², as in the theorem with "
    "the slopes at the saddle point for their bound; the metric is that at R = |f*|",
}

INPUTS, INPUT_WEIGHTS = np.polynomial.legendre.leggauss(64)
OFFSETS, OFFSET_WEIGHTS = np.polynomial.hermite_e.hermegauss(48)
NODES = (REACH * INPUTS[:, None] + DEVIATION * OFFSETS).reshape(-1)  # where f must be known for its error
CAPTION = (
    "The paper's worst cases: Embedding-SGD reaches an excess objective of ε with 1/ε² draws, the sample average with "
    "1/ε⁴.\nThe two-step's 1/ε⁴ is for an error of ε of the embedding in its RKHS; its square bounds the excess here.\n"
    "Slopes of log error against log n: mean ± standard error over trials. Bands: one standard deviation."
)

STYLES: dict[str, dict[str, Any]] = {
    "embedding-sgd": {"label": "Embedding-SGD", "color": "#D55E00", "marker": "o", "linewidth": 2.0, "zorder": 5},
    "batch-saa": {"label": "sample average, best m", "color": "#0072B2", "marker": "^", "linestyle": "--"},
    "two-step": {"label": "two-step embedding", "color": "#E69F00", "marker": "v", "linestyle": "-."},
    "closed-form": {"label": "closed form", "color": "#000000", "marker": "s", "linestyle": ":"},
    "self-tuned": {"label": "self-tuned", "color": "#009E73", "marker": "D", "linestyle": (0, (5, 1))},
}


def local_averages(values: np.ndarray) -> np.ndarray:
    """E[f(z) | x] (64, ...) at the quadrature's x, from the values of f at NODES."""
    return np.tensordot(OFFSET_WEIGHTS / OFFSET_WEIGHTS.sum(), values.reshape(64, 48, *values.shape[1:]), (0, 1))


@dataclass(frozen=True)
class Trial:
    """A random f* of norm NORM and data about it."""

    seed: int

    @cached_property
    def truth(self) -> spaces.rkhs.KernelFunction:
        """f*, its centres among the landmarks, so that f* is in the space exactly."""
        rng = np.random.default_rng([self.seed, 0])
        centres = rng.choice(LANDMARKS[np.abs(LANDMARKS) <= REACH], (CENTRES, 1), replace=False)
        heights = rng.standard_normal(CENTRES)
        heights *= NORM / np.sqrt(heights @ KERNEL.gram(centres, centres) @ heights)
        return spaces.rkhs.KernelFunction(KERNEL, centres, heights, tile=CENTRES)  # type: ignore[arg-type]  # in float64

    def problem(self, samples: int, draws: int = 1) -> problems.Invariance:
        """So many draws of z, `draws` of them for each x."""
        rng = np.random.default_rng([self.seed, 1])
        x = rng.uniform(-REACH, REACH, samples // draws)
        y = self.local_average(x) + NOISE * rng.standard_normal(len(x))
        z = x[:, None] + DEVIATION * rng.standard_normal((len(x), draws))
        return problems.Invariance(sources.Dataset(x=x, y=y, z=z[:, :, None]))

    def local_average(self, x: np.ndarray) -> np.ndarray:
        """E[f*(z) | x]."""
        return np.asarray(smooth(self.truth, DEVIATION)(x), dtype=np.float64)  # type: ignore[misc]  # a Gaussian's

    def excess(self, function: spaces.Function) -> float:
        """½ E_x (E[f(z) | x] - E[f*(z) | x])²."""
        return float(self.excesses(np.asarray(function(NODES), dtype=np.float64)[:, None])[0])

    def excesses(self, values: np.ndarray) -> np.ndarray:
        """The excess (k,) of k functions, from their values (n, k) at NODES."""
        errors = local_averages(values) - self.local_average(REACH * INPUTS)[:, None]
        return INPUT_WEIGHTS / 2 @ errors**2 / 2

    @cached_property
    def slope_moment(self) -> float:
        """E(f*(z) - y)², the second moment of both slopes at the saddle point, where u = 0."""
        values = np.asarray(self.truth(NODES), dtype=np.float64)
        variance = local_averages(values**2) - local_averages(values) ** 2
        return float(INPUT_WEIGHTS / 2 @ variance) + NOISE**2


@cache
def both_spaces(precision: type) -> tuple[spaces.Basis, spaces.Basis]:
    """(that of f, that of u), orthonormal in their RKHSs, of directions that survive rounding at that precision."""
    points: np.ndarray = LANDMARKS[:, None].astype(precision)
    contexts = np.concatenate([points, 0 * points], axis=1)
    primal, dual = whitened(KERNEL, points), whitened(kernels.Columns(KERNEL, (0,)), contexts)
    return spaces.Basis(primal), spaces.Basis(dual)


def descents(trial: Trial, samples: int, columns: dict[str, Any]) -> np.ndarray:
    """The excess of Embedding-SGD's averaged iterate for each primal γ, dual γ and, where given, radius of both balls.

    One pass of single draws; infinite where it diverged.
    """
    problem, (primal, dual) = trial.problem(samples), both_spaces(np.float32)

    @jax.vmap
    def solved(numbers: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
        radius = numbers.get("radius")
        saddle = Saddle(problem, primal, dual, primal_radius=radius, dual_radius=radius)
        steps = [schedules.Constant(numbers[f"{player} γ"] / np.sqrt(samples)) for player in ("primal", "dual")]
        result = solvers.solve(trial.seed, saddle, solvers.EmbeddingSGD(samples, 1, steps[0], steps[1]))
        return result.primal.weights, result.finite  # type: ignore[attr-defined]  # linear, as its space is

    weights, finite = solved({name: jnp.asarray(column, dtype=float) for name, column in columns.items()})
    values = np.asarray(primal.function(NODES[:, None]), dtype=np.float64) @ np.asarray(weights, dtype=np.float64).T
    return np.where(finite, trial.excesses(values), np.inf)


@dataclass(frozen=True)
class Sized(Contender):
    """A method with settings of its own for every number of draws, each by the number's name."""

    errors: Callable[[Sequence[Settings], Trial, int], list[float]]  # the excess for each setting
    candidates: Callable[[int], list[Settings]] = lambda _: [{}]  # what is tried for that many draws
    largest: int = SIZES[-1]
    at_once: bool = False  # whether settings are cheaper to compute together

    def sizes(self, samples: int) -> list[int]:
        """The numbers of draws up to so many at which it is run."""
        return [size for size in SIZES if size <= min(samples, self.largest)]

    def run(self, settings: Settings, seed: int, samples: int) -> Curve:
        """The excess at every size; beside it the slope of its logarithm against that of the size."""
        sizes, trial = self.sizes(samples), Trial(seed)
        values = [self.errors([settings.get(str(size), {})], trial, size)[0] for size in sizes]
        slope = np.polyfit(np.log(sizes), np.log(values), 1)[0] if np.all(np.isfinite(values)) else np.nan
        return Curve(sizes, values, {"slope": float(slope)})

    def choices(self, samples: int) -> list[Candidates]:
        """One for each size, where there is something to choose."""
        sized = [Candidates(self.candidates(size), size, str(size)) for size in self.sizes(samples)]
        return [choice for choice in sized if len(choice.candidates) > 1]

    def batches(self, candidates: list[Settings]) -> list[list[Settings]]:
        """All together, or each by itself."""
        return [candidates] if self.at_once else super().batches(candidates)

    def finals(self, candidates: list[Settings], seed: int, samples: int, *, rough: bool = False) -> list[float]:
        """The excess at that size alone, for each setting."""
        return self.errors(candidates, Trial(seed), samples)


def embedding_sgd(candidates: Sequence[Settings], trial: Trial, samples: int) -> list[float]:
    """One-sample Embedding-SGD with constant steps over the horizon, all settings at once."""
    columns = {name: [each[name] for each in candidates] for name in ("primal γ", "dual γ")}
    return descents(trial, samples, columns).tolist()


def sgd_candidates(samples: int) -> list[Settings]:
    """Both players' γ."""
    rates = (5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0)
    return [{"primal γ": rate, "dual γ": ratio * rate} for rate in rates for ratio in (0.3, 1.0)]


def batch_saa(candidates: Sequence[Settings], trial: Trial, samples: int) -> list[float]:
    """The sample average with m draws for each input, solved exactly."""
    primal, dual = both_spaces(np.float64)
    saddles = (
        Saddle(trial.problem(samples, each["m"]), primal, dual, primal_penalty=each["penalty"]) for each in candidates
    )
    return [trial.excess(solvers.solve(trial.seed, saddle, baselines.BatchSAA()).primal) for saddle in saddles]


def saa_candidates(samples: int) -> list[Settings]:
    """m, as long as there are eight inputs, and the penalty."""
    draws = [2**power for power in range(10) if 8 * 2**power <= samples]
    return list(Axes({"m": draws, "penalty": (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)}))


def two_step(candidates: Sequence[Settings], trial: Trial, samples: int) -> list[float]:
    """The conditional embedding, then regression on it."""
    table = finite_data(trial.problem(samples)).columns
    data = {"context": table["x"], "target": table["y"], "draws": table["z"]}
    rivals = (
        baselines.ConditionalEmbeddingTwoStep(
            KERNEL, KERNEL, penalty=each["penalty"], embedding_penalty=each["embedding penalty"], size=60
        )
        for each in candidates
    )
    return [trial.excess(rival.fit(**data).primal) for rival in rivals]


def two_step_candidates(samples: int) -> list[Settings]:
    """The penalties of the two steps."""
    return list(Axes({"embedding penalty": (1e-6, 1e-4, 1e-2), "penalty": (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)}))


def closed_form(candidates: Sequence[Settings], trial: Trial, samples: int) -> list[float]:
    """The saddle point of all the draws."""
    problem, (primal, dual) = trial.problem(samples), both_spaces(np.float64)
    penalties = ({name.replace(" ", "_"): value for name, value in each.items()} for each in candidates)
    saddles = (Saddle(problem, primal, dual, **each) for each in penalties)
    return [trial.excess(fit_closed_form(saddle, trial.seed)) for saddle in saddles]


def closed_form_candidates(samples: int) -> list[Settings]:
    """Both players' penalties."""
    return list(Axes({"primal penalty": (1e-6, 1e-5, 1e-4, 1e-3, 1e-2), "dual penalty": (1e-6, 1e-4, 1e-2)}))


def self_tuned(candidates: Sequence[Settings], trial: Trial, samples: int) -> list[float]:
    """Everything chosen from the draws alone: there is one candidate, and nothing in it."""
    return [trial.excess(fit_self_tuned(trial.problem(samples), trial.seed)) for _ in candidates]


class Ball(Contender):
    """Embedding-SGD with both players kept in balls of one radius."""

    def run(self, settings: Settings, seed: int, samples: int) -> Curve:
        """The excess at the radius |f*| for each budget; beside it that at every radius, and at every γ there."""
        trial, budgets = Trial(seed), [round(share * samples) for share in BUDGETS]
        radii = NORM * RELATIVE_RADII
        theorem = 2 * radii / np.sqrt(5 * trial.slope_moment)
        rates = np.column_stack([theorem, *(np.full_like(radii, rate) for rate in RATES)])
        flat = {"primal γ": rates.ravel(), "dual γ": rates.ravel(), "radius": radii.repeat(rates.shape[1])}
        errors = [descents(trial, budget, flat).reshape(rates.shape) for budget in budgets]
        own = [table[:, 0] for table in errors]
        values = [float(each[np.argmin(np.abs(RELATIVE_RADII - 1))]) for each in own]
        extras = {
            "radii": RELATIVE_RADII.tolist(),
            "theorem": np.asarray(own).tolist(),
            "any γ": [table[:, 1:].tolist() for table in errors],
        }
        return Curve(budgets, values, extras)


def panels(report: Report, curves: dict[str, list[Curve]]) -> Figure:
    """(a) The excess against draws of z, with fitted slopes; (b) against the radius of the balls."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 4.0), layout="constrained")
    figure.supxlabel(CAPTION, fontsize=FONT - 1.5)
    left, right = figure.subplots(1, 2)
    _against_draws(left, report)
    _against_radius(right, curves["ball"])
    for axes in (left, right):
        axes.set(xscale="log", yscale="log")
        axes.tick_params(labelsize=FONT)
        axes.grid(True, which="major", alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=FONT - 1.5, handlelength=3)
    return figure


def _against_draws(axes: matplotlib.axes.Axes, report: Report) -> None:
    shown = [name for name in STYLES if name in report.methods]
    for name in shown:
        method, style = report.methods[name], STYLES[name]
        n, mean, spread = (np.asarray(each, dtype=float) for each in (method.samples, method.mean, method.std))
        slopes = np.asarray(method.extras["slope"])
        error = f" ± {slopes.std(ddof=1) / np.sqrt(len(slopes)):.2f}" if len(slopes) > 1 else ""
        label = f"{style['label']}: slope {slopes.mean():.2f}{error}"
        axes.plot(n, mean, **{**style, "label": label}, markersize=3.5)
        _band(axes, n, mean, spread=spread, colour=style["color"])
    n = np.asarray(report.methods["embedding-sgd"].samples, dtype=float)
    top = 1.5 * max(report.methods[name].mean[0] for name in shown)
    for power, line, meaning in ((-0.25, (0, (1, 3)), "1/ε⁴ draws"), (-0.5, (0, (4, 4)), "1/ε² draws")):
        label = f"$n^{{{power:g}}}$: {meaning} for an excess ε"
        axes.plot(n, top * (n / n[0]) ** power, color="#777777", linewidth=0.9, linestyle=line, label=label)
    axes.set_xlabel("draws of z, n", fontsize=FONT)
    axes.set_ylabel(report.metric, fontsize=FONT)
    axes.set_title("(a) error and samples", fontsize=FONT + 1)


def _band(axes: matplotlib.axes.Axes, places: np.ndarray, mean: np.ndarray, *, spread: np.ndarray, colour: str) -> None:
    """One standard deviation around the mean; below zero there is no place on a logarithmic axis."""
    lower = np.maximum(mean - spread, mean / 10)
    axes.fill_between(places, lower, mean + spread, color=colour, alpha=0.12, linewidth=0)


def _against_radius(axes: matplotlib.axes.Axes, own: list[Curve]) -> None:
    styles = (("#56B4E9", "v"), ("#0072B2", "s"), ("#D55E00", "o"))
    radii = own[0].extras["radii"]
    theorem = np.asarray([curve.extras["theorem"] for curve in own], dtype=float)
    best = np.asarray([curve.extras["any γ"] for curve in own], dtype=float).mean(axis=0).min(axis=-1)
    for number, (budget, (colour, marker)) in enumerate(zip(own[0].samples, styles, strict=True)):
        mean, spread = theorem[:, number].mean(axis=0), theorem[:, number].std(axis=0)
        axes.plot(radii, mean, color=colour, marker=marker, markersize=3.5, label=f"n = {budget:,}, γ ∝ R")
        _band(axes, np.asarray(radii), mean, spread=spread, colour=colour)
        label = "best γ for each R" if number == 2 else None
        axes.plot(radii, best[number], color=colour, linestyle=":", linewidth=1, label=label)
    axes.axvline(1, color="#777777", linewidth=0.9, linestyle="--", label="|f*|")
    axes.set_xlabel("radius R = √δ of both balls, in units of |f*|", fontsize=FONT)
    axes.set_title("(b) error and the size of the balls", fontsize=FONT + 1)


SIZED = {
    "embedding-sgd": Sized(embedding_sgd, sgd_candidates, at_once=True),
    "batch-saa": Sized(batch_saa, saa_candidates),
    "two-step": Sized(two_step, two_step_candidates),
    "closed-form": Sized(closed_form, closed_form_candidates),
    "self-tuned": Sized(self_tuned, largest=SELF_TUNED_ROWS),
}
EXPERIMENT = Experiment(
    "complexity",
    "Sample complexity",
    "excess objective, ½ E(E[f(z) | x] - E[f*(z) | x])²",
    SETTINGS,
    {**SIZED, "ball": Ball()},
    samples=SIZES[-1],
    quick_samples=SIZES[1],
    draw=panels,
    rounds=(Round(1, TUNING_TRIALS, 1),),
)
