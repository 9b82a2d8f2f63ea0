"""What is told of f besides the data: columns that it is linear in, and levels of factors with effects of their own.

Of an outcome y = f(x) + α_level + noise the problem has what the effects of levels leave of y, and the numbers of the
levels as the last coordinates of points and contexts; features are then taken within levels (`spaces.within`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from dualembed.arrays import Floats
from dualembed.kernels import Columns, Kernel
from dualembed.linear.absorbed import effects_rank, level_effects
from dualembed.problems.base import Problem, iter_terms, read_terms
from dualembed.saddle import Saddle
from dualembed.selection.hypotheses import base_features, candidates
from dualembed.selection.search import MomentSample
from dualembed.spaces.basis import AffineMap, Basis, PolynomialMap
from dualembed.spaces.features import FeatureMap, evaluate_features, to_numpy
from dualembed.spaces.nystrom import LandmarkMap
from dualembed.spaces.within import WithinMap

Searched = Sequence[tuple[type[Kernel], Floats]]


@dataclasses.dataclass(frozen=True)
class Form:
    """What f is like.

    Attributes
    ----------
    linear : tuple of int
        Coordinates that f is linear in, with the same slope everywhere.
    factors : int
        How many of the last coordinates number levels whose effects are taken out.
    """

    linear: tuple[int, ...] = ()
    factors: int = 0

    def plain(self, sample: MomentSample) -> MomentSample:
        """The sample without its levels."""
        if not self.factors:
            return sample
        context = sample.context[:, : -self.factors]
        columns = tuple(column for column in sample.columns if column < context.shape[1])
        points = sample.points[:, :, : -self.factors]
        return dataclasses.replace(sample, points=points, context=context, columns=columns or (0,))

    def within(self, problem: Problem, primal: FeatureMap, dual: FeatureMap) -> tuple[FeatureMap, FeatureMap]:
        """The features of f and of the dual without effects of levels; as they are where there are none."""
        if not self.factors:
            return primal, dual
        tiles = list(iter_terms(problem))
        masses = [np.ones(len(tile.target)) if tile.mass is None else np.asarray(tile.mass) for tile in tiles]
        levels = np.concatenate([tile.context[:, -self.factors :] for tile in tiles]).astype(int)
        share = 1 - effects_rank(levels) / len(levels)

        def effects(features: FeatureMap, places: Iterable[Floats]) -> tuple[Floats, ...]:
            values = (
                (evaluate_features(features, each[:, : -self.factors]), each[:, -self.factors :].astype(int), mass)
                for each, mass in zip(places, masses, strict=True)
            )
            return level_effects(values, levels, np.concatenate(masses), features.size)

        primal, dual = to_numpy(primal), to_numpy(dual)
        of_points = effects(primal, (tile.points[:, 0] for tile in tiles))
        of_contexts = effects(dual, (tile.context for tile in tiles))
        for each in of_contexts:
            each[:, 0] = 0.0  # the constant, which says nothing here, but which penalties are measured by
        return WithinMap(primal, of_points, share), WithinMap(dual, of_contexts, share)

    def within_saddle(self, saddle: Saddle) -> Saddle:
        """The saddle of straight lines, taken within levels."""
        if not self.factors:
            return saddle
        terms = read_terms(saddle.problem)
        maps = (AffineMap(places.shape[-1] - self.factors) for places in (terms.points, terms.context))
        primal, dual = self.within(saddle.problem, *maps)
        return dataclasses.replace(saddle, primal=Basis(primal), dual=Basis(dual))


ANY = Form()


def parts_of(
    points: Floats,
    landmarks: Floats,
    reference: Kernel,
    searched: Searched,
    rng: np.random.Generator,
    *,
    form: Form,
    asked: Sequence[int],
) -> tuple[PolynomialMap, LandmarkMap, list[tuple[int, Kernel, float]]]:
    """(trend, smooth features, kernels to be weighed): of f = a line in some coordinates + a function of the others.

    The trend's lines are of what polynomials of the others leave of those coordinates, so that what is known of the
    others' part, which a prior draws to something smooth, says nothing of the slopes.
    """
    if not form.linear:
        trend, smooth = base_features(points, landmarks, reference, rng, asked=asked)
        return trend, smooth, candidates(points, searched, asked=asked)
    others = tuple(column for column in range(points.shape[1]) if column not in form.linear)
    own_asked = [others.index(column) for column in asked if column in others]
    own = [(family, np.asarray(widths)[list(others)]) for family, widths in searched]
    seen = points[:, others]
    family, widths = own[0]
    smooth = base_features(seen, landmarks[:, others], family(widths), rng, asked=own_asked)[1]
    places = np.tile(points.mean(axis=0), (len(smooth.landmarks), 1))
    places[:, others] = smooth.landmarks
    some = points[rng.permutation(len(points))[:20_000]]
    return (
        PolynomialMap.orthonormal(some, last=asked, straight=form.linear),
        LandmarkMap(Columns(smooth.kernel, others), places, smooth.whitener),
        [(number, Columns(kernel, others), size) for number, kernel, size in candidates(seen, own, asked=own_asked)],
    )
