"""Weights of rows and ratios of two policies are two arguments of estimators of transitions; files keep neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from tests.estimators.cases import ACTION, CASES, EPISODE, NEXT, ROWS, STATE, small

import dualembed as de

RNG = np.random.default_rng(3)
COUNT = RNG.integers(0, 4, size=ROWS)
REPEATED = np.repeat(np.arange(ROWS), COUNT)
UNEVEN = RNG.uniform(0.2, 2.0, size=ROWS)
TRANSITIONS = ("policy", "action", "hitting", "control")


def said(name: str, rows: Any, **more: Any) -> tuple[Any, np.ndarray]:
    """The fitted model, and f with its errors."""
    estimator, data, asked = CASES[name]
    model = clone(estimator).fit(**{role: np.asarray(column)[rows] for role, column in data.items()}, **more)
    return model, np.concatenate(model.predict(*asked, return_std=True))


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_row_of_weight_k_is_k_equal_rows_and_one_of_weight_0_is_none(name: str) -> None:
    rows = np.arange(ROWS)
    model, found = said(name, rows, sample_weight=COUNT)
    np.testing.assert_array_equal(found, said(name, REPEATED)[1])
    assert model.diagnostics_.rows == COUNT.sum()
    data = CASES[name][1]
    repeated = {role: np.asarray(column)[REPEATED] for role, column in data.items()}
    assert model.error(**data, sample_weight=COUNT).value == pytest.approx(model.error(**repeated).value)


@pytest.mark.parametrize("name", TRANSITIONS)
def test_other_weights_have_no_scale_and_say_how_many_rows_they_are_worth(name: str) -> None:
    rows = np.arange(ROWS)
    model, found = said(name, rows, sample_weight=UNEVEN)
    np.testing.assert_allclose(found, said(name, rows, sample_weight=7.3 * UNEVEN)[1], rtol=1e-6)
    worth = UNEVEN.sum() ** 2 / np.sum(UNEVEN**2)
    assert model.diagnostics_.effective_rows == pytest.approx(worth)
    assert "worth" in str(model.diagnostics_)
    halves = said(name, rows, sample_weight=np.where(COUNT > 0, COUNT / 2, 0.0))[1]
    counts = said(name, REPEATED)[1]
    middle = len(found) // 2  # the values: errors of counts take copies for more data
    np.testing.assert_allclose(halves[:middle], counts[:middle], atol=0.1 * np.abs(counts[:middle]).max())
    with pytest.raises(de.InputError, match="partial_fit cannot add rows where sample_weight is not whole"):
        model.partial_fit(**CASES[name][1])


def test_default_fits_of_counts_are_those_of_repeated_rows() -> None:
    rows = slice(0, 400)
    again = np.repeat(np.arange(400), COUNT[rows])
    weighed = de.PolicyEvaluator(0.8).fit(
        STATE[rows], STATE[rows], NEXT[rows], sample_weight=COUNT[rows], episodes=EPISODE[rows]
    )
    repeated = de.PolicyEvaluator(0.8).fit(STATE[again], STATE[again], NEXT[again], episodes=EPISODE[again])
    np.testing.assert_array_equal(weighed.predict([0.0, 1.0]), repeated.predict([0.0, 1.0]))
    assert (weighed.value().value, weighed.value().stderr) == (repeated.value().value, repeated.value().stderr)


def test_a_default_fit_with_weights_finds_what_the_weighted_rows_say() -> None:
    """Rewards are 1 in rows that count and 5 in rows that hardly do, so that V is near 1 / (1 - 0.5)."""
    rare = RNG.random(ROWS) < 0.5
    weights = np.where(rare, 0.01, 1.0)
    model = de.PolicyEvaluator(0.5).fit(STATE, np.where(rare, 5.0, 1.0), NEXT, sample_weight=weights)
    exact = np.average(np.where(rare, 5.0, 1.0), weights=weights) / 0.5
    values, errors = model.predict([-1.0, 0.0, 1.0], return_std=True)
    assert np.all(np.abs(values - exact) < 3 * errors + 0.05)


def test_ratios_and_weights_of_rows_may_be_given_together() -> None:
    ratios = RNG.uniform(0.5, 1.5, size=ROWS)
    both, repeated = (
        de.PolicyEvaluator(0.8, **small()).fit(
            STATE[rows], STATE[rows], NEXT[rows], importance_weights=ratios[rows], sample_weight=weights
        )
        for rows, weights in ((np.arange(ROWS), COUNT), (REPEATED, None))
    )
    np.testing.assert_array_equal(both.predict([0.3]), repeated.predict([0.3]))
    assert both.diagnostics_.overlap is not None


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.where(np.arange(ROWS) == 4, -1.0, 1.0), "sample_weight must not be below 0, but is in row 4"),
        (np.zeros(ROWS), "sample_weight is zero in every row"),
        (np.ones(ROWS - 1), f"sample_weight must have shape .{ROWS},"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weights: np.ndarray, words: str) -> None:
    with pytest.raises(de.InputError, match=words):
        said("policy", np.arange(ROWS), sample_weight=weights)


def size_of_file(rows: int, folder: Path, argument: str = "importance_weights") -> int:
    """How large the file of a default fit to so many weighted rows is, of episodes of 50 rows in two dimensions."""
    rng = np.random.default_rng(0)
    state = np.zeros((rows // 50, 51, 2))
    state[:, 0] = rng.normal(size=(rows // 50, 2))
    for step in range(50):
        noise = rng.normal(size=(rows // 50, 2))
        state[:, step + 1] = 0.9 * state[:, step] + 0.1 * np.sin(3 * state[:, step, ::-1]) + 0.4 * noise
    here, following = (each.reshape(-1, 2) for each in (state[:, :-1], state[:, 1:]))
    weights = {argument: rng.gamma(4.0, 0.25, size=rows), "episodes": np.arange(rows) // 50}
    model = de.PolicyEvaluator(0.95).fit(here, here[:, 0] ** 2 + np.sin(here[:, 1]), following, **weights)
    de.save(model, folder / "model.dualembed")
    return (folder / "model.dualembed").stat().st_size


@pytest.mark.parametrize("argument", ["importance_weights", "sample_weight"])
def test_a_file_of_a_weighted_fit_does_not_grow_with_the_rows(argument: str, tmp_path: Path) -> None:
    few, many = (size_of_file(rows, tmp_path, argument) for rows in (10_000, 40_000))
    assert many < 1.1 * few
    assert few < 15e6


def test_a_file_of_a_weighted_regression_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    sizes = []
    for rows in (11_000, 25_000):
        rng = np.random.default_rng(0)
        state, noise = rng.normal(size=(2, rows))
        model = de.IVRegressor(primal="linear", dual="linear")
        model.fit(
            state[:, None] + noise[:, None], np.sin(state), instruments=state, sample_weight=rng.gamma(2.0, size=rows)
        )
        de.save(model, tmp_path / "model.dualembed")
        sizes.append((tmp_path / "model.dualembed").stat().st_size)
    assert sizes[1] < 1.05 * sizes[0]


def test_logged_probabilities_of_both_policies_are_ratios() -> None:
    taken, wanted = np.full(ROWS, 0.5), np.where(ACTION == 0, 0.8, 0.3)
    columns = {"states": STATE, "rewards": 1.0 * ACTION, "next_states": NEXT}
    by_ratio = de.PolicyEvaluator(0.8, **small()).fit(**columns, importance_weights=wanted / taken)
    model = de.PolicyEvaluator(0.8, **small()).fit(**columns, pscore=taken, target_probabilities=wanted)
    np.testing.assert_array_equal(model.predict([0.3]), by_ratio.predict([0.3]))
    assert "importance weights are the probabilities of the logged actions" in str(model.summary())
    plain = de.PolicyEvaluator(0.8, **small()).fit(**columns, propensities=taken)
    assert plain.diagnostics_.overlap is None
    assert "are not used: this is the value of the policy that acted" in str(plain.summary())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"target_probabilities": np.ones(ROWS)}, "target_probabilities need propensities"),
        (
            {"propensities": np.log(np.full(ROWS, 0.5)), "target_probabilities": np.ones(ROWS)},
            "propensities must be above 0.*exponential where they are log",
        ),
        ({"propensities": np.ones(ROWS), "target_probabilities": -np.ones(ROWS)}, "must not be below 0"),
        ({"propensities": np.ones(ROWS), "target_probabilities": np.full(ROWS, 1.5)}, "must be at most 1, but are not"),
        ({"importance_weights": np.ones(ROWS), "target_probabilities": np.ones(ROWS)}, "give one of them"),
    ],
)
def test_probabilities_that_make_no_sense_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(de.InputError, match=words):
        de.PolicyEvaluator(0.8, **small()).fit(STATE, STATE, NEXT, **given)


def test_action_values_say_beside_the_answer_what_importance_sampling_finds() -> None:
    """Two actions, of which 1 earns 1, and episodes of five steps: the policy earns 0.75 a step."""
    rng = np.random.default_rng(0)
    action, state = rng.integers(2, size=1000), rng.normal(size=1200).reshape(200, 6)
    ends = np.tile([0, 0, 0, 0, 1], 200)
    columns = {"states": state[:, :5].ravel(), "actions": action, "next_states": state[:, 1:].ravel()}
    model = de.ActionValueEvaluator(0.9, _mostly, **small()).fit(
        **columns, rewards=1.0 * action, terminated=ends, episodes=np.arange(1000) // 5, propensities=np.full(1000, 0.5)
    )
    found = model.summary().to_dict()["answer"]["importance_sampling"]
    exact = 0.75 * (1 - 0.9**5) / (1 - 0.9)
    assert abs(found["value"] - exact) < 3 * found["stderr"] < 1.0
    assert "Action values need no weights" in str(model.summary())


def _mostly(states: Any) -> np.ndarray:
    return np.tile([0.25, 0.75], (len(states), 1))


def test_densities_of_a_target_policy_may_exceed_one() -> None:
    """Where those of the policy that acted do, or where actions are measured; probabilities of labels may not."""
    rng = np.random.default_rng(0)
    rows = {"state": rng.normal(size=ROWS), "reward": rng.normal(size=ROWS), "next_state": rng.normal(size=ROWS)}
    rows |= {"propensity": np.full(ROWS, 0.8), "target_probability": np.full(ROWS, 1.2)}
    measured = de.PolicyEvaluator(0.8, **small()).fit({**rows, "action": rng.normal(size=ROWS)})
    assert measured.diagnostics_.rows == ROWS
    assert de.PolicyEvaluator(0.8, **small()).fit({**rows, "propensity": np.full(ROWS, 1.1)}).diagnostics_.rows == ROWS
    with pytest.raises(de.InputError, match="target_probabilities must be at most 1"):
        de.PolicyEvaluator(0.8, **small()).fit({**rows, "action": rng.integers(2, size=ROWS)})
