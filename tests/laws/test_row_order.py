"""The order of rows changes nothing where next states, or times, are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import dualembed as de
from dualembed import estimators

ROWS = 240
RNG = np.random.default_rng(0)
STATE = RNG.normal(size=(ROWS, 2))
FOLLOWING = 0.6 * STATE + 0.8 * RNG.normal(size=(ROWS, 2))
REWARD = np.sin(STATE[:, 0]) + 0.3 * RNG.normal(size=ROWS)
ACTION = RNG.integers(2, size=ROWS)
GROUP = np.arange(ROWS) // 8
TIME = np.arange(ROWS) % 8
INSTRUMENT, HIDDEN = RNG.normal(size=(2, ROWS))
X = (INSTRUMENT + HIDDEN)[:, None]
STEPS = {"states": STATE, "next_states": FOLLOWING}


def even(states: Any) -> np.ndarray:
    """The policy that takes either action equally often."""
    return np.full((len(states), 2), 0.5)


def inside(states: Any) -> np.ndarray:
    """A target."""
    return np.asarray(states)[:, 0] > 0.8


# (estimator, arguments of fit, points of f): one of each, with default settings.
CASES: dict[str, tuple[Any, dict[str, Any], tuple[Any, ...]]] = {
    "PolicyEvaluator": (de.PolicyEvaluator(0.8), {**STEPS, "rewards": REWARD}, (STATE[:7],)),
    "ActionValueEvaluator": (
        de.ActionValueEvaluator(0.8, even),
        {**STEPS, "actions": ACTION, "rewards": REWARD + ACTION},
        (STATE[:7], ACTION[:7]),
    ),
    "HittingTimeRegressor": (de.HittingTimeRegressor(inside), STEPS, (STATE[:7],)),
    "LinearControl": (
        de.LinearControl(),
        {**STEPS, "costs": np.full(ROWS, 0.1), "terminal": inside(FOLLOWING)},
        (STATE[:7],),
    ),
    "IVRegressor": (
        de.IVRegressor(),
        {"X": X, "y": np.sin(X[:, 0]) + HIDDEN, "instruments": INSTRUMENT},
        (X[:7],),
    ),
    "InvariantRegressor": (de.InvariantRegressor("noise"), {"X": X, "y": np.sin(X[:, 0]) + HIDDEN}, (X[:7],)),
    "InvariantClassifier": (de.InvariantClassifier("noise"), {"X": X, "y": X[:, 0] + HIDDEN > 0}, (X[:7],)),
}
GROUPED = [name for name in CASES if name in ("IVRegressor", "PolicyEvaluator", "ActionValueEvaluator")]


def test_every_estimator_has_a_case() -> None:
    assert {*CASES} == {*estimators.__all__}


def in_both_orders(name: str, **labels: np.ndarray) -> tuple[Any, Any]:
    """The case fitted to its rows as they are, and in another order."""
    estimator, data, _ = CASES[name]
    order = np.random.default_rng(1).permutation(ROWS)
    given = {**data, **labels}
    mixed = {role: np.asarray(column)[order] for role, column in given.items()}
    return clone(estimator).fit(**given), clone(estimator).fit(**mixed)


def values(model: Any, name: str) -> np.ndarray:
    """f at the case's points."""
    ask = model.decision_function if hasattr(model, "decision_function") else model.predict
    return np.asarray(ask(*CASES[name][2]))


@pytest.mark.parametrize("name", CASES)
def test_values_do_not_depend_on_the_order_of_rows(name: str) -> None:
    first, second = (values(model, name) for model in in_both_orders(name))
    np.testing.assert_allclose(second, first, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", GROUPED)
def test_errors_do_not_depend_on_the_order_of_rows_of_groups(name: str) -> None:
    points = CASES[name][2]
    found = [model.predict(*points, return_std=True) for model in in_both_orders(name, groups=GROUP)]
    for first, second in zip(*found, strict=True):
        np.testing.assert_allclose(second, first, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["PolicyEvaluator", "ActionValueEvaluator"])
def test_answers_do_not_depend_on_the_order_of_rows_where_times_are_given(name: str) -> None:
    first, second = (model.value() for model in in_both_orders(name, episodes=GROUP, time=TIME))
    assert second.value == pytest.approx(first.value, rel=1e-8)
    assert second.stderr == pytest.approx(first.stderr, rel=1e-8)
