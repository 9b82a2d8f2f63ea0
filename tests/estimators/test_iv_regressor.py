"""Regression with instruments and without: coefficients, controls, categories, groups and scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.model_selection import GroupKFold, cross_val_score
from tests.estimators.cases import HIDDEN, INSTRUMENT, ROWS, X, Y, fitted, small

import dualembed as de
from dualembed import spaces
from dualembed.estimators.diagnostics import ReliabilityWarning

RNG = np.random.default_rng(7)


def test_iv_regression_with_straight_lines_is_two_stage_least_squares() -> None:
    model = de.IVRegressor(primal="linear", dual="linear").fit(X, 3 + 2 * X[:, 0] + HIDDEN, instruments=INSTRUMENT)
    wald = np.cov(INSTRUMENT, 3 + 2 * X[:, 0] + HIDDEN)[0, 1] / np.cov(INSTRUMENT, X[:, 0])[0, 1]
    np.testing.assert_allclose(model.coef_, [wald])
    residual = 3 + 2 * X[:, 0] + HIDDEN - model.predict(X)
    centred = INSTRUMENT - INSTRUMENT.mean()
    robust = np.sqrt(np.sum((centred * residual) ** 2)) / abs(centred @ X[:, 0])  # White's
    np.testing.assert_allclose(model.coef_stderr_, [robust], rtol=1e-3)
    np.testing.assert_allclose(model.predict([[0.0]]), model.intercept_)


def test_a_band_is_around_all_intervals() -> None:
    model = de.IVRegressor(primal="linear", dual="linear").fit(X, 3 + 2 * X[:, 0] + HIDDEN, instruments=INSTRUMENT)
    places = np.linspace(-1, 1, 5)[:, None]
    (low, high), (lower, upper) = model.band(places), model.interval(places)
    assert np.all(low < lower)
    assert np.all(upper < high)


def test_controls_stand_on_both_sides() -> None:
    control = RNG.normal(size=ROWS)
    y = 2 * X[:, 0] - control + HIDDEN
    model = de.IVRegressor(primal="linear", dual="linear").fit(X, y, instruments=INSTRUMENT, controls=control)
    np.testing.assert_allclose(model.coef_, [2, -1], atol=0.15)
    assert model.predict(X[:3], control[:3]).shape == (3,)
    # What the controls predict is none of the instruments' doing.
    x = X + 3 * control[:, None]
    weak = de.IVRegressor(primal="linear", dual="linear")
    with pytest.warns(ReliabilityWarning):
        weak.fit(x, y, instruments=np.random.default_rng(5).normal(size=ROWS), controls=control)
    assert weak.diagnostics_.first_stage[0][1] < 0.05
    with pytest.raises(de.InputError, match="controls must be given here as in the fit"):
        model.predict(X[:3])


@pytest.mark.filterwarnings("ignore:the instruments are weak")
def test_names_of_categories_may_be_those_of_any_table() -> None:
    z = pd.DataFrame({"college": RNG.integers(3, size=ROWS)})
    model = de.IVRegressor(categorical_features=["college"], primal="linear", dual="linear").fit(X, Y, instruments=z)
    assert model.instruments_.dimension == 3
    with pytest.raises(de.InputError, match="categorical_features must be names or places of columns of X"):
        de.IVRegressor(categorical_features=["collage"], primal="linear", dual="linear").fit(X, Y, instruments=z)


def test_weak_instruments_are_named_in_plain_words() -> None:
    with pytest.warns(ReliabilityWarning, match="the instruments are weak"):
        model = de.IVRegressor(**small()).fit(X, Y, instruments=np.random.default_rng(5).normal(size=ROWS))
    assert any("the instruments are weak" in each for each in model.diagnostics_.warnings)
    assert not any("weak" in each for each in fitted("iv").diagnostics_.warnings)


def test_without_instruments_it_is_regression_with_r_squared() -> None:
    model = de.IVRegressor(**small()).fit(X, np.sin(X[:, 0]))
    assert model.score(X, np.sin(X[:, 0])) > 0.99


@pytest.mark.filterwarnings("ignore:the instruments are weak")
@pytest.mark.parametrize("order", ["repeat", "tile"])
def test_rows_of_one_group_stay_in_one_fold(order: str) -> None:
    # Five copies of a hundred rows, the effect is 0: copies in other folds would bring back the bias of many moments.
    rng = np.random.default_rng(0)
    instrument, hidden = rng.normal(size=(2, 100))
    x = 0.5 * instrument + hidden
    unit = np.arange(100)
    copied = (lambda column: np.repeat(column, 5)) if order == "repeat" else (lambda column: np.tile(column, 5))
    model = de.IVRegressor(primal=spaces.Affine(), dual=small()["dual"])
    model.fit(copied(x)[:, None], copied(hidden), instruments=copied(instrument), groups=copied(unit))
    alone = de.IVRegressor(primal=spaces.Affine(), dual=small()["dual"]).fit(x[:, None], hidden, instruments=instrument)
    assert abs(np.diff(model.predict([[0.0], [1.0]]))[0] - np.diff(alone.predict([[0.0], [1.0]]))[0]) < 0.15


@pytest.mark.filterwarnings("ignore:the instruments are weak")
def test_an_instrument_of_the_group_is_not_strong_because_groups_differ() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(40), 25)
    x = rng.normal(size=40)[group] + 0.5 * rng.normal(size=1000)
    model = de.IVRegressor(primal="linear", dual="linear")
    model.fit(x[:, None], x + rng.normal(size=1000), instruments=rng.normal(size=40)[group], groups=group)
    assert model.diagnostics_.first_stage[0][1] < 0.1


def test_where_x_is_constant_coefficients_and_decoded_controls_stay_in_their_places() -> None:
    control = 5 + 3 * RNG.normal(size=ROWS)
    constant, y = np.full((ROWS, 1), 4.0), 2.0 * control + 0.1 * HIDDEN
    model = de.IVRegressor(primal="linear", dual="linear").fit(constant, y, controls=control)
    slope, _ = np.polyfit(control, y, 1)
    np.testing.assert_allclose(model.coef_, [0.0, slope], rtol=1e-6)
    line = model.coef_[1] * control[:3] + model.intercept_
    np.testing.assert_allclose(model.predict(constant[:3], control[:3]), line)
    assert model.coef_stderr_[0] == 0 < model.coef_stderr_[1] < 0.01
    seen = []

    def twice(table: np.ndarray) -> np.ndarray:
        seen.append(table)
        return 2.0 * table[:, 1]

    assert model.consistency_test(constant, y, controls=control, function=twice).p_value > 0.01
    np.testing.assert_allclose(seen[0], np.stack([constant[:, 0], control], axis=1))


def test_a_constant_category_takes_no_place_among_the_endogenous_columns() -> None:
    table = pd.DataFrame({"place": "here", "price": X[:, 0]})
    model = de.IVRegressor(primal="linear", dual="linear").fit(table, Y, instruments=INSTRUMENT)
    assert [name for name, _ in model.diagnostics_.first_stage] == ["price"]
    with pytest.raises(de.InputError, match=r"no column of X varies \(place\)"):
        de.IVRegressor(primal="linear", dual="linear").fit(table[["place"]], Y, instruments=INSTRUMENT)


def test_columns_without_names_are_called_by_what_they_are() -> None:
    kind = RNG.choice(["a", "b", "c"], size=ROWS)
    control = RNG.normal(size=ROWS)
    seen = []

    def look(table: dict[str, np.ndarray]) -> np.ndarray:
        seen.append(table)
        return np.zeros(ROWS)

    de.IVRegressor().consistency_test(kind[:, None], Y, instruments=INSTRUMENT, controls=control, function=look)
    assert list(seen[0]) == ["x0", "control"]
    assert seen[0]["x0"].tolist() == kind.tolist()
    np.testing.assert_allclose(seen[0]["control"], control)
    model = de.IVRegressor(primal="linear", dual="linear").fit(
        X, Y, instruments=np.stack([INSTRUMENT, INSTRUMENT**2], axis=1), controls=control
    )
    assert [coding.names for coding in (model.coding_, model.instruments_, model.controls_)] == [
        ["x0"],
        ["instrument 0", "instrument 1"],
        ["control"],
    ]


@pytest.mark.filterwarnings("ignore:the instruments are weak")
def test_names_of_categories_reach_columns_without_names() -> None:
    kind = RNG.integers(3, size=ROWS).astype(float)
    linear = {"primal": "linear", "dual": "linear"}
    model = de.IVRegressor(categorical_features=["x0"], **linear).fit(
        kind[:, None], Y, instruments=np.stack([kind == 1, kind == 2], axis=1).astype(float)
    )
    assert model.coding_.dimension == 3
    model = de.IVRegressor(categorical_features=["control"], **linear).fit(X, Y, controls=kind)
    assert (model.coding_.dimension, model.controls_.dimension) == (1, 3)


def test_a_name_in_x_and_in_controls_is_refused() -> None:
    table = pd.DataFrame({"age": X[:, 0], "sex": np.where(HIDDEN > 0, "f", "m")})
    model = de.IVRegressor(primal="linear", dual="linear")
    with pytest.raises(de.InputError, match="X and controls both have a column sex; leave it out of one"):
        model.fit(table, Y, controls=table[["sex"]])
    # A column that is exogenous may well be its own instrument.
    model.fit(table, Y, instruments=table.assign(price=INSTRUMENT))


def test_the_score_keeps_groups_together() -> None:
    group = np.arange(ROWS) // 10
    model = fitted("iv")
    score = model.score(X, Y, instruments=INSTRUMENT, groups=group)
    assert score == -model.moment_error(X, Y, instruments=INSTRUMENT, groups=group).value
    assert score != model.score(X, Y, instruments=INSTRUMENT)
    with pytest.raises(de.InputError, match="groups lack a label"):
        model.score(X, Y, instruments=INSTRUMENT, groups=np.where(group == 0, np.nan, group))
    plain = de.IVRegressor(**small()).fit(X, Y)
    assert plain.score(X, Y, groups=group) == plain.score(X, Y)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = {"instruments": True, "groups": True}
        routed = de.IVRegressor(**small()).set_fit_request(**asked).set_score_request(**asked)
        scores = cross_val_score(routed, X, Y, cv=GroupKFold(3), params={"instruments": INSTRUMENT, "groups": group})
    assert np.all(np.abs(scores) < 0.2)


@pytest.mark.parametrize("kind", ["array", "list", "series", "named series", "polars series"])
def test_one_column_without_a_second_axis_means_the_same_at_fit_and_at_predict(kind: str) -> None:
    made = {
        "array": np.asarray,
        "list": list,
        "series": pd.Series,
        "named series": lambda column: pd.Series(column, name="dose"),
        "polars series": lambda column: pl.Series("dose", column),
    }[kind]
    expected = fitted("iv")
    model = de.IVRegressor(**small()).fit(made(X[:, 0]), Y, instruments=INSTRUMENT)
    np.testing.assert_array_equal(model.predict(made(X[:5, 0])), expected.predict(X[:5]))
    np.testing.assert_array_equal(model.interval(made(X[:5, 0])), expected.interval(X[:5]))
    assert model.score(made(X[:, 0]), Y, instruments=INSTRUMENT) == expected.score(X, Y, instruments=INSTRUMENT)
    model.partial_fit(made(X[:60, 0]), Y[:60], instruments=INSTRUMENT[:60])
    assert model.diagnostics_.rows == ROWS + 60


def test_a_column_is_predicted_for_however_the_fit_had_it() -> None:
    table = de.IVRegressor(**small()).fit(X, Y)
    np.testing.assert_array_equal(table.predict(X[:5, 0]), table.predict(X[:5]))
    named = de.IVRegressor(**small()).fit(pd.Series(X[:, 0], name="dose"), Y)
    np.testing.assert_array_equal(named.predict(pd.DataFrame({"dose": X[:5, 0]})), table.predict(X[:5]))
    assert named.feature_names_in_.tolist() == ["dose"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: de.IVRegressor().fit(X[:, 0], Y),
            r"X has shape \(1500,\).*Reshape your data, with X.reshape\(-1, 1\)",
        ),
        (lambda: de.IVRegressor().fit(list(X[:, 0]), Y), r"Reshape your data, with X.reshape\(-1, 1\)"),
        (
            lambda: de.IVRegressor(primal="linear", dual="linear").fit(np.hstack([X, X**2]), Y).predict(X[:5, 0]),
            r"X has shape \(5,\), but was fitted with 2 columns; Reshape your data to a table",
        ),
    ],
)
def test_a_row_of_numbers_that_could_be_either_is_refused(call: Any, words: str) -> None:
    with pytest.raises(de.InputError, match=words) as refusal:
        call()
    assert "\n" not in str(refusal.value)


def test_scores_are_of_the_rows_that_have_weight() -> None:
    weights = np.where(np.arange(ROWS) < 100, 1.0, 0.0)
    plain = de.IVRegressor(**small()).fit(X, Y)
    assert plain.score(X, Y, sample_weight=weights) == pytest.approx(plain.score(X[:100], Y[:100]))
    model = fitted("iv")
    weighted = model.score(X, Y, instruments=INSTRUMENT, sample_weight=weights)
    assert weighted == pytest.approx(model.score(X[:100], Y[:100], instruments=INSTRUMENT[:100]))


LINE = {"primal": "linear", "dual": "linear"}


def columns_of_a_line(rows: int = 400, seed: int = 0) -> dict[str, np.ndarray]:
    """y = 2 x + w + 3 u with a hidden u, an instrument z and a control w."""
    rng = np.random.default_rng(seed)
    z, w, u, e = rng.normal(size=(4, rows))
    x = z + 0.5 * w + u
    return {"x": x, "y": 2 * x + w + 3 * u + e, "z": z, "w": w}


@pytest.mark.parametrize(
    ("instruments", "controls", "message"),
    [
        ("z", None, r"2 endogenous columns \(price, other\) cannot be told apart by 1 instrument"),
        ("w", "w", "says the same as"),
        ("one", None, r"no instrument varies \(instrument\)"),
    ],
)
def test_lines_that_are_not_identified_are_refused_by_name(instruments: str, controls: Any, message: str) -> None:
    columns = columns_of_a_line()
    columns["one"] = np.ones(400)
    x = pd.DataFrame({"price": columns["x"], "other": columns["x"] ** 2})
    x = x if instruments == "z" else x[["price"]]
    given = {} if controls is None else {"controls": columns[controls]}
    with pytest.raises(de.InputError, match=message):
        de.IVRegressor(**LINE).fit(x, columns["y"], instruments=columns[instruments], **given)


def test_fewer_rows_than_columns_are_refused_with_instruments() -> None:
    columns = columns_of_a_line(6)
    many = np.random.default_rng(1).normal(size=(6, 8))
    with pytest.raises(de.InputError, match="rows"):
        de.IVRegressor(**LINE).fit(columns["x"], columns["y"], instruments=columns["z"], controls=many)


def test_a_line_has_one_error_and_that_is_two_stage_least_squares() -> None:
    columns = columns_of_a_line()
    model = de.IVRegressor(**LINE).fit(columns["x"], columns["y"], instruments=columns["z"], controls=columns["w"])
    design = np.stack([columns["x"], columns["w"], np.ones(400)], axis=1)
    exogenous = np.stack([columns["z"], columns["w"], np.ones(400)], axis=1)
    inverse = np.linalg.inv(exogenous.T @ design)
    beta = inverse @ exogenous.T @ columns["y"]
    scores = exogenous * (columns["y"] - design @ beta)[:, None]
    stderr = np.sqrt(np.diag(inverse @ scores.T @ scores @ inverse.T) * 400 / 397)
    np.testing.assert_allclose(model.coef_, beta[:2], rtol=1e-9)
    np.testing.assert_allclose(model.coef_stderr_, stderr[:2], rtol=1e-8)
    answer = model.effect(0.0, 1.0)
    assert (answer.value, answer.stderr) == (pytest.approx(beta[0]), pytest.approx(stderr[0]))
    assert model.linear_.params["x0"] == pytest.approx(beta[0])
    assert model.linear_.std_errors["x0"] == pytest.approx(stderr[0])
    assert model.summary().headline.stderr == pytest.approx(stderr[0])
    assert list(model.linear_.tidy().columns)[:3] == ["term", "estimate", "std_error"]


def test_categories_among_controls_leave_the_coefficients_there() -> None:
    columns = columns_of_a_line()
    region = np.random.default_rng(2).choice(["north", "south", "west"], size=400)
    model = de.IVRegressor(**LINE).fit(
        columns["x"], columns["y"], instruments=columns["z"], controls=pd.DataFrame({"region": region})
    )
    assert model.coef_names_ == ("x0", "region=south", "region=west")
    assert abs(model.coef_[0] - 2) < 4 * model.coef_stderr_[0]


def test_few_clusters_have_intervals_of_few_degrees_of_freedom() -> None:
    columns = columns_of_a_line(600)
    groups = np.arange(600) % 10
    model = de.IVRegressor(**LINE).fit(columns["x"], columns["y"], instruments=columns["z"], groups=groups)
    answer = model.effect(0.0, 1.0)
    assert answer.freedom == 9
    lower, upper = model.interval([[1.0]])
    assert (upper - lower)[0] / 2 == pytest.approx(model.predict([[1.0]], return_std=True)[1][0] * 2.262, rel=1e-3)


@pytest.mark.filterwarnings("ignore:the instruments are weak")
def test_with_weak_instruments_and_controls_the_default_is_no_worse_than_two_stage_least_squares() -> None:
    errors = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        controls, (z, u, e) = rng.normal(size=(800, 3)), rng.normal(size=(3, 800))
        x = 0.16 * z + controls @ [0.5, -0.5, 0] + u  # an F of about 20
        y = 1.0 * x + controls @ [1, 0, -1] + 1.5 * u + e
        model = de.IVRegressor().fit(x[:, None], y, instruments=z, controls=controls)
        answer = model.ask(model.mean_derivative(0))
        errors.append([answer.value - 1, model.linear_.params["x0"] - 1, abs(answer.value - 1) / answer.stderr])
    ours, theirs, sizes = np.array(errors).T
    assert np.sqrt(np.mean(ours**2)) < 1.2 * np.sqrt(np.mean(theirs**2))  # plain regression would be off by 0.7
    assert np.all(sizes < 3)


@pytest.mark.filterwarnings("ignore:the instruments are weak")
def test_controls_may_act_in_any_way_where_instruments_are_weak() -> None:
    errors = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        c, d, e, u, noise = rng.normal(size=(5, 1500))
        z = 0.7 * c**2 + d  # so that a line in c would leave the instrument correlated with what c does
        x = 0.15 * z + 0.5 * c + u
        y = x + 2 * c**2 - c + 1.5 * u + noise
        model = de.IVRegressor().fit(x[:, None], y, instruments=z, controls=np.stack([c, e], axis=1))
        answer = model.ask(model.mean_derivative(0))
        errors.append([answer.value - 1, answer.stderr, model.linear_.params["x0"] - 1])
    ours, stderr, theirs = np.array(errors).T
    assert np.all(np.abs(ours) < 3 * stderr)
    assert np.sqrt(np.mean(ours**2)) < 0.2 * np.sqrt(np.mean(theirs**2))
