"""Policy evaluation where the next state is normal around a known mean: Bellman errors, and the methods compared.

The paper squares a mean of V over 100 drawn next states, which adds discount² Var(V(s') | s) / 100. Here E[V(s') | s]
is exact for functions of Gaussian kernels and of waves; for others it is estimated, and the excess taken off.

Of the methods Embedding-SGD and kernel MDP have the whole RKHS of a Gaussian kernel, GTD2 and residual gradient 2⁸
random Fourier features of one, as in the paper. A gradient is the mean over its batch, where a sum would have rates a
batch-th as large. The penalties are the same for every stochastic method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dualembed import baselines, kernels, problems, solvers, sources, spaces
from dualembed.baselines.mdp_embedding import EmbeddedRun, advance
from dualembed.experiments.experiment import (
    Axes,
    Contender,
    Settings,
    Setup,
    Stepping,
    Stochastic,
    closed_form,
    preconditioned,
    schedule,
    self_tuned,
    stack_steps,
)
from dualembed.problems.base import Problem
from dualembed.saddle import Saddle
from dualembed.solvers.base import Result
from dualembed.spaces.base import Function, Regulariser
from dualembed.spaces.features import to_numpy
from dualembed.spaces.fourier import WaveMap
from dualembed.spaces.linear import LinearFunction
from dualembed.spaces.nystrom import LandmarkMap
from dualembed.spaces.rkhs import KernelFunction

TEST_SEED = 20_160_711  # no training seed that anybody would choose
TEST_STATES = 1000
NEXT_STATES = 100
BLOCK = 500  # transitions drawn side by side
# Of simulators: they are long programs that run for a second, and more would cost more than it saves.
LITTLE_OPTIMISED = {"xla_backend_optimization_level": 1}
SOME_STATES = 200  # of them, for rough errors and for the variance of V(s')

BATCH = 20
FEATURES = 2**8
LANDMARKS = 300  # of the closed form and of preconditioned SGD
EMBEDDED = 2000  # transitions that kernel MDP embeds at most, since that costs their cube; of few, a tenth

SETTINGS: dict[str, Any] = {
    "batch": BATCH,
    "gradient": "mean over the batch",
    "steps": "rate / (offset + t^power)",
    "random features of GTD2 and residual gradient": FEATURES,
    "states on which settings were compared": "the test states, after other transitions",
    "landmarks of the closed form and of preconditioned SGD": LANDMARKS,
    "transitions embedded by kernel MDP": f"a tenth of the samples, at most {EMBEDDED:,}",
    "passes over the transitions": 1,
}

Value = Callable[[Any], Any]


class KnownStates(NamedTuple):
    """States (n, d) with their rewards (n,) and the means of their next states (n, d)."""

    states: np.ndarray
    rewards: np.ndarray
    next_means: np.ndarray


@dataclass(frozen=True)
class Process:
    """A decision process under its policy: s' ~ N(next_mean(s), deviation² I), all functions of one state (d,).

    Attributes
    ----------
    draw_state : callable
        From a key to a state.
    next_mean : callable
        From a state to the mean of the next.
    reward : callable
        What V sums up, discounted, whether it is a gain or a cost.
    deviation : float
        Standard deviation of the next state.
    discount : float
        Discount factor.
    quadrature : callable, optional
        From V and means (n, d) to E[V(s')] (n,), where a process has one for any V.
    states : ndarray, optional
        States on which errors are measured, where they are not to be drawn.
    """

    draw_state: Callable[[jax.Array], jax.Array]
    next_mean: Callable[[jax.Array], jax.Array]
    reward: Callable[[jax.Array], jax.Array]
    deviation: float
    discount: float
    quadrature: Callable[[Value, np.ndarray], np.ndarray] | None = None
    states: np.ndarray | None = None  # on which errors are measured, where they are not to be drawn

    def draw(self, key: jax.Array) -> dict[str, jax.Array]:
        """One transition: state (d,), reward, next_state (d,)."""
        state_key, noise_key = jax.random.split(key)
        state = self.draw_state(state_key)
        noise = self.deviation * jax.random.normal(noise_key, state.shape)
        return {"state": state, "reward": self.reward(state), "next_state": self.next_mean(state) + noise}

    def dataset(self, n: int, seed: int) -> sources.Dataset:
        """n independent transitions; the last few data sets are kept, since methods of a trial share one."""
        return self._datasets(n, seed)

    @cached_property
    def _datasets(self) -> Callable[[int, int], sources.Dataset]:
        return lru_cache(maxsize=4)(lambda n, seed: sources.Dataset(**self._draw_many(n, seed)))

    def _draw_many(self, n: int, seed: int) -> dict[str, np.ndarray]:
        """Transitions, drawn in blocks: a block stays in the processor's cache, and one program serves all sizes."""
        keys = jax.random.split(jax.random.key(seed), -(-n // BLOCK) * BLOCK).reshape(-1, BLOCK)
        blocks = [jax.tree.map(np.asarray, self._draw_block(each)) for each in keys]
        return {name: np.concatenate([block[name] for block in blocks])[:n] for name in blocks[0]}

    @cached_property
    def _draw_block(self) -> Callable[[jax.Array], dict[str, jax.Array]]:
        return jax.jit(jax.vmap(self.draw), compiler_options=LITTLE_OPTIMISED)

    def test_states(self, count: int = TEST_STATES) -> np.ndarray:
        """States (count, d) on which errors are measured, the same for everybody."""
        return self.states[:count] if self.states is not None else self._draw_many(count, TEST_SEED)["state"]

    def describe(self, states: np.ndarray) -> KnownStates:
        """What is known at the states."""
        return KnownStates(np.asarray(states), *map(np.asarray, self._known(jnp.asarray(states))))

    @cached_property
    def _known(self) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
        known = jax.vmap(lambda state: (self.reward(state), self.next_mean(state)))
        return jax.jit(known, compiler_options=LITTLE_OPTIMISED)

    @cached_property
    def _all_states(self) -> KnownStates:
        return self.describe(self.test_states())

    @cached_property
    def _some_states(self) -> KnownStates:
        return KnownStates(*(rows[:SOME_STATES] for rows in self._all_states))

    def msbe(self, function: Value, states: np.ndarray | None = None) -> float:
        """Mean over the states of (V(s) - R(s) - discount E[V(s') | s])², without bias.

        Where E[V(s') | s] can only be estimated it may come out slightly negative at a perfect V.
        """
        return self._msbe(function, self._all_states if states is None else self.describe(states))

    def rough_msbe(self, function: Value) -> float:
        """The same on the first 200 test states."""
        return self._msbe(function, self._some_states)

    def _msbe(self, function: Value, tested: KnownStates) -> float:
        expected, excess = self._expected(function, tested)
        residual = at_points(function, tested.states) - tested.rewards - self.discount * expected
        return float(np.mean(residual**2 - self.discount**2 * excess))

    def plug_in_msbe(self, function: Value) -> float:
        """What the paper's figure is in expectation: the MSBE, and discount² Var(V(s') | s) / 100 on top of it.

        The variance is that at the first 200 states.
        """
        _, excess = self._sample_next(function, self._some_states)
        return self.msbe(function) + self.discount**2 * float(np.mean(excess))

    def _expected(self, function: Value, tested: KnownStates) -> tuple[np.ndarray, np.ndarray]:
        """(E[V(s') | s], by how much the square of that exceeds the true one on average), both (n,)."""
        average = smooth(function, self.deviation)
        if average is not None:
            return at_points(average, tested.next_means), np.zeros(len(tested.rewards))
        if self.quadrature is not None:
            return self.quadrature(function, tested.next_means), np.zeros(len(tested.rewards))
        return self._sample_next(function, tested)

    def _sample_next(self, function: Value, tested: KnownStates) -> tuple[np.ndarray, np.ndarray]:
        """The mean (n,) of V over drawn next states, and the variance of that mean."""
        means = tested.next_means
        noise = np.random.default_rng(TEST_SEED).standard_normal((NEXT_STATES, *means.shape))
        following = (means + self.deviation * noise).reshape(-1, means.shape[1])
        values = at_points(function, following).reshape(NEXT_STATES, -1)
        return values.mean(axis=0), values.var(axis=0, ddof=1) / NEXT_STATES


def smooth(function: Value, deviation: float) -> Function | None:
    """Average a function over normal noise, where that is known exactly.

    A Gaussian of bandwidth σ becomes one of √(σ² + deviation²), Π_j σ_j / √(σ_j² + deviation²) times as high. A wave of
    frequency ω keeps its shape and loses the factor exp(-deviation² |ω|² / 2).

    Parameters
    ----------
    function : callable
        A function f of points (n, d).
    deviation : float
        Standard deviation of the noise e ~ N(0, deviation² I).

    Returns
    -------
    Function or None
        The function x -> E[f(x + e)], where it is known.
    """
    match function:
        case KernelFunction(kernel=kernels.Gaussian()):
            wider, height = _widen(function.kernel, deviation, function.dimension)
            return KernelFunction(
                wider, function.centres, height * function.coefficients, function.used, tile=function.tile
            )
        case LinearFunction(features=LandmarkMap(kernel=kernels.Gaussian()) as features):
            wider, height = _widen(features.kernel, deviation, features.dimension)
            return LinearFunction(LandmarkMap(wider, features.landmarks, features.whitener), height * function.weights)
        case LinearFunction(features=WaveMap() as features):
            kept = jnp.exp(-0.5 * deviation**2 * jnp.sum(features.frequencies**2, axis=1))
            kept = kept if features.phases is not None else jnp.concatenate([kept, kept])
            return LinearFunction(features, kept * function.weights)
    return None


def _widen(kernel: Any, deviation: float, dimension: int) -> tuple[kernels.Gaussian, float]:
    """(the kernel averaged over normal noise, but for its height; that height)."""
    widths = np.broadcast_to(np.asarray(kernel.bandwidth, dtype=np.float64), (dimension,))
    wider = np.sqrt(widths**2 + deviation**2)
    return kernels.Gaussian(wider), float(np.prod(widths / wider))


def at_points(function: Value, points: np.ndarray) -> np.ndarray:
    """The values (n,) in float64."""
    return np.asarray(function(points), dtype=np.float64)


@dataclass(frozen=True)
class Evaluation:
    """The methods on one process.

    Attributes
    ----------
    process : Process
        The process.
    penalty : float
        Penalty of both players, for every stochastic method.
    absolute : bool, default=False
        Whether bandwidths are as they are. Otherwise their unit is the median distance between two states once every
        coordinate has deviation 1.
    """

    process: Process
    penalty: float
    absolute: bool = False

    @cached_property
    def unit(self) -> np.ndarray:
        """A bandwidth of 1, for each coordinate of a state."""
        states = self.process.test_states()
        if self.absolute:
            return np.ones(states.shape[1])
        deviations = states.std(axis=0)
        return deviations * kernels.median_bandwidth(states / deviations)

    def setup(self, seed: int, samples: int) -> Setup:
        """So many transitions, the MSBE, and what the paper's plug-in estimate of it would be."""
        data = self.process.dataset(samples, seed)
        problem = problems.PolicyEvaluation(data, self.process.discount, reward_known=True)
        process = self.process
        return Setup(
            problem, process.msbe, lambda value: {"plug-in MSBE": process.plug_in_msbe(value)}, process.rough_msbe
        )

    def kernel(self, bandwidth: float) -> kernels.Gaussian:
        """The Gaussian kernel of a relative bandwidth."""
        return kernels.Gaussian(bandwidth * self.unit)

    def expansion(self, settings: Settings, problem: Problem) -> Saddle:
        """RKHSs for both players."""
        primal, dual = (spaces.RKHS(self.kernel(settings[f"{player} bandwidth"])) for player in ("primal", "dual"))
        return Saddle(problem, primal, dual, primal_penalty=self.penalty, dual_penalty=self.penalty)

    def waves(self, settings: Settings, problem: Problem) -> Saddle:
        """Random Fourier features, which GTD2 gives both players and residual gradient, without a dual, to V alone."""
        space = spaces.Fourier(self.kernel(settings["primal bandwidth"]), FEATURES)
        return Saddle(problem, space, space, primal_penalty=self.penalty, dual_penalty=self.penalty)

    def landmarks(self, settings: Settings, problem: Problem) -> Saddle:
        """Landmarks for both players; penalties are settings of the closed form."""
        primal, dual = (
            spaces.Nystrom(self.kernel(settings[f"{player} bandwidth"]), LANDMARKS) for player in ("primal", "dual")
        )
        return Saddle(
            problem,
            primal,
            dual,
            primal_penalty=settings.get("primal penalty", self.penalty),
            dual_penalty=settings.get("dual penalty", self.penalty),
        )

    def contenders(self, grids: dict[str, dict[str, Sequence[Any]]]) -> dict[str, Contender]:
        """Every method with its grid."""

        def stochastic(name: str, solver: Callable[..., Any], saddle: Callable[..., Saddle]) -> Stochastic:
            return Stochastic(solver, lambda _: self.setup, saddle, BATCH, Axes(grids[name]))

        return {
            "embedding-sgd": stochastic("embedding-sgd", solvers.EmbeddingSGD, self.expansion),
            "gtd2": stochastic("gtd2", baselines.GTD2, self.waves),
            "residual-gradient": stochastic("residual-gradient", baselines.ResidualGradient, self.waves),
            "kernel-mdp": KernelMDP(self, Axes(grids["kernel-mdp"])),
            "centred-sgd": stochastic("centred-sgd", solvers.CentredEmbeddingSGD, self.expansion),
            "preconditioned-sgd": stochastic("preconditioned-sgd", preconditioned, self.landmarks),
            "closed-form": closed_form(self.landmarks, self.setup, Axes(grids["closed-form"])),
            "self-tuned": self_tuned(self.setup),
        }


@dataclass(frozen=True)
class KernelMDP(Stepping):
    """SGD in the process embedded by a conditional embedding, whose bandwidth is the dual's."""

    evaluation: Evaluation
    axes: Axes
    batch: int = BATCH

    def setup(self, settings: Settings, seed: int, samples: int) -> Setup:
        """The same trial whatever the settings."""
        return self.evaluation.setup(seed, samples)

    def solve(self, settings: Settings, problem: Problem, seed: int, *, samples: int, probe: solvers.Probe) -> Result:
        """A pass over the transitions, after embedding some of them."""
        return self._rival(settings, samples).fit(seed, problem, probe)  # type: ignore[arg-type]

    def solve_together(
        self, group: list[Settings], seed: int, samples: int, *, rough: bool
    ) -> Iterator[tuple[float, float]]:
        """(averaged, last) metrics of settings that differ in their steps only, which share an embedding."""
        setup = self.evaluation.setup(seed, samples)
        error = setup.judge(rough)
        ready = self._rival(group[0], samples).prepare(seed, setup.problem)  # type: ignore[arg-type]

        @jax.vmap
        def finish(steps: dict[str, jax.Array]) -> EmbeddedRun:
            penalty, order = Regulariser(self.evaluation.penalty), ready.order
            return advance(ready.course, schedule(steps), penalty, ready.begin(), order, 0, len(order))

        with jax.enable_x64(True):
            runs = finish(stack_steps(group))
        for number, alive in enumerate(runs.alive):
            functions = (ready.course.function(weights[number]) for weights in (runs.average, runs.current))
            averaged, last = (error(to_numpy(each)) if alive else math.inf for each in functions)
            yield averaged, last

    def _rival(self, settings: Settings, samples: int) -> baselines.MDPKernelEmbedding:
        return baselines.MDPKernelEmbedding(
            self.evaluation.kernel(settings["primal bandwidth"]),
            self.evaluation.kernel(settings["dual bandwidth"]),
            steps=self.steps(samples),
            batch=self.batch,
            step=schedule(settings),
            cap=min(EMBEDDED, samples // 10),
            primal_penalty=self.evaluation.penalty,
        )
