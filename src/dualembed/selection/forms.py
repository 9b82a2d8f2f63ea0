"""What is told of f besides the data: columns that it is linear in, next to any smooth function of the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from dualembed.arrays import Floats
from dualembed.kernels import Columns, Kernel
from dualembed.selection.hypotheses import base_features, candidates
from dualembed.spaces.basis import PolynomialMap
from dualembed.spaces.nystrom import LandmarkMap

Searched = Sequence[tuple[type[Kernel], Floats]]


@dataclasses.dataclass(frozen=True)
class Form:
    """What f is like.

    Attributes
    ----------
    linear : tuple of int
        Coordinates that f is linear in, with the same slope everywhere.
    """

    linear: tuple[int, ...] = ()


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
