"""The honest score: the truth within its standard error where the truth is known, and no reward for being wild."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dualembed as de
from dualembed import losses, problems, sources
from dualembed.experiments import navigation
from dualembed.selection import Score, honest_score
from dualembed.selection.regression import cross_fit

DISCOUNT = 0.8


class Chain:
    """A random Markov reward chain visited uniformly, with rewards of the transition; states are 0, 1, ... ."""

    def __init__(self, states: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.states = states
        self.probability = rng.dirichlet(np.full(states, 0.5), size=states)
        self.reward = rng.normal(size=(states, states))
        mean_reward = np.sum(self.probability * self.reward, axis=1)
        self.value = np.linalg.solve(np.eye(states) - DISCOUNT * self.probability, mean_reward)

    def bellman_error(self, values: np.ndarray) -> float:
        """The exact mean squared Bellman error."""
        target = np.sum(self.probability * (self.reward + DISCOUNT * values), axis=1)
        return float(np.mean((values - target) ** 2))

    def sample(self, rows: int, seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng([seed, 7])
        state = rng.integers(self.states, size=rows)
        following = np.sum(rng.uniform(size=(rows, 1)) > np.cumsum(self.probability, axis=1)[state], axis=1)
        following = np.minimum(following, self.states - 1)
        return {"state": state, "reward": self.reward[state, following], "next_state": following}

    def score(self, values: np.ndarray, rows: int = 1000, seed: int = 0, **options: Any) -> Score:
        problem = problems.PolicyEvaluation(sources.Dataset(**self.sample(rows, seed)), DISCOUNT)
        return honest_score(problem, lambda s: values[s[:, 0].astype(int)], seed=seed, **options)


def candidates(chain: Chain) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        "right": chain.value,
        "zero": np.zeros(chain.states),
        "shifted": chain.value + 1.0,
        "noisy": chain.value + rng.normal(size=chain.states),
        "wild": 20 * rng.normal(size=chain.states),
    }


@pytest.mark.parametrize("name", ["right", "zero", "shifted", "noisy", "wild"])
def test_the_bellman_error_of_a_chain_is_found_within_its_standard_error(name: str) -> None:
    chain = Chain(6)
    values = candidates(chain)[name]
    truth = chain.bellman_error(values)
    scores = [chain.score(values, seed=seed) for seed in range(40)]
    deviations = [abs(score.value - truth) / score.stderr for score in scores]
    assert sum(deviation < 2 for deviation in deviations) >= 34
    assert max(deviations) < 4


def test_states_may_be_one_hot() -> None:
    chain = Chain(6)
    data = chain.sample(1000, seed=0)
    data["state"], data["next_state"] = (np.eye(6)[data[name]] for name in ("state", "next_state"))
    problem = problems.PolicyEvaluation(sources.Dataset(**data), DISCOUNT)
    values = candidates(chain)["noisy"]
    assert honest_score(problem, lambda s: s @ values).value == pytest.approx(chain.score(values).value, rel=1e-3)


def test_one_regression_is_biased_downwards_where_two_are_not() -> None:
    chain = Chain(30)
    values, folds, rows = chain.value, 5, 400
    one, two = [], []
    for seed in range(20):
        score = chain.score(values, rows, seed)
        data = chain.sample(rows, seed)
        known = values[data["state"]]
        unknown = -data["reward"] - DISCOUNT * values[data["next_state"]]
        rng = np.random.default_rng(seed)
        blocks = rng.permutation(rows) % (2 * folds)
        others = (np.arange(2 * folds) // 2 != np.arange(folds)[:, None])[None]
        q = known + cross_fit(data["state"][:, None].astype(float), unknown, blocks, uses=others, rng=rng)[0]
        one.append(np.mean(2 * q * (known + unknown) - q**2))
        two.append(score.value)
    spread = np.std(two) / np.sqrt(20)
    assert abs(np.mean(two)) < 3 * spread  # the truth is zero
    assert np.mean(one) < -10 * spread


def test_wild_functions_are_not_rewarded() -> None:
    chain = Chain(30)
    for seed in range(3):
        scores = {name: chain.score(values, 600, seed).value for name, values in candidates(chain).items()}
        assert min(scores, key=scores.__getitem__) == "right"
        assert scores["wild"] > 10 * scores["noisy"]


def line(rows: int, seed: int) -> dict[str, np.ndarray]:
    """s ~ N(0, 1), s' = s/2 + noise of variance 3/4, r = s: the value is V(s) = s / (1 - discount/2)."""
    rng = np.random.default_rng(seed)
    state = rng.normal(size=rows)
    following = 0.5 * state + np.sqrt(0.75) * rng.normal(size=rows)
    return {"state": state, "reward": state, "next_state": following}


