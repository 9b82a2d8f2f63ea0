"""Regression on a mean of f: with instruments, over variations of the input, and without conditioning."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualembed as de
from dualembed import losses, samplers
from dualembed.baselines import SCGD
from dualembed.problems import InstrumentalVariables, Invariance, Unconditional
from dualembed.solvers import ClosedForm, EmbeddingSGD, Newton
from dualembed.sources import Dataset
from dualembed.spaces import Basis, Fourier

RNG = np.random.default_rng(0)
DATA = Dataset(y=RNG.normal(1.5, 1.0, 4000), z=RNG.uniform(0, 1, 4000))
LABELS = Dataset(y=np.where(RNG.uniform(size=4000) < 0.8, 1.0, -1.0), z=RNG.uniform(0, 1, 4000))


def test_instruments_are_the_context_and_the_outcome_joins_them_unless_the_loss_is_square() -> None:
    source = Dataset(x=[[1.0, 5.0], [2.0, 6.0]], y=[1.0, -1.0], z=[[3.0, 5.0], [4.0, 6.0]])
    terms = InstrumentalVariables(source).terms(source.columns)
    terms.check()
    np.testing.assert_array_equal(terms.points, [[[1, 5]], [[2, 6]]])
    np.testing.assert_array_equal(terms.weights, [[1], [1]])
    np.testing.assert_array_equal(terms.offset, [0, 0])
    np.testing.assert_array_equal(terms.context, [[3, 5], [4, 6]])
    np.testing.assert_array_equal(terms.target, [1, -1])
    other = InstrumentalVariables(source, losses.Logistic()).terms(source.columns)
    np.testing.assert_array_equal(other.context, [[3, 5, 1], [4, 6, -1]])


def test_bad_instruments_are_refused_at_the_entrance() -> None:
    with pytest.raises(de.InputError, match="z missing"):
        InstrumentalVariables(Dataset(x=[1.0], y=[1.0]))
    with pytest.raises(de.InputError, match="y must have shape"):
        InstrumentalVariables(Dataset(x=[1.0], y=[[1.0]], z=[1.0]))


def discs(rows: int, widest: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(points, labels): inside or outside the unit circle, at angles up to the widest."""
    rng = np.random.default_rng(seed)
    label = np.where(rng.uniform(size=rows) < 0.5, 1.0, -1.0)
    radius = np.where(label > 0, rng.uniform(0.2, 0.8, rows), rng.uniform(1.2, 1.8, rows))
    angle = rng.uniform(0, widest, rows)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), label


def test_rotations_teach_a_classifier_angles_it_has_never_seen() -> None:
    x, y = discs(400, np.pi / 4, seed=0)
    fresh, labels = discs(400, 2 * np.pi, seed=1)
    rotation = samplers.Rotation2D()
    source = samplers.resampled(Dataset(x=x, y=y), rotation)
    space = Fourier(de.kernels.Gaussian(0.5), 128)
    solver = EmbeddingSGD(1500, 40, de.schedules.OffsetSqrt(20.0, 10.0))
    result = de.solve(0, de.Saddle(Invariance(source, losses.Logistic()), space, space), solver)
    turned = samplers.draws(jax.random.key(2), rotation, fresh, 16)
    scores = np.asarray(result.primal(turned.reshape(-1, 2))).reshape(len(fresh), -1).mean(axis=1)
    assert np.mean(np.sign(scores) == labels) > 0.98
    # Without rotations the angles that were never seen stay a guess.
    plain = de.solve(0, de.Saddle(Invariance(Dataset(x=x, y=y, z=x), losses.Logistic()), space, space), solver)
    assert np.mean(np.sign(np.asarray(plain.primal(fresh))) == labels) < 0.9


def line(x: jax.Array) -> jax.Array:
    return x


def constant(x: jax.Array) -> jax.Array:
    return jnp.ones((len(x), 1), x.dtype)


def test_closed_form_gives_f_the_mean_of_y() -> None:
    result = de.solve(0, de.Saddle(Unconditional(DATA), Basis(line), Basis(constant)), ClosedForm(folds=1))
    slope = float(DATA.table["y"].mean() / DATA.table["z"].mean())
    np.testing.assert_allclose(result.primal.weights, [slope], rtol=1e-9)


def test_embedding_sgd_and_compositional_sgd_agree_with_the_closed_form() -> None:
    saddle = de.Saddle(Unconditional(DATA), Basis(line), Basis(constant))
    slope = float(DATA.table["y"].mean() / DATA.table["z"].mean())
    ours = de.solve(0, saddle, EmbeddingSGD(4000, 20, de.schedules.OffsetSqrt(5.0, 10.0)))
    theirs = de.solve(0, saddle, SCGD(4000, 20, de.schedules.Power(1.0, 0.75), de.schedules.Power(1.0, 0.5)))
    assert float(ours.primal([1.0])[0]) == pytest.approx(slope, rel=0.03)
    assert float(theirs.last.primal([1.0])[0]) == pytest.approx(slope, rel=0.03)


def test_logistic_loss_finds_the_log_odds() -> None:
    labels = Basis(lambda y: jnp.concatenate([jnp.ones_like(y), y], axis=1))
    problem = Unconditional(LABELS, losses.Logistic())
    result = de.solve(0, de.Saddle(problem, Basis(line), labels, primal_penalty=1e-6, dual_penalty=1e-6), Newton())
    share = float(np.mean(LABELS.table["y"] > 0))
    mean = float(result.primal([1.0])[0]) * float(LABELS.table["z"].mean())
    assert mean == pytest.approx(np.log(share / (1 - share)), rel=0.03)


def test_compositional_sgd_takes_the_target_for_a_context_of_the_logistic_loss() -> None:
    """The dual of a logistic loss depends on y, so that y is the context; the mean it tracks does not depend on it."""
    saddle = de.Saddle(Unconditional(LABELS, losses.Logistic()), Basis(line), Basis(constant))
    assert de.solve(0, saddle, SCGD(20, 20)).finite
