"""The faces for people with data: each against an instance whose answer is known, and the conventions they share."""

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

import dualembed as de
from dualembed import kernels, spaces

RNG = np.random.default_rng(0)
ROWS = 1500
STATE = RNG.normal(size=ROWS)
NEXT = 0.5 * STATE + RNG.normal(size=ROWS)
ACTION = RNG.integers(3, size=ROWS)
EPISODE = np.arange(ROWS) // 10
INSTRUMENT, HIDDEN = RNG.normal(size=(2, ROWS))
X = (INSTRUMENT + HIDDEN)[:, None]
Y = np.sin(X[:, 0]) + HIDDEN


def small(bandwidth: float = 1.5, size: int = 40) -> dict[str, Any]:
    """Spaces that are given, so that nothing is searched for: a fit takes milliseconds."""
    primal, dual = (spaces.Nystrom(kernels.Gaussian(bandwidth), size) for _ in range(2))
    return {"primal": primal, "dual": dual}


def even(states: Any) -> np.ndarray:
    return np.full((len(states), 3), 1 / 3)


def above(states: Any) -> np.ndarray:
    return np.asarray(states)[:, 0] > 0.5


# (estimator, arguments of fit, arguments of predict): one of each, fitted in no time.
CASES: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = {
    "policy": (de.PolicyEvaluator(0.8, **small()), (STATE, STATE, NEXT), (STATE[:5],)),
    "action": (
        de.ActionValueEvaluator(0.5, even, **small()),
        (STATE, ACTION, 1.0 * ACTION, NEXT),
        (STATE[:5], ACTION[:5]),
    ),
    "iv": (de.IVRegressor(**small()), (X, Y, INSTRUMENT), (X[:5],)),
    "invariant": (de.InvariantRegressor("noise", **small()), (X, Y), (X[:5],)),
    "hitting": (de.HittingTimeRegressor(above, **small()), (STATE, NEXT), (STATE[:5],)),
    "control": (
        de.LinearControl(**small()),
        (STATE, np.full(ROWS, 0.1), NEXT, NEXT > 0.5, np.zeros(ROWS)),
        (STATE[:5],),
    ),
}
ALL = pytest.mark.parametrize("name", CASES)


def fitted(name: str) -> Any:
    estimator, data, _ = CASES[name]
    return clone(estimator).fit(*data)


@ALL
def test_params_clone_and_pickle(name: str) -> None:
    estimator, data, asked = CASES[name]
    model = clone(estimator)
    assert model.fit(*data) is model
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
    assert judged.rows == ROWS
    assert "honest held-out error" in str(model.diagnostics_)
    values, errors = model.predict(*asked, return_std=True)
    assert values.shape == errors.shape == (5,)
    assert np.all(errors > 0)
    assert np.all(np.diff(model.diagnostics_.singular_values) <= 0)


@pytest.mark.parametrize("name", [name for name, (model, *_) in CASES.items() if hasattr(model, "partial_fit")])
def test_rows_that_arrive_in_parts_give_nearly_the_same(name: str) -> None:
    estimator, data, asked = CASES[name]
    model = clone(estimator)
    for part in range(3):
        model.partial_fit(*(np.asarray(column)[part::3] for column in data))
    assert model.diagnostics_.rows == ROWS
    whole, errors = fitted(name).predict(*asked, return_std=True)
    assert np.max(np.abs(model.predict(*asked) - whole) / errors) < 1.5


def test_policy_evaluator_finds_the_known_value_and_its_error() -> None:
    model = de.PolicyEvaluator(0.8).fit(STATE, STATE, NEXT, episodes=EPISODE)
    truth = np.array([1.0, -1.0]) / 0.6
    values, errors = model.predict([1.0, -1.0], return_std=True)
    assert np.all(np.abs(values - truth) < 3 * errors)
    lower, upper = model.interval([1.0, -1.0], level=0.99)
    np.testing.assert_allclose(upper - lower, 2 * 2.5758 * errors, rtol=1e-3)
    assert np.all((lower < truth) & (truth < upper))
    value = model.value([[1.0]])
    assert abs(value.value - truth[0]) < 3 * value.stderr
    assert model.value().interval()[0] < np.mean(STATE[::10]) / 0.6 < model.value().interval()[1]
    fresh = np.random.default_rng(1).normal(size=(2, ROWS))
    following = 0.5 * fresh[0] + fresh[1]
    error = model.bellman_error(fresh[0], fresh[0], following)
    assert error.value < 3 * error.stderr
    assert model.score(fresh[0], fresh[0], following) == -error.value
    right, wrong = (
        model.consistency_test(fresh[0], fresh[0], following, function=lambda s, slope=slope: slope * s[:, 0]).p_value
        for slope in (1 / 0.6, 1.2)
    )
    assert wrong < 0.01 < right
    scaled = de.PolicyEvaluator(0.8).fit(1000 * STATE, STATE, 1000 * NEXT)
    plain = de.PolicyEvaluator(0.8).fit(STATE, STATE, NEXT)
    expected = plain.predict(STATE)
    np.testing.assert_allclose(scaled.predict(1000 * STATE), expected, rtol=1e-6, atol=1e-6 * expected.std())


