"""Fits to data of equal shapes share their compiled code, which would otherwise pile up in a long process."""

from __future__ import annotations

import logging
from typing import Any

import jax
import numpy as np
import pytest
from tests.estimators.cases import small

import dualembed as de


@pytest.mark.parametrize("kind", ["policy", "hitting"])
def test_a_second_fit_of_equal_shape_compiles_nothing(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Episodes of random lengths: the folds that they are left out in have other numbers of rows each time."""

    def fit(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        state = rng.normal(size=(450, 2))
        following = 0.5 * state + rng.normal(size=(450, 2))
        episodes = np.sort(rng.integers(60, size=450))
        if kind == "policy":
            return de.PolicyEvaluator(0.8, **small()).fit(state, state[:, 0], following, episodes=episodes)
        return de.HittingTimeRegressor(lambda s: s[:, 0] > 0.5, **small()).fit(state, following, episodes=episodes)

    for seed in range(3):  # every padded number of rows has been met
        fit(seed)
    with jax.log_compiles(True), caplog.at_level(logging.WARNING):
        fit(3)
    assert [record.getMessage() for record in caplog.records if record.getMessage().startswith("Compiling")] == []
