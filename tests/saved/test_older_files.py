"""Files of every format so far give the answers that they gave when they were written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas

from dualembed.saving import describe, load

FOLDER = Path(__file__).parent

LINE_VALUES = [0.23886972173287846, 0.4964084861597456, -0.7810351424172783]
LINE_ERRORS = [0.5793554523896997, 0.6266712645343548, 0.9867716678142343]
CURVE_VALUES = [-0.28450380385802126, 0.919811419570498, -0.6600109657349691]
CURVE_ERRORS = [0.5303017108364265, 0.6096808336496913, 0.6785890833218845]
CURVE_WITNESS = [0.016342134431695132, -0.2750482689702735, 0.2662041788602063]


def test_a_line_of_format_1_gives_its_old_answers() -> None:
    model = load(FOLDER / "line-1.dualembed")
    trees = pandas.DataFrame({"tree": ["oak", "yew", "ash"]})
    found = model.predict(pandas.DataFrame({"dose": [0.0, 1.0, -2.0]}), trees, return_std=True)
    np.testing.assert_allclose(found[0], LINE_VALUES, rtol=1e-9)
    np.testing.assert_allclose(found[1], LINE_ERRORS, rtol=1e-9)
    assert describe(FOLDER / "line-1.dualembed")["columns"] == ["dose"]


def test_a_curve_of_format_1_gives_its_old_answers_and_goes_on() -> None:
    model = load(FOLDER / "curve-1.dualembed")
    points = np.array([[0.0, 0.0], [1.0, -1.0], [-0.5, 2.0]])
    found = model.predict(points, return_std=True)
    np.testing.assert_allclose(found[0], CURVE_VALUES, rtol=1e-7)
    np.testing.assert_allclose(found[1], CURVE_ERRORS, rtol=1e-7)
    np.testing.assert_allclose(model.witness(points), CURVE_WITNESS, rtol=1e-7)
    model.partial_fit(points, np.zeros(3), points)
    assert model.diagnostics_.rows == 123


def test_the_files_are_small() -> None:
    assert all(path.stat().st_size < 60_000 for path in FOLDER.glob("*.dualembed"))
