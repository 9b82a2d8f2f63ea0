"""The answer against the lag: intervals at each, flat for a Markov process and rising for what has a memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import dualembed as de

LAGS = [1, 4, 16]


def ring(rows: int = 4000) -> np.ndarray:
    """A walk on twelve cells in a ring, up or down."""
    steps = np.random.default_rng(0).choice([-1, 1], size=rows)
    return np.cumsum(steps) % 12


def shown(path: np.ndarray, target: float) -> pd.DataFrame:
    model = de.HittingTimeRegressor([target], dt=0.5)
    return de.plot.data_of(de.plot.lags(model, LAGS, [path.astype(float)], ax=Figure().subplots()))


def test_answers_of_a_markov_process_are_flat() -> None:
    table = shown(ring(), 0.0)
    assert list(table["lag"]) == LAGS
    assert list(table["time"]) == [0.5, 2.0, 8.0]
    truth = 0.5 * np.mean([k * (12 - k) for k in range(1, 12)])
    assert np.all((table["conf_low"] < truth) & (truth < table["conf_high"]))
    assert np.ptp(table["estimate"]) < 0.15 * truth


def test_answers_of_what_is_seen_through_a_blur_move_with_the_lag() -> None:
    table = shown(ring() // 3, 0.0)  # of four arcs: a step within one does not forget
    assert table["estimate"].iloc[1] > 1.1 * table["estimate"].iloc[0]


def test_a_question_of_the_callers_own() -> None:
    model = de.HittingTimeRegressor([0.0])
    data = {"states": ring().astype(float), "episodes": np.zeros(4000)}
    ax = de.plot.lags(model, [2], data, question=lambda fit: fit.at([6.0]), ax=Figure().subplots())
    table = de.plot.data_of(ax)
    assert table["conf_low"].iloc[0] < 36 < table["conf_high"].iloc[0]


def test_what_has_no_lag_is_refused() -> None:
    with pytest.raises(de.InputError, match="has no lagtime"):
        de.plot.lags(de.PolicyEvaluator(0.9), LAGS, [ring()])
    with pytest.raises(de.InputError, match="lagtimes is empty"):
        de.plot.lags(de.HittingTimeRegressor([0.0]), [], [ring()])
