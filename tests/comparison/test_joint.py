"""Several answers at once: intervals that hold together, and the best of several, which is not flattered."""

from __future__ import annotations

import numpy as np
import pytest

from dualembed.comparison.joint import MOST_MOVES, Joint, bonferroni, pointwise

GROUPS = 10


def joint(scores: np.ndarray) -> Joint:
    """Of P means over groups, scores (P, groups)."""
    count = scores.shape[1]
    values = scores.mean(axis=1)
    replicates = (scores.sum(axis=1, keepdims=True) - scores) / (count - 1)
    stderrs = scores.std(axis=1, ddof=1) / np.sqrt(count)
    influence = (scores - values[:, None]) / count
    return Joint(values, replicates, np.full(count, 1 / count), influence, stderrs, count - 1)


@pytest.mark.parametrize(("policies", "gap"), [(10, 0.0), (3, 2.0)])
def test_the_best_of_several_is_not_biased_upwards(policies: int, gap: float) -> None:
    """Of ten policies worth 0 the highest mean is 1.5 of its errors too high; what `best` says is right on average."""
    rng = np.random.default_rng(0)
    truth = np.zeros(policies)
    truth[0] = gap
    drawn = [joint(truth[:, None] + rng.normal(size=(policies, GROUPS)) * np.sqrt(GROUPS)) for _ in range(300)]
    names = [int(np.argmax(each.values)) for each in drawn]
    highest = np.array([each.values[name] - truth[name] for each, name in zip(drawn, names, strict=True)])
    found = np.array([each.best()[:2] for each in drawn])
    away = found[:, 0] - truth[names]
    error = away.std() / np.sqrt(300)
    assert highest.mean() > 4 * error
    assert -0.4 < away.mean() < 3 * error
    assert np.mean(np.abs(away) < pointwise(0.95, GROUPS - 1) * found[:, 1]) > 0.93


def test_the_best_that_stands_out_is_worth_its_own_value() -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(3, GROUPS)) + np.array([[0.0], [20.0], [0.0]])
    value, stderr, counts = joint(scores).best()
    assert counts.tolist() == pytest.approx([0.0, 1.0, 0.0])
    assert value == pytest.approx(scores[1].mean())
    assert stderr == pytest.approx(scores[1].std(ddof=1) / np.sqrt(GROUPS))


def test_intervals_of_all_values_and_differences_hold_together() -> None:
    """In 200 draws of four values that vary together, all ten intervals cover at once in about 95 of 100."""
    rng = np.random.default_rng(2)
    mixing = rng.normal(size=(4, 4))
    together, alone = 0, 0
    for _ in range(200):
        found = joint(mixing @ rng.normal(size=(4, 40)))
        first, second = np.triu_indices(4, 1)
        moves = np.concatenate([found.influence, found.influence[first] - found.influence[second]])
        values = np.concatenate([found.values, found.values[first] - found.values[second]])
        errors = np.sqrt(np.sum(moves**2, axis=1) * 40 / 39)
        largest = np.max(np.abs(values) / errors)
        together += largest < found.quantile(0.95)
        alone += largest < pointwise(0.95, 39)
    assert alone < 170 < 182 <= together <= 198


def test_many_rows_are_put_together_and_change_little() -> None:
    rng = np.random.default_rng(3)
    found = joint(rng.normal(size=(3, 20 * MOST_MOVES)))
    few = joint(rng.normal(size=(3, MOST_MOVES)))
    assert found.quantile(0.95) == pytest.approx(few.quantile(0.95), rel=0.05)


def test_bonferroni_is_wider_the_more_answers_there_are() -> None:
    assert bonferroni(0.95, 1, [None]) == pytest.approx(1.96, abs=1e-3)
    assert bonferroni(0.95, 10, [9.0]) > bonferroni(0.95, 3, [9.0]) > bonferroni(0.95, 3, [None])
