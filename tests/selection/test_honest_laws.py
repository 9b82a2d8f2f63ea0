"""Laws of the honest score where truths are known: right functions score zero however rough, wrong ones no less."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dualembed import problems, sources
from dualembed.selection import Score, honest_score
from dualembed.selection.honest_score import clustered_error
from dualembed.selection.regression import cross_fit

DISCOUNT, NOISE = 0.9, 0.5
MEMORY = np.sqrt(1 - NOISE**2)


@dataclasses.dataclass(frozen=True)
class Waves:
    """Σ_j a_j cos(w_j · s + p_j), whose mean over Gaussian noise in s is on paper."""

    frequencies: np.ndarray
    phases: np.ndarray
    heights: np.ndarray

    def __call__(self, states: np.ndarray) -> np.ndarray:
        return np.cos(states @ self.frequencies.T + self.phases) @ self.heights

    def expected(self, states: np.ndarray) -> np.ndarray:
        """E[f(s') | s], s' = memory s + noise."""
        damping = np.exp(-0.5 * NOISE**2 * np.sum(self.frequencies**2, axis=1))
        return np.cos(MEMORY * states @ self.frequencies.T + self.phases) @ (self.heights * damping)

    def bellman(self, states: np.ndarray) -> np.ndarray:
        """f(s) - discount E[f(s') | s]."""
        return self(states) - DISCOUNT * self.expected(states)


def waves(dimension: int, roughness: float, height: float = 1.0, seed: int = 0) -> Waves:
    rng = np.random.default_rng([seed, 17])
    frequencies = rng.normal(size=(6, dimension)) * roughness / np.sqrt(dimension)
    return Waves(frequencies, rng.uniform(0, 2 * np.pi, size=6), height * rng.normal(size=6) / np.sqrt(3))


def problem_of(
    value: Waves, rows: int, seed: int, *, episode: int = 1, reward_noise: float = 0.5
) -> tuple[problems.Problem, np.ndarray]:
    """(the problem whose value function is `value`, episodes (n,)) of a stationary Gaussian process."""
    rng = np.random.default_rng([seed, 5])
    path = np.empty((rows // episode, episode + 1, value.frequencies.shape[1]))
    path[:, 0] = rng.normal(size=path[:, 0].shape)
    for step in range(episode):
        path[:, step + 1] = MEMORY * path[:, step] + NOISE * rng.normal(size=path[:, 0].shape)
    state, following = (part.reshape(-1, path.shape[-1]) for part in (path[:, :-1], path[:, 1:]))
    reward = value.bellman(state) + reward_noise * rng.normal(size=len(state))
    source = sources.Dataset(state=state, reward=reward, next_state=following)
    problem = problems.PolicyEvaluation(source, DISCOUNT, reward_known=reward_noise == 0)
    return problem, np.repeat(np.arange(rows // episode), episode)


@pytest.mark.parametrize(
    ("dimension", "roughness", "episode", "reward_noise"),
    [(2, 2.0, 1, 0.5), (2, 8.0, 1, 0.5), (5, 5.0, 10, 0.5), (10, 4.0, 1, 0.0)],
)
def test_a_right_function_scores_zero_within_its_error_however_rough(
    dimension: int, roughness: float, episode: int, reward_noise: float
) -> None:
    distances = []
    for seed in range(40):
        value = waves(dimension, roughness, seed=seed % 4)
        problem, episodes = problem_of(value, 300, seed, episode=episode, reward_noise=reward_noise)
        score = honest_score(problem, value, groups=episodes, seed=seed)
        distances.append(score.value / score.stderr)
    assert abs(np.mean(distances)) < 0.55
    assert np.std(distances) < 1.3
    assert sum(abs(distance) < 2 for distance in distances) >= 35
    assert min(distances) > -3.2


@pytest.mark.parametrize("reward_noise", [0.0, 0.5])
def test_a_rough_function_wrong_by_a_factor_has_its_error_found(reward_noise: float) -> None:
    states = np.random.default_rng(0).normal(size=(100_000, 5))
    distances = []
    for seed in range(10):
        value = waves(5, 5.0, seed=seed)
        truth = 0.5**2 * np.mean(value.bellman(states) ** 2)
        problem, _ = problem_of(value, 2000, seed, reward_noise=reward_noise)
        score = honest_score(problem, lambda s, value=value: 0.5 * value(s), seed=seed)
        assert score.stderr < 0.35 * truth
        distances.append((score.value - truth) / score.stderr)
    assert abs(np.mean(distances)) < 1
    assert sum(abs(distance) < 2 for distance in distances) >= 8


@pytest.mark.parametrize(
    ("dimension", "roughness", "error_roughness"), [(2, 8.0, 1.5), (2, 2.0, 8.0), (10, 4.0, 4.0), (40, 4.0, 1.5)]
)
@pytest.mark.parametrize("rows", [300, 1500])
def test_a_wrong_function_is_bounded_from_below_and_not_by_less_than_zero(
    dimension: int, roughness: float, error_roughness: float, rows: int
) -> None:
    states = np.random.default_rng(1).normal(size=(50_000, dimension))
    found = []
    for seed in range(6):
        value, wrong = waves(dimension, roughness, seed=seed), waves(dimension, error_roughness, 0.5, seed=100 + seed)
        problem, _ = problem_of(value, rows, seed)
        score = honest_score(problem, lambda s, value=value, wrong=wrong: value(s) + wrong(s), seed=seed)
        found.append((score.value, score.stderr, np.mean(wrong.bellman(states) ** 2)))
    values, errors, truths = np.array(found).T
    assert np.all(values < truths + 3 * errors)
    assert np.all(values > -3 * errors)
    # Beyond its noise, the score is no further from the truth than zero is.
    assert np.mean((values - truths) ** 2) < np.mean(truths**2) + 4 * np.mean(errors**2)


def test_a_small_smooth_error_of_a_rough_function_shows_in_the_difference_of_contributions() -> None:
    value, wrong = waves(4, 6.0, seed=1), waves(4, 2.0, seed=2)
    problem, episodes = problem_of(value, 2000, 0, episode=5)
    right, other = (
        honest_score(problem, function, groups=episodes) for function in (value, lambda s: value(s) + wrong(s))
    )
    change = other.contributions - right.contributions
    assert change.mean() > 3 * clustered_error(change, episodes)
    assert abs(right.value) < 2.5 * right.stderr


def test_where_one_number_is_all_there_is_to_learn_the_error_does_not_vanish_with_it() -> None:
    # The rows' spread goes to zero with the mean, at which the score is below zero: their ratio would have no bound.
    def score(seed: int) -> Score:
        rng = np.random.default_rng([seed, 3])
        source = sources.Dataset(x=np.zeros(200), y=rng.normal(size=200), z=np.ones(200))
        return honest_score(problems.InstrumentalVariables(source), lambda x: 0 * x[:, 0], seed=seed)

    distances = [(found := score(seed)).value / found.stderr for seed in range(100)]
    assert min(distances) > -2.9
    assert sum(abs(distance) < 2 for distance in distances) >= 95


def test_columns_beside_the_context_are_learnt_however_rough() -> None:
    rng = np.random.default_rng(4)
    context = rng.normal(size=(600, 8))
    rough = np.sign(np.sin(20 * context[:, 0] + 13 * context[:, 5]))
    response = 3 * rough + context[:, 1] + 0.3 * rng.normal(size=600)
    blocks = np.arange(600) % 6
    uses = (np.arange(6) // 2 != np.arange(3)[:, None])[None]

    def error(beside: np.ndarray | None) -> float:
        fitted = cross_fit(context, response, blocks, uses=uses, rng=np.random.default_rng(0), beside=beside)[0]
        return float(np.mean((fitted - 3 * rough - context[:, 1]) ** 2))

    assert error(rough[:, None]) < 0.02
    assert error(np.stack([rough, rough, 0 * rough], axis=1)) < 0.02
    assert error(None) > 4
