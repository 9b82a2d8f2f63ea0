"""f averaged over ridge paths, weighed by what groups of rows left out say of them: the default for transitions."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np

from dualembed import checks
from dualembed.linear.averaging import (
    Groups,
    Rows,
    Weighing,
    assign_groups,
    by_merit,
    deviations,
    excess,
    probes_among,
    read_rows,
    sample_places,
)
from dualembed.linear.candidates import Headline, RidgePath
from dualembed.linear.fit import LinearFit
from dualembed.linear.sums import gather
from dualembed.saddle import Saddle
from dualembed.solvers.base import Pair, Probe, Result, Solver
from dualembed.spaces.base import Layout
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.linear import LinearSpace
from dualembed.spaces.trended import Stack
from dualembed.tuning import SEARCH

NO_TRANSITIONS = (
    "averaged paths are for equations whose context is the first of several points, as in transitions; use "
    "solvers.ClosedForm"
)


class AveragedPaths(Solver):
    """(E[φgᵀ] + ridge)θ = E[φ(y - offset)] in the features φ of f itself, for a falling ridge, averaged.

    It is for equations whose context is the first of several points, as in transitions: f's own features test them,
    and the dual's space is not asked. Where f's features are a `spaces.trended.Stack`, each of its parts has a path of
    its own. Candidates, a part and a ridge each, are weighed by their errors without groups of rows, and
    `result.closed` is the average, a `linear.LinearFit`, with errors for every linear question. The first feature of
    each part, a constant, is not penalised.

    Parameters
    ----------
    groups : array of shape (n,), optional
        Labels of rows that depend on each other, such as episodes.
    headline : Headline, optional
        The question that matters most.
    offset : RidgePath, optional
        A part of f that is known beforehand.
    judged : bool, default=False
        Whether candidates are also held against one-step backups on rows left out.
    """

    groups: Any = None
    headline: Headline | None = None
    offset: RidgePath | None = None
    judged: bool = eqx.field(default=False, static=True)

    def solve(self, key: jax.Array, saddle: Saddle, probe: Probe | None = None) -> Result:
        """The solution on the whole finite data set; nothing is iterated, so that a probe sees nothing."""
        _check(saddle)
        problem, rng = saddle.problem, np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
        rows = read_rows(problem)
        if rows is None:
            raise checks.InputError(NO_TRANSITIONS)
        groups = self.groups if isinstance(self.groups, Groups) else assign_groups(rows, self.groups, rng)
        places, visits = sample_places(rows.points[:, 0], np.ones(len(rows.target)), rng)
        headline = None if self.headline is None else self.headline.among(groups.numbers)
        known = self.offset, probes_among(places), headline, problem.positive
        weighing = Weighing(groups.shares, groups.into, *known)
        features = _parts(key, saddle, rows)
        sums = [gather(problem, each, groups.numbers, count=len(groups.into), offset=self.offset) for each in features]
        few = [own.merged(groups.into) for own in sums]
        paths = [weighing.path(each, own) for each, own in zip(features, few, strict=True)]
        weights = weighing.weigh(paths)
        if self.judged:
            some = rows.order()[rng.permutation(len(rows.target))[: SEARCH.screen_rows]]
            worse = excess(weighing.average(paths, weights), rows.some(some), groups.left_out[some])
            weights = by_merit(weights, worse)
        where = {"places": places, "visits": visits, "scale": deviations(rows.used)}
        fit = LinearFit.of(weighing, paths, weights, sums=sums, groups=groups, judged=True, **where)
        function, witness = fit.function, saddle.dual_function(fit.witness().function)
        finite = bool(np.all(np.isfinite(function.weights)))
        return Result(function, witness, None, finite, Pair(function, witness), 1, uncertainty=fit, closed=fit)


def _check(saddle: Saddle) -> None:
    """Raise one clear sentence where the saddle cannot be solved in this way."""
    if not saddle.loss.quadratic:
        raise checks.InputError(
            f"averaged paths are for the square loss, not {type(saddle.loss).__name__}; use solvers.Newton for a "
            "smooth loss, or solvers.EmbeddingSGD"
        )
    for name in ("primal_penalty", "dual_penalty", "primal_radius", "dual_radius"):
        if getattr(saddle, name) is not None:
            raise checks.InputError(f"averaged paths find their penalties themselves; leave out {name}")
    if not isinstance(saddle.primal, LinearSpace):
        raise checks.InputError(
            f"averaged paths need a linear space, not {type(saddle.primal).__name__}; use spaces.RandomFeatures or "
            "spaces.Nystrom, say"
        )


def _parts(key: jax.Array, saddle: Saddle, rows: Rows) -> tuple[FeatureMap, ...]:
    """The feature maps that have a path each."""
    saddle.primal.check(rows.points.shape[2])
    layout = Layout(rows.used, steps=1, batch=1, per_sample=1, capacity=1)
    features: Any = saddle.primal.feature_map(key, layout)
    return features.parts if isinstance(features, Stack) else (features,)
