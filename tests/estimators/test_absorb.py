"""Effects of firms and years, absorbed: f is learnt within them, and they may be anything."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.cli.tables import Shown, document
from tests.estimators.test_dependence import LINEAR, panel

import dualembed as de
from dualembed.cli import main

# Slope and standard error of x in pyfixest 0.60, by absorbed factors and clusters.
PYFIXEST = {
    (("firm",), ()): (0.8622813248413362, 0.2642313088309026),
    (("firm",), ("firm", "year")): (0.8622813248413362, 0.20874939326362155),
    (("firm",), ("year",)): (0.8622813248413362, 0.19657309170959525),
    (("firm", "year"), ()): (0.8478219868676546, 0.2632105596071274),
    (("firm", "year"), ("firm", "year")): (0.8478219868676546, 0.2135886976615247),
}
ROWS = 480


def columns(table: dict[str, np.ndarray], names: tuple[str, ...]) -> Any:
    return pd.DataFrame({name: table[name] for name in names}) if names else None


def draw(seed: int = 0) -> dict[str, np.ndarray]:
    """y = sin x + a firm's effect, which moves x too, + a year's + hidden causes."""
    rng = np.random.default_rng(seed)
    firm, year = np.arange(ROWS) % 60, rng.integers(6, size=ROWS)
    own, (z, hidden) = 2 * rng.normal(size=60), rng.normal(size=(2, ROWS))
    x = z + 0.5 * hidden + 0.4 * own[firm]
    y = np.sin(x) + own[firm] + 0.3 * year + 0.7 * hidden
    return {"x": x, "z": z, "y": y, "firm": firm, "year": year}


def fitted(table: dict[str, np.ndarray], names: tuple[str, ...] = ("firm", "year"), **settings: Any) -> Any:
    given = {"instruments": table["z"], "absorb": columns(table, names)}
    return de.IVRegressor(**settings).fit(table["x"][:, None], table["y"], **given)


@pytest.fixture(scope="module")
def model() -> Any:
    return fitted(draw())


def test_tables_of_papers_name_the_factors(model: Any) -> None:
    assert model.__maketables_fixef_string__ == "firm+year"


@pytest.mark.parametrize(("factors", "clusters"), PYFIXEST)
def test_a_line_within_factors_is_as_in_pyfixest(factors: tuple[str, ...], clusters: tuple[str, ...]) -> None:
    table = panel()
    given = {"instruments": table["z1"], "controls": table["w"]}
    model = de.IVRegressor(**LINEAR).fit(
        table["x"][:, None], table["y"], **given, absorb=columns(table, factors), groups=columns(table, clusters)
    )
    slope, error = PYFIXEST[factors, clusters]
    answer = model.effect(0.0, 1.0)
    if clusters == ("year",):  # seven, which are left out one by one
        error = model.linear_.std_errors["x0"]
    np.testing.assert_allclose([model.coef_[0], model.coef_stderr_[0]], [slope, error], rtol=1e-8)
    np.testing.assert_allclose([answer.value, answer.stderr], [slope, error], rtol=1e-8)


def test_without_instruments_a_line_is_least_squares_on_dummies() -> None:
    table = panel()
    model = de.IVRegressor(**LINEAR).fit(table["x"][:, None], table["y"], absorb=columns(table, ("firm", "year")))
    dummies = [table[name][:, None] == np.arange(count) for name, count in (("firm", 12), ("year", 7))]
    theirs = np.linalg.lstsq(np.column_stack([table["x"], *dummies]), table["y"], rcond=None)[0]
    np.testing.assert_allclose(model.coef_, theirs[:1], rtol=1e-8)
    np.testing.assert_allclose(model.predict(table["x"][:, None]).mean(), table["y"].mean(), rtol=1e-8)


@pytest.mark.parametrize("settings", [LINEAR, {}])
def test_weights_count_within_factors_too(settings: dict[str, str]) -> None:
    table, names = draw(), ("firm",)
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.5, 2.0, size=ROWS)
    given = {"instruments": table["z"], "absorb": columns(table, names), "sample_weight": weights}
    model = de.IVRegressor(**settings).fit(table["x"][:, None], table["y"], **given)
    found = np.average(model.predict(table["x"][:, None]), weights=weights)
    assert found == pytest.approx(np.average(table["y"], weights=weights), rel=1e-8)
    if settings:
        dummies = (table["firm"][:, None] == np.arange(60)).astype(float)
        x, z = (np.column_stack([table[name], dummies]) for name in ("x", "z"))
        theirs = np.linalg.solve(z.T @ (weights[:, None] * x), z.T @ (weights * table["y"]))
        np.testing.assert_allclose(model.coef_[0], theirs[0], rtol=1e-8)
        points = np.array([[0.0], [1.0]])
        np.testing.assert_allclose(model.predict(points), model.intercept_ + points[:, 0] * theirs[0], rtol=1e-8)


def test_f_is_found_within_factors_that_would_mislead(model: Any) -> None:
    table, ends = draw(), (-1.0, 1.0)
    answer = model.effect(*ends)
    low, high = answer.interval()
    assert low < 2 * np.sin(1) < high
    plain = de.IVRegressor().fit(table["x"][:, None], table["y"], instruments=table["z"]).effect(*ends)
    assert answer.stderr < plain.stderr  # whose noise has firms and years in it
    np.testing.assert_allclose(model.predict(table["x"][:, None]).mean(), table["y"].mean(), rtol=1e-8)
    assert model.absorbed_ == ("firm", "year")


def test_effects_of_levels_may_be_anything(model: Any) -> None:
    table = draw()
    moved = table | {"y": table["y"] + 100 * np.cos(table["firm"]) - 10 * table["year"] ** 2}
    points, again = np.linspace(-2, 2, 5)[:, None], fitted(moved)
    ours, theirs = (each.predict(points, return_std=True) for each in (model, again))
    np.testing.assert_allclose(np.diff(theirs[0]), np.diff(ours[0]), atol=1e-5)
    np.testing.assert_allclose(theirs[1], ours[1], rtol=1e-4)


def test_the_order_of_rows_and_of_factors_changes_nothing(model: Any) -> None:
    table, order = draw(), np.random.default_rng(1).permutation(ROWS)
    again = fitted({name: column[order] for name, column in table.items()}, ("year", "firm"))
    points = np.linspace(-2, 2, 5)[:, None]
    for ours, theirs in zip(*(each.predict(points, return_std=True) for each in (model, again)), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-6)


def test_a_fit_is_judged_within_levels_and_saved(model: Any, tmp_path: Path) -> None:
    new = draw(seed=1)
    given = {"instruments": new["z"], "absorb": columns(new, ("firm", "year"))}
    right = model.error(new["x"][:, None], new["y"], **given)
    wrong = model.error(new["x"][:, None], new["y"] + 2 * new["z"], **given)
    assert abs(right.value) < 4 * right.stderr < 0.5 < wrong.value
    with pytest.raises(de.InputError, match="absorb must be given here as in the fit"):
        model.error(new["x"][:, None], new["y"], instruments=new["z"])
    with pytest.raises(de.InputError, match="all rows at once"):
        model.partial_fit(new["x"][:, None], new["y"], **given)
    de.save(model, tmp_path / "within")
    again, points = de.load(tmp_path / "within"), np.linspace(-2, 2, 5)[:, None]
    np.testing.assert_array_equal(again.predict(points), model.predict(points))


@pytest.mark.parametrize(
    ("absorb", "said"),
    [
        (np.arange(ROWS), "a level of its own in factor 1"),
        (np.stack([np.arange(ROWS) // 2, (np.arange(ROWS) + 1) // 2], axis=1), "as many effects together"),
        (np.ones((ROWS, 3)), "one or two columns"),
    ],
)
def test_factors_that_leave_nothing_are_refused(absorb: np.ndarray, said: str) -> None:
    table = draw()
    with pytest.raises(de.InputError, match=said):
        de.IVRegressor().fit(table["x"][:, None], table["y"], instruments=table["z"], absorb=absorb)


def test_other_spaces_are_refused() -> None:
    with pytest.raises(de.InputError, match="takes the spaces that are chosen"):
        fitted(draw(), primal="linear")


@pytest.mark.parametrize("text", ["y ~ w | firm | x ~ z1", "y ~ w | firm + year | x ~ z1"])
def test_a_formula_absorbs(text: str) -> None:
    model = de.IVRegressor.from_formula(text, pd.DataFrame(panel()), **LINEAR)
    factors = ("firm", "year") if "year" in text else ("firm",)
    np.testing.assert_allclose([model.coef_[0], model.coef_stderr_[0]], PYFIXEST[factors, ()], rtol=1e-8)


@pytest.mark.parametrize(
    "words",
    ["--x x --y y --instrument z1 --control w --absorb firm,year", "--formula y~w|firm+year|x~z1"],
)
def test_the_command_line_absorbs(words: str, tmp_path: Path, capsys: Shown) -> None:
    source = tmp_path / "panel.csv"
    pd.DataFrame(panel()).to_csv(source, index=False)
    more = ["--primal", "linear", "--dual", "linear", "--json", "--out", str(tmp_path / "model")]
    main(["fit", "iv", str(source), *words.split(), *more, "--cluster", "firm,year"])
    record = document(capsys)
    assert record["columns"]["absorb"] == ["firm", "year"]
    slope, error = PYFIXEST[("firm", "year"), ("firm", "year")]
    found = record["answer"]["linear"]["coefficients"][0]
    np.testing.assert_allclose([found["estimate"], found["std_error"]], [slope, error], rtol=1e-8)


def test_errors_within_levels_know_how_many_there_are() -> None:
    """Two rows a level: residuals within levels are half as large in variance as the noise."""
    rng = np.random.default_rng(0)
    levels = np.repeat(np.arange(300), 2)
    z, hidden, noise = rng.normal(size=(3, 600))
    x = z + hidden
    columns = {"instruments": z, "absorb": levels}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = de.IVRegressor(linear="X").fit(x, x + hidden + noise + 3 * rng.normal(size=300)[levels], **columns)
    assert model.coef_stderr_[0] == pytest.approx(model.linear_.std_errors["x0"], rel=0.2)
