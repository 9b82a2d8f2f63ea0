"""The order of rows changes nothing where next states, or times, are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import dualembed as de
from dualembed import estimators, kernels, spaces
from dualembed.plot.surface import function_surface

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


def outside(states: Any) -> np.ndarray:
    """Another set."""
    return np.asarray(states)[:, 0] < -0.8


# (estimator, arguments of fit, points of f): one of each, with default settings.
CASES: dict[str, tuple[Any, dict[str, Any], tuple[Any, ...]]] = {
    "PolicyEvaluator": (de.PolicyEvaluator(0.8), {**STEPS, "rewards": REWARD}, (STATE[:7],)),
    "ActionValueEvaluator": (
        de.ActionValueEvaluator(0.8, even),
        {**STEPS, "actions": ACTION, "rewards": REWARD + ACTION},
        (STATE[:7], ACTION[:7]),
    ),
    "HittingTimeRegressor": (de.HittingTimeRegressor(inside), STEPS, (STATE[:7],)),
    "CommittorRegressor": (de.CommittorRegressor(outside, inside), STEPS, (STATE[:7],)),
    "StationaryAverage": (de.StationaryAverage(), STEPS, (STATE[:7],)),
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


@pytest.fixture(scope="module")
def orders() -> Any:
    """The case of a name fitted to its rows as they are, mixed and sorted; each once."""
    known: dict[str, list[Any]] = {}

    def of(name: str) -> list[Any]:
        if name not in known:
            estimator, data, _ = CASES[name]
            first = next(iter(data.values()))
            column = first if first.ndim == 1 else first[:, 0]
            orders = [np.arange(ROWS), np.random.default_rng(1).permutation(ROWS), np.argsort(column)]
            rows = [{role: np.asarray(each)[order] for role, each in data.items()} for order in orders]
            known[name] = [clone(estimator).fit(**each) for each in rows]
        return known[name]

    return of


def same(found: Any, expected: Any, place: str = "") -> None:
    """Raise unless two documents are the same up to rounding."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), place
        for key in expected:
            same(found[key], expected[key], f"{place}.{key}")
    elif isinstance(expected, (list, tuple)):
        assert len(found) == len(expected), place
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            same(one, other, f"{place}[{number}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-7, nan_ok=True), place
    else:
        assert found == expected, place


@pytest.mark.parametrize("name", CASES)
def test_nothing_that_a_fit_says_depends_on_the_order_of_rows(name: str, orders: Any) -> None:
    first, *others = (model.summary().to_dict() for model in orders(name))
    error = first.pop("honest_error")
    for other in others:
        judged = other.pop("honest_error")
        same(other, first)
        # Its regressions are searched for, where the rounding of sums in another order comes to more.
        assert (judged is None) == (error is None)
        assert error is None or abs(judged["value"] - error["value"]) < 0.002 * error["stderr"]


@pytest.mark.parametrize("name", [name for name in CASES if hasattr(CASES[name][0], "mean_derivative")])
def test_effects_do_not_depend_on_the_order_of_rows(name: str, orders: Any) -> None:
    def asked(model: Any) -> list[float]:
        questions = model.mean_derivative(0), model.average_effect(0, 1.0, -0.5), model.at(X[:9])
        return [number for each in questions for number in (model._answer(each).value, model._answer(each).stderr)]

    first, *others = map(asked, orders(name))
    for other in others:
        same(other, first)


@pytest.mark.parametrize("name", CASES)
def test_partial_dependence_does_not_depend_on_the_order_of_rows(name: str, orders: Any) -> None:
    def drawn(model: Any) -> list[list[float]]:
        surface = function_surface(model)
        found = surface.dependence(surface.axes[0])
        parts = found if isinstance(found, tuple) else vars(found).values()
        return [part.astype(float).tolist() for part in parts if isinstance(part, np.ndarray)]

    first, *others = map(drawn, orders(name))
    for other in others:
        same(other, first)


def test_effects_of_more_rows_than_are_kept_do_not_depend_on_their_order() -> None:
    """Where rows are kept by lot, and the first ones are unlike the rest."""
    rng = np.random.default_rng(3)
    z, hidden = rng.normal(size=(2, 12_000))
    x = np.sort(z + hidden)
    data = {"X": x[:, None], "y": x**2 + hidden[np.argsort(z + hidden)]}
    order = rng.permutation(len(x))
    known = {"primal": spaces.Nystrom(kernels.Gaussian(2.0), 20), "dual": spaces.Nystrom(kernels.Gaussian(2.0), 20)}
    models = [de.IVRegressor(**known).fit(**{role: each[rows] for role, each in data.items()}) for rows in (..., order)]
    found = [model.ask(model.mean_derivative(0)) for model in models]
    assert (found[1].value, found[1].stderr) == pytest.approx((found[0].value, found[0].stderr), rel=1e-6)
    assert "over a random 10,000 of 12,000 rows" in found[0].question
    assert "Means over rows are over a random 10,000 of 12,000" in str(models[0].summary())


def values(model: Any, name: str) -> np.ndarray:
    """f at the case's points."""
    ask = model.decision_function if hasattr(model, "decision_function") else model.predict
    return np.asarray(ask(*CASES[name][2]))


@pytest.mark.parametrize("name", CASES)
def test_values_do_not_depend_on_the_order_of_rows(name: str, orders: Any) -> None:
    first, *others = (values(model, name) for model in orders(name))
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-8, atol=1e-8)


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
