"""The faces for people with data: the conventions that they share."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from tests.estimators.cases import ACTION, ALL, CASES, INSTRUMENT, NEXT, ROWS, STATE, X, Y, fitted, small

import dualembed as de


@ALL
def test_params_clone_and_pickle(name: str) -> None:
    estimator, data, asked = CASES[name]
    model = clone(estimator)
    assert model.fit(**data) is model
    assert model.get_params(deep=False).keys() == estimator.get_params(deep=False).keys()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(*asked), model.predict(*asked))


@ALL
def test_the_same_seed_gives_the_same_numbers(name: str) -> None:
    asked = CASES[name][2]
    np.testing.assert_array_equal(fitted(name).predict(*asked), fitted(name).predict(*asked))


@ALL
def test_before_fit_there_is_no_prediction(name: str) -> None:
    estimator, _, asked = CASES[name]
    with pytest.raises(NotFittedError):
        clone(estimator).predict(*asked)


@ALL
def test_every_fit_says_what_was_chosen_how_wrong_it_is_and_how_sure(name: str) -> None:
    asked = CASES[name][2]
    model = fitted(name)
    assert "penalty of f" in str(model.selection_)
    judged = model.diagnostics_.held_out
    assert judged.stderr > 0
    # Which of two sets comes first is learnt from rows that start in neither.
    assert judged.rows == (np.sum(np.abs(STATE) <= 0.5) if name == "committor" else ROWS)
    assert "honest held-out error" in str(model.diagnostics_)
    values, errors = model.predict(*asked, return_std=True)
    assert values.shape == errors.shape == (5,)
    assert np.all(errors > 0)
    assert np.all(np.diff(model.diagnostics_.singular_values) <= 0)


def test_solvers_and_spaces_by_name_or_as_objects() -> None:
    exact = fitted("policy").predict([1.0])
    named = de.PolicyEvaluator(0.8, solver="closed-form", **small()).fit(STATE, STATE, NEXT).predict([1.0])
    np.testing.assert_allclose(named, exact)
    step = de.schedules.OffsetSqrt(1.0, 1.0)
    given = de.PolicyEvaluator(0.8, solver=de.solvers.EmbeddingSGD(3000, 50, step), **small())
    model = given.fit(STATE, STATE, NEXT)
    assert abs(model.predict([1.0])[0] - exact[0]) < 0.4
    assert model.diagnostics_.held_out is not None
    with pytest.raises(de.InputError, match="standard errors are there for"):
        model.predict([1.0], return_std=True)
    for wrong, words in ((("solver", "magic"), "solver must be one of"), (("primal", 3), "primal must be one of")):
        with pytest.raises(de.InputError, match=words):
            de.PolicyEvaluator(0.8, **dict([wrong])).fit(STATE, STATE, NEXT)


@pytest.mark.parametrize("name", ["policy", "iv"])
def test_stochastic_steps_come_within_the_standard_errors_of_the_closed_form(name: str) -> None:
    """Without whitened coordinates they would be 1.7 standard errors away from it with instruments."""
    estimator, data, _ = CASES[name]
    asked = np.quantile(next(iter(data.values())), np.linspace(0.02, 0.98, 30))
    stochastic = clone(estimator).set_params(solver="embedding-sgd").fit(**data)
    values, errors = fitted(name).predict(asked, return_std=True)
    assert np.sqrt(np.mean(((stochastic.predict(asked) - values) / errors) ** 2)) < 0.2
    assert stochastic.function_.weights.dtype == np.float64


def test_pandas_and_polars_come_in_with_their_names() -> None:
    frame = pd.DataFrame({"position": STATE, "kind": np.where(ACTION > 0, "a", "b")})
    following = pd.DataFrame({"position": NEXT, "kind": frame["kind"]})
    model = de.PolicyEvaluator(0.8, **small()).fit(frame, pd.Series(STATE), following)
    assert model.feature_names_in_.tolist() == ["position", "kind"]
    other = de.PolicyEvaluator(0.8, **small()).fit(pl.from_pandas(frame), pl.Series(STATE), pl.from_pandas(following))
    np.testing.assert_allclose(other.predict(pl.from_pandas(frame)), model.predict(frame))
    with pytest.raises(de.InputError, match=r"no column position.*did you mean positon\?"):
        model.predict(frame.rename(columns={"position": "positon"}))


def test_pipelines_grids_and_cross_validation() -> None:
    model = de.IVRegressor(**small())
    pipeline = make_pipeline(StandardScaler(), model).fit(X, np.sin(X[:, 0]))
    assert pipeline.score(X, np.sin(X[:, 0])) > 0.99
    grid = GridSearchCV(model, {"primal": [small(0.01)["primal"], small()["primal"]]}, cv=3)
    assert grid.fit(X, np.sin(X[:, 0])).best_params_["primal"].kernel.bandwidth == 1.5
    with sklearn.config_context(enable_metadata_routing=True):
        routed = de.IVRegressor(**small()).set_fit_request(instruments=True).set_score_request(instruments=True)
        scores = cross_val_score(routed, X, Y, cv=3, params={"instruments": INSTRUMENT})
    assert np.all(np.abs(scores) < 0.2)


@pytest.mark.parametrize(
    "estimator",
    [
        de.IVRegressor(**small(4.0)),
        pytest.param(de.InvariantRegressor("noise", draws=2, test_draws=3, **small(4.0)), marks=pytest.mark.slow),
        pytest.param(de.InvariantClassifier("noise", draws=2, test_draws=3, **small(2.0)), marks=pytest.mark.slow),
    ],
    ids=lambda each: type(each).__name__,
)
def test_scikit_learn_checks_pass(estimator: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # data of the checks' own making
        check_estimator(estimator)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: de.PolicyEvaluator(1.5, **small()).fit(STATE, STATE, NEXT), "discount must not be above 1"),
        (lambda: de.PolicyEvaluator(0.9, **small()).fit(STATE, STATE[:9], NEXT), r"rewards must have shape \(1500,\)"),
        (lambda: de.PolicyEvaluator(0.9, **small()).fit(STATE, STATE, NEXT[:9]), "states have 1500 rows, but next"),
        (lambda: de.PolicyEvaluator(0.9, **small()).fit(STATE, np.full(ROWS, np.nan), NEXT), "NaN or infinity in 1500"),
        (lambda: fitted("policy").value(), "initial_states must be given"),
        (lambda: de.ActionValueEvaluator(0.9).fit(STATE, ACTION, STATE, NEXT), "a policy must be given"),
        (
            lambda: de.ActionValueEvaluator(0.9, lambda s: None).fit(STATE, ACTION, STATE, NEXT),
            "policy must give an act",
        ),
        (
            lambda: de.ActionValueEvaluator(0.9, lambda s: np.full((len(s), 2), 0.5)).fit(STATE, ACTION, STATE, NEXT),
            "probabilities of 2 actions, but there are 3: 0, 1, 2",
        ),
        (lambda: de.PolicyEvaluator(0.9).fit([None, *STATE[1:]], STATE, NEXT), "column x0 is NaN or infinity in row 0"),
        (
            lambda: de.PolicyEvaluator(0.9).fit(STATE, [1.0, None, *STATE[2:]], NEXT),
            "rewards must be finite.* in row 1",
        ),
        (lambda: de.IVRegressor().fit(X, [1.0, None, *Y[2:]]), "y is NaN or infinity in row 1"),
        (lambda: de.InvariantRegressor("noise").fit(np.full((ROWS, 1), "a"), Y), "column x0 is no number"),
        (lambda: fitted("iv").moment_error(X, Y), "instruments must be given here as in the fit"),
        (lambda: de.InvariantRegressor("wobble").fit(X, Y), "sampler must be a function"),
        (lambda: de.HittingTimeRegressor(lambda s: s).fit(STATE, NEXT), "must say yes or no for each"),
        (lambda: de.InvariantClassifier("noise").fit(X, np.arange(ROWS) % 3), "Only binary classification"),
    ],
)
def test_bad_input_is_one_clear_sentence(call: Any, words: str) -> None:
    with pytest.raises(de.InputError, match=words) as refusal:
        call()
    assert "\n" not in str(refusal.value)
