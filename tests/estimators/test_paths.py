"""Rows that are one path in time: errors allow for what goes on from one row to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from linearmodels.iv import IV2SLS
from scipy.signal import lfilter

import dualembed as de
from dualembed.linear import IVDesign, NeweyWest, fit_two_stage
from dualembed.linear.serial import path_blocks

ROWS = 400
LINEAR = {"primal": "linear", "dual": "linear"}


def walk(seed: int = 0, rows: int = ROWS, memory: float = 0.8) -> dict[str, np.ndarray]:
    """y = x + what is hidden, which has a memory as the instrument has."""
    z, hidden = lfilter([1.0], [1.0, -memory], np.random.default_rng(seed).normal(size=(2, rows)))
    x = z + 0.7 * hidden
    return {"x": x, "z": z, "y": x + hidden, "time": np.arange(rows)}


def fitted(path: dict[str, np.ndarray], *, timed: bool = True, **settings: Any) -> Any:
    given = {"instruments": path["z"], "time": path["time"] if timed else None}
    return de.IVRegressor(**settings).fit(path["x"][:, None], path["y"], **given)


@pytest.mark.parametrize("lag", [0, 3, 11])
def test_errors_along_a_path_are_as_in_linearmodels(lag: int) -> None:
    path = walk()
    ours = fit_two_stage(IVDesign.of(path["y"], path["x"], instruments=path["z"]), NeweyWest(lag))
    model = IV2SLS(path["y"], np.ones(ROWS), path["x"], path["z"])
    theirs = model.fit(cov_type="kernel", kernel="bartlett", bandwidth=lag, debiased=True)
    np.testing.assert_allclose(ours.std_errors[::-1], theirs.std_errors, rtol=1e-8)


def test_the_line_of_a_fit_has_them_by_a_lag_of_its_own() -> None:
    path = walk()
    model = fitted(path, **LINEAR)
    lag = int(np.ceil(1.3 * np.sqrt(ROWS)))
    found = fit_two_stage(IVDesign.of(path["y"], path["x"], instruments=path["z"]), NeweyWest(lag))
    np.testing.assert_allclose(model.coef_stderr_, found.std_errors[:1], rtol=1e-8)
    assert model.effect(0.0, 1.0).freedom == pytest.approx(1.5 * ROWS / (lag + 1))
    assert "serial correlation" in model.linear_.errors


def test_memory_makes_errors_larger_and_they_hold() -> None:
    misses, sizes, plain = [], [], []
    for seed in range(200):
        path = walk(seed, rows=1000)
        design = IVDesign.of(path["y"], path["x"], instruments=path["z"])
        found, robust = fit_two_stage(design, NeweyWest()), fit_two_stage(design)
        low, high = found.conf_int()[0]
        misses.append(not low <= 1 <= high)
        sizes.append(found.params[0] - 1)
        plain.append(robust.std_errors[0])
    assert 0.01 <= np.mean(misses) <= 0.1
    assert np.mean(plain) < 0.7 * np.std(sizes)


def test_a_smooth_f_has_larger_errors_too_whatever_the_order_of_rows() -> None:
    path, order = walk(), np.random.default_rng(1).permutation(ROWS)
    points = np.linspace(-2, 2, 5)[:, None]
    first, second = (fitted(each) for each in (path, {name: column[order] for name, column in path.items()}))
    for ours, theirs in zip(*(each.predict(points, return_std=True) for each in (first, second)), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-6)
    assert first.effect(-1.0, 1.0).stderr > 1.2 * fitted(path, timed=False).effect(-1.0, 1.0).stderr
    assert any("one path in time" in str(step) for step in first.selection_.steps)


def test_with_groups_time_has_no_use() -> None:
    path = walk()
    given = {"instruments": path["z"], "groups": np.arange(ROWS) // 8}
    first, second = (
        de.IVRegressor(**LINEAR).fit(path["x"][:, None], path["y"], **given, time=time) for time in (None, path["time"])
    )
    np.testing.assert_array_equal(first.coef_stderr_, second.coef_stderr_)


def test_rows_of_one_time_go_together() -> None:
    path = walk() | {"time": np.arange(ROWS) // 4}
    blocks = path_blocks(path["time"])
    assert blocks.max() + 1 == 10
    assert all(len({*blocks[path["time"] == each]}) == 1 for each in path["time"])
    design = IVDesign.of(path["y"], path["x"], instruments=path["z"], clusters=path["time"])
    zero, clustered = (fit_two_stage(design, each).std_errors for each in (NeweyWest(0), None))
    np.testing.assert_allclose(zero / clustered, np.sqrt((99 / 100) * (ROWS / (ROWS - 1))), rtol=1e-8)


def test_few_times_are_refused() -> None:
    with pytest.raises(de.InputError, match="only 4 different values"):
        fitted(walk() | {"time": np.arange(ROWS) % 4})
