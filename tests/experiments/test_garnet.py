"""Garnet problems: the exact quantities obey their equations, and samples agree with them."""

from __future__ import annotations

import numpy as np
import pytest

import dualembed as de
from dualembed import baselines, solvers
from dualembed.experiments.garnet import Garnet, cuts, garnet, normalise_weights

SMALL = garnet(3, states=12, actions=3, branching=2, features=4)


def test_every_action_has_so_many_next_states_and_probabilities_sum_to_one() -> None:
    world = garnet(0)
    assert np.array_equal(np.sum(world.transitions > 0, axis=2), np.full((100, 4), 3))
    for chances in (world.transitions, world.target, world.behaviour, world.visits):
        np.testing.assert_allclose(chances.sum(axis=-1), 1, rtol=1e-12)
    assert world.features.shape == (100, 20)
    assert np.all((world.reward >= 0) & (world.reward <= 1))


def test_the_value_solves_the_bellman_equation_and_has_no_bellman_error() -> None:
    following = SMALL.chain(SMALL.target) @ SMALL.value
    np.testing.assert_allclose(SMALL.value, SMALL.reward + 0.95 * following, rtol=1e-12)
    assert SMALL.msbe(SMALL.value) < 1e-25
    assert SMALL.rmse(SMALL.value) == 0


def test_visits_are_stationary_under_restarts_even_where_the_chain_falls_apart() -> None:
    """Two states that never leave themselves: without restarts every law is stationary."""
    stuck = Garnet(np.eye(2)[:, None], np.ones(2), np.ones((2, 1)), np.ones((2, 1)), np.ones((2, 1)))
    np.testing.assert_allclose(stuck.visits, [0.5, 0.5], rtol=1e-12)
    moves = 0.99 * SMALL.chain(SMALL.behaviour) + 0.01 / 12
    np.testing.assert_allclose(SMALL.visits @ moves, SMALL.visits, rtol=1e-10)


def test_the_best_weights_have_the_least_bellman_error_and_the_excess_is_a_distance_from_them() -> None:
    least = SMALL.msbe(SMALL.features @ SMALL.best_weights)
    assert SMALL.excess(SMALL.features @ SMALL.best_weights) == 0
    moved = SMALL.features - 0.95 * SMALL.chain(SMALL.target) @ SMALL.features
    for seed in range(5):
        change = 0.1 * np.random.default_rng(seed).standard_normal(4)
        value = SMALL.features @ (SMALL.best_weights + change)
        assert SMALL.msbe(value) > least
        np.testing.assert_allclose(SMALL.excess(value) ** 2, SMALL.visits @ (moved @ change) ** 2, rtol=1e-9)


def test_the_fixed_point_is_orthogonal_to_the_features_and_another_than_the_best() -> None:
    value = SMALL.features @ SMALL.fixed_point
    residual = value - SMALL.reward - 0.95 * SMALL.chain(SMALL.target) @ value
    np.testing.assert_allclose(SMALL.features.T @ (SMALL.visits * residual), 0, atol=1e-12)
    assert SMALL.excess(value) > 0.01


def test_samples_follow_the_law_they_are_said_to() -> None:
    rows = 200_000
    table = SMALL.sample(rows, 0).table
    state, after = table["state"].astype(int), table["next_state"].astype(int)
    frequencies = np.bincount(state, minlength=12) / rows
    np.testing.assert_allclose(frequencies, SMALL.visits, atol=4 * np.sqrt(SMALL.visits.max() / rows))
    # Weighted by ρ, next states are those of the target policy.
    joint = np.zeros((12, 12))
    np.add.at(joint, (state, after), table["weight"] / rows)
    np.testing.assert_allclose(joint, SMALL.visits[:, None] * SMALL.chain(SMALL.target), atol=0.004)
    np.testing.assert_array_equal(table["reward"], SMALL.reward[state])


