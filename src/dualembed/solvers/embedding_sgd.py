"""Embedding-SGD: stochastic descent in f and ascent in u on the saddle, one sample of each conditional at a time."""

from __future__ import annotations

from typing import Any

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
from dualembed.solvers.preconditioner import Preconditioner
from dualembed.sources import Dataset, LaidOut, Plan
from dualembed.spaces.base import FunctionSpace, Layout, Move

PILOT = 4096  # samples from which spaces learn where they will be used
LOOKS = 50  # times at least that the host looks at a run: for divergence, progress and interruption


class EmbeddingSGD(Solver):
    """`steps` steps on batches of `batch` samples, with a schedule for each player.

    The slopes are batch means. Both players move from the old (f, u):
        f <- Π[f - γ_t (mean u(κ) Σ_k w_k ∂f(p_k) + λ1 f)],   u <- Π[u + γ'_t (mean (moment - loss*'(u)) ∂u(κ) - λ2 u)].
    A finite data set is passed over as often as the steps ask for, in a new order each time. The result is the
    average of the iterates weighted by the step sizes; the last iterates are kept too. A `preconditioner` makes both
    players move in whitened coordinates, in which a badly conditioned saddle takes far fewer steps, of size about 1.
    """

    steps: int = eqx.field(static=True)
    batch: int = eqx.field(default=50, static=True)
    primal_step: Schedule = eqx.field(default_factory=lambda: OffsetSqrt(1.0, 1.0))
    dual_step: Schedule | None = None  # the primal's where none is given
    preconditioner: Preconditioner | None = None

    def __check_init__(self) -> None:
        checks.count("steps", self.steps)
        checks.count("batch", self.batch)
        checks.instance("primal_step", self.primal_step, Schedule, "such as schedules.InverseSqrt(1.0)")
        if self.dual_step is not None:
            checks.instance("dual_step", self.dual_step, Schedule, "such as schedules.InverseSqrt(1.0)")
        if self.preconditioner is not None:
            checks.instance("preconditioner", self.preconditioner, Preconditioner, "such as solvers.Preconditioner()")

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """Run the budget of steps, looking now and then; under `jit` or `vmap`, as one loop without a look."""
        begin_key, order_key = jax.random.split(key)
        if self.preconditioner is not None:
            saddle = self.preconditioner(begin_key, saddle, self.batch)
        run = self.begin(begin_key, saddle)
        if checks.traced(key, saddle, self):
            return self._at_once(order_key, saddle, run)
        rules = saddle.without_source()
        record = _Record(rules, probe, self)
        record.look(0, run)
        stop = 0
        with track(self.steps, "Embedding-SGD") as bar:
            marks = sorted({round(self.steps * part / LOOKS) for part in range(LOOKS + 1)} | record.marks)
            for plan, start, stop in saddle.problem.source.spans(order_key, batch=self.batch, marks=marks):
                run = advance(self, rules, run, plan, start, stop)
                bar.advance(to=stop)
                if not run.alive:
                    break
                record.look(stop, run)
        record.look(stop, run, last=True)
        return record.result(run, self._epilogue(run, stop))

    def begin(self, key: jax.Array, saddle: Saddle) -> Run:
        pilot_key, primal_key, dual_key = jax.random.split(key, 3)
        source = saddle.problem.source
        if isinstance(source, Dataset):
            saddle.terms()  # every row is checked, not only those of the pilot
        terms = saddle.terms(source.pilot(pilot_key, PILOT))
        layout = {
            "steps": self.steps,
            "batch": self.batch,
            "capacity": source.capacity(batch=self.batch, steps=self.steps),
        }
        points = terms.points.reshape(-1, terms.points.shape[-1])
        _check_space("primal", saddle.primal, points.shape[1])
        _check_space("dual", saddle.dual, terms.context.shape[1])
        primal = Layout(points, per_sample=terms.points.shape[1], **layout)
        dual = Layout(terms.context, per_sample=1, **layout)
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
        if not isinstance(source, LaidOut):
            raise checks.InputError("a Stream cannot be run under jit or vmap; use a Dataset or a Simulator")
        plan = source.plan(key, batch=self.batch, steps=self.steps)
        run = advance(self, saddle.without_source(), run, plan, 0, self.steps)
        averaged, last = functions(saddle.without_source(), run)
        return Result(averaged.primal, averaged.dual, None, run.alive, last, run.taken)

    def _epilogue(self, run: Run, stop: int) -> str:
        """What went otherwise than planned; empty when nothing did."""
        if not run.sound:
            return (
                f"a sample of step {int(run.taken) + 1} of {self.steps} is not finite, so that Embedding-SGD stopped "
                "there; mend what draws the samples; the result holds the iterates so far"
            )
        if not run.alive:
            return (
                f"Embedding-SGD diverged at step {int(run.taken) + 1} of {self.steps}: lower the step sizes "
                f"(primal {float(self.primal_step(jnp.asarray(1))):.3g}, "
                f"dual {float(self._dual_step(jnp.asarray(1))):.3g} at the first step), or bound the functions with a "
                "penalty or a radius; the result holds the last finite iterates"
            )
        if stop < self.steps:
            return (
                f"the stream ended after {stop} of {self.steps} steps of {self.batch} rows; the result is that of the "
                "steps taken"
            )
        return ""

    @property
    def _dual_step(self) -> Schedule:
        return self.primal_step if self.dual_step is None else self.dual_step


