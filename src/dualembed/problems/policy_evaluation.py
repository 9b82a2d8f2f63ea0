"""Policy evaluation: the value V(s) of a policy from single transitions (s, r, s')."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import AnyArray
from dualembed.data.trajectories import (
    check_discount,
    check_endings,
    check_marks,
    check_names,
    check_not_negative,
    check_vectors,
)
from dualembed.losses import Loss, Square
from dualembed.problems.base import (
    Problem,
    Terms,
    checked_columns,
    columns_of,
    library,
    mass_of,
    optional,
    require,
    states_of,
)
from dualembed.sources import Sample, Source


class PolicyEvaluation(Problem):
    """The value of a policy: min over V of E[loss(E[ρ (V(s) - r - discount V(s') (not terminated)) | s])].

    Columns are state and next_state (B,) or (B, d) and reward (B,). Optional ones are terminated (B,), 1 where the
    episode ended with this transition and nothing follows (one cut short by a time limit is 0: its bootstrap counts);
    weight (B,), the importance weight ρ = π(a|s) / π_b(a|s) for transitions of another policy π_b
    (`data.policies.importance_weights`); steps (B,), how many steps the transition spans, its reward being their
    discounted sum and its bootstrap discounted by as many powers (`data.trajectories.multi_step`).

    The context is s alone: with (s, a) the equation would be asked of every action, which no stochastic policy's value
    fulfils.

    Parameters
    ----------
    source : Source
        Samples with the columns above.
    discount : float
        Discount of a step. A discount of 1 needs episodes that end, since otherwise V plus any constant is a solution
        too.
    loss : Loss, default=Square()
        The loss of the conditional mean of the moment.
    reward_known : bool, default=False
        Whether the reward is a function of the state, which makes the honest score sharper.
    deterministic : bool, default=False
        Whether the policy is deterministic: then the context is (s, a), with a column action (B,) or (B, a).

    Examples
    --------
    >>> from dualembed.sources import Dataset
    >>> chain = Dataset(state=[0.0, 1.0], reward=[0.0, 1.0], next_state=[1.0, 1.0], terminated=[0, 1])
    >>> PolicyEvaluation(chain, 0.5).terms(chain.columns).weights.tolist()
    [[1.0, -0.5], [1.0, -0.0]]
    """

    source: Source
    discount: float | jax.Array
    loss: Loss
    reward_known: bool = eqx.field(static=True)
    deterministic: bool = eqx.field(static=True)

    def __init__(
        self,
        source: Source,
        discount: ArrayLike,
        loss: Loss | None = None,
        *,
        reward_known: bool = False,
        deterministic: bool = False,
    ) -> None:
        self.source = source
        self.discount = checks.real(discount)
        self.loss = Square() if loss is None else loss
        self.reward_known = reward_known
        self.deterministic = deterministic

    def __check_init__(self) -> None:
        checks.instance("reward_known", self.reward_known, bool)
        checks.instance("deterministic", self.deterministic, bool)
        check_discount(self.discount)
        columns = checked_columns(self, "state=..., reward=..., next_state=...")
        if columns is not None:
            check_endings(columns, self.discount)
            if not checks.traced(columns) and not np.any(np.asarray(columns.get("weight", 1.0))):
                raise checks.InputError(
                    "weight is 0 in every row: these data say nothing about the policy, and V = 0 would be the "
                    "solution; give transitions of actions that it takes"
                )

    def terms(self, sample: Sample) -> Terms:
        """Points (s, s'), weights ρ (1, -discount^steps (not terminated)), offset -ρ r, context s, target 0."""
        state, next_state = states_of("policy evaluation", sample, "reward")
        _check(sample)
        xp = library(sample, self.discount)
        reward = xp.asarray(sample["reward"])
        ratio, ends = optional(sample, "weight", 1.0), optional(sample, "terminated", 0.0)
        bootstrap = self.discount ** sample["steps"] if "steps" in sample else self.discount
        weighted = "weight" in sample  # then ρ V(s) and ρ r depend on the action as well, which s does not determine
        return Terms(
            points=xp.stack([state, next_state], axis=1),
            weights=ratio[:, None] * xp.stack([xp.ones_like(reward), -bootstrap * (1.0 - ends)], axis=1),
            offset=-ratio * reward,
            context=self._context(sample, state),
            target=xp.zeros_like(reward),
            known=(self.deterministic or not weighted, False),
            # A return of several steps depends on the states between, which s does not determine.
            offset_known=self.reward_known and (self.deterministic or not weighted) and "steps" not in sample,
            mass=mass_of(sample),
        )

    def _context(self, sample: Sample, state: AnyArray) -> AnyArray:
        if not self.deterministic:
            return state
        require("a deterministic policy's evaluation", sample, "state", "action")
        return library(sample).concatenate([state, columns_of("action", sample["action"])], axis=1)


def _check(sample: Sample) -> None:
    check_names(sample)
    check_vectors(sample, "reward", "terminated", "weight", "steps")
    check_marks(sample, "terminated", "mark with 1 where nothing follows")
    check_not_negative(sample, "weight", "it is the ratio of two probabilities, π(a|s) / π_b(a|s)")
    check_not_negative(sample, "steps", "it counts the steps that a transition spans")
