"""The case without conditioning: f is asked for its mean alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dualembed as de
from dualembed.baselines import SCGD
from dualembed.problems import Unconditional
from dualembed.solvers import ClosedForm, EmbeddingSGD, Newton
from dualembed.sources import Dataset
from dualembed.spaces import Basis

RNG = np.random.default_rng(0)
DATA = Dataset(y=RNG.normal(1.5, 1.0, 4000), z=RNG.uniform(0, 1, 4000))
LABELS = Dataset(y=np.where(RNG.uniform(size=4000) < 0.8, 1.0, -1.0), z=RNG.uniform(0, 1, 4000))


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
    problem = Unconditional(LABELS, de.losses.Logistic())
    result = de.solve(0, de.Saddle(problem, Basis(line), labels, primal_penalty=1e-6, dual_penalty=1e-6), Newton())
    share = float(np.mean(LABELS.table["y"] > 0))
    mean = float(result.primal([1.0])[0]) * float(LABELS.table["z"].mean())
    assert mean == pytest.approx(np.log(share / (1 - share)), rel=0.03)


def test_compositional_sgd_takes_the_target_for_a_context_of_the_logistic_loss() -> None:
    """The dual of a logistic loss depends on y, so that y is the context; the mean it tracks does not depend on it."""
    saddle = de.Saddle(Unconditional(LABELS, de.losses.Logistic()), Basis(line), Basis(constant))
    assert de.solve(0, saddle, SCGD(20, 20)).finite
