"""Answers about a Markov process do not depend on the lag, nor on its direction where that is reversible."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import dualembed as de
from dualembed.linear.averaging import assign_groups, read_rows
from dualembed.selection.kernels import KERNELS, screen

SIDE = 4
CELLS = np.stack(np.divmod(np.arange(SIDE**2), SIDE), axis=1).astype(float)
TARGET = CELLS[-1:]
MOVES = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])


def shares() -> np.ndarray:
    """A walk to one of four neighbours on a square of cells, which stays where there is a wall: it is reversible."""
    found = np.zeros((SIDE**2, SIDE**2))
    for move in MOVES:
        to = np.clip(CELLS + move, 0, SIDE - 1).astype(int) @ [SIDE, 1]
        np.add.at(found, (np.arange(SIDE**2), to), 0.25)
    return found


def times() -> np.ndarray:
    """The mean times to the last cell."""
    found = np.zeros(SIDE**2)
    found[:-1] = np.linalg.solve(np.eye(SIDE**2 - 1) - shares()[:-1, :-1], np.ones(SIDE**2 - 1))
    return found


@cache
def walks(seed: int, count: int, length: int, stops: bool = False) -> tuple[np.ndarray, ...]:
    """So many walks of so many rows from anywhere, or until they reach the last cell."""
    rng = np.random.default_rng(seed)
    steps, found = shares().cumsum(axis=1), []
    for _ in range(count):
        path = [int(rng.integers(SIDE**2))]
        while len(path) < length and not (stops and len(path) > 1 and path[-1] == SIDE**2 - 1):
            path.append(min(int(np.searchsorted(steps[path[-1]], rng.random())), SIDE**2 - 1))
        found.append(CELLS[path])
    return tuple(found)


@cache
def fitted(kind: str, lag: int, reversible: bool = False, seed: int = 0) -> de.HittingTimeRegressor:
    paths = {"one": (1, 6000), "many": (60, 100), "until": (150, 40)}[kind]
    given = list(walks(seed, *paths, kind == "until"))
    return de.HittingTimeRegressor(TARGET, lagtime=lag, dt=0.5, reversible=reversible).fit(given)


@pytest.mark.parametrize("kind", ["one", "many", "until"])
@pytest.mark.parametrize("lag", [1, 5, 20])
def test_times_of_a_markov_process_are_the_same_at_any_lag(kind: str, lag: int) -> None:
    model, truth = fitted(kind, lag), 0.5 * times()[:-1]
    both = np.stack([fitted(kind, lag, seed=seed).interval(CELLS[:-1]) for seed in range(2)])
    assert np.mean((both[:, 0] <= truth) & (truth <= both[:, 1])) > 0.9
    assert abs(model.ask(model.at(CELLS[:1])).value / truth[0] - 1) < 0.35
    assert abs(model.ask(model.at(CELLS[:1])).value / fitted(kind, 1).ask(model.at(CELLS[:1])).value - 1) < 0.2


def test_the_lag_counts_entries_between_its_ends() -> None:
    path = walks(0, 1, 6000)[0]
    lag, times_at_ends = 5, []
    ends = de.HittingTimeRegressor(TARGET).fit(path[:-lag], path[lag:], durations=np.full(len(path) - lag, float(lag)))
    times_at_ends = ends.predict(CELLS[:-1])
    assert np.all(times_at_ends > 1.3 * 2 * fitted("one", lag).predict(CELLS[:-1]))  # it misses what comes and goes


def test_errors_know_that_windows_overlap() -> None:
    answers = [fitted("one", 20, seed=seed) for seed in range(12)]
    found = [model.ask(model.at(CELLS[:1])) for model in answers]
    spread = np.std([np.log(each.value) for each in found], ddof=1)
    assert 0.6 < np.median([each.stderr / each.value for each in found]) / spread < 2.2
    covered = [each.interval()[0] <= 0.5 * times()[0] <= each.interval()[1] for each in found]
    assert sum(covered) >= 10


@pytest.mark.parametrize("lag", [1, 5])
def test_reversed_transitions_of_a_reversible_process_say_the_same(lag: int) -> None:
    model = fitted("many", lag, True)
    assert model.diagnostics_.rows == 2 * fitted("many", lag).diagnostics_.rows
    lower, upper = model.interval(CELLS[:-1])
    truth = 0.5 * times()[:-1]
    assert np.mean((lower <= truth) & (truth <= upper)) > 0.9


def test_reversed_pairs_halve_the_error_and_intervals_still_cover() -> None:
    misses: dict[bool, list[float]] = {False: [], True: []}
    errors = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        origins = rng.integers(SIDE**2, size=1000)  # as the stationary law has them
        drawn = (rng.random(1000)[:, None] > shares().cumsum(axis=1)[origins]).sum(axis=1)
        for reversible, own in misses.items():
            model = de.HittingTimeRegressor(TARGET, reversible=reversible).fit(CELLS[origins], CELLS[drawn])
            own.append(float(model.predict(CELLS[:1])[0] - times()[0]))
        errors.append(model.ask(model.at(CELLS[:1])).stderr)  # a row and its reverse are one group for it
    plain, both = (np.sqrt(np.mean(np.square(misses[each]))) for each in (False, True))
    assert both < 0.6 * plain
    assert 0.6 < np.median(errors) / both < 1.8


def test_coordinates_of_cells_say_as_much_as_counts() -> None:
    rng = np.random.default_rng(0)
    misses: dict[str, list[float]] = {"coordinates": [], "numbers": [], "counts": []}
    for _ in range(6):
        origins = rng.integers(SIDE**2, size=3000)
        drawn = (rng.random(3000)[:, None] > shares().cumsum(axis=1)[origins]).sum(axis=1)
        counts = np.zeros((SIDE**2, SIDE**2))
        np.add.at(counts, (origins, drawn), 1)
        outside = counts[:-1, :-1] / counts[:-1].sum(axis=1, keepdims=True)
        known: dict[str, Any] = {"coordinates": CELLS, "numbers": np.arange(SIDE**2)[:, None].astype(float)}
        for name, cells in known.items():
            model = de.HittingTimeRegressor(cells[-1:]).fit(cells[origins], cells[drawn])
            misses[name].append(float(model.predict(cells[:1])[0] - times()[0]))
        misses["counts"].append(np.linalg.solve(np.eye(SIDE**2 - 1) - outside, np.ones(SIDE**2 - 1))[0] - times()[0])
    sizes = {name: np.sqrt(np.mean(np.square(each))) for name, each in misses.items()}
    assert sizes["coordinates"] < 1.15 * min(sizes["numbers"], sizes["counts"])


def test_a_sample_without_an_end_chooses_no_kernels() -> None:
    rng = np.random.default_rng(1)
    states, following = rng.uniform(size=(2, 800, 2))
    data = de.sources.Dataset(state=states, next_state=following, arrived=np.zeros(800))
    problem = de.problems.HittingTime(data, check_reached=False)
    rows = read_rows(problem)
    assert rows is not None
    assert screen(problem, rows, assign_groups(rows, None, rng), headline=None, rng=rng) == KERNELS


@pytest.mark.parametrize("lag", [1, 6])
def test_which_of_two_cells_is_reached_first_does_not_depend_on_the_lag(lag: int) -> None:
    within = np.eye(SIDE**2 - 2) - shares()[1:-1, 1:-1]
    truth = np.linalg.solve(within, shares()[1:-1, -1])
    model = de.CommittorRegressor(CELLS[:1], TARGET, lagtime=lag, dt=0.5).fit(list(walks(0, 60, 100)))
    lower, upper = model.interval(CELLS[1:-1])
    assert np.mean((lower <= truth) & (truth <= upper)) > 0.9
    assert np.max(np.abs(model.predict(CELLS[1:-1]) - truth)) < 0.25
    if lag == 1:  # as often in any cell: the flux out of the first one of paths that reach the last
        rate = shares()[0, 1:-1] @ truth / SIDE**2
        low, high = model.rate().interval()
        assert low < rate / 0.5 < high
    else:
        with pytest.raises(de.InputError, match="fit with lagtime=1, not 6"):
            model.rate()


def test_averages_in_the_long_run_do_not_depend_on_the_lag_nor_on_direction() -> None:
    paths = list(walks(1, 1, 6000))
    for settings in ({}, {"lagtime": 4}, {"reversible": True}):
        model = de.StationaryAverage(**settings).fit(paths)
        lower, upper = model.probability(CELLS[:4]).interval()
        assert lower < 0.25 < upper
        assert upper - lower < 0.25
