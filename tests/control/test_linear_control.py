"""Linearly-solvable control until an end: known desirabilities, and the control that follows from them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse
from tests.control.chains import EXACT, STATES, TABLE, chain, exact

import dualembed as de
from dualembed import problems, sources
from dualembed.checks import InputError
from dualembed.control import controlled_probabilities, controlled_sampler


@pytest.mark.parametrize("solver", EXACT)
@pytest.mark.parametrize("seed", range(20))
def test_on_a_finite_chain_the_first_exit_desirability_is_that_of_linear_algebra(seed: int, solver: str) -> None:
    """Two terminal states, with costs of their own; terminal_cost elsewhere is nonsense on purpose."""
    passive, state, following, rng = chain(seed)
    cost, final = rng.uniform(0, 1, STATES), rng.uniform(-1, 1, STATES)
    ends = np.array([0, 3])
    inner = np.setdiff1d(np.arange(STATES), ends)
    kept = np.isin(state, inner)
    state, following = state[kept], following[kept]
    terminal = np.isin(following, ends)
    problem = problems.FirstExit(
        sources.Dataset(
            state=state,
            next_state=following,
            cost=cost[state],
            terminal=terminal,
            terminal_cost=np.where(terminal, final[following], -1e4),
        )
    )
    decayed = np.exp(-cost)[:, None] * passive
    right = decayed[np.ix_(inner, ends)] @ np.exp(-final[ends])
    wanted = np.linalg.solve(np.eye(len(inner)) - decayed[np.ix_(inner, inner)], right)
    assert np.min(wanted) > 0.01
    np.testing.assert_allclose(exact(problem, inner, solver), wanted, rtol=1e-8)


# A grid world: wander to one of the free neighbours or stay, at a cost a step, until the goal.

GRID = [
    "........",
    ".####.#.",
    ".#....#.",
    ".#.####.",
    "...#..G.",
]
GOAL_COST = 0.5


class Maze:
    """Free cells with numbers, passive probabilities P (n, n), running costs and the goal."""

    def __init__(self) -> None:
        free = [(row, column) for row, line in enumerate(GRID) for column, kind in enumerate(line) if kind != "#"]
        number = {cell: index for index, cell in enumerate(free)}
        self.goal = next(number[cell] for cell in free if GRID[cell[0]][cell[1]] == "G")
        self.passive = np.zeros((len(free), len(free)))
        for (row, column), index in number.items():
            around = [(row, column), (row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
            exits = [number[cell] for cell in around if cell in number]
            self.passive[index, exits] = 1 / len(exits)
        self.cost = np.where([row == 0 for row, _ in free], 0.3, 0.1)  # the upper corridor is dear
        self.inner = np.setdiff1d(np.arange(len(free)), [self.goal])

    def desirability(self) -> np.ndarray:
        """z everywhere by linear algebra, e^(-q_T) at the goal."""
        decayed = np.exp(-self.cost)[:, None] * self.passive
        found = np.full(len(self.cost), np.exp(-GOAL_COST))
        inner = np.ix_(self.inner, self.inner)
        right = decayed[self.inner, self.goal] * np.exp(-GOAL_COST)
        found[self.inner] = np.linalg.solve(np.eye(len(self.inner)) - decayed[inner], right)
        return found

    def problem(self) -> problems.FirstExit:
        state, following = np.nonzero(self.passive)
        # Twelve is a multiple of every number of exits but five: sixty rows a cell make all frequencies exact.
        times = np.rint(60 * self.passive[state, following]).astype(int)
        state, following = np.repeat(state, times), np.repeat(following, times)
        kept = state != self.goal
        state, following = state[kept], following[kept]
        return problems.FirstExit(
            sources.Dataset(
                state=state,
                next_state=following,
                cost=self.cost[state],
                terminal=following == self.goal,
                terminal_cost=np.full(len(state), GOAL_COST),
            )
        )

    def total_cost(self, control: np.ndarray) -> np.ndarray:
        """v = q + KL(p'||p) + P'v from every inner cell under a control, exactly."""
        ratio = np.log(np.where(control > 0, control, 1.0) / np.where(self.passive > 0, self.passive, 1.0))
        stage = self.cost + np.sum(control * ratio, axis=1)
        inner = self.inner
        right = stage[inner] + control[inner, self.goal] * GOAL_COST
        return np.linalg.solve(np.eye(len(inner)) - control[np.ix_(inner, inner)], right)


@pytest.fixture(scope="module")
def maze() -> Maze:
    return Maze()


@pytest.mark.parametrize("solver", EXACT)
def test_in_a_maze_the_desirability_is_exact(maze: Maze, solver: str) -> None:
    wanted = maze.desirability()[maze.inner]
    np.testing.assert_allclose(exact(maze.problem(), maze.inner, solver), wanted, rtol=1e-8)
    assert 0 < np.min(wanted) < 0.1 * np.max(wanted)


def test_in_a_maze_the_control_of_the_found_desirability_costs_what_it_says_and_no_other_costs_less(maze: Maze) -> None:
    desirability = maze.desirability()
    desirability[maze.inner] = exact(maze.problem(), maze.inner, "sparse form")
    control = controlled_probabilities(maze.passive, desirability)
    np.testing.assert_allclose(control.sum(axis=1), 1.0, rtol=1e-12)
    best = maze.total_cost(control)
    np.testing.assert_allclose(best, -np.log(desirability[maze.inner]), rtol=1e-8)
    assert np.all(maze.total_cost(maze.passive) > best + 0.1)
    rng = np.random.default_rng(0)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(20):
            other = control * np.exp(size * rng.normal(size=control.shape))
            other /= other.sum(axis=1, keepdims=True)
            assert np.all(maze.total_cost(other) > best)


def test_sparse_probabilities_are_controlled_as_dense_ones(maze: Maze) -> None:
    desirability = maze.desirability()
    thin = controlled_probabilities(sparse.csr_array(maze.passive), desirability)
    assert sparse.issparse(thin)
    np.testing.assert_allclose(thin.toarray(), controlled_probabilities(maze.passive, desirability), rtol=1e-12)


# A corridor with its end at 0: a step either way and a cost that makes the far end's z as small as e^(-267).

FAR, STEP_COST = 300, 0.5


def corridor() -> de.Result:
    inner = np.repeat(np.arange(1.0, FAR + 1), 2)
    following = np.minimum(inner + np.tile([-1.0, 1.0], FAR), FAR)
    ends = following == 0
    columns = {"state": inner, "next_state": following, "cost": np.full(2 * FAR, STEP_COST)}
    data = sources.Dataset(**columns, terminal=ends, terminal_cost=np.zeros(2 * FAR))
    return de.solve(0, de.Saddle(problems.FirstExit(data), TABLE, TABLE), EXACT["sparse form"])


def either_way(key: jax.Array, states: np.ndarray) -> np.ndarray:
    return np.minimum(states + np.where(np.asarray(jax.random.bernoulli(key, shape=states.shape)), 1.0, -1.0), FAR)


def test_a_controlled_process_moves_where_the_cost_to_go_is_large_and_enters_its_end() -> None:
    """p*(left | s) = z(s-1) / (z(s-1) + z(s+1)), the same e^v / (e^v + e^-v) far from either wall; at 1 it ends."""
    ratio = np.exp(np.arccosh(np.exp(STEP_COST)))  # z(s-1)/z(s): e^(q) = (ratio + 1/ratio) / 2
    left = ratio**2 / (1 + ratio**2)
    z = corridor().primal
    controlled = controlled_sampler(z, either_way, terminal=lambda s: np.where(s[:, 0] == 0, 1.0, np.nan))
    starts = np.array([[250.0], [150.0], [1.0]])
    drawn = np.asarray(controlled(0, np.repeat(starts, 500))).reshape(3, 500)
    np.testing.assert_allclose(np.mean(drawn == starts - 1, axis=1), left, atol=0.04)  # three standard errors
    never = controlled_sampler(z, either_way)
    assert not np.any(np.asarray(never(0, np.repeat(starts, 500))) == 0)


def test_a_controlled_process_with_nowhere_to_go_says_so() -> None:
    with pytest.raises(InputError, match="drawn for row 1 none has a desirability above 0"):
        controlled_sampler(lambda s: 2 - s[:, 0], lambda key, s: s)(0, [1.0, 3.0])
    moved = jax.jit(controlled_sampler(lambda s: 2 - s[:, 0], lambda key, s: s))(
        jax.random.key(0), jnp.asarray([1.0, 3.0])
    )
    np.testing.assert_array_equal(moved, [[1.0], [np.nan]])


# What is refused.

ROWS = {
    "state": [0.0, 1.0],
    "next_state": [1.0, 2.0],
    "cost": [0.1, 0.1],
    "terminal": [0.0, 1.0],
    "terminal_cost": [0.0, 0.0],
}


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"terminal": [0.0, 0.0]}, r"no transition reaches a terminal state .*z = 0 .*problems.AverageCost"),
        ({"terminal_cost": None}, "first-exit control needs the columns .*; terminal_cost missing from"),
        ({"cost": None}, "first-exit control needs the columns .*; cost missing from"),
        ({"terminal": [0.0, 0.5]}, "terminal must be 0 or 1, not 0.5; mark with 1 where s' is terminal"),
        ({"cost": [[0.1], [0.1]]}, r"cost must have shape \(2,\), but has \(2, 1\)"),
        ({"cost": [-1000.0, 0.1]}, r"cost must not be below -89, not -1000, since e\^\(-cost\) overflows"),
        ({"terminal_cost": [0.0, -1000.0]}, "terminal_cost must not be below -89, not -1000"),
    ],
)
def test_first_exit_refuses_columns_that_will_not_do_in_one_sentence(columns: dict[str, Any], sentence: str) -> None:
    given = {name: value for name, value in {**ROWS, **columns}.items() if value is not None}
    with pytest.raises(InputError, match=sentence):
        problems.FirstExit(sources.Dataset(**given))


def test_a_cost_that_is_no_number_is_named() -> None:
    missing = {"terminal_cost": [0.0, np.nan]}
    with pytest.raises(InputError, match=r"terminal_cost has 1 NaN .* in row 1"):
        sources.Dataset(**{**ROWS, **missing})
    rows = {name: np.asarray(value) for name, value in {**ROWS, **missing}.items()}
    problem = problems.FirstExit(sources.Dataset(**ROWS))
    with pytest.raises(InputError, match="terminal_cost must be a number, not NaN as in row 1"):
        problem.terms(rows)
    # Where s' is not terminal it does not matter.
    problem.terms({**rows, "terminal_cost": np.array([np.nan, 0.0])})


def test_controls_that_have_nowhere_to_go_are_refused() -> None:
    passive = np.full((2, 2), 0.5)
    with pytest.raises(InputError, match="one value for each of the 2 next states"):
        controlled_probabilities(passive, [1.0])
    with pytest.raises(InputError, match=r"desirability must not be negative, not -0\.1"):
        controlled_probabilities(passive, [1.0, -0.1])
    with pytest.raises(InputError, match="every next state of row 0 has desirability 0"):
        controlled_probabilities(np.eye(2), [0.0, 1.0])
    with pytest.raises(InputError, match="draws must be a whole number of at least 1, not 0"):
        controlled_sampler(lambda s: s[:, 0], lambda key, s: s, draws=0)
    with pytest.raises(InputError, match=r"passive must have shape \(states, next states\), but has \(2,\)"):
        controlled_probabilities([0.5, 0.5], [1.0, 1.0])
    for wrong in (-0.5, np.nan):
        with pytest.raises(InputError, match="passive must hold probabilities"):
            controlled_probabilities([[1.0, wrong]], [1.0, 1.0])
    with pytest.raises(InputError, match=r"passive must give next states of shape \(2, 1\), not \(2,\)"):
        controlled_sampler(lambda s: s[:, 0], lambda key, s: s[:, 0])(0, [1.0, 2.0])
