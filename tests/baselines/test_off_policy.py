"""Rivals that say what a policy is worth, each on a small finite process whose answer linear algebra gives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dualembed.baselines.off_policy import (
    doubly_robust,
    fitted_q,
    importance_sampling,
    lstdq,
    mean_of_returns,
    value_of,
)
from dualembed.checks import InputError

DISCOUNT, STEPS = 0.9, 3
NEXT = np.array([[[0.75, 0.25], [0.25, 0.75]], [[0.5, 0.5], [0.25, 0.75]]])  # of state, action, next state
PAID = np.array([[1.0, 0.0], [2.0, -1.0]])
LOGGED, TARGET = np.array([[0.5, 0.5], [0.25, 0.75]]), np.array([[0.25, 0.75], [0.75, 0.25]])


def paths() -> dict[str, np.ndarray]:
    """Every path of three steps from state 0 under the logged policy, as often as it is likely: the log is exact."""
    found = []
    for actions, states in itertools.product(
        itertools.product(range(2), repeat=STEPS), itertools.product(range(2), repeat=STEPS)
    ):
        here, chance, rows = 0, 1.0, []
        for action, there in zip(actions, states, strict=True):
            chance *= LOGGED[here, action] * NEXT[here, action, there]
            rows.append((here, action, there))
            here = there
        found.append((round(chance * 4**6), rows))
    episodes: list[int] = []
    every: list[tuple[int, ...]] = []
    for count, own in found:
        for _ in range(count):
            every += own
            episodes += [len(episodes) // STEPS] * STEPS
    state, action, following = np.array(every).T
    return {"state": state, "action": action, "next": following, "episode": np.array(episodes)}


@pytest.fixture(scope="module")
def log() -> dict[str, np.ndarray]:
    return paths()


def worth(policy: np.ndarray) -> float:
    """The sum of three discounted rewards from state 0."""
    share, total = np.array([1.0, 0.0]), 0.0
    for step in range(STEPS):
        total += DISCOUNT**step * float(share @ np.sum(policy * PAID, axis=1))
        share = np.einsum("s,sa,sat->t", share, policy, NEXT)
    return total


def test_the_mean_of_returns_is_the_logged_policys_value(log: Any) -> None:
    found = mean_of_returns(PAID[log["state"], log["action"]], DISCOUNT, log["episode"])
    assert found.value == pytest.approx(worth(LOGGED), rel=1e-12)


@pytest.mark.parametrize("normalised", [False, True])
def test_importance_sampling_over_all_paths_is_the_other_policys_value(log: Any, normalised: bool) -> None:
    ratios = (TARGET / LOGGED)[log["state"], log["action"]]
    rewards = PAID[log["state"], log["action"]]
    found = importance_sampling(rewards, ratios, DISCOUNT, log["episode"], self_normalise=normalised)
    assert found.value == pytest.approx(worth(TARGET), rel=1e-12)


def test_self_normalised_values_shift_with_rewards_as_the_truth_does() -> None:
    rng = np.random.default_rng(0)
    rewards, ratios, episodes = rng.normal(size=40), rng.exponential(size=40), np.arange(40) // 4
    plain, moved = (
        importance_sampling(each, ratios, DISCOUNT, episodes, self_normalise=True).value
        for each in (rewards, rewards + 10)
    )
    assert moved - plain == pytest.approx(10 * np.sum(DISCOUNT ** np.arange(4)))


def tabular(log: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(indicators of state and action, their means at next states, true Q of the endless process)."""
    now = np.eye(4)[2 * log["state"] + log["action"]]
    ahead = np.zeros((2, 4))
    for state in range(2):
        ahead[state, 2 * state : 2 * state + 2] = TARGET[state]
    moves = np.einsum("sat,tb->satb", NEXT, TARGET).reshape(4, 4)
    truth = np.linalg.solve(np.eye(4) - DISCOUNT * moves, PAID.ravel())
    return now, ahead[log["next"]], truth


@pytest.mark.parametrize("method", [lstdq, fitted_q])
def test_a_feature_for_each_pair_gives_the_exact_action_values(log: Any, method: Any) -> None:
    now, following, truth = tabular(log)
    found = method(now, following, PAID[log["state"], log["action"]], DISCOUNT)
    np.testing.assert_allclose(found, truth, rtol=1e-6)


@pytest.mark.parametrize("method", [lstdq, fitted_q])
def test_the_value_is_that_at_the_starts_and_its_error_is_by_groups_left_out(log: Any, method: Any) -> None:
    now, following, truth = tabular(log)
    rewards = PAID[log["state"], log["action"]]
    starts = np.tile(np.append(TARGET[0], [0.0, 0.0]), (int(log["episode"].max()) + 1, 1))
    groups = np.arange(len(starts)) % 10
    known = {"starts": starts, "rows": groups[log["episode"]], "start_groups": groups}
    found = value_of(method, now, following, rewards, DISCOUNT, **known)
    assert found.value == pytest.approx(float(TARGET[0] @ truth[:2]), rel=1e-6)
    assert 0 < found.stderr < 0.1 * abs(found.value)


def test_fitted_q_that_runs_away_is_no_number() -> None:
    """The two states of Tsitsiklis and Van Roy, where regressions of a line on what follows grow for ever."""
    now, following = np.array([[1.0], [2.0]]), np.array([[2.0], [2.0]])
    assert np.isnan(fitted_q(now, following, np.array([1.0, 0.0]), 0.95)).all()
    assert np.isfinite(lstdq(now, following, np.array([1.0, 0.0]), 0.95)).all()


def test_clusters_of_equal_episodes_are_worth_one_each() -> None:
    rng = np.random.default_rng(1)
    rewards = rng.normal(size=20)
    once = mean_of_returns(rewards, 1.0, np.arange(20))
    thrice = mean_of_returns(np.repeat(rewards, 3), 1.0, np.arange(60), groups=np.repeat(np.arange(20), 3))
    assert thrice.stderr == pytest.approx(once.stderr)


def test_doubly_robust_scores_are_right_if_either_part_is() -> None:
    """Over all contexts and actions at once: with a wrong model and right ratios, and the other way round."""
    context, action = np.repeat([0, 1], 2), np.tile([0, 1], 2)
    shares = LOGGED[context, action] / 2
    truth = float(np.sum(TARGET * PAID) / 2)
    right, wrong = (TARGET / LOGGED)[context, action], np.ones(4)
    for ratios, model in ((right, np.zeros((2, 2))), (wrong, PAID)):
        direct = np.sum(TARGET * model, axis=1)[context]
        scores = doubly_robust(ratios, PAID[context, action], model[context, action], direct)
        assert shares @ scores == pytest.approx(truth)


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="2 rewards, 1 ratios and 2 labels"):
        importance_sampling([1.0, 2.0], [1.0], 1.0, [0, 1])
