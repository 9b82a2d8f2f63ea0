"""What policies say about data and what they do: probabilities, importance weights, next actions, actions to be played.

A policy on A actions numbered from 0 is any function from states (n, d) to probabilities (n, A); a policy on continuous
actions is any function (key, states (n, d)) -> actions (n, a), one random action for each state. One that plays may
want to be asked otherwise: for many states or for one, for probabilities or for actions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed import checks
from dualembed.data.frames import levels_of
from dualembed.data.gaussian_policy import GaussianPolicy
from dualembed.data.policy_forms import FunctionForm, RowPolicy, choices_at, form_of, reason, taken_shares
from dualembed.data.probabilities import (
    TOLERANCE,
    action_numbers,
    check_callable,
    check_distributions,
    numbers,
    state_rows,
)

if TYPE_CHECKING:
    import jax

__all__ = [
    "GaussianPolicy",
    "Policy",
    "PolicyFunction",
    "Sampler",
    "TOLERANCE",
    "action_numbers",
    "check_distributions",
    "effective_sample_size",
    "expected_actions",
    "first_number",
    "importance_weights",
    "is_discrete",
    "numbers",
    "probabilities",
    "sampled_actions",
    "state_rows",
    "taken_probabilities",
]

PolicyFunction = Callable[[Any], Any]
Sampler = Callable[[Any, np.ndarray], Any]  # (key, states) to actions

FORMS = "probabilities (n, A) or actions (n,) for states (n, d), or one action for one state (d,)"
VECTOR_FORMS = "actions (n, a) for states (n, d), or one action (a,) for one state (d,)"


def probabilities(policy: PolicyFunction, states: Any, *, name: str = "the policy") -> np.ndarray:
    """The probabilities π(a|s) of every action, checked.

    Parameters
    ----------
    policy : callable
        States (n, d) -> probabilities (n, A).
    states : array of shape (n, d) or (n,)
        States.
    name : str, default="the policy"
        What messages call it.

    Returns
    -------
    array of shape (n, A)
        Probabilities.

    Raises
    ------
    InputError
        If a row is no distribution.

    Examples
    --------
    >>> probabilities(lambda s: np.full((len(s), 2), 0.5), [[0.0], [1.0]]).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    states = state_rows(states)
    check_callable(name, policy, "states (n, d) to probabilities (n, actions)")
    found = numbers(f"what {name} gives", policy(states))
    if found.ndim != 2 or len(found) != len(states):
        raise checks.InputError(
            f"{name} must give probabilities of shape ({len(states)}, actions) for {len(states)} states, "
            f"but gave shape {found.shape}"
        )
    return check_distributions(found, name)


def taken_probabilities(policy: PolicyFunction, states: Any, actions: Any, *, name: str = "the policy") -> np.ndarray:
    """The probability π(a_i|s_i) of the action taken in each row.

    Parameters
    ----------
    policy : callable, classifier, agent, dict or array of shape (n, A)
        The policy; a function of states gives probabilities (n, A).
    states : array of shape (n, d) or (n,)
        States.
    actions : array of shape (n,)
        Actions, numbered from 0 unless the policy has labels for them.
    name : str, default="the policy"
        What messages call the policy.

    Returns
    -------
    array of shape (n,)
        Probabilities.
    """
    if policy is None:
        raise checks.InputError(f"{name} must be a function from states (n, d) to probabilities (n, actions), not None")
    form = form_of(policy)
    if form is None:
        raise checks.InputError(
            f"{name} must be a policy, not the name of a column {policy!r}; give the column's values"
        )
    if isinstance(form, FunctionForm):
        found = probabilities(policy, states, name=name)
        return found[np.arange(len(found)), action_numbers(actions, found.shape[1], len(found))]
    if isinstance(policy, GaussianPolicy):
        raise checks.InputError(
            f"{name} must give probabilities of actions, which a GaussianPolicy has none of; action values need no "
            "importance weights"
        )
    taken = np.asarray(actions)
    levels = np.unique(levels_of(taken).astype(str)).tolist() if taken.dtype.kind in "OUS" else ()
    choices = choices_at(form.states, len(taken), levels) if isinstance(form, RowPolicy) else form.at(states)
    if not choices.numbered:
        return taken_shares(choices, taken)
    shares = check_distributions(choices.shares, name)
    return shares[np.arange(len(shares)), action_numbers(actions, shares.shape[1], len(shares))]


