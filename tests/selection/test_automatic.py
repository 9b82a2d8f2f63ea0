"""A model chosen from the data alone: close to a known truth, honest about it, and indifferent to units and copies."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualembed as de
from benchmarks import iv_designs
from dualembed import kernels, losses, problems, solvers, sources, spaces
from dualembed.selection import auto
from dualembed.spaces.features import evaluate_features, to_numpy

SEEDS = (0, 1)
DESIGNS = {seed: iv_designs.one_dimensional("sin", 2000, seed) for seed in SEEDS}


def fitted(x: np.ndarray, y: np.ndarray, z: np.ndarray, key: int = 0) -> solvers.Result:
    return auto(key, problems.InstrumentalVariables(sources.Dataset(x=x, y=y, z=z)))


def error(result: solvers.Result, seed: int = 0) -> float:
    design = DESIGNS[seed]
    return float(np.mean((np.asarray(result.primal(design.test_x)) - design.test_f) ** 2))


@pytest.fixture(scope="module")
def fits() -> dict[int, solvers.Result]:
    return {seed: fitted(design.x, design.y, design.z) for seed, design in DESIGNS.items()}


@pytest.mark.parametrize("seed", SEEDS)
def test_an_instrument_finds_the_curve(seed: int, fits: dict[int, solvers.Result]) -> None:
    assert fits[seed].finite
    assert error(fits[seed], seed) < 0.03


def test_plain_regression_is_several_times_as_far_off(fits: dict[int, solvers.Result]) -> None:
    design = DESIGNS[0]
    assert error(fitted(design.x, design.y, design.x)) > 5 * error(fits[0])


def test_intervals_cover_the_truth_about_as_often_as_they_say(fits: dict[int, solvers.Result]) -> None:
    shares = []
    for seed, result in fits.items():
        lower, upper = result.uncertainty.interval(DESIGNS[seed].test_x)
        shares.append(np.mean((lower <= DESIGNS[seed].test_f) & (DESIGNS[seed].test_f <= upper)))
        typical = np.median(upper - lower)
        assert 0.05 < typical < 1.0  # neither empty nor idle: the truth has a spread of about one third
    assert 0.8 <= np.mean(shares) <= 1.0


@pytest.mark.parametrize("seed", SEEDS)
def test_that_the_kernel_was_estimated_widens_errors_and_leaves_the_function(
    seed: int, fits: dict[int, solvers.Result]
) -> None:
    result, xs = fits[seed], DESIGNS[seed].test_x
    sure = dataclasses.replace(result, closed=dataclasses.replace(result.closed, prior=None))
    known = solvers.standard_errors(result.record.saddle, sure)
    ratio = result.uncertainty.std(xs) / known.std(xs)
    assert 1.02 < np.mean(ratio) < 2.0
    np.testing.assert_array_equal(result.uncertainty.weights, known.weights)


def states(s: np.ndarray) -> np.ndarray:
    """The state, a copy of it, and a constant."""
    return np.stack([s, s, np.full_like(s, 3.0)], axis=1)


@pytest.fixture(scope="module")
def chain() -> solvers.Result:
    """s' = s/2 + noise and r = s, whose value at discount 0.8 is V(s) = s / 0.6."""
    rng = np.random.default_rng(1)
    state = rng.normal(size=1000)
    following = 0.5 * state + np.sqrt(0.75) * rng.normal(size=1000)
    source = sources.Dataset(state=states(state), reward=state, next_state=states(following))
    return auto(0, problems.PolicyEvaluation(source, 0.8))


def test_the_linear_value_of_a_gaussian_chain_is_found_among_constant_and_copied_columns(chain: solvers.Result) -> None:
    grid = np.linspace(-2, 2, 41)
    truth = grid / 0.6
    assert chain.finite
    assert np.max(np.abs(np.asarray(chain.primal(states(grid))) - truth)) < 0.4
    lower, upper = chain.uncertainty.interval(states(grid))
    assert np.mean((lower <= truth) & (truth <= upper)) > 0.8


def test_units_of_points_contexts_and_targets_do_not_matter(fits: dict[int, solvers.Result]) -> None:
    design, plain = DESIGNS[0], fits[0]
    f, std = np.asarray(plain.primal(design.test_x)), plain.uncertainty.std(design.test_x)
    scaled = fitted(1000 * design.x, 50 * design.y, 1e-3 * design.z)
    # L-BFGS stops at a relative 1e-6 of the evidence, where hyper-parameters still differ by some thousandths.
    found = np.asarray(scaled.primal(1000 * design.test_x)) / 50
    assert np.max(np.abs(found - f)) < 5e-3 * np.max(np.abs(f))
    np.testing.assert_allclose(scaled.uncertainty.std(1000 * design.test_x) / 50, std, rtol=0.01)


@pytest.fixture(scope="module")
def shifted() -> solvers.Result:
    design = DESIGNS[0]
    return fitted(design.x, design.y + 5, design.z)


def test_a_shift_of_the_target_leaves_the_error_as_small(shifted: solvers.Result) -> None:
    design = DESIGNS[0]
    found = np.asarray(shifted.primal(design.test_x)) - 5
    assert np.mean((found - design.test_f) ** 2) < 0.03


