"""The model files beside this one, which every later version must read: `python -m tests.saved.make` writes them.

Every file has a case here: how its model was made, and questions whose answers were recorded with it, in answers-1.json
for format 1. A file once released is never made again: a new format gets files of its own beside the old ones.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow as pa

from dualembed import cli, data, kernels, samplers, schedules, solvers, spaces
from dualembed.data.conditions import condition
from dualembed.estimators import (
    ActionValueEvaluator,
    HittingTimeRegressor,
    InvariantClassifier,
    InvariantRegressor,
    IVRegressor,
    LinearControl,
    PolicyEvaluator,
)
from dualembed.kernels import Gaussian
from dualembed.saving import load, models, save
from dualembed.spaces import Nystrom
from dualembed.spaces.nystrom import KMeansPlusPlus, LeverageScores

FOLDER = Path(__file__).parent
LINES = {"primal": "linear", "dual": "linear"}
ROWS, FEW, MANY = 30, 18, 200  # of fits: what a file with landmarks takes grows with their square


@dataclasses.dataclass(frozen=True)
class Case:
    """How a model was made, and what is asked of it once it is loaded.

    Answers are the same to within `tolerance` of their size: those of functions in JAX have seven digits at most.
    """

    made: Callable[[], Any]
    questions: Mapping[str, Callable[[Any], Any]]
    tolerance: float = 1e-9


def line() -> IVRegressor:
    """Two-stage least squares on a number and a category."""
    rng = np.random.default_rng(0)
    z, hidden = rng.normal(size=(2, 60))
    kind = rng.choice(["ash", "oak", "yew"], size=60)
    table = pandas.DataFrame({"dose": z + hidden, "tree": kind})
    return IVRegressor(primal="linear", dual="linear").fit(
        table[["dose"]], z + 3 * hidden, instruments=z, controls=table[["tree"]]
    )


def curve() -> PolicyEvaluator:
    """A value function in small Nyström spaces, fitted in a way that goes on."""
    rng = np.random.default_rng(1)
    state = rng.normal(size=(120, 2))
    following = 0.5 * state + rng.normal(size=(120, 2))
    spaces = {"primal": Nystrom(Gaussian(2.0), 12), "dual": Nystrom(Gaussian(2.0), 16)}
    model = PolicyEvaluator(0.9, **spaces)
    return model.partial_fit(state, np.sin(state[:, 0]), following, episodes=np.arange(120) // 6)


def steps(rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """(states, next states), (rows, 2) each."""
    rng = np.random.default_rng(2)
    state = rng.normal(size=(rows, 2))
    return state, 0.5 * state + 0.5 * rng.normal(size=(rows, 2))


def value() -> PolicyEvaluator:
    """A value function with all choices left to the data, from weighted rows of episodes that end."""
    state, following = steps()
    weights = np.random.default_rng(3).uniform(0.5, 1.5, size=ROWS)
    given = {"weights": weights, "episodes": np.arange(ROWS) // 4, "terminated": np.arange(ROWS) % 4 == 3}
    return PolicyEvaluator(0.8).fit(state, np.sin(state[:, 0]), following, **given)


def value_in(primal: Any, dual: Any, solver: Any = "auto", rows: int = ROWS) -> PolicyEvaluator:
    """A value function in given spaces."""
    state, following = steps(rows)
    model = PolicyEvaluator(0.8, primal=primal, dual=dual, solver=solver)
    return model.fit(state, np.sin(state[:, 0]), following, episodes=np.arange(rows) // 4)


def few_steps(**more: Any) -> solvers.EmbeddingSGD:
    """Embedding-SGD that leaves little behind."""
    return solvers.EmbeddingSGD(20, 5, schedules.OffsetSqrt(0.5, 1.0), **more)


def table_of_states() -> PolicyEvaluator:
    """A number for each of four states."""
    rng = np.random.default_rng(4)
    state, following = rng.integers(4, size=(2, ROWS))
    model = PolicyEvaluator(0.8, primal=spaces.Table(), dual=spaces.Table())
    return model.fit(1.0 * state, 1.0 * state, 1.0 * following, episodes=np.arange(ROWS) // 4)


def second(states: Any) -> np.ndarray:
    """The policy of the file of action values: the second of three actions, mostly."""
    return np.tile([0.1, 0.8, 0.1], (len(states), 1))


def action_values() -> ActionValueEvaluator:
    """Values of three actions, with all choices left to the data."""
    state, following = steps(FEW)
    action = np.random.default_rng(5).integers(3, size=FEW)
    reward = action + np.sin(state[:, 0]) + following[:, 1]
    return ActionValueEvaluator(0.5, second).fit(state, action, reward, following, episodes=np.arange(FEW) // 2)


def action_values_on_lines() -> ActionValueEvaluator:
    """Values of actions that are numbers, from next actions in the table."""
    state, following = steps()
    actions = np.random.default_rng(6).normal(size=(2, ROWS))
    model = ActionValueEvaluator(0.5, **LINES)
    return model.fit(state, actions[0], actions[0] + state[:, 0], following, next_actions=actions[1])


def effect() -> IVRegressor:
    """An effect by an instrument beside a category, with all choices left to the data."""
    rng = np.random.default_rng(7)
    z, hidden = rng.normal(size=(2, ROWS))
    table = pandas.DataFrame({"dose": 2 * z + hidden, "tree": rng.choice(["ash", "oak"], size=ROWS)})
    return IVRegressor().fit(table[["dose"]], np.sin(z) + 3 * hidden, instruments=z, controls=table[["tree"]])


def regression() -> IVRegressor:
    """A straight line through plain numbers, with slopes in the columns' own units."""
    state, following = steps(MANY)
    return IVRegressor(**LINES).fit(state, following[:, 0], groups=np.arange(MANY) // 4)


def mean_of_variations() -> InvariantRegressor:
    """A function under noise, with all choices left to the data."""
    state, following = steps(FEW)
    return InvariantRegressor("noise", 3, test_draws=4).fit(state, following[:, 0])


def mean_of_rotations() -> InvariantRegressor:
    """A function of clouds of points, whichever way they are turned."""
    clouds = np.random.default_rng(8).normal(size=(ROWS, 6))
    model = InvariantRegressor(samplers.Rotation2D(), 3, test_draws=4, **LINES)
    return model.fit(clouds, (clouds**2).sum(axis=1))


def classes(loss: str) -> InvariantClassifier:
    """Two classes under noise; with the logistic loss all choices are left to the data."""
    state, following = steps(MANY)
    own = {} if loss == "logistic" else LINES
    model = InvariantClassifier("noise", 3, loss, test_draws=4, **own)
    return model.fit(state, np.where(following[:, 0] > 0, "up", "down"))


def hitting_time() -> HittingTimeRegressor:
    """A time until a condition, with all choices left to the data."""
    state, following = steps()
    inside = condition("x0 >= 0.5 and x1 < 1", ["x0", "x1"])
    return HittingTimeRegressor(inside).fit(state, following, episodes=np.arange(ROWS) // 4)


def desirability() -> LinearControl:
    """The desirability of states, with all choices left to the data."""
    state, following = steps()
    return LinearControl().fit(state, np.full(ROWS, 0.1), following, following[:, 0] > 0.5)


def from_the_command_line() -> PolicyEvaluator:
    """A model that `dualembed fit` has saved, which knows the columns of its table."""
    state, following = steps(MANY)
    columns = {"place": state[:, 0], "kind": np.where(state[:, 1] > 0, "a", "b"), "reward": state[:, 0]}
    columns |= {"next_place": following[:, 0], "next_kind": np.where(following[:, 1] > 0, "a", "b")}
    columns |= {"episode": np.arange(MANY) // 4}
    with tempfile.TemporaryDirectory() as folder:
        data.write_table(columns, f"{folder}/log.csv")
        words = ["fit", "policy-evaluation", f"{folder}/log.csv", "--state", "place,kind", "--out", f"{folder}/model"]
        assert cli.main([*words, "--primal", "linear", "--dual", "linear", "--discount", "0.5", "--json"]) == 0
        return load(f"{folder}/model")


def not_fitted() -> IVRegressor:
    """Parameters only: a sum of all kernels, and objects of solvers and schedules."""
    one = kernels.Columns(kernels.Categorical(), (1,)) * Gaussian(np.array([0.5, 2.0])) + 0.5 * kernels.Laplacian(1.5)
    two = kernels.Matern32(1.0) + kernels.Matern52(2.0) + kernels.Periodic(3.0) + kernels.Polynomial(2)
    three = kernels.ArcCosine() + kernels.ArcSine() + kernels.ProbabilityProduct(0.3)
    solver = solvers.CentredEmbeddingSGD(30, 5, schedules.OffsetLinear(0.5, 2.0), schedules.Power(0.7))
    return IVRegressor(
        primal=spaces.RKHS(one + two + three),
        dual=Nystrom(Gaussian(0.5), 16, KMeansPlusPlus()),
        solver=solver,
        categorical_features=["tree"],
    )


POINTS = np.array([[0.0, 0.0], [1.0, -1.0], [-0.5, 2.0], [0.7, 0.3]])
ACTIONS = np.array([0, 1, 2, 1])
CLOUDS = np.array([[0.0, 1.0, 2.0, 0.5, -1.0, 0.0], [1.0, 1.0, 0.0, 0.0, 0.3, -0.3]])
DOSES = pandas.DataFrame({"dose": [0.0, 1.0, -2.0]})
TREES = pandas.DataFrame({"tree": ["oak", "oak", "ash"]})
PLACES = pa.table({"place": [0.0, 1.0, -0.5], "kind": ["a", "b", "b"]})


def asked(*points: Any, errors: bool = True, witness: Any = None) -> dict[str, Callable[[Any], Any]]:
    """The questions that most models answer at points; `witness` is where that is asked for, if not there."""
    contexts = points if witness is None else witness
    found: dict[str, Callable[[Any], Any]] = {"predict": lambda model: model.predict(*points)}
    if contexts != ():
        found["witness"] = lambda model: model.witness(*contexts)
    if errors:
        found["predict with errors"] = lambda model: model.predict(*points, return_std=True)
    if errors and contexts != ():
        found["interval"] = lambda model: model.interval(*points, level=0.9)
        found["witness with errors"] = lambda model: model.witness(*contexts, return_std=True)
    return found


def worth(model: Any) -> list[float]:
    """The value of a policy with its error and its interval."""
    found = model.value()
    return [found.value, found.stderr, *found.interval(0.9)]


WORTH: dict[str, Callable[[Any], Any]] = {"value": worth}


def value_and_error(found: Any) -> tuple[float, float]:
    """The two numbers of an estimate."""
    return found.value, found.stderr


WORTH_AT_POINTS = {**WORTH, "value of given starts": lambda model: value_and_error(model.value(POINTS))}
BAND: dict[str, Callable[[Any], Any]] = {"band": lambda model: model.band(DOSES, TREES)}
SLOPES: dict[str, Callable[[Any], Any]] = {
    "slopes": lambda model: [*model.coef_, *model.coef_stderr_, model.intercept_],
    "band": lambda model: model.band(POINTS),
}
SINGLE = 1e-4  # the tolerance where all is computed in float32

CASES = {
    "line": Case(line, asked(DOSES, TREES, witness=(np.arange(3.0), TREES)) | BAND),
    "curve": Case(curve, asked(POINTS) | WORTH_AT_POINTS),
    "value": Case(value, asked(POINTS) | WORTH_AT_POINTS),
    "value-lines": Case(functools.partial(value_in, "linear", "linear"), asked(POINTS) | WORTH_AT_POINTS),
    "value-chosen-dual": Case(
        functools.partial(value_in, Nystrom(Gaussian(1.5), 8), "auto"), asked(POINTS) | WORTH_AT_POINTS
    ),
    "value-waves": Case(
        functools.partial(value_in, spaces.Fourier(Gaussian(1.5), 10), spaces.Fourier(Gaussian(1.5), 12, pairs=True)),
        asked(POINTS) | WORTH_AT_POINTS,
    ),
    "value-expansions": Case(
        functools.partial(value_in, spaces.RKHS(Gaussian(1.5)), spaces.RKHS(Gaussian(1.5)), rows=12),
        asked(POINTS) | WORTH_AT_POINTS,
    ),
    "value-landmarks": Case(
        functools.partial(
            value_in,
            Nystrom(kernels.Matern32(1.5) * 0.5, 8),
            Nystrom(Gaussian(1.5) + Gaussian(0.5), 10, LeverageScores()),
        ),
        asked(POINTS) | WORTH_AT_POINTS,
    ),
    "value-table": Case(table_of_states, asked(np.arange(4.0)) | WORTH),
    "value-sgd": Case(functools.partial(value_in, "linear", "linear", "embedding-sgd"), asked(POINTS, errors=False)),
    "value-sgd-expansions": Case(
        functools.partial(value_in, spaces.RKHS(Gaussian(1.5)), spaces.RKHS(Gaussian(1.5)), few_steps()),
        asked(POINTS, errors=False),
        SINGLE,
    ),
    "value-sgd-whitened": Case(
        functools.partial(
            value_in,
            Nystrom(Gaussian(1.5), 8),
            Nystrom(Gaussian(1.5), 8),
            few_steps(preconditioner=solvers.Preconditioner(30)),
        ),
        asked(POINTS, errors=False),
        SINGLE,
    ),
    "value-sgd-seeds": Case(
        functools.partial(
            value_in, spaces.DoublyStochastic(Gaussian(1.5), 8), spaces.DoublyStochastic(Gaussian(1.5), 8), few_steps()
        ),
        asked(POINTS, errors=False),
        SINGLE,
    ),
    "value-network": Case(
        functools.partial(value_in, spaces.Network(width=4, depth=1), spaces.Network(width=4, depth=1), few_steps()),
        asked(POINTS, errors=False),
        SINGLE,
    ),
    "action-values": Case(action_values, asked(POINTS, ACTIONS) | WORTH),
    "action-values-lines": Case(action_values_on_lines, asked(POINTS, POINTS[:, 1])),
    "effect": Case(effect, asked(DOSES, TREES, witness=(np.arange(3.0), TREES)) | BAND),
    "regression": Case(regression, asked(POINTS) | SLOPES),
    "variations": Case(
        mean_of_variations, asked(POINTS, witness=()) | {"function": lambda model: model.function(POINTS)}
    ),
    "rotations": Case(
        mean_of_rotations, asked(CLOUDS, witness=()) | {"function": lambda model: model.function(CLOUDS)}
    ),
    "classes": Case(
        functools.partial(classes, "logistic"),
        asked(POINTS, errors=False, witness=()) | {"probabilities": lambda model: model.predict_proba(POINTS)},
    ),
    "classes-hinge": Case(
        functools.partial(classes, "smoothed-hinge"),
        asked(POINTS, errors=False, witness=()) | {"decisions": lambda model: model.decision_function(POINTS)},
    ),
    "hitting-time": Case(
        hitting_time, asked(POINTS) | {"return time": lambda model: model.return_time(POINTS, return_std=True)}
    ),
    "desirability": Case(desirability, asked(POINTS) | {"cost to go": lambda model: model.cost_to_go(POINTS)}),
    "command": Case(from_the_command_line, asked(PLACES) | WORTH),
    "parameters": Case(
        not_fitted,
        {
            "kernel": lambda model: model.primal.kernel.gram(POINTS, POINTS),
            "steps": lambda model: [model.solver.steps, model.solver.primal_step.rate, model.solver.dual_step.power],
            "landmarks": lambda model: model.dual.size,
        },
        SINGLE,
    ),
}


def answers(case: Case, model: Any) -> dict[str, Any]:
    """What the model says to the case's questions, in JSON's terms."""
    return {question: np.asarray(ask(model)).tolist() for question, ask in case.questions.items()}


def file_of(name: str, number: int = 1) -> Path:
    """Where the model of that case is, in that format."""
    return FOLDER / f"{name}-{number}.dualembed"


def answers_of(number: int) -> Path:
    """Where the answers of that format's files are."""
    return FOLDER / f"answers-{number}.json"


def write() -> None:
    """Write the files of this format that are not there yet, and record the answers of their models as loaded."""
    record = answers_of(models.FORMAT)
    recorded = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    for name, case in CASES.items():
        path = file_of(name, models.FORMAT)
        if not path.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of weak instruments and few rows, which do not matter here
                save(case.made(), path)
        recorded.setdefault(name, answers(case, load(path)))
    recorded = {name: recorded[name] for name in CASES}
    record.write_text(json.dumps(recorded, indent=1, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    from tests.saved import make  # whose functions have names that last, unlike those of __main__

    make.write()
