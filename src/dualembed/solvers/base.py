"""What every solver takes and returns."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dualembed import checks, compilation
from dualembed.saddle import DualFunction, Saddle
from dualembed.spaces.base import Function

Metric = Callable[[Function, DualFunction], Any]
ITERATES = ("averaged", "last")


class DivergenceWarning(RuntimeWarning):
    """The iterates grew without bound; the result holds the last ones that were finite."""


class EarlyStopWarning(RuntimeWarning):
    """A run ended before its budget of steps or short of its tolerance, for a reason other than divergence."""


class Trace(eqx.Module):
    """What the probe saw: at `steps` (and `samples` visited), its metric of the averaged and of the last iterates."""

    steps: np.ndarray
    samples: np.ndarray
    averaged: list[Any]
    last: list[Any]


class Pair(eqx.Module):
    """A primal function f and its dual function u."""

    primal: Function
    dual: DualFunction


class Result(eqx.Module):
    """A solved saddle: `primal` is f, `dual` is u, both callable on arrays.

    `primal` and `dual` are the averaged iterates where the solver averages (`last` has the last ones). `finite`
    is False when the run diverged, and `message` then says at which step and what to change (it also speaks of other
    early endings); `steps` is how many were taken. The functions are finite in either case. Where the model was chosen
    by `selection.auto`, `record` says what was tried, and `uncertainty` has standard errors (square loss only). Of a
    closed form `closed` has the sums that it comes from.
    """

    primal: Function
    dual: DualFunction
    trace: Trace | None
    finite: Any
    last: Pair
    steps: Any = 0
    message: str = eqx.field(default="", static=True)
    uncertainty: Any = None
    record: Any = eqx.field(default=None, static=True)
    closed: Any = None


class Probe(eqx.Module):
    """A metric(primal, dual) recorded along the way: every so many steps, or at the given ones (0 is the start).

    Of the `iterates` it sees the averaged and the last; a slow metric need not be paid for both.
    """

    metric: Metric
    every: int | None = None
    at: tuple[int, ...] = ()
    iterates: tuple[str, ...] = ITERATES

    def __init__(
        self,
        metric: Metric,
        every: int | None = None,
        *,
        at: Sequence[int] = (),
        iterates: Sequence[str] = ITERATES,
    ) -> None:
        if not callable(metric):
            raise checks.InputError(f"metric must be a function of (primal, dual), not {metric!r}")
        if every is not None:
            checks.count("every", every)
        at = (at,) if isinstance(at, int) else at
        for step in at:
            checks.count("at", step, at_least=0)
        iterates = (iterates,) if isinstance(iterates, str) else tuple(iterates)
        if not iterates or not set(iterates) <= set(ITERATES):
            raise checks.InputError(f"iterates must be of {ITERATES}, not {iterates!r}")
        self.metric, self.every, self.at = metric, every, tuple(int(step) for step in at)
        self.iterates = iterates

    def look(self, averaged: Pair, last: Pair) -> tuple[Any, Any]:
        """The metric of both pairs; None for one that is not wanted."""
        pairs = zip(ITERATES, (averaged, last), strict=True)
        first, second = (self.metric(pair.primal, pair.dual) if name in self.iterates else None for name, pair in pairs)
        return first, second

    def marks(self, steps: int) -> set[int]:
        """The steps, of a budget of `steps`, at which to look: always the last, about twenty where none are named."""
        every = self.every if self.every or self.at else max(1, steps // 20)
        regular = range(every, steps, every) if every else ()
        return {step for step in (*regular, *self.at, steps) if step <= steps}


class Solver(eqx.Module):
    """A way to solve any saddle; it never names a concrete space, loss or problem."""

    @abstractmethod
    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None) -> Result:
        """Solve the saddle with randomness from the key."""


def solve(key: jax.Array | int, saddle: Saddle, solver: Solver, probe: Probe | Metric | None = None) -> Result:
    """The saddle's solution by the solver: `result.primal(x)` is f at x.

    `key` is a JAX key or a whole number to seed one; everything random follows from it. `probe` is a metric
    (primal, dual) -> number to record along the way, or a Probe that says when.

    >>> import dualembed as de
    >>> data = de.sources.Dataset(x=[0.0, 0.5, 1.0], z=[0.1, 0.4, 1.1], y=[0.0, 0.5, 1.0])
    >>> space = de.spaces.RKHS(de.kernels.Gaussian(0.5))
    >>> dual = de.spaces.RKHS(de.kernels.Gaussian(0.5))
    >>> solver = de.solvers.EmbeddingSGD(steps=200, batch=3, primal_step=de.schedules.InverseSqrt(1.0))
    >>> result = de.solve(0, de.Saddle(de.problems.Invariance(data), space, dual), solver)
    >>> result.primal([0.0, 1.0]).shape
    (2,)
    """
    checks.instance("saddle", saddle, Saddle, "build one with Saddle(problem, primal, dual)")
    checks.instance("solver", solver, Solver, "such as solvers.EmbeddingSGD(steps=2000)")
    compilation.enable_cache()
    if probe is not None and not isinstance(probe, Probe):
        probe = Probe(probe)
    result = solver.solve(checks.as_key(key), saddle, probe)
    if result.message:
        warnings.warn(result.message, EarlyStopWarning if result.finite else DivergenceWarning, stacklevel=2)
    return result
