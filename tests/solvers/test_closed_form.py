"""Closed forms: the saddle point exactly, additive sums, averaged ridge paths, and no many-moment bias."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualembed as de
from dualembed import kernels, losses, problems, schedules, solvers, sources, spaces
from dualembed.linear import LinearFit, gather_moments
from dualembed.solvers import AveragedPaths
from dualembed.solvers.closed_form import feature_maps, solution_path

ROWS = 300


def table(rows: int = ROWS, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, rows)
    return {"x": x, "z": x + 0.3 * rng.normal(size=rows), "y": np.sin(3 * x) + 0.1 * rng.normal(size=rows)}


def saddle(primal: spaces.FunctionSpace, dual: spaces.FunctionSpace, **options: float) -> de.Saddle:
    return de.Saddle(problems.Invariance(sources.Dataset(**table())), primal, dual, **options)


GAUSSIAN = kernels.Gaussian(0.5)


SPACES = {
    "fourier": spaces.Fourier(GAUSSIAN, size=40),
    "pairs": spaces.Fourier(GAUSSIAN, size=40, pairs=True),
    "nystrom": spaces.Nystrom(GAUSSIAN, size=30),
    "basis": spaces.Basis(lambda x: jnp.concatenate([jnp.cos(k * x[:, :1]) for k in range(5)], axis=1)),
    "rkhs": spaces.RKHS(GAUSSIAN),
}


NAMES = list(SPACES)


# Every space in either role, with itself and with another.
PAIRS = [*zip(NAMES, NAMES, strict=True), *zip(NAMES, NAMES[1:] + NAMES[:1], strict=True)]


@pytest.mark.parametrize(("primal", "dual"), PAIRS)
def test_without_folds_the_duality_gap_is_zero(primal: str, dual: str) -> None:
    problem = saddle(SPACES[primal], SPACES[dual], primal_penalty=0.05, dual_penalty=0.02)
    result = de.solve(0, problem, solvers.ClosedForm(folds=1))
    gap = solvers.duality_gap(problem, result.primal, result.dual)
    assert abs(gap.value) < 2e-5 * max(1.0, gap.best_response_of_dual)  # weights are handed over in float32


def test_embedding_sgd_run_long_converges_to_it() -> None:
    problem = saddle(SPACES["basis"], SPACES["basis"], primal_penalty=0.05, dual_penalty=0.02)
    exact = de.solve(0, problem, solvers.ClosedForm(folds=1))
    xs = np.linspace(-1, 1, 40)
    errors = []
    for steps in (200, 20_000):
        run = de.solve(0, problem, solvers.EmbeddingSGD(steps, 30, schedules.OffsetSqrt(2.0, 1.0)))
        errors.append(np.linalg.norm(run.primal(xs) - exact.primal(xs)) / np.linalg.norm(exact.primal(xs)))
    assert errors[1] < 0.02
    assert errors[1] < 0.2 * errors[0]


def test_statistics_add_up_and_new_rows_update_a_fit_without_the_old_ones() -> None:
    problem = saddle(SPACES["fourier"], SPACES["nystrom"])
    maps = feature_maps(jax.random.key(0), problem)
    columns = table()
    old = {name: column[:200] for name, column in columns.items()}
    new = {name: column[200:] for name, column in columns.items()}
    whole = gather_moments(problem.problem, *maps, folds=2)
    halves = [gather_moments(problem.problem, *maps, sample=part, folds=2) for part in (old, new)]
    added = halves[0] + halves[1]
    np.testing.assert_allclose(whole.cross, added.cross, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(whole.count, added.count)
    np.testing.assert_allclose(solution_path(added, [0.1], [0.1])[0], solution_path(whole, [0.1], [0.1])[0], rtol=1e-9)


def test_statistics_are_the_sums_they_name() -> None:
    problem = saddle(SPACES["basis"], SPACES["basis"])
    maps = feature_maps(jax.random.key(0), problem)
    found = gather_moments(problem.problem, *maps)
    columns = table()
    psi, phi = (np.stack([np.cos(k * columns[name]) for k in range(5)], axis=1) for name in ("z", "x"))
    np.testing.assert_allclose(found.cross[0], phi.T @ psi, rtol=1e-12)
    np.testing.assert_allclose(found.dual[0], phi.T @ phi, rtol=1e-12)
    np.testing.assert_allclose(found.target[0, :, 0], phi.T @ columns["y"], rtol=1e-10)
    theta = np.arange(5.0)
    np.testing.assert_allclose(found.residual_variance(theta), np.mean((columns["y"] - psi @ theta) ** 2), rtol=1e-12)


@pytest.mark.parametrize("folds", [1, 4])
def test_a_path_is_made_of_its_solutions_and_those_of_the_normal_equations(folds: int) -> None:
    problem = saddle(SPACES["fourier"], SPACES["nystrom"])
    sums = gather_moments(problem.problem, *feature_maps(jax.random.key(0), problem), folds=folds)
    thetas, etas = solution_path(sums, [1e-3, 0.1, 1.0], [1e-4, 0.2])
    dual, cross, target = (each.sum(axis=0) for each in (sums.dual, sums.cross, sums.target[:, :, 0]))
    for i, dual_penalty in enumerate([1e-4, 0.2]):
        weight = np.linalg.inv(dual / ROWS + dual_penalty * np.eye(len(dual)))
        blocks = list(zip(sums.cross, sums.target[:, :, 0], sums.count, strict=True))
        chosen = [(j, k) for j in range(folds) for k in range(folds) if j != k or folds == 1]
        pairs = sum(blocks[j][2] * blocks[k][2] for j, k in chosen)
        normal = sum(blocks[j][0].T @ weight @ blocks[k][0] for j, k in chosen) / pairs
        right = sum(blocks[j][0].T @ weight @ blocks[k][1] for j, k in chosen) / pairs
        spectrum, basis = np.linalg.eigh((normal + normal.T) / 2)
        for k, penalty in enumerate([1e-3, 0.1, 1.0]):
            wanted = basis @ ((basis.T @ right) / (np.maximum(spectrum, 0) + penalty))
            np.testing.assert_allclose(thetas[i, k], wanted, rtol=1e-6, atol=1e-9)
            eta = weight @ (cross @ wanted - target) / ROWS
            np.testing.assert_allclose(etas[i, k], eta, rtol=1e-5, atol=1e-8)


def test_a_nearly_singular_dual_and_no_penalty_at_all_stay_finite() -> None:
    wide = spaces.Nystrom(kernels.Gaussian(5.0), size=100)  # a hundred nearly equal features
    result = de.solve(0, saddle(SPACES["basis"], wide), solvers.ClosedForm())
    assert result.finite
    assert np.max(np.abs(result.primal(np.linspace(-1, 1, 20)))) < 10


def confounded(seed: int, rows: int = 1000) -> dict[str, np.ndarray]:
    """x = 2z + confounder and y = x + 2 confounder: least squares is biased, the instrument z is not."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(-1, 1, rows)
    confounder = rng.normal(size=rows)
    x = 2 * z + confounder + 0.1 * rng.normal(size=rows)
    return {"x": x, "z": z, "y": x + 2 * confounder + 0.1 * rng.normal(size=rows)}


