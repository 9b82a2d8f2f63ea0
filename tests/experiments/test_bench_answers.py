"""The benchmark `answers`: its worlds are gymnasium's, its truths are known on paper, and its lines can be read."""

from __future__ import annotations

import json
from typing import Any

import gymnasium
import numpy as np
import pytest

from dualembed.cli import main
from dualembed.cli.experiments import KEYS
from dualembed.estimates import Estimate
from dualembed.experiments import bench_answers, bench_peers, bench_worlds
from dualembed.experiments.bench_answers import CASES, run_case
from dualembed.experiments.bench_cases import OffPolicy, OnPolicy, Reply
from dualembed.experiments.bench_hitting import Grid, OrnsteinUhlenbeck, Walk
from dualembed.experiments.bench_worlds import POLICIES, WORLDS, Log, play_log

# Bounds of random states, a little beyond what a policy meets.
STATES = {
    "cartpole": ("CartPole-v1", [2.6, 3.0, 0.25, 3.0]),
    "acrobot": ("Acrobot-v1", [np.pi, np.pi, 12.0, 28.0]),
    "pendulum": ("Pendulum-v1", [6.0, 8.0]),
    "mountaincar": ("MountainCar-v0", [0.6, 0.07]),
    "mountaincarcontinuous": ("MountainCarContinuous-v0", [0.6, 0.07]),
}


def truly(case: Any, log: Any) -> Estimate:
    return Estimate(case.truth()[0], 1.0)


@pytest.mark.parametrize("name", STATES)
def test_a_step_is_gymnasiums(name: str) -> None:
    world, (registered, bound) = WORLDS[name], STATES[name]
    rng = np.random.default_rng(0)
    states = rng.uniform(-1, 1, (200, len(bound))) * bound
    if name.startswith("mountaincar"):
        states[:, 0] = rng.uniform(-1.2, 0.6, 200)
    actions = rng.integers(world.actions, size=200) if world.actions else rng.normal(scale=2, size=200)
    following, rewards, over = world.step(rng, states, actions)
    seen = world.observe(following)
    game = gymnasium.make(registered).unwrapped
    game.reset(seed=0)
    for row in range(200):
        game.state = states[row].copy()
        if name == "cartpole":
            game.steps_beyond_terminated = None
        action = actions[row] if world.actions else np.array([actions[row]])
        expected, reward, terminated, _, _ = game.step(action)
        np.testing.assert_allclose(seen[row], expected, rtol=1e-5, atol=1e-6)
        assert rewards[row] == pytest.approx(reward, rel=1e-6)
        assert over[row] == terminated
    assert gymnasium.spec(registered).max_episode_steps == world.limit


@pytest.mark.parametrize("name", STATES)
def test_episodes_start_where_gymnasiums_do(name: str) -> None:
    game = gymnasium.make(STATES[name][0]).unwrapped
    drawn = np.array([game.reset(seed=seed)[0] for seed in range(300)])
    world = WORLDS[name]
    ours = world.observe(world.reset(np.random.default_rng(0), 3000))
    spread = drawn.max(axis=0) - drawn.min(axis=0)
    assert np.all(np.abs(ours.min(axis=0) - drawn.min(axis=0)) <= 0.05 * spread + 1e-6)
    assert np.all(np.abs(ours.max(axis=0) - drawn.max(axis=0)) <= 0.05 * spread + 1e-6)


def test_a_fair_walk_takes_the_square_of_its_length() -> None:
    np.testing.assert_allclose(Walk(10, 0.5, 1).times(), 100 - np.arange(10) ** 2)
    assert Walk(30, 0.5, 1).truth() == (pytest.approx(900), 0.0)


def test_a_grid_of_four_cells_takes_eight_steps_to_the_corner() -> None:
    # h(far) = 1 + h(far) / 2 + h(near) / 2 and h(near) = 1 + h(near) / 2 + h(far) / 4.
    np.testing.assert_allclose(Grid(2, 1).times(), [8, 6, 6])


def test_the_fine_grid_has_the_mean_time_of_simulated_paths() -> None:
    rng = np.random.default_rng(0)
    places, times = np.zeros(4000), np.zeros(4000)
    while (outside := places < 1).any():
        places[outside] = 0.9 * places[outside] + 0.3 * rng.standard_normal(outside.sum())
        times[outside] += 1
    error = times.std() / np.sqrt(len(times))
    assert abs(OrnsteinUhlenbeck(1).truth()[0] - times.mean()) < 3 * error


@pytest.mark.parametrize("case", [Walk(10, 0.5, 200_000), Grid(4, 200_000), OrnsteinUhlenbeck(400_000)])
def test_counts_come_near_the_truth_with_many_rows(case: Any) -> None:
    (found,) = case.rivals(case.log(0)).values()
    assert found == pytest.approx(case.truth()[0], rel=0.05)


@pytest.mark.parametrize(("world", "policy"), [("cartpole", "clumsy"), ("pendulum", "logged")])
def test_a_log_is_of_one_episode_after_the_other(world: str, policy: str) -> None:
    log = play_log(WORLDS[world], POLICIES[world][policy], rows=500, seed=0)
    assert len(log.rewards) == len(log.states) == 500
    inside = np.flatnonzero(log.episodes[1:] == log.episodes[:-1])
    np.testing.assert_array_equal(log.states[inside + 1], log.next_states[inside])
    assert not log.terminated[inside].any()
    np.testing.assert_array_equal(np.unique(log.episodes), np.arange(log.episodes.max() + 1))
    assert np.all(log.steps[np.append(0, np.flatnonzero(np.diff(log.episodes)) + 1)] == 0)
    last = log.episodes[-1]
    assert (last in log.whole) == (bool(log.terminated[-1]) or log.steps[-1] + 1 == WORLDS[world].limit)


