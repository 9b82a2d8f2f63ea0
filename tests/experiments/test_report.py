"""Reports become results.json, figures and a table."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from dualembed.experiments import NAMES
from dualembed.experiments.experiment import find_experiment
from dualembed.experiments.report import Method, Report, document, table, write


def report(**changes: Any) -> Report:
    method = Method(
        hyperparameters={"bandwidth": np.float32(0.5), "batch": np.int64(50), "grid": (0.1, 1)},
        samples=[100, 200],
        mean=np.array([0.2, 0.1]).tolist(),
        std=[jnp.asarray(0.02), np.nan],
        final=[0.09, 0.11],
        seconds=[1.0, 2.0],
    )
    whole = Report(
        experiment="noisy",
        trials=2,
        seed=3,
        metric="MSE",
        settings={"noise": jnp.asarray([0.05, 0.01])},
        methods={"embedding-sgd": method, "closed-form": method},
        draw=Figure,
    )
    return dataclasses.replace(whole, **changes)


def test_results_have_exactly_the_contracts_keys(tmp_path: Path) -> None:
    results, figure = write(report(), tmp_path)
    assert (results.name, figure.name) == ("results.json", "figure.png")
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.pdf", "figure.png", "results.json"]
    read = json.loads(results.read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert list(read) == ["experiment", "trials", "seed", "metric", "settings", "methods"]
    assert list(read["methods"]) == ["embedding-sgd", "closed-form"]
    method = read["methods"]["embedding-sgd"]
    assert list(method) == ["hyperparameters", "samples", "mean", "std", "final", "seconds"]
    assert method["hyperparameters"] == {"bandwidth": 0.5, "batch": 50, "grid": [0.1, 1]}
    assert method["final"] == [0.09, 0.11]
    assert method["std"] == [pytest.approx(0.02), None]
    assert read["settings"]["noise"] == pytest.approx([0.05, 0.01])


def test_further_figures_of_a_method_stand_beside_the_contracts_keys() -> None:
    method = report().methods["embedding-sgd"]
    more = dataclasses.replace(method, extras={"plug-in": [np.float32(0.5), math.inf]})
    read = document(report(methods={"a": method, "b": more}))["methods"]
    assert list(read["b"]) == [*read["a"], "beside"]
    assert read["b"]["beside"] == {"plug-in": [0.5, None]}


def test_a_record_is_the_mean_and_spread_of_its_curves() -> None:
    method = Method.of({}, [1, 2], [[1.0, 4.0], [3.0, 5.0]], [0.1, 0.2])
    assert method.mean == [2.0, 4.5]
    assert method.std == pytest.approx([math.sqrt(2), math.sqrt(0.5)])
    assert method.final == [4.0, 5.0]
    assert Method.of({}, [1, 2], [[1.0, 4.0]], [0.1]).std == [0.0, 0.0]


def test_a_trial_that_diverged_makes_the_mean_infinite_and_the_rest_of_the_curve_stays() -> None:
    method = Method.of({}, [1, 2], [[1.0, 4.0], [3.0, math.inf]], [0.1, 0.2])
    assert method.mean == [2.0, math.inf]
    assert math.isnan(method.std[1])
    read = document(report(methods={"m": method}))["methods"]["m"]
    assert (read["mean"], read["final"]) == ([2.0, None], [4.0, None])


def test_figure_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    def fail() -> Figure:
        raise RuntimeError("as planned")

    (tmp_path / "figure.png").write_text("old")
    with pytest.raises(RuntimeError, match="as planned"):
        write(report(draw=fail), tmp_path)
    assert (tmp_path / "figure.png").read_text() == "old"


@pytest.mark.parametrize("change", [{"mean": [0.1]}, {"final": [0.1]}, {"seconds": []}])
def test_lists_that_do_not_fit_together_are_refused(change: dict[str, Any]) -> None:
    method = dataclasses.replace(report().methods["embedding-sgd"], **change)
    with pytest.raises(ValueError, match="embedding-sgd"):
        document(report(methods={"embedding-sgd": method}))


def test_table_gives_mean_and_spread_of_the_finals() -> None:
    console = Console(width=100, file=io.StringIO())
    console.print(table(report()))
    shown = console.file.getvalue()
    assert "noisy: MSE, 2 trials" in shown
    assert "0.1 ± 0.014" in shown
    assert "200" in shown
    assert "1.5" in shown


def test_table_of_one_trial_has_no_spread_and_a_diverged_one_says_nan() -> None:
    method = report().methods["embedding-sgd"]
    one = dataclasses.replace(method, final=[0.25], seconds=[1.0])
    lost = dataclasses.replace(method, final=[0.25, float("nan")])
    cells = {
        name: next(iter(table(each).columns[2].cells))
        for name, each in {
            "one": report(trials=1, methods={"m": one}),
            "lost": report(methods={"m": lost}),
        }.items()
    }
    assert cells == {"one": "0.25", "lost": "nan ± nan"}


@pytest.mark.parametrize("name", list(NAMES))
def test_every_named_experiment_keeps_the_contract(name: str) -> None:
    experiment = find_experiment(name)
    assert experiment.name == name
    assert 0 < experiment.quick_samples < experiment.samples
    assert list(experiment.chosen()) == list(experiment.contenders)
    for contender in experiment.contenders.values():
        grid = [json.dumps(settings, sort_keys=True, allow_nan=False) for settings in contender.grid()]
        assert 0 < len(set(grid)) == len(grid)
