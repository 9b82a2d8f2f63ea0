"""An eighth estimator in one file: a task, a signature and a problem, and all the rest comes with it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import dualembed as de
from dualembed.answers import Setting, Task
from dualembed.cli import main
from dualembed.data.frames import as_column
from dualembed.data.table import Table
from dualembed.estimators.registry import ESTIMATORS, register
from dualembed.estimators.transitions import TransitionEstimator

ROWS, RATE = 600, 0.5


class DecayRegressor(TransitionEstimator):
    """h(s) with E[h(s) - rate h(s') - cost | s] = 0: what a decaying process costs."""

    task = Task(
        "decay",
        "what a decaying process costs",
        title="Decay",
        question="What does a decaying process cost from each state on?",
        function="the cost h(s) from state s on",
        equation="the cost of a state must be its own plus what is left of the next one's, on average",
        symbol="h(s)",
        noun="cost",
        row="transition",
        needs=("states", "costs", "next_states"),
        takes=("episodes",),
        inputs=("states",),
        context=("states",),
        settings=(Setting("rate", "What is left after a step.", default=0.9),),
        examples=("steps.csv --state x --cost c --next-state next_x --rate 0.8 --out decay.dualembed",),
    )

    def __init__(
        self,
        rate: float = 0.9,
        *,
        solver: Any = "auto",
        primal: Any = "auto",
        dual: Any = "auto",
        categorical_features: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.rate = rate
        self.solver = solver
        self.primal = primal
        self.dual = dual
        self.categorical_features = categorical_features
        self.random_state = random_state

    def fit(self, states: Any, costs: Any, next_states: Any, episodes: Any = None) -> DecayRegressor:
        """Learn h from transitions, one a row."""
        return self._fit(Table.of(states=states, costs=costs, next_states=next_states, episodes=episodes))

    def _make_problem(self, columns: dict[str, np.ndarray], table: Table) -> Any:
        columns["reward"] = as_column("costs", table.costs, len(columns["state"]))
        return de.problems.PolicyEvaluation(de.sources.Dataset(**columns), self.rate)


# Other tests look at the library's own tasks alone.
del ESTIMATORS["decay"]


@pytest.fixture(autouse=True, scope="module")
def imported() -> Iterator[None]:
    """The registry as it is once the class has been imported."""
    register(DecayRegressor)
    yield
    del ESTIMATORS["decay"]


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    state = rng.normal(size=ROWS)
    return {"states": state, "costs": 1 + state, "next_states": 0.5 * state + rng.normal(size=ROWS)}


@pytest.fixture(scope="module")
def model(data: dict[str, np.ndarray]) -> DecayRegressor:
    return DecayRegressor(RATE).fit(**data)


def test_it_solves_its_equation(model: DecayRegressor) -> None:
    values, errors = model.predict([0.0, 1.0], return_std=True)  # h(s) = 2 + s / (1 - 0.5 · 0.5)
    np.testing.assert_array_less(np.abs(values - [2, 2 + 4 / 3]), 3 * errors)
    lower, upper = model.interval([0.0, 1.0])
    assert np.all((lower < values) & (values < upper))
    assert model.ask(model.difference([1.0], [0.0])).value == pytest.approx(values[1] - values[0])


def test_methods_that_take_data_have_the_signature_of_fit(model: DecayRegressor) -> None:
    names = list(inspect.signature(DecayRegressor.fit).parameters)
    for method in (DecayRegressor.partial_fit, DecayRegressor.error, DecayRegressor.score):
        assert list(inspect.signature(method).parameters) == names
    assert list(inspect.signature(DecayRegressor.predict).parameters) == ["self", "states", "return_std"]


def test_it_is_judged_and_goes_on(model: DecayRegressor, data: dict[str, np.ndarray]) -> None:
    error = model.error(**data)
    assert model.score(**data) == -error.value
    assert 0 <= model.consistency_test(**data).p_value <= 1
    assert model.witness(data["states"][:3], return_std=True)[1].shape == (3,)
    both = clone(model).fit(**data).partial_fit(**data)
    assert both.diagnostics_.rows == 2 * ROWS


def test_it_can_be_saved_drawn_and_reported(model: DecayRegressor, data: dict[str, np.ndarray], tmp_path: Path) -> None:
    de.save(model, tmp_path / "decay.dualembed")
    np.testing.assert_array_equal(de.load(tmp_path / "decay.dualembed").predict([0.3]), model.predict([0.3]))
    assert de.plot.function(model, data).get_ylabel() == "cost h(s)"
    de.report.write_report(model, tmp_path / "report.html", data=data)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "What does a decaying process cost" in page
    assert "The cost h(s) against state" in model._repr_html_()
    headline = model.summary().headline
    assert headline.question.startswith("the cost h(s) at a typical row (state = ")
    assert headline.text().partition(" (")[0] in page


def test_it_has_a_command_with_help(
    data: dict[str, np.ndarray], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "steps.csv"
    columns = [data["states"], data["costs"], data["next_states"]]
    np.savetxt(table, np.column_stack(columns), delimiter=",", header="x,c,next_x", comments="")
    assert main(["fit", "decay", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--rate" in shown
    assert "what a decaying process costs" in shown
    assert "--discount" not in shown
    model = str(tmp_path / "decay.dualembed")
    asked = ["--state", "x", "--cost", "c", "--next-state", "next_x", "--rate", str(RATE), "--out", model]
    assert main(["fit", "decay", str(table), *asked, "--report", str(tmp_path / "page.html"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["task"] == "decay"
    assert found["headline"]["verdict"] == "solid"
    assert found["answer"]["mean"]["value"] == pytest.approx(2.0, abs=0.3)
    assert main(["ask", model, "--at", "x=1", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert answer["value"] == pytest.approx(2 + 4 / 3, abs=0.4)
    for command in (["info", model], ["score", model, str(table)]):
        assert main(command) == 0
