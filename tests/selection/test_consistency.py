"""The test of a function against data: its size is right, and it has power."""

from __future__ import annotations

import numpy as np
import pytest

import dualembed as de
from dualembed.selection import consistency_test

DISCOUNT = 0.8


def transitions(seed: int, rows: int = 400) -> de.problems.PolicyEvaluation:
    """An autoregression with the state as reward: V(s) = s / (1 - 0.5 DISCOUNT)."""
    rng = np.random.default_rng(seed)
    state = rng.normal(size=rows)
    following = 0.5 * state + rng.normal(size=rows)
    return de.problems.PolicyEvaluation(de.sources.Dataset(state=state, reward=state, next_state=following), DISCOUNT)


def test_p_values_of_the_right_function_are_uniform() -> None:
    values = [
        consistency_test(transitions(seed), lambda s: s[:, 0] / 0.6, draws=199, seed=seed).p_value
        for seed in range(200)
    ]
    share = np.mean(np.asarray(values)[:, None] <= np.array([0.05, 0.25, 0.5, 0.75]), axis=0)
    np.testing.assert_allclose(share, [0.05, 0.25, 0.5, 0.75], atol=0.1)  # three standard errors in the middle


def test_wrong_functions_are_told() -> None:
    # The second has the right mean and slope, and is wrong where it bends.
    for wrong in (lambda s: s[:, 0] / 0.6 + 0.5, lambda s: s[:, 0] / 0.6 + 0.5 * np.sin(3 * s[:, 0])):
        assert consistency_test(transitions(0, 2000), wrong).p_value < 0.01


def test_rows_of_one_group_count_as_one() -> None:
    # Twenty copies of every transition: without labels the noise of a copy looks like a signal.
    problem = transitions(3, 60)
    table = {name: np.repeat(column, 20, axis=0) for name, column in problem.source.table.items()}
    copies = de.problems.PolicyEvaluation(de.sources.Dataset(**table), DISCOUNT)
    right = lambda s: s[:, 0] / 0.6  # noqa: E731
    bare, grouped = (
        consistency_test(copies, right, groups=groups).p_value for groups in (None, np.repeat(np.arange(60), 20))
    )
    assert bare < 0.05 < grouped


def test_an_exact_equation_is_consistent() -> None:
    data = de.sources.Dataset(state=np.arange(30.0), reward=np.ones(30), next_state=np.arange(30.0))
    found = consistency_test(de.problems.PolicyEvaluation(data, 0.5), lambda s: np.full(len(s), 2.0))
    assert found.p_value == 1.0


def test_few_groups_and_other_losses_are_refused() -> None:
    with pytest.raises(de.InputError, match="at least 20 rows, not 10"):
        consistency_test(transitions(0, 10), lambda s: s[:, 0])
    with pytest.raises(de.InputError, match="at least 20 groups, such as episodes, not 4"):
        consistency_test(transitions(0, 100), lambda s: s[:, 0], groups=np.arange(100) // 25)
    labels = de.sources.Dataset(x=[0.0] * 30, y=[1.0] * 30, z=[0.0] * 30)
    problem = de.problems.InstrumentalVariables(labels, de.losses.Logistic())
    with pytest.raises(de.InputError, match="conditional mean"):
        consistency_test(problem, lambda s: s[:, 0])
