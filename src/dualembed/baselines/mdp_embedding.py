"""Policy evaluation in an embedded decision process: first p(s' | s) by regression, then SGD on its Bellman residuals.

Grünewälder et al. (2012) embed the transitions; the two SGD algorithms are those the paper compares with, with V(s)
where it prints V(s').
"""

from __future__ import annotations

import itertools
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks, compilation
from dualembed.arrays import AnyArray, Floats
from dualembed.embeddings import ConditionalEmbedding
from dualembed.kernels import Kernel
from dualembed.links import Direct
from dualembed.losses import Square
from dualembed.problems import PolicyEvaluation
from dualembed.problems.base import finite_data
from dualembed.saddle import DualFunction
from dualembed.schedules import OffsetLinear, Schedule
from dualembed.solvers.base import DivergenceWarning, Metric, Pair, Probe, Result, Trace
from dualembed.sources import Dataset
from dualembed.spaces.base import Function, Layout, Regulariser
from dualembed.spaces.features import FeatureMap, evaluate_features, to_numpy
from dualembed.spaces.linear import LinearFunction, LinearSpace, running_average
from dualembed.spaces.rkhs import KernelFunction

TABLE = 2**29  # embedding weights held at most, two gigabytes of float32
TILE = 512  # centres whose kernel values are made at one time, and rows embedded at one time


class EmbeddedTransitions(eqx.Module):
    """The columns of a data set of transitions, in float64: ρ is 1 where that is not said."""

    state: Floats  # (N, d)
    next_state: Floats
    reward: Floats  # (N,)
    weight: Floats  # ρ
    bootstrap: Floats  # what V(s') counts for: discount^steps, one step where that is not said; 0 at an end

    @staticmethod
    def of(problem: PolicyEvaluation) -> EmbeddedTransitions:
        """Those of a policy evaluation on a finite data set, checked."""
        checks.instance("problem", problem, PolicyEvaluation, "such as problems.PolicyEvaluation(dataset, 0.9)")
        checks.instance("the problem's source", problem.source, Dataset, "since the embedding needs all transitions")
        if not problem.loss.quadratic:
            raise checks.InputError(
                f"SGD in an embedded process minimises the squared Bellman error, not the {type(problem.loss).__name__}"
                " loss; use losses.Square()"
            )
        table = {name: np.asarray(column) for name, column in finite_data(problem).table.items()}
        ones = np.ones(len(table["reward"]))
        return EmbeddedTransitions(
            table["state"].reshape(len(ones), -1),
            table["next_state"].reshape(len(ones), -1),
            table["reward"],
            table.get("weight", ones),
            (1 - table.get("terminated", 0 * ones)) * float(problem.discount) ** table.get("steps", ones),
        )

    def sample(self, key: jax.Array, cap: int | None) -> EmbeddedTransitions:
        """At most `cap` of them, at random."""
        if cap is None or cap >= len(self.reward):
            return self
        rows = np.asarray(jax.random.permutation(key, len(self.reward))[:cap])
        return jax.tree.map(lambda column: column[rows], self)


