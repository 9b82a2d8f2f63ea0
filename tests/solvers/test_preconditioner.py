"""Preconditioned Embedding-SGD: the same algorithm in other coordinates, and how much sooner it arrives."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualembed as de
from dualembed import kernels, losses, problems, schedules, solvers, sources, spaces
from dualembed.checks import InputError
from dualembed.spaces.base import Layout

GAUSSIAN = kernels.Gaussian(0.5)
XS = np.linspace(-1, 1, 21)


def rows(count: int = 400, seed: int = 0, *, labels: bool = False) -> sources.Dataset:
    """x uniform on [-1, 1], z = x + noise, y = E[sin 3z | x] + noise; or y = ±1 with that as its logit, six times."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, count)
    mean = np.exp(-0.5 * (3 * 0.2) ** 2) * np.sin(3 * x)
    y = mean + 0.1 * rng.normal(size=count)
    if labels:
        y = np.where(rng.uniform(size=count) < 1 / (1 + np.exp(-6 * mean)), 1.0, -1.0)
    return sources.Dataset(x=x, y=y, z=x + 0.2 * rng.normal(size=count))


def powers(scale: float) -> spaces.Basis:
    """1, x, x², x³, each `scale` times smaller than the one before: badly scaled on purpose."""
    return spaces.Basis(lambda xs: (xs[:, :1] / scale) ** jnp.arange(4))


def saddle(data: sources.Dataset, primal: Any, dual: Any = None, **options: Any) -> de.Saddle:
    return de.Saddle(problems.Invariance(data, options.pop("loss", None) or losses.Square()), primal, dual or primal,
                     **options)  # fmt: skip


def sgd(steps: int = 300, rate: float = 1.0, batch: int = 20, **ridges: Any) -> solvers.EmbeddingSGD:
    return solvers.EmbeddingSGD(steps, batch, schedules.Constant(rate), preconditioner=solvers.Preconditioner(**ridges))


def seen_as_it_is(space: Any, dimension: int) -> spaces.Preconditioned:
    """A space in its own coordinates."""
    layout = Layout(jnp.zeros((1, dimension)), steps=1, batch=1, per_sample=1, capacity=1)
    features = space.feature_map(jax.random.key(0), layout)
    return spaces.Preconditioned(features, jnp.eye(features.size))


@pytest.mark.parametrize("penalty", [None, 0.05])
def test_in_a_spaces_own_coordinates_the_iterates_are_the_plain_ones(penalty: float | None) -> None:
    plain = solvers.EmbeddingSGD(200, 20, schedules.OffsetSqrt(1.0, 1.0))
    options = {"primal_penalty": penalty, "dual_penalty": penalty}
    space = powers(2.0)
    wanted = de.solve(3, saddle(rows(), space, **options), plain)
    same = saddle(rows(), seen_as_it_is(space, 1), seen_as_it_is(space, 2), **options)
    got = de.solve(3, same, plain)
    for pick in (lambda r: r.primal.weights, lambda r: r.last.primal.weights, lambda r: r.last.dual.function.weights):
        if penalty is None:
            np.testing.assert_array_equal(pick(got), pick(wanted))
        else:  # shrinkage is one multiplication there, and a subtraction here
            np.testing.assert_allclose(pick(got), pick(wanted), rtol=1e-4, atol=1e-6)


