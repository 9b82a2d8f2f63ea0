"""What else says what a policy is worth: means of returns, importance sampling, LSTDQ, fitted Q, and those of bandits.

All are of NumPy arrays. `episodes` are labels of rows, which are in the order of time within each; `groups` are labels
of rows that depend on each other, by which errors are clustered.

Per-decision importance sampling is by Precup, Sutton and Singh (2000), LSTDQ by Lagoudakis and Parr (2003), fitted Q by
Ernst, Geurts and Wehenkel (2005), self-normalised estimates of bandits by Swaminathan and Joachims (2015), doubly
robust ones by Dudík, Langford and Li (2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import Floats, Integers
from dualembed.data.frames import step_numbers
from dualembed.data.probabilities import numbers
from dualembed.estimates import Estimate
from dualembed.linear.path import jackknife

SWEEPS = 10_000  # of fitted Q, at most
SETTLED = 1e-9  # change of the weights in a sweep, as a share of them, from which on they do not change
DIVERGED = 1e12  # times the first sweep's weights


def mean_of_returns(rewards: ArrayLike, discount: float, episodes: Any, *, groups: Any = None) -> Estimate:
    """The mean discounted return of the logged episodes, as far as they go: the value of the policy that acted.

    Parameters
    ----------
    rewards : array of shape (n,)
        Rewards.
    discount : float
        Discount of a step.
    episodes : array of shape (n,)
        Labels of rows of one episode.
    groups : array of shape (n,), optional
        Labels of rows that depend on each other; by default the episodes.

    Returns
    -------
    Estimate
        The mean and its standard error.

    Examples
    --------
    >>> mean_of_returns([1.0, 1.0, 0.0, 2.0], 0.5, ["a", "a", "b", "b"]).value  # (1 + 0.5 + 0 + 1) / 2
    1.25
    """
    return importance_sampling(rewards, np.ones(len(np.asarray(rewards))), discount, episodes, groups=groups)


def importance_sampling(
    rewards: ArrayLike,
    ratios: ArrayLike,
    discount: float,
    episodes: Any,
    *,
    self_normalise: bool = False,
    groups: Any = None,
) -> Estimate:
    """Per-decision importance sampling: mean over episodes of Σ_t γᵗ w_t r_t, w_t = Π_{k<=t} π(a_k|s_k) / π_b(a_k|s_k).

    With `self_normalise` each step's weights are divided by their mean over episodes, an episode that is over keeping
    its weight: some bias, and less variance. With episodes of one row these are the inverse propensity weighting of
    bandits and its self-normalised form.

    Parameters
    ----------
    rewards : array of shape (n,)
        Rewards.
    ratios : array of shape (n,)
        π(a|s) / π_b(a|s) of each row.
    discount : float
        Discount of a step.
    episodes : array of shape (n,)
        Labels of rows of one episode.
    self_normalise : bool, default=False
        Whether to divide weights by their mean.
    groups : array of shape (n,), optional
        Labels of rows that depend on each other; by default the episodes.

    Returns
    -------
    Estimate
        The value and its standard error.

    Examples
    --------
    >>> found = importance_sampling([1.0, 3.0], [2.0, 0.5], 1.0, [0, 1])  # (2 · 1 + 0.5 · 3) / 2
    >>> normalised = importance_sampling([1.0, 3.0], [2.0, 0.5], 1.0, [0, 1], self_normalise=True)  # 3.5 / 2.5
    >>> found.value, normalised.value
    (1.75, 1.4)
    """
    value, influence = importance_influence(rewards, ratios, discount, episodes, self_normalise=self_normalise)
    first = np.sort(np.unique(np.asarray(episodes), return_index=True)[1])
    owners = np.unique(np.asarray(episodes)[first], return_inverse=True)[1]
    sums = influence[owners]
    labels = np.arange(len(first)) if groups is None else np.asarray(groups)[first]
    return Estimate(value, clustered(sums, labels))


def importance_influence(
    rewards: ArrayLike, ratios: ArrayLike, discount: float, episodes: Any, *, self_normalise: bool = False
) -> tuple[float, Floats]:
    """(The value, what each episode adds to it to first order, in the order of their labels, (N,), of mean 0)."""
    reward, ratio = numbers("rewards", rewards), numbers("ratios", ratios)
    owner = np.unique(np.asarray(episodes), return_inverse=True)[1]
    if not len(reward) == len(ratio) == len(owner):
        raise checks.InputError(
            f"there are {len(reward)} rewards, {len(ratio)} ratios and {len(owner)} labels of episodes; give one a row"
        )
    step = step_numbers(owner)
    shape = int(owner.max()) + 1, int(step.max()) + 1
    weights: Floats = np.ones(shape)
    paid = np.zeros(shape)
    weights[owner, step], paid[owner, step] = ratio, reward
    weights = np.asarray(np.cumprod(weights, axis=1))
    falling = discount ** np.arange(shape[1])
    if not self_normalise:
        each = (weights * paid) @ falling
        return float(each.mean()), each - each.mean()
    level = weights.mean(axis=0)
    level = np.where(level > 0, level, 1.0)
    means = (weights * paid).mean(axis=0) / level
    return float(means @ falling), (weights * (paid - means) / level) @ falling


def clustered(influence: Floats, labels: Any) -> float:
    """The standard error of a mean of what units (N,) add to it, units of one label depending on each other."""
    owner = np.unique(np.asarray(labels), return_inverse=True)[1]
    sums = np.bincount(owner, influence - influence.mean())
    count = len(sums)
    return float(np.sqrt(count / max(count - 1, 1) * np.sum(sums**2)) / len(influence)) if count > 1 else np.inf


def lstdq(now: Floats, following: Floats, rewards: Floats, discount: float, *, ridge: Any = 0.0) -> Floats:
    """The weights θ (m,) of Q = θᵀφ by least-squares temporal differences: E[φ (φ - γ φ')ᵀ] θ + ridge θ = E[φ r].

    Parameters
    ----------
    now : array of shape (n, m)
        Features φ(s, a).
    following : array of shape (n, m)
        Their means φ' over the policy's actions at next states; 0 where nothing follows.
    rewards : array of shape (n,)
        Rewards.
    discount : float
        Discount of a step.
    ridge : float or array of shape (m,), default=0
        Penalty of each weight.

    Returns
    -------
    array of shape (m,)
        The weights.

    Examples
    --------
    >>> lstdq(np.eye(2), np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([0.0, 1.0]), 0.5).round(8).tolist()
    [1.0, 2.0]
    """
    cross = now.T @ (now - discount * following) / len(now)
    penalty = np.diag(np.broadcast_to(ridge, len(cross)))
    return np.asarray(np.linalg.lstsq(cross + penalty, now.T @ rewards / len(now), rcond=None)[0])


def fitted_q(now: Floats, following: Floats, rewards: Floats, discount: float, *, ridge: Any = 0.0) -> Floats:
    """The weights θ (m,) of Q = θᵀφ by fitted Q evaluation: regressions of r + γ θᵀφ' on φ, until they settle.

    They need not settle: the weights are then not a number.

    Parameters
    ----------
    now : array of shape (n, m)
        Features φ(s, a).
    following : array of shape (n, m)
        Their means φ' over the policy's actions at next states; 0 where nothing follows.
    rewards : array of shape (n,)
        Rewards.
    discount : float
        Discount of a step.
    ridge : float or array of shape (m,), default=0
        Penalty of each weight.

    Returns
    -------
    array of shape (m,)
        The weights.

    Examples
    --------
    >>> fitted_q(np.eye(2), np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([0.0, 1.0]), 0.5).round(6).tolist()
    [1.0, 2.0]
    """
    normal = now.T @ now / len(now) + np.diag(np.broadcast_to(ridge, now.shape[1]))
    both = np.column_stack([now.T @ rewards, now.T @ following]) / len(now)
    solved = np.linalg.lstsq(normal, both, rcond=None)[0]
    first, step = solved[:, 0], discount * solved[:, 1:]
    theta = first
    for _ in range(SWEEPS):
        following_theta = first + step @ theta
        change = np.abs(following_theta - theta).max()
        theta = following_theta
        size = np.abs(theta).max()
        if change <= SETTLED * max(size, np.finfo(float).tiny):
            return np.asarray(theta)
        if not size <= DIVERGED * max(np.abs(first).max(), np.finfo(float).tiny):
            break
    return np.full(len(first), np.nan)


def value_of(
    method: Any,
    now: Floats,
    following: Floats,
    rewards: Floats,
    discount: float,
    *,
    starts: Floats,
    rows: Integers,
    start_groups: Integers,
    ridge: Any = 0.0,
) -> Estimate:
    """The value θᵀ E[φ at starts] by `lstdq` or `fitted_q`, its error by leaving out groups.

    Parameters
    ----------
    method : callable
        `lstdq` or `fitted_q`.
    now, following : array of shape (n, m)
        Features of rows, and their means at what follows.
    rewards : array of shape (n,)
        Rewards.
    discount : float
        Discount of a step.
    starts : array of shape (N, m)
        Means of features over the policy's actions where episodes start.
    rows : array of shape (n,)
        The number of each row's group, 0 to K - 1.
    start_groups : array of shape (N,)
        The same of the starts.
    ridge : float or array of shape (m,), default=0
        Penalty of each weight.

    Returns
    -------
    Estimate
        The value and its standard error; not a number where the method does not settle.
    """
    count = int(rows.max()) + 1

    def value(kept: Any, begun: Any) -> float:
        theta = method(now[kept], following[kept], rewards[kept], discount, ridge=ridge)
        return float(starts[begun].mean(axis=0) @ theta)

    whole = value(slice(None), slice(None))
    if count < 2 or not np.isfinite(whole):
        return Estimate(whole, np.inf if np.isfinite(whole) else np.nan)
    others = [value(rows != group, start_groups != group) for group in range(count)]
    shares = np.bincount(start_groups, minlength=count) / len(start_groups)
    return Estimate(whole, float(np.sqrt(jackknife(np.array([whole, *others]), shares))))


def doubly_robust(ratios: Floats, rewards: Floats, predicted: Floats, direct: Floats) -> Floats:
    """The doubly robust score of each row of a bandit's log: direct + ratio · (reward - predicted), whose mean it is.

    Parameters
    ----------
    ratios : array of shape (n,)
        π(a|x) / π_b(a|x) of each row.
    rewards : array of shape (n,)
        Rewards.
    predicted : array of shape (n,)
        The reward predicted for the action that was taken, without the row.
    direct : array of shape (n,)
        The reward predicted for the policy, Σ_a π(a|x) q(x, a), without the row.

    Returns
    -------
    array of shape (n,)
        Scores.

    Examples
    --------
    >>> doubly_robust(np.array([2.0, 0.0]), np.array([1.0, 0.0]), np.array([0.5, 0.5]), np.array([0.5, 0.5])).tolist()
    [1.5, 0.5]
    """
    return direct + ratios * (rewards - predicted)
