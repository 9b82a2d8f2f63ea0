"""Hitting times, return times and committors of finite chains are exact; what has none is refused."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from tests.problems.hitting_times import EXACT, TABLE, committor, hitting, relative_error, solved

import dualembed as de
from dualembed import problems, schedules, solvers, sources, spaces
from dualembed.checks import InputError

STATES, TRIALS = 6, 12


def counts(seed: int) -> np.ndarray:
    """Transitions (6, 6) out of twelve from each state; a ring within makes every state reach every other."""
    rng = np.random.default_rng(seed)
    found = np.stack([rng.multinomial(TRIALS - 2, rng.dirichlet(np.full(STATES, 0.4))) for _ in range(STATES)])
    ring = np.roll(np.eye(STATES, dtype=int), 1, axis=1)
    return found + ring + ring.T


def transitions(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(s, s') with every pair as often as its number says: the frequencies are the chain's probabilities exactly."""
    state, following = np.nonzero(numbers)
    times = numbers[state, following]
    return np.repeat(state, times).astype(float), np.repeat(following, times).astype(float)


def killed(chain: np.ndarray, target: list[int] | int) -> np.ndarray:
    """I - P without the transitions into the target."""
    matrix = np.eye(len(chain)) - chain
    matrix[:, target] = np.eye(len(chain))[:, target]
    return matrix


@pytest.mark.parametrize("seed", range(20))
def test_on_a_finite_chain_the_time_to_a_set_is_that_of_linear_algebra(seed: int) -> None:
    numbers, target = counts(seed), [1, 4]
    exact = np.linalg.solve(killed(numbers / TRIALS, target), np.ones(STATES))
    problem = hitting(*transitions(numbers), target)
    for solver in EXACT:
        np.testing.assert_allclose(solved(problem, np.arange(STATES), solver), exact, rtol=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_all_pairs_of_states_at_once_and_return_times_are_one_over_stationary_probabilities(seed: int) -> None:
    numbers = counts(seed)
    chain = numbers / TRIALS
    exact = np.stack([np.linalg.solve(killed(chain, t), np.ones(STATES)) for t in range(STATES)], axis=1)
    problem = problems.HittingTime(sources.Dataset(**problems.pairs(*transitions(numbers), np.arange(STATES))))
    every = np.stack(np.meshgrid(np.arange(STATES), np.arange(STATES), indexing="ij"), axis=-1).reshape(-1, 2)
    values, vectors = np.linalg.eig(chain.T)
    stationary = np.real(vectors[:, np.argmax(values.real)])
    for solver in EXACT:
        found = solved(problem, every, solver).reshape(STATES, STATES)
        np.testing.assert_allclose(found, exact, rtol=1e-8)
        np.testing.assert_allclose(1 / np.diag(found), stationary / stationary.sum(), rtol=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_on_a_finite_chain_the_committor_is_that_of_linear_algebra(seed: int) -> None:
    """The states of A and B are never left in these data, and have no equation of their own."""
    numbers, inner = counts(seed), np.arange(1, STATES - 1)
    chain = numbers / TRIALS
    exact = np.linalg.solve(np.eye(STATES - 2) - chain[np.ix_(inner, inner)], chain[inner, -1])
    state, following = transitions(numbers)
    outside = np.isin(state, inner)
    problem = committor(state[outside], following[outside], [0], [STATES - 1])
    for solver in EXACT:
        np.testing.assert_allclose(solved(problem, inner, solver), exact, atol=1e-8)


def test_transitions_of_several_durations_give_times_and_not_steps() -> None:
    numbers = counts(0)
    state, following = transitions(numbers)
    duration = 1.0 + state
    exact = np.linalg.solve(killed(numbers / TRIALS, [2]), 1.0 + np.arange(STATES))
    np.testing.assert_allclose(
        solved(hitting(state, following, [2], duration=duration), np.arange(STATES)), exact, rtol=1e-8
    )


def test_embedding_sgd_approaches_the_exact_times() -> None:
    numbers = counts(0)
    exact = np.linalg.solve(killed(numbers / TRIALS, [1, 4]), np.ones(STATES))
    saddle = de.Saddle(hitting(*transitions(numbers), [1, 4]), TABLE, TABLE)
    errors = []
    for steps in (200, 20_000):
        run = de.solve(0, saddle, solvers.EmbeddingSGD(steps, 24, schedules.OffsetSqrt(5.0, 1.0)))
        errors.append([relative_error(f(np.arange(STATES)), exact) for f in (run.primal, run.last.primal)])
    assert errors[1][0] < 0.1  # the way from zero counts in the average
    assert errors[1][1] < 0.005
    assert errors[1][0] < 0.2 * errors[0][0]


@pytest.mark.parametrize("solver", EXACT)
def test_a_birth_death_chain_has_the_times_of_its_formula(solver: str) -> None:
    """Up with probability u, down with d, at 0 it stays instead: t_j = 1/u + (d/u) t_(j-1) from j to j + 1.

    With r = d/u that is t_j = (1 + r + ... + r^j) / u, and h(k, N) = t_k + ... + t_(N-1).
    """
    up, down = 3, 5  # out of twelve; the rest stays
    state = np.repeat(np.arange(STATES), TRIALS).astype(float)
    moves = np.tile(np.r_[np.ones(up), -np.ones(down), np.zeros(TRIALS - up - down)], STATES)
    climb = np.cumsum((down / up) ** np.arange(STATES)) * TRIALS / up
    exact = np.cumsum(climb[::-1])[::-1]
    found = solved(hitting(state, np.maximum(state + moves, 0), [STATES]), np.arange(STATES), solver)
    np.testing.assert_allclose(found, exact, rtol=1e-8)


# What is refused.


def test_a_target_that_is_never_reached_is_named() -> None:
    with pytest.raises(InputError, match=r"no transition reaches the target: "):
        hitting(np.arange(3.0), np.array([1.0, 2.0, 0.0]), [7])
    with pytest.raises(InputError, match=r"no transition reaches the target \[7.0\] \(1 of 2 targets\)"):
        problems.HittingTime(sources.Dataset(**problems.pairs([0, 1, 2], [1, 2, 0], [1, 7])))
    with pytest.raises(InputError, match=r"no transition reaches A: "):
        committor(np.arange(3.0), np.array([1.0, 2.0, 0.0]), [7], [0])


def test_a_committor_needs_two_sets_that_do_not_overlap() -> None:
    with pytest.raises(InputError, match="A and B must not overlap"):
        committor(np.arange(3.0), np.array([1.0, 2.0, 0.0]), [0, 1], [1])


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"arrived": None}, "arrived missing from"),
        ({"arrived": [0.0, 2.0]}, "arrived must be 0 or 1, not 2.0; mark with 1 where s' lies in the target"),
        ({"arrived": [[0.0], [1.0]]}, r"arrived must have shape \(2,\), but has \(2, 1\)"),
        ({"duration": [1.0, -1.0]}, "duration must not be negative, not -1.0"),
        ({"next_state": [[0.0, 0.0], [0.0, 0.0]]}, "state and next_state must have the same shape"),
    ],
)
def test_columns_that_will_not_do_are_named_in_one_sentence(columns: dict[str, Any], sentence: str) -> None:
    given = {"state": [0.0, 1.0], "next_state": [1.0, 0.0], "arrived": [1.0, 0.0], **columns}
    with pytest.raises(InputError, match=sentence):
        problems.HittingTime(sources.Dataset(**{name: value for name, value in given.items() if value is not None}))


