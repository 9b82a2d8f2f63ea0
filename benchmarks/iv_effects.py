"""Effects by instruments: how often 95 % intervals of contrasts and average effects hold the truth, design by design.

    python benchmarks/iv_effects.py --out effects.jsonl --seeds 5000:5200
    python benchmarks/iv_effects.py --out effects.jsonl --designs binary weak --seeds 0:20
    python benchmarks/iv_effects.py --out effects.jsonl --table

One JSON object a line for each design and seed, with what every question was answered: `effect` of moving the treatment
between two fixed places (its population quartiles, or 0 and 1), and `slope`, the mean derivative over the rows of the
data, whose truth is that of the population. `linear` is the slope of two-stage least squares beside it, where f is a
line. What the file has already is not computed again. On few cores set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from iv_methods import seed_range

import dualembed as de


class Sample(NamedTuple):
    """Rows, the true effect of moving x between its `ends`, and the true mean derivative, if there is one."""

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    ends: tuple[float, float]
    effect: float
    slope: float | None = None
    controls: np.ndarray | None = None
    groups: np.ndarray | None = None


Draw = Callable[[np.random.Generator, int], Sample]
DESIGNS: dict[str, tuple[Draw, int]] = {}


def design(name: str, rows: int) -> Callable[[Draw], Draw]:
    """Keep a design by its name, with how many rows it has."""

    def keep(draw: Draw) -> Draw:
        DESIGNS[name] = draw, rows
        return draw

    return keep


@design("binary", 1000)
def binary(rng: np.random.Generator, rows: int) -> Sample:
    """A treatment of 0 or 1, its instrument a number."""
    z, u, e = rng.standard_normal((3, rows))
    x = (0.8 * z + u > 0).astype(float)
    return Sample(x, x + u + 0.5 * e, z, (0.0, 1.0), 1.0)


@design("binary both", 1000)
def binary_both(rng: np.random.Generator, rows: int) -> Sample:
    """Assignment that not all comply with: treatment and instrument are 0 or 1."""
    z, u, e = rng.integers(0, 2, rows).astype(float), *rng.standard_normal((2, rows))
    x = (z - 0.5 + u > 0).astype(float)
    return Sample(x, x + u + 0.5 * e, z, (0.0, 1.0), 1.0)


def weak(share: float) -> Draw:
    """A line, and an instrument that predicts so small a share of x."""

    def draw(rng: np.random.Generator, rows: int) -> Sample:
        z, u, e = rng.standard_normal((3, rows))
        x = np.sqrt(share) * z + np.sqrt(1 - share) * u
        return Sample(x, x + u + 0.5 * e, z, (-0.674, 0.674), 1.348, 1.0)

    return draw


DESIGNS["weak .01"], DESIGNS["weak .002"] = (weak(0.01), 1000), (weak(0.002), 1000)
DESIGNS["weak .01, 5,000"] = weak(0.01), 5000


def clustered(count: int) -> Draw:
    """A line, instruments and hidden causes of whole clusters."""

    def draw(rng: np.random.Generator, rows: int) -> Sample:
        groups = rng.integers(0, count, rows)
        own = rng.standard_normal((3, count))[:, groups]
        z, u, e = 0.7 * own + 0.7 * rng.standard_normal((3, rows))
        x = z + u
        return Sample(
            x, x + u + e, z, (-0.674 * np.sqrt(2), 0.674 * np.sqrt(2)), 1.348 * np.sqrt(2), 1.0, groups=groups
        )

    return draw


for each in (10, 20, 50):
    DESIGNS[f"{each} clusters"] = clustered(each), 1000


@design("10 controls", 1000)
def controlled(rng: np.random.Generator, rows: int) -> Sample:
    """A line in x and ten controls, two of which bend."""
    w = rng.standard_normal((rows, 10))
    z, u, e = rng.standard_normal((3, rows))
    z = z + 0.3 * w[:, 0]
    x = 0.6 * z + u + 0.5 * w[:, 1]
    y = x + u + 0.5 * e + w[:, 0] + 0.5 * w[:, 1] ** 2 + np.sin(2 * w[:, 2]) + 0.3 * w[:, 3:].sum(axis=1)
    return Sample(x, y, z, (0.0, 1.0), 1.0, 1.0, controls=w)


def curved(curve: Callable[[np.ndarray], np.ndarray], slope: Callable[[np.ndarray], np.ndarray] | None) -> Draw:
    """A curve of one x, x = (1.2 z + 0.8 u) / 1.44."""
    law = np.random.default_rng(0).standard_normal(1_000_000)

    def draw(rng: np.random.Generator, rows: int) -> Sample:
        z, u, e = rng.standard_normal((3, rows))
        x = (1.2 * z + 0.8 * u) / np.sqrt(1.2**2 + 0.8**2)
        ends = (-0.674, 0.674)
        low, high = curve(np.array(ends))
        mean = None if slope is None else float(np.mean(slope(law)))
        return Sample(x, curve(x) + u + 0.5 * e, z, ends, float(high - low), mean)

    return draw


DESIGNS["sin"] = curved(lambda x: np.sin(1.5 * x), lambda x: 1.5 * np.cos(1.5 * x)), 1000
DESIGNS["quadratic"] = curved(lambda x: x + 0.6 * x**2, lambda x: 1 + 1.2 * x), 1000
DESIGNS["step"] = curved(lambda x: 1.5 * (x > 0), None), 1000
DESIGNS["kink"] = curved(lambda x: np.maximum(x - 0.3, 0.0), lambda x: (x > 0.3).astype(float)), 1000


@design("heteroskedastic", 1000)
def heteroskedastic(rng: np.random.Generator, rows: int) -> Sample:
    """A curve, with noise that grows with the instrument."""
    z, u, e = rng.standard_normal((3, rows))
    x = z + 0.7 * u
    law = np.sqrt(1.49)
    curve = np.tanh
    mean = float(np.mean(1 - np.tanh(law * np.random.default_rng(0).standard_normal(1_000_000)) ** 2))
    y = curve(x) + (0.3 + np.abs(z)) * (u + 0.5 * e)
    ends = (-0.674 * law, 0.674 * law)
    return Sample(x, y, z, ends, float(curve(ends[1]) - curve(ends[0])), mean)


@design("heavy tails", 1000)
def heavy(rng: np.random.Generator, rows: int) -> Sample:
    """The same curve, with noise of hardly a variance."""
    z, u = rng.standard_normal((2, rows))
    x = z + 0.7 * u
    law = np.sqrt(1.49)
    mean = float(np.mean(1 - np.tanh(law * np.random.default_rng(0).standard_normal(1_000_000)) ** 2))
    ends = (-0.674 * law, 0.674 * law)
    y = np.tanh(x) + 0.5 * u + 0.5 * rng.standard_t(2.1, rows)
    return Sample(x, y, z, ends, float(np.tanh(ends[1]) - np.tanh(ends[0])), mean)


def measure(sample: Sample) -> dict[str, Any]:
    """What the default estimator says, and whether it holds."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = de.IVRegressor().fit(
            sample.x, sample.y, instruments=sample.z, controls=sample.controls, groups=sample.groups
        )
        found: dict[str, Any] = {"effect": answered(model.effect(*sample.ends), sample.effect)}
        if sample.slope is not None:
            found["slope"] = answered(model.ask(model.mean_derivative(0)), sample.slope)
        if model.linear_ is not None and sample.slope is not None:
            name = model.linear_.endogenous[0]
            low, high = model.linear_.conf_int()[name]
            held = {"holds": bool(low <= sample.slope <= high), "width": high - low}
            found["linear"] = {"miss": model.linear_.params[name] - sample.slope, **held}
    return found | {"seconds": round(time.perf_counter() - start, 2)}