class Run(eqx.Module):
    """The two states, and how the run fares: a step is taken only while values keep below the limit."""

    primal: Any
    dual: Any
    limit: jax.Array
    alive: jax.Array
    sound: jax.Array  # whether every sample was finite
    taken: jax.Array


@jax.jit
def advance(solver: EmbeddingSGD, saddle: Saddle, run: Run, plan: Plan, start: int, stop: int) -> Run:
    """The run after steps start..stop-1, in one compiled loop; bounds and every number are traced, shapes are not."""
    return jax.lax.fori_loop(
        start, stop, lambda number, run: step(solver, saddle, run, plan.batch(number), number), run
    )


def step(solver: EmbeddingSGD, saddle: Saddle, run: Run, batch: tuple[Any, jax.Array], number: jax.Array) -> Run:
    """One step of both players from the old (f, u); a run that has left the finite numbers stands still."""
    sample, slots = batch
    terms = saddle.batch_terms(sample)
    points = terms.points.reshape(-1, terms.points.shape[-1])
    primal_values = saddle.primal.evaluate(run.primal, points).reshape(terms.weights.shape)
    dual_values = saddle.dual.evaluate(run.dual, terms.context)
    primal_slopes, dual_slopes = saddle.slopes(terms, primal_values, dual_values)
    sound = run.sound & jnp.all(jnp.asarray([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(terms)]))
    largest = jnp.maximum(jnp.max(jnp.abs(primal_values)), jnp.max(jnp.abs(dual_values)))
    alive = run.alive & sound & (largest < run.limit)  # NaN compares false

    def still(values: jax.Array) -> jax.Array:
        return jnp.where(alive, values, 0.0)

    def move(points: jax.Array, values: jax.Array, slopes: jax.Array) -> Move:
        return Move(still(points), still(values), still(slopes), slots, number)

    dual_values, dual_slopes = dual_values[:, None], -dual_slopes[:, None]
    return Run(
        saddle.primal.descend(
            run.primal,
            move(terms.points, primal_values, primal_slopes),
            still(solver.primal_step(number + 1)),
            saddle.primal_regulariser,
        ),
        saddle.dual.descend(
            run.dual,
            move(terms.context[:, None], dual_values, dual_slopes),
            still(solver._dual_step(number + 1)),
            saddle.dual_regulariser,
        ),
        run.limit,
        alive,
        sound,
        run.taken + alive,
    )


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

    def __init__(self, rules: Saddle, probe: Probe | None, solver: EmbeddingSGD) -> None:
        self.rules, self.probe, self.batch = rules, probe, solver.batch
        self.marks = set() if probe is None else probe.marks(solver.steps)
        self.steps: list[int] = []
        self.averaged: list[Any] = []
        self.last: list[Any] = []

    def look(self, step: int, run: Run, *, last: bool = False) -> None:
        """Note the metric where the probe wants it, and at the end of a run wherever that is."""
        if self.probe is None or step in self.steps or not (last or step in self.marks):
            return
        averaged, current = functions(self.rules, run)
        self.steps.append(step)
        self.averaged.append(self.probe.metric(averaged.primal, averaged.dual))
        self.last.append(self.probe.metric(current.primal, current.dual))

    def result(self, run: Run, message: str) -> Result:
        """The functions without their empty buffers, and the notes."""
        averaged, last = (
            Pair(pair.primal.trimmed(), self.rules.dual_function(pair.dual.function.trimmed()))
            for pair in functions(self.rules, run)
        )
        steps = np.asarray(self.steps, dtype=int)
        trace = Trace(steps, steps * self.batch, self.averaged, self.last)
        return Result(averaged.primal, averaged.dual, trace, bool(run.alive), last, int(run.taken), message)
