"""Files of default models stay small, whatever they were fitted to, and keep their answers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dualembed as de
from dualembed.linear import fit as linear_fit
from dualembed.linear.candidates import RidgePath
from dualembed.linear.sums import Sums
from dualembed.linear.system import LinearSystem

# As 40,000 rows of five actions and four state columns have it: 80 landmarks for each action, and lines and products.
FEATURES, GROUPS, FINE, RIDGES, PLACES, KERNELS = 5 * (80 + 15), 10, 40, 11, 1000, 3


def sums(size: int, groups: int = GROUPS, rows: int = 40) -> Sums:
    """Sums of features at random, as large as those of any number of rows."""
    rng = np.random.default_rng(0)
    phi = rng.normal(size=(groups, rows, size)) / np.arange(1, 1 + size)
    g = phi - 0.9 * np.roll(phi, 1, axis=1)
    cross, target = (
        np.einsum("grm,grk->gmk", phi, g),
        np.einsum("grm,grt->gmt", phi, rng.normal(size=(groups, rows, 11))),
    )
    return Sums(np.full(groups, float(rows)), cross, target, np.einsum("grm,grk->mk", phi, phi)[None])


def large(model: Any) -> Any:
    """The model with sums and paths of the size that a large fit has."""
    fit, rng = model.paths_, np.random.default_rng(1)
    weights = rng.normal(size=(RIDGES, GROUPS + 2, FEATURES))
    paths = [RidgePath(fit.candidates.paths[0].features, np.ones(RIDGES), weights + k) for k in range(KERNELS)]
    average = dataclasses.replace(
        fit.candidates,
        paths=tuple(paths),
        weights=tuple(np.full(RIDGES, 1 / 33) for _ in paths),
        influence=tuple(rng.normal(size=(FEATURES, FINE)) for _ in paths),
    )
    own = sums(FEATURES)
    many = tuple(dataclasses.replace(own, cross=(1 + k) * own.cross, dual=(1 + k) * own.dual) for k in range(KERNELS))
    known = np.random.default_rng(2).normal(size=(PLACES, 9))
    compact = tuple(each.compact(linear_fit.most_directions([FEATURES] * KERNELS, GROUPS)) for each in many)
    whole = dataclasses.replace(fit, candidates=average, sums=compact, places=known, visits=np.ones(PLACES))
    model.solution_ = model.uncertainty_ = whole
    return model


def test_the_largest_of_ordinary_models_is_below_eighteen_megabytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    state = rng.normal(size=100)
    model = de.PolicyEvaluator(0.5).fit(state, state, rng.normal(size=100), episodes=np.arange(100) // 5)
    de.save(large(model), tmp_path / "model.dualembed")
    assert 8e6 < (tmp_path / "model.dualembed").stat().st_size < 18e6


@pytest.mark.parametrize("ridge", [1e-2, 1e-6, 1e-10])
def test_sums_in_half_the_memory_have_the_same_solutions(ridge: float) -> None:
    whole = sums(60)
    small = whole.compact()
    assert small.cross.dtype == small.dual.dtype == np.float32
    first, second = (LinearSystem(*each.means(), ridge * each.mean_square) for each in (whole, small))
    np.testing.assert_allclose(second.weights(), first.weights(), rtol=1e-6)
    np.testing.assert_allclose(second.representer(np.ones(60)), first.representer(np.ones(60)), rtol=1e-6)


def test_sums_in_leading_directions_keep_the_total_and_most_of_what_groups_differ_by() -> None:
    whole = sums(60)
    small = whole.compact(30)
    assert small.cross.shape == (GROUPS, 30, 30)
    np.testing.assert_allclose(small.means()[0], whole.means()[0], rtol=1e-12)
    assert small.mean_square == pytest.approx(whole.mean_square)
    again, more = small.whole(), small + whole
    np.testing.assert_allclose(again.means()[0], whole.means()[0], rtol=1e-12)
    np.testing.assert_allclose(more.cross, again.cross + whole.cross)
    apart = [each.cross - each.cross.mean(axis=0) for each in (again, whole)]
    assert np.linalg.norm(apart[0] - apart[1]) < 0.15 * np.linalg.norm(apart[1])
    np.testing.assert_allclose(again.cross, whole.cross, atol=0.02 * abs(whole.cross).max())


def test_few_kernels_are_kept_whole_and_many_take_no_more_room() -> None:
    assert linear_fit.most_directions([350], GROUPS) == 350
    sizes = [linear_fit.most_directions([400] * kernels, GROUPS) for kernels in (1, 2, 3)]
    assert sizes[0] > sizes[1] > sizes[2] >= linear_fit.LEAST_DIRECTIONS


def test_a_model_of_actions_has_the_same_answers_after_a_round_trip(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    state, action = rng.normal(size=(400, 2)), rng.integers(3, size=400)
    model = de.ActionValueEvaluator(0.8, _evenly).fit(
        state, action, state[:, 0] + action, 0.5 * state + rng.normal(size=(400, 2)), episodes=np.arange(400) // 10
    )
    de.save(model, tmp_path / "model.dualembed")
    loaded = de.load(tmp_path / "model.dualembed", functions={f"{__name__}:_evenly": _evenly})
    for old, new in ((model.value(), loaded.value()), (_at(model), _at(loaded))):
        assert (new.value, new.stderr) == pytest.approx((old.value, old.stderr), rel=1e-6)
        assert (new.negative, new.effective, new.verdict) == (old.negative, old.effective, old.verdict)


def _at(model: Any) -> Any:
    return model.ask(model.at([[0.5, 0.0]], [2]))


def _evenly(states: Any) -> np.ndarray:
    return np.full((len(states), 3), 1 / 3)
