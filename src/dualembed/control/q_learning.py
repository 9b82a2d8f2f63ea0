"""Q-learning by the saddle: each step's moment takes the next action that looks best at the moment."""

from __future__ import annotations

import warnings
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp

from dualembed import checks
from dualembed.problems import ActionValue, Terms
from dualembed.saddle import Saddle
from dualembed.schedules import OffsetSqrt, Schedule
from dualembed.solvers.base import Probe, Result
from dualembed.solvers.stochastic import Seen, StochasticSolver


class ConvexityWarning(UserWarning):
    """The problem is not convex, so that no theorem says the iterates converge."""


@final
class QLearning(StochasticSolver):
    """Embedding-SGD on Q(s,a) - r - discount max_j Q(s',a'_j), for an `ActionValue` whose rows have every next action.

    The maximum is not affine in Q: the weights follow the current Q through its argmax, the problem in Q is no longer
    convex, and nothing guarantees convergence. It often works where the dual moves several times faster than Q, and
    can stall where both move alike; `PolicyIteration` solves an affine problem in every round and should be tried
    first. The next actions' probabilities (`data.policies.expected_actions`) say only which actions there are: those
    with probability 0 are left out.
    """

    title: ClassVar[str] = "Q-learning"

    steps: int = eqx.field(static=True)
    batch: int = eqx.field(default=50, static=True)
    primal_step: Schedule = eqx.field(default_factory=lambda: OffsetSqrt(1.0, 1.0))
    dual_step: Schedule | None = None

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """As Embedding-SGD, after a warning."""
        warnings.warn(
            "Q-learning's maximum over actions makes the saddle non-convex: it may fail to converge; "
            "compare with control.PolicyIteration",
            ConvexityWarning,
            stacklevel=3,
        )
        return super().solve(key, saddle, probe)

    def check(self, saddle: Saddle, terms: Terms) -> None:
        """Only action values have next actions to choose from, and with one a row there is no choice."""
        checks.instance("the saddle's problem", saddle.problem, ActionValue, "Q-learning chooses among next actions")
        if terms.points.shape[1] < 3:
            raise checks.InputError(
                "Q-learning needs every next action in each row, but there is one, which would make it SARSA; "
                "data.policies.expected_actions gives the columns next_action and next_probability of all of them"
            )

    def slopes(self, saddle: Saddle, seen: Seen) -> tuple[jax.Array, jax.Array]:
        """The saddle's, with the whole bootstrap on the best next action."""
        bootstrap = seen.terms.weights[:, 1:]
        possible = jnp.where(bootstrap < 0, seen.primal[:, 1:], -jnp.inf)
        best = jax.nn.one_hot(jnp.argmax(possible, axis=1), bootstrap.shape[1], dtype=bootstrap.dtype)
        whole = jnp.sum(bootstrap, axis=1, keepdims=True) * best
        greedy = eqx.tree_at(
            lambda terms: terms.weights, seen.terms, jnp.concatenate([seen.terms.weights[:, :1], whole], axis=1)
        )
        return saddle.slopes(greedy, seen.primal, seen.dual)
