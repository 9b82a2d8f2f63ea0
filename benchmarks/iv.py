"""Instrumental variables side by side: mean test MSE of every peer on every simulated design, all on the same seeds.

    python benchmarks/iv.py --seeds 5
    python benchmarks/iv.py --quick
    python benchmarks/iv.py --peers kernel-iv --cases sin

On few cores set OPENBLAS_NUM_THREADS=1: beside other work its threads wait for each other, many times as long.
Prints one JSON object a line; `errors` has one entry for each seed in order, so that peers can be compared in pairs. A
peer is a function (x, y, z, seed) -> predict in PEERS. The last lines are the many-moment bias: the slope that linear
two-stage least squares finds where the truth is 1. benchmarks/iv_methods.py has more designs, sizes and rivals, and
coverage too.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import iv_designs
import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky
from scipy.optimize import minimize

from dualembed import kernels, problems, sources
from dualembed.baselines import KernelIV, TwoStageLeastSquares
from dualembed.selection import auto

Predict = Callable[[np.ndarray], Any]
Peer = Callable[[np.ndarray, np.ndarray, np.ndarray, int], Predict]


def two_stage_least_squares(x: np.ndarray, y: np.ndarray, z: np.ndarray, seed: int) -> Predict:
    """Polynomials of degree 3 on both sides."""
    return TwoStageLeastSquares(degree=3).fit(x, y, z).primal


def kernel_iv(x: np.ndarray, y: np.ndarray, z: np.ndarray, seed: int) -> Predict:
    """Two stages of kernel ridge regression, self-tuned."""
    return KernelIV(seed=seed).fit(x, y, z).primal


def self_tuned(x: np.ndarray, y: np.ndarray, z: np.ndarray, seed: int) -> Predict:
    """The engine's own choice of everything."""
    return auto(seed, problems.InstrumentalVariables(sources.Dataset(x=x, y=y, z=z))).primal


def gaussian_process(x: np.ndarray, y: np.ndarray, z: np.ndarray, seed: int) -> Predict:
    """Plain regression of y on x, which ignores the instrument: an exact Gaussian process tuned by its evidence.

    Hyper-parameters are learnt on at most 1,000 rows; the posterior mean uses all of them.
    """
    centre, scale, level, spread = x.mean(axis=0), x.std(axis=0), y.mean(), y.std()
    inputs, outputs = (x - centre) / scale, (y - level) / spread
    start = np.append(np.zeros(x.shape[1]), [0.0, np.log(0.5)])
    bounds = [(-4.0, 4.0)] * len(start)
    few = (inputs[:1000], outputs[:1000])
    learnt = minimize(negative_log_evidence, start, few, "L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": 40}).x
    kernel = kernels.Gaussian(np.exp(learnt[:-2]))
    gram = np.exp(2 * learnt[-2]) * kernel.gram(inputs, inputs) + np.exp(2 * learnt[-1]) * np.eye(len(y))
    weights = np.exp(2 * learnt[-2]) * cho_solve(cho_factor(gram), outputs)
    return lambda points: level + spread * (kernel.gram((points - centre) / scale, inputs) @ weights)


