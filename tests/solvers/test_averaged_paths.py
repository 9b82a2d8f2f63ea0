"""Averaged ridge paths as a solver: the same solution through every door, exact answers on a chain, clear refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dualembed as de
from dualembed.linear import LinearFit
from dualembed.solvers import AveragedPaths

DISCOUNT = 0.9


def chain(rows: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Transitions of a walk on a ring of five states, and their exact values."""
    rng = np.random.default_rng(seed)
    state = rng.integers(5, size=rows)
    following = (state + rng.choice([0, 1, 4], p=[0.2, 0.5, 0.3], size=rows)) % 5
    moves = 0.2 * np.eye(5) + 0.5 * np.roll(np.eye(5), 1, axis=1) + 0.3 * np.roll(np.eye(5), -1, axis=1)
    reward = np.array([1.0, 0.0, 0.0, 2.0, 0.0])
    data = de.sources.Dataset(state=state, next_state=following, reward=reward[state])
    return de.problems.PolicyEvaluation(data, DISCOUNT), np.linalg.solve(np.eye(5) - DISCOUNT * moves, reward)


def test_what_auto_records_gives_its_solution_again() -> None:
    problem, _ = chain(500)
    result = de.auto(3, problem)
    assert isinstance(result.record.solver, AveragedPaths)
    again = de.solve(3, result.record.saddle, result.record.solver)
    points = np.arange(5.0)[:, None]
    np.testing.assert_array_equal(result.primal(points), again.primal(points))
    np.testing.assert_array_equal(result.uncertainty.std(points), again.closed.std(points))


def test_values_of_a_table_of_states_and_their_errors_are_right() -> None:
    problem, exact = chain(5000)
    table = de.spaces.Table(np.arange(5.0)[:, None])
    result = de.solve(0, de.Saddle(problem, table, table), AveragedPaths())
    assert isinstance(result.closed, LinearFit)
    values, errors = result.closed.evaluate(np.arange(5.0)[:, None])
    assert np.all(np.abs(values - exact) < 4 * errors)
    assert np.abs(values - exact).max() < 0.3


def test_an_estimator_takes_it_with_a_space_of_ones_own() -> None:
    rng = np.random.default_rng(0)
    state = rng.normal(size=600)
    following = 0.5 * state + rng.normal(size=600)
    given: dict[str, Any] = {"primal": de.spaces.Affine(), "solver": AveragedPaths()}
    model = de.PolicyEvaluator(DISCOUNT, **given).fit(state, state, following, episodes=np.arange(600) // 10)
    low, high = model.ask(model.difference([1.0], [0.0])).interval(0.999)
    assert low < 1 / (1 - 0.5 * DISCOUNT) < high
    default = de.PolicyEvaluator(DISCOUNT).fit(state, state, following)
    same = de.PolicyEvaluator(DISCOUNT, solver=AveragedPaths()).fit(state, state, following)
    np.testing.assert_array_equal(default.predict(state), same.predict(state))


def test_what_it_cannot_solve_is_refused_in_a_sentence() -> None:
    problem, _ = chain(50)
    space = de.spaces.Affine()
    rng = np.random.default_rng(0)
    other = de.problems.InstrumentalVariables(
        de.sources.Dataset(**dict(zip("xyz", rng.normal(size=(3, 50)), strict=True)))
    )
    logistic = de.problems.PolicyEvaluation(problem.source, DISCOUNT, loss=de.losses.Huber(1.0))
    grows = de.spaces.RKHS(de.kernels.Gaussian(1.0))
    for saddle, words in (
        (de.Saddle(other, space, space), "as in transitions"),
        (de.Saddle(logistic, space, space), "for the square loss, not Huber"),
        (de.Saddle(problem, space, space, primal_penalty=0.1), "leave out primal_penalty"),
        (de.Saddle(problem, grows, space), "need a linear space, not RKHS"),
    ):
        with pytest.raises(de.InputError, match=words):
            de.solve(0, saddle, AveragedPaths())
    with pytest.raises(de.InputError, match="as in transitions"):
        de.auto(0, other, solver=AveragedPaths())
