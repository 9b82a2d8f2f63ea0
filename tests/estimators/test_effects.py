"""Ready questions: points, differences, mean derivatives and average effects, against truths known on paper."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dualembed as de

ROWS = 1500


def square() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(x, y, z) of y = x² + a hidden cause that moves x too; z moves x alone."""
    rng = np.random.default_rng(0)
    z, hidden, noise = rng.uniform(-2, 2, ROWS), rng.normal(size=ROWS), rng.normal(size=ROWS)
    x = z + 0.5 * hidden
    return x, x**2 + hidden + 0.2 * noise, z


@pytest.fixture(scope="module")
def curve() -> Any:
    x, y, z = square()
    return de.IVRegressor().fit(pa.table({"price": x}), y, instruments=z)


@pytest.fixture(scope="module")
def treated() -> Any:
    """y = 2 price + 3 treatment + an effect of each colour, and plain regression on lines."""
    rng = np.random.default_rng(1)
    price, treatment = rng.normal(5, 2, ROWS), rng.integers(2, size=ROWS).astype(float)
    colour = rng.choice(["blue", "green", "red"], ROWS)
    y = 2 * price + 3 * treatment + np.where(colour == "red", 4.0, np.where(colour == "green", 1.0, 0.0))
    y += rng.normal(size=ROWS)
    X, controls = pa.table({"price": price, "treatment": treatment}), pa.table({"colour": colour})
    return de.IVRegressor(primal="linear", dual="linear").fit(X, y, controls=controls), X, controls


@pytest.fixture(scope="module")
def invariant() -> Any:
    """y = 3 length - width, blurred by noise that leaves lines as they are."""
    rng = np.random.default_rng(2)
    length, width = rng.normal(size=(2, ROWS))
    X = pa.table({"length": 10 * length, "width": width})
    y = 30 * length - width + 0.1 * rng.normal(size=ROWS)
    return de.InvariantRegressor("noise", primal="linear", dual="linear").fit(X, y), X


def table(*prices: float) -> pa.Table:
    return pa.table({"price": list(prices)})


def covers(answer: Any, truth: float) -> bool:
    low, high = answer.interval(0.999)
    return bool(low <= truth <= high)


def test_at_and_difference_agree_with_predictions(curve: Any) -> None:
    values, errors = curve.predict(table(1.0, -0.5), return_std=True)
    answer = curve.ask(curve.at(table(1.0)))
    assert (answer.value, answer.stderr) == pytest.approx((values[0], errors[0]), rel=1e-6)
    found = curve.ask(curve.difference(table(1.0), table(-0.5)))
    assert found.value == pytest.approx(values[0] - values[1], rel=1e-9)
    assert curve.ask(curve.difference(table(1.0, 1.0), table(-0.5))).stderr == pytest.approx(found.stderr, rel=1e-6)
    assert found.stderr != pytest.approx(np.hypot(*errors), rel=1e-3)  # both sides share the data
    assert covers(found, 0.75)
    turned = curve.ask(curve.difference(table(-0.5), table(1.0)))
    assert (turned.value, turned.stderr) == pytest.approx((-found.value, found.stderr))


def test_the_derivative_of_a_square_is_twice_its_argument(curve: Any) -> None:
    x, _, _ = square()
    for place in (-1.0, 0.0, 1.0):
        found = curve.ask(curve.mean_derivative("price", table(place)))
        assert found.value == pytest.approx(2 * place, abs=0.4)
        step = curve.predict(table(place + 1e-3, place - 1e-3))
        assert found.value == pytest.approx((step[0] - step[1]) / 2e-3, abs=0.02)
    whole = curve.ask(curve.mean_derivative("price"))
    assert covers(whole, 0.0)  # E[2x] = 0
    assert whole.stderr > curve.ask(curve.mean_derivative(0, table(*x))).stderr > 0  # and that of the sample


