"""What policies say about data: action probabilities, importance weights, and the next actions an expectation needs.

A policy on A actions numbered from 0 is any function from states (n, d) to probabilities (n, A); a policy on continuous
actions is any function (key, states (n, d)) -> actions (n, a), one random action for each state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from dualembed import checks

Policy = Callable[[np.ndarray], Any]
Sampler = Callable[[jax.Array, np.ndarray], Any]

TOLERANCE = 1e-5  # by which probabilities may miss 1: float32 policies sum to one no better


def probabilities(policy: Policy, states: Any, *, name: str = "the policy") -> np.ndarray:
    """π(a|s) for every action, (n, A), refused unless each row is a distribution.

    >>> probabilities(lambda s: np.full((len(s), 2), 0.5), [[0.0], [1.0]]).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    states = state_rows(states)
    _check_callable(name, policy, "states (n, d) to probabilities (n, actions)")
    found = numbers(f"what {name} gives", policy(states))
    if found.ndim != 2 or len(found) != len(states):
        raise checks.InputError(
            f"{name} must give probabilities of shape ({len(states)}, actions) for {len(states)} states, "
            f"but gave shape {found.shape}"
        )
    return check_distributions(found, name)


def check_distributions(found: np.ndarray, name: str) -> np.ndarray:
    """The probabilities (n, A) as they are, refused unless each row is a distribution."""
    wrong = ~(np.all(found >= 0, axis=1) & (np.abs(found.sum(axis=1) - 1) <= TOLERANCE))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise checks.InputError(
            f"{name} must give probabilities that are not negative and sum to one, but gives {found[row].tolist()} "
            f"in row {row}; divide by their sum"
        )
    return found


def taken_probabilities(policy: Policy, states: Any, actions: Any, *, name: str = "the policy") -> np.ndarray:
    """π(a_i|s_i) of the action taken in each row, (n,)."""
    found = probabilities(policy, states, name=name)
    return found[np.arange(len(found)), action_numbers(actions, found.shape[1], len(found))]


def importance_weights(
    states: Any,
    actions: Any,
    *,
    target: Policy,
    behaviour: Policy | Any,
    clip: float | None = None,
    self_normalise: bool = False,
) -> np.ndarray:
    """ρ = π(a|s) / π_b(a|s), (n,): what makes data of the behaviour policy speak of the target policy.

    `behaviour` is a policy, or the probabilities (n,) with which the logged actions were taken. `clip` caps
    weights (less variance, some bias towards the behaviour policy); `self_normalise` divides by their mean, which
    is 1 in expectation: that changes how they weigh against a penalty, not which V fulfils the moment equation.

    >>> left = lambda s: np.tile([1.0, 0.0], (len(s), 1))
    >>> importance_weights([0.0, 0.0], [0, 1], target=left, behaviour=[0.5, 0.5]).tolist()
    [2.0, 0.0]
    """
    wanted = taken_probabilities(target, states, actions, name="the target policy")
    if callable(behaviour):
        given = taken_probabilities(behaviour, states, actions, name="the behaviour policy")
    else:
        given = numbers("behaviour", behaviour)
        if given.shape != wanted.shape:
            raise checks.InputError(
                f"behaviour must be a policy or one probability a row, {wanted.shape}, but has shape {given.shape}"
            )
    bad = ~((given > 0) & (given <= 1 + TOLERANCE))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise checks.InputError(
            f"the behaviour policy must give each action that was taken a probability above 0 and at most 1, not "
            f"{given[row]} as in row {row}; drop such rows or mend the probabilities"
        )
    weights = wanted / given
    if clip is not None:
        checks.positive("clip", clip)
        weights = np.minimum(weights, clip)
    if not weights.any():
        raise checks.InputError(
            "every importance weight is 0: the target policy never takes a logged action; "
            "these data say nothing about it"
        )
    return weights / weights.mean() if self_normalise else weights


def effective_sample_size(weights: Any) -> float:
    """(Σρ)² / Σρ²: how many unweighted rows the weighted ones are worth.

    >>> effective_sample_size([2.0, 0.0, 2.0, 0.0])
    2.0
    """
    weights = numbers("weights", weights)
    if not np.all(weights >= 0) or not weights.any():
        raise checks.InputError("weights must not be negative or NaN, and not all 0")
    return float(weights.sum() ** 2 / np.sum(weights**2))


def expected_actions(policy: Policy, next_states: Any) -> dict[str, np.ndarray]:
    """The columns next_action (n, A) and next_probability (n, A) of expected SARSA: every action with its probability.

    >>> expected_actions(lambda s: np.tile([0.25, 0.75], (len(s), 1)), [0.0])
    {'next_action': array([[0., 1.]]), 'next_probability': array([[0.25, 0.75]])}
    """
    found = probabilities(policy, state_rows(next_states, name="next_states"))
    return {"next_action": np.tile(np.arange(found.shape[1], dtype=float), (len(found), 1)), "next_probability": found}


