"""A fit by a formula is the fit to the columns that the formula names or makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dualembed as de
from dualembed.data import Formula

ROWS = 300
LINEAR = {"primal": "linear", "dual": "linear"}


def survey() -> dict[str, Any]:
    """Wages 1 + 2 educ - exper / 2 with a hidden cause of wages and schooling, and a college near some."""
    rng = np.random.default_rng(3)
    near, exper, hidden = rng.integers(2, size=ROWS), rng.uniform(1, 9, size=ROWS), rng.normal(size=ROWS)
    educ = 2.0 * near + hidden + rng.normal(size=ROWS)
    return {
        "lwage": 1 + 2 * educ - exper / 2 + hidden,
        "educ": educ,
        "near": near,
        "exper": exper,
        "county": np.arange(ROWS) // 10,
        "region": np.array(["north", "south", "west"])[rng.integers(3, size=ROWS)],
    }


def by_hand(columns: dict[str, Any], *controls: Any, clusters: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Two-stage least squares (slopes, then the constant), with one instrument; and the moments' robust errors."""
    others = [*controls, np.ones(ROWS)]
    x, z = (np.column_stack([columns[name], *others]).astype(float) for name in ("educ", "near"))
    found = np.linalg.solve(z.T @ x, z.T @ columns["lwage"])
    moments = z * (columns["lwage"] - x @ found)[:, None]
    sums = moments if clusters is None else np.array([moments[clusters == each].sum(axis=0) for each in {*clusters}])
    bread = np.linalg.inv(z.T @ x)
    return found, np.sqrt(np.diag(bread @ sums.T @ sums @ bread.T))


@pytest.mark.parametrize("text", ["lwage ~ [educ ~ near] + exper", "lwage ~ exper | educ ~ near"])
@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame])
def test_either_form_and_any_frame_is_two_stage_least_squares(make: Any, text: str) -> None:
    columns = survey()
    model = de.IVRegressor.from_formula(text, make(columns), **LINEAR)
    slopes, _ = by_hand(columns, columns["exper"])
    np.testing.assert_allclose(model.coef_, slopes[:2], rtol=1e-6)
    assert model.intercept_ == pytest.approx(slopes[2], rel=1e-6)
    assert (model.coding_.names, model.instruments_.names, model.controls_.names) == (["educ"], ["near"], ["exper"])


def test_a_fit_by_a_formula_is_the_fit_to_its_columns() -> None:
    frame = pd.DataFrame(survey())
    ours = de.IVRegressor.from_formula("lwage ~ [educ ~ near] + exper + region", frame, random_state=5)
    theirs = de.IVRegressor(random_state=5).fit(
        frame[["educ"]], frame["lwage"], instruments=frame[["near"]], controls=frame[["exper", "region"]]
    )
    places = frame[["educ"]], frame[["exper", "region"]]
    np.testing.assert_array_equal(ours.predict(*places), theirs.predict(*places))
    assert ours.random_state == 5


def test_groups_are_labels_or_the_name_of_a_column_and_cluster_errors() -> None:
    frame = pd.DataFrame(survey())
    text = "lwage ~ [educ ~ near] + exper"
    named, given, none = (
        de.IVRegressor.from_formula(text, frame, groups=groups, **LINEAR)
        for groups in ("county", frame["county"], None)
    )
    np.testing.assert_array_equal(named.coef_stderr_, given.coef_stderr_)
    columns = survey()
    for model, clusters in ((named, columns["county"]), (none, None)):
        _, errors = by_hand(columns, columns["exper"], clusters=clusters)
        np.testing.assert_allclose(model.coef_stderr_, errors[:2], rtol=0.05)  # up to corrections for few rows
    assert abs(named.coef_stderr_[0] / none.coef_stderr_[0] - 1) > 1e-3
    categories = frame.assign(county=frame["county"].astype(str).astype("category"))
    again = de.IVRegressor.from_formula(text, categories, groups="county", **LINEAR)
    np.testing.assert_allclose(again.coef_stderr_, named.coef_stderr_)
    with pytest.raises(de.InputError, match=r"'conty', which is not there .*did you mean 'county'"):
        de.IVRegressor.from_formula(text, frame, groups="conty")


def test_terms_that_are_made_are_fitted_to_and_made_again_for_predictions() -> None:
    columns = survey()
    found = Formula.of("lwage ~ [educ ~ near] + log(exper) + C(region)").read(columns)
    slopes, _ = by_hand(columns, np.log(columns["exper"]), *(columns["region"] == each for each in ("south", "west")))
    model = de.IVRegressor(**LINEAR).fit(found.table)
    shorter = de.IVRegressor.from_formula("lwage ~ [educ ~ near] + log(exper) + C(region)", columns, **LINEAR)
    np.testing.assert_allclose(model.coef_, slopes[:4], rtol=1e-6)
    np.testing.assert_array_equal(shorter.coef_, model.coef_)
    place = {"educ": [1.0], "exper": [np.e], "region": ["west"]}
    np.testing.assert_allclose(model.predict(**found.again(place)), slopes @ [1, 1, 0, 1, 1], rtol=1e-6)


def test_without_instruments_it_is_plain_regression() -> None:
    columns = survey()
    model = de.IVRegressor.from_formula("lwage ~ educ + exper", columns, **LINEAR)
    x = np.column_stack([columns["educ"], columns["exper"], np.ones(ROWS)])
    np.testing.assert_allclose(model.coef_, np.linalg.lstsq(x, columns["lwage"])[0][:2], rtol=1e-6)
    assert model.instruments_ is None


def test_absorbed_effects_are_those_of_dummies() -> None:
    columns = survey()
    dummies = [columns["region"] == each for each in ("south", "west")]
    slopes, _ = by_hand(columns, columns["exper"], *dummies)
    for text in ("lwage ~ exper | region | educ ~ near", "lwage ~ exper + C(region) | educ ~ near"):
        model = de.IVRegressor.from_formula(text, columns, **LINEAR)
        np.testing.assert_allclose(model.coef_[:2], slopes[:2], rtol=1e-6)