def test_the_second_sample_is_independent_of_the_first_given_the_state() -> None:
    rows = 200_000
    table = SMALL.sample(rows, 1).table
    here = table["state"] == np.argmax(SMALL.visits)
    means = []
    for prefix in ("", "second_"):
        seen = SMALL.value[table[f"{prefix}next_state"].astype(int)][here] * table[f"{prefix}weight"][here]
        means.append((seen - seen.mean()) / seen.std())
    assert abs(np.mean(means[0] * means[1])) < 4 / np.sqrt(here.sum())


def test_with_many_samples_lstd_finds_the_fixed_point_and_the_closed_form_the_best_weights() -> None:
    saddle = de.Saddle(SMALL.problem(100_000, 2), SMALL.primal, SMALL.dual)
    lstd = de.solve(0, saddle, baselines.LSTD())
    closed = de.solve(0, saddle, solvers.ClosedForm())
    gap = SMALL.excess(SMALL.features @ SMALL.fixed_point)
    assert abs(SMALL.excess(SMALL.on_states(lstd.primal)) - gap) < 0.1 * gap
    assert SMALL.excess(SMALL.on_states(closed.primal)) < 0.1 * gap
    np.testing.assert_allclose(lstd.primal.weights, SMALL.fixed_point, atol=0.05)
    np.testing.assert_allclose(closed.primal.weights, SMALL.best_weights, atol=0.05)


def test_the_same_seed_gives_the_same_garnet_and_the_same_samples() -> None:
    again = garnet(3, states=12, actions=3, branching=2, features=4)
    np.testing.assert_array_equal(again.transitions, SMALL.transitions)
    for name, column in SMALL.sample(10, 5).table.items():
        np.testing.assert_array_equal(again.sample(10, 5).table[name], column)
    assert not np.array_equal(garnet(4, states=12).features, garnet(5, states=12).features)


def test_options_change_one_thing_each() -> None:
    plain, constant, random = garnet(0), garnet(0, constant=True), garnet(0, random_behaviour=True)
    np.testing.assert_array_equal(constant.features[:, :-1], plain.features[:, :-1])
    np.testing.assert_array_equal(constant.features[:, -1], 1)
    np.testing.assert_array_equal(plain.behaviour, 0.25)
    assert np.ptp(random.behaviour) > 0.5
    np.testing.assert_array_equal(random.target, plain.target)


def test_cuts_are_pieces_of_one_uniform_on_the_simplex() -> None:
    pieces = cuts(np.random.default_rng(0), 3, (20_000,))
    np.testing.assert_allclose(pieces.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(pieces.mean(axis=0), 1 / 3, atol=0.01)
    np.testing.assert_allclose(pieces.var(axis=0), 1 / 18, rtol=0.05)  # of a Dirichlet(1, 1, 1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"branching": 101}, "branching must not be above"),
        ({"states": 0}, "states must be"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_what_is_no_garnet_is_named(options: dict[str, int], words: str) -> None:
    with pytest.raises(de.InputError, match=words):
        garnet(**{"seed": 0, **options})


def test_normalised_weights_have_mean_one_in_every_state_and_keep_their_proportions() -> None:
    data = SMALL.sample(500, 6)
    table = normalise_weights(data).table
    for name in ("weight", "second_weight"):
        for state in np.unique(data.table["state"]):
            here = data.table["state"] == state
            np.testing.assert_allclose(table[name][here].mean(), 1, rtol=1e-12)
            assert np.ptp(table[name][here] / data.table[name][here]) < 1e-12
    np.testing.assert_array_equal(table["next_state"], data.table["next_state"])


def test_weights_without_a_second_sample_are_normalised_too() -> None:
    table = SMALL.sample(50, 6).table
    single = {name: column for name, column in table.items() if not name.startswith("second_")}
    np.testing.assert_array_equal(
        normalise_weights(de.sources.Dataset(**single)).table["weight"],
        normalise_weights(de.sources.Dataset(**table)).table["weight"],
    )
