"""Policy evaluation and action values on random finite MDPs, whose answers linear algebra gives.

Probabilities are multiples of 1/k, so that a data set that lists every outcome as often as it deserves has the exact
statistics.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest

import dualembed as de
from dualembed.control import ConvexityWarning, QLearning
from dualembed.data import policies, trajectories
from dualembed.problems import ActionValue, LambdaReturn, PolicyEvaluation
from dualembed.solvers import ClosedForm, EmbeddingSGD, SparseForm
from dualembed.sources import Dataset
from dualembed.spaces import Table

SEEDS = range(20)
STATES, ACTIONS, OUTCOMES, DRAWS = 5, 3, 4, 4
EXACT = ClosedForm(folds=1)


class MDP(NamedTuple):
    """Transition counts (S, A, OUTCOMES) of next states, rewards (S, A, 2), policies (S, A), a discount."""

    following: np.ndarray
    rewards: np.ndarray
    behaviour: np.ndarray
    target: np.ndarray
    discount: float

    @property
    def transitions(self) -> np.ndarray:
        """P(s'|s,a), (S, A, S)."""
        return np.eye(STATES)[self.following].mean(axis=2)

    def action_values(self, policy: np.ndarray) -> np.ndarray:
        """Q of the policy, (S, A): Q = r + discount P Π Q."""
        step = np.einsum("sat,tb->satb", self.transitions, policy).reshape(STATES * ACTIONS, -1)
        reward = self.rewards.mean(axis=2).ravel()
        return np.linalg.solve(np.eye(len(step)) - self.discount * step, reward).reshape(STATES, ACTIONS)

    def values(self, policy: np.ndarray) -> np.ndarray:
        """V of the policy, (S,)."""
        return np.sum(policy * self.action_values(policy), axis=1)


def random_mdp(seed: int) -> MDP:
    rng = np.random.default_rng(seed)
    behaviour = np.stack([1 + rng.multinomial(DRAWS, np.ones(ACTIONS) / ACTIONS) for _ in range(STATES)])
    return MDP(
        rng.integers(0, STATES, (STATES, ACTIONS, OUTCOMES)),
        rng.normal(size=(STATES, ACTIONS, 2)),
        behaviour / (DRAWS + ACTIONS),
        rng.dirichlet(np.ones(ACTIONS), STATES),
        0.9,
    )


def logged(mdp: MDP) -> dict[str, np.ndarray]:
    """Every transition of the behaviour policy, as often as it deserves; rewards are random."""
    rows = []
    for s, a in np.ndindex(STATES, ACTIONS):
        for outcome, coin in np.ndindex(OUTCOMES, 2):
            row = (s, a, mdp.rewards[s, a, coin], mdp.following[s, a, outcome])
            rows += [row] * round(mdp.behaviour[s, a] * (DRAWS + ACTIONS))
    state, action, reward, next_state = np.asarray(rows, dtype=float).T
    return {"state": state, "action": action, "reward": reward, "next_state": next_state}


def policy(table: np.ndarray) -> policies.PolicyFunction:
    return lambda states: table[states[:, 0].astype(int)]


def weighted(mdp: MDP, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    ratio = policies.importance_weights(
        columns["state"], columns["action"], target=policy(mdp.target), behaviour=policy(mdp.behaviour)
    )
    return {**columns, "weight": ratio}


def values_of(problem: PolicyEvaluation, solver: de.solvers.Solver = EXACT) -> np.ndarray:
    return np.asarray(de.solve(0, de.Saddle(problem, Table(), Table()), solver).primal(np.arange(STATES)))


def action_values_of(problem: ActionValue | LambdaReturn) -> np.ndarray:
    pairs = np.array(list(itertools.product(range(STATES), range(ACTIONS))))
    return np.asarray(de.solve(0, de.Saddle(problem, Table(), Table()), EXACT).primal(pairs)).reshape(STATES, ACTIONS)


@pytest.mark.parametrize("seed", SEEDS)
def test_on_policy_value_is_exact(seed: int) -> None:
    mdp = random_mdp(seed)
    problem = PolicyEvaluation(Dataset(**logged(mdp)), mdp.discount)
    for solver in (EXACT, SparseForm()):
        np.testing.assert_allclose(values_of(problem, solver), mdp.values(mdp.behaviour), atol=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
def test_off_policy_value_is_exact_with_weights_and_wrong_without(seed: int) -> None:
    mdp = random_mdp(seed)
    columns = weighted(mdp, logged(mdp))
    exact = mdp.values(mdp.target)
    np.testing.assert_allclose(values_of(PolicyEvaluation(Dataset(**columns), mdp.discount)), exact, atol=1e-8)
    del columns["weight"]
    without = values_of(PolicyEvaluation(Dataset(**columns), mdp.discount))
    assert np.max(np.abs(without - exact)) > 1e-2


@pytest.mark.parametrize("seed", SEEDS)
def test_an_action_in_the_context_is_wrong_for_a_stochastic_policy(seed: int) -> None:
    mdp = random_mdp(seed)
    columns = weighted(mdp, logged(mdp))
    problem = PolicyEvaluation(Dataset(**columns), mdp.discount, deterministic=True)
    assert np.max(np.abs(values_of(problem) - mdp.values(mdp.target))) > 1e-2


@pytest.mark.parametrize("seed", SEEDS)
def test_an_action_in_the_context_is_exact_for_a_deterministic_policy(seed: int) -> None:
    mdp = random_mdp(seed)
    mdp = mdp._replace(target=np.eye(ACTIONS)[mdp.target.argmax(axis=1)])
    columns = weighted(mdp, logged(mdp))
    problem = PolicyEvaluation(Dataset(**columns), mdp.discount, deterministic=True)
    np.testing.assert_allclose(values_of(problem), mdp.values(mdp.target), atol=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
def test_expected_sarsa_is_exact_whoever_collected(seed: int) -> None:
    mdp = random_mdp(seed)
    columns = logged(mdp)
    columns |= policies.expected_actions(policy(mdp.target), columns["next_state"])
    found = action_values_of(ActionValue(Dataset(**columns), mdp.discount))
    np.testing.assert_allclose(found, mdp.action_values(mdp.target), atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_sarsa_is_exact_with_every_next_action(seed: int) -> None:
    mdp = random_mdp(seed)
    columns = logged(mdp)
    counts = np.round(mdp.behaviour * (DRAWS + ACTIONS)).astype(int)[columns["next_state"].astype(int)]
    rows = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    table = {name: column[rows] for name, column in columns.items()}
    table["next_action"] = np.concatenate([np.repeat(np.arange(ACTIONS), each) for each in counts]).astype(float)
    found = action_values_of(ActionValue(Dataset(**table), mdp.discount))
    np.testing.assert_allclose(found, mdp.action_values(mdp.behaviour), atol=1e-8)


def paths(mdp: MDP, length: int) -> dict[str, np.ndarray]:
    """Every path of so many steps from every (s, a), with target-policy actions from a policy of halves."""
    rows, episode = [], 0
    for start in np.ndindex(STATES, ACTIONS):
        for outcomes in itertools.product(range(OUTCOMES), repeat=length):
            for actions in itertools.product(range(2), repeat=length):
                (s, a), episode = start, episode + 1
                for outcome, following in zip(outcomes, actions, strict=True):
                    reached = mdp.following[s, a, outcome]
                    rows.append((s, a, mdp.rewards[s, a].mean(), reached, following, episode))
                    s, a = reached, following
    names = ("state", "action", "reward", "next_state", "next_action", "episode")
    return {name: np.array(column, dtype=float) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


@pytest.mark.parametrize("decay", [0.0, 0.6, 1.0])
def test_lambda_returns_are_exact_for_every_decay(decay: float) -> None:
    mdp = random_mdp(0)
    half = np.array([[0.5, 0.5, 0.0]] * STATES)
    columns = paths(mdp, 2)
    first = np.append(True, columns["episode"][1:] != columns["episode"][:-1])
    windows = trajectories.return_windows(columns, 2)
    windows = {name: column[first] for name, column in windows.items()}
    found = action_values_of(LambdaReturn(Dataset(**windows), mdp.discount, decay))
    np.testing.assert_allclose(found, mdp.action_values(half), atol=1e-8)


def test_multi_step_returns_are_exact_off_policy_too() -> None:
    mdp = random_mdp(1)
    half = np.array([[0.5, 0.5, 0.0]] * STATES)
    target = np.array([[0.8, 0.2, 0.0]] * STATES)
    columns = paths(mdp, 2)
    keep = np.isin(columns["action"], (0, 1))  # rows of the behaviour policy: it takes two actions, half each
    columns = {name: column[keep] for name, column in columns.items()}
    columns["weight"] = policies.importance_weights(
        columns["state"], columns["action"], target=policy(target), behaviour=policy(half)
    )
    table = trajectories.multi_step(columns, 2, mdp.discount)
    assert set(table["steps"]) == {1.0, 2.0}
    found = values_of(PolicyEvaluation(Dataset(**table), mdp.discount))
    np.testing.assert_allclose(found, mdp.values(target), atol=1e-8)


def test_embedding_sgd_approaches_the_exact_value_off_policy() -> None:
    mdp = random_mdp(2)._replace(discount=0.5)
    problem = PolicyEvaluation(Dataset(**weighted(mdp, logged(mdp))), mdp.discount)
    states = Table(np.arange(STATES))
    step = de.schedules.OffsetSqrt(40.0, 10.0)
    result = de.solve(0, de.Saddle(problem, states, states), EmbeddingSGD(8000, 60, step))
    exact = mdp.values(mdp.target)
    found = np.asarray(result.primal(np.arange(STATES)))
    assert np.max(np.abs(found - exact)) < 0.05 * np.max(np.abs(exact))


def test_a_terminated_transition_has_no_bootstrap_and_a_truncated_one_has() -> None:
    columns = {"state": [0.0, 1.0, 1.0], "reward": [0.0, 1.0, 1.0], "next_state": [1.0, 0.0, 0.0]}
    ended = PolicyEvaluation(Dataset(**columns, terminated=[0, 1, 1]), 0.5)
    cut = PolicyEvaluation(Dataset(**columns, terminated=[0, 0, 0]), 0.5)

    def values(problem: PolicyEvaluation) -> list[float]:
        return np.asarray(de.solve(0, de.Saddle(problem, Table(), Table()), EXACT).primal([0.0, 1.0])).tolist()

    assert values(ended) == pytest.approx([0.5, 1.0])
    assert values(cut) == pytest.approx([2 / 3, 4 / 3])


def test_q_learning_without_a_choice_of_next_actions_is_refused_as_sarsa() -> None:
    columns = {"state": [0.0, 1.0], "action": [0, 1], "reward": [0.0, 1.0], "next_state": [1.0, 0.0]}
    saddle = de.Saddle(ActionValue(Dataset(**columns, next_action=[1, 0]), 0.5), Table(), Table())
    words = r"would make it SARSA; data\.policies\.expected"
    with pytest.warns(ConvexityWarning), pytest.raises(de.InputError, match=words):
        de.solve(0, saddle, QLearning(10))


@pytest.mark.parametrize("steps", [10, 80])
def test_a_table_that_would_miss_states_of_a_short_run_is_refused(steps: int) -> None:
    """20,000 rows, 5,000 states: the run's 500 or 4,000 rows are others than those shown before it."""
    state = np.arange(20_000.0) % 5000
    problem = PolicyEvaluation(Dataset(state=state, reward=state, next_state=np.roll(state, 1)), 0.5)
    with pytest.raises(de.InputError, match=r"which may be some of many; give them: Table\(points\)"):
        de.solve(0, de.Saddle(problem, Table(), Table()), EmbeddingSGD(steps, 50))
