"""The case without conditioning: y explained by one number, the mean of f over z, from unrelated samples of both."""

from __future__ import annotations

import equinox as eqx

from dualembed import checks
from dualembed.losses import Loss, Square
from dualembed.problems.base import Problem, Terms, columns_of, library, require, vector_of
from dualembed.sources import Dataset, Sample, Source


class Unconditional(Problem):
    """min over f of E_y[loss_y(E_z[f(z)])], y and z independent.

    Columns: y (B,) and z (B,) or (B, dz), in any pairing that does not relate them; for the square loss the
    context is constant, since only E[f(z)] - E[y] matters, and for others it is y, on which loss'_y depends.

    >>> data = Dataset(y=[1.0, 2.0], z=[0.1, 0.9])
    >>> Unconditional(data).terms(data.columns).context.tolist()
    [[1.0], [1.0]]
    """

    source: Source
    loss: Loss = eqx.field(default_factory=Square)

    def __check_init__(self) -> None:
        checks.instance("source", self.source, Source, "such as sources.Dataset(y=..., z=...)")
        checks.instance("loss", self.loss, Loss, "such as losses.Square()")
        if isinstance(self.source, Dataset):
            self.terms(self.source.table)

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
