"""Committors, long-run averages, rates and variances of times: what linear algebra says of chains that are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dualembed as de
from dualembed.estimators import moves
from dualembed.experiments.bench_processes import WELLS, truths

# A chain that is not reversible, in tenths; it goes over from {0} to {4}.
SHARES = np.array(
    [
        [0.5, 0.4, 0.1, 0.0, 0.0],
        [0.2, 0.4, 0.4, 0.0, 0.0],
        [0.0, 0.3, 0.3, 0.4, 0.0],
        [0.2, 0.0, 0.2, 0.3, 0.3],
        [0.0, 0.0, 0.1, 0.3, 0.6],
    ]
)
STATES = np.arange(5)
INNER = np.array([1, 2, 3])


def steps(copies: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Rows in which every transition is as frequent as it is likely: what they say is exact."""
    counts = np.rint(10 * SHARES).astype(int)
    return np.tile(np.repeat(STATES, 10), copies), np.tile(np.repeat(np.tile(STATES, 5), counts.ravel()), copies)


def draws(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Transitions that start in all states alike."""
    rng = np.random.default_rng(seed)
    state = rng.integers(5, size=rows)
    return state, (rng.random(rows)[:, None] > SHARES.cumsum(axis=1)[state]).sum(axis=1)


def stationary() -> np.ndarray:
    left = np.vstack([SHARES.T - np.eye(5), np.ones(5)])
    found: np.ndarray = np.linalg.lstsq(left, np.append(np.zeros(5), 1.0), rcond=None)[0]
    return found


def ahead(end: np.ndarray) -> np.ndarray:
    """What is expected where the chain first meets {0, 4}, by what `end` says of each state there."""
    within = np.eye(3) - SHARES[np.ix_(INNER, INNER)]
    found = end.astype(float)
    found[INNER] = np.linalg.solve(within, SHARES[INNER][:, [0, 4]] @ end[[0, 4]])
    return found


def times() -> tuple[np.ndarray, np.ndarray]:
    """The mean and the variance of the time to {4}, from each state."""
    inverse = np.linalg.inv(np.eye(4) - SHARES[:4, :4])
    mean = np.append(inverse @ np.ones(4), 0.0)
    varies = SHARES @ mean**2 - (SHARES @ mean) ** 2
    return mean, np.append(inverse @ varies[:4], 0.0)


PI, Q, (TIMES, VARIANCES) = stationary(), ahead(STATES == 4), times()
RATE = PI[0] * SHARES[0] @ Q
BACK = np.linalg.solve(np.eye(3) - SHARES[np.ix_(INNER, INNER)], np.ones(3))  # until {0, 4} is met
PASSAGE = PI[0] * (1 + SHARES[0, INNER] @ BACK) / RATE


@pytest.fixture(scope="module")
def committor() -> Any:
    return de.CommittorRegressor([0], [4]).fit(*steps())


@pytest.fixture(scope="module")
def average() -> Any:
    return de.StationaryAverage().fit(*steps())


@pytest.fixture(scope="module")
def hitting() -> Any:
    return de.HittingTimeRegressor([4]).fit(*steps())


def test_committors_of_a_chain_are_those_of_linear_algebra(committor: Any) -> None:
    np.testing.assert_allclose(committor.predict(STATES), Q, atol=0.01)
    assert committor.predict([0, 4]).tolist() == [0.0, 1.0]
    assert committor.predict([0, 4], return_std=True)[1].tolist() == [0.0, 0.0]
    assert committor.inside_a(STATES).tolist() == [True, False, False, False, False]
    assert committor.inside_b(STATES).tolist() == [False, False, False, False, True]


def test_intervals_of_committors_are_of_probabilities(committor: Any) -> None:
    for lower, upper in (committor.interval(STATES), committor.band(STATES, 0.9), committor.interval(STATES, 0.9999)):
        assert np.all((lower >= 0) & (lower <= Q + 1e-12) & (upper >= Q - 1e-12) & (upper <= 1))
    apart = committor.ask(committor.difference([4], [0]))
    assert (apart.value, apart.stderr, apart.interval()) == (1.0, 0.0, (1.0, 1.0))
    wide = committor.ask(committor.difference([1], [2])).interval(0.9999999)
    assert wide[0] >= -1
    assert wide[1] <= 1


def test_a_question_at_a_state_is_the_prediction_there(committor: Any) -> None:
    values, errors = committor.predict(STATES, return_std=True)
    for state in STATES:
        answer = committor.ask(committor.at([state]))
        assert (answer.value, answer.stderr) == pytest.approx((values[state], errors[state]), rel=1e-6, abs=1e-12)
    assert committor.ask(committor.at(STATES)).value == pytest.approx(values.mean())


def test_rates_and_passage_times_are_those_of_linear_algebra(committor: Any) -> None:
    for answer, exact in ((committor.rate(), RATE), (committor.passage_time(), PASSAGE)):
        assert answer.value == pytest.approx(exact, rel=0.02)
        assert answer.verdict == "solid"
        assert 0 < answer.interval()[0] < exact < answer.interval()[1]


def test_rates_are_per_unit_of_durations() -> None:
    state, following = steps(10)
    model = de.CommittorRegressor([0], [4]).fit(state, following, durations=np.full(len(state), 0.5))
    assert model.rate().value == pytest.approx(2 * RATE, rel=0.02)
    assert model.passage_time().value == pytest.approx(0.5 * PASSAGE, rel=0.02)


def test_where_all_arrivals_are_in_one_set_others_are_not_ruled_out() -> None:
    """From 2 the chain leaves to the right in all of four steps, and once in 40 it might have left to the left."""
    state = np.array([1, 1, 1, 1, 2, 2, 2, 2] + 40 * [2])
    following = np.array([0, 0, 0, 1, 3, 3, 3, 3] + 40 * [2])
    model = de.CommittorRegressor([0], [3], categorical_features=[0]).fit(state, following)
    lower, upper = model.interval([2])
    assert upper[0] == 1
    assert lower[0] < 0.9


def test_a_rate_of_transitions_that_no_path_shows_is_not_zero_for_sure() -> None:
    """Between three wells a path of ten steps never goes over, and in the long run one step in 260,000 does."""
    well = WELLS["three wells"]
    paths = well.paths(300, 400, 10)
    labels = np.repeat(np.arange(400), 10)
    below, above = (lambda s, number=number: well.places(np.asarray(s)[:, 0]) == number for number in (1, 2))
    model = de.CommittorRegressor(below, above).fit(paths[:, :-1].ravel(), paths[:, 1:].ravel(), groups=labels)
    rate = model.rate()
    lower, upper = rate.interval()
    assert lower <= float(truths("three wells")[1]["rate"]) <= upper
    assert rate.stderr > 1e-5
    assert rate.verdict != "solid"


def test_long_run_means_are_those_of_linear_algebra(average: Any) -> None:
    first = average.mean()
    assert first.question == "the long-run mean of x0"
    assert first.value == pytest.approx(PI @ STATES, abs=0.01)
    assert average.mean(lambda s: s[:, 0] ** 2).value == pytest.approx(PI @ STATES**2, abs=0.05)
    assert average.mean(steps()[0]).value == pytest.approx(first.value, rel=1e-3)
    assert average.probability([0, 1]).value == pytest.approx(PI[:2].sum(), abs=0.01)
    np.testing.assert_allclose(average.weights(STATES) / 5, PI, atol=0.02)
    assert average.weights().mean() == pytest.approx(1)
    assert average.weights().shape == (1000,)


def test_the_mean_of_a_constant_is_that_constant(average: Any) -> None:
    found = average.mean(np.full(1000, 7.0))
    assert found.value == pytest.approx(7)
    assert found.stderr < 1e-6


def test_an_observable_may_depend_on_the_next_state(average: Any) -> None:
    state, following = steps()
    moves = average.mean(following != state)
    assert moves.value == pytest.approx(PI @ (1 - np.diag(SHARES)), abs=0.01)


def test_variances_of_hitting_times_are_those_of_linear_algebra(hitting: Any) -> None:
    found, errors = hitting.variance(STATES, return_std=True)
    np.testing.assert_allclose(found, VARIANCES, rtol=0.05)
    assert found[4] == errors[4] == 0
    assert np.all(errors[:4] > 0)


def test_variances_have_the_square_of_the_unit_of_durations() -> None:
    state, following = steps()
    model = de.HittingTimeRegressor([4]).fit(state, following, durations=np.full(len(state), 0.1))
    np.testing.assert_allclose(model.variance(STATES), 0.01 * VARIANCES, rtol=0.05)


def test_times_from_a_set_are_over_the_long_run_law(hitting: Any) -> None:
    both = [0, 1]
    assert hitting.from_set(both).value == pytest.approx(PI[both] @ TIMES[both] / PI[both].sum(), rel=0.02)
    assert hitting.from_set(lambda s: s[:, 0] == 0).value == pytest.approx(TIMES[0], rel=0.02)


def test_intervals_of_one_chain_cover() -> None:
    """Of 4 logs of 600 steps each, 3 or 4 cover everything that is asked: 1 in 20 misses one."""
    misses = 0
    for seed in range(4):
        log = draws(600, seed)
        committor, average = de.CommittorRegressor([0], [4]).fit(*log), de.StationaryAverage([4]).fit(*log)
        asked = [(committor.ask(committor.at([2])), Q[2]), (committor.rate(), RATE), (average.mean(), PI[4])]
        misses += sum(not answer.interval()[0] < exact < answer.interval()[1] for answer, exact in asked)
    assert misses <= 2


def test_the_chain_of_a_double_well_is_met() -> None:
    """The discrete double well of deeptime: from state 20 to 80 in 56,467.869 steps, and as likely as not from 50."""
    known = pytest.importorskip("deeptime.data").double_well_discrete().analytic_msm
    assert known.mfpt(20, 80) == pytest.approx(56_467.869)
    rng = np.random.default_rng(0)
    state = rng.integers(100, size=50_000)
    following = (rng.random(len(state))[:, None] > known.transition_matrix.cumsum(axis=1)[state]).sum(axis=1)
    times = de.HittingTimeRegressor([80]).fit(state, following)
    answer = times.ask(times.at([20]))
    assert answer.value == pytest.approx(56_467.869, rel=0.2)
    assert answer.interval()[0] < 56_467.869 < answer.interval()[1]
    which = de.CommittorRegressor([20], [80]).fit(state, following)
    half = which.ask(which.at([50]))
    assert half.value == pytest.approx(0.5, abs=0.2)
    assert half.interval()[0] < 0.5 < half.interval()[1]
    # What a large ridge would take for 71 steps, with a small error.
    outside = np.setdiff1d(np.arange(100), [20, 80])
    within = np.eye(98) - known.transition_matrix[np.ix_(outside, outside)]
    exact = np.linalg.solve(within, np.ones(98))[outside == 50][0]
    either = de.HittingTimeRegressor([20, 80]).fit(state, following)
    found = either.ask(either.at([50]))
    assert found.value == pytest.approx(exact, rel=0.5)
    assert found.interval()[0] < exact < found.interval()[1]


def test_a_process_goes_on_with_more_rows_and_after_a_file(tmp_path: Path) -> None:
    state, following = draws(900, 0)
    committor, average = de.CommittorRegressor([0], [4]), de.StationaryAverage()
    for part in (slice(600), slice(600, None)):
        committor.partial_fit(state[part], following[part])
        average.partial_fit(state[part], following[part])
    assert len(committor.moves_) == len(average.moves_) == average.observed_.rows == 900
    between = (state > 0) & (state < 4)
    assert committor.arrivals_ == (np.sum(between & (following == 0)), np.sum(between & (following == 4)))
    for number, (model, ask) in enumerate(
        ((committor, lambda each: each.rate()), (average, lambda each: each.probability([4])))
    ):
        de.save(model, tmp_path / str(number))
        assert ask(de.load(tmp_path / str(number))) == ask(model)


def test_frames_paths_and_observables_are_taken_in_the_order_of_time() -> None:
    state = [0]
    rng = np.random.default_rng(0)
    for _ in range(1500):
        state.append(int((rng.random() > SHARES.cumsum(axis=1)[state[-1]]).sum()))
    path = pd.DataFrame({"s": state, "run": 0, "t": np.arange(1501), "double": 2.0 * np.array(state)})[::-1]
    model = de.StationaryAverage(lambda frame: frame["s"] == 4).fit(path[["s"]], episodes=path["run"], time=path["t"])
    assert model.mean().question.startswith("the long-run probability")
    assert abs(model.mean().value - PI[4]) < 4 * model.mean().stderr
    by_column, by_function = model.mean(path["double"]), model.mean(lambda frame: 2 * frame["s"])
    assert by_column.value == pytest.approx(by_function.value)
    assert model.probability(lambda frame: frame["s"] == 4).value == pytest.approx(model.mean().value, rel=0.02)


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (lambda: de.CommittorRegressor([0, 1], [1, 4]).fit(*steps(1)), "a and b .--from and --to. overlap"),
        (lambda: de.CommittorRegressor([9], [4]).fit(*steps(1)), "a .--from. holds in none of the states"),
        (lambda: de.CommittorRegressor([0], [9]).fit(*steps(1)), "b .--to. holds in none of the states"),
        (lambda: de.CommittorRegressor([0, 1], [2, 3, 4]).fit(*steps(1)), "start in one of a and b"),
        (lambda: de.CommittorRegressor([0], [4]).fit([0, 1, 2, 4], [1, 2, 0, 4]), "enters b .--to."),
        (lambda: de.CommittorRegressor([0], [4]).fit([0, 1, 2, 4], [1, 2, 4, 4]), "enters a .--from."),
        (lambda: de.CommittorRegressor("s < 1", [4]).fit(*steps(1)), "the a 's < 1' is text"),
        (lambda: de.StationaryAverage([4]).fit(*steps(1), observable=np.ones(50)), "give one of them"),
        (lambda: de.StationaryAverage().fit(*steps(1), observable=np.ones(49)), "observable"),
        (lambda: de.StationaryAverage().fit(*steps(1)).mean(np.ones(49)), "observable"),
        (lambda: de.StationaryAverage(primal="linear", dual="linear").fit(*steps(1)).weights(), "default fits"),
        (lambda: de.HittingTimeRegressor([4]).fit(*steps(1)).from_set([9]), "holds in none of the states"),
        (lambda: de.CommittorRegressor([], [4]).fit(*steps(1)), "the a is empty"),
        (lambda: de.StationaryAverage([9]).fit(*steps(1)), "where holds in none of the states of 50 rows"),
        (lambda: de.StationaryAverage().fit(*steps(1)).probability([9]), "condition holds in none of the states"),
    ],
)
def test_what_cannot_be_told_is_refused_in_a_sentence(fit: Any, words: str) -> None:
    with pytest.raises(de.InputError, match=words) as error:
        fit()
    assert "\n" not in str(error.value)


def test_models_keep_no_more_than_so_many_transitions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(moves, "MOST", 500)
    state, following = draws(3000, 1)
    committor, average = de.CommittorRegressor([0], [4]).fit(state, following), de.StationaryAverage()
    average.partial_fit(state[:2000], following[:2000]).partial_fit(state[2000:], following[2000:])
    assert len(committor.moves_) == len(average.moves_) == 500
    assert committor.departures_ == (np.sum(state == 0), np.sum(state == 4))
    assert average.observed_.mean == pytest.approx(np.mean(state))
    assert average.observed_.deviation == pytest.approx(np.std(state))
    low, high = committor.rate().interval()
    assert low < RATE < high
    monkeypatch.setattr(moves, "MOST_IN_FILES", 200)
    de.save(committor, tmp_path / "committor")
    again = de.load(tmp_path / "committor")
    assert len(again.moves_) == 200
    assert again.rate() == committor.rate()
    assert again.predict([1, 2]).tolist() == committor.predict([1, 2]).tolist()
    assert again.passage_time().stderr > committor.passage_time().stderr
    whole = de.StationaryAverage().fit(state, following)
    answer = whole.mean(state.astype(float))  # of the rows that are kept
    assert answer.interval()[0] < PI @ STATES < answer.interval()[1]


def grid(side: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the places of the cells of a square, the shares of a walk on it that stays at walls, the cells of one path)."""
    cells = np.stack(np.divmod(np.arange(side**2), side), axis=1)
    shares = np.zeros((side**2, side**2))
    for move in ([1, 0], [-1, 0], [0, 1], [0, -1]):
        np.add.at(shares, (np.arange(side**2), np.clip(cells + move, 0, side - 1) @ [side, 1]), 0.25)
    rng = np.random.default_rng(seed)
    path, cumulated = [0], shares.cumsum(axis=1)
    for chance in rng.random(rows):
        path.append(int(np.searchsorted(cumulated[path[-1]], chance)))
    return cells.astype(float), shares, np.array(path)


def times_to_last(shares: np.ndarray) -> np.ndarray:
    """The mean times to the last state, from the others."""
    inner = shares[:-1, :-1]
    found: np.ndarray = np.linalg.solve(np.eye(len(inner)) - inner, np.ones(len(inner)))
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_states_by_name_and_by_coordinates_tell_what_counts_do(seed: int) -> None:
    """A walk on a 10 x 10 square: a hundred names are as right as two coordinates, or counts of transitions."""
    cells, shares, path = grid(10, 20_000, seed)
    names = np.array([f"cell {number}" for number in range(100)])
    exact, counted = times_to_last(shares), np.zeros((100, 100))
    np.add.at(counted, (path[:-1], path[1:]), 1.0)
    by_counts = times_to_last(counted / counted.sum(axis=1, keepdims=True))
    run = np.zeros(len(path))
    by_place = de.HittingTimeRegressor([cells[-1]]).fit(cells[path], episodes=run)
    by_name = de.HittingTimeRegressor([names[-1]]).fit(names[path], episodes=run)
    found = by_name.predict(names[:-1])
    np.testing.assert_allclose(found, by_counts, rtol=0.05)
    np.testing.assert_allclose(found, by_place.predict(cells[:-1]), rtol=0.1)
    worst = np.sqrt(np.mean((by_counts - exact) ** 2))
    for model, states in ((by_place, cells), (by_name, names)):
        assert np.sqrt(np.mean((model.predict(states[:-1]) - exact) ** 2)) < 1.1 * worst
        lower, upper = model.interval(states[:-1])
        assert np.mean((lower < exact) & (exact < upper)) > 0.9


def test_too_many_names_of_states_are_refused_with_a_way_out() -> None:
    state = np.array([f"cell {number}" for number in np.arange(3000) % 1001])
    with pytest.raises(de.InputError, match=r"1,001 different values.*at most 1,000, or give numbers in its place"):
        de.StationaryAverage().fit(state[:-1], state[1:])
    actions, few = np.arange(2999) % 4, np.array([f"cell {number}" for number in np.arange(3000) % 500])
    with pytest.raises(de.InputError, match="500 states by name and 4 actions are 2,000 values to find"):
        de.ActionValueEvaluator(0.9, lambda s: np.full((len(s), 4), 0.25)).fit(
            few[:-1], actions, np.ones(2999), few[1:]
        )