@pytest.mark.parametrize("reward_known", [False, True])
@pytest.mark.parametrize("slope", [0.0, 1.0, 1 / 0.6, 3.0])
def test_a_linear_value_of_a_gaussian_chain_has_the_error_worked_out_on_paper(slope: float, reward_known: bool) -> None:
    source = sources.Dataset(**line(1000, seed=1))
    problem = problems.PolicyEvaluation(source, DISCOUNT, reward_known=reward_known)
    score = honest_score(problem, lambda s: slope * s[:, 0])
    assert abs(score.value - (0.6 * slope - 1) ** 2) < 3 * score.stderr
    assert score.stderr < 0.1 * (1 + slope**2)


def test_a_sine_of_a_gaussian_chain_has_the_error_worked_out_on_paper() -> None:
    # E[sin(3 s') | s] = exp(-9/2 · 3/4) sin(3/2 s); the square is integrated by Gauss-Hermite quadrature.
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    error = np.sin(3 * nodes) - nodes - DISCOUNT * np.exp(-27 / 8) * np.sin(1.5 * nodes)
    truth = weights @ error**2 / weights.sum()
    problem = problems.PolicyEvaluation(sources.Dataset(**line(1000, seed=2)), DISCOUNT)
    score = honest_score(problem, lambda s: np.sin(3 * s[:, 0]))
    assert abs(score.value - truth) < 3 * score.stderr


WIDTH = 0.1  # of the peak, whose reward on Navigation is 0.07 wide


def peak(states: np.ndarray, variance: float = WIDTH**2) -> np.ndarray:
    return np.exp(-0.5 * np.sum(states**2, axis=-1) / variance)


def peak_error(states: np.ndarray) -> np.ndarray:
    """The Bellman error of the peak on Navigation: E[V(s') | s] = v/(v + noise) exp(-|E[s' | s]|²/2(v + noise))."""
    narrow, wide = WIDTH**2, WIDTH**2 + navigation.NOISE_VARIANCE
    expected = narrow / wide * peak(np.asarray(navigation.next_mean(states)), wide)
    return peak(states) - np.asarray(navigation.reward(states)) - navigation.DISCOUNT * expected


@pytest.mark.slow
def test_the_bellman_error_of_a_narrow_peak_is_found_within_its_standard_error() -> None:
    axis = np.linspace(-2.2, 2.2, 441)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    truth = np.average(peak_error(grid) ** 2, weights=peak(grid, navigation.STATE_VARIANCE))
    problem = problems.PolicyEvaluation(navigation.PROCESS.dataset(40_000, 0), navigation.DISCOUNT, reward_known=True)
    distances, excess = [], []
    for rows in np.arange(40_000).reshape(20, 2000):
        sample = {name: np.asarray(column)[rows] for name, column in problem.source.columns.items()}
        score = honest_score(problem, peak, sample=sample)
        distances.append((score.value - truth) / score.stderr)
        # The score with the exact conditional mean has the least standard error that one could hope for.
        moment = peak(sample["state"]) - sample["reward"] - navigation.DISCOUNT * peak(sample["next_state"])
        exact = peak_error(sample["state"])
        excess.append(score.stderr / np.std(2 * exact * moment - exact**2) * np.sqrt(len(rows)))
    assert sum(abs(distance) <= 2 for distance in distances) >= 17
    assert abs(np.mean(distances)) < 3 / np.sqrt(20)
    assert np.mean(excess) < 1.2


