"""Action values of policies in all forms: each gives exactly what the function gives that does the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.estimators.cases import small

import dualembed as de

EPISODES, STEPS = 20, 8


def odds(states: Any) -> np.ndarray:
    second = 1 / (1 + np.exp(-np.asarray(states).ravel()))
    return np.column_stack([1 - second, second])


class Classifier:
    """As scikit-learn's, with classes in an order of its own."""

    def __init__(self, classes: list[Any]) -> None:
        self.classes_ = np.array(classes)

    def predict_proba(self, states: Any) -> np.ndarray:
        return odds(states)[:, ::-1]


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    state = rng.normal(size=(EPISODES, STEPS + 1))
    here, there = state[:, :-1].ravel(), state[:, 1:].ravel()
    move = rng.integers(2, size=here.size)
    columns = {"state": here, "move": np.array(["go", "stay"])[move], "action": move, "reward": here * move}
    return pd.DataFrame(columns | {"next_state": there, "episode": np.repeat(np.arange(EPISODES), STEPS)})


def value(log: pd.DataFrame, policy: Any, actions: str = "action", *, whole: bool = False) -> float:
    model = de.ActionValueEvaluator(0.8, policy, **small())
    if whole:
        return float(model.fit(log.drop(columns=["move"])).value().value)
    columns = {"states": log.state, "actions": log[actions], "rewards": log.reward, "next_states": log.next_state}
    return float(model.fit(**columns, episodes=log.episode).value().value)


@pytest.fixture(scope="module")
def wanted(log: pd.DataFrame) -> float:
    return value(log, odds)


def tables(log: pd.DataFrame, names: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    here, there = (pd.DataFrame(odds(column), columns=names) for column in (log.state, log.next_state))
    return here[names[::-1]], there


def test_classifiers_and_tables_are_what_the_function_is(log: pd.DataFrame, wanted: float) -> None:
    assert value(log, Classifier([1, 0])) == pytest.approx(wanted, rel=1e-9)
    assert value(log, (odds(log.state), odds(log.next_state))) == pytest.approx(wanted, rel=1e-9)
    assert value(log, Classifier(["stay", "go"]), "move") == pytest.approx(wanted, rel=1e-9)
    assert value(log, tables(log, ["go", "stay"]), "move") == pytest.approx(wanted, rel=1e-9)


def test_names_of_columns_are_what_the_function_is(log: pd.DataFrame, wanted: float) -> None:
    more = {"p_0": odds(log.state)[:, 0], "p_1": odds(log.state)[:, 1]}
    after = {"next_p_0": odds(log.next_state)[:, 0], "next_p_1": odds(log.next_state)[:, 1]}
    frame = log.assign(**more, **after)
    assert value(frame, "p_*", whole=True) == pytest.approx(wanted, rel=1e-9)
    assert value(frame, ["p_1", "p_0"], whole=True) == pytest.approx(wanted, rel=1e-9)
    with pytest.raises(de.InputError, match="names columns of the log; give the log as one table"):
        value(frame, "p_*")


def test_what_follows_may_be_the_next_rows(log: pd.DataFrame) -> None:
    columns = {"states": log.state, "actions": log.action, "rewards": log.reward, "episodes": log.episode}
    by_function, by_table = (
        de.ActionValueEvaluator(0.8, policy, **small()).fit(**columns).value().value
        for policy in (odds, odds(log.state))
    )
    assert by_table == pytest.approx(by_function, rel=1e-9)


def test_a_table_of_states_alone_is_refused_where_next_states_are_others(log: pd.DataFrame) -> None:
    with pytest.raises(de.InputError, match=r"give a pair of tables, policy=\(at_states, at_next_states\)"):
        value(log, odds(log.state))


def test_a_table_is_of_its_rows_alone(log: pd.DataFrame) -> None:
    model = de.ActionValueEvaluator(0.8, (odds(log.state), odds(log.next_state)), **small())
    model.fit(log.state, log.action, log.reward, log.next_state, episodes=log.episode)
    with pytest.raises(de.InputError, match="known at the rows of its log alone"):
        model.value([[0.0]])


def test_a_model_of_a_classifier_is_saved_and_asks_for_it_again(log: pd.DataFrame, tmp_path: Path) -> None:
    model = de.ActionValueEvaluator(0.8, Classifier([1, 0]), **small())
    model.fit(log.state, log.action, log.reward, log.next_state, episodes=log.episode)
    de.save(model, tmp_path / "q.dualembed")
    again = de.load(tmp_path / "q.dualembed")
    np.testing.assert_array_equal(again.predict([0.5], [1]), model.predict([0.5], [1]))
    assert again.value().value == model.value().value
    with pytest.raises(de.InputError, match="not kept in model files; give it again"):
        again.value([[0.0]])
