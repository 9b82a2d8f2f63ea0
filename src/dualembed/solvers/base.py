"""What every solver takes and returns, and the record of what was chosen for it."""

from __future__ import annotations

import dataclasses
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import equinox as eqx
import jax

from dualembed import checks, compilation
from dualembed.arrays import Integers
from dualembed.saddle import DualFunction, Saddle
from dualembed.spaces.base import Function

Metric = Callable[[Function, DualFunction], Any]
ITERATES = ("averaged", "last")


class DivergenceWarning(RuntimeWarning):
    """The iterates grew without bound; the result holds the last ones that were finite."""


class EarlyStopWarning(RuntimeWarning):
    """A run ended before its budget of steps or short of its tolerance, for a reason other than divergence."""


class Trace(eqx.Module):
    """What the probe saw.

    Attributes
    ----------
    steps : array of shape (n,)
        Steps at which it looked.
    samples : array of shape (n,)
        Samples visited by then.
    averaged : list
        Its metric of the averaged iterates.
    last : list
        Its metric of the last iterates.
    """

    steps: Integers
    samples: Integers
    averaged: list[Any]
    last: list[Any]


class Pair(eqx.Module):
    """A primal function f and its dual function u."""

    primal: Function
    dual: DualFunction


@dataclasses.dataclass(frozen=True)
class Choice:
    """One choice.

    Attributes
    ----------
    question : str
        What was to be chosen.
    answer : str
        What was, in words.
    numbers : dict of float
        The numbers it was made by.
    """

    question: str
    answer: str
    numbers: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in self.numbers.items())
        return f"{self.question}: {self.answer}" + (f" ({numbers})" if numbers else "")


@dataclasses.dataclass(frozen=True)
class Selection:
    """Every choice in order, one line each.

    Attributes
    ----------
    steps : tuple of Choice
        The choices.
    """

    steps: tuple[Choice, ...]

    def __str__(self) -> str:
        return "\n".join(str(step) for step in self.steps)


class Result(eqx.Module):
    """A solved saddle.

    Attributes
    ----------
    primal : Function
        The function f, callable on arrays; the average of iterates if the solver averages.
    dual : DualFunction
        The dual function u, likewise.
    trace : Trace or None
        What the probe saw.
    finite : bool
        Whether the run stayed finite. The functions are the last finite ones in either case.
    last : Pair
        The last iterates, primal and dual.
    steps : int
        Steps taken.
    message : str
        Why the run ended early, and what to change; empty if it did not.
    uncertainty : Spread or None
        Standard errors, from `selection.auto` (square loss only).
    record : Record or None
        What `selection.auto` tried.
    closed : MomentFit or None
        The sums behind a closed form.
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
    """A metric recorded along the way.

    Parameters
    ----------
    metric : callable
        A function of (primal, dual).
    every : int, optional
        Look every so many steps; by default about twenty times in a run.
    at : sequence of int, default=()
        Look at these steps too; 0 is the start.
    iterates : sequence of {"averaged", "last"}
        Which iterates the metric sees; by default both. A slow metric need not be paid for twice.
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
        """The metric of both pairs; None for one that is not wanted.

        Parameters
        ----------
        averaged : Pair
            The averaged iterates.
        last : Pair
            The last iterates.

        Returns
        -------
        averaged : object
            The metric of the averaged iterates.
        last : object
            The metric of the last iterates.
        """
        pairs = zip(ITERATES, (averaged, last), strict=True)
        first, second = (self.metric(pair.primal, pair.dual) if name in self.iterates else None for name, pair in pairs)
        return first, second

    def marks(self, steps: int) -> set[int]:
        """The steps at which to look, always the last among them.

        Parameters
        ----------
        steps : int
            Steps of the whole run.

        Returns
        -------
        set of int
            The steps.
        """
        every = self.every if self.every or self.at else max(1, steps // 20)
        regular = range(every, steps, every) if every else ()
        return {step for step in (*regular, *self.at, steps) if step <= steps}


class Solver(eqx.Module):
    """A way to solve any saddle; it never names a concrete space, loss or problem."""

    @abstractmethod
    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None) -> Result:
        """Solve the saddle.

        Parameters
        ----------
        key : array
            A JAX key; everything random follows from it.
        saddle : Saddle
            The problem with its two spaces.
        probe : Probe or None
            What to record along the way.

        Returns
        -------
        Result
            The functions f and u.
        """


def solve(key: jax.Array | int, saddle: Saddle, solver: Solver, probe: Probe | Metric | None = None) -> Result:
    """Solve the saddle with the solver.

    Parameters
    ----------
    key : array or int
        A JAX key or a seed; everything random follows from it.
    saddle : Saddle
        The problem with its two spaces.
    solver : Solver
        How to solve it.
    probe : Probe or callable, optional
        A metric (primal, dual) -> number to record along the way, or a `Probe` that says when.

    Returns
    -------
    Result
        The solution: `result.primal(x)` is f at x.

    Warns
    -----
    DivergenceWarning
        If the iterates grew without bound.
    EarlyStopWarning
        If the run ended before its budget of steps or short of its tolerance.

    Examples
    --------
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


@dataclasses.dataclass(frozen=True)
class Record(Selection):
    """The choices with what they add up to, ready to be solved again.

    Attributes
    ----------
    steps : tuple of Choice
        The choices.
    saddle : Saddle
        The saddle that they add up to.
    solver : Solver or None
        The solver that solved it.
    """

    saddle: Saddle = dataclasses.field(repr=False)
    solver: Solver | None = dataclasses.field(default=None, repr=False)


SolverLike: TypeAlias = Solver | str
"""A solver, or the name of one: "auto" takes the best there is, "closed-form" and "embedding-sgd" ask for these."""