def test_a_line_has_one_derivative_in_its_own_units_and_effects_are_its_coefficients(treated: Any) -> None:
    model, X, controls = treated
    for column, truth in (("price", 2.0), (1, 3.0)):
        found = model.ask(model.mean_derivative(column))
        assert covers(found, truth)
        number = ["price", 1].index(column)
        given = model.ask(model.mean_derivative(column, X, controls))
        assert given.value == pytest.approx(found.value, rel=1e-6)
        if hasattr(model, "coef_"):
            assert found.value == pytest.approx(model.coef_[number], rel=1e-6)
    effect = model.ask(model.average_effect("treatment"))
    assert covers(effect, 3.0)
    assert effect.value == pytest.approx(model.ask(model.mean_derivative("treatment")).value, rel=1e-6)
    assert effect.question == "the average effect of treatment=1 against 0"


def test_levels_of_a_category_have_effects_and_any_two_are_compared(treated: Any) -> None:
    model, X, controls = treated
    found = model.ask(model.average_effect("colour", treated="red", control="green"))
    assert covers(found, 3.0)
    given = model.ask(model.average_effect("colour", "red", "green", X, controls))
    assert given.value == pytest.approx(found.value, rel=1e-6)
    one, other = pa.table({"price": [5.0], "treatment": [1.0]}), pa.table({"price": [5.0], "treatment": [0.0]})
    everywhere = model.ask(model.difference(one, other, controls))
    assert everywhere.value == pytest.approx(model.ask(model.average_effect("treatment")).value, rel=1e-6)


def test_variations_are_averaged_over_in_every_question(invariant: Any) -> None:
    model, X = invariant
    first, second = (pa.table({"length": [length], "width": [0.5]}) for length in (5.0, -5.0))
    values, errors = (
        np.concatenate(each) for each in zip(*(model.predict(x, return_std=True) for x in (first, second)), strict=True)
    )
    answer = model.ask(model.at(first))
    assert (answer.value, answer.stderr) == pytest.approx((values[0], errors[0]), rel=1e-6)
    assert model.ask(model.difference(first, second)).value == pytest.approx(values[0] - values[1], rel=1e-6)
    assert model.ask(model.mean_derivative("length")).value == pytest.approx(3, abs=0.02)
    assert model.ask(model.mean_derivative("width", X)).value == pytest.approx(-1, abs=0.1)
    assert model.ask(model.average_effect("width", treated=2, control=-1)).value == pytest.approx(-3, abs=0.3)


def test_answers_are_the_same_after_a_round_trip(curve: Any, invariant: Any, tmp_path: Path) -> None:
    for model, column in ((curve, "price"), (invariant[0], "length")):
        de.save(model, tmp_path / "model.dualembed")
        loaded = de.load(tmp_path / "model.dualembed")
        for ask in (lambda each, name=column: each.mean_derivative(name), lambda each: each.average_effect(0)):
            assert loaded.ask(ask(loaded)) == model.ask(ask(model))


def test_what_cannot_be_asked_is_refused_in_a_sentence(treated: Any, curve: Any) -> None:
    model, X, controls = treated
    for ask, words in (
        (
            lambda: model.mean_derivative("prize"),
            "there is no column 'prize' to move; there are price, treatment, colour",
        ),
        (lambda: model.mean_derivative("colour"), "is a category, along which nothing has a derivative"),
        (lambda: model.average_effect("colour"), "column colour has no level 1; give two of blue, green, red as"),
        (lambda: model.average_effect("price", "red"), "column price is a number, and 'red' is none"),
        (lambda: model.mean_derivative("price", controls=controls), "controls go with X"),
        (lambda: model.mean_derivative("price", X), "controls must be given here as in the fit"),
        (lambda: model.at(X, controls.slice(0, 3)), "X has 1500 rows, but controls 3"),
        (lambda: curve.difference(table(1.0, 2.0), table(1.0, 2.0, 3.0)), "not 2 and 3"),
    ):
        with pytest.raises(de.InputError, match=words):
            ask()


