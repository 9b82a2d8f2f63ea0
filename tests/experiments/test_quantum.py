"""Random Coulomb matrices do not tell the order of the atoms, and every method learns energies from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.recorded import DATA, needs_data

from dualembed import Saddle, kernels, problems, samplers, solve, solvers, sources, spaces
from dualembed.checks import InputError
from dualembed.data import qm7
from dualembed.experiments import molecules as chemistry
from dualembed.experiments import quantum
from dualembed.experiments.experiment import Contender, Curve, Stochastic
from dualembed.experiments.molecules import draw_matrices, mean_kernels, reordered, ridge_errors, sorted_matrices
from dualembed.experiments.report import write
from dualembed.experiments.run import run
from dualembed.progress import track


def made_up(count: int = 60, atoms: int = 5, *, smallest: int = 3, seed: int = 0) -> qm7.Molecules:
    """Molecules of atoms at random places; the energy is the repulsion of their charges."""
    rng = np.random.default_rng(seed)
    coulomb = np.zeros((count, atoms, atoms))
    for matrix in coulomb:
        size = rng.integers(smallest, atoms + 1)
        charge, place = rng.uniform(1, 4, size), rng.normal(size=(size, 3))
        apart = np.linalg.norm(place[:, None] - place, axis=2) + 1 + np.eye(size)
        matrix[:size, :size] = np.where(np.eye(size) > 0, np.diag(charge**2), np.outer(charge, charge) / apart)
    energy = -coulomb.sum(axis=(1, 2))
    return qm7.Molecules(coulomb, energy, rng.permutation(count).reshape(5, -1))


def forget() -> None:
    for kept in (
        chemistry.some_molecules,
        chemistry.draws_of,
        chemistry.grams,
        chemistry.features_of_draws,
        chemistry.features_of_molecules,
    ):
        kept.cache_clear()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[qm7.Molecules]:
    """60 made-up molecules in place of QM7, and spaces to their measure."""
    forget()
    found = made_up()
    monkeypatch.setattr(qm7, "load", lambda: found)
    for name, value in {"FEATURES": 64, "LANDMARKS": 40, "CHUNK": 128}.items():
        monkeypatch.setattr(chemistry, name, value)
    yield found
    forget()


SAMPLES = 12 * 4 * 10 * 10  # ten rounds over four folds of made-up molecules, ten draws of each
CONTENDERS: dict[str, Contender] = {
    name: replace(each, batch=20) if isinstance(each, Stochastic) else each for name, each in quantum.CONTENDERS.items()
}


def test_draws_are_the_samplers_own_where_no_atom_is_missing() -> None:
    molecules = made_up(smallest=5)
    orbit = samplers.Orbit(3, samplers.AtomPermutation(5, 1.5), 4)
    canonical = sorted_matrices(molecules.coulomb).reshape(60, 25)
    wanted = np.asarray(orbit(canonical)).reshape(60, 4, 5, 5)
    column, row = np.tril_indices(5)
    drawn = draw_matrices(molecules, 8, 1.5, 3)
    np.testing.assert_allclose(drawn[:, ::2], wanted[:, :, row, column], rtol=1e-6)
    assert np.any(drawn[:, 0] != drawn[:, 2])


def test_every_other_draw_has_the_opposite_noise() -> None:
    # Two atoms whose norms differ by far less than the noise: one of the two always swaps them.
    exact = np.zeros((5, 2, 2)) + np.diag([10.0, 10.5])
    drawn = draw_matrices(qm7.Molecules(exact, np.zeros(5), np.arange(5)[:, None]), 40, 50.0, 0)
    swapped = drawn[0, :, 0] < drawn[0, :, 2]
    np.testing.assert_array_equal(swapped[::2], ~swapped[1::2])
    assert 0 < np.sum(swapped[::2]) < 20


def test_draws_do_not_tell_in_which_order_the_atoms_came() -> None:
    molecules, rng = made_up(), np.random.default_rng(1)
    order = np.stack([rng.permutation(5) for _ in range(60)])
    mixed = qm7.Molecules(reordered(molecules.coulomb, order), molecules.energy, molecules.folds)
    assert np.any(mixed.coulomb != molecules.coulomb)
    np.testing.assert_array_equal(draw_matrices(mixed, 3, 1.0, 0), draw_matrices(molecules, 3, 1.0, 0))


def test_a_draw_holds_the_molecules_entries_with_missing_atoms_last() -> None:
    molecules = made_up()
    drawn = draw_matrices(molecules, 3, 5.0, 0)
    column, row = np.tril_indices(5)
    whole = np.sort(molecules.coulomb[:, row, column], axis=1)
    np.testing.assert_allclose(np.sort(drawn, axis=2), np.repeat(whole[:, None], 3, axis=1), rtol=1e-6)
    sizes = np.count_nonzero(np.diagonal(molecules.coulomb, axis1=1, axis2=2), axis=1)
    for size, each in zip(sizes, drawn, strict=True):
        assert np.all(each[:, : size * (size + 1) // 2] > 0)


def test_without_noise_every_draw_is_the_sorted_matrix() -> None:
    molecules = made_up()
    column, row = np.tril_indices(5)
    wanted = sorted_matrices(molecules.coulomb)[:, row, column]
    for number in range(2):
        np.testing.assert_allclose(draw_matrices(molecules, 2, 0.0, 0)[:, number], wanted, rtol=1e-6)


def test_mean_kernels_are_means_of_the_laplacian_over_all_pairs_of_draws() -> None:
    molecules = made_up(150)  # more than one tile, and no whole number of them
    drawn = draw_matrices(molecules, 3, 1.0, 0).astype(float)
    for bandwidth, found in zip((5.0, 50.0), mean_kernels(drawn, (5.0, 50.0)), strict=True):
        pairs = kernels.Laplacian(bandwidth).gram(drawn.reshape(450, -1), drawn.reshape(450, -1))
        np.testing.assert_allclose(found, pairs.reshape(150, 3, 150, 3).mean(axis=(1, 3)), atol=1e-6)


def test_the_mean_kernels_regression_is_the_invariance_problems_own_solution() -> None:
    molecules, penalty = made_up(40), 1e-3
    training, testing = molecules.split(0)
    drawn = draw_matrices(molecules, 3, 1.0, 0).astype(float)
    gram = mean_kernels(drawn, (20.0,))[0]
    found = ridge_errors(gram, molecules.energy, training, testing=testing, penalty=penalty)

    mean, molecule = molecules.energy[training].mean(), np.repeat(np.arange(len(training)), 3)
    y = (molecules.energy[training] - mean)[molecule]
    problem = problems.Invariance(sources.Dataset(x=molecule, y=y, z=drawn[training].reshape(len(y), -1)))
    saddle = Saddle(
        problem,
        spaces.Nystrom(kernels.Laplacian(20.0), len(y)),  # the RKHS itself, on these draws
        spaces.Table(),  # one number for each molecule: the conditional mean exactly
        primal_penalty=penalty / len(training),
    )
    function = solve(0, saddle, solvers.ClosedForm(1)).primal
    values = np.asarray(function(drawn[testing].reshape(-1, drawn.shape[2]))).reshape(len(testing), 3).mean(axis=1)
    np.testing.assert_allclose(values + mean - molecules.energy[testing], found, rtol=1e-3, atol=1e-2)


def test_a_trial_tests_on_the_fold_of_its_seed_and_tuning_never_sees_fold_0(small: qm7.Molecules) -> None:
    folds = chemistry.some_molecules(12).folds
    for seed in range(5):
        split = chemistry.split_of(seed, SAMPLES)
        training, testing = split.rows()
        np.testing.assert_array_equal(testing, folds[seed])
        assert sorted([*training, *testing]) == list(range(60))
    held = [chemistry.split_of(seed, SAMPLES).rows() for seed in (1000, 1001)]
    assert all(not set(folds[0]) & {*training, *testing} for training, testing in held)
    assert all(len(training) == 36 and not set(training) & set(testing) for training, testing in held)
    assert not set(held[0][1]) & set(held[1][1])


def test_fewer_samples_take_fewer_molecules_of_each_fold(small: qm7.Molecules) -> None:
    size = chemistry.split_of(0, SAMPLES // 2).size
    some = chemistry.some_molecules(size)
    assert some.folds.shape == (5, 6)
    for own, whole in zip(some.folds, small.folds, strict=True):
        np.testing.assert_array_equal(some.energy[own], small.energy[whole[:6]])


def test_features_are_of_draws_then_sorted_matrices_and_tested_ones_are_means(small: qm7.Molecules) -> None:
    split = chemistry.split_of(2, SAMPLES)
    found = chemistry.features_of_draws(split, lambda bandwidth, points: spaces.Basis(quantum.as_they_are), 1.0)
    training, testing = split.rows()
    both = chemistry.draws_of(12, 30)
    np.testing.assert_array_equal(np.asarray(found.learnt[:480]).reshape(48, 10, 15), both[training, :10])
    column, row = np.tril_indices(5)
    canonical = sorted_matrices(chemistry.some_molecules(12).coulomb)[training][:, row, column]
    np.testing.assert_allclose(found.learnt[480:], canonical, rtol=1e-6)
    np.testing.assert_allclose(found.tested, both[testing, 10:].mean(axis=1), rtol=1e-5)


STEPS: dict[str, Any] = {"bandwidth": 1.0, "power": 0.5, "offset": 100.0, "primal rate": 100.0, "iterate": "last"}
CHOSEN: dict[str, dict[str, Any]] = {
    "embedding-sgd": {**STEPS, "dual bandwidth": 0.5, "dual rate": 200.0},
    "sgd-saa": STEPS,
    "virtual-samples": STEPS,
    "centred-sgd": {**STEPS, "dual bandwidth": 0.5, "dual rate": 100.0},
    "preconditioned-sgd": {**STEPS, "bandwidth": 100.0, "power": 0.0, "primal rate": 0.2, "offset": 0.0}
    | {"dual rate": 1.0},
    "closed-form": {"bandwidth": 250.0, "penalty": 1e-4},
    "self-tuned": {},
}


@pytest.mark.slow
def test_every_method_learns_and_the_report_is_written(small: qm7.Molecules, tmp_path: Path) -> None:
    experiment = replace(quantum.EXPERIMENT, contenders=CONTENDERS, quick_samples=SAMPLES, most_trials=2)
    report = run(experiment, trials=3, seed=0, quick=True, progress=track, chosen=CHOSEN)
    assert report.trials == 2
    results, figure = write(report, tmp_path)
    written = json.loads(results.read_text(encoding="utf-8"))
    assert list(written["methods"]) == list(CHOSEN)
    assert figure.stat().st_size > 0
    blind = np.mean(np.abs(small.energy - small.energy.mean()))
    for name, method in written["methods"].items():
        assert np.mean(method["final"]) < 0.5 * blind, name
        assert len(method["beside"]["RMSE"]) == 2, name
        assert all(large >= mean for large, mean in zip(method["beside"]["RMSE"], method["final"], strict=True)), name
    assert len(written["methods"]["closed-form"]["beside"]["MAE with 10 draws"]) == 2


@pytest.mark.parametrize("name", ["embedding-sgd", "sgd-saa"])
def test_a_sweep_judges_many_settings_as_single_runs_would(small: qm7.Molecules, name: str) -> None:
    contender = CONTENDERS[name]
    some = [{**CHOSEN[name], "primal rate": rate} for rate in (50.0, 1e9, 100.0)]
    found = contender.finals(some, 1000, SAMPLES)
    assert np.isinf(found[1])
    for number in (0, 2):
        assert contender.run(some[number], 1000, SAMPLES).values[-1] == pytest.approx(found[number], rel=1e-3)


def test_the_centred_moment_is_f_of_the_draw_less_y(small: qm7.Molecules) -> None:
    sample = quantum.one_draw(chemistry.split_of(0, SAMPLES)).columns
    terms, own = quantum.centred(sample), quantum.plain(sample)
    np.testing.assert_array_equal(terms.points[:, 1], own.points[:, 0])
    np.testing.assert_array_equal(terms.points[:, 0], terms.points[:, 2])
    np.testing.assert_array_equal(terms.context, own.context)
    values = np.random.default_rng(0).normal(size=(len(own.target), 2))
    residual = terms.moment(values[:, [0, 1, 0]]) - terms.target
    np.testing.assert_allclose(residual, values[:, 1] - own.target, atol=1e-5)


def test_terms_are_those_of_the_invariance_problem_with_features_for_inputs(small: qm7.Molecules) -> None:
    split = chemistry.split_of(0, SAMPLES)
    source = quantum.all_draws(split)
    draws = chemistry.features_of_draws(split, quantum.waves, 1.0).learnt
    known = chemistry.features_of_molecules(split, quantum.waves, 1.0)
    found = quantum.LookedUp(quantum.plain, draws, known)(source.columns)
    table = sources.Dataset(x=known, y=source.table["y"], z=draws[:480].reshape(48, 10, 64))
    wanted = problems.Invariance(table).terms(table.columns)
    for name in ("points", "weights", "offset", "target"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-6)
    np.testing.assert_allclose(found.context, wanted.context[:, :-1], rtol=1e-6)  # the link knows y


def test_self_tuning_does_not_look_at_the_test_fold(small: qm7.Molecules, monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(curve: Curve) -> list[float]:
        return [curve.extras["bandwidth"], curve.extras["penalty"]]

    found = quantum.SelfTuned().run({}, 1, SAMPLES)
    energy = small.energy.copy()
    energy[small.folds[1]] = np.random.default_rng(0).normal(size=12)
    forget()
    monkeypatch.setattr(qm7, "load", lambda: qm7.Molecules(small.coulomb, energy, small.folds))
    other = quantum.SelfTuned().run({}, 1, SAMPLES)
    assert chosen(other) == chosen(found)
    assert other.values[-1] != found.values[-1]


def test_without_the_data_the_loaders_sentence_ends_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget()
    monkeypatch.setenv(qm7.VARIABLE, str(tmp_path / "absent.mat"))
    with pytest.raises(InputError, match=r"absent\.mat is no file"):
        run(quantum.EXPERIMENT, trials=1, seed=0, quick=True, progress=track, chosen=CHOSEN)


@needs_data
def test_four_draws_of_real_molecules_predict_better_than_the_sorted_matrix() -> None:
    whole = qm7.load(DATA / "qm7.npz")
    some = np.random.default_rng(0).permutation(7165)[:1000]
    molecules = qm7.Molecules(whole.coulomb[some], whole.energy[some], np.arange(1000).reshape(5, 200))
    errors = []
    for draws, noise in ((1, 0.0), (4, 1.0)):
        gram = mean_kernels(draw_matrices(molecules, draws, noise, 0), (1000.0,))[0]
        own = []
        for fold in range(5):
            training, testing = molecules.split(fold)
            found = ridge_errors(gram, molecules.energy, training, testing=testing, penalty=3e-4)
            own.append(np.mean(np.abs(found)))
        errors.append(np.mean(own))
    assert errors[1] < 0.93 * errors[0]