def answered(answer: Any, truth: float) -> dict[str, Any]:
    """By how much an answer misses, and whether its interval holds."""
    low, high = answer.interval()
    verdict = None if answer.verdict is None else str(answer.verdict)
    return {"miss": answer.value - truth, "holds": bool(low <= truth <= high), "width": high - low, "verdict": verdict}


def read(file: Path) -> dict[tuple[str, int], dict[str, Any]]:
    """What the file has, by design and seed."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {(entry["design"], entry["seed"]): entry for entry in map(json.loads, lines)}


def table(entries: Iterable[dict[str, Any]]) -> str:
    """A line for each design and question."""
    lines = [f"{'design':<18}{'question':<9}{'seeds':>6}{'covers':>8}{'rms':>9}{'bias':>9}{'width':>8}{'widest':>8}"]
    order = list(DESIGNS)
    for name, group in itertools.groupby(
        sorted(entries, key=lambda e: order.index(e["design"])), lambda e: e["design"]
    ):
        own = list(group)
        for question in ("effect", "slope", "linear"):
            answers = [entry[question] for entry in own if question in entry]
            if not answers:
                continue
            misses, widths = (np.array([answer[key] for answer in answers]) for key in ("miss", "width"))
            covers = np.mean([answer["holds"] for answer in answers])
            lines.append(
                f"{name:<18}{question:<9}{len(answers):>6}{covers:>8.3f}{np.sqrt(np.mean(misses**2)):>9.4f}"
                f"{misses.mean():>9.4f}{np.median(widths):>8.3f}{widths.max() / np.median(widths):>8.2f}"
            )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file of JSON lines, which a later run goes on with")
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS), metavar="NAME")
    parser.add_argument("--seeds", type=seed_range, default=range(5000, 5200), metavar="FIRST:STOP")
    parser.add_argument("--table", action="store_true", help="compute nothing, and print the table of what is there")
    options = parser.parse_args(arguments)
    done = read(options.out)
    asked = list(itertools.product(options.seeds, options.designs))
    for seed, name in () if options.table else asked:
        if (name, seed) in done:
            continue
        draw, rows = DESIGNS[name]
        done[name, seed] = {"design": name, "seed": seed, **measure(draw(np.random.default_rng(seed), rows))}
        with options.out.open("a") as file:
            print(json.dumps(done[name, seed]), file=file)
    print(table(done[name, seed] for seed, name in asked if (name, seed) in done))


if __name__ == "__main__":
    main()
