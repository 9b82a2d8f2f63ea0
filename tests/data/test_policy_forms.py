"""Policies as they come: classifiers, agents, tables, columns and dictionaries say the same as a function does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from dualembed.checks import InputError
from dualembed.data.gaussian_policy import GaussianPolicy
from dualembed.data.policies import importance_weights
from dualembed.data.policy_forms import (
    ClassifierForm,
    PolicyForm,
    RowPolicy,
    choices_at,
    choices_of,
    form_of,
    named_rows,
    settled,
    taken_shares,
)

STATES = np.array([[-1.0], [0.5], [2.0], [-0.2]])
ACTIONS = np.array(["go", "stay", "go", "stay"])


class Agent:
    """As d3rlpy's: an action for each row of an array."""

    def predict(self, x: np.ndarray) -> np.ndarray:
        assert isinstance(x, np.ndarray)
        assert x.ndim == 2
        return (x[:, 0] > 0).astype(int)


class Baseline:
    """As those of Stable-Baselines3: actions beside a memory, by chance unless told otherwise."""

    def predict(
        self, observation: np.ndarray, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[np.ndarray, Any]:
        assert deterministic
        return (observation[:, 0] > 0).astype(int), None


def asked(policy: Any) -> PolicyForm:
    form = form_of(policy)
    assert isinstance(form, PolicyForm)
    return form


def test_a_classifiers_columns_are_its_classes() -> None:
    classifier = LogisticRegression().fit(STATES, ACTIONS)
    found = settled(asked(classifier).at(STATES), ("go", "stay"), discrete=True)
    assert found.labels == ("go", "stay")
    np.testing.assert_array_equal(found.shares, classifier.predict_proba(STATES))
    np.testing.assert_allclose(
        taken_shares(found, ACTIONS), classifier.predict_proba(STATES)[np.arange(4), [0, 1, 0, 1]]
    )


def test_a_classifier_of_a_frame_is_asked_with_its_names() -> None:
    frame = pd.DataFrame(STATES, columns=["place"])
    classifier = LogisticRegression().fit(frame, ACTIONS)
    np.testing.assert_array_equal(asked(classifier).at(frame).shares, classifier.predict_proba(frame))


@pytest.mark.parametrize("agent", [Agent(), Baseline(), SVC().fit(STATES, [0, 1, 1, 0])])
def test_agents_act_without_chance(agent: Any) -> None:
    for states in (STATES, STATES[:, 0], pd.DataFrame(STATES, columns=["place"])):
        found = asked(agent).at(states)
        assert found.shares.tolist() == [[1.0]] * 4
        assert found.actions is not None
        assert found.actions[:, 0].tolist() == [0, 1, 1, 0]


def test_actions_of_several_numbers_stay_together() -> None:
    class Arm:
        def predict(self, x: np.ndarray) -> np.ndarray:
            return np.column_stack([x[:, 0], -x[:, 0]])

    found = asked(Arm()).at(STATES)
    assert found.actions is not None
    assert found.actions.shape == (4, 1, 2)
    by_function = settled(asked(lambda s: np.column_stack([s[:, 0], -s[:, 0]])).at(STATES), (), discrete=False)
    np.testing.assert_array_equal(by_function.actions, found.actions)


def test_a_gaussian_policy_has_a_few_actions_with_weights() -> None:
    found = asked(GaussianPolicy(lambda s: 2 * s[:, 0], 0.5)).at(STATES)
    assert found.actions is not None
    np.testing.assert_allclose(np.sum(found.shares[:, :, None] * found.actions, axis=1), 2 * STATES)


def test_a_dictionary_says_what_is_done_in_each_state() -> None:
    states = np.array(["home", "away", "home"])
    chances = asked({"home": {"go": 0.25, "stay": 0.75}, "away": {"stay": 1.0}}).at(states)
    assert dict(zip(chances.labels or (), chances.shares.T.tolist(), strict=True)) == {
        "go": [0.25, 0.0, 0.25],
        "stay": [0.75, 1.0, 0.75],
    }
    single = asked({"home": 1, "away": 0}).at(states)
    assert single.actions is not None
    assert single.actions[:, 0].tolist() == [1, 0, 1]
    pairs = asked({(0, 1): [0.5, 0.5], (1, 1): [1.0, 0.0]}).at(np.array([[1.0, 1.0], [0.0, 1.0]]))
    assert pairs.shares.tolist() == [[1.0, 0.0], [0.5, 0.5]]
    with pytest.raises(InputError, match="no entry for the state 'hom'; did you mean 'home'"):
        asked({"home": 1, "away": 0}).at(np.array(["home", "hom"]))


def test_a_frames_columns_are_actions_in_any_order() -> None:
    frame = pd.DataFrame({"stay": [0.25, 1.0], "go": [0.75, 0.0]})
    found = choices_at(frame, 2, ("go", "stay"))
    assert dict(zip(found.labels or (), found.shares[0], strict=True)) == {"stay": 0.25, "go": 0.75}
    with pytest.raises(InputError, match="a column of the action 'og', but the log's actions are go, stay"):
        choices_at(frame.rename(columns={"go": "og"}), 2, ("go", "stay"))


def test_columns_of_a_log_say_it_by_their_names() -> None:
    log = {"p_go": [0.75], "p_stay": [0.25], "next_p_go": [0.5], "next_p_stay": [0.5], "plan": ["go"]}
    found = named_rows("p_*", log, follows=False)
    assert choices_at(found.states, 1, ("go", "stay")).labels == ("go", "stay")
    assert choices_at(found.next_states, 1, ("go", "stay")).shares.tolist() == [[0.5, 0.5]]
    assert named_rows("plan", log, follows=True).states.tolist() == ["go"]
    with pytest.raises(InputError, match="but not at next states; give next_plan too"):
        named_rows("plan", log, follows=False)
    numbered = named_rows(["p_1", "p_0"], {"p_0": [0.0], "p_1": [1.0]}, follows=True)
    assert choices_at(numbered.states, 1).labels == (1, 0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.full((4, 3), 1 / 3), "probabilities of 3 actions, but there are 2: 0, 1; give one for each"),
        (np.full((4, 2), 0.6), "not negative and sum to one, but gives .* in row 0"),
        (np.full((3, 2), 0.5), "in each of 4 rows, but gave 3"),
        (np.zeros((4, 2, 2)), r"\(n,\) or \(n, actions\), but gave shape"),
    ],
)
def test_what_is_no_policy_of_these_actions_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        settled(choices_of(given, 4), (0, 1), discrete=True)