def test_action_values_of_a_known_process() -> None:
    # The reward is the action, and the policy takes 0, 1 and 2 equally often: Q = a + 0.5 · 1 / (1 - 0.5).
    model = fitted("action")
    values, errors = model.predict(np.zeros(3), [0, 1, 2], return_std=True)
    assert np.all(np.abs(values - np.array([1.0, 2.0, 3.0])) < np.maximum(3 * errors, 0.05))
    value = model.value(STATE[:50])
    assert abs(value.value - 2.0) < max(3 * value.stderr, 0.05)


def test_a_deterministic_policy_and_its_actions_are_the_same() -> None:
    def always(states: Any) -> np.ndarray:
        return np.full(len(states), 2)

    data = (STATE, ACTION, 1.0 * ACTION, NEXT)
    asked = de.ActionValueEvaluator(0.5, always, **small()).fit(*data)
    given = de.ActionValueEvaluator(0.5, **small()).fit(*data, next_actions=np.full(ROWS, 2))
    np.testing.assert_allclose(asked.predict(STATE[:5], ACTION[:5]), given.predict(STATE[:5], ACTION[:5]))


def test_continuous_actions_are_numbers() -> None:
    action = RNG.normal(size=(ROWS, 2))
    model = de.ActionValueEvaluator(0.5, lambda states: np.zeros((len(states), 2)), **small(3.0))
    model.fit(STATE, action, action.sum(axis=1), NEXT)
    assert abs(model.predict([0.0], [[1.0, 0.5]])[0] - 1.5) < 0.3


def test_iv_regression_with_straight_lines_is_two_stage_least_squares() -> None:
    model = de.IVRegressor(primal="linear", dual="linear").fit(X, 3 + 2 * X[:, 0] + HIDDEN, INSTRUMENT)
    wald = np.cov(INSTRUMENT, 3 + 2 * X[:, 0] + HIDDEN)[0, 1] / np.cov(INSTRUMENT, X[:, 0])[0, 1]
    np.testing.assert_allclose(model.coef_, [wald])
    residual = 3 + 2 * X[:, 0] + HIDDEN - model.predict(X)
    centred = INSTRUMENT - INSTRUMENT.mean()
    robust = np.sqrt(np.sum((centred * residual) ** 2)) / abs(centred @ X[:, 0])  # White's
    np.testing.assert_allclose(model.coef_stderr_, [robust], rtol=1e-3)
    np.testing.assert_allclose(model.predict([[0.0]]), model.intercept_)


def test_controls_stand_on_both_sides() -> None:
    control = RNG.normal(size=ROWS)
    y = 2 * X[:, 0] - control + HIDDEN
    model = de.IVRegressor(primal="linear", dual="linear").fit(X, y, INSTRUMENT, controls=control)
    np.testing.assert_allclose(model.coef_, [2, -1], atol=0.15)
    assert model.predict(X[:3], control[:3]).shape == (3,)
    # What the controls predict is none of the instruments' doing.
    x = X + 3 * control[:, None]
    weak = de.IVRegressor(primal="linear", dual="linear")
    weak.fit(x, y, np.random.default_rng(5).normal(size=ROWS), controls=control)
    assert weak.diagnostics_.first_stage[0][1] < 0.05
    with pytest.raises(de.InputError, match="controls must be given here as in the fit"):
        model.predict(X[:3])


def test_names_of_categories_may_be_those_of_any_table() -> None:
    z = pd.DataFrame({"college": RNG.integers(3, size=ROWS)})
    model = de.IVRegressor(categorical_features=["college"], primal="linear", dual="linear").fit(X, Y, z)
    assert model.instruments_.dimension == 3
    with pytest.raises(de.InputError, match="categorical_features must be names or places of columns of X"):
        de.IVRegressor(categorical_features=["collage"], primal="linear", dual="linear").fit(X, Y, z)


def test_weak_instruments_are_named_in_plain_words() -> None:
    model = de.IVRegressor(**small()).fit(X, Y, np.random.default_rng(5).normal(size=ROWS))
    assert any("the instruments are weak" in each for each in model.diagnostics_.warnings)
    assert not any("weak" in each for each in fitted("iv").diagnostics_.warnings)


