"""Sums and functions by features that take less time are those of the features themselves."""

from __future__ import annotations

import numpy as np
import pytest

from dualembed import kernels
from dualembed.spaces.basis import PolynomialMap
from dualembed.spaces.features import FeatureMap, evaluate_functions, mean_features, sum_features
from dualembed.spaces.linear import TransformedMap
from dualembed.spaces.nystrom import ActionFeatures, Stack, action_mixing, trended, whitened

RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(300, 2))
PAIRS = np.column_stack([POINTS, RNG.integers(3, size=300)])
CURVE = trended(kernels.Matern52(2.0), POINTS[:40], POINTS.mean(axis=0), POINTS.std(axis=0), curved=True)
LANDMARKS = whitened(kernels.Gaussian(0.7), POINTS[:50])
MAPS: dict[str, tuple[FeatureMap, np.ndarray]] = {
    "landmarks": (LANDMARKS, POINTS),
    "with a trend": (CURVE, POINTS),
    "of actions": (ActionFeatures(CURVE, np.arange(3.0)[:, None], action_mixing(3)), PAIRS),
    "several": (Stack((CURVE, LANDMARKS)), POINTS),
    "transformed": (
        TransformedMap(Stack((LANDMARKS, CURVE)), RNG.normal(size=(LANDMARKS.size + CURVE.size, 30))),
        POINTS,
    ),
    "a polynomial": (PolynomialMap.orthonormal(POINTS, straight=[], exponents=[(0, 0), (1, 0), (1, 1)]), POINTS),
}


@pytest.mark.parametrize("name", MAPS)
def test_what_plain_features_say_is_what_the_features_say(name: str) -> None:
    features, points = MAPS[name]
    phi = np.asarray(features(points))
    coefficients, weights = RNG.normal(size=len(points)), RNG.normal(size=(2, features.size))
    scale = {"rtol": 1e-7, "atol": 1e-7 * np.abs(phi).max()}
    np.testing.assert_allclose(features.from_plain(np.asarray(features.plain()(points))), phi, **scale)
    np.testing.assert_allclose(sum_features(features, points, coefficients) / 300, coefficients @ phi / 300, **scale)
    sets = points.reshape(10, 30, -1)
    np.testing.assert_allclose(mean_features(features, sets), phi.reshape(10, 30, -1).mean(axis=1), **scale)
    found, direct = evaluate_functions(features, weights, points), phi @ weights.T
    np.testing.assert_allclose(found, direct, rtol=1e-6, atol=1e-6 * np.abs(direct).max())
