"""Rows that depend on each other: clusters of one way and of two, in Python and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.cli.tables import Shown, document

import dualembed as de
from dualembed.cli import main
from dualembed.linear.clusters import units_of

LINEAR = {"primal": "linear", "dual": "linear"}
ROWS = 240


def panel(seed: int = 7) -> dict[str, np.ndarray]:
    """y = x / 2 - 0.4 w + hidden causes of firms and of years, the same as what pyfixest was given below."""
    rng = np.random.default_rng(seed)
    firm, year = rng.integers(12, size=200), rng.integers(7, size=200)
    z1, z2, w, hidden, noise = rng.normal(size=(5, 200))
    x = 0.6 * z1 + 0.4 * z2 + 0.3 * w + hidden + 0.2 * firm
    y = 0.5 * x - 0.4 * w + hidden + noise * (1 + 0.5 * np.abs(z1)) + 0.3 * firm + 0.1 * year
    y += rng.normal(size=12)[firm]
    return {"y": y, "x": x, "w": w, "z1": z1, "firm": firm, "year": year}


def curve(seed: int = 0) -> dict[str, Any]:
    """What a default fit takes: f = sin, hidden causes of firms and of years."""
    rng = np.random.default_rng(seed)
    firm, year = rng.integers(20, size=ROWS), rng.integers(15, size=ROWS)
    z, hidden = rng.normal(size=(2, ROWS))
    hidden = hidden + rng.normal(size=20)[firm] + rng.normal(size=15)[year]
    x = 1.5 * z + 0.4 * hidden
    return {"X": x[:, None], "y": np.sin(x) + hidden, "instruments": z, "firm": firm, "year": year}


def fitted(data: dict[str, Any], groups: Any, **settings: Any) -> Any:
    given = {name: data[name] for name in ("X", "y", "instruments")}
    return de.IVRegressor(**settings).fit(**given, groups=groups)


def test_errors_of_a_line_with_two_ways_of_clusters_are_as_in_pyfixest() -> None:
    table = panel()
    frame = pd.DataFrame({"firm": table["firm"], "year": table["year"]})
    model = de.IVRegressor(**LINEAR).fit(
        table["x"][:, None], table["y"], instruments=table["z1"], controls=table["w"], groups=frame
    )
    np.testing.assert_allclose(model.coef_[0], 0.9199325954034816, rtol=1e-8)
    np.testing.assert_allclose(model.coef_stderr_[0], 0.2223517496201525, rtol=1e-8)  # CRV1 of pyfixest 0.60
    answer = model.effect(0.0, 1.0)
    assert (answer.freedom, answer.stderr) == (6.0, pytest.approx(0.2223517496201525, rel=1e-8))


def test_two_ways_that_are_the_same_are_one_way() -> None:
    data = curve()
    one, two = (fitted(data, groups) for groups in (data["firm"], np.stack([data["firm"], data["firm"]], axis=1)))
    np.testing.assert_allclose(*(model.predict(data["X"][:9], return_std=True)[1] for model in (one, two)), rtol=1e-6)


def test_what_clusters_are_called_and_the_order_of_rows_and_ways_change_nothing() -> None:
    data = curve()
    labels = np.stack([data["firm"], data["year"]], axis=1)
    first = fitted(data, labels).predict(data["X"][:9], return_std=True)
    order = np.random.default_rng(1).permutation(ROWS)
    mixed = {name: column[order] for name, column in data.items()}
    frame = pd.DataFrame({"year": mixed["year"].astype(str), "firm": mixed["firm"]})
    second = fitted(mixed, frame).predict(data["X"][:9], return_std=True)
    for one, other in zip(first, second, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-6)


def test_folds_keep_what_hangs_together_or_else_the_coarser_way() -> None:
    village, household = np.arange(60) // 3, np.arange(60) // 2
    joined = units_of(np.stack([village, household], axis=1))
    assert all(len({*joined[own == each]}) == 1 for own in (village, household) for each in own)
    crossed = np.stack([np.arange(60) % 12, np.arange(60) // 12], axis=1)
    np.testing.assert_array_equal(units_of(crossed), crossed[:, 1])


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (np.zeros(ROWS), "all rows are of one cluster"),
        (np.stack([np.arange(ROWS) % 5, np.zeros(ROWS)], axis=1), "all rows are of one cluster"),
        (np.ones((ROWS, 3)), "one or two columns of labels"),
    ],
)
def test_clusters_that_say_nothing_are_refused(groups: np.ndarray, said: str) -> None:
    with pytest.raises(de.InputError, match=said):
        fitted(curve(), groups, **LINEAR)


def test_a_formula_names_clusters_of_two_ways() -> None:
    table = panel()
    model = de.IVRegressor.from_formula("y ~ w | x ~ z1", pd.DataFrame(table), groups=["firm", "year"], **LINEAR)
    np.testing.assert_allclose(model.coef_stderr_[0], 0.2223517496201525, rtol=1e-8)


@pytest.mark.parametrize("option", ["--cluster", "--group"])
def test_the_command_line_takes_clusters_of_two_ways(tmp_path: Path, capsys: Shown, option: str) -> None:
    source = tmp_path / "panel.csv"
    pd.DataFrame(panel()).to_csv(source, index=False)
    words = "--x x --y y --instrument z1 --control w --primal linear --dual linear --json"
    main(["fit", "iv", str(source), *words.split(), option, "firm,year", "--out", str(tmp_path / "model")])
    record = document(capsys)
    assert record["columns"]["group"] == ["firm", "year"]
    np.testing.assert_allclose(
        record["answer"]["linear"]["coefficients"][0]["std_error"], 0.2223517496201525, rtol=1e-8
    )