def importance_weights(
    states: Any,
    actions: Any,
    *,
    target: PolicyFunction,
    behaviour: PolicyFunction | Any,
    clip: float | None = None,
    self_normalise: bool = False,
) -> np.ndarray:
    """Importance weights ρ = π(a|s) / π_b(a|s), which make data of the behaviour policy speak of the target policy.

    Parameters
    ----------
    states : array of shape (n, d) or (n,)
        States.
    actions : array of shape (n,)
        Logged actions, numbered from 0.
    target : callable, classifier, agent, dict or array of shape (n, A)
        The policy π: what gives probabilities for states, or has `predict_proba`, or these probabilities.
    behaviour : callable, classifier or array of shape (n,)
        The policy π_b, or the probabilities with which the logged actions were taken.
    clip : float, optional
        Largest weight: less variance, some bias towards the behaviour policy.
    self_normalise : bool, default=False
        Whether to divide weights by their mean, which is 1 in expectation: that changes how they weigh against a
        penalty, not which V fulfils the moment equation.

    Returns
    -------
    array of shape (n,)
        Weights.

    Examples
    --------
    >>> left = lambda s: np.tile([1.0, 0.0], (len(s), 1))
    >>> importance_weights([0.0, 0.0], [0, 1], target=left, behaviour=[0.5, 0.5]).tolist()
    [2.0, 0.0]
    """
    wanted = taken_probabilities(target, states, actions, name="the target policy")
    if callable(behaviour) or hasattr(behaviour, "predict_proba"):
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
    """The effective sample size (Σρ)² / Σρ²: how many unweighted rows the weighted ones are worth.

    Parameters
    ----------
    weights : array of shape (n,)
        Importance weights ρ.

    Returns
    -------
    float
        The effective sample size.

    Examples
    --------
    >>> effective_sample_size([2.0, 0.0, 2.0, 0.0])
    2.0
    """
    weights = numbers("weights", weights)
    if not np.all(weights >= 0) or not weights.any():
        raise checks.InputError("weights must not be negative or NaN, and not all 0")
    return float(weights.sum() ** 2 / np.sum(weights**2))


def expected_actions(policy: PolicyFunction, next_states: Any) -> dict[str, np.ndarray]:
    """The columns of expected SARSA: every action at the next states with its probability.

    Parameters
    ----------
    policy : callable
        States (n, d) -> probabilities (n, A).
    next_states : array of shape (n, d) or (n,)
        Next states.

    Returns
    -------
    dict of arrays
        The columns next_action (n, A) and next_probability (n, A).

    Examples
    --------
    >>> expected_actions(lambda s: np.tile([0.25, 0.75], (len(s), 1)), [0.0])
    {'next_action': array([[0., 1.]]), 'next_probability': array([[0.25, 0.75]])}
    """
    found = probabilities(policy, state_rows(next_states, name="next_states"))
    return {"next_action": np.tile(np.arange(found.shape[1], dtype=float), (len(found), 1)), "next_probability": found}


def sampled_actions(
    key: jax.Array | int, policy: Sampler, next_states: Any, *, draws: int = 1
) -> dict[str, np.ndarray]:
    """The columns of expected SARSA for a continuous policy: draws of its actions at the next states.

    Parameters
    ----------
    key : array or int
        A JAX key or a seed.
    policy : callable
        (key, states (n, d)) -> actions (n, a), one random action for each state.
    next_states : array of shape (n, d) or (n,)
        Next states.
    draws : int, default=1
        Actions for each state.

    Returns
    -------
    dict of arrays
        The columns next_action (n, draws, a) and next_probability (n, draws).

    Examples
    --------
    >>> import jax
    >>> columns = sampled_actions(0, lambda key, s: s + jax.random.normal(key, s.shape), [0.0, 1.0, 2.0], draws=4)
    >>> columns["next_action"].shape, columns["next_probability"].shape
    ((3, 4, 1), (3, 4))
    """
    import jax

    checks.count("draws", draws)
    states = state_rows(next_states, name="next_states")
    check_callable("the policy", policy, "a key and states (n, d) to actions (n, a)")
    drawn = [_actions(policy(each, states), len(states)) for each in jax.random.split(checks.as_key(key), draws)]
    return {"next_action": np.stack(drawn, axis=1), "next_probability": np.full((len(states), draws), 1.0 / draws)}