def test_without_instruments_it_is_regression_with_r_squared() -> None:
    model = de.IVRegressor(**small()).fit(X, np.sin(X[:, 0]))
    assert model.score(X, np.sin(X[:, 0])) > 0.99


def test_hitting_times_of_a_known_process() -> None:
    rng = np.random.default_rng(2)
    state, following = rng.uniform(size=(2, ROWS))  # independent: h = 1 / P(s' > 0.5) = 2 everywhere
    model = de.HittingTimeRegressor(above, **small()).fit(state, following)
    values, errors = model.predict([0.1, 0.4, 0.9], return_std=True)
    assert np.all(np.abs(values - 2) < np.maximum(3 * errors, 0.05))


def test_hitting_times_of_labels() -> None:
    # left -> middle or right, both -> left: h(left) = 2 / P(right) - 1, and one step more from the others.
    rng = np.random.default_rng(3)
    state = rng.choice(["left", "middle", "right"], size=3000)
    following = np.where(state == "left", rng.choice(["middle", "right"], size=3000), "left")
    frame, after = pd.DataFrame({"place": state}), pd.DataFrame({"place": following})
    model = de.HittingTimeRegressor(["right"], primal="linear", dual="linear").fit(frame, after)
    found = model.predict(pd.DataFrame({"place": ["left", "middle", "right"]}))
    share = np.mean(following[state == "left"] == "right")  # about 1/2; the rest is linear algebra
    np.testing.assert_allclose(found, [2 / share - 1, 2 / share, 2 / share], rtol=1e-6)


def test_desirability_of_a_known_process() -> None:
    rng = np.random.default_rng(2)
    state, following = rng.uniform(size=(2, ROWS))
    model = de.LinearControl(**small()).fit(state, np.full(ROWS, 0.1), following, following > 0.5)
    passing = 0.5 * np.exp(-0.1)
    np.testing.assert_allclose(model.predict([0.2, 0.8]), passing / (1 - passing), atol=0.05)
    np.testing.assert_allclose(model.cost_to_go([0.2]), -np.log(model.predict([0.2])))


def test_importance_weights_come_with_their_overlap() -> None:
    weights = np.where(RNG.uniform(size=ROWS) < 0.01, 100.0, 1e-3)
    model = de.PolicyEvaluator(0.8, **small()).fit(STATE, STATE, NEXT, weights=weights)
    assert model.diagnostics_.overlap.effective_sample_size < 50
    assert model.diagnostics_.warnings


@pytest.mark.parametrize("order", ["repeat", "tile"])
def test_rows_of_one_group_stay_in_one_fold(order: str) -> None:
    # Five copies of a hundred rows, the effect is 0: copies in other folds would bring back the bias of many moments.
    rng = np.random.default_rng(0)
    instrument, hidden = rng.normal(size=(2, 100))
    x = 0.5 * instrument + hidden
    unit = np.arange(100)
    copied = (lambda column: np.repeat(column, 5)) if order == "repeat" else (lambda column: np.tile(column, 5))
    model = de.IVRegressor(primal=spaces.Affine(), dual=small()["dual"])
    model.fit(copied(x)[:, None], copied(hidden), copied(instrument), groups=copied(unit))
    alone = de.IVRegressor(primal=spaces.Affine(), dual=small()["dual"]).fit(x[:, None], hidden, instrument)
    assert abs(np.diff(model.predict([[0.0], [1.0]]))[0] - np.diff(alone.predict([[0.0], [1.0]]))[0]) < 0.15


def test_an_instrument_of_the_group_is_not_strong_because_groups_differ() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(40), 25)
    x = rng.normal(size=40)[group] + 0.5 * rng.normal(size=1000)
    model = de.IVRegressor(primal="linear", dual="linear")
    model.fit(x[:, None], x, rng.normal(size=40)[group], groups=group)
    assert model.diagnostics_.first_stage[0][1] < 0.1


def test_coefficients_follow_rows_that_arrive_later() -> None:
    model = de.IVRegressor(primal="linear", dual="linear")
    for part in range(2):
        model.partial_fit(X[part::2], Y[part::2], INSTRUMENT[part::2])
    np.testing.assert_allclose(model.coef_, np.diff(model.predict([[0.0], [1.0]])))
    assert model.diagnostics_.first_stage


def test_first_rows_without_any_reward_can_be_gone_on_from() -> None:
    model = de.PolicyEvaluator(0.8, **small()).fit(STATE, np.zeros(ROWS), NEXT)
    assert np.all(np.isfinite(model.partial_fit(STATE, STATE, NEXT).predict([1.0])))


def test_functions_of_whole_numbers_see_whole_numbers() -> None:
    seen = []

    def table(states: np.ndarray) -> np.ndarray:
        seen.append(states)
        return np.zeros(len(states))

    rooms = RNG.integers(10, size=(2, 300)).astype(float)
    de.PolicyEvaluator(0.5).consistency_test(rooms[0], np.zeros(300), rooms[1], function=table)
    np.testing.assert_allclose(seen[0], np.round(seen[0]), atol=1e-12)