class EmbeddedSGD(eqx.Module):
    """What the two algorithms share: an embedding, then `steps` steps on batches of `batch` transitions."""

    steps: int = eqx.field(default=1000, static=True, kw_only=True)
    batch: int = eqx.field(default=20, static=True, kw_only=True)
    step: Schedule = eqx.field(default_factory=lambda: OffsetLinear(10.0, 10.0), kw_only=True)
    cap: int | None = eqx.field(default=None, static=True, kw_only=True)
    primal_penalty: float | jax.Array | None = eqx.field(default=None, converter=checks.real, kw_only=True)

    def __check_init__(self) -> None:
        checks.count("steps", self.steps)
        checks.count("batch", self.batch)
        checks.instance("step", self.step, Schedule, "such as schedules.OffsetLinear(1.0)")
        Regulariser(self.primal_penalty).check("primal")
        if self.cap is not None:
            checks.count("cap", self.cap, at_least=2)

    @abstractmethod
    def embed(
        self, key: jax.Array, kept: EmbeddedTransitions, data: EmbeddedTransitions
    ) -> tuple[ConditionalEmbedding, Course]:
        """Embed transitions.

        Parameters
        ----------
        key : jax.Array
            Random key.
        kept : EmbeddedTransitions
            The transitions that are embedded.
        data : EmbeddedTransitions
            All transitions.

        Returns
        -------
        embedding : ConditionalEmbedding
            The embedding of the kept transitions.
        course : Course
            What the compiled loop over all of them reads, in NumPy.
        """

    def fit(self, key: jax.Array | int, problem: PolicyEvaluation, probe: Probe | Metric | None = None) -> Result:
        """Fit V to transitions.

        Parameters
        ----------
        key : jax.Array or int
            Random key or seed.
        problem : PolicyEvaluation
            Policy evaluation with the square loss on a finite data set.
        probe : Probe or callable, optional
            A metric to follow along the way.

        Returns
        -------
        Result
            As `primal` V, the average of the iterates weighted by step sizes; as `last` the last iterate. The dual is
            V's Bellman residual V(s) - Σ_i β_i(s) (r_i + γ V(s'_i)), by the same embedding.
        """
        compilation.enable_cache()
        ready = self.prepare(key, problem)
        embedding, kept, course, order = ready.embedding, ready.kept, ready.course, ready.order
        probe = probe if probe is None or isinstance(probe, Probe) else Probe(probe)
        wanted = probe.marks(self.steps) if probe else set()
        seen: list[tuple[int, Any, Any]] = []

        def pairs(run: EmbeddedRun) -> Iterator[Pair]:
            for weights in (run.average, run.current):
                yield with_residual(to_numpy(course.function(weights)), embedding, kept)

        def look(step: int, run: EmbeddedRun) -> None:
            if probe is not None and step in wanted:
                seen.append((step, *probe.look(*pairs(run))))

        run = ready.begin()
        look(0, run)
        for start, stop in itertools.pairwise(sorted({0, self.steps} | wanted)):
            with jax.enable_x64(True):
                run = advance(course, self.step, Regulariser(self.primal_penalty), run, order, start, stop)
            look(stop, run)
        averaged, last = pairs(run)
        at = np.asarray([stop for stop, *_ in seen], dtype=int)
        trace = Trace(at, at * self.batch, [metric for _, metric, _ in seen], [metric for *_, metric in seen])
        message = self._stop_message(run)
        if message:
            warnings.warn(message, DivergenceWarning, stacklevel=2)
        return Result(averaged.primal, averaged.dual, trace, not message, last, int(run.taken), message)

    def prepare(self, key: jax.Array | int, problem: PolicyEvaluation) -> Preparation:
        """Compute what no step size changes: the embedding, and the order of the rows.

        Parameters
        ----------
        key : jax.Array or int
            Random key or seed.
        problem : PolicyEvaluation
            Policy evaluation with the square loss on a finite data set.

        Returns
        -------
        Preparation
            All that a run needs before its first step.
        """
        data = EmbeddedTransitions.of(problem)
        draw_key, embed_key, order_key = jax.random.split(checks.as_key(key), 3)
        kept = data.sample(draw_key, self.cap)
        embedding, course = self.embed(embed_key, kept, data)
        order = finite_data(problem).plan(order_key, batch=self.batch, steps=self.steps).order
        with jax.enable_x64(True):
            # In float32 what is kept up would drift away from the weights it follows, step by step.
            course = jax.tree.map(jnp.asarray, course)
        return Preparation(kept, embedding, course, order, 1e5 * (float(np.max(np.abs(data.reward))) or 1.0))

    def _stop_message(self, run: EmbeddedRun) -> str:
        """What went otherwise than planned; empty when nothing did."""
        if run.alive:
            return ""
        first = float(self.step(jnp.asarray(1)))
        return (
            f"SGD in the embedded process diverged at step {int(run.taken) + 1} of {self.steps}: lower the step sizes "
            f"({first:.3g} at the first step); the result holds the last finite iterates"
        )


