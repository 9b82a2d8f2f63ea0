"""Policy iteration by the saddle, on given transitions or in an environment, and Q-learning.

A round fits the action values of the present policy and goes on with a policy that is greedier under them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from dualembed import checks
from dualembed.arrays import Floats
from dualembed.data import policies
from dualembed.data.environments import collect
from dualembed.data.probabilities import state_rows
from dualembed.data.trajectories import check_discount
from dualembed.kernels import Categorical, Columns, Gaussian
from dualembed.problems import ActionValue, Terms
from dualembed.progress import track
from dualembed.saddle import Saddle
from dualembed.solvers.base import EarlyStopWarning, Probe, Result, Solver, solve
from dualembed.solvers.closed_form import ClosedForm
from dualembed.solvers.stochastic import Seen, StochasticSolver
from dualembed.sources import Dataset
from dualembed.spaces.base import FunctionSpace
from dualembed.spaces.nystrom import Nystrom

if TYPE_CHECKING:
    import gymnasium

Table = Mapping[str, ArrayLike]

OSCILLATES = 0.1  # of the next states, in which a policy that settles does not change for ever
FEWEST_ROUNDS = 4  # of which all must change the policy by as much before it is said to go back and forth
COPIES = 4  # environments played side by side; more would cut episodes that a good policy makes long


class EpsilonGreedy(eqx.Module):
    """The ε-greedy policy of an action-value function.

        π(a|s) = ε/A + (1 - ε) (a is best under Q)

    Ties are shared. It is a policy like any other: from states (n, d) to probabilities (n, A).

    Parameters
    ----------
    function : callable or None
        Q, from pairs (s, a) (n, d + 1) to values (n,); None makes every action alike.
    actions : int
        Number A of actions, numbered from 0.
    epsilon : float, default=0.0
        Probability of an action at random.

    Examples
    --------
    >>> EpsilonGreedy(lambda sa: sa[:, 1], 2, 0.5)([[0.0]]).tolist()
    [[0.25, 0.75]]
    """

    function: Callable[[Floats], ArrayLike] | None
    actions: int = eqx.field(static=True)
    epsilon: float = 0.0

    def __check_init__(self) -> None:
        checks.count("actions", self.actions, at_least=2)
        check_epsilon(self.epsilon)

    def values(self, states: ArrayLike) -> Floats:
        """Evaluate Q(s, a) for every action.

        Parameters
        ----------
        states : array-like of shape (n,) or (n, d)
            States.

        Returns
        -------
        ndarray of shape (n, A)
            The values.

        Raises
        ------
        InputError
            If a value is not finite.
        """
        rows = state_rows(states)
        if self.function is None:
            return np.zeros((len(rows), self.actions))
        pairs = np.concatenate(
            [np.repeat(rows, self.actions, axis=0), np.tile(np.arange(self.actions), len(rows))[:, None]], axis=1
        )
        values = np.asarray(self.function(pairs), dtype=np.float64)
        if values.shape != (len(pairs),) or not np.all(np.isfinite(values)):
            raise checks.InputError(
                f"Q must give one finite value for each of {len(pairs)} pairs (s, a), but gave shape {values.shape} "
                f"with {int(np.sum(~np.isfinite(values)))} NaN or infinite value(s)"
            )
        return values.reshape(-1, self.actions)

    def __call__(self, states: ArrayLike) -> Floats:
        """Evaluate the probabilities of all actions.

        Parameters
        ----------
        states : array-like of shape (n,) or (n, d)
            States.

        Returns
        -------
        ndarray of shape (n, A)
            The probabilities.
        """
        values = self.values(states)
        best = values >= values.max(axis=1, keepdims=True)
        return self.epsilon / self.actions + (1 - self.epsilon) * best / best.sum(axis=1, keepdims=True)


def action_space(states: ArrayLike, *, size: int = 300, bandwidth: float = 2.0, level: float = 10.0) -> Nystrom:
    """Make a space for Q on (s, a): one function of s for each action, and a constant that all actions share.

    The kernel is Gaussian in s, times equality of actions, plus a constant.

    Parameters
    ----------
    states : array-like of shape (n,) or (n, d)
        States, whose standard deviations are the unit of `bandwidth`.
    size : int, default=300
        Landmarks.
    bandwidth : float, default=2.0
        Bandwidth of the Gaussian kernel, in standard deviations of the states.
    level : float, default=10.0
        Prior variance of the constant. With 0, Q is 0 far from the data, which is optimistic where rewards are negative
        and so invites exploration.

    Returns
    -------
    Nystrom
        The space.
    """
    rows = state_rows(states)
    spread = rows.std(axis=0)
    columns = tuple(range(rows.shape[1]))
    on_states = Columns(Gaussian(bandwidth * np.where(spread > 0, spread, 1.0)), columns)
    kernel = on_states * Columns(Categorical(), (rows.shape[1],))
    if level > 0:  # a Gaussian so wide that it is constant on any data
        kernel = kernel + level * Columns(Gaussian(1e4 * np.where(spread > 0, spread, 1.0)), columns)
    return Nystrom(kernel, size)


def check_epsilon(epsilon: float) -> None:
    """Raise unless ε is a probability."""
    checks.not_negative("epsilon", epsilon)
    checks.single("epsilon", epsilon)
    if epsilon > 1:
        raise checks.InputError(f"epsilon must not be above 1, not {epsilon}; it is a probability")


class Improvement(eqx.Module):
    """One round of policy iteration.

    Parameters
    ----------
    result : Result
        The fitted Q as `primal`.
    changed : float
        Share of the transitions in which the policy that is greedy under Q at s' differs from the one that was
        evaluated.
    value : float, default=nan
        Value of the evaluated policy by this Q, on average over the states of the transitions.
    """

    result: Result
    changed: float
    value: float = float("nan")


class PolicyIteration(eqx.Module):
    """Policy iteration on given transitions: rounds of Q evaluation and ε-greedy improvement.

    Each round fits the Q of the policy that is ε-greedy under the last Q, as the saddle of an `ActionValue`. This is
    expected SARSA with context (s, a), so that any policy may have collected the data. It stops when the policy changes
    in less than `tolerance` of the next states. Points are (s, a) side by side, a numbered from 0. A long horizon is
    hard to learn from few transitions: try a discount such as 0.95 first.

    Parameters
    ----------
    actions : int
        Number of actions.
    discount : float, default=0.95
        Discount factor.
    primal : FunctionSpace, optional
        Space of Q; by default the `action_space` of the transitions.
    dual : FunctionSpace, optional
        Space of the dual; by default the same.
    epsilon : float, default=0.0
        Probability of an action at random in the policies that are evaluated.
    primal_penalty : float or None, default=1e-6
        Penalty of Q.
    dual_penalty : float or None, default=1e-6
        Penalty of the dual.
    solver : Solver, default=ClosedForm()
        Solver of each round.
    rounds : int, default=20
        Rounds at most.
    tolerance : float, default=0.005
        Share of the next states below which a change of the policy ends the iteration.
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
    ) -> tuple[EpsilonGreedy, list[Improvement]]:
        """Improve a policy on given transitions.

        Parameters
        ----------
        key : jax.Array or int
            Random key or seed.
        transitions : dict
            Columns state, action, reward, next_state and, optionally, terminated.
        start : EpsilonGreedy, optional
            The policy to improve on; by default every action alike.

        Returns
        -------
        policy : EpsilonGreedy
            The last policy. Where all of the last rounds changed it in a tenth of the states or more, it goes back and
            forth: it is then the one with the highest value of all (one more round tells that of the last).
        history : list of Improvement
            What each round found.

        Warns
        -----
        EarlyStopWarning
            If the policy goes back and forth.
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

    def _round(self, key: jax.Array, table: Table, policy: EpsilonGreedy) -> Improvement:
        """The evaluation of a policy, and by how much the policy that is greedy under it differs."""
        result = self.evaluate(key, table, policy)
        greedy = EpsilonGreedy(result.primal, self.actions, self.epsilon)
        changed = np.any(greedy(table["next_state"]) != policy(table["next_state"]), axis=1)
        value = np.sum(policy(table["state"]) * greedy.values(table["state"]), axis=1)
        return Improvement(result, float(np.mean(changed)), float(np.mean(value)))

    def evaluate(self, key: jax.Array | int, transitions: Table, policy: policies.PolicyFunction) -> Result:
        """Evaluate a policy from transitions of any other.

        Parameters
        ----------
        key : jax.Array or int
            Random key or seed.
        transitions : dict
            Columns state, action, reward, next_state and, optionally, terminated.
        policy : callable
            From states (n, d) to probabilities (n, A).

        Returns
        -------
        Result
            The policy's Q as `primal`.
        """
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
        policies.action_numbers(transitions["action"], self.actions, np.shape(transitions["action"])[0])
        return [*needed, *(["terminated"] if "terminated" in transitions else [])]


class Stage(eqx.Module):
    """A policy that was played in an environment.

    Parameters
    ----------
    policy : EpsilonGreedy
        The policy.
    transitions : int
        Number of transitions when it was done.
    mean_return : float
        Its mean return.
    """

    policy: EpsilonGreedy
    transitions: int
    mean_return: float


class Mean(eqx.Module):
    """x -> the mean of several functions at x."""

    functions: tuple[Callable[[Floats], ArrayLike], ...]

    def __call__(self, xs: Floats) -> Floats:
        return np.mean([np.asarray(function(xs)) for function in self.functions], axis=0)


def improve(
    key: jax.Array | int,
    env: gymnasium.Env[Any, Any],
    iteration: PolicyIteration,
    *,
    transitions: int = 1000,
    stages: int = 12,
    average: int = 5,
    epsilon: float = 0.2,
    window: int = 30_000,
    seed: int = 0,
) -> tuple[EpsilonGreedy, list[Stage]]:
    """Improve a policy by playing a gymnasium environment with discrete actions.

    Each stage collects transitions with the ε-greedy policy of the last Q (the first at random) and then iterates on
    the last `window` transitions. The result is greedy under the mean Q of the `average` stages whose own episodes had
    the highest returns: the errors of one Q decide between actions of nearly equal value, and a mean has fewer of them.

    Parameters
    ----------
    key : jax.Array or int
        Random key or seed of the fits.
    env : gymnasium.Env
        The environment.
    iteration : PolicyIteration
        The policy iteration of each stage.
    transitions : int, default=1000
        Transitions collected in a stage.
    stages : int, default=12
        Number of stages, at least 2.
    average : int, default=5
        Stages whose Q are averaged.
    epsilon : float, default=0.2
        Probability of an action at random while playing.
    window : int, default=30_000
        Transitions that are kept, the latest.
    seed : int, default=0
        Seeds the environment.

    Returns
    -------
    policy : EpsilonGreedy
        The greedy policy.
    stages : list of Stage
        Every stage.
    """
    counts = {"transitions": transitions, "stages": stages, "average": average, "window": window}
    for name, value in counts.items():
        checks.count(name, value, at_least=2 if name == "stages" else 1)
    check_epsilon(epsilon)
    key = checks.as_key(key)
    policy = EpsilonGreedy(None, iteration.actions)
    table: dict[str, Floats] = {}
    played: list[Stage] = []
    with track(stages, "Policy iteration") as bar:
        for number in range(stages):
            fresh = collect(env, policy, transitions, seed=seed + number, copies=COPIES)
            played.append(Stage(policy, (number + 1) * transitions, _mean_return(fresh)))
            joined = {name: [*([table[name]] if table else []), fresh[name]] for name in fresh}
            table = {name: np.concatenate(parts)[-window:] for name, parts in joined.items()}
            if number + 1 < stages:
                greedy, _ = iteration.fit(jax.random.fold_in(key, number), table, start=policy)
                policy = EpsilonGreedy(greedy.function, iteration.actions, epsilon)
            bar.advance(to=number + 1)
    best = sorted(played[1:], key=lambda stage: -stage.mean_return)[:average]
    functions = tuple(stage.policy.function for stage in best if stage.policy.function is not None)
    return EpsilonGreedy(Mean(functions), iteration.actions), played


def _mean_return(columns: dict[str, Floats]) -> float:
    """The reward for each episode that came to an end; all of it if none did.

    A plain mean over episodes that ended would count the long ones, which are often cut by the budget, too little.
    """
    ended = int(np.sum((columns["terminated"] + columns["truncated"]) > 0))
    return float(np.sum(columns["reward"]) / max(ended, 1))


class ConvexityWarning(UserWarning):
    """The problem is not convex, so that no theorem says the iterates converge."""


@final
class QLearning(StochasticSolver):
    """Q-learning: Embedding-SGD on Q(s,a) - r - discount max_j Q(s',a'_j).

    It is for an `ActionValue` whose rows have every next action. The maximum is not affine in Q: the weights follow the
    current Q through its argmax, the problem is no longer convex, and nothing guarantees convergence. It often works
    where the dual moves several times faster than Q, and can stall where both move alike. `PolicyIteration` solves an
    affine problem in every round and should be tried first. The next actions' probabilities
    (`data.policies.expected_actions`) say only which actions there are: those with probability 0 are left out.

    Parameters
    ----------
    steps : int, default=2000
        Number of steps.
    batch : int, default=50
        Samples per step.
    primal_step : Schedule, default=OffsetSqrt(1.0, 1.0)
        Step sizes of Q.
    dual_step : Schedule, optional
        Step sizes of the dual; by default those of Q.
    """

    title: ClassVar[str] = "Q-learning"

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
