"""The one loop of every stochastic solver: batches in, slopes of both players, a step of each, an average out."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.problems.base import Terms
from dualembed.progress import track
from dualembed.saddle import Saddle
from dualembed.schedules import OffsetSqrt, Schedule
from dualembed.solvers.base import Pair, Probe, Result, Solver, Trace
from dualembed.sources import Dataset, Plan, PlannedSource, Sample
from dualembed.spaces.base import FunctionSpace, Layout, Update

PILOT = 4096  # samples from which spaces learn where they will be used
LOOKS = 50  # times at least that the host looks at a run: for divergence, progress and interruption


class Seen(NamedTuple):
    """What a step sees: a batch of B samples, their terms, and the values there of f (B, K) and in the dual space (B,).

    `primal_at` gives values of f at other points (n, d); `number` is the step's, from 1. A solver without a dual sees
    zeros.
    """

    sample: Sample
    terms: Terms
    primal: jax.Array
    dual: jax.Array
    primal_at: Any
    number: jax.Array


class StochasticSolver(Solver):
    """Steps on batches of samples, along the slopes that a subclass gives.

    A finite data set is passed over as often as the steps ask for, in a new order each time. The result is the
    average of the iterates weighted by the step sizes; the last iterates are kept too.

    Parameters
    ----------
    steps : int, default=2000
        Number of steps.
    batch : int, default=50
        Samples per step.
    primal_step : Schedule, default=OffsetSqrt(1.0, 1.0)
        Step sizes of f.
    dual_step : Schedule, optional
        Step sizes of u; by default those of f.
    """

    title: ClassVar[str]  # its name in messages
    has_dual: ClassVar[bool] = True  # without, the dual function stays zero and costs nothing

    steps: int = eqx.field(default=2000, static=True)
    batch: int = eqx.field(default=50, static=True)
    primal_step: Schedule = eqx.field(default_factory=lambda: OffsetSqrt(1.0, 1.0))
    dual_step: Schedule | None = None  # those of the primal

    def __check_init__(self) -> None:
        checks.count("steps", self.steps)
        checks.count("batch", self.batch)
        checks.instance("primal_step", self.primal_step, Schedule, "such as schedules.InverseSqrt(1.0)")
        if self.dual_step is not None:
            checks.instance("dual_step", self.dual_step, Schedule, "such as schedules.InverseSqrt(1.0)")

    @abstractmethod
    def slopes(self, saddle: Saddle, seen: Seen) -> tuple[jax.Array, jax.Array]:
        """The slopes along which to descend in f and to ascend in the dual space: batch means.

        Parameters
        ----------
        saddle : Saddle
            The problem with its spaces, without samples.
        seen : Seen
            A batch, its terms, and the values of both functions there.

        Returns
        -------
        primal : array of shape (B, K)
            Slopes in f at each point.
        dual : array of shape (B,)
            Slopes in the dual space at each context.
        """

    def prepared(self, key: jax.Array, saddle: Saddle) -> Saddle:
        """The saddle as the solver wants it; by default as it is.

        Parameters
        ----------
        key : array
            A JAX key.
        saddle : Saddle
            The problem with its spaces.

        Returns
        -------
        Saddle
            The saddle to run on.
        """
        return saddle

    def check(self, saddle: Saddle, terms: Terms) -> None:
        """Check that the solver can serve problems with such terms; by default it can.

        Parameters
        ----------
        saddle : Saddle
            The problem with its spaces.
        terms : Terms
            Terms of its samples.

        Raises
        ------
        InputError
            If it cannot.
        """

    def schedule(self, player: str) -> Schedule:
        """The step sizes of a player.

        Parameters
        ----------
        player : {"primal", "dual"}
            The player.

        Returns
        -------
        Schedule
            Its step sizes.
        """
        return self.primal_step if player == "primal" or self.dual_step is None else self.dual_step

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """Run the budget of steps, looking now and then; under `jit` or `vmap`, as one loop without a look."""
        begin_key, order_key = jax.random.split(key)
        saddle = self.prepared(begin_key, saddle)
        run = self.begin(begin_key, saddle)
        if checks.traced(key, saddle, self):
            return self._at_once(order_key, saddle, run)
        rules = saddle.without_source()
        record = _Record(rules, probe, self)
        record.look(0, run)
        stop = 0
        with track(self.steps, self.title) as bar:
            marks = sorted({round(self.steps * part / LOOKS) for part in range(LOOKS + 1)} | record.marks)
            for plan, start, stop in saddle.problem.source.spans(order_key, batch=self.batch, marks=marks):
                run = advance(self, rules, run, plan, start, stop)
                bar.advance(to=stop)
                if not run.alive:
                    break
                record.look(stop, run)
        record.look(stop, run, last=True)
        return record.result(run, self._stop_message(run, stop))

    def begin(self, key: jax.Array, saddle: Saddle) -> Run:
        """The run before its first step, the samples checked and both spaces laid out.

        Parameters
        ----------
        key : array
            A JAX key.
        saddle : Saddle
            The problem with its spaces.

        Returns
        -------
        Run
            The state of the run.
        """
        pilot_key, primal_key, dual_key = jax.random.split(key, 3)
        source = saddle.problem.source
        terms = saddle.terms(source.pilot(pilot_key, PILOT))
        # Of a finite data set every row is checked, not only those of the pilot.
        self.check(saddle, saddle.terms() if isinstance(source, Dataset) else terms)
        layout: dict[str, Any] = {
            "steps": self.steps,
            "batch": self.batch,
            "complete": isinstance(source, Dataset) and source.rows <= PILOT,
            "capacity": source.capacity(batch=self.batch, steps=self.steps),
        }
        points = terms.points.reshape(-1, terms.points.shape[-1])
        _check_space("primal", saddle.primal, points.shape[1])
        _check_space("dual", saddle.dual, terms.context.shape[1])
        primal = Layout(points, per_sample=terms.points.shape[1], **layout)
        idle = {**layout, "steps": 1, "batch": 1, "capacity": 1}
        dual = Layout(terms.context, per_sample=1, **(layout if self.has_dual else idle))
        return Run(
            saddle.primal.init(primal_key, primal),
            saddle.dual.init(dual_key, dual),
            limit=_limit(terms),
            alive=jnp.asarray(True),
            sound=jnp.asarray(True),
            taken=jnp.asarray(0),
        )

    def _at_once(self, key: jax.Array, saddle: Saddle, run: Run) -> Result:
        source = saddle.problem.source
        if not isinstance(source, PlannedSource):
            raise checks.InputError("a Stream cannot be run under jit or vmap; use a Dataset or a Simulator")
        plan = source.plan(key, batch=self.batch, steps=self.steps)
        run = advance(self, saddle.without_source(), run, plan, 0, self.steps)
        averaged, last = functions(saddle.without_source(), run)
        return Result(averaged.primal, averaged.dual, None, run.alive, last, run.taken)

    def _stop_message(self, run: Run, stop: int) -> str:
        """What went otherwise than planned; empty when nothing did."""
        if not run.sound:
            return (
                f"a sample of step {int(run.taken) + 1} of {self.steps} is not finite, so that {self.title} stopped "
                "there; mend what draws the samples; the result holds the iterates so far"
            )
        if not run.alive:
            first = [f"{player} {float(self.schedule(player)(jnp.asarray(1))):.3g}" for player in ("primal", "dual")]
            return (
                f"{self.title} diverged at step {int(run.taken) + 1} of {self.steps}: lower the step sizes "
                f"({', '.join(first[: 1 + self.has_dual])} at the first step), or bound the functions with a "
                "penalty or a radius; the result holds the last finite iterates"
            )
        if stop < self.steps:
            return (
                f"the stream ended after {stop} of {self.steps} steps of {self.batch} rows; the result is that of the "
                "steps taken"
            )
        return ""


class Run(eqx.Module):
    """The two states, and how the run fares: a step is taken only while values keep below the limit."""

    primal: Any
    dual: Any
    limit: jax.Array
    alive: jax.Array
    sound: jax.Array  # whether every sample was finite
    taken: jax.Array


@jax.jit
def advance(solver: StochasticSolver, saddle: Saddle, run: Run, plan: Plan, start: int, stop: int) -> Run:
    """The run after steps start..stop-1, in one compiled loop; bounds and every number are traced, shapes are not."""
    return jax.lax.fori_loop(
        start, stop, lambda number, run: step(solver, saddle, run, plan.batch(number), number), run
    )


def step(solver: StochasticSolver, saddle: Saddle, run: Run, batch: tuple[Any, jax.Array], number: jax.Array) -> Run:
    """One step of both players from the old (f, u); a run that has left the finite numbers stands still."""
    sample, slots = batch
    seen = _look(solver, saddle, run, sample, number)
    terms = seen.terms
    primal_slopes, dual_slopes = solver.slopes(saddle, seen)
    sound = run.sound & jnp.all(jnp.asarray([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(terms)]))
    largest = jnp.maximum(jnp.max(jnp.abs(seen.primal)), jnp.max(jnp.abs(seen.dual)))
    alive = run.alive & sound & (largest < run.limit)  # NaN compares false

    def still(values: jax.Array) -> jax.Array:
        return jnp.where(alive, values, 0.0)

    def update(points: jax.Array, values: jax.Array, slopes: jax.Array) -> Update:
        # Points are a matter of the samples alone, so that runs side by side under vmap share their kernel values.
        return Update(jnp.where(sound, points, 0.0), still(values), still(slopes), slots, number)

    primal = saddle.primal.descend(
        run.primal,
        update(terms.points, seen.primal, primal_slopes),
        still(solver.schedule("primal")(number + 1)),
        saddle.primal_regulariser,
    )
    dual = run.dual
    if solver.has_dual:
        dual = saddle.dual.descend(
            run.dual,
            update(terms.context[:, None], seen.dual[:, None], -dual_slopes[:, None]),
            still(solver.schedule("dual")(number + 1)),
            saddle.dual_regulariser,
        )
    return Run(primal, dual, run.limit, alive, sound, run.taken + alive)


def _look(solver: StochasticSolver, saddle: Saddle, run: Run, sample: Sample, number: jax.Array) -> Seen:
    """The batch and both functions' values on it."""
    terms = saddle.batch_terms(sample)

    def primal_at(points: jax.Array) -> jax.Array:
        return saddle.primal.evaluate(run.primal, points)

    primal = primal_at(terms.points.reshape(-1, terms.points.shape[-1])).reshape(terms.weights.shape)
    dual = saddle.dual.evaluate(run.dual, terms.context) if solver.has_dual else jnp.zeros_like(terms.target)
    return Seen(sample, terms, primal, dual, primal_at, number + 1)