@final
class MDPKernelEmbedding(EmbeddedSGD):
    """SGD in a decision process that is embedded with kernels (Grünewälder et al. 2012).

        V <- (1 - γ_t λ1) V - γ_t ρ (V(s) - r - γ v̄(s)) (k(s, ·) - γ Σ_i β_i(s) k(s'_i, ·)),   v̄(s) = Σ_i β_i(s)
        V(s'_i)

    β(s) is the conditional embedding of p(s' | s), ρ-weighted so that it is the evaluated policy's, from at most `cap`
    = m transitions. It costs O(m³) once and O(m²) and 4m bytes for each of the N rows of the data, then O(m² + B (N +
    m)) for a step on B of them, in float64. A terminated transition has no V(s'), and one of several steps the power of
    γ.

    Parameters
    ----------
    kernel : Kernel
        Kernel k of V.
    embedding_kernel : Kernel
        Kernel of the embedding.
    penalty : float, optional
        Penalty of the embedding; by default chosen by leave-one-out, whose targets are functions of `kernel`.
    steps : int, default=1000
        Number of steps.
    batch : int, default=20
        Transitions per step.
    step : Schedule, default=OffsetLinear(10.0, 10.0)
        Step sizes γ_t.
    cap : int, default=3000
        Transitions that are embedded at most, drawn at random; None embeds all.
    primal_penalty : float, optional
        Penalty λ1 of V.

    Examples
    --------
    >>> import dualembed as de
    >>> chain = de.sources.Dataset(state=[0, 1], reward=[0.0, 1.0], next_state=[1, 1])
    >>> table = de.kernels.Categorical()
    >>> rival = MDPKernelEmbedding(table, table, 1e-6, steps=200, batch=2, step=de.schedules.Constant(1.0))
    >>> result = rival.fit(0, de.problems.PolicyEvaluation(chain, 0.5))
    >>> [round(float(value), 2) for value in result.last.primal([0, 1])]
    [1.0, 2.0]
    """

    kernel: Kernel
    embedding_kernel: Kernel
    penalty: float | None = eqx.field(default=None, converter=checks.real)
    cap: int | None = eqx.field(default=3000, static=True, kw_only=True)

    def __check_init__(self) -> None:
        for name in ("kernel", "embedding_kernel"):
            checks.instance(name, getattr(self, name), Kernel, "such as kernels.Gaussian(0.1)")
        check_penalty(self.penalty)

    def embed(
        self, key: jax.Array, kept: EmbeddedTransitions, data: EmbeddedTransitions
    ) -> tuple[ConditionalEmbedding, Course]:
        """β of every row, computed in float64."""
        rows, columns = len(data.reward), len(kept.reward)
        if rows * columns > TABLE:
            raise checks.InputError(
                f"embedding weights of {rows} rows on {columns} transitions need {rows * columns * 4e-9:.1f} GB; "
                f"lower cap to {max(TABLE // rows, 2)}, or use MDPRandomFeatureEmbedding"
            )
        embedding = ConditionalEmbedding.fit(
            self.embedding_kernel, kept.state, kept.next_state, self.penalty,
            weights=kept.weight, target_kernel=self.kernel, seed=_seed(key),
        )  # fmt: skip
        table = np.empty((rows, columns), dtype=np.float32)
        for start in range(0, rows, TILE):
            part = slice(start, start + TILE)
            table[part] = kept.bootstrap * embedding.weights(data.state[part])
        centres = np.concatenate([data.state, kept.next_state])
        centres = np.pad(centres, ((0, -len(centres) % TILE), (0, 0)))  # whole tiles; the padding has coefficients 0
        gram = self.kernel.gram(kept.next_state, kept.next_state)
        return embedding, KernelCourse(data.reward, data.weight, centres, table, gram, kernel=self.kernel)