def test_rivals_on_a_log_of_the_asked_policy_itself() -> None:
    case = OffPolicy("chain", "logged", "logged", 0.95)
    log = case.log(0)
    assert bench_peers.importance_sampling(log, case.evaluated, case.evaluated, 0.95) == pytest.approx(
        bench_peers.mean_return(log, 0.95)
    )


def test_rivals_of_three_rows_on_paper() -> None:
    # Two episodes: rewards 1, 2 (over) and 3 (over).
    columns = np.zeros((3, 1)), np.array([1, 1, 0]), np.array([1.0, 2.0, 3.0]), np.zeros((3, 1))
    episodes, steps = np.array([0, 0, 1]), np.array([0, 1, 0])
    log = Log(0, *columns, np.array([False, True, True]), episodes, steps, np.array([0, 1]))
    assert bench_peers.mean_return(log, 0.5) == pytest.approx(((1 + 0.5 * 2) + 3) / 2)
    always = bench_worlds.Choice(lambda seen: np.tile([0.0, 1.0], (len(seen), 1)))
    even = bench_worlds.Choice(lambda seen: np.full((len(seen), 2), 0.5))
    assert bench_peers.importance_sampling(log, always, even, 0.5) == pytest.approx(1 + 0.5 * 2)


def test_the_true_value_of_a_chain_is_that_of_its_equation(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_worlds, "_folder", lambda: tmp_path)
    monkeypatch.setitem(bench_worlds.EPISODES, "chain", 4000)
    bench_worlds.true_values.cache_clear()
    found = bench_worlds.true_values("chain", "logged", (0.9,))[0.9]
    (kept,) = tmp_path.glob("*.json")
    assert json.loads(kept.read_text()) == [list(found)]
    bench_worlds.true_values.cache_clear()
    assert bench_worlds.true_values("chain", "logged", (0.9,))[0.9] == found
    bench_worlds.true_values.cache_clear()
    log = play_log(WORLDS["chain"], POLICIES["chain"]["logged"], rows=40_000, seed=1)
    values = bench_peers.lstdq(log, POLICIES["chain"]["logged"], 0.9, ridges=(1e-4,))
    assert values[0] == pytest.approx(found[0], abs=0.15)


def test_case_names_are_their_own_and_every_set_has_some() -> None:
    assert len(CASES) == len(list(bench_answers._cases()))
    for kind in bench_answers.SETS:
        assert bench_answers.select_cases(None, kind)
        assert bench_answers.select_cases(None, kind, quick=True)
    assert {case.world for case in bench_answers.select_cases("cartpole*", "on-policy")} == {"cartpole"}


def test_another_function_may_answer() -> None:
    case = CASES["walk 0..10, up 0.5, 3000"]
    times = case.times()

    def wrong(case: Any, log: Any) -> Reply:
        return Reply(Estimate(case.truth()[0] + 10, 1.0), (times - 1, np.where(times > 50, times + 1, times - 1)))

    assert run_case(case, range(3), truly).covers.all()
    outcome = run_case(case, range(3), wrong)
    line = outcome.line()
    assert set(KEYS) <= set(line)
    assert (line["cover"], line["logs"], line["bias"], line["median stderr"]) == (0, 3, pytest.approx(10), 1.0)
    assert line["pointwise cover"] == pytest.approx(np.mean(times > 50))
    assert line["ratio"] == pytest.approx(line["value"] / 10)
    json.dumps([line, bench_answers.together([outcome])], allow_nan=False)


def test_errors_below_a_thousandth_of_the_truth_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OnPolicy, "truth", lambda self: (-10.0, 0.0))
    case = CASES["mountaincar logged, 0.9"]
    outcome = run_case(case, range(2), lambda case, log: Estimate(-9.995, 0.01))
    assert outcome.ratio == 1
    assert outcome.line()["raw ratio"] < 0.01


def test_an_answer_that_is_no_number_covers_nothing_and_can_be_written() -> None:
    case = CASES["walk 0..10, up 0.5, 3000"]
    outcome = run_case(case, range(2), lambda case, log: Estimate(np.nan, np.inf))
    line, whole = outcome.line(), bench_answers.together([outcome])
    assert (line["cover"], line["ratio"], line["ours"], whole["ratio"]) == (0, 0, None, 0)
    json.dumps([line, whole], allow_nan=False)
    assert len(list(bench_answers.tables([line, whole]))) == 1


@pytest.mark.parametrize("shape", [["--json"], []])
def test_a_quick_run_of_one_case(
    shape: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Walk, "answer", lambda self, log: Reply(truly(self, log)))
    assert main(["bench", "answers", "--quick", "--case", "walk 0..10, up 0.5*", *shape]) == 0
    shown = capsys.readouterr().out
    if shape:
        lines = [json.loads(line) for line in shown.splitlines()]
        assert [line["case"] for line in lines] == [
            "walk 0..10, up 0.5, 3000",
            "walk 0..10, up 0.55, 3000",
            "all hitting",
        ]
        assert all(set(KEYS) <= set(line) for line in lines)
        assert lines[-1]["pooled cover"] == 1
    else:
        assert "walk 0..10" in shown
        assert "covered 4 of 4" in shown