def test_targets_that_do_not_fit_the_states_are_refused() -> None:
    with pytest.raises(InputError, match=r"yes or no for each of 2 states, not \(2, 1\)"):
        problems.arrivals([0.0, 1.0], lambda states: states > 0)
    with pytest.raises(InputError, match=r"target states must have 1 coordinate\(s\), but have 2"):
        problems.arrivals([0.0, 1.0], [[0.0, 1.0]])
    with pytest.raises(InputError, match="target must be numbers, not <U4"):
        problems.arrivals([0.0, 1.0], "goal")
    with pytest.raises(InputError, match="what the target says must be 0 or 1, not nan"):
        problems.arrivals([0.0, 1.0], lambda states: states[:, 0] * np.nan)
    with pytest.raises(InputError, match="need equally many coordinates"):
        problems.pairs([0.0, 1.0], [1.0, 0.0], [[0.0, 1.0]])


def trapped() -> np.ndarray:
    """A chain whose states 0 and 1 are never left, and 3 never reached from them."""
    numbers = counts(0)
    numbers[:2] = 0
    numbers[:2, :2] = [[5, 7], [7, 5]]
    return numbers


def test_where_the_target_is_out_of_reach_the_sparse_form_refuses_and_the_witness_is_not_zero() -> None:
    problem = hitting(*transitions(trapped()), [3])
    with pytest.raises(InputError, match="no way to where it is known"):
        solved(problem, np.arange(STATES))
    result = de.solve(0, de.Saddle(problem, TABLE, TABLE), EXACT["closed form"])
    assert np.max(np.abs(np.asarray(result.dual(np.arange(STATES))))) > 0.1
    fine = de.solve(0, de.Saddle(hitting(*transitions(counts(0)), [3]), TABLE, TABLE), EXACT["closed form"])
    assert np.max(np.abs(np.asarray(fine.dual(np.arange(STATES))))) < 1e-6


def test_a_state_that_is_never_left_is_refused_unless_a_penalty_decides() -> None:
    """h(2) = 1 + h(2): the weights cancel, and least squares alone would drop the equation and say 0."""
    data = sources.Dataset(state=[0, 1, 2], next_state=[1, 9, 2], arrived=[0, 1, 0])
    with pytest.raises(InputError, match="no function fulfils the equations of 1 of the 3 contexts"):
        solved(problems.HittingTime(data), np.arange(3))
    saddle = de.Saddle(problems.HittingTime(data), TABLE, TABLE, primal_penalty=1e-9)
    np.testing.assert_allclose(de.solve(0, saddle, solvers.SparseForm()).primal([0, 1]), [2, 1], rtol=1e-5)


def test_with_penalties_the_sparse_form_is_the_closed_form() -> None:
    problem = hitting(*transitions(trapped()), [3])
    for penalties in ({"primal_penalty": 0.01}, {"primal_penalty": 0.01, "dual_penalty": 0.1}):
        saddle = de.Saddle(problem, TABLE, TABLE, **penalties)
        one, other = (de.solve(0, saddle, solver) for solver in EXACT.values())
        for pair in ((one.primal, other.primal), (one.dual, other.dual)):
            np.testing.assert_allclose(pair[0](np.arange(STATES)), pair[1](np.arange(STATES)), rtol=1e-5, atol=1e-6)


def test_a_table_of_its_own_points_is_refused_where_it_might_miss_some() -> None:
    pilot = np.arange(4096.0)[:, None]
    shown = {"steps": 1000, "batch": 10, "per_sample": 2}
    with pytest.raises(InputError, match=r"2048 samples shown before a run, of which .* 2049.*: Table\(points\)"):
        TABLE.feature_map(jax.random.key(0), spaces.Layout(pilot, capacity=2049, **shown))
    assert TABLE.feature_map(jax.random.key(0), spaces.Layout(pilot, capacity=2048, **shown)).size == 4096
    assert spaces.Table([3, 1]).feature_map(jax.random.key(0), spaces.Layout(pilot, capacity=9999, **shown)).size == 2
