"""The worked examples run from top to bottom and find what they say they find."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tests.cli.tables import Shown, document
from tests.recorded import needs_data

from dualembed.cli import main
from dualembed.data import read_table
from dualembed.examples import TRANSITIONS

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@needs_data
def test_a_year_at_school_is_worth_what_two_stage_least_squares_says(tmp_path: Path) -> None:
    module = example("schooling")
    found = module.main(tmp_path / "schooling.png")
    assert found["instrument"][0] == pytest.approx(0.1315, abs=5e-5)
    assert found["instrument"][1] == pytest.approx(0.055, abs=0.002)  # as Card's, robust to any noise
    assert found["least squares"][0] == pytest.approx(0.0747, abs=5e-5)
    assert (tmp_path / "schooling.png").stat().st_size > 0


@pytest.mark.slow
@needs_data
def test_the_share_of_food_falls_with_expenditure_and_the_band_says_so(tmp_path: Path) -> None:
    module = example("engel")
    found, plain = module.main(500, tmp_path / "engel.png")
    assert found.share[0] > found.share[-1]
    assert plain.lower[0] > plain.upper[-1]
    assert np.all((found.lower < found.share) & (found.share < found.upper))
    assert np.mean(found.upper - found.lower) > np.mean(plain.upper - plain.lower)  # instruments know less
    assert (tmp_path / "engel.png").stat().st_size > 0


@pytest.mark.slow
@needs_data
def test_the_learnt_time_to_the_helix_is_that_counted_along_the_paths(tmp_path: Path) -> None:
    module = example("alanine")
    found = module.main(step=40, fine=20, figure=tmp_path / "alanine.png")
    for learnt, std, mean, error in found.values():
        assert abs(learnt - mean) < 3 * np.hypot(std, error)
    assert (tmp_path / "alanine.png").stat().st_size > 0


@needs_data
def test_single_clicks_say_how_far_articles_are_and_how_often_they_are_read(tmp_path: Path) -> None:
    module = example("wikispeedia")
    names = ("United_States", "Europe")
    for own in module.main(10_000, 150, names, tmp_path / "wikispeedia.png"):
        number = int(np.argmin(np.abs(own.exact - 1 / own.rank)))
        assert own.exact[number] == pytest.approx(1 / own.rank)  # PageRank is the time of return, inverted
        assert abs(own.learnt[number] * own.rank - 1) < 3 * own.error
        assert own.miss < 4 * own.error < 0.5
    assert (tmp_path / "wikispeedia.png").stat().st_size > 0


def test_angles_on_either_side_of_180_degrees_are_neighbours() -> None:
    module = example("alanine")
    gap = np.abs(np.diff(module.coordinates(np.array([[179.9, 0.0], [-179.9, 0.0]])), axis=0))
    assert gap.max() < 0.01


def test_a_count_is_the_time_to_the_next_visit() -> None:
    module = example("alanine")
    path = np.array([[-60.0, 150.0], [-60.0, 150.0], [-60.0, -40.0], [-60.0, 150.0], [-60.0, -40.0], [-60.0, 150.0]])
    np.testing.assert_array_equal(module.counted(path, 10), [20.0, 10.0, 20.0, 10.0, np.nan, np.nan])


@pytest.mark.slow
def test_the_interval_of_a_policys_value_covers_the_monte_carlo_truth(tmp_path: Path) -> None:
    pytest.importorskip("gymnasium", reason="gymnasium, which has the cart and the pole, is not installed")
    truth, answers = example("cartpole").main(1, 500, tmp_path / "cartpole.png")
    assert answers[0].lower <= truth <= answers[0].upper
    assert answers[0].upper - answers[0].lower < 10
    assert (tmp_path / "cartpole.png").stat().st_size > 0


def test_the_example_is_what_its_script_makes() -> None:
    made = example("make_transitions").transitions()
    kept = read_table(TRANSITIONS)
    assert kept.column_names == list(made)
    for name, column in made.items():
        np.testing.assert_array_equal(kept.column(name).to_numpy(), column)
    assert TRANSITIONS.stat().st_size < 150_000


@pytest.mark.slow
def test_the_demo_finds_what_the_example_is_worth(
    tmp_path: Path, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = (EXAMPLES.parents[1] / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    (command,) = re.findall(r"\$\(BIN\)/dualembed (fit .*)", recipe)
    arguments = shlex.split(command.replace("src/dualembed/examples/transitions.parquet", str(TRANSITIONS)))
    monkeypatch.chdir(tmp_path)
    assert main([*arguments, "--json"]) == 0
    found = document(capsys)
    value = found["answer"]["policy_value"]
    truth, _ = example("make_transitions").true_value(shops=20_000)
    assert value["lower"] < truth < value["upper"]
    assert value["stderr"] < 40
    assert Path(found["report"]).stat().st_size < 2_000_000


def test_every_example_has_its_place_on_the_page() -> None:
    page = (EXAMPLES.parent / "examples.md").read_text()
    for script in EXAMPLES.glob("*.py"):
        assert f"examples/{script.name}" in page
        if script.stem == "make_transitions":  # which draws nothing
            continue
        assert f"images/example_{script.stem}.png" in page
        assert (EXAMPLES.parent / "images" / f"example_{script.stem}.png").exists()