def _limit(terms: Terms) -> jax.Array:
    """Values at which a run counts as diverging: a hundred thousand times the data's own, and far below overflow."""
    scale = jnp.maximum(jnp.max(jnp.abs(terms.target)), jnp.max(jnp.abs(terms.offset)))
    return jnp.minimum(1e5 * jnp.where(scale > 0, scale, 1.0), jnp.finfo(scale.dtype).max ** 0.45)


def _check_space(name: str, space: FunctionSpace, dimension: int) -> None:
    """Raise with the role in front when a space cannot live on the data."""
    try:
        space.check(dimension)
    except checks.InputError as error:
        where = "points of f" if name == "primal" else "contexts"
        raise checks.InputError(f"{name} does not fit the {where}, of dimension {dimension}: {error}") from None


@jax.jit
def functions(saddle: Saddle, run: Run) -> tuple[Pair, Pair]:
    """(averaged pair, last pair) of functions as the run stands."""
    primal, dual = saddle.primal, saddle.dual
    return (
        Pair(primal.averaged(run.primal), saddle.dual_function(dual.averaged(run.dual))),
        Pair(primal.last(run.primal), saddle.dual_function(dual.last(run.dual))),
    )


class _Record:
    """The probe's notes."""

    def __init__(self, rules: Saddle, probe: Probe | None, solver: StochasticSolver) -> None:
        self.rules, self.probe, self.batch = rules, probe, solver.batch
        self.marks = set() if probe is None else probe.marks(solver.steps)
        self.steps: list[int] = []
        self.averaged: list[Any] = []
        self.last: list[Any] = []

    def look(self, step: int, run: Run, *, last: bool = False) -> None:
        """Note the metric where the probe wants it, and at the end of a run wherever that is."""
        if self.probe is None or step in self.steps or not (last or step in self.marks):
            return
        averaged, current = self.probe.look(*functions(self.rules, run))
        self.steps.append(step)
        self.averaged.append(averaged)
        self.last.append(current)

    def result(self, run: Run, message: str) -> Result:
        """The functions without their empty buffers, and the notes."""
        averaged, last = (
            Pair(pair.primal.trimmed(), self.rules.dual_function(pair.dual.function.trimmed()))
            for pair in functions(self.rules, run)
        )
        steps = np.asarray(self.steps, dtype=int)
        trace = Trace(steps, steps * self.batch, self.averaged, self.last)
        return Result(averaged.primal, averaged.dual, trace, bool(run.alive), last, int(run.taken), message)
