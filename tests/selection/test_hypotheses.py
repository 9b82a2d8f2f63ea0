"""Hypotheses about f: their evidence against dense algebra, and what they make of truths that are known."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.iv_designs import one_dimensional
from scipy.stats import multivariate_normal

from dualembed import problems, sources
from dualembed.linear.sums import gather_moments
from dualembed.selection import auto
from dualembed.selection.hypotheses import (
    Smooth,
    _decompose,
    _evidence,
    base_features,
    candidates,
    weigh_hypotheses,
)
from dualembed.spaces.basis import PolynomialMap
from dualembed.spaces.nystrom import Stack
from dualembed.tuning import HYPOTHESES


def problem_of(curve: object, rows: int, seed: int) -> problems.InstrumentalVariables:
    """x = 1.2 z + 0.8 u and y = f(x) + 2 u with a hidden u."""
    rng = np.random.default_rng(seed)
    z, u, noise = rng.standard_normal((3, rows))
    x = 1.2 * z + 0.8 * u
    return problems.InstrumentalVariables(sources.Dataset(x=x, y=curve(x) + 2 * u + 0.1 * noise, z=z))


def test_the_evidence_is_that_of_the_moments_joint_normal_law() -> None:
    rng = np.random.default_rng(0)
    known, unknown, observed = rng.normal(size=(6, 3)), rng.normal(size=(6, 4)), rng.normal(size=6)
    points = rng.normal(size=(30, 1))
    landmarks = points[:4]
    family, kernel, size = candidates(points, [])[3]
    part = _decompose(known, unknown, observed, landmarks, family, kernel, size)
    assert isinstance(part, Smooth)
    amplitudes, trends = np.array([0.3, 2.0]), np.array([[4.0, 1.0, 0.0], [4.0, 1.0, 0.5]])
    found = _evidence(part, amplitudes, trends, noise=0.2)
    for i, amplitude in enumerate(amplitudes):
        for j, variances in enumerate(trends):
            smooth = amplitude * unknown @ np.asarray(kernel.gram(landmarks, landmarks)) @ unknown.T
            covariance = (known * variances) @ known.T + smooth + 0.2 * np.eye(6)
            exact = multivariate_normal(np.zeros(6), covariance).logpdf(observed) + 3 * np.log(2 * np.pi)
            assert found[i, j] == pytest.approx(exact, rel=1e-9)


def test_the_mean_of_all_priors_is_the_identity_in_the_features_that_are_given() -> None:
    problem = problem_of(np.abs, 400, 0)
    rng, x = np.random.default_rng(0), problem.source.table["x"][:, None]
    trend, smooth = base_features(x, x[:50], None, rng)
    instruments = PolynomialMap.orthonormal(problem.source.table["z"][:, None])
    sums = gather_moments(problem, Stack((trend, smooth)), instruments, folds=5)
    weighed = weigh_hypotheses(trend, smooth, sums, candidates(x, []), scale=1.0, level=100.0, variance=1.0)
    mean = sum((share + other) / 2 * prior for share, other, prior in weighed.prior.covariances())
    np.testing.assert_allclose(mean, np.eye(len(mean)), atol=1e-6)
    assert weighed.prior.shares.sum() == pytest.approx(1)
    assert weighed.prior.error_shares.sum() == pytest.approx(1)
    again = gather_moments(problem, weighed.features, instruments, folds=5)
    np.testing.assert_allclose(weighed.sums.cross, again.cross, atol=1e-6 * np.abs(again.cross).max())


POLYNOMIALS = {"line": lambda x: 1 + x, "parabola": lambda x: 0.9 * x**2 - 1.5 * x, "cubic": lambda x: x**3 - x}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_are_found_as_such(name: str) -> None:
    curve = POLYNOMIALS[name]
    result = auto(0, problem_of(curve, 1000, 1))
    points = np.linspace(-2, 2, 41)
    errors = np.asarray(result.primal(points)) - curve(points)
    assert np.sqrt(np.mean(errors**2)) < 0.25
    weighed = next(step for step in result.record.steps if step.question == "prior of f")
    assert weighed.numbers["probability of the trend alone"] > HYPOTHESES.mean.no_smooth_part  # the data speak for it


def test_intervals_of_a_step_reckon_with_jumps() -> None:
    covered = []
    for seed in range(4):
        design = one_dimensional("step", 1000, seed)
        data = sources.Dataset(x=design.x, y=design.y, z=design.z)
        lower, upper = auto(0, problems.InstrumentalVariables(data)).uncertainty.interval(design.test_x)
        covered.append(np.mean((lower <= design.test_f) & (design.test_f <= upper)))
    assert np.mean(covered) >= 0.85  # two smooth families alone covered 0.73


def test_squares_of_indicators_and_constant_columns_are_no_trends() -> None:
    rng = np.random.default_rng(0)
    points = np.stack([rng.integers(0, 2, 200), np.ones(200), rng.normal(size=200)], axis=1).astype(float)
    trend = PolynomialMap.orthonormal(points)
    features = np.asarray(trend(points))
    np.testing.assert_allclose(features.T @ features / 200, np.eye(trend.size), atol=1e-9)
    assert all(exponents[0] <= 1 and exponents[1] == 0 for exponents in trend.exponents)


def test_many_columns_have_no_products() -> None:
    points = np.random.default_rng(0).normal(size=(500, 12))
    assert PolynomialMap.orthonormal(points).size == 1 + 3 * 12
    assert PolynomialMap.orthonormal(points, most_powers=20).size == 1 + 12