def test_columns_without_an_effect_to_know_of_are_told(treated: Any) -> None:
    _, X, _ = treated
    x = X.column("price").to_numpy()
    model = de.IVRegressor(primal="linear", dual="linear")
    model.fit(pa.table({"a": x, "b": x, "one": np.ones(ROWS)}), x)
    with pytest.raises(de.InputError, match=r"column one was 1\.0 in every row of the fit"):
        model.average_effect("one")
    with pytest.raises(de.InputError, match="column b was a copy of a in the fit"):
        model.mean_derivative("b")
    like, unlike = ({"a": [5.0], "b": [b], "one": [one]} for b, one in ((5.0, 1.0), (9.0, 3.0)))
    known, strange = (model.ask(model.at(pa.table(each))) for each in (like, unlike))
    assert known.warnings == ()
    assert strange.stderr > np.std(x) > 10 * known.stderr
    assert strange.stderr == pytest.approx(model.predict(pa.table(unlike), return_std=True)[1][0])
    assert strange.warnings[0] == "100% of the points asked about lie outside the data"
    assert strange.verdict == "not answerable"


def test_points_outside_the_data_have_wide_errors_and_say_so(curve: Any) -> None:
    near, far = curve.ask(curve.at(table(0.5))), curve.ask(curve.at(table(30.0)))
    assert near.warnings == ()
    assert far.stderr > 10 * near.stderr
    assert far.warnings == ("100% of the points asked about lie outside the data",)


def test_rows_that_come_later_are_a_part_of_the_sample() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30_000, 1))
    model = de.IVRegressor(primal="linear", dual="linear").fit(x[:10_000], x[:10_000, 0])
    model.partial_fit(10 + x[10_000:], 10 + x[10_000:, 0])
    assert model.sample_.seen == 30_000
    assert len(model.sample_.rows) == 10_000
    assert np.mean(model.coding_.decode(model.sample_.rows) > 5) == pytest.approx(2 / 3, abs=0.06)