def test_the_cross_fold_form_removes_the_many_moment_bias() -> None:
    def linear(x: jax.Array) -> jax.Array:
        return x

    def cosines(z: jax.Array) -> jax.Array:
        return jnp.cos(jnp.arange(280) * jnp.pi * (z + 1) / 2)  # 280 functions of one instrument

    def terms(sample: dict[str, jax.Array]) -> problems.Terms:
        one = jnp.ones_like(sample["y"])
        return problems.Terms(sample["x"][:, None, None], one[:, None], 0 * one, sample["z"][:, None], sample["y"])

    slopes: dict[int, list[float]] = {1: [], 5: []}
    for seed in range(10):
        problem = problems.Moment(sources.Dataset(**confounded(seed)), terms)
        both = de.Saddle(problem, spaces.Basis(linear), spaces.Basis(cosines), dual_penalty=1e-6)
        for folds, found in slopes.items():
            found.append(float(de.solve(0, both, solvers.ClosedForm(folds=folds)).primal([1.0])[0]))
    assert np.mean(slopes[1]) > 1.15  # the bias is there to be removed
    assert abs(np.mean(slopes[5]) - 1.0) < 0.05


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: solvers.ClosedForm(folds=0), "folds must be a whole number"),
        (lambda: saddle(spaces.Network(), SPACES["basis"]), "needs a linear space, which Network is not"),
        (lambda: saddle(SPACES["basis"], SPACES["basis"], primal_radius=1.0), "penalties, not primal_radius"),
        (
            lambda: de.Saddle(
                problems.Invariance(sources.Dataset(**table()), losses.Huber(1.0)), SPACES["basis"], SPACES["basis"]
            ),
            "Huber loss has no closed form",
        ),
        (
            lambda: de.Saddle(
                problems.Invariance(sources.Simulator(lambda key: {"x": 0.0, "y": 0.0, "z": 0.0})),
                SPACES["basis"],
                SPACES["basis"],
            ),
            "not a finite data set",
        ),
    ],
)
def test_what_has_no_closed_form_is_named(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(de.InputError, match=words):
        de.solve(0, make(), solvers.ClosedForm())


def test_a_small_penalty_does_not_blow_up_what_folds_cannot_tell() -> None:
    rng = np.random.default_rng(0)
    states = rng.integers(0, 30, 200).astype(float)
    following = rng.integers(0, 30, 200).astype(float)
    data = sources.Dataset(state=states, reward=rng.normal(size=200), next_state=following)
    problem = problems.PolicyEvaluation(data, 0.9)
    for penalty in (None, 1e-8, 1e-6):
        saddle = de.Saddle(problem, spaces.Table(), spaces.Table(), primal_penalty=penalty)
        assert np.max(np.abs(de.solve(0, saddle, solvers.ClosedForm()).primal.weights)) < 20


DISCOUNT = 0.9


def chain(rows: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Transitions of a walk on a ring of five states, and their exact values."""
    rng = np.random.default_rng(seed)
    state = rng.integers(5, size=rows)
    following = (state + rng.choice([0, 1, 4], p=[0.2, 0.5, 0.3], size=rows)) % 5
    moves = 0.2 * np.eye(5) + 0.5 * np.roll(np.eye(5), 1, axis=1) + 0.3 * np.roll(np.eye(5), -1, axis=1)
    reward = np.array([1.0, 0.0, 0.0, 2.0, 0.0])
    data = de.sources.Dataset(state=state, next_state=following, reward=reward[state])
    return de.problems.PolicyEvaluation(data, DISCOUNT), np.linalg.solve(np.eye(5) - DISCOUNT * moves, reward)


def test_what_auto_records_gives_its_solution_again() -> None:
    problem, _ = chain(500)
    result = de.auto(3, problem)
    assert isinstance(result.record.solver, AveragedPaths)
    again = de.solve(3, result.record.saddle, result.record.solver)
    points = np.arange(5.0)[:, None]
    np.testing.assert_array_equal(result.primal(points), again.primal(points))
    np.testing.assert_array_equal(result.uncertainty.std(points), again.closed.std(points))


def test_values_of_a_table_of_states_and_their_errors_are_right() -> None:
    problem, exact = chain(5000)
    table = de.spaces.Table(np.arange(5.0)[:, None])
    result = de.solve(0, de.Saddle(problem, table, table), AveragedPaths())
    assert isinstance(result.closed, LinearFit)
    values, errors = result.closed.evaluate(np.arange(5.0)[:, None])
    assert np.all(np.abs(values - exact) < 4 * errors)
    assert np.abs(values - exact).max() < 0.3


def test_an_estimator_takes_it_with_a_space_of_ones_own() -> None:
    rng = np.random.default_rng(0)
    state = rng.normal(size=600)
    following = 0.5 * state + rng.normal(size=600)
    given: dict[str, Any] = {"primal": de.spaces.Affine(), "solver": AveragedPaths()}
    model = de.PolicyEvaluator(DISCOUNT, **given).fit(state, state, following, episodes=np.arange(600) // 10)
    low, high = model.ask(model.difference([1.0], [0.0])).interval(0.999)
    assert low < 1 / (1 - 0.5 * DISCOUNT) < high
    default = de.PolicyEvaluator(DISCOUNT).fit(state, state, following)
    same = de.PolicyEvaluator(DISCOUNT, solver=AveragedPaths()).fit(state, state, following)
    np.testing.assert_array_equal(default.predict(state), same.predict(state))


def test_what_it_cannot_solve_is_refused_in_a_sentence() -> None:
    problem, _ = chain(50)
    space = de.spaces.Affine()
    rng = np.random.default_rng(0)
    other = de.problems.InstrumentalVariables(
        de.sources.Dataset(**dict(zip("xyz", rng.normal(size=(3, 50)), strict=True)))
    )
    logistic = de.problems.PolicyEvaluation(problem.source, DISCOUNT, loss=de.losses.Huber(1.0))
    grows = de.spaces.RKHS(de.kernels.Gaussian(1.0))
    for saddle, words in (
        (de.Saddle(other, space, space), "as in transitions"),
        (de.Saddle(logistic, space, space), "for the square loss, not Huber"),
        (de.Saddle(problem, space, space, primal_penalty=0.1), "leave out primal_penalty"),
        (de.Saddle(problem, grows, space), "need a linear space, not RKHS"),
    ):
        with pytest.raises(de.InputError, match=words):
            de.solve(0, saddle, AveragedPaths())
    with pytest.raises(de.InputError, match="as in transitions"):
        de.auto(0, other, solver=AveragedPaths())