@final
class MDPRandomFeatureEmbedding(EmbeddedSGD):
    """SGD in a decision process that is embedded with features.

        θ <- (1 - γ_t λ1) θ - γ_t ρ (θᵀδ(s) - r) δ(s),   δ(s) = ψ(s) - γ τᵀφ(s),   V = θᵀψ

    τ = (ΦᵀΡΦ + mλ)⁻¹ ΦᵀΡΨ' regresses ψ(s'), 0 after a terminated transition, on the features φ(s), ρ-weighted. It costs
    O(m p²) for p features. A transition of several steps has the power of γ.

    Parameters
    ----------
    space : LinearSpace
        Space of V with features ψ, such as `spaces.Fourier`.
    embedding_space : LinearSpace
        Space of the embedding with features φ.
    penalty : float, optional
        Penalty λ of the embedding; by default chosen by leave-one-out.
    steps : int, default=1000
        Number of steps.
    batch : int, default=20
        Transitions per step.
    step : Schedule, default=OffsetLinear(10.0, 10.0)
        Step sizes γ_t.
    cap : int, optional
        Transitions that are embedded at most, drawn at random; by default all.
    primal_penalty : float, optional
        Penalty λ1 of V.
    """

    space: LinearSpace
    embedding_space: LinearSpace
    penalty: float | None = eqx.field(default=None, converter=checks.real)

    def __check_init__(self) -> None:
        for name in ("space", "embedding_space"):
            checks.instance(name, getattr(self, name), LinearSpace, "such as spaces.Fourier(kernels.Gaussian(0.1))")
        check_penalty(self.penalty)

    def embed(
        self, key: jax.Array, kept: EmbeddedTransitions, data: EmbeddedTransitions
    ) -> tuple[ConditionalEmbedding, Course]:
        """δ of every row, computed in float64."""
        self.space.check(data.state.shape[1])
        key, embedding_key = jax.random.split(key)
        embedding = ConditionalEmbedding.fit(
            self.embedding_space, kept.state, kept.next_state, self.penalty,
            weights=kept.weight, seed=_seed(embedding_key),
        )  # fmt: skip
        layout = Layout(kept.state, steps=1, batch=1, per_sample=1, capacity=1)
        features = self.space.feature_map(key, layout)
        host = to_numpy(features)
        following = kept.bootstrap[:, None] * evaluate_features(host, kept.next_state)
        directions = evaluate_features(host, data.state) - embedding.expectation(following, data.state)
        return embedding, FeatureCourse(data.reward, data.weight, directions, features=features)


