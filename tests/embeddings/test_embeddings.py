"""Mean, joint and conditional embeddings against answers known on paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dualembed import embeddings, kernels, spaces
from dualembed.checks import InputError
from dualembed.embeddings import ConditionalEmbedding, JointEmbedding, MeanEmbedding
from dualembed.kernels import Categorical, Gaussian, Polynomial

RNG = np.random.default_rng(0)
TWO = MeanEmbedding(Gaussian(1.0), [1.0, 2.0])
PAIR = JointEmbedding(Gaussian(1.0), Gaussian(1.0), [1.0], [1.0])


def normal(mean: float, deviation: float, kernel: kernels.Kernel) -> MeanEmbedding:
    """The embedding of a normal distribution by Gauss-Hermite quadrature, exact to rounding."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    return MeanEmbedding(kernel, mean + deviation * nodes, weights / weights.sum())


def overlap(mean: float, variance: float, bandwidth: float) -> float:
    """E exp(-d² / (2 b²)) for d of that mean and variance."""
    total = bandwidth**2 + variance
    return float(bandwidth / np.sqrt(total) * np.exp(-(mean**2) / (2 * total)))


def test_the_mean_embedding_of_a_normal_distribution_is_its_formula() -> None:
    embedded = normal(0.5, 0.8, Gaussian(1.1))
    points = np.linspace(-3, 3, 13)
    wanted = [overlap(point - 0.5, 0.64, 1.1) for point in points]
    np.testing.assert_allclose(embedded(points), wanted, rtol=1e-10)
    np.testing.assert_allclose(embedded.norm2(), overlap(0.0, 1.28, 1.1), rtol=1e-10)


def test_the_discrepancy_of_two_normal_distributions_is_its_formula() -> None:
    one, other = normal(0.0, 0.5, Gaussian(1.0)), normal(1.0, 0.9, Gaussian(1.0))
    squared = overlap(0.0, 0.5, 1.0) + overlap(0.0, 1.62, 1.0) - 2 * overlap(1.0, 0.25 + 0.81, 1.0)
    np.testing.assert_allclose(one.distance(other), np.sqrt(squared), rtol=1e-10)
    assert one.distance(one) < 1e-7


def test_the_discrepancy_bounds_every_difference_of_means_and_its_witness_attains_it() -> None:
    one, other = (MeanEmbedding(Gaussian(0.7), RNG.normal(size=(n, 2))) for n in (30, 40))
    distance = one.distance(other)

    def witness(points: np.ndarray) -> np.ndarray:
        return (one(points) - other(points)) / distance

    np.testing.assert_allclose(one.expectation(witness) - other.expectation(witness), distance, rtol=1e-10)
    section = MeanEmbedding(Gaussian(0.7), [[0.3, 0.1]])  # a function of norm 1
    assert abs(one.expectation(section) - other.expectation(section)) < distance


def test_the_unbiased_distance_is_zero_on_average_where_the_plain_one_is_not() -> None:
    rng = np.random.default_rng(1)
    pairs = [[MeanEmbedding(Gaussian(1.0), rng.normal(size=20)) for _ in range(2)] for _ in range(200)]
    unbiased = np.array([one.unbiased_squared_distance(other) for one, other in pairs])
    assert abs(unbiased.mean()) < 3 * unbiased.std() / np.sqrt(200)
    assert np.mean([one.distance(other) ** 2 for one, other in pairs]) > 10 * unbiased.std() / np.sqrt(200)


def test_a_long_sample_is_embedded_in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    x = RNG.normal(size=50)
    joint = JointEmbedding(Gaussian(1.0), Gaussian(0.5), x, x**2)
    wanted = joint.x(x), joint.inner(joint)
    monkeypatch.setattr(embeddings.samples, "TILE", 7)
    np.testing.assert_allclose(joint.x(x), wanted[0], rtol=1e-13)
    np.testing.assert_allclose(joint.inner(joint), wanted[1], rtol=1e-13)


def test_a_joint_embedding_knows_covariances_and_the_independence_criterion() -> None:
    x = RNG.normal(size=60)
    z = x + RNG.normal(size=60)
    joint = JointEmbedding(Gaussian(1.0), Gaussian(0.5), x, z)
    found = joint.covariance(lambda x: x[:, 0], lambda z: np.sin(z[:, 0]))
    np.testing.assert_allclose(found, np.cov(x, np.sin(z), bias=True)[0, 1], rtol=1e-12)
    centring = np.eye(60) - 1 / 60
    k, l = Gaussian(1.0).gram(x[:, None], x[:, None]), Gaussian(0.5).gram(z[:, None], z[:, None])  # noqa: E741
    np.testing.assert_allclose(joint.dependence(), np.trace(k @ centring @ l @ centring) / 3600, rtol=1e-10)
    grid = np.stack(np.meshgrid(x[:6], z[:5], indexing="ij"), axis=-1).reshape(-1, 2)
    assert abs(JointEmbedding(Gaussian(1.0), Gaussian(0.5), grid[:, 0], grid[:, 1]).dependence()) < 1e-14


