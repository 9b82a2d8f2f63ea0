"""Parts that files of version 0.1 hold and no later version makes, and what has taken their place."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from dualembed.answers import Question
from dualembed.arrays import Floats
from dualembed.estimators.policy_values import AT_STARTS
from dualembed.linear.functional import Functional
from dualembed.linear.moment_fit import MomentFit
from dualembed.linear.sums import Sums
from dualembed.spaces.linear import LinearFunction


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Sums over all rows of products of φ, g and t."""

    count: int
    cross: Floats
    dual: Floats
    dual_target: Floats
    primal: Floats
    primal_target: Floats
    target: float


@dataclasses.dataclass(frozen=True)
class Stream:
    """The sums of a closed form that more rows can be added to."""

    statistics: Statistics
    scores: Floats
    dual: LinearFunction
    amplitude: float
    dual_penalty: float

    def as_fit(self, function: LinearFunction, inflation: float) -> MomentFit:
        """The same as it is kept by now."""
        old, weights = self.statistics, np.asarray(function.weights, dtype=np.float64)
        sums = Sums(
            np.array([float(old.count)]),
            old.cross[None],
            old.dual_target[None, :, None],
            old.dual[None],
            primal=old.primal,
            primal_target=old.primal_target,
            square=old.target,
        )
        penalty = sums.residual_variance(weights) / (old.count * self.amplitude)
        maps = function.features, self.dual.features
        return MomentFit(*maps, sums, weights, penalty, self.dual_penalty, scores=self.scores, inflation=inflation)


def _with_question(fitted: dict[str, Any]) -> dict[str, Any]:
    """Starts of episodes, once points (n, d) or pairs (n, J, d) with shares (n, J), as the question of them."""
    given = fitted.get("starts_")
    if given is None or isinstance(given, Question):
        return fitted
    points, shares = given if isinstance(given, tuple) else (given[:, None], np.ones((len(given), 1)))
    sample = Functional(points, shares, np.arange(len(points)))
    return {**fitted, "starts_": Question(AT_STARTS, ((1.0, sample),))}


def renewed(fitted: dict[str, Any]) -> dict[str, Any]:
    """What a fit has left behind, with older parts replaced; errors stay as the file has them."""
    fitted = _with_question(fitted)
    if "stream_" not in fitted:
        return fitted
    found = {name: value for name, value in fitted.items() if name not in ("stream_", "widening_")}
    stream = fitted["stream_"]
    if stream is not None:
        found["solution_"] = stream.as_fit(found["function_"], float(fitted.get("widening_", 1.0)) ** 2)
    return found