def test_more_rows_resolve_finer_details() -> None:
    # The response has no noise, so that all of the error is what the landmarks cannot resolve.
    rng = np.random.default_rng(12)
    context = rng.normal(size=(20_000, 2))
    centres, heights = rng.normal(size=(40, 2)), rng.normal(size=40)
    response = np.exp(-0.5 * np.sum((context[:, None] - centres) ** 2, axis=-1) / 0.15**2) @ heights
    uses = (np.arange(6) // 2 != np.arange(3)[:, None])[None]

    def error(rows: int) -> float:
        blocks = np.arange(rows) % 6
        fitted = cross_fit(context[:rows], response[:rows], blocks, uses=uses, rng=np.random.default_rng(0))[0]
        return float(np.mean((fitted - response[:rows]) ** 2) / np.var(response))

    assert error(20_000) < 0.4 * error(10_000)


def test_the_score_keeps_up_with_the_units_of_rewards_and_states() -> None:
    data = line(400, seed=3)

    def score(reward: float, state: float) -> Score:
        units = {"reward": reward, "state": state, "next_state": state}
        scaled = {name: column * units[name] for name, column in data.items()}
        problem = problems.PolicyEvaluation(sources.Dataset(**scaled), DISCOUNT)
        return honest_score(problem, lambda s: reward * np.cos(s[:, 0] / state))

    plain = score(1, 1)
    for reward, state in [(1000, 1), (1, 1000), (1e-3, 1e-3)]:
        scaled = score(reward, state)
        assert scaled.value == pytest.approx(reward**2 * plain.value, rel=1e-3)
        assert scaled.stderr == pytest.approx(reward**2 * plain.stderr, rel=1e-3)


def test_contributions_average_to_the_value_and_the_seed_decides_everything() -> None:
    chain = Chain(6)
    first, again, other = (chain.score(chain.value + 1, rows=400, folds=folds) for folds in (5, 5, 4))
    assert first.contributions.mean() == first.value == again.value
    assert first.contributions.shape == (400,)
    assert first.value != other.value


def test_groups_keep_copies_of_a_row_out_of_its_regressions() -> None:
    chain = Chain(30)
    values = candidates(chain)["wild"]
    data, groups = chain.sample(200, seed=5), np.tile(np.arange(200), 5)
    copied = {name: np.tile(column, 5) for name, column in data.items()}
    problem = problems.PolicyEvaluation(sources.Dataset(**copied), DISCOUNT)

    def score(**options: Any) -> Score:
        return honest_score(problem, lambda s: values[s[:, 0].astype(int)], **options)

    grouped, fooled, truth = score(groups=groups), score(), chain.bellman_error(values)
    assert abs(grouped.value - truth) < 3 * grouped.stderr
    assert fooled.stderr < 0.7 * grouped.stderr
    assert fooled.value > grouped.value


def test_importance_weights_leave_the_score_right() -> None:
    chain = Chain(6)
    data = chain.sample(2000, seed=6)
    data["weight"] = np.random.default_rng(6).choice([0.5, 1.5], size=2000)
    problem = problems.PolicyEvaluation(sources.Dataset(**data), DISCOUNT)
    values = candidates(chain)["noisy"]
    score = honest_score(problem, lambda s: values[s[:, 0].astype(int)])
    assert abs(score.value - chain.bellman_error(values)) < 3 * score.stderr


def test_instrumental_variables_and_invariance_have_the_errors_worked_out_on_paper() -> None:
    rng = np.random.default_rng(8)
    z, hidden, noise = rng.normal(size=(3, 1000))
    x = z + hidden
    problem: problems.Problem = problems.InstrumentalVariables(sources.Dataset(x=x, y=2 * x + 2 * hidden, z=z))
    score = honest_score(problem, lambda points: 1.5 * points[:, 0])
    assert abs(score.value - 0.25) < 3 * score.stderr
    # y = x + noise/2 and E[z | x, y] = x: what is left of y is its noise, which the context determines.
    problem = problems.Invariance(sources.Dataset(x=z, y=z + 0.5 * noise, z=z + 0.3 * hidden))
    score = honest_score(problem, lambda points: points[:, 0])
    assert abs(score.value - 0.25) < 3 * score.stderr


def test_another_loss_is_bounded_from_below() -> None:
    chain = Chain(6)
    values = candidates(chain)["noisy"]
    data = chain.sample(2000, seed=9)

    def score(loss: losses.Loss) -> Score:
        problem = problems.PolicyEvaluation(sources.Dataset(**data), DISCOUNT, loss)
        return honest_score(problem, lambda s: values[s[:, 0].astype(int)])

    error = values - np.sum(chain.probability * (chain.reward + DISCOUNT * values), axis=1)
    for threshold in (0.5, 1e6):
        loss = losses.Huber(threshold)
        truth = float(np.mean(np.asarray(loss.value(error, 0 * error))))
        found = score(loss)
        assert truth - 4 * found.stderr < found.value < truth + 3 * found.stderr


def test_a_confident_classifier_is_scored_finitely() -> None:
    rng = np.random.default_rng(10)
    x = rng.normal(size=200)
    source = sources.Dataset(x=x, y=np.sign(x), z=x + 0.1 * rng.normal(size=200))
    score = honest_score(problems.Invariance(source, losses.Logistic()), lambda z: 1000 * z[:, 0])
    assert np.isfinite([score.value, score.stderr]).all()


def test_a_constant_context_is_no_obstacle() -> None:
    rng = np.random.default_rng(11)
    source = sources.Dataset(x=rng.normal(size=200), y=rng.normal(size=200), z=np.ones(200))
    score = honest_score(problems.InstrumentalVariables(source), lambda x: x[:, 0] + 3)
    assert abs(score.value - 9) < 3 * score.stderr


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (lambda s: s, {}, r"must return shape \(120,\) for points of shape \(120, 1\), not \(120, 1\)"),
        (lambda s: s[:5, 0], {}, "one number for each point"),
        (lambda s: np.full(len(s), np.nan), {}, "must be finite, but is nan at the point"),
        (lambda s: "text", {}, "must return numbers, not str"),
        ("text", {}, "must be callable"),
        (lambda s: s[:, 0], {"folds": 20}, "needs at least 120 rows, not 60"),
        (lambda s: s[:, 0], {"folds": 2}, "at least 3"),
        (lambda s: s[:, 0], {"groups": np.zeros(60)}, "at least 10 groups, not 1"),
        (lambda s: s[:, 0], {"groups": np.zeros(7)}, "groups must have shape"),
        (lambda s: s[:, 0], {"sample": [1.0]}, "sample must be a dict"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(
    function: Callable[[np.ndarray], Any], options: dict[str, Any], message: str
) -> None:
    problem = problems.PolicyEvaluation(sources.Dataset(**line(60, seed=0)), DISCOUNT)
    with pytest.raises(de.InputError, match=message):
        honest_score(problem, function, **options)


def test_an_endless_source_needs_samples() -> None:
    problem = problems.PolicyEvaluation(sources.Simulator(lambda key: {}), DISCOUNT)
    with pytest.raises(de.InputError, match="sample must be given"):
        honest_score(problem, lambda s: s[:, 0])
    assert honest_score(problem, lambda s: s[:, 0], sample=line(60, seed=0)).stderr > 0