class Course(eqx.Module):
    """What the compiled loop reads, and how it moves V from V = 0."""

    reward: eqx.AbstractVar[AnyArray]  # (N,), NumPy until the loop begins
    weight: eqx.AbstractVar[AnyArray]  # (N,), NumPy until the loop begins

    @abstractmethod
    def begin(self) -> tuple[jax.Array, Any]:
        """(the weights of V = 0, what else a step keeps up)."""

    @abstractmethod
    def residuals(self, weights: jax.Array, kept_up: Any, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(ρ (V(s) - r - γ v̄(s)) of these rows, values of V met on the way)."""

    @abstractmethod
    def move(self, weights: jax.Array, kept_up: Any, *, rows: jax.Array, slopes: jax.Array) -> tuple[jax.Array, Any]:
        """The weights, and what is kept up, of V - Σ_b slopes_b (k(s_b, ·) - γ E[k(s', ·) | s_b])."""

    @abstractmethod
    def function(self, weights: jax.Array) -> Function:
        """V."""


class KernelCourse(Course):
    """V = Σ_j weights_j k(centres_j, ·) over the states, then the embedded next states; V(s'_i) is kept up."""

    reward: AnyArray
    weight: AnyArray
    centres: AnyArray  # (whole tiles >= N + m, d)
    table: AnyArray  # γ β_i(s_j) where transition i goes on, (N, m)
    gram: AnyArray  # k(s'_i, s'_j), (m, m)
    kernel: Kernel = eqx.field(kw_only=True)

    def begin(self) -> tuple[jax.Array, jax.Array]:
        """Zero coefficients, zero values V(s'_i)."""
        return jnp.zeros(self.centres.shape[0]), jnp.zeros(self.gram.shape[0])

    def residuals(self, weights: jax.Array, kept_up: jax.Array, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        """V(s) by the expansion, v̄(s) by the table."""
        values = self.function(weights).evaluate(self.centres[rows])
        residual = self.weight[rows] * (values - self.reward[rows] - self.table[rows] @ kept_up)
        return residual, jnp.concatenate([values, kept_up])

    def move(
        self, weights: jax.Array, kept_up: jax.Array, *, rows: jax.Array, slopes: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """-slopes at the states of the rows, and their share at the embedded next states."""
        count, embedded = self.table.shape
        share = slopes @ self.table[rows]
        weights = weights.at[rows].add(-slopes)
        weights = weights.at[count : count + embedded].add(share)
        next_states = self.centres[count : count + embedded]
        return weights, kept_up - self.kernel.gram(next_states, self.centres[rows]) @ slopes + self.gram @ share

    def function(self, weights: jax.Array) -> KernelFunction:
        """V."""
        return KernelFunction(self.kernel, self.centres, weights, tile=TILE)


class FeatureCourse(Course):
    """V = weightsᵀψ; nothing else is kept up."""

    reward: AnyArray
    weight: AnyArray
    directions: AnyArray  # δ, (N, p)
    features: FeatureMap = eqx.field(kw_only=True)

    def begin(self) -> tuple[jax.Array, tuple[()]]:
        """Zero weights."""
        return jnp.zeros(self.directions.shape[1]), ()

    def residuals(self, weights: jax.Array, kept_up: tuple[()], rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        """θᵀδ(s) - r."""
        values = self.directions[rows] @ weights
        return self.weight[rows] * (values - self.reward[rows]), values

    def move(
        self, weights: jax.Array, kept_up: tuple[()], *, rows: jax.Array, slopes: jax.Array
    ) -> tuple[jax.Array, tuple[()]]:
        """θ - Σ_b slopes_b δ(s_b)."""
        return weights - slopes @ self.directions[rows], ()

    def function(self, weights: jax.Array) -> LinearFunction:
        """V."""
        return LinearFunction(self.features, weights)


class Preparation(NamedTuple):
    """All that a run needs before its first step; its values count as diverging beyond the limit."""

    kept: EmbeddedTransitions
    embedding: ConditionalEmbedding
    course: Course
    order: jax.Array  # (steps, batch), the rows of every batch
    limit: float

    def begin(self) -> EmbeddedRun:
        """The run before its first step."""
        with jax.enable_x64(True):
            weights, kept_up = self.course.begin()
            zero, alive, taken = jnp.zeros(()), jnp.asarray(True), jnp.asarray(0)
            return EmbeddedRun(weights, kept_up, weights, zero, alive, taken, jnp.asarray(self.limit))


class EmbeddedRun(eqx.Module):
    """V's weights, their average, and how the run fares: steps are taken only while values keep below the limit."""

    current: jax.Array
    kept_up: Any
    average: jax.Array
    total: jax.Array  # Σ γ_t so far
    alive: jax.Array
    taken: jax.Array
    limit: jax.Array


@jax.jit
def advance(
    course: Course,
    schedule: Schedule,
    regulariser: Regulariser,
    run: EmbeddedRun,
    order: jax.Array,
    start: int,
    stop: int,
) -> EmbeddedRun:
    """The run after steps start..stop-1, batch t being the rows order[t], in one compiled loop."""

    def step(number: jax.Array, run: EmbeddedRun) -> EmbeddedRun:
        rows = order[number]
        residual, met = course.residuals(run.current, run.kept_up, rows)
        alive = run.alive & (jnp.max(jnp.abs(met)) < run.limit)  # NaN compares false
        rate = jnp.where(alive, schedule(number + 1), 0.0)
        slopes = jnp.where(alive, rate * residual / len(rows), 0.0)
        average, total = running_average(run.average, run.current, run.total, rate)
        shrunk = jax.tree.map(lambda leaf: regulariser.shrinkage(rate) * leaf, (run.current, run.kept_up))
        current, kept_up = course.move(*shrunk, rows=rows, slopes=slopes)
        return EmbeddedRun(current, kept_up, average, total, alive, run.taken + alive, run.limit)

    return jax.lax.fori_loop(start, stop, step, run)


class BellmanResidual(Function):
    """V(s) - E[r + γ V(s') | s], the expectation being the embedding's."""

    value: Function
    expected: Function

    @property
    def dimension(self) -> int:
        """Coordinates of a state."""
        return self.value.dimension

    def evaluate(self, xs: jax.Array) -> jax.Array:
        """The difference."""
        return self.value.evaluate(xs) - self.expected.evaluate(xs)

    def norm2(self) -> jax.Array:
        """|V|² + |expected|², each in its own RKHS: the norm of the pair."""
        return self.value.norm2() + self.expected.norm2()


def with_residual(value: Function, embedding: ConditionalEmbedding, kept: EmbeddedTransitions) -> Pair:
    """V, and its Bellman residual by the embedding of the kept transitions."""
    following = kept.reward + kept.bootstrap * np.asarray(value(kept.next_state))
    residual = BellmanResidual(value, embedding.regression(following))
    return Pair(value, DualFunction(residual, Direct(), Square()))


def check_penalty(penalty: float | None) -> None:
    """Raise unless the embedding's penalty is one positive number or left out."""
    if penalty is not None:
        checks.positive("penalty", penalty, "leave it out to have it chosen by leave-one-out")
        checks.single("penalty", penalty, hint="")


def _seed(key: jax.Array) -> int:
    """A seed drawn from the key, for what is computed in NumPy."""
    return int(jax.random.randint(key, (), 0, np.iinfo(np.int32).max))
