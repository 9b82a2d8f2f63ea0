"""What the average of iterates costs: seconds of a run with it over seconds without, both best of several in turn.

    python benchmarks/averaging_cost.py

Prints one JSON object a line; `value` at or below `target` holds.
"""

from __future__ import annotations

import json
import time
from unittest import mock

import jax

import dualembed as de
from dualembed import kernels, problems, schedules, solvers, sources, spaces
from dualembed.experiments import noisy
from dualembed.solvers.stochastic import advance
from dualembed.spaces import base, linear

PRIMAL = kernels.Gaussian(0.05)
DUAL = kernels.Columns(kernels.Gaussian(0.07), (0,)) * kernels.Columns(kernels.Gaussian(3.0), (1,))
CASES = {
    "rkhs, batch 50": (spaces.RKHS(PRIMAL), spaces.RKHS(DUAL), 400, 50),
    "rkhs, batch 1": (spaces.RKHS(PRIMAL), spaces.RKHS(DUAL), 4000, 1),
    "fourier, batch 20": (spaces.Fourier(PRIMAL), spaces.Fourier(DUAL), 2000, 20),
    "doubly stochastic, batch 20": (spaces.DoublyStochastic(PRIMAL), spaces.DoublyStochastic(DUAL), 400, 20),
}


def seconds(case: str, *, averaging: bool, repeats: int = 5) -> float:
    """The best time of the compiled loop."""
    primal, dual, steps, batch = CASES[case]
    source = sources.Simulator(noisy.draw)
    saddle = de.Saddle(problems.Invariance(source), primal, dual, primal_penalty=1e-4)
    solver = solvers.EmbeddingSGD(steps, batch, schedules.OffsetSqrt(10.0, 10.0))
    run = solver.begin(jax.random.key(0), saddle)
    plan = source.plan(jax.random.key(1), batch=batch, steps=steps)
    loop = jax.jit(lambda *parts: advance.__wrapped__(*parts))  # its own cache: the other variant must compile anew
    times = []
    with (
        mock.patch.object(
            base.RunningAverage, "record", base.RunningAverage.record if averaging else lambda self, *step: self
        ),
        mock.patch.object(
            linear,
            "running_average",
            linear.running_average if averaging else lambda mean, now, total, step: (mean, total),
        ),
    ):
        for _ in range(repeats + 1):
            start = time.perf_counter()
            jax.block_until_ready(loop(solver, saddle.without_source(), run, plan, 0, steps))
            times.append(time.perf_counter() - start)
    return min(times[1:])


if __name__ == "__main__":
    for case in CASES:
        both = [(seconds(case, averaging=True), seconds(case, averaging=False)) for _ in range(2)]
        ratio = min(kept for kept, _ in both) / min(bare for _, bare in both)
        print(
            json.dumps({"bench": "averaging", "case": case, "value": round(ratio, 3), "unit": "ratio", "target": 1.1})
        )