def test_a_step_in_new_coordinates_is_one_along_the_transform_and_its_transpose() -> None:
    rng = np.random.default_rng(0)
    transform = rng.normal(size=(4, 3))
    layout = Layout(jnp.zeros((5, 1)), steps=1, batch=5, per_sample=1, capacity=5)
    features = powers(2.0).feature_map(jax.random.key(0), layout)
    space = spaces.Preconditioned(features, jnp.asarray(transform))
    state = space.init(jax.random.key(0), layout)
    points, slopes = jnp.asarray(rng.normal(size=(5, 1, 1))), jnp.asarray(rng.normal(size=(5, 1)))
    theta = np.zeros(4)
    for number in range(3):
        update = spaces.Update(points, jnp.zeros((5, 1)), slopes, jnp.arange(5), jnp.asarray(number))
        state = space.descend(state, update, jnp.asarray(0.1), spaces.Regulariser(penalty=0.3))
        gradient = np.asarray(slopes)[:, 0] @ np.asarray(features(points[:, 0])) + 0.3 * theta
        theta = theta - 0.1 * transform @ transform.T @ gradient
    np.testing.assert_allclose(space.last(state).weights, theta, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(space.norm2(state), theta @ theta, rtol=1e-4)
    np.testing.assert_allclose(space.evaluate(state, points[:, 0]), features(points[:, 0]) @ theta, rtol=1e-4)


def test_penalties_keep_their_meaning_and_the_saddle_point_is_reached_far_sooner() -> None:
    data = rows()
    problem = saddle(data, powers(10.0), primal_penalty=1e-7, dual_penalty=1e-7)
    exact = np.asarray(de.solve(0, problem, solvers.ClosedForm(folds=1)).primal(XS))
    free = np.asarray(de.solve(0, saddle(data, powers(10.0)), solvers.ClosedForm(folds=1)).primal(XS))
    scale = np.sqrt(np.mean(exact**2))
    assert np.sqrt(np.mean((exact - free) ** 2)) > 0.2 * scale  # the penalties matter, so that they are seen

    def distances(solver: solvers.EmbeddingSGD) -> np.ndarray:
        """Of the averaged and the last f from the saddle point's, relative."""
        result = de.solve(0, problem, solver)
        found = np.asarray([each(XS) for each in (result.primal, result.last.primal)])
        return np.sqrt(np.mean((found - exact) ** 2, axis=1)) / scale

    batch = data.rows  # whole batches, so that nothing but the conditioning is in the way
    averaged, last = distances(sgd(300, 1.0, batch, primal_ridge=1e-6, dual_ridge=1e-9))
    assert averaged < 0.01
    assert last < 1e-4
    for rate in (0.3, 1.0):  # beyond 1.7 it diverges
        assert np.all(distances(solvers.EmbeddingSGD(300, batch, schedules.Constant(rate))) > 0.5)


@pytest.mark.parametrize("loss", [losses.Huber(0.3), losses.Logistic(), losses.Pinball(0.5), losses.Hinge()])
def test_other_losses_are_preconditioned_too(loss: losses.Loss) -> None:
    data = rows(2000, labels=isinstance(loss, (losses.Logistic, losses.Hinge)))
    problem = saddle(data, spaces.Fourier(kernels.Gaussian(1.5), size=64), loss=loss)
    found = de.solve(0, problem, sgd(3000, 1.0)).primal
    plain = de.solve(0, problem, solvers.EmbeddingSGD(3000, 20, schedules.Constant(1.0))).primal

    def risk(function: Any) -> float:
        draws = 0.2 * np.random.default_rng(1).normal(size=(200, 1)) + np.asarray(data.table["x"])[:300]
        means = np.asarray(function(draws.ravel())).reshape(draws.shape).mean(axis=0)
        return float(jnp.mean(loss.value(jnp.asarray(means), jnp.asarray(data.table["y"][:300]))))

    assert risk(found) < min(risk(plain) + 0.01, 0.8 * risk(lambda xs: np.zeros(len(xs))))


def test_features_of_any_scale_give_the_same_run() -> None:
    scaled = spaces.Basis(lambda xs: 100 * (xs[:, :1] / 1.5) ** jnp.arange(4))
    own, other = (np.asarray(de.solve(0, saddle(rows(), each), sgd()).primal(XS)) for each in (powers(1.5), scaled))
    assert np.max(np.abs(own)) > 0.3
    np.testing.assert_allclose(other, own, atol=2e-3)


def test_numbers_can_be_vmapped() -> None:
    data = rows(60)

    @jax.jit
    @jax.vmap
    def values(rate: jax.Array, ridge: jax.Array) -> jax.Array:
        return de.solve(0, saddle(data, powers(2.0)), sgd(50, rate, primal_ridge=ridge)).primal(jnp.asarray(XS))

    together = values(jnp.asarray([0.3, 1.0]), jnp.asarray([1e-2, 1e-3]))
    alone = de.solve(0, saddle(data, powers(2.0)), sgd(50, 1.0, primal_ridge=1e-3)).primal(XS)
    assert np.max(np.abs(together[0] - together[1])) > 0.05
    np.testing.assert_allclose(together[1], alone, atol=1e-2)  # under vmap matrices are decomposed in float32


def test_a_stream_can_be_preconditioned_and_loses_no_rows() -> None:
    columns = {name: np.asarray(column) for name, column in rows().table.items()}
    batches = ({name: column[start : start + 40] for name, column in columns.items()} for start in range(0, 400, 40))
    result = de.solve(0, saddle(sources.Stream(batches), spaces.Fourier(GAUSSIAN, size=32)), sgd(20, rows=100))
    assert result.steps == 20


def test_a_diverging_run_is_reported() -> None:
    with pytest.warns(solvers.DivergenceWarning, match=r"diverged at step \d+ of 2000: lower the step sizes"):
        result = de.solve(0, saddle(rows(), spaces.Fourier(GAUSSIAN, size=32)), sgd(2000, 1000.0))
    assert not result.finite
    assert np.all(np.isfinite(result.primal(XS)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: solvers.Preconditioner(rows=0), "rows must be a whole number of at least 1, not 0"),
        (lambda: solvers.Preconditioner(primal_ridge=0.0), "primal_ridge must be"),
        (lambda: solvers.Preconditioner(dual_ridge=-1.0), "dual_ridge must be"),
        (lambda: solvers.EmbeddingSGD(10, preconditioner=0.1), "preconditioner must be a Preconditioner, not 0.1"),
        (
            lambda: de.solve(0, saddle(rows(), powers(1.0), dual_radius=1.0), sgd()),
            "takes penalties, not dual_radius, .* use dual_penalty instead",
        ),
        (
            lambda: de.solve(0, saddle(rows(), spaces.Network(), powers(1.0)), sgd()),
            "fixed number of features, which Network is not; use fourier, nystrom or a basis as the primal",
        ),
        (lambda: de.solve(0, saddle(rows(), powers(1.0), spaces.RKHS(GAUSSIAN)), sgd()), "which RKHS is not"),
    ],
)
def test_what_cannot_be_preconditioned_is_refused_in_one_sentence(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        make()
    assert "\n" not in str(error.value)
