"""Invariance and robust learning: y is explained by the average of f over variations z ~ p(z | x) of the input."""

from __future__ import annotations

import equinox as eqx

from dualembed.losses import Loss, Square
from dualembed.problems.base import Problem, Terms, columns_of, library, require, vector_of
from dualembed.sources import Sample, Source


class Invariance(Problem):
    """min over f of E[loss_y(E[f(z) | x])], from samples with columns x, y and z.

    x (B,) or (B, dx); y (B,); z one draw for each x, (B,) or (B, dz), or M draws, (B, M, dz).
    The context is (x, y), y last: it determines what the dual variable may depend on.
    """

    source: Source
    loss: Loss = eqx.field(default_factory=Square)

    def terms(self, sample: Sample) -> Terms:
        """Points z_1..z_M with weights 1/M, context (x, y), target y."""
        require("an invariance problem", sample, "x", "y", "z")
        xp, target = library(sample), vector_of("y", sample["y"])
        draws = sample["z"] if sample["z"].ndim == 3 else columns_of("z", sample["z"])[:, None, :]
        return Terms(
            points=draws,
            weights=xp.full(draws.shape[:2], 1.0 / draws.shape[1], dtype=draws.dtype),
            offset=xp.zeros_like(target),
            context=xp.concatenate([columns_of("x", sample["x"]), target[:, None]], axis=1),
            target=target,
            known=(False,) * draws.shape[1],
        )
