"""The two-step rival is the minimiser it says, with penalties by the cross-validation it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from dualembed import kernels, losses
from dualembed.baselines import ConditionalEmbeddingTwoStep, conditional_embedding
from dualembed.baselines.conditional_embedding import median_kernel
from dualembed.checks import InputError
from dualembed.embeddings import ConditionalEmbedding
from dualembed.kernels import Gaussian, MeanOverDraws
from dualembed.solvers import Result

ON_X, ON_Z = Gaussian(0.6), Gaussian(0.8)


def noisy(rows: int, seed: int = 0, draws: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y = E[sin(2 z) | x] + noise, z = x + 0.5 noise, whose mean sin is exp(-1/2) sin(2 x)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.5, 1.5, rows)
    z = x[:, None] + 0.5 * rng.normal(size=(rows, draws or 1))
    y = np.exp(-0.5) * np.sin(2 * x) + 0.1 * rng.normal(size=rows)
    return x, y, z[:, :, None] if draws else z


def rival(**options: Any) -> ConditionalEmbeddingTwoStep:
    return ConditionalEmbeddingTwoStep(ON_Z, ON_X, **options)


def fitted(x: Any, y: Any, z: Any, **options: Any) -> Result:
    return rival(**options).fit(context=x, target=y, draws=z)


def test_samples_are_given_by_name_since_their_letters_mean_the_opposite_elsewhere() -> None:
    with pytest.raises(TypeError, match="positional"):
        rival().fit(*noisy(20))


def test_a_given_penalty_needs_no_rows_for_cross_validation() -> None:
    result = fitted(*noisy(8), penalty=1e-3, embedding_penalty=1e-2)
    assert np.ptp(np.asarray(result.primal([-1.0, 1.0]))) > 0.1


@pytest.mark.parametrize("draws", [None, 3])
def test_the_square_loss_is_solved_by_the_textbook_formula(draws: int | None) -> None:
    x, y, z = noisy(50, draws=draws)
    result = rival(penalty=1e-3, embedding_penalty=1e-2).fit(context=x, target=y, draws=z)
    beta = ConditionalEmbedding.fit(ON_X, x, x, 1e-2).weights(x)  # which depend on x alone
    kernel, rows = MeanOverDraws(ON_Z, 1), z.reshape(50, -1)
    gram = kernel.gram(rows, rows)
    alpha = beta.T @ np.linalg.solve(beta @ gram @ beta.T + 50 * 1e-3 * np.eye(50), y)
    queries = np.linspace(-1.5, 1.5, 9)
    np.testing.assert_allclose(
        result.primal(queries), kernel.gram(queries[:, None], rows) @ alpha, rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(result.dual.function(x), beta @ gram @ alpha, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(result.dual(x, y), beta @ gram @ alpha - y, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Huber(0.2), losses.SmoothedHinge(0.5)])
def test_other_smooth_losses_are_minimised(loss: losses.Loss) -> None:
    x, y, z = noisy(40)
    y = y if isinstance(loss, losses.Huber) else np.where(y > 0, 1.0, -1.0)
    result = rival(loss=loss, penalty=1e-2, embedding_penalty=1e-2).fit(context=x, target=y, draws=z)
    beta = ConditionalEmbedding.fit(ON_X, x, z, 1e-2).weights(x)
    values, vectors = np.linalg.eigh(ON_Z.gram(z, z))
    root = vectors[:, values > 1e-12] * np.sqrt(values[values > 1e-12])
    design = beta @ root

    with jax.enable_x64(True):

        def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
            v = jnp.asarray(design @ w)
            value = np.mean(loss.value(v, jnp.asarray(y))) + 5e-3 * w @ w
            return float(value), design.T @ np.asarray(loss.slope(v, jnp.asarray(y))) / 40 + 1e-2 * w

        found = minimize(objective, np.zeros(root.shape[1]), jac=True, method="L-BFGS-B", options={"gtol": 1e-10})
    assert np.linalg.norm(found.x) > 0.1
    np.testing.assert_allclose(result.primal(z), root @ found.x, atol=1e-4 * np.max(np.abs(root @ found.x)))


def test_the_penalty_of_the_embedding_has_the_least_leave_one_out_error_in_the_space_of_f() -> None:
    x, y, z = noisy(60, seed=1)
    chosen = rival(penalty=1e-2).fit(context=x, target=y, draws=z).record["embedding_penalty"]
    gram = ON_Z.gram(z, z)

    def error(penalty: float) -> float:
        total = 0.0
        for i in range(60):
            rest = np.delete(np.arange(60), i)
            beta = ConditionalEmbedding.fit(ON_X, x[rest], z[rest], penalty * 60 / 59).weights(x[i : i + 1])[0]
            total += gram[i, i] - 2 * beta @ gram[rest, i] + beta @ gram[np.ix_(rest, rest)] @ beta
        return total

    assert 1e-8 < chosen < 1
    assert error(chosen) < min(error(chosen * 10 ** (1 / 3)), error(chosen / 10 ** (1 / 3)))  # its neighbours


@pytest.mark.parametrize("loss", [losses.Square(), losses.Huber(0.1)])
def test_the_penalty_of_f_has_the_least_loss_of_held_out_targets_at_held_out_draws(
    loss: losses.Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    penalties = np.array([1.0, 1e-2, 1e-4, 1e-6])
    monkeypatch.setattr(conditional_embedding, "PENALTIES", penalties)
    x, y, z = noisy(60, seed=1)
    chosen = rival(loss=loss, folds=3, embedding_penalty=1e-2).fit(context=x, target=y, draws=z).record["penalty"]
    errors = np.zeros(4)
    for held in np.array_split(np.random.default_rng(0).permutation(60), 3):
        kept = np.setdiff1d(np.arange(60), held)
        for j, penalty in enumerate(penalties):
            f = (
                rival(loss=loss, penalty=penalty, embedding_penalty=1e-2)
                .fit(context=x[kept], target=y[kept], draws=z[kept])
                .primal
            )
            for i in held:
                rest = np.setdiff1d(held, [i])
                embedded = ConditionalEmbedding.fit(ON_X, x[rest], z[rest], 1e-2 * 20 / 19)
                predicted = embedded.expectation(np.asarray(f(z[rest])), x[i : i + 1])
                errors[j] += float(loss.value(jnp.asarray(predicted[0]), jnp.asarray(y[i])))
    assert chosen == penalties[np.argmin(errors)]
    assert np.ptp(errors) > 0.1 * np.min(errors)


def test_it_undoes_the_noise_of_the_inputs_that_regression_on_them_keeps() -> None:
    x, y, z = noisy(400, seed=2)
    queries = np.linspace(-1.2, 1.2, 25)
    truth = np.sin(2 * queries)
    f = ConditionalEmbeddingTwoStep().fit(context=x, target=y, draws=z).primal
    plain = ConditionalEmbedding.fit(median_kernel(z), z, y).expectation(y, queries)
    found = np.mean((np.asarray(f(queries)) - truth) ** 2)
    assert found < 0.04  # of a mean square of about 0.5
    assert found < 0.25 * np.mean((plain - truth) ** 2)


def test_given_the_instrument_as_context_it_removes_confounding() -> None:
    instrument, hidden = np.random.default_rng(3).normal(size=(2, 500))
    treatment = instrument + 0.7 * hidden
    y = np.sin(treatment) + hidden
    queries = np.linspace(-1.5, 1.5, 20)
    f = np.asarray(ConditionalEmbeddingTwoStep().fit(context=instrument, target=y, draws=treatment).primal(queries))
    plain = ConditionalEmbedding.fit(median_kernel(treatment[:, None]), treatment, y).expectation(y, queries)
    error, naive = (np.mean((each - each.mean() - np.sin(queries)) ** 2) for each in (f, plain))
    assert error < 0.3 * naive


def test_beyond_the_cap_landmarks_come_close_to_the_exact_answer() -> None:
    x, y, z = noisy(300, seed=4)
    options = {"penalty": 1e-3, "embedding_penalty": 1e-3}
    queries = np.linspace(-1.5, 1.5, 20)
    exact = np.asarray(rival(**options).fit(context=x, target=y, draws=z).primal(queries))
    low = rival(cap=100, size=40, **options).fit(context=x, target=y, draws=z)
    assert low.primal.features.size == 40
    np.testing.assert_allclose(low.primal(queries), exact, atol=0.02 * np.max(np.abs(exact)))


def test_the_default_kernel_does_not_mind_a_constant_column_or_units() -> None:
    points = np.random.default_rng(5).normal(size=(30, 2))
    wide = np.concatenate([points * [1.0, 1000.0], np.ones((30, 1))], axis=1)
    kernel = median_kernel(wide)
    standard = points / points.std(axis=0)
    wanted = Gaussian(kernels.median_bandwidth(standard)).gram(standard, standard)
    np.testing.assert_allclose(kernel.gram(wide, wide), wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rival(penalty=0.0), "penalty must be positive"),
        (lambda: rival(loss=losses.Hinge()), "Hinge loss has kinks"),
        (lambda: rival(penalty=[1.0, 2.0]), r"penalty must be one number.*\(2,\)$"),
        (lambda: rival(seed=-1), "seed must be a whole number"),
        (lambda: rival(folds=1), "folds must be a whole number of at least 2"),
        (lambda: ConditionalEmbeddingTwoStep("rbf"), "kernel must be a Kernel"),
        (lambda: fitted([1.0, 2.0], [1.0], [1.0, 2.0]), "equally many rows"),
        (lambda: fitted([1.0, 2.0], [1.0, 2.0], [1.0, 2.0]), "5-fold cross-validation needs at least 10 rows"),
        (lambda: fitted(*noisy(10), loss=losses.Logistic()), "targets -1 or \\+1"),
        (lambda: fitted([np.nan] * 6, [1.0] * 6, [1.0] * 6), "NaN"),
    ],
)
def test_what_cannot_be_fitted_is_named(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()
