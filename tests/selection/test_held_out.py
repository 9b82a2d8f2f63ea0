"""The honest error of averaged paths on rows left out: not below zero where memory is long and groups are few."""

from __future__ import annotations

import numpy as np

import dualembed as de
from dualembed.selection import HeldOut


def walks(seed: int) -> np.ndarray:
    """Rows (run, state, next state) of forty walks on 0..10 that start at 5."""
    rng, rows = np.random.default_rng(seed), []
    for run in range(40):
        state = 5
        for move in rng.choice([-1, 1], size=60):
            following = max(state + move, 0)
            rows.append((run, state, following))
            state = following
            if state >= 10:
                break
    return np.array(rows, dtype=float)


def held_out(seed: int) -> HeldOut:
    run, state, following = walks(seed).T
    model = de.HittingTimeRegressor(lambda s: s[:, 0] >= 10).fit(state, following, episodes=run)
    assert model.diagnostics_.held_out is not None
    return model.diagnostics_.held_out


def test_functions_fitted_without_other_rows_do_not_make_the_error_negative() -> None:
    """Products of rows of two folds, each judged by a function that has seen the other, were 3.7 deviations below."""
    found = [held_out(seed) for seed in range(6)]
    scores = [each.value / each.stderr for each in found]
    assert -1.3 < np.mean(scores) < 2.0  # the mean of six with a deviation of about 1 each
    assert all(each.fitted < each.squared for each in found)


def test_few_episodes_are_not_judged() -> None:
    run, state, following = walks(0).T
    few = run < 15
    model = de.HittingTimeRegressor(lambda s: s[:, 0] >= 10).fit(state[few], following[few], episodes=run[few])
    assert model.diagnostics_.held_out is None
    assert model.diagnostics_.unjudged == "15 episodes or groups, 20 are needed"
    assert "honest held-out error: none: 15 episodes or groups, 20 are needed" in str(model.diagnostics_)


def unjudged(rows: int, groups: np.ndarray | None = None) -> str:
    """What is said of a straight line where there is no honest error."""
    z, hidden = np.random.default_rng(0).normal(size=(2, rows))
    model = de.IVRegressor(primal="linear", dual="linear")
    model.fit((z + hidden)[:, None], hidden, instruments=z, groups=groups)
    reason: str = model.diagnostics_.unjudged
    assert (model.diagnostics_.held_out is None) == bool(reason)
    assert model.summary().to_dict()["why_no_honest_error"] == (reason or None)
    assert not reason or f"on rows left out: {reason}." in model.summary().error_text()
    return reason


def test_the_one_reason_why_there_is_no_error_is_told_with_the_number_needed() -> None:
    assert unjudged(119) == "119 rows, 120 are needed"
    assert unjudged(120) == ""
    assert unjudged(400, np.arange(400) % 39) == "39 groups, 40 are needed"
    assert unjudged(400, np.arange(400) % 40) == ""
    assert unjudged(100, np.arange(100) // 2) == "100 rows, 120 are needed"
    unequal = np.concatenate([np.arange(60), np.full(240, 7)])
    assert unjudged(300, unequal).startswith("the groups are so unequal that one of 4 parts has too few rows")


def test_a_loss_that_has_no_error_on_rows_left_out_is_named() -> None:
    x = np.random.default_rng(0).normal(size=(200, 1))
    model = de.InvariantClassifier("noise", primal="linear", dual="linear").fit(x, x[:, 0] > 0)
    reason = model.diagnostics_.unjudged
    assert reason == "the loss is Logistic, and it is known for the square loss alone"


def test_a_fold_that_all_small_ridges_lean_on_does_not_make_the_error_explode() -> None:
    """Without one fold some candidates had next to no equation left, and the error was 40,000 where noise is 21."""
    rng = np.random.default_rng(3)
    path = np.empty((40, 21))
    path[:, 0] = rng.normal(size=40)
    for step in range(20):
        path[:, step + 1] = 0.9 * path[:, step] + rng.normal(size=40)
    state, following, run = path[:, :-1].ravel(), path[:, 1:].ravel(), np.repeat(np.arange(40), 20)
    model = de.PolicyEvaluator(0.9).fit(state, state, following, episodes=run)
    found = model.diagnostics_.held_out
    assert found is not None
    assert found.squared < 1.5 * found.fitted
    assert abs(found.value) < 2 * found.stderr < found.squared