def sampled_actions(
    key: jax.Array | int, policy: Sampler, next_states: Any, *, draws: int = 1
) -> dict[str, np.ndarray]:
    """The columns next_action (n, draws, a) and next_probability (n, draws) from draws of a continuous policy.

    >>> columns = sampled_actions(0, lambda key, s: s + jax.random.normal(key, s.shape), [0.0, 1.0, 2.0], draws=4)
    >>> columns["next_action"].shape, columns["next_probability"].shape
    ((3, 4, 1), (3, 4))
    """
    checks.count("draws", draws)
    states = state_rows(next_states, name="next_states")
    _check_callable("the policy", policy, "a key and states (n, d) to actions (n, a)")
    drawn = [_actions(policy(each, states), len(states)) for each in jax.random.split(checks.as_key(key), draws)]
    return {"next_action": np.stack(drawn, axis=1), "next_probability": np.full((len(states), draws), 1.0 / draws)}


class GaussianPolicy:
    """A policy whose actions are normal around `mean(states)`, (n,) or (n, a), with standard deviations `deviation`.

    `actions` gives a few actions with weights such that means of smooth functions come out right: five
    Gauss-Hermite nodes for one number, their products for two, and for more numbers two nodes along each of them.

    >>> actions, shares = GaussianPolicy(lambda s: 2 * s[:, 0], 0.5).actions(np.array([[1.0]]))
    >>> [round(float(np.sum(shares * actions[:, :, 0] ** power)), 3) for power in (1, 2)]  # 2, and 2² + 0.5²
    [2.0, 4.25]
    """

    def __init__(self, mean: Callable[[Any], Any], deviation: Any) -> None:
        _check_callable("the mean of a Gaussian policy", mean, "states to actions (n,) or (n, a)")
        if not callable(deviation):
            checks.not_negative("deviation", deviation)
        self.mean, self.deviation = mean, deviation

    def actions(self, states: Any) -> tuple[np.ndarray, np.ndarray]:
        """(actions (n, J, a), weights (n, J) that sum to one) at each state."""
        mean = numbers("what the mean of the policy gives", self.mean(states))
        mean = mean[:, None] if mean.ndim == 1 else mean
        given = self.deviation(states) if callable(self.deviation) else self.deviation
        deviation = numbers("the deviation of the policy", given)
        if deviation.ndim == 1 and callable(self.deviation):  # one for each state
            deviation = deviation[:, None]
        nodes, shares = _nodes(mean.shape[1])
        moves = np.broadcast_to(deviation, mean.shape)[:, None] * nodes
        return mean[:, None] + moves, np.tile(shares, (len(mean), 1))


def _nodes(width: int) -> tuple[np.ndarray, np.ndarray]:
    """(nodes (J, width), weights (J,)) of a standard normal vector."""
    if width > 2:  # exact for polynomials of the third degree
        nodes = np.sqrt(width) * np.concatenate([np.eye(width), -np.eye(width)])
        return nodes, np.full(2 * width, 0.5 / width)
    places, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()
    if width == 1:
        return places[:, None], weights
    first, second = (each.ravel() for each in np.meshgrid(places, places))
    return np.stack([first, second], axis=1), np.outer(weights, weights).ravel()


def numbers(name: str, values: Any) -> np.ndarray:
    """The values in float64, NaN included; without a look at JAX, for what is asked at every step of a game."""
    try:
        given = np.asarray(values)
    except (TypeError, ValueError):
        raise checks.InputError(f"{name} could not be read as an array; give equal rows of numbers") from None
    if given.dtype.kind not in "iufb":
        raise checks.InputError(f"{name} must be numbers, not {given.dtype}; encode text or objects as numbers first")
    return given.astype(np.float64)


def state_rows(states: Any, *, name: str = "states") -> np.ndarray:
    """States as (n, d) in float64."""
    rows = numbers(name, states)
    if rows.ndim not in (1, 2) or not len(rows):
        raise checks.InputError(f"{name} must have shape (rows,) or (rows, dimension), but have {rows.shape}")
    if not np.isfinite(rows).all():
        row = int(np.argwhere(~np.isfinite(rows))[0][0])
        raise checks.InputError(f"{name} must be finite, but row {row} is {rows[row].tolist()}; drop or fill such rows")
    return rows[:, None] if rows.ndim == 1 else rows


def action_numbers(actions: Any, count: int, rows: int) -> np.ndarray:
    """Discrete actions (n,) as whole numbers below `count`."""
    given = numbers("actions", actions)
    if given.shape != (rows,):
        raise checks.InputError(f"actions must have shape ({rows},), one number a row, but have {given.shape}")
    bad = ~np.isin(given, np.arange(count))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise checks.InputError(
            f"actions must be whole numbers from 0 to {count - 1}, not {given[row]:g} as in row {row}"
        )
    return given.astype(np.int64)


def _actions(drawn: Any, rows: int) -> np.ndarray:
    found = numbers("what the policy gives", drawn)
    if found.ndim not in (1, 2) or len(found) != rows:
        raise checks.InputError(f"a sampled policy must give one action a state, ({rows}, a), but gave {found.shape}")
    if not np.isfinite(found).all():
        raise checks.InputError("a sampled policy must give finite actions, but gave NaN or infinity")
    return found[:, None] if found.ndim == 1 else found


def _check_callable(name: str, policy: Any, what: str) -> None:
    if not callable(policy):
        raise checks.InputError(f"{name} must be a function from {what}, not {policy!r}")
