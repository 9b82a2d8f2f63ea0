"""There is one error of a closed form, whatever way leads to it."""

from __future__ import annotations

import numpy as np
import pytest

import dualembed as de
from dualembed import kernels, spaces

GRID = np.linspace(-1.5, 1.5, 13)[:, None]


def design(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    """y = sin 2x + noise that x depends on too; the instrument z moves x alone."""
    rng = np.random.default_rng(seed)
    z, hidden, noise = rng.normal(size=(3, rows))
    x = z + 0.5 * hidden
    return {"X": x[:, None], "y": np.sin(2 * x) + hidden + 0.3 * noise, "instruments": z[:, None]}


def both(model: de.IVRegressor) -> tuple[np.ndarray, np.ndarray]:
    return model.predict(GRID, return_std=True)


@pytest.fixture(scope="module")
def chosen() -> de.IVRegressor:
    return de.IVRegressor().fit(**design(800))


def test_a_closed_form_asked_for_is_the_default_with_the_same_errors(chosen: de.IVRegressor) -> None:
    asked = de.IVRegressor(solver="closed-form").fit(**design(800))
    for one, other in zip(both(chosen), both(asked), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_same_of_transitions() -> None:
    rng = np.random.default_rng(0)
    state = rng.normal(size=300)
    log = state, np.cos(state), 0.7 * state + rng.normal(size=300)
    found = [de.PolicyEvaluator(0.9, solver=solver).fit(*log) for solver in ("auto", "closed-form")]
    np.testing.assert_array_equal(*(model.predict(GRID, return_std=True) for model in found))


def test_a_few_rows_more_change_errors_by_little(chosen: de.IVRegressor) -> None:
    model = de.IVRegressor().partial_fit(**design(800))
    before = both(model)
    np.testing.assert_array_equal(before, both(chosen))
    after = both(model.partial_fit(**design(20, seed=1)))
    assert np.max(np.abs(after[1] / before[1] - 1)) < 0.1
    assert np.max(np.abs(after[0] - before[0]) / before[1]) < 0.5


def test_rows_in_two_parts_have_the_errors_of_all_at_once() -> None:
    """In given spaces; the penalty is chosen on the first part, so that it is nearly and not exactly so."""
    rows = design(1200, seed=2)
    first, second = ({role: column[part] for role, column in rows.items()} for part in (slice(900), slice(900, None)))
    recipe = {"primal": spaces.Nystrom(kernels.Gaussian(1.0), size=12), "dual": spaces.Nystrom(kernels.Gaussian(1.0))}
    whole = de.IVRegressor(**recipe).fit(**rows)
    parts = de.IVRegressor(**recipe).partial_fit(**first).partial_fit(**second)
    ratio = both(parts)[1] / both(whole)[1]
    assert np.all((ratio > 0.7) & (ratio < 1.4))
