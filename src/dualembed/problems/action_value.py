"""Action values: Q(s, a) of a policy by SARSA, expected SARSA or λ-returns, from single transitions or trajectories."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
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


class ActionValue(Problem):
    """Action values: min over Q of E[loss(E[Q(s,a) - r - discount Σ_j π_j Q(s',a'_j) (not terminated) | s, a])].

    Columns are state and next_state (B,) or (B, d), action (B,) or (B, a), reward (B,), optional terminated (B,), and
    the policy's next actions:

    - SARSA: next_action (B,), or (B, 1, a), the one action the policy took at s';
    - expected SARSA: next_action (B, J) or (B, J, a) with next_probability (B, J), as `data.policies.expected_actions`
      (every discrete action) and `data.policies.sampled_actions` (draws of a continuous one) give them.

    Points are (s, a) side by side. The context (s, a) determines which action was taken, so no importance
    weights are needed whichever policy collected the data, as long as next actions are the evaluated one's.

    Parameters
    ----------
    source : Source
        Samples with the columns above.
    discount : float
        Discount of a step, from 0 to 1.
    loss : Loss, default=Square()
        The loss of the conditional mean of the moment.
    reward_known : bool, default=False
        Whether the reward is a function of (s, a).

    Examples
    --------
    >>> from dualembed.sources import Dataset
    >>> data = Dataset(state=[0.0], action=[1.0], reward=[1.0], next_state=[2.0], next_action=[[0.0, 1.0]],
    ...                next_probability=[[0.25, 0.75]])
    >>> ActionValue(data, 0.5).terms(data.columns).weights.tolist()
    [[1.0, -0.125, -0.375]]
    """

    source: Source
    discount: float | jax.Array
    loss: Loss
    reward_known: bool = eqx.field(static=True)

    def __init__(
        self, source: Source, discount: ArrayLike, loss: Loss | None = None, *, reward_known: bool = False
    ) -> None:
        self.source = source
        self.discount = checks.real(discount)
        self.loss = Square() if loss is None else loss
        self.reward_known = reward_known

    def __check_init__(self) -> None:
        _check_problem(self)
        checks.instance("reward_known", self.reward_known, bool)

    def terms(self, sample: Sample) -> Terms:
        """Points (s, a), (s', a'_j), weights 1, -discount π_j (not terminated), offset -r, context (s, a), target 0."""
        state, next_state = states_of("an action-value problem", sample, "action", "reward", "next_action")
        _check_single_steps(sample)
        xp = library(sample, self.discount)
        reward, ends = xp.asarray(sample["reward"]), optional(sample, "terminated", 0.0)
        pair = xp.concatenate([state, columns_of("action", sample["action"])], axis=1)
        actions = _next_actions(sample["next_action"], pair.shape[1] - state.shape[1])
        share = _shares(sample, actions.shape[1])
        following = xp.concatenate([xp.repeat(next_state[:, None], actions.shape[1], axis=1), actions], axis=2)
        return Terms(
            points=xp.concatenate([pair[:, None], following], axis=1),
            weights=xp.concatenate(
                [xp.ones_like(reward)[:, None], -self.discount * (1.0 - ends)[:, None] * share], axis=1
            ),
            offset=-reward,
            context=pair,
            target=xp.zeros_like(reward),
            known=(True,) + (False,) * actions.shape[1],
            offset_known=self.reward_known,
            actions=actions.shape[2],
            mass=mass_of(sample),
        )


class LambdaReturn(Problem):
    """Action values from λ-returns: min over Q of E[loss(E[Q(s0,a0) - G^λ | s0, a0])], over windows of N steps.

        G^λ = (1-λ) Σ_{n<N} λ^(n-1) G^(n) + λ^(N-1) G^(N),   G^(n) = Σ_{k<n} γ^k r_k + γ^n Q(s_n, a_n),

    so r_k counts (γλ)^k, Q(s_n, a_n) counts (1-λ) λ^(n-1) γ^n and the last λ^(N-1) γ^N. A window that its
    episode cuts short has its own N, and after a termination nothing is earned or bootstrapped. The actions after the
    first are the evaluated policy's own: λ = 0 is SARSA, and with next actions that are greedy under the last Q it is
    the control form.

    Columns, as `data.trajectories.return_windows` gives them, are state (B,) or (B, d), action (B,) or (B, a), and with
    an axis for the step reward (B, N), next_state (B, N, d), next_action (B, N) or (B, N, a), terminated (B, N); length
    (B,) counts the real steps.

    Parameters
    ----------
    source : Source
        Samples with the columns above.
    discount : float
        Discount γ of a step, from 0 to 1.
    decay : float
        The decay λ, from 0 to 1.
    loss : Loss, default=Square()
        The loss of the conditional mean of the moment.
    """

    source: Source
    discount: float | jax.Array
    decay: float | jax.Array
    loss: Loss

    def __init__(self, source: Source, discount: ArrayLike, decay: ArrayLike, loss: Loss | None = None) -> None:
        self.source = source
        self.discount, self.decay = checks.real(discount), checks.real(decay)
        self.loss = Square() if loss is None else loss

    def __check_init__(self) -> None:
        checks.not_negative("decay", self.decay, "give λ from 0 to 1")
        checks.single("decay", self.decay)
        if not checks.traced(self.decay) and np.any(np.asarray(self.decay) > 1):
            raise checks.InputError(f"decay must not be above 1, not {self.decay!r}; give λ from 0 to 1")
        _check_problem(self)

    def terms(self, sample: Sample) -> Terms:
        """Points (s_n, a_n), n = 0..N, with the weights above, offset -Σ (γλ)^k r_k, context (s_0, a_0), target 0."""
        xp = library(sample, self.discount, self.decay)
        rewards = _window(sample)
        count = rewards.shape[1]
        pair = xp.concatenate([columns_of("state", sample["state"]), columns_of("action", sample["action"])], axis=1)
        actions = _next_actions(sample["next_action"], pair.shape[1] - sample["next_state"].shape[2])
        length = sample["length"][:, None] if "length" in sample else xp.full((len(rewards), 1), count, dtype=float)
        number = xp.arange(1, count + 1)
        ends = sample["terminated"] if "terminated" in sample else xp.zeros_like(rewards)
        # Rows beyond a window's end repeat its last one, which would count a termination there twice: once is enough.
        survived = xp.cumprod(1.0 - ends, axis=1) * (number <= length)
        begun = xp.concatenate([xp.ones_like(survived[:, :1]), survived[:, :-1]], axis=1)
        share = xp.where(number == length, 1.0, 1.0 - self.decay) * self.decay ** (number - 1.0)
        earned = rewards * begun * (number <= length) * (self.discount * self.decay) ** (number - 1.0)
        return Terms(
            points=xp.concatenate([pair[:, None], xp.concatenate([sample["next_state"], actions], axis=2)], axis=1),
            weights=xp.concatenate([xp.ones_like(rewards[:, :1]), -share * self.discount**number * survived], axis=1),
            offset=-xp.sum(earned, axis=1),
            context=pair,
            target=xp.zeros_like(rewards[:, 0]),
            known=(True,) + (False,) * count,
            actions=actions.shape[2],
        )


def _check_problem(problem: ActionValue | LambdaReturn) -> None:
    check_discount(problem.discount)
    columns = checked_columns(problem, "state=..., action=..., reward=..., ...")
    if columns is not None:
        check_endings(columns, problem.discount)


def _check_single_steps(sample: Sample) -> None:
    check_names(sample)
    check_vectors(sample, "reward", "terminated")
    check_marks(sample, "terminated", "mark with 1 where nothing follows")
    if "steps" in sample:
        raise checks.InputError(
            "action values take transitions of one step, but there is a column steps: several steps are for "
            "PolicyEvaluation, or for LambdaReturn with data.trajectories.return_windows"
        )


def _next_actions(actions: Any, width: int) -> Any:
    """Next actions as (B, J, a); (B,) is one discrete action, (B, J) are several."""
    array = library(actions).asarray(actions)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] != width:
        wanted = (
            "(rows,), (rows, draws) or (rows, draws, 1) for actions of 1 number"
            if width == 1
            else f"(rows, draws, {width}) for actions of {width} numbers (one action a row is next_action[:, None, :])"
        )
        raise checks.InputError(f"next_action must have shape {wanted}, but has {np.shape(actions)}")
    return array


def _shares(sample: Sample, count: int) -> Any:
    """π_j (B, J), refused unless every row is a distribution; 1 for a single next action."""
    rows, xp = np.shape(sample["state"])[0], library(sample)
    if "next_probability" not in sample:
        if count > 1:
            raise checks.InputError(
                f"{count} next actions a row need their probabilities in a column next_probability of shape "
                f"({rows}, {count}); data.policies.expected_actions gives both"
            )
        return xp.ones((rows, 1))
    shares = xp.asarray(sample["next_probability"])
    shares = shares[:, None] if shares.ndim == 1 else shares
    if shares.shape != (rows, count):
        raise checks.InputError(f"next_probability must have shape ({rows}, {count}), but has {shares.shape}")
    check_not_negative({"next_probability": shares}, "next_probability", "it holds π(a'|s')")
    if not checks.traced(shares) and np.max(np.abs(np.sum(np.asarray(shares), axis=1) - 1.0)) > 1e-4:
        worst = int(np.argmax(np.abs(np.sum(np.asarray(shares), axis=1) - 1.0)))
        raise checks.InputError(
            f"next_probability must sum to one in every row, but sums to {float(np.sum(shares[worst])):.6g} in row "
            f"{worst}; divide by the sum"
        )
    return shares


def _window(sample: Sample) -> Any:
    """The rewards (B, N) of windows whose columns belong together."""
    require("a λ-return problem", sample, "state", "action", "reward", "next_state", "next_action")
    rewards = library(sample).asarray(sample["reward"])
    if rewards.ndim != 2:
        raise checks.InputError(
            f"reward must have shape (rows, steps), but has {rewards.shape}; data.trajectories.return_windows makes "
            "windows"
        )
    for name in ("next_state", "next_action", "terminated"):
        if name in sample and np.shape(sample[name])[:2] != rewards.shape:
            raise checks.InputError(
                f"{name} must begin with shape {rewards.shape}, like reward, but has {np.shape(sample[name])}"
            )
    if np.ndim(sample["next_state"]) != 3:
        raise checks.InputError(
            f"next_state must have shape (rows, steps, dimension), but has {np.shape(sample['next_state'])}"
        )
    coordinates = columns_of("state", sample["state"]).shape[1]
    if np.shape(sample["next_state"])[2] != coordinates:
        raise checks.InputError(
            f"next_state must have shape (rows, steps, {coordinates}), with the coordinates of state, but has "
            f"{np.shape(sample['next_state'])}"
        )
    check_names(sample)
    check_marks(sample, "terminated", "mark with 1 where nothing follows")
    _check_lengths(sample, rewards.shape[1])
    return rewards


def _check_lengths(sample: Sample, count: int) -> None:
    check_vectors(sample, "length")
    lengths = sample.get("length")
    if lengths is None or checks.traced(lengths):
        return
    strange = np.asarray(lengths)[~np.isin(np.asarray(lengths), np.arange(1, count + 1))]
    if strange.size:
        raise checks.InputError(
            f"length must be a whole number from 1 to {count}, the steps of a window, not {strange[0]}; "
            "data.trajectories.return_windows counts them"
        )
