"""What the three experiments of policy evaluation share: the methods that are compared, and their grids.

Embedding-SGD and kernel MDP have the whole RKHS of a Gaussian kernel, GTD2 and residual gradient 2⁸ random Fourier
features of one, as in the paper. A gradient is the mean over its batch, where a sum would have rates a batch-th as
large. The penalties are the same for every stochastic method.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from dualembed import baselines, kernels, problems, solvers, spaces
from dualembed.baselines.mdp_embedding import EmbeddedRun, advance
from dualembed.experiments.bellman import Process
from dualembed.experiments.contenders import (
    Axes,
    Ground,
    Stepping,
    Stochastic,
    closed_form,
    curve_of,
    marks_of,
    preconditioned,
    schedule,
    self_tuned,
    stacked,
)
from dualembed.experiments.experiment import Contender, Curve, Settings
from dualembed.problems.base import Problem
from dualembed.saddle import Saddle
from dualembed.solvers.base import DivergenceWarning
from dualembed.spaces.base import Regulariser
from dualembed.spaces.features import to_numpy

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


@dataclass(frozen=True)
class Evaluation:
    """The methods on one process.

    Bandwidths are in units of the median trick, the median distance between two states once every coordinate has
    deviation 1; or as they are, where those of the paper are `absolute`. The penalty is that of both players, for every
    stochastic method.
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

    def ground(self, seed: int, samples: int) -> Ground:
        """So many transitions, the MSBE, and what the paper's plug-in estimate of it would be."""
        data = self.process.dataset(samples, seed)
        problem = problems.PolicyEvaluation(data, self.process.discount, reward_known=True)
        process = self.process
        return Ground(
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
            return Stochastic(solver, lambda _: self.ground, saddle, BATCH, Axes(grids[name]))

        return {
            "embedding-sgd": stochastic("embedding-sgd", solvers.EmbeddingSGD, self.expansion),
            "gtd2": stochastic("gtd2", baselines.GTD2, self.waves),
            "residual-gradient": stochastic("residual-gradient", baselines.ResidualGradient, self.waves),
            "kernel-mdp": KernelMDP(self, Axes(grids["kernel-mdp"])),
            "centred-sgd": stochastic("centred-sgd", solvers.CentredEmbeddingSGD, self.expansion),
            "preconditioned-sgd": stochastic("preconditioned-sgd", preconditioned, self.landmarks),
            "closed-form": closed_form(self.landmarks, self.ground, Axes(grids["closed-form"])),
            "self-tuned": self_tuned(self.ground),
        }


@dataclass(frozen=True)
class KernelMDP(Stepping):
    """SGD in the process embedded by a conditional embedding, whose bandwidth is the dual's."""

    evaluation: Evaluation
    axes: Axes

    def run(self, settings: Settings, seed: int, samples: int) -> Curve:
        """A pass over the transitions, after embedding some of them."""
        ground = self.evaluation.ground(seed, samples)
        marks, iterate = marks_of(samples // BATCH), settings["iterate"]
        probe = solvers.Probe(lambda primal, _: ground.error(primal), at=marks, iterates=iterate)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DivergenceWarning)  # the curve says so
            result = self._rival(settings, samples).fit(seed, ground.problem, probe)  # type: ignore[arg-type]
        return curve_of(result, iterate, samples // BATCH, batch=BATCH, beside=ground.beside)

    def together(self, group: list[Settings], seed: int, samples: int, *, rough: bool) -> Iterator[tuple[float, float]]:
        """(averaged, last) metrics of settings that differ in their steps only, which share an embedding."""
        ground = self.evaluation.ground(seed, samples)
        error = ground.judge(rough)
        ready = self._rival(group[0], samples).prepared(seed, ground.problem)  # type: ignore[arg-type]

        @jax.vmap
        def finished(steps: dict[str, jax.Array]) -> EmbeddedRun:
            rates = schedule(steps)
            return advance(
                ready.course,
                rates,
                Regulariser(self.evaluation.penalty),
                ready.begin(),
                ready.order,
                0,
                len(ready.order),
            )

        with jax.enable_x64(True):
            runs = finished(stacked(group))
        for number, alive in enumerate(runs.alive):
            functions = (ready.course.function(weights[number]) for weights in (runs.average, runs.current))
            averaged, last = (error(to_numpy(each)) if alive else math.inf for each in functions)
            yield averaged, last

    def _rival(self, settings: Settings, samples: int) -> baselines.MDPKernelEmbedding:
        return baselines.MDPKernelEmbedding(
            self.evaluation.kernel(settings["primal bandwidth"]),
            self.evaluation.kernel(settings["dual bandwidth"]),
            steps=samples // BATCH,
            batch=BATCH,
            step=schedule(settings),
            cap=min(EMBEDDED, samples // 10),
            primal_penalty=self.evaluation.penalty,
        )
