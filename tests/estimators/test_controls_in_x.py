"""Controls that are columns of X are controls as if they were given beside it; scorers then need no more than X."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from tests.estimators.cases import small

import dualembed as de

ROWS = 300
RNG = np.random.default_rng(0)
TAX, HIDDEN, AGE = RNG.normal(size=(3, ROWS))
REGION = RNG.choice(["east", "west"], size=ROWS)
PRICE = TAX + HIDDEN + AGE
SALES = np.sin(PRICE) + AGE + (REGION == "west") + HIDDEN
FRAME = pd.DataFrame({"age": AGE, "price": PRICE, "region": REGION})
CONTROLS = ["age", "region"]
ARRAY = FRAME[["age", "price"]].to_numpy()


def model(**more: Any) -> de.IVRegressor:
    return de.IVRegressor(**{**small(), **more})


@pytest.fixture(scope="module")
def inside() -> de.IVRegressor:
    return model(controls=CONTROLS).fit(FRAME, SALES, instruments=TAX)


@pytest.fixture(scope="module")
def beside() -> de.IVRegressor:
    return model().fit(FRAME[["price"]], SALES, instruments=TAX, controls=FRAME[CONTROLS])


def test_a_control_in_x_is_a_control_beside_it(inside: de.IVRegressor, beside: de.IVRegressor) -> None:
    ours = inside.predict(FRAME, return_std=True)
    theirs = beside.predict(FRAME[["price"]], FRAME[CONTROLS], return_std=True)
    np.testing.assert_array_equal(ours, theirs)
    assert inside.linear_ is not None
    assert beside.linear_ is not None
    assert inside.linear_.names == beside.linear_.names
    assert inside.linear_.endogenous == ("price",)
    for effects in (
        [each.effect(0.0, 1.0) for each in (inside, beside)],
        [each.ask(each.mean_derivative("price")) for each in (inside, beside)],
        [each.effect(0.0, 1.0, by="region").answers[0] for each in (inside, beside)],
        [each.ask(each.average_effect("region", "west", "east")) for each in (inside, beside)],
        [
            inside.ask(inside.difference(FRAME.assign(price=1.0), FRAME)),
            beside.ask(beside.difference(FRAME[["price"]] * 0 + 1, FRAME[["price"]], FRAME[CONTROLS])),
        ],
    ):
        assert effects[0] == effects[1]
    assert inside.error(FRAME, SALES, instruments=TAX) == beside.error(
        FRAME[["price"]], SALES, instruments=TAX, controls=FRAME[CONTROLS]
    )
    np.testing.assert_array_equal(inside.witness(TAX, FRAME[CONTROLS]), beside.witness(TAX, FRAME[CONTROLS]))


def test_columns_of_x_keep_their_names_and_their_order(inside: de.IVRegressor) -> None:
    assert inside.feature_names_in_.tolist() == ["age", "price", "region"]
    assert inside.n_features_in_ == 3
    seen: list[list[str]] = []

    def f(X: Any) -> Any:
        seen.append(list(X))
        return X["price"]

    inside.consistency_test(FRAME, SALES, instruments=TAX, function=f)
    assert seen == [["age", "price", "region"]]
    with pytest.raises(ValueError, match="yet now missing:\n- age"):
        inside.predict(FRAME[["price", "region"]])


@pytest.mark.parametrize("controls", [[0], [True, False], ["x0"]], ids=["place", "mask", "name"])
def test_columns_of_arrays_are_named_by_places(controls: Any) -> None:
    found = model(controls=controls).fit(ARRAY, SALES, instruments=TAX)
    beside = model().fit(PRICE[:, None], SALES, instruments=TAX, controls=AGE)
    np.testing.assert_array_equal(found.predict(ARRAY), beside.predict(PRICE[:, None], AGE))
    assert found.effect(0.0, 1.0).value == beside.effect(0.0, 1.0).value
    p_values = [
        found.consistency_test(ARRAY, SALES, instruments=TAX, function=lambda X: np.sin(X[:, 1]) + X[:, 0]).p_value,
        beside.consistency_test(
            PRICE[:, None], SALES, instruments=TAX, controls=AGE, function=lambda X: np.sin(X[:, 0]) + X[:, 1]
        ).p_value,
    ]
    assert p_values[0] == p_values[1]


def test_a_category_among_controls_may_be_named_by_its_place() -> None:
    numbers = np.stack([np.arange(ROWS) % 3, PRICE], axis=1)
    found = model(controls=[0], categorical_features=[0]).fit(numbers, SALES, instruments=TAX)
    assert found.controls_ is not None
    assert found.controls_.columns[0].levels == (0, 1, 2)


def test_scorers_and_searches_work_with_controls() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        asked = model(controls=["age"]).set_fit_request(instruments=True).set_score_request(instruments=True)
        frame, params = FRAME[["age", "price"]], {"instruments": TAX}
        scores = cross_val_score(asked, frame, SALES, cv=2, params=params, error_score="raise")
        r2 = cross_val_score(asked, frame, SALES, cv=2, scoring="r2", params=params, error_score="raise")
        found = cross_val_predict(asked, frame, SALES, cv=2, params=params)
        grid = GridSearchCV(asked, {"controls": [["age"], [0]]}, cv=2).fit(frame, SALES, **params)
    assert np.isfinite([*scores, *r2, *found]).all()
    assert np.ptp(grid.cv_results_["mean_test_score"]) == 0
    weighed = permutation_importance(grid.best_estimator_, frame, SALES, scoring="r2", n_repeats=2, random_state=0)
    assert weighed.importances_mean[0] > 0.2


def test_parts_of_rows_have_their_controls_too() -> None:
    given = model(controls=["age"], primal="linear", dual="linear")
    for rows in (slice(0, 150), slice(150, ROWS)):
        given.partial_fit(FRAME[["age", "price"]][rows], SALES[rows], instruments=TAX[rows])
    whole = model(primal="linear", dual="linear").fit(FRAME[["price"]], SALES, instruments=TAX, controls=FRAME[["age"]])
    np.testing.assert_allclose(given.coef_, whole.coef_, rtol=1e-8)


@pytest.mark.parametrize(
    ("controls", "words"),
    [
        (["height"], "controls must be names or places of columns of X, or a mask"),
        ("age", "controls must be names or places of columns of X, or a mask"),
        ([], "controls name no column"),
        (["age", "price", "region"], "controls name every column"),
        (["age", 0], "controls name a column twice"),
    ],
)
def test_controls_that_are_no_columns_are_refused(controls: Any, words: str) -> None:
    with pytest.raises(de.InputError, match=words):
        model(controls=controls).fit(FRAME, SALES, instruments=TAX)


def test_controls_are_given_in_one_place(inside: de.IVRegressor) -> None:
    with pytest.raises(de.InputError, match="were given besides; give all of them in one of the two places"):
        model(controls=["age"]).fit(FRAME, SALES, instruments=TAX, controls=AGE)
    with pytest.raises(de.InputError, match="were given besides"):
        inside.predict(FRAME, FRAME[CONTROLS])
    with pytest.raises(de.InputError, match="the effect is over the rows of the fit"):
        inside.effect(0.0, 1.0, controls=FRAME[CONTROLS])