def test_actions_that_the_log_never_shows_are_refused_by_name() -> None:
    classifier = LogisticRegression().fit(STATES, ["go", "stop", "go", "stop"])
    with pytest.raises(InputError, match="takes the action 'stop', which the log never shows \\(there are go, stay"):
        settled(asked(classifier).at(STATES), ("go", "stay"), discrete=True)


@pytest.mark.parametrize("policy", [3.0, LogisticRegression, {}])
def test_what_is_no_policy_is_refused(policy: Any) -> None:
    with pytest.raises(InputError, match="policy"):
        form_of(policy)


def test_a_pair_of_tables_is_for_states_and_next_states() -> None:
    form = form_of((np.array([0, 1]), np.array([1, 1])))
    assert isinstance(form, RowPolicy)
    assert form.next_states.tolist() == [1, 1]
    assert form_of(None) is None
    assert form_of("p_*") is None


def test_importance_weights_take_classifiers_agents_and_tables() -> None:
    classifier = LogisticRegression().fit(STATES, ACTIONS)
    assert isinstance(form_of(classifier), ClassifierForm)
    own = classifier.predict_proba(STATES)[np.arange(4), [0, 1, 0, 1]]
    np.testing.assert_allclose(importance_weights(STATES, ACTIONS, target=classifier, behaviour=[0.5] * 4), 2 * own)
    numbered = np.array([0, 1, 0, 1])
    np.testing.assert_allclose(
        importance_weights(STATES, numbered, target=Agent(), behaviour=[0.5] * 4), [2.0, 2.0, 0.0, 0.0]
    )
    table = np.array([[0.25, 0.75]] * 4)
    np.testing.assert_allclose(
        importance_weights(STATES, numbered, target=table, behaviour=[0.5] * 4), [0.5, 1.5, 0.5, 1.5]
    )
    with pytest.raises(InputError, match="a GaussianPolicy has none"):
        importance_weights(STATES, numbered, target=GaussianPolicy(lambda s: s, 1.0), behaviour=[0.5] * 4)
