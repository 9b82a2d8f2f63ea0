"""Actions from a policy, however it wants to be asked: for many states or for one, for probabilities or for actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.data.policies import action_numbers, check_distributions, numbers, state_rows

Policy = Callable[[Any], Any]
FORMS = "probabilities (n, A) or actions (n,) for states (n, d), or one action for one state (d,)"
VECTOR_FORMS = "actions (n, a) for states (n, d), or one action (a,) for one state (d,)"


class Chooser:
    """Draws an action for each state from a policy on the environment's actions.

    How the policy wants to be asked is found out once, by a few states that are not played: many at a time if what
    it gives has a row for each of them, else one at a time.
    """

    def __init__(self, policy: Policy, states: np.ndarray, *, actions: Any, observations: Any = None) -> None:
        _check_callable(policy)
        self.policy, self.actions, self.observations = policy, actions, observations
        self.discrete = is_discrete(actions)
        self.one_by_one = not self._takes_many(state_rows(states))

    def __call__(self, rng: np.random.Generator, states: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
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
            return np.asarray(_without_memory(self.policy(states)))
        return np.stack([self._single(state) for state in states])

    def _single(self, state: np.ndarray) -> np.ndarray:
        """What the policy gives for one state, as the environment shows it: a number where states are numbers."""
        space = self.observations
        seen = int(state[0]) if is_discrete(space) else state.astype(getattr(space, "dtype", None) or float)
        answer = np.asarray(_without_memory(self.policy(seen)))
        return answer.reshape(()) if self.discrete and answer.size == 1 else answer

    def _takes_many(self, states: np.ndarray) -> bool:
        """Whether the policy answers for many states at a time; refused where it does not for one either."""
        # As many as nothing else has, lest what is given for one state look like one number for each.
        others = {1, states.shape[1], int(self.actions.n if self.discrete else self.actions.shape[0])}
        rows = next(number for number in range(2, 6) if number not in others)
        trial = states[np.arange(rows) % len(states)]
        try:
            found = np.asarray(_without_memory(self.policy(trial)))
        except Exception as error:  # a policy on single states may fail in any way when it is given many
            many = f"failed ({_reason(error)})"
        else:
            if self._fits(found.shape, rows):
                return True
            many = f"gave shape {found.shape}"
        try:
            shape = self._single(trial[0]).shape
        except Exception as error:
            raise checks.InputError(
                f"the policy must give {self._forms()}, but {many} for states of shape {trial.shape} and failed "
                f"({_reason(error)}) for one of shape {trial[0].shape}"
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


def check_actions(space: Any) -> None:
    """Raise unless the actions are numbered, or vectors of numbers."""
    vectors = type(space).__name__ == "Box" and len(space.shape) == 1
    if not (is_discrete(space) or vectors):
        raise checks.InputError(
            f"the environment must be gymnasium's, with actions Discrete or a Box of vectors, not {space!r}; "
            "wrap it to make them so"
        )


def _without_memory(answer: Any) -> Any:
    """The action of (action, None), as stable-baselines' predict gives it."""
    paired = isinstance(answer, tuple) and len(answer) == 2 and (answer[1] is None or isinstance(answer[1], dict))
    return answer[0] if paired else answer


def _reason(error: Exception) -> str:
    first = str(error).strip().splitlines()[:1]
    return ": ".join([type(error).__name__, *first])


def _check_callable(policy: Any) -> None:
    if not callable(policy):
        way_out = "; give its method predict" if hasattr(policy, "predict") else ""
        raise checks.InputError(f"the policy must be a function that gives {FORMS}, not {policy!r}{way_out}")