def test_states_and_actions_have_differences(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    state, action = rng.normal(size=600), rng.integers(2, size=600)
    following = 0.5 * state + rng.normal(size=600)
    value = de.PolicyEvaluator(0.5).fit(state, state, following)
    here, there = value.predict([1.0, -1.0])
    found = value.ask(value.difference([1.0], [-1.0]))
    assert found.value == pytest.approx(here - there)
    assert covers(found, 2 / 0.75)
    coin = de.ActionValueEvaluator(0.5, _coin).fit(state, action, state + action, following)
    better = coin.ask(coin.difference([0.0], [1], other_actions=[0]))
    assert better.value == pytest.approx(-np.diff(coin.predict([0.0, 0.0], [1, 0]))[0])
    assert covers(better, 1.0)
    with pytest.raises(de.InputError, match="other_states or other_actions"):
        coin.difference([0.0], [1])
    times = de.HittingTimeRegressor(_high).fit(state, rng.uniform(-1, 3, size=600))
    longer = times.ask(times.difference([0.0], [2.0]))
    assert longer.value == pytest.approx(times.predict([0.0])[0])
    assert covers(longer, 2.0)  # the target is half of where the next state is


def _coin(states: Any) -> np.ndarray:
    return np.full((len(states), 2), 0.5)


def _high(states: Any) -> np.ndarray:
    return np.asarray(states)[:, 0] > 1


@pytest.fixture(scope="module")
def by_region() -> tuple[de.IVRegressor, dict[str, np.ndarray]]:
    """A slope of 1 in the north and 3 in the south, and a control that does nothing to it."""
    rng = np.random.default_rng(0)
    z, hidden, age = rng.normal(size=(3, 3000))
    region = rng.choice(["north", "south"], size=3000, p=[0.7, 0.3])
    x = z + hidden
    y = np.where(region == "north", 1.0, 3.0) * x + 2 * hidden + age
    model = de.IVRegressor().fit(x, y, instruments=z, controls=pa.table({"region": region, "age": age}))
    return model, {"region": region, "age": age}


def test_effects_by_a_column_are_those_of_its_levels_and_average_to_the_effect(by_region: Any) -> None:
    model, _ = by_region
    groups = model.effect(0.0, 1.0, by="region")
    assert groups.levels == ("north", "south")
    for answer, truth in zip(groups.answers, (1.0, 3.0), strict=True):
        lower, upper = answer.interval()
        assert lower < truth < upper
        assert upper - lower < 1.5
    whole = model.effect(0.0, 1.0)
    assert groups.average().value == pytest.approx(whole.value, rel=1e-9)
    assert groups.equality_test() < 0.01
    apart = groups.difference("south", "north")
    assert apart.value == pytest.approx(groups.answers[1].value - groups.answers[0].value)
    assert apart.stderr**2 == pytest.approx(np.array([-1, 1]) @ groups.covariance @ np.array([-1, 1]))
    assert list(groups.tidy()["term"]) == ["region=north", "region=south"]
    assert "That all are equal has p" in str(groups)


def test_a_number_with_many_values_makes_quartiles(by_region: Any) -> None:
    model, _ = by_region
    groups = model.ask_by(model.mean_derivative(0), "age")
    assert len(groups.levels) == 4
    np.testing.assert_allclose(groups.shares, 0.25, atol=0.01)
    assert groups.equality_test() > 0.01


def test_groups_of_what_moves_or_of_sums_are_refused(by_region: Any) -> None:
    model, _ = by_region
    with pytest.raises(de.InputError, match="moves column region itself"):
        model.ask_by(model.average_effect("region", "south", "north"), "region")
    question = model.mean_derivative(0)
    with pytest.raises(de.InputError, match="not in a sum of several"):
        model.ask_by(question + question, "region")
    with pytest.raises(de.InputError, match="has no group 'east'"):
        model.effect(0.0, 1.0, by="region").difference("east", "north")


def test_effects_at_rows_have_their_errors_and_average_to_the_effect(by_region: Any) -> None:
    model, controls = by_region
    rows = pa.table({name: values[:40] for name, values in controls.items()})
    found, errors = model.effects(0, 1, controls=rows, return_std=True)
    assert found.mean() == pytest.approx(model.effect(0, 1, controls=rows).value, rel=1e-9)
    one = model.effect(0, 1, controls=rows.slice(3, 1))
    assert (found[3], errors[3]) == pytest.approx((one.value, one.stderr), rel=1e-6)
    assert len(model.effects()) == len(model.sample_.rows)
    south = np.array(rows["region"]) == "south"
    assert abs(found[south].mean() - 3) < 0.5 > abs(found[~south].mean() - 1)


def test_those_who_come_from_another_library_find_their_words_or_ours(by_region: Any) -> None:
    model, controls = by_region
    rows = pa.table({name: values[:40] for name, values in controls.items()})
    np.testing.assert_array_equal(model.effects(X=rows, T0=0, T1=1), model.effects(0, 1, controls=rows))
    assert model.effect(X=rows, T0=0, T1=1) == model.effect(0, 1, controls=rows)
    assert model.effect() == model.effect(0, 1)
    with pytest.raises(de.InputError, match="give T0 and T1 first and rows of controls by name"):
        model.effect(rows, T0=0, T1=1)
    with pytest.raises(de.InputError, match="give one of them"):
        model.effect(0, 1, controls=rows, X=rows)
    with pytest.raises(AttributeError, match=r"no attribute 'ate'; ask effect\(T0, T1\), which has"):
        model.ate(rows, 0, 1)
    with pytest.raises(AttributeError, match=r"ask\(mean_derivative\(column, X, controls\)\)"):
        model.const_marginal_effect(rows)
    assert not hasattr(model, "nonsense")
