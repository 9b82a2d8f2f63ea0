"""Laws of default answers: what shifts, scales, orders, units and copies of the data must do to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dualembed as de

RNG = np.random.default_rng(0)
EPISODES, STEPS = 24, 25
EPISODE = np.repeat(np.arange(EPISODES), STEPS)
DISCOUNT = 0.95


def paths() -> tuple[np.ndarray, np.ndarray]:
    """States and next states of two-dimensional walks that are drawn back to 0 and never end."""
    state = np.empty((EPISODES, STEPS + 1, 2))
    state[:, 0] = RNG.normal(size=(EPISODES, 2))
    for step in range(STEPS):
        state[:, step + 1] = 0.8 * state[:, step] + 0.5 * RNG.normal(size=(EPISODES, 2))
    return state[:, :-1].reshape(-1, 2), state[:, 1:].reshape(-1, 2)


STATE, NEXT = paths()
ACTION = RNG.integers(2, size=len(STATE))
REWARD = np.sin(STATE[:, 0]) + 0.3 * ACTION + 0.2 * RNG.normal(size=len(STATE))
PLACES = STATE[:7]


def policy(states: np.ndarray) -> np.ndarray:
    """Action 1 where the first coordinate is high, more likely."""
    high = 1 / (1 + np.exp(-np.asarray(states)[:, 0]))
    return np.stack([1 - high, high], axis=1)


def evaluator(state: Any = STATE, reward: Any = REWARD, following: Any = NEXT, episode: Any = EPISODE) -> Any:
    return de.PolicyEvaluator(DISCOUNT).fit(state, reward, following, episodes=episode)


def actor(
    state: Any = STATE, reward: Any = REWARD, following: Any = NEXT, *, action: Any = ACTION, chosen: Any = policy
) -> Any:
    return de.ActionValueEvaluator(DISCOUNT, chosen).fit(state, action, reward, following, episodes=EPISODE)


@pytest.fixture(scope="module")
def model() -> Any:
    return evaluator()


@pytest.fixture(scope="module")
def actions() -> Any:
    return actor()


def test_a_constant_more_in_every_reward_is_its_discounted_sum_more_in_every_answer(model: Any, actions: Any) -> None:
    more = 3.0 / (1 - DISCOUNT)
    for before, after in ((model, evaluator(reward=REWARD + 3)), (actions, actor(reward=REWARD + 3))):
        old, new = before.value(), after.value()
        assert new.value - old.value == pytest.approx(more, abs=1e-5 * more)
        assert new.stderr == pytest.approx(old.stderr, rel=1e-4)
    np.testing.assert_allclose(evaluator(reward=REWARD + 3).predict(PLACES), model.predict(PLACES) + more, rtol=1e-6)


def test_answers_and_errors_scale_with_rewards(model: Any) -> None:
    scaled = evaluator(reward=-100 * REWARD)
    assert scaled.value().value == pytest.approx(-100 * model.value().value, rel=1e-6)
    assert scaled.value().stderr == pytest.approx(100 * model.value().stderr, rel=1e-4)
    np.testing.assert_allclose(
        scaled.predict(PLACES, return_std=True)[1], 100 * model.predict(PLACES, return_std=True)[1], rtol=1e-3
    )


def test_units_of_states_do_not_matter(model: Any) -> None:
    units, origin = np.array([1000.0, 1e-3]), np.array([-7.0, 20.0])
    other = evaluator(STATE * units + origin, REWARD, NEXT * units + origin)
    assert other.value().value == pytest.approx(model.value().value, rel=1e-5)
    np.testing.assert_allclose(other.predict(PLACES * units + origin), model.predict(PLACES), rtol=1e-4, atol=1e-5)


def test_the_order_of_episodes_does_not_matter(model: Any) -> None:
    order = np.argsort(np.random.default_rng(1).permutation(EPISODES)[EPISODE], kind="stable")
    other = evaluator(STATE[order], REWARD[order], NEXT[order], EPISODE[order])
    assert other.value().value == pytest.approx(model.value().value, rel=1e-6)
    assert other.value().stderr == pytest.approx(model.value().stderr, rel=1e-3)


@pytest.mark.parametrize("episode", [EPISODE, None], ids=["labelled", "unlabelled"])
def test_the_order_of_rows_does_not_matter_for_the_function(episode: Any) -> None:
    order = np.random.default_rng(2).permutation(len(STATE))
    before = evaluator(episode=episode)
    after = evaluator(STATE[order], REWARD[order], NEXT[order], None if episode is None else episode[order])
    if episode is None:
        for old, new in zip(
            before.predict(PLACES, return_std=True), after.predict(PLACES, return_std=True), strict=True
        ):
            np.testing.assert_allclose(new, old, rtol=1e-3)
    else:  # the first rows of episodes are others, and with them the weights of candidates
        values, errors = before.predict(PLACES, return_std=True)
        assert np.all(np.abs(after.predict(PLACES) - values) < errors)


def test_a_copy_of_every_row_within_its_episode_changes_nothing(model: Any) -> None:
    twice = evaluator(
        np.repeat(STATE, 2, axis=0), np.repeat(REWARD, 2), np.repeat(NEXT, 2, axis=0), np.repeat(EPISODE, 2)
    )
    np.testing.assert_allclose(twice.predict(PLACES), model.predict(PLACES), rtol=1e-3, atol=1e-3)


def test_a_question_at_one_point_is_the_prediction_there_and_differences_are_differences(model: Any) -> None:
    values, errors = model.predict(PLACES, return_std=True)
    for place, value, error in zip(PLACES, values, errors, strict=True):
        answer = model.ask(model.at(place[None]))
        assert answer.value == pytest.approx(value, rel=1e-9)
        assert answer.stderr == pytest.approx(error, rel=1e-6)
        assert answer.interval(0.9) == pytest.approx([each[0] for each in model.interval(place[None], 0.9)])
    first, second = model.at(PLACES[:1]), model.at(PLACES[1:2])
    difference = model.ask(first - second)
    assert difference.value == pytest.approx(values[0] - values[1], rel=1e-9)
    assert difference.stderr != pytest.approx(np.hypot(*errors[:2]), rel=1e-3)
    nothing = model.ask(first - first)
    assert (nothing.value, nothing.stderr) == pytest.approx((0, 0), abs=1e-12)
    assert model.ask(2 * first).stderr == pytest.approx(2 * errors[0], rel=1e-6)


def test_several_questions_have_the_answers_of_each(model: Any) -> None:
    questions = [model.at(PLACES[:1]), model.at(PLACES)]
    assert model.ask_all(questions) == [model.ask(each) for each in questions]
    assert model.ask(model.at(PLACES)).value == pytest.approx(model.predict(PLACES).mean())


def test_answers_are_the_same_after_a_round_trip_to_a_file(model: Any, tmp_path: Path) -> None:
    de.save(model, tmp_path / "model.dualembed")
    loaded = de.load(tmp_path / "model.dualembed")
    assert loaded.ask(loaded.at(PLACES)) == model.ask(model.at(PLACES))
    assert loaded.value() == model.value()
    assert (tmp_path / "model.dualembed").stat().st_size < 40e6


def test_a_few_more_rows_change_errors_by_little() -> None:
    model = evaluator(STATE[:-25], REWARD[:-25], NEXT[:-25], EPISODE[:-25])
    before = model.predict(PLACES, return_std=True)
    model.partial_fit(STATE[-25:], REWARD[-25:], NEXT[-25:], episodes=EPISODE[-25:])
    after = model.predict(PLACES, return_std=True)
    assert np.all(np.abs(after[0] - before[0]) < before[1])
    assert np.all((0.5 * before[1] < after[1]) & (after[1] < 2 * before[1]))
    assert model.diagnostics_.rows == len(STATE)


def test_points_outside_the_data_get_wide_errors_and_a_word(model: Any) -> None:
    near, far = model.ask(model.at(PLACES[:1])), model.ask(model.at([[30.0, -30.0]]))
    assert far.stderr > 10 * near.stderr
    assert far.verdict == "not answerable"
    assert any("outside the data" in warning for warning in far.warnings)


def test_no_points_are_refused_in_one_sentence(model: Any) -> None:
    with pytest.raises(ValueError, match="0 sample"):
        model.ask(model.at(np.empty((0, 2))))


def test_the_default_fit_neither_traces_nor_compiles() -> None:
    import jax

    with jax.log_compiles(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("jax._src.interpreters.pxla.lower_sharding_computation", _refuse)
        evaluator().value()
        actor().value()


def _refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("something was compiled")