def test_targets_and_policies_see_states_by_the_names_of_the_fit() -> None:
    grid = pd.DataFrame(RNG.integers(3, size=(300, 2)), columns=["a", "b"]).astype(float)
    after = pd.DataFrame(RNG.integers(3, size=(300, 2)), columns=["a", "b"]).astype(float)
    by_place = de.HittingTimeRegressor([[1.0, 2.0]], **small()).fit(grid, after).predict(grid)
    by_name = de.HittingTimeRegressor([[1.0, 2.0]], **small()).fit(grid, after[["b", "a"]]).predict(grid)
    np.testing.assert_allclose(by_name, by_place)
    inside = lambda states: (states["a"] == 1) & (states["b"] == 2)  # noqa: E731
    renamed = de.HittingTimeRegressor(inside, **small()).fit(grid, after.add_prefix("next_")).predict(grid)
    np.testing.assert_allclose(renamed, by_place)
    policy = lambda states: (states["a"] > 1).astype(int)  # noqa: E731
    model = de.ActionValueEvaluator(0.5, policy, **small())
    model.fit(grid, RNG.integers(2, size=300), np.ones(300), after.add_prefix("next_"), episodes=np.arange(300) // 10)
    assert abs(model.value().value - 2) < 0.1


def test_an_invariant_prediction_does_not_change_between_calls() -> None:
    model = de.InvariantRegressor("noise", draws=2, random_state=None, **small()).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X[:5]), model.predict(X[:5]))


def test_costs_of_rows_that_go_on_do_not_matter() -> None:
    ends = NEXT > 0.5
    costs = np.where(ends, 0.0, np.nan)
    given = de.LinearControl(**small()).fit(STATE, np.full(ROWS, 0.1), NEXT, ends, costs).predict(STATE[:5])
    np.testing.assert_array_equal(given, fitted("control").predict(STATE[:5]))


def test_a_handful_of_episodes_is_warned_of() -> None:
    model = de.PolicyEvaluator(0.8, **small()).fit(STATE, STATE, NEXT, episodes=np.arange(ROWS) // 500)
    assert any("only 3 episodes" in each for each in model.diagnostics_.warnings)


def test_states_that_never_change_have_one_value() -> None:
    model = de.PolicyEvaluator(0.5).fit(np.ones(50), np.ones(50), np.ones(50))
    assert abs(model.predict([1.0])[0] - 2) < 0.05


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


def test_an_invariant_regressor_learns_the_function_behind_noisy_inputs() -> None:
    rng = np.random.default_rng(4)
    clean = rng.uniform(-2, 2, size=3000)
    noisy = clean + 0.5 * rng.normal(size=3000)
    # y = f(clean), and given the noisy input the clean one is about N(noisy, 0.25): the sampler's distribution.
    model = de.InvariantRegressor(de.samplers.AdditiveNoise(0.5), **small(0.7)).fit(noisy[:, None], np.sin(2 * clean))
    inside = np.linspace(-1, 1, 9)
    blurred = np.abs(model.predict(inside[:, None]) - np.sin(2 * inside)).max()
    itself = np.abs(model.function(inside[:, None]) - np.sin(2 * inside)).max()
    assert itself < 0.5 * blurred


def test_an_invariant_classifier_gives_probabilities() -> None:
    labels = np.where(X[:, 0] + 0.3 * HIDDEN > 0, "yes", "no")
    model = de.InvariantClassifier("noise", draws=2, **small()).fit(X, labels)
    shares = model.predict_proba([[2.0], [-2.0]])
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert shares[0, 1] > 0.9 > 0.1 > shares[1, 1]
    assert model.predict([[2.0], [-2.0]]).tolist() == ["yes", "no"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: de.PolicyEvaluator(1.5, **small()).fit(STATE, STATE, NEXT), "discount must not be above 1"),
        (lambda: de.PolicyEvaluator(0.9, **small()).fit(STATE, STATE[:9], NEXT), r"rewards must have shape \(1500,\)"),
        (lambda: de.PolicyEvaluator(0.9, **small()).fit(STATE, STATE, NEXT[:9]), "states have 1500 rows, but next"),
        (lambda: de.PolicyEvaluator(0.9, **small()).fit(STATE, np.full(ROWS, np.nan), NEXT), "NaN or infinity in 1500"),
        (lambda: fitted("policy").value(), "initial_states must be given"),
        (lambda: de.ActionValueEvaluator(0.9).fit(STATE, ACTION, STATE, NEXT), "a policy must be given"),
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
