"""scikit-learn's habits, with default estimators: clones, cross-validation, grids, routing, names, tags and checks."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.estimators.cases import above, below, even, small

import dualembed as de

RNG = np.random.default_rng(0)
ROWS = 200
STATE = RNG.normal(size=(ROWS, 1))
NEXT = 0.5 * STATE + RNG.normal(size=(ROWS, 1))
EPISODE = np.arange(ROWS) // 10
INSTRUMENT, HIDDEN = RNG.normal(size=(2, ROWS))
X = (INSTRUMENT + 0.5 * HIDDEN)[:, None]
Y = X[:, 0] + 0.5 * HIDDEN
LABEL = np.where(X[:, 0] + 0.2 * RNG.normal(size=ROWS) > 0, "up", "down")

# (estimator, X, y, what is routed besides): `fit` takes X and y by their places, whatever it calls them.
CASES: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
    "policy": (de.PolicyEvaluator(0.8), STATE, STATE[:, 0], {"next_states": NEXT, "episodes": EPISODE}),
    "action": (
        de.ActionValueEvaluator(0.8, even),
        STATE,
        np.arange(ROWS) % 3,
        {"rewards": STATE[:, 0], "next_states": NEXT, "episodes": EPISODE},
    ),
    "iv": (de.IVRegressor(), X, Y, {"instruments": INSTRUMENT}),
    "invariant": (de.InvariantRegressor("noise"), X, Y, {}),
    "classes": (de.InvariantClassifier("noise"), X, LABEL, {}),
    "hitting": (de.HittingTimeRegressor(above), STATE, NEXT, {"episodes": EPISODE}),
    "committor": (de.CommittorRegressor(below, above), STATE, NEXT, {"episodes": EPISODE}),
    "stationary": (de.StationaryAverage(), STATE, NEXT, {"episodes": EPISODE}),
    "control": (
        de.LinearControl(),
        STATE,
        np.full(ROWS, 0.1),
        {"next_states": NEXT, "terminal": NEXT[:, 0] > 0.5, "terminal_costs": np.zeros(ROWS)},
    ),
}
ALL = pytest.mark.parametrize("name", CASES)


def routed(estimator: Any, names: Any) -> Any:
    """A clone that asks for these columns in `fit` and in `score`."""
    asked = dict.fromkeys(names, True)
    return clone(estimator).set_fit_request(**asked).set_score_request(**asked) if asked else clone(estimator)


@ALL
def test_a_clone_has_the_same_parameters_and_nothing_fitted(name: str) -> None:
    estimator = CASES[name][0]
    again = clone(estimator)
    assert again is not estimator
    assert again.get_params() == estimator.get_params()
    assert set(again.get_params()) == set(inspect.signature(type(estimator)).parameters)
    assert [each for each in vars(again) if each.endswith("_")] == []
    assert repr(again) == repr(estimator)


@pytest.mark.parametrize("name", [name for name in CASES if name != "classes"])
def test_default_estimators_are_cross_validated(name: str) -> None:
    estimator, x, y, columns = CASES[name]
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("ignore", de.estimators.diagnostics.ReliabilityWarning)  # 100 rows are few
        params = {**columns, "groups": EPISODE}  # for the folds, and where it is asked for the fit
        model = routed(estimator, params.keys() & inspect.signature(estimator.fit).parameters.keys())
        scores = cross_val_score(model, x, y, cv=GroupKFold(2), params=params, error_score="raise")
    assert scores.shape == (2,)
    assert np.all(np.isfinite(scores))


def test_a_grid_chooses_among_spaces_and_keeps_the_best() -> None:
    grid = GridSearchCV(de.IVRegressor(), {"primal": ["linear", "auto"]}, cv=2).fit(X, np.sin(2 * X[:, 0]))
    linear, chosen = grid.cv_results_["mean_test_score"]
    assert chosen > 0.9 > linear
    assert grid.best_params_ == {"primal": "auto"}
    assert grid.score(X, np.sin(2 * X[:, 0])) > 0.95


def test_predictions_of_rows_left_out_are_classes_of_the_labels() -> None:
    found = cross_val_predict(de.InvariantClassifier("noise"), X, LABEL, cv=2)
    assert set(found) == {"up", "down"}
    assert np.mean(found == LABEL) > 0.85


@ALL
def test_every_column_of_fit_beyond_the_first_two_may_be_routed(name: str) -> None:
    estimator = CASES[name][0]
    more = [name for name in inspect.signature(estimator.fit).parameters if name != "missing"][2:]  # no column
    with sklearn.config_context(enable_metadata_routing=True):
        requests = routed(estimator, more).get_metadata_routing().fit.requests
    assert [name for name in more if requests[name] is not True] == []


def test_names_of_columns_are_remembered_and_held_to() -> None:
    frame = pd.DataFrame({"price": X[:, 0], "size": RNG.normal(size=ROWS)})
    model = de.IVRegressor(**small()).fit(frame, Y)
    assert model.feature_names_in_.tolist() == ["price", "size"]
    assert model.n_features_in_ == 2
    with pytest.raises(ValueError, match="seen at fit time, yet now missing:\n- price"):
        model.predict(frame.rename(columns={"price": "cost"}))
    plain = de.IVRegressor(**small()).fit(frame.to_numpy(), Y)
    assert not hasattr(plain, "feature_names_in_")
    np.testing.assert_allclose(plain.predict(frame.to_numpy()), model.predict(frame))


@ALL
def test_tags_say_what_an_estimator_is(name: str) -> None:
    estimator = CASES[name][0]
    tags = get_tags(estimator)
    assert is_regressor(estimator) == (name in {"iv", "invariant"})
    assert is_classifier(estimator) == (name == "classes")
    assert tags.target_tags.required == (name in {"iv", "invariant", "classes"})
    assert not tags.non_deterministic


DEFAULTS = [de.IVRegressor(), de.InvariantRegressor("noise"), de.InvariantClassifier("noise")]

# Checks that are known to fail, each with the reason: none.
EXPECTED: dict[str, dict[str, str]] = {}


def expected(estimator: Any) -> dict[str, str]:
    """The checks that an estimator is known to fail, with reasons."""
    return EXPECTED.get(type(estimator).__name__, {})


@pytest.mark.slow  # two minutes an estimator: most data sets have other sizes, for each of which JAX compiles anew
@pytest.mark.filterwarnings("ignore")  # data of the checks' own making
@parametrize_with_checks(DEFAULTS, expected_failed_checks=expected)  # type: ignore[untyped-decorator]
def test_default_estimators_pass_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# Those of weights, which few other checks come near, on few rows.
WEIGHTED = (
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_all_zero_sample_weights_error",
    "check_sample_weight_equivalence_on_dense_data",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WEIGHTED)
def test_the_default_regression_passes_scikit_learns_checks_of_weights(name: str) -> None:
    getattr(estimator_checks, name)("IVRegressor", de.IVRegressor())
