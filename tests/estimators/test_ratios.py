"""Density ratios of small finite processes, whose visits linear algebra gives."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from dualembed import plot
from dualembed.checks import InputError
from dualembed.estimators import ActionValueEvaluator, PolicyEvaluator

STATES, DISCOUNT, STEPS, EPISODES = 6, 0.8, 12, 250
RIGHT = np.stack([np.full(STATES, 0.4), np.full(STATES, 0.6)], axis=1)  # of the log: left and right
BOLD = np.stack([np.full(STATES, 0.15), np.full(STATES, 0.85)], axis=1)  # of the policy in question


class Log(NamedTuple):
    """Episodes of a walk on a ring whose steps slip back with probability 0.2, from starts (S,) of some chance."""

    rows: dict[str, Any]
    starts: np.ndarray


def moves() -> np.ndarray:
    """P(s'|s,a), (S, 2, S)."""
    found = np.zeros((STATES, 2, STATES))
    for state in range(STATES):
        for action, step in enumerate((-1, 1)):
            found[state, action, (state + step) % STATES] += 0.8
            found[state, action, state] += 0.2
    return found


def walk(starts: np.ndarray, seed: int = 0) -> Log:
    rng = np.random.default_rng(seed)
    names: dict[str, list[np.ndarray]] = {"states": [], "actions": [], "next_states": []}
    state = rng.choice(STATES, EPISODES, p=starts)
    for _ in range(STEPS):
        action = (rng.random(EPISODES) < RIGHT[state, 1]).astype(int)
        following = np.where(rng.random(EPISODES) < 0.8, (state + 2 * action - 1) % STATES, state)
        for name, column in zip(names, (state, action, following), strict=True):
            names[name].append(column)
        state = following
    rows: dict[str, Any] = {name: np.concatenate(columns) for name, columns in names.items()}
    rows |= {"rewards": np.cos(rows["states"]), "episodes": np.tile(np.arange(EPISODES), STEPS)}
    return Log(rows, starts)


def exact(starts: np.ndarray, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(discounted visits of the policy, share of the log's rows), each (S,)."""
    own, logged = (np.einsum("sa,sat->st", each, moves()) for each in (policy, RIGHT))
    visits = (1 - DISCOUNT) * np.linalg.solve(np.eye(STATES) - DISCOUNT * own.T, starts)
    share = np.mean([starts @ np.linalg.matrix_power(logged, step) for step in range(STEPS)], axis=0)
    return visits, share


def close(found: np.ndarray, truth: np.ndarray, share: np.ndarray) -> None:
    """Raise unless ratios are close, weighted by how often the log is there."""
    error = np.sqrt(share @ (found - truth) ** 2)
    correlation = np.corrcoef(found, truth)[0, 1]
    print(f"weighted error {error:.3f} of {np.sqrt(share @ (truth - 1) ** 2):.3f}, correlation {correlation:.3f}")
    assert correlation > 0.9
    assert error < 0.15
    assert share @ found == pytest.approx(1.0, abs=0.05)


UNEVEN = np.array([0.7, 0.3, 0.0, 0.0, 0.0, 0.0])
EVERY = np.arange(STATES)


def coded(states: np.ndarray) -> np.ndarray:
    """An indicator for each state, which leaves it to the data how values differ."""
    return np.eye(STATES)[states]


@pytest.fixture(scope="module")
def log() -> Log:
    return walk(UNEVEN)


@pytest.fixture(scope="module")
def model(log: Log) -> PolicyEvaluator:
    rows = log.rows
    states, following = coded(rows["states"]), coded(rows["next_states"])
    return PolicyEvaluator(DISCOUNT).fit(states, rows["rewards"], following, episodes=rows["episodes"])


def test_on_policy_it_is_early_visits_against_all(model: PolicyEvaluator) -> None:
    visits, share = exact(UNEVEN, RIGHT)
    close(model.density_ratio(coded(EVERY)), visits / share, share)


def test_from_the_stationary_distribution_on_it_is_one() -> None:
    rows = walk(np.full(STATES, 1 / STATES)).rows  # a ring's walk is at home everywhere
    states, following = coded(rows["states"]), coded(rows["next_states"])
    model = PolicyEvaluator(DISCOUNT).fit(states, rows["rewards"], following, episodes=rows["episodes"])
    found = model.density_ratio(coded(EVERY))
    print(f"largest distance from 1: {np.abs(found - 1).max():.3f}")
    assert np.abs(found - 1).max() < 0.2
    assert model.value().effective > 0.95


def test_of_another_policy_it_is_that_of_states_and_actions(log: Log) -> None:
    rows = log.rows
    evaluator = ActionValueEvaluator(DISCOUNT, lambda states: BOLD[np.argmax(states, axis=1)])
    model = evaluator.fit(**{**rows, "states": coded(rows["states"]), "next_states": coded(rows["next_states"])})
    visits, share = exact(UNEVEN, BOLD)
    truth, logged = (visits[:, None] * BOLD).ravel(), (share[:, None] * RIGHT).ravel()
    found = model.density_ratio(coded(np.repeat(EVERY, 2)), np.tile([0, 1], STATES))
    close(found, truth / logged, logged)
    effective = 1 / (logged @ (truth / logged) ** 2)
    assert model.value().effective == pytest.approx(effective, abs=0.1)
    axes = plot.density_ratio(model, coded(rows["states"]), rows["actions"])
    assert f"worth {100 * (model.value().effective or 0):.0f} %" in axes.get_title()


def test_importance_weights_of_actions_leave_the_ratio_of_states(log: Log) -> None:
    rows = log.rows
    weights = (BOLD / RIGHT)[rows["states"], rows["actions"]]
    states, following = coded(rows["states"]), coded(rows["next_states"])
    model = PolicyEvaluator(DISCOUNT).fit(
        states, rows["rewards"], following, importance_weights=weights, episodes=rows["episodes"]
    )
    visits, share = exact(UNEVEN, BOLD)
    close(model.density_ratio(coded(EVERY)), visits / share, share)


def test_fits_that_cannot_give_it_say_so(log: Log) -> None:
    rows = log.rows
    given = coded(rows["states"]), rows["rewards"], coded(rows["next_states"])
    with pytest.raises(InputError, match="which this fit does not know; fit it with episodes"):
        PolicyEvaluator(DISCOUNT).fit(*given).density_ratio(coded(EVERY))
    given_spaces = PolicyEvaluator(DISCOUNT, primal="linear", dual="linear").fit(*given, episodes=rows["episodes"])
    with pytest.raises(InputError, match="default fits alone"):
        given_spaces.density_ratio(coded(EVERY))
