"""Fitting again and going on: rows in parts add up, and a failure leaves what was fitted before."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from tests.estimators.cases import ACTION, ALL, CASES, EPISODE, INSTRUMENT, NEXT, ROWS, STATE, X, Y, even, fitted, small

import dualembed as de
from dualembed import spaces
from dualembed.data.propensities import overlap
from dualembed.estimators.diagnostics import ReliabilityWarning


@pytest.mark.parametrize("name", [name for name, (model, *_) in CASES.items() if hasattr(model, "partial_fit")])
def test_rows_that_arrive_in_parts_give_nearly_the_same(name: str) -> None:
    estimator, data, asked = CASES[name]
    model = clone(estimator)
    for part in range(3):
        model.partial_fit(**{role: np.asarray(column)[part::3] for role, column in data.items()})
    assert model.diagnostics_.rows == fitted(name).diagnostics_.rows
    whole, errors = fitted(name).predict(*asked, return_std=True)
    found = model.predict(*asked)
    if name == "stationary":  # whose values are up to a constant, which follows from a state among the first rows
        whole, found = whole - whole[0], found - found[0]
    assert np.max(np.abs(found - whole) / errors) < 1.5


def test_coefficients_follow_rows_that_arrive_later() -> None:
    model = de.IVRegressor(primal="linear", dual="linear")
    for part in range(2):
        model.partial_fit(X[part::2], Y[part::2], instruments=INSTRUMENT[part::2])
    np.testing.assert_allclose(model.coef_, np.diff(model.predict([[0.0], [1.0]])))
    assert model.diagnostics_.first_stage


def test_coefficients_of_categories_follow_rows_that_arrive_later() -> None:
    rng = np.random.default_rng(0)
    (z, hidden), kind = rng.normal(size=(2, 600)), rng.choice(["a", "b", "c"], 600)
    x, y = z + hidden, 2 * z + 3 * hidden + (kind == "b") - 2.0 * (kind == "c")
    table, model = np.array(kind)[:, None], de.IVRegressor(primal="linear", dual="linear")
    whole = de.IVRegressor(primal="linear", dual="linear").fit(x[:, None], y, instruments=z, controls=table)
    for part in range(2):
        model.partial_fit(x[part::2, None], y[part::2], instruments=z[part::2], controls=table[part::2])
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-6)
    np.testing.assert_allclose(model.intercept_, whole.intercept_, atol=1e-6)
    np.testing.assert_allclose(model.coef_stderr_, whole.coef_stderr_, rtol=0.1)


def test_more_rows_of_collinear_columns_are_refused_since_they_may_tell_them_apart() -> None:
    model, both = de.IVRegressor(primal="linear", dual="linear"), np.column_stack([X[:, 0], 2 * X[:, 0] + 1, STATE])
    model.fit(both[:100], Y[:100])
    with pytest.raises(de.InputError, match="cannot add rows to a line of collinear columns"):
        model.partial_fit(both[100:], Y[100:])


def test_first_rows_without_any_reward_can_be_gone_on_from() -> None:
    model = de.PolicyEvaluator(0.8, **small()).fit(STATE, np.zeros(ROWS), NEXT)
    assert np.all(np.isfinite(model.partial_fit(STATE, STATE, NEXT).predict([1.0])))


def state_of(model: Any) -> dict[str, int]:
    """Which objects a model holds, by name."""
    return {name: id(value) for name, value in vars(model).items()}


@ALL
def test_a_fit_that_fails_leaves_the_old_one_whole(name: str) -> None:
    """The data are those of the first fit in other units, in turn with one column of them without numbers."""
    model, (_, data, asked) = fitted(name), CASES[name]
    before, expected = state_of(model), model.predict(*asked)
    other = {role: 7.0 * each if each.dtype.kind == "f" else each for role, each in data.items()}
    for role, values in other.items():
        bad = {**other, role: np.full(values.shape, np.nan)}
        with pytest.raises(ValueError, match=r"NaN|lack"):
            model.fit(**bad)
    with pytest.raises(de.InputError, match="solver must be one of"):
        model.set_params(solver="magic").fit(**other)
    model.set_params(solver="auto")
    assert state_of(model) == before
    np.testing.assert_array_equal(model.predict(*asked), expected)


def test_a_first_fit_that_fails_leaves_nothing() -> None:
    model = de.PolicyEvaluator(0.8, **small())
    with pytest.raises(de.InputError, match="rewards must be finite"):
        model.fit(STATE, np.full(ROWS, np.nan), NEXT)
    assert not any(name.endswith("_") for name in vars(model))


def test_rows_that_cannot_be_added_leave_the_sums_as_they_were() -> None:
    model = de.PolicyEvaluator(0.8, **small()).partial_fit(STATE, STATE, NEXT, episodes=EPISODE)
    before = state_of(model)
    with pytest.raises(de.InputError, match="episodes lack a label in row 3"):
        model.partial_fit(STATE, STATE, NEXT, episodes=np.where(np.arange(ROWS) == 3, np.nan, EPISODE))
    assert state_of(model) == before


def test_a_fit_of_another_kind_leaves_no_coefficients_behind() -> None:
    model = de.IVRegressor(primal="linear", dual="linear").fit(X, Y)
    assert hasattr(model, "coef_")
    assert not hasattr(model.set_params(**small()).fit(X, Y), "coef_")


def test_a_policy_may_ask_the_model_that_is_being_fitted_to_it() -> None:
    """Policy iteration: until the new fit is done, the model is the old one, in its own coordinates."""
    model = de.ActionValueEvaluator(0.5, even, **small(size=15))
    data = tuple(column[:400] for column in (10 + 5 * STATE, ACTION, 1.0 * ACTION, 10 + 5 * NEXT))
    model.fit(*data)
    old, asked = pickle.loads(pickle.dumps(model)), []

    def values(model: Any, states: Any) -> np.ndarray:
        return np.stack([model.predict(states, np.full(len(states), action)) for action in range(3)], axis=1)

    def greedy(states: Any) -> np.ndarray:
        asked.append(values(model, states))
        return np.argmax(asked[-1], axis=1)

    half = tuple(column[::2] for column in data)
    model.set_params(policy=greedy).fit(*half)
    np.testing.assert_array_equal(asked, [values(old, half[-1])] * len(asked))
    # 2 for ever is worth 4; under the first policy it was 3.
    np.testing.assert_allclose(model.predict(data[0][:5], np.full(5, 2)), 4.0, atol=0.3)


def test_the_dual_is_the_witness_of_the_function_of_all_rows() -> None:
    """The second part is another line, which the first does not know of."""
    cubic = spaces.Basis(lambda x: x ** np.arange(4))
    model = de.IVRegressor(primal="linear", dual=cubic)
    curve = np.sin(2 * X[:, 0])
    model.partial_fit(X[::2], curve[::2])
    early = np.asarray(model.dual_(model.coding_.encode(X[:50])))
    model.partial_fit(X[1::2], curve[1::2] + 3 * X[1::2, 0] ** 2)
    contexts = model.coding_.encode(X[:50])
    late = np.asarray(model.dual_(contexts))
    np.testing.assert_allclose(late, model.witness(X[:50]), atol=1e-4)
    np.testing.assert_allclose(late, np.asarray(model.solution_.dual_function(contexts)), atol=1e-6)
    assert np.abs(late - early).max() > 0.5


def test_instruments_are_judged_by_the_largest_part() -> None:
    weak = np.random.default_rng(5).normal(size=ROWS)
    with pytest.warns(ReliabilityWarning):
        model = de.IVRegressor(**small()).partial_fit(X[:500], Y[:500], instruments=weak[:500])
    first = model.diagnostics_
    model.partial_fit(X[500:900], Y[500:900], instruments=weak[500:900])
    assert any("the instruments are weak" in each for each in model.diagnostics_.warnings)
    assert model.diagnostics_.first_stage == first.first_stage
    assert "of the variance of x0 (on 500 rows)" in str(model.diagnostics_)
    model.partial_fit(X, Y, instruments=INSTRUMENT)
    share, alone = (each.diagnostics_.first_stage[0][1] for each in (model, fitted("iv")))
    assert share == pytest.approx(alone)
    assert model.diagnostics_.first_stage_rows == ROWS
    assert not any("weak" in each for each in model.diagnostics_.warnings)


def same_overlap(model: Any, weights: np.ndarray) -> bool:
    found, expected = (dataclasses.astuple(each) for each in (model.diagnostics_.overlap, overlap(weights)))
    return found[-1] == expected[-1] and found[:-1] == pytest.approx(expected[:-1])


def test_the_overlap_is_that_of_all_rows() -> None:
    weights = np.random.default_rng(5).gamma(0.05, size=ROWS)
    model = de.PolicyEvaluator(0.8, **small())
    for part in (slice(0, 300), slice(300, ROWS)):
        model.partial_fit(STATE[part], STATE[part], NEXT[part], importance_weights=weights[part])
    assert same_overlap(model, weights)
    assert model.diagnostics_.overlap.warning in model.diagnostics_.warnings
    model.partial_fit(STATE, STATE, NEXT)  # rows of the policy's own weigh 1
    assert same_overlap(model, np.concatenate([weights, np.ones(ROWS)]))
    later = de.PolicyEvaluator(0.8, **small()).partial_fit(STATE, STATE, NEXT)
    assert later.diagnostics_.overlap is None
    later.partial_fit(STATE, STATE, NEXT, importance_weights=weights)
    assert same_overlap(later, np.concatenate([np.ones(ROWS), weights]))


@pytest.mark.parametrize("kind", [de.PolicyEvaluator, de.ActionValueEvaluator])
def test_starts_of_later_episodes_count(kind: Any) -> None:
    """Those of the first part are the lower half of all, those of the second the upper."""
    policy = kind is de.PolicyEvaluator
    model = kind(0.8, **small(size=15)) if policy else kind(0.5, even, **small(size=15))
    for rows in np.split(np.argsort(STATE[:200]), 2):
        data: tuple[Any, ...] = (STATE, STATE, NEXT) if policy else (STATE, ACTION, 1.0 * ACTION, NEXT)
        data = tuple(column[rows] for column in data)
        model.partial_fit(*data, episodes=np.arange(len(rows)))
    points = model.starts_.parts[0][1].points
    assert len(points) == 200
    np.testing.assert_allclose(np.mean(points[..., 0]), np.mean(model.coding_.encode(STATE[:200])))
