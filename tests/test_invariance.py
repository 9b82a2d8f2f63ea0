"""Invariance as an application: classes that do not change under rotation, learnt from inputs seen at few angles."""

from __future__ import annotations

import jax
import numpy as np

import dualembed as de
from dualembed import samplers
from dualembed.problems import Invariance
from dualembed.solvers import EmbeddingSGD
from dualembed.sources import Dataset
from dualembed.spaces import Fourier


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
    result = de.solve(0, de.Saddle(Invariance(source, de.losses.Logistic()), space, space), solver)
    turned = samplers.draws(jax.random.key(2), rotation, fresh, 16)
    scores = np.asarray(result.primal(turned.reshape(-1, 2))).reshape(len(fresh), -1).mean(axis=1)
    assert np.mean(np.sign(scores) == labels) > 0.98
    # Without rotations the angles that were never seen stay a guess.
    plain = de.solve(0, de.Saddle(Invariance(Dataset(x=x, y=y, z=x), de.losses.Logistic()), space, space), solver)
    assert np.mean(np.sign(np.asarray(plain.primal(fresh))) == labels) < 0.9