def test_a_shift_of_the_target_shifts_the_function(shifted: solvers.Result, fits: dict[int, solvers.Result]) -> None:
    """Not exactly, since the level has a prior of finite variance, but by a small part of the standard error."""
    design = DESIGNS[0]
    f = np.asarray(fits[0].primal(design.test_x))
    found = np.asarray(shifted.primal(design.test_x)) - 5
    assert np.max(np.abs(found - f) / fits[0].uncertainty.std(design.test_x)) < 0.2


def test_the_key_decides_everything(fits: dict[int, solvers.Result]) -> None:
    design = DESIGNS[0]
    again = fitted(design.x, design.y, design.z)
    assert np.array_equal(again.primal(design.test_x), fits[0].primal(design.test_x))
    assert str(again.record) == str(fits[0].record)


def test_the_record_can_be_read(fits: dict[int, solvers.Result]) -> None:
    record = fits[0].record
    lines = str(record).split("\n")
    assert len(lines) == len(record.steps)
    questions = [step.question for step in record.steps]
    assert {"dual", "f", "residual variance", "noise of moments"} <= set(questions)
    for step, line in zip(record.steps, lines, strict=True):
        assert line.startswith(f"{step.question}: {step.answer}")
        assert "array" not in line
        assert np.all(np.isfinite(list(step.numbers.values())))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_records_saddle_solved_anew_is_the_same_function(seed: int, fits: dict[int, solvers.Result]) -> None:
    result = fits[seed]
    again = de.solve(3, result.record.saddle, result.record.solver)
    xs, zs = DESIGNS[seed].test_x, DESIGNS[seed].z[:200]
    np.testing.assert_allclose(again.primal(xs), result.primal(xs), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(again.dual(zs), result.dual(zs), rtol=1e-5, atol=1e-6)


def test_constant_and_copied_instruments_do_no_harm() -> None:
    design = DESIGNS[0]
    result = fitted(design.x, design.y, states(design.z[:, 0]))
    assert result.finite
    assert error(result) < 0.03


def test_a_target_of_zero_is_the_zero_function() -> None:
    design = DESIGNS[0]
    result = fitted(design.x, np.zeros(2000), design.z)
    assert np.max(np.abs(np.asarray(result.primal(design.test_x)))) < 1e-6


def test_too_few_rows_and_endless_sources_are_refused_in_one_sentence() -> None:
    design = DESIGNS[0]
    endless = sources.Simulator(lambda key: {"x": 0.0, "y": 0.0, "z": 0.0})
    with pytest.raises(de.InputError, match="needs at least 5 rows, not 4 samples; give more") as few:
        fitted(design.x[:4], design.y[:4], design.z[:4])
    with pytest.raises(de.InputError, match=r"on a finite data set; use sources\.Dataset") as stream:
        auto(0, problems.InstrumentalVariables(endless))
    assert all("\n" not in str(refusal.value) for refusal in (few, stream))


def test_closed_forms_are_evaluated_in_double_precision() -> None:
    # A smooth kernel's spectrum falls so fast that an unpenalised fit of |x| has huge weights that cancel.
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 400)
    source = sources.Dataset(x=x, y=np.abs(x) + 0.01 * rng.normal(size=400), z=x)
    space = spaces.Nystrom(kernels.Gaussian(1.0), size=60)
    saddle = de.Saddle(problems.InstrumentalVariables(source), space, space, primal_penalty=1e-11)
    result = de.solve(0, saddle, solvers.ClosedForm(folds=1))
    function = result.primal
    assert isinstance(function, spaces.linear.LinearFunction)
    wanted = evaluate_features(to_numpy(function.features), x[:, None]) @ function.weights
    scale = np.max(np.abs(wanted))
    assert np.max(np.abs(function.weights)) > 500 * scale
    assert np.max(np.abs(np.asarray(function(x)) - wanted)) < 1e-6 * scale
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32) if hasattr(leaf, "dtype") else leaf, function)
    assert np.max(np.abs(np.asarray(single(x)) - wanted)) > 0.01 * scale  # what float32 would have made of it


@pytest.mark.slow
def test_labels_give_log_odds_and_outliers_do_little_harm_to_a_huber_loss() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 1500)
    z = x + 0.3 * rng.normal(size=1500)
    grid = np.linspace(-1.8, 1.8, 50)
    mean = np.exp(-0.18) * np.sin(2 * x)  # E[sin 2z | x]

    def error(y: np.ndarray, loss: losses.Loss, truth: np.ndarray) -> float:
        data = sources.Dataset(x=x, y=y, z=z)
        f = np.asarray(auto(0, problems.Invariance(data, loss)).primal(grid))
        return float(np.sqrt(np.mean((f - truth) ** 2) / np.mean(truth**2)))

    labels = np.where(rng.uniform(size=1500) < 1 / (1 + np.exp(-2.5 * mean)), 1.0, -1.0)
    assert error(labels, losses.Logistic(), 2.5 * np.sin(2 * grid)) < 0.4
    spoilt = mean + 0.2 * rng.normal(size=1500) + 20.0 * (rng.uniform(size=1500) < 0.05)
    assert error(spoilt, losses.Huber(0.5), np.sin(2 * grid)) < 0.2
    assert error(spoilt, losses.Square(), np.sin(2 * grid)) > 0.5


def test_a_loss_with_kinks_is_refused_in_one_sentence() -> None:
    x = np.linspace(-1, 1, 60)
    data = sources.Dataset(x=x, y=np.sign(x + 0.01), z=x)
    with pytest.raises(de.InputError, match="Newton's method needs a smooth loss"):
        auto(0, problems.Invariance(data, losses.Hinge()))