def negative_log_evidence(logarithms: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """(yᵀK⁻¹y + log|K|) / 2 and its gradient in the logarithms of the bandwidths, the amplitude and the noise."""
    bandwidths, amplitude, noise = np.exp(logarithms[:-2]), np.exp(logarithms[-2]), np.exp(logarithms[-1])
    signal = amplitude**2 * np.asarray(kernels.Gaussian(bandwidths).gram(x, x))
    lower = cholesky(signal + noise**2 * np.eye(len(y)), lower=True)
    inverse = cho_solve((lower, True), np.eye(len(y)))
    weights = inverse @ y
    slope = 0.5 * (inverse - np.outer(weights, weights))
    pull = slope * signal
    distances = [(column[:, None] - column) ** 2 / width**2 for column, width in zip(x.T, bandwidths, strict=True)]
    gradient = [*(np.sum(pull * squared) for squared in distances), 2 * pull.sum(), 2 * noise**2 * np.trace(slope)]
    return float(0.5 * y @ weights + np.log(np.diag(lower)).sum()), np.asarray(gradient)


PEERS: dict[str, Peer] = {
    "2sls-3": two_stage_least_squares,
    "kernel-iv": kernel_iv,
    "gp-no-instrument": gaussian_process,
    "auto": self_tuned,
}


def cases(*, quick: bool) -> dict[str, Callable[[int], iv_designs.Design]]:
    """Every design by name, as a function of the seed."""
    rows, wide_rows = (400, 400) if quick else (2000, 1000)
    one, two = (partial(each, n=rows) for each in (iv_designs.one_dimensional, iv_designs.two_dimensional))
    designs: dict[str, Callable[[int], iv_designs.Design]] = {}
    for name in iv_designs.ONE_DIMENSIONAL:
        designs[f"one-dimensional {name}, n={rows}"] = lambda seed, name=name: one(name, seed=seed)
    for name in iv_designs.TWO_DIMENSIONAL:
        designs[f"two-dimensional {name}, n={rows}"] = lambda seed, name=name: two(name, seed=seed)
    for rho in (0.5, 0.9):
        designs[f"demand rho={rho}, n={wide_rows}"] = partial(iv_designs.demand, wide_rows, rho=rho)
        designs[f"demand standardised rho={rho}, n={wide_rows}"] = partial(
            iv_designs.demand, wide_rows, rho=rho, standardised=True
        )
    return designs


def mean_test_error(draw: Callable[[int], iv_designs.Design], peer: Peer, seeds: range) -> dict[str, Any]:
    """The mean over seeds of mean (f̂ - f)² on the test points, its standard error, and seconds a fit."""
    errors, seconds = [], []
    for seed in seeds:
        design = draw(seed)
        start = time.perf_counter()
        predict = peer(design.x, design.y, design.z, seed)
        seconds.append(time.perf_counter() - start)
        errors.append(float(np.mean((np.asarray(predict(design.test_x), dtype=float) - design.test_f) ** 2)))
    spread = float(np.std(errors, ddof=1) / np.sqrt(len(seeds))) if len(seeds) > 1 else None
    # The median: the first fit of a peer may include compilation.
    summary = {"standard_error": spread, "median": float(np.median(errors)), "seconds": float(np.median(seconds))}
    return {
        "value": float(np.mean(errors)),
        "unit": "test MSE",
        "seeds": [seeds[0], seeds[-1]],
        **summary,
        "errors": errors,
    }


def many_moment_slope(r: int, seeds: int) -> dict[str, Any]:
    """The mean slope of linear two-stage least squares with r instruments and 1,000 rows; the truth is 1."""
    slopes = []
    for seed in range(seeds):
        design = iv_designs.many_moments(1000, r, seed)
        low, high = np.asarray(TwoStageLeastSquares(degree=1).fit(design.x, design.y, design.z).primal([0.0, 1.0]))
        slopes.append(float(high - low))
    return {"value": float(np.mean(slopes)), "unit": "slope, truth 1", "seeds": seeds, "slopes": slopes}


def report(bench: str, case: str, peer: str, measured: dict[str, Any]) -> None:
    """One line of JSON, numbers to four digits."""

    def rounded(value: Any) -> Any:
        return float(f"{value:.4g}") if isinstance(value, float) else value

    short = {
        key: [rounded(each) for each in value] if isinstance(value, list) else rounded(value)
        for key, value in measured.items()
    }
    print(json.dumps({"bench": bench, "case": case, "peer": peer, **short}), flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed; auto's defaults were chosen on 0 to 19")
    parser.add_argument("--quick", action="store_true", help="400 rows and at most 2 seeds")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--cases", default="", help="only designs whose name holds this text")
    options = parser.parse_args()
    seeds = min(options.seeds, 2) if options.quick else options.seeds
    for case, draw in cases(quick=options.quick).items():
        for peer in options.peers if options.cases in case else ():
            report("iv", case, peer, mean_test_error(draw, PEERS[peer], range(options.first, options.first + seeds)))
    if "2sls-3" in options.peers and options.cases in "many moments":
        for r in (100, 280):
            report("iv-many-moments", f"many moments r={r}, n=1000", "2sls-1", many_moment_slope(r, seeds))


if __name__ == "__main__":
    main()
