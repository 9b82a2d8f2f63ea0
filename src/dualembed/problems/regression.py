"""Regression on a mean of f: with instruments, over variations of the input, or with nothing to condition on."""

from __future__ import annotations

import equinox as eqx

from dualembed.losses import Loss, Square
from dualembed.problems.base import Problem, Terms, checked_columns, columns_of, library, mass_of, require, vector_of
from dualembed.sources import Sample, Source


class InstrumentalVariables(Problem):
    """Regression with instruments: min over f of E[loss_y(E[f(x) | context])].

    Columns are x (B,) or (B, dx), the treatment with any exogenous controls that f takes; y (B,); z (B,) or (B, dz),
    the instruments with the same controls again; and mass (B,), where rows do not count alike.

    For the square loss only E[y | z] matters, so z alone is the context: E[f(x) - y | z] = 0. For any other
    loss the dual variable loss'_y(E[f(x) | z, y]) depends on y by itself, and a context without y would be
    another objective (for the logistic loss one solved by u = 0); y is then the last column of the context.

    Parameters
    ----------
    source : Source
        Samples with the columns above.
    loss : Loss, default=Square()
        The loss of the conditional mean of f.

    Examples
    --------
    >>> from dualembed.sources import Dataset
    >>> data = Dataset(x=[0.0, 1.0], z=[0.1, 0.9], y=[1.0, 2.0])
    >>> InstrumentalVariables(data).terms(data.columns).context.shape
    (2, 1)
    """

    source: Source
    loss: Loss = eqx.field(default_factory=Square)

    def __check_init__(self) -> None:
        checked_columns(self, "x=..., y=..., z=...")

    def terms(self, sample: Sample) -> Terms:
        """Point x with weight 1, offset 0, context z (or (z, y)), target y."""
        require("an instrumental-variables problem (for plain regression give x as z too)", sample, "x", "y", "z")
        xp, target = library(sample), vector_of("y", sample["y"])
        instruments = columns_of("z", sample["z"])
        if not self.loss.quadratic:
            instruments = xp.concatenate([instruments, target[:, None]], axis=1)
        return Terms(
            points=columns_of("x", sample["x"])[:, None, :],
            weights=xp.ones_like(target)[:, None],
            offset=xp.zeros_like(target),
            context=instruments,
            target=target,
            known=(False,),
            mass=mass_of(sample),
        )


class Invariance(Problem):
    """Regression on a mean over draws: min over f of E[loss_y(E[f(z) | x])].

    Columns are x (B,) or (B, dx); y (B,); z, one draw for each x, (B,) or (B, dz), or M draws, (B, M, dz); and mass
    (B,), where rows do not count alike.
    The context is (x, y), y last: it determines what the dual variable may depend on.

    Parameters
    ----------
    source : Source
        Samples with the columns above.
    loss : Loss, default=Square()
        The loss of the conditional mean of f.
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
            mass=mass_of(sample),
        )


class Unconditional(Problem):
    """Regression on a mean with nothing to condition on: min over f of E_y[loss_y(E_z[f(z)])], y and z independent.

    Columns are y (B,) and z (B,) or (B, dz), in any pairing that does not relate them. For the square loss the
    context is constant, since only E[f(z)] - E[y] matters, and for others it is y, on which loss'_y depends.

    Parameters
    ----------
    source : Source
        Samples with the columns above.
    loss : Loss, default=Square()
        The loss of the mean of f.

    Examples
    --------
    >>> from dualembed.sources import Dataset
    >>> data = Dataset(y=[1.0, 2.0], z=[0.1, 0.9])
    >>> Unconditional(data).terms(data.columns).context.tolist()
    [[1.0], [1.0]]
    """

    source: Source
    loss: Loss = eqx.field(default_factory=Square)

    def __check_init__(self) -> None:
        checked_columns(self, "y=..., z=...")

    def terms(self, sample: Sample) -> Terms:
        """Point z with weight 1, offset 0, context 1 or y, target y."""
        require("a problem without conditioning", sample, "y", "z")
        xp, target = library(sample), vector_of("y", sample["y"])
        ones = xp.ones_like(target)
        return Terms(
            points=columns_of("z", sample["z"])[:, None, :],
            weights=ones[:, None],
            offset=0.0 * ones,
            context=(ones if self.loss.quadratic else target)[:, None],
            target=target,
            known=(False,),
        )