def linear_gaussian(rows: int, seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """z = 0.8 x + 0.5 noise with x standard normal."""
    x, noise = np.random.default_rng(seed).normal(size=(2, rows))
    return x, 0.8 * x + 0.5 * noise


def test_a_column_of_values_is_as_good_as_a_vector_where_one_number_is_meant() -> None:
    x, z = linear_gaussian(30)
    joint, marginal = JointEmbedding(Gaussian(1.0), Gaussian(0.5), x, z), MeanEmbedding(Gaussian(1.0), x)
    conditional = ConditionalEmbedding.fit(Gaussian(0.7), x, z, 0.01)

    def column(points: np.ndarray) -> np.ndarray:
        return points

    def vector(points: np.ndarray) -> np.ndarray:
        return points[:, 0]

    for found in (joint.expectation, joint.covariance, lambda f, g: conditional.joint_expectation(f, g, marginal)):
        np.testing.assert_allclose(found(column, column), found(vector, vector), rtol=1e-14)
    np.testing.assert_array_equal(conditional.regression(column)([0.3]), conditional.regression(vector)([0.3]))


def test_conditional_weights_are_the_formula() -> None:
    x, z = linear_gaussian(40)
    queries = np.linspace(-1, 1, 5)
    fitted = ConditionalEmbedding.fit(Gaussian(0.7), x, z, 0.01)
    gram = Gaussian(0.7).gram(x[:, None], x[:, None])
    wanted = Gaussian(0.7).gram(queries[:, None], x[:, None]) @ np.linalg.inv(gram + 40 * 0.01 * np.eye(40))
    np.testing.assert_allclose(fitted.weights(queries), wanted, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(fitted.expectation(lambda z: z[:, 0] ** 2, queries), wanted @ z**2, rtol=1e-8)
    np.testing.assert_allclose(fitted.expectation(np.stack([z, z**2], 1), queries)[:, 1], wanted @ z**2, rtol=1e-8)
    np.testing.assert_allclose(fitted.regression(z**2)(queries), wanted @ z**2, rtol=1e-5)


@pytest.mark.parametrize("on", [Gaussian(1.0), spaces.Nystrom(Gaussian(1.0), 40), spaces.Fourier(Gaussian(1.0), 200)])
def test_conditional_expectations_of_a_linear_gaussian_model_are_its_formulas(on: Any) -> None:
    x, z = linear_gaussian(2000)
    fitted = ConditionalEmbedding.fit(on, x, z)  # penalty by leave-one-out
    queries = np.linspace(-1.5, 1.5, 7)
    # The regression averages some hundred neighbours of deviation 0.5: 0.1 is three standard errors.
    np.testing.assert_allclose(fitted.expectation(lambda z: z[:, 0], queries), 0.8 * queries, atol=0.1)
    second = fitted.expectation(lambda z: z[:, 0] ** 2, queries)
    np.testing.assert_allclose(second, 0.64 * queries**2 + 0.25, atol=0.2)
    kernel = Gaussian(0.5)
    found = fitted.embedding(kernel, [0.5])
    assert found.distance(normal(0.4, 0.5, kernel)) < 0.15 * normal(0.4, 0.5, kernel).norm2() ** 0.5


def test_on_a_linear_kernel_it_is_the_least_squares_line() -> None:
    x, z = linear_gaussian(50)
    slope, intercept = np.polyfit(x, z, 1)
    fitted = ConditionalEmbedding.fit(Polynomial(1), x, z, 1e-9)
    np.testing.assert_allclose(fitted.expectation(lambda z: z[:, 0], [-1.0, 2.0]), intercept + slope * np.r_[-1, 2])


@pytest.mark.parametrize("weights", [None, RNG.uniform(0, 2, 60)])
def test_low_rank_on_all_points_is_exact(weights: Any) -> None:
    x, z = linear_gaussian(60)
    exact = ConditionalEmbedding.fit(Gaussian(0.5), x, z, 1e-3, weights=weights)
    low = ConditionalEmbedding.fit(spaces.Nystrom(Gaussian(0.5), 60), x, z, 1e-3, weights=weights)
    queries = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(low.weights(queries), exact.weights(queries), atol=1e-8)
    np.testing.assert_allclose(low.expectation(z, queries), exact.expectation(z, queries), atol=1e-8)
    np.testing.assert_allclose(low.regression(z)(queries), exact.regression(z)(queries), atol=1e-5)


def cosines(x: jax.Array) -> jax.Array:
    return jnp.cos(x * jnp.arange(6.0))


@pytest.mark.parametrize("on", [Gaussian(0.5), spaces.Basis(cosines)])
def test_a_weight_of_two_is_a_row_given_twice(on: Any) -> None:
    x, z = linear_gaussian(20)
    times = np.where(np.arange(20) < 7, 2, 1)
    twice = ConditionalEmbedding.fit(on, np.repeat(x, times), np.repeat(z, times), 0.02)
    weighted = ConditionalEmbedding.fit(on, x, z, 0.02 * 27 / 20, weights=times)
    queries = np.linspace(-1, 1, 4)
    found = twice.expectation(lambda z: np.cos(z[:, 0]), queries)
    np.testing.assert_allclose(weighted.expectation(lambda z: np.cos(z[:, 0]), queries), found, rtol=1e-7)


def test_on_categories_it_is_the_table_of_conditional_frequencies_and_moves_distributions_like_a_chain() -> None:
    rng = np.random.default_rng(3)
    x, z = rng.integers(0, 3, 200), rng.integers(0, 3, 200)
    counts = np.array([[np.sum((x == i) & (z == j)) for j in range(3)] for i in range(3)])
    chain = counts / (counts.sum(axis=1, keepdims=True) + 200 * 1e-3)  # the penalty adds 200 λ to what is divided by
    fitted = ConditionalEmbedding.fit(Categorical(), x, z, 1e-3)
    table = np.stack([fitted.expectation(lambda z, j=j: z[:, 0] == j, np.arange(3)) for j in range(3)], axis=1)
    np.testing.assert_allclose(table, chain, rtol=1e-10)
    start = MeanEmbedding(Categorical(), np.arange(3), [0.5, 0.2, 0.3])
    once = fitted.pushforward(Categorical(), start)
    np.testing.assert_allclose(once(np.arange(3)), start.weights @ chain, rtol=1e-10)
    twice = fitted.pushforward(Categorical(), once)
    np.testing.assert_allclose(twice(np.arange(3)), start.weights @ chain @ chain, rtol=1e-10)


def test_the_sum_and_chain_rules_give_back_the_sample_they_were_made_of() -> None:
    x, z = np.random.default_rng(4).uniform(-1, 1, (2, 30))
    kernel = Gaussian(0.1)
    fitted = ConditionalEmbedding.fit(kernel, x, z, 1e-12)
    marginal = MeanEmbedding(kernel, x)
    pushed = fitted.pushforward(kernel, marginal)
    np.testing.assert_allclose(pushed.weights, 1 / 30, rtol=1e-5)
    assert pushed.distance(MeanEmbedding(kernel, z)) < 1e-6

    def f(x: np.ndarray) -> np.ndarray:
        return np.sin(3 * x[:, 0])

    def g(z: np.ndarray) -> np.ndarray:
        return np.exp(z[:, 0])

    joint = JointEmbedding(kernel, kernel, x, z)
    np.testing.assert_allclose(fitted.joint_expectation(f, g, marginal), joint.expectation(f, g), rtol=1e-5)
    # With any penalty the two rules agree with each other.
    rough = ConditionalEmbedding.fit(kernel, x, z, 0.1)
    ones = np.ones(30)
    summed = rough.pushforward(kernel, marginal).expectation(g)
    np.testing.assert_allclose(rough.joint_expectation(ones, g, marginal), summed, rtol=1e-12)


@pytest.mark.parametrize("weights", [None, RNG.uniform(0.2, 2, 25)])
def test_the_chosen_penalty_has_the_least_leave_one_out_error_of_brute_force(weights: Any) -> None:
    x, z = linear_gaussian(25, seed=5)
    scale = np.ones(25) if weights is None else weights
    on, of = Gaussian(0.6), Gaussian(0.9)
    k, targets = on.gram(x[:, None], x[:, None]), of.gram(z[:, None], z[:, None])

    def error(penalty: float) -> float:
        total = 0.0
        for i in range(25):
            rest = np.delete(np.arange(25), i)
            # The penalty is 25 λ for the 24 rows too: leave-one-out holds the ridge fixed.
            inner = np.diag(scale[rest]) @ k[np.ix_(rest, rest)] + 25 * penalty * np.eye(24)
            beta = k[i, rest] @ np.linalg.solve(inner, np.diag(scale[rest]))
            apart = targets[i, i] - 2 * beta @ targets[rest, i] + beta @ targets[np.ix_(rest, rest)] @ beta
            total += scale[i] * apart
        return total

    errors = [error(each) for each in embeddings.PENALTIES]
    best = embeddings.PENALTIES[int(np.argmin(errors))]
    assert embeddings.PENALTIES[0] < best < embeddings.PENALTIES[-1]
    for each in (on, spaces.Nystrom(on, 25)):
        assert ConditionalEmbedding.fit(each, x, z, weights=weights, target_kernel=of).penalty == best


def test_many_rows_are_sent_to_features() -> None:
    with pytest.raises(InputError, match=r"6001 rows costs their cube.*spaces\.Nystrom"):
        ConditionalEmbedding.fit(Gaussian(1.0), np.arange(6001.0), np.arange(6001.0), 0.1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: MeanEmbedding("gaussian", [1.0]), "kernel must be a Kernel"),
        (lambda: MeanEmbedding(Gaussian(1.0), []), "points is empty"),
        (lambda: MeanEmbedding(Gaussian(1.0), [1.0, 2.0], [1.0]), "weights must have shape"),
        (lambda: MeanEmbedding(Gaussian([1.0, 2.0]), [1.0, 2.0]), "2 values of bandwidth"),
        (
            lambda: MeanEmbedding(Gaussian(1.0), [1.0]).unbiased_squared_distance(normal(0, 1, Gaussian(1.0))),
            "2 points",
        ),
        (lambda: TWO.unbiased_squared_distance(MeanEmbedding(Gaussian(1.0), [1.0, 2.0], [1.0, 0.0])), "2 points"),
        (lambda: TWO.distance(MeanEmbedding(Gaussian(2.0), [1.0, 2.0])), "embeddings of one kernel"),
        (lambda: TWO.distance(MeanEmbedding(Categorical(), [1.0, 2.0])), "embeddings of one kernel"),
        (lambda: TWO.distance([1.0, 2.0]), "compared with must be a MeanEmbedding"),
        (lambda: PAIR.inner(JointEmbedding(Gaussian(1.0), Gaussian(2.0), [1.0], [1.0])), "embeddings of one kernel"),
        (lambda: PAIR.inner(TWO), "compared with must be a JointEmbedding"),
        (lambda: PAIR.expectation([[1.0, 2.0]], [1.0]), "f must have one number at each point, but has 2"),
        (lambda: PAIR.covariance([1.0], [[1.0, 2.0]]), "g must have one number at each point, but has 2"),
        (
            lambda: ConditionalEmbedding.fit(Gaussian(1.0), [1.0, 2.0], [1.0, 2.0], 0.1).regression(np.ones((2, 2))),
            "g must have one number",
        ),
        (
            lambda: ConditionalEmbedding.fit(Gaussian(1.0), [1.0, 2.0], [1.0, 2.0], [0.1, 1.0]),
            r"penalty must be one number.*\(2,\)$",
        ),
        (lambda: ConditionalEmbedding.fit(Gaussian(1.0), [1.0, 2.0], [1.0, 2.0], seed=-1), "seed must be a whole"),
        (lambda: MeanEmbedding(Gaussian(1.0), [1.0, 2.0]).expectation([1.0]), "one value for each of 2 points"),
        (lambda: JointEmbedding(Gaussian(1.0), Gaussian(1.0), [1.0], [1.0, 2.0]), "equally many rows"),
        (lambda: ConditionalEmbedding.fit(Gaussian(1.0), [1.0], [1.0, 2.0]), "equally many rows"),
        (lambda: ConditionalEmbedding.fit(Gaussian(1.0), [1.0, 2.0], [1.0, 2.0], -1.0), "penalty must be positive"),
        (lambda: ConditionalEmbedding.fit("rbf", [1.0, 2.0], [1.0, 2.0]), "or a linear space"),
        (lambda: ConditionalEmbedding.fit(Gaussian(1.0), [1.0, 2.0], [1.0, 2.0], weights=[1, -1]), "not be negative"),
        (lambda: ConditionalEmbedding.fit(Gaussian(1.0), [1.0, 2.0], [1.0, 2.0], weights=[0, 0]), "all weights are 0"),
        (lambda: ConditionalEmbedding.fit(Gaussian(9.0), np.arange(50), np.arange(50), 1e-30), "too small"),
    ],
)
def test_what_cannot_be_embedded_is_named(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