class Policy:
    """A policy on the environment's actions: `sample` draws one for each state.

    How the function wants to be asked is found out once, by a few states that are not played: many at a time if what
    it gives has a row for each of them, else one at a time.
    """

    def __init__(self, function: PolicyFunction, states: np.ndarray, *, actions: Any, observations: Any = None) -> None:
        _check_acts(function)
        self.function, self.actions, self.observations = function, actions, observations
        self.discrete = is_discrete(actions)
        self.one_by_one = not self._takes_many(state_rows(states))

    def sample(self, rng: np.random.Generator, states: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """(an action for each state, numbered from 0 if discrete; its probability, where the policy tells it)."""
        answer = self._answer(state_rows(states))
        if not self._fits(answer.shape, len(states)):
            raise checks.InputError(
                f"the policy must give {self._forms()}, but gave shape {answer.shape} for {len(states)} states"
            )
        if not self.discrete:
            return self._vectors(answer), None
        if answer.shape == (len(states), 1) and self.actions.n > 1:
            answer = answer[:, 0]
        if answer.ndim == 1:
            # Actions come in the environment's own numbers, which need not start at 0.
            given = numbers("what the policy gives", answer) - first_number(self.actions)
            return action_numbers(given, int(self.actions.n), len(states)), None
        return self._drawn(rng, answer)

    def _drawn(self, rng: np.random.Generator, answer: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(actions drawn from probabilities, the probabilities of these)."""
        shares = check_distributions(numbers("what the policy gives", answer), "the policy")
        if shares.shape[1] != self.actions.n:
            raise checks.InputError(
                f"the policy gives probabilities of {shares.shape[1]} actions, but the environment has {self.actions.n}"
            )
        summed = np.cumsum(shares, axis=1)
        # Up to the sum itself, which may miss 1 by rounding: what is missing belongs to no action.
        actions = np.sum(summed <= rng.uniform(size=(len(shares), 1)) * summed[:, -1:], axis=1)
        return actions, shares[np.arange(len(shares)), actions]

    def _vectors(self, answer: np.ndarray) -> np.ndarray:
        """Actions (n, a) of a Box, as precise as the environment takes them."""
        given = numbers("what the policy gives", answer)
        if not np.isfinite(given).all():
            raise checks.InputError("the policy must give finite actions, but gave NaN or infinity")
        return given.reshape(len(given), *self.actions.shape).astype(self.actions.dtype)

    def _answer(self, states: np.ndarray) -> np.ndarray:
        """What the policy gives, with a row for each state."""
        if not self.one_by_one:
            return np.asarray(_without_memory(self.function(states)))
        return np.stack([self._single(state) for state in states])

    def _single(self, state: np.ndarray) -> np.ndarray:
        """What the policy gives for one state, as the environment shows it: a number where states are numbers."""
        space = self.observations
        seen = int(state[0]) if is_discrete(space) else state.astype(getattr(space, "dtype", None) or float)
        answer = np.asarray(_without_memory(self.function(seen)))
        return answer.reshape(()) if self.discrete and answer.size == 1 else answer

    def _takes_many(self, states: np.ndarray) -> bool:
        """Whether the policy answers for many states at a time; refused where it does not for one either."""
        # As many as nothing else has, lest what is given for one state look like one number for each.
        others = {1, states.shape[1], int(self.actions.n if self.discrete else self.actions.shape[0])}
        rows = next(number for number in range(2, 6) if number not in others)
        trial = states[np.arange(rows) % len(states)]
        try:
            found = np.asarray(_without_memory(self.function(trial)))
        except Exception as error:  # a policy on single states may fail in any way when it is given many
            many = f"failed ({reason(error)})"
        else:
            if self._fits(found.shape, rows):
                return True
            many = f"gave shape {found.shape}"
        try:
            shape = self._single(trial[0]).shape
        except Exception as error:
            raise checks.InputError(
                f"the policy must give {self._forms()}, but {many} for states of shape {trial.shape} and failed "
                f"({reason(error)}) for one of shape {trial[0].shape}"
            ) from error
        if not self._fits((1, *shape), 1):
            raise checks.InputError(
                f"the policy must give {self._forms()}, but {many} for states of shape {trial.shape} and gave shape "
                f"{shape} for one of shape {trial[0].shape}"
            )
        return False

    def _fits(self, shape: tuple[int, ...], rows: int) -> bool:
        """Whether an answer of this shape has what is needed for so many states."""
        if not self.discrete:
            size = self.actions.shape[0]
            return shape == (rows, size) or (size == 1 and shape == (rows,))
        return len(shape) in (1, 2) and shape[0] == rows

    def _forms(self) -> str:
        return FORMS if self.discrete else VECTOR_FORMS


def is_discrete(space: Any) -> bool:
    """Whether the space is gymnasium's Discrete, told by its name: gymnasium may not be there."""
    return type(space).__name__ == "Discrete"


def first_number(space: Any) -> int:
    """The environment's number of the first of its Discrete actions, 0 for almost all."""
    return int(getattr(space, "start", 0))


def _actions(drawn: Any, rows: int) -> np.ndarray:
    found = numbers("what the policy gives", drawn)
    if found.ndim not in (1, 2) or len(found) != rows:
        raise checks.InputError(f"a sampled policy must give one action a state, ({rows}, a), but gave {found.shape}")
    if not np.isfinite(found).all():
        raise checks.InputError("a sampled policy must give finite actions, but gave NaN or infinity")
    return found[:, None] if found.ndim == 1 else found


def _check_acts(policy: Any) -> None:
    if not callable(policy):
        way_out = "; give its method predict" if hasattr(policy, "predict") else ""
        raise checks.InputError(f"the policy must be a function that gives {FORMS}, not {policy!r}{way_out}")


def _without_memory(answer: Any) -> Any:
    """The action of (action, None), as stable-baselines' predict gives it."""
    paired = isinstance(answer, tuple) and len(answer) == 2 and (answer[1] is None or isinstance(answer[1], dict))
    return answer[0] if paired else answer
