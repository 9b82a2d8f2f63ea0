"""Policy evaluation: the value V(s) of a policy from single transitions (s, r, s')."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.losses import Loss, Square
from dualembed.problems.base import Problem, Terms, columns_of, require
from dualembed.sources import Dataset, Sample, Source


class PolicyEvaluation(Problem):
    """min over V of E[loss(E[ρ (V(s) - r - discount V(s') (not terminated)) | s])], zero at the policy's value.

    Columns: state and next_state (B,) or (B, d), reward (B,); optional terminated (B,), 1 where the episode ended
    with this transition and nothing follows (one cut short by a time limit is 0: its bootstrap counts); optional weight
    (B,), the importance weight ρ = π(a|s) / π_b(a|s) for transitions of another policy π_b. The context is s
    alone: with (s, a) the equation would be asked of every action, which no stochastic policy's value fulfils.

    `reward_known` says that the reward is a function of the state, which makes the honest score sharper. A discount
    of 1 needs episodes that end, since otherwise V plus any constant is a solution too.

    >>> chain = Dataset(state=[0.0, 1.0], reward=[0.0, 1.0], next_state=[1.0, 1.0], terminated=[0, 1])
    >>> PolicyEvaluation(chain, 0.5).terms(chain.columns).weights.tolist()
    [[1.0, -0.5], [1.0, -0.0]]
    """

    source: Source
    discount: float | jax.Array
    loss: Loss
    reward_known: bool = eqx.field(static=True)

    def __init__(self, source: Source, discount: Any, loss: Loss | None = None, *, reward_known: bool = False) -> None:
        self.source = source
        self.discount = checks.real(discount)
        self.loss = Square() if loss is None else loss
        self.reward_known = reward_known

    def __check_init__(self) -> None:
        checks.instance("source", self.source, Source, "such as sources.Dataset(state=..., reward=..., next_state=...)")
        checks.instance("loss", self.loss, Loss, "such as losses.Square()")
        checks.instance("reward_known", self.reward_known, bool)
        _check_discount(self.discount)
        if isinstance(self.source, Dataset):
            self.terms(self.source.columns)
            _check_endings(self.source.columns, self.discount)

    def terms(self, sample: Sample) -> Terms:
        """Points (s, s'), weights ρ (1, -discount (not terminated)), offset -ρ r, context s, target 0."""
        _check_sample(sample)
        state, next_state = (columns_of(name, sample[name]) for name in ("state", "next_state"))
        reward = jnp.asarray(sample["reward"])
        ones = jnp.ones_like(reward)
        ratio = sample.get("weight", ones)
        goes_on = 1.0 - sample.get("terminated", 0.0 * ones)
        weighted = "weight" in sample  # then ρ V(s) and ρ r depend on the action as well, which s does not determine
        return Terms(
            points=jnp.stack([state, next_state], axis=1),
            weights=ratio[:, None] * jnp.stack([ones, -self.discount * goes_on], axis=1),
            offset=-ratio * reward,
            context=state,
            target=jnp.zeros_like(reward),
            known=(not weighted, False),
            offset_known=self.reward_known and not weighted,
        )


def _check_discount(discount: Any) -> None:
    """Raise unless 0 <= discount <= 1; whether 1 will do depends on the samples."""
    hint = "give a number of at least 0 and below 1, such as 0.99"
    checks.not_negative("discount", discount, hint)
    if not checks.traced(discount) and np.any(np.asarray(discount) > 1):
        raise checks.InputError(f"discount must not be above 1, not {discount!r}; {hint}")


def _check_sample(sample: Sample) -> None:
    """Raise one clear sentence for missing columns, shapes that do not belong together, or values out of range."""
    require("policy evaluation", sample, "state", "reward", "next_state")
    states, next_states = np.shape(sample["state"]), np.shape(sample["next_state"])
    if states != next_states:
        raise checks.InputError(f"state and next_state must have the same shape, but have {states} and {next_states}")
    for name in ("reward", "terminated", "weight"):
        if name in sample and np.shape(sample[name]) != states[:1]:
            raise checks.InputError(f"{name} must have shape {states[:1]}, but has {np.shape(sample[name])}")
    _check_marks(sample)


def _check_endings(sample: Sample, discount: Any) -> None:
    """Raise where nothing is discounted and nothing ends; a matter of the whole data set, not of one batch of it."""
    ends = sample.get("terminated", jnp.zeros(1))
    if checks.traced(discount, ends) or np.any(np.asarray(discount) < 1):
        return
    if not np.any(np.asarray(ends)):
        raise checks.InputError(
            "discount must be below 1, not 1, unless a column terminated marks transitions that end an episode, since "
            "otherwise V plus any constant is a solution too; lower the discount or give that column"
        )


def _check_marks(sample: Sample) -> None:
    """Raise unless terminated is 0 or 1 throughout and no importance weight is negative."""
    ends, weights = sample.get("terminated"), sample.get("weight")
    if ends is not None and not checks.traced(ends):
        strange = np.asarray(ends)[~np.isin(np.asarray(ends), (0, 1))]
        if strange.size:
            raise checks.InputError(
                f"terminated must be 0 or 1, not {strange.flat[0]}; mark with 1 where nothing follows"
            )
    if weights is not None and not checks.traced(weights):
        lowest = np.min(np.asarray(weights))
        if not lowest >= 0:
            raise checks.InputError(
                f"weight must not be negative, not {lowest}; it is the ratio of two probabilities, π(a|s) / π_b(a|s)"
            )
