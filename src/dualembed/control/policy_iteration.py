"""Policy iteration: action values of the present policy by the saddle, then a greedier policy, and again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dualembed import checks
from dualembed.data import policies
from dualembed.data.policies import state_rows
from dualembed.data.trajectories import check_discount
from dualembed.kernels import Categorical, Columns, Gaussian
from dualembed.problems import ActionValue
from dualembed.saddle import Saddle
from dualembed.solvers.base import EarlyStopWarning, Result, Solver, solve
from dualembed.solvers.closed_form import ClosedForm
from dualembed.sources import Dataset
from dualembed.spaces.base import FunctionSpace
from dualembed.spaces.nystrom import Nystrom

Table = dict[str, Any]

OSCILLATES = 0.1  # of the next states, in which a policy that settles does not change for ever
FEWEST_ROUNDS = 4  # of which all must change the policy by as much before it is said to go back and forth


class EpsilonGreedy(eqx.Module):
    """π(a|s) = ε/A + (1 - ε) (a is best under Q), ties shared; with no Q, every action alike.

    A policy like any other: states (n, d) -> probabilities (n, A).

    >>> EpsilonGreedy(lambda sa: sa[:, 1], 2, 0.5)([[0.0]]).tolist()
    [[0.25, 0.75]]
    """

    function: Callable[[np.ndarray], Any] | None
    actions: int = eqx.field(static=True)
    epsilon: float = 0.0

    def __check_init__(self) -> None:
        checks.count("actions", self.actions, at_least=2)
        check_epsilon(self.epsilon)

    def values(self, states: Any) -> np.ndarray:
        """Q(s, a) for every action, (n, A), refused unless finite."""
        rows = state_rows(states)
        if self.function is None:
            return np.zeros((len(rows), self.actions))
        pairs = np.concatenate(
            [np.repeat(rows, self.actions, axis=0), np.tile(np.arange(self.actions), len(rows))[:, None]], axis=1
        )
        found = np.asarray(self.function(pairs), dtype=np.float64)
        if found.shape != (len(pairs),) or not np.all(np.isfinite(found)):
            raise checks.InputError(
                f"Q must give one finite value for each of {len(pairs)} pairs (s, a), but gave shape {found.shape} "
                f"with {int(np.sum(~np.isfinite(found)))} NaN or infinite value(s)"
            )
        return found.reshape(-1, self.actions)

    def __call__(self, states: Any) -> np.ndarray:
        """Probabilities (n, A)."""
        values = self.values(states)
        best = values >= values.max(axis=1, keepdims=True)
        return self.epsilon / self.actions + (1 - self.epsilon) * best / best.sum(axis=1, keepdims=True)


def action_space(states: Any, *, size: int = 300, bandwidth: float = 2.0, level: float = 10.0) -> Nystrom:
    """A space for Q on (s, a): one function of s for each action, and a constant that all actions share.

    The kernel is Gaussian in s with `bandwidth` standard deviations of the states, times equality of actions, plus
    `level`, the prior variance of the constant; with level 0 Q is 0 far from the data, which is optimistic where
    rewards are negative and so invites exploration. `size` landmarks carry it.
    """
    rows = state_rows(states)
    spread = rows.std(axis=0)
    columns = tuple(range(rows.shape[1]))
    on_states = Columns(Gaussian(bandwidth * np.where(spread > 0, spread, 1.0)), columns)
    kernel = on_states * Columns(Categorical(), (rows.shape[1],))
    if level > 0:  # a Gaussian so wide that it is constant on any data
        kernel = kernel + level * Columns(Gaussian(1e4 * np.where(spread > 0, spread, 1.0)), columns)
    return Nystrom(kernel, size)


def check_epsilon(epsilon: Any) -> None:
    """Raise unless ε is a probability."""
    checks.not_negative("epsilon", epsilon)
    checks.single("epsilon", epsilon)
    if epsilon > 1:
        raise checks.InputError(f"epsilon must not be above 1, not {epsilon}; it is a probability")


class Round(eqx.Module):
    """One round: the fitted Q, and in how many transitions its policy at s' differs from the one it evaluated.

    `value` is that of the evaluated policy by this Q, on average over the states of the transitions.
    """

    result: Result
    changed: float
    value: float = float("nan")


class PolicyIteration(eqx.Module):
    """Rounds of Q evaluation (the saddle of `ActionValue`) and ε-greedy improvement, on given transitions.

    Each round fits the Q of the policy that is ε-greedy under the last Q, by expected SARSA with context (s, a): any
    policy may have collected the data. It stops when the policy changes in less than `tolerance` of the next states.
    Points are (s, a) side by side, a numbered from 0; by default both spaces are `action_space`s of the transitions.
    A long horizon is hard to learn from few transitions: try a discount such as 0.95 first.
    """

    actions: int = eqx.field(static=True)
    discount: float = 0.95
    primal: FunctionSpace | None = eqx.field(default=None, kw_only=True)
    dual: FunctionSpace | None = eqx.field(default=None, kw_only=True)
    epsilon: float = eqx.field(default=0.0, kw_only=True)
    primal_penalty: float | None = eqx.field(default=1e-6, kw_only=True)
    dual_penalty: float | None = eqx.field(default=1e-6, kw_only=True)
    solver: Solver = eqx.field(default_factory=ClosedForm, kw_only=True)
    rounds: int = eqx.field(default=20, static=True, kw_only=True)
    tolerance: float = eqx.field(default=0.005, kw_only=True)

    def __check_init__(self) -> None:
        check_discount(self.discount)
        checks.count("actions", self.actions, at_least=2)
        checks.count("rounds", self.rounds)
        checks.not_negative("tolerance", self.tolerance)
        check_epsilon(self.epsilon)
        checks.instance("solver", self.solver, Solver, "such as solvers.ClosedForm()")

    def fit(
        self, key: jax.Array | int, transitions: Table, *, start: EpsilonGreedy | None = None
    ) -> tuple[EpsilonGreedy, list[Round]]:
        """(the policy found, what each round found), from columns state, action, reward, next_state, terminated.

        `start` is the policy to improve on; by default every action alike. The policy is the last one. Where all
        of the last rounds changed it in a tenth of the states or more, it goes back and forth: there is then an
        `EarlyStopWarning`, and it is the one with the highest value of all (one more round tells that of the last).
        """
        key = checks.as_key(key)
        policy = EpsilonGreedy(None, self.actions) if start is None else start
        checks.instance("start", policy, EpsilonGreedy, "such as control.EpsilonGreedy(q, actions)")
        checks.instance("transitions", transitions, dict, "give a dictionary of columns; of a Dataset, its table")
        table = {name: transitions[name] for name in self._columns(transitions)}
        policies_so_far, history = [policy], []
        for _ in range(self.rounds):
            history.append(self._round(key, table, policies_so_far[-1]))
            policies_so_far.append(EpsilonGreedy(history[-1].result.primal, self.actions, self.epsilon))
            if history[-1].changed < self.tolerance:
                return policies_so_far[-1], history
        if len(history) < FEWEST_ROUNDS or min(each.changed for each in history[-FEWEST_ROUNDS:]) < OSCILLATES:
            return policies_so_far[-1], history
        last = self._round(key, table, policies_so_far[-1])
        best = int(np.argmax([each.value for each in (*history, last)]))
        warnings.warn(
            f"the policy still changes in {history[-1].changed:.0%} of the next states after {self.rounds} rounds; the "
            f"one that was evaluated in round {best + 1} has the highest value and is returned. More transitions, a "
            "lower discount or a larger penalty may settle it",
            EarlyStopWarning,
            stacklevel=2,
        )
        return policies_so_far[best], history

    def _round(self, key: jax.Array, table: Table, policy: EpsilonGreedy) -> Round:
        """The evaluation of a policy, and by how much the policy that is greedy under it differs."""
        result = self.evaluate(key, table, policy)
        greedy = EpsilonGreedy(result.primal, self.actions, self.epsilon)
        changed = np.any(greedy(table["next_state"]) != policy(table["next_state"]), axis=1)
        value = np.sum(policy(table["state"]) * greedy.values(table["state"]), axis=1)
        return Round(result, float(np.mean(changed)), float(np.mean(value)))

    def evaluate(self, key: jax.Array | int, transitions: Table, policy: policies.PolicyFunction) -> Result:
        """The policy's Q, from transitions of any policy."""
        columns = {**transitions, **policies.expected_actions(policy, transitions["next_state"])}
        problem = ActionValue(Dataset(**columns), self.discount)
        primal, dual = (
            action_space(transitions["state"]) if space is None else space for space in (self.primal, self.dual)
        )
        saddle = Saddle(problem, primal, dual, primal_penalty=self.primal_penalty, dual_penalty=self.dual_penalty)
        return solve(key, saddle, self.solver)

    def _columns(self, transitions: Table) -> list[str]:
        needed = ["state", "action", "reward", "next_state"]
        missing = [name for name in needed if name not in transitions]
        if missing:
            raise checks.InputError(f"policy iteration needs the columns {', '.join(needed)}; {missing[0]} is missing")
        policies.action_numbers(transitions["action"], self.actions, len(transitions["action"]))
        return [*needed, *(["terminated"] if "terminated" in transitions else [])]
