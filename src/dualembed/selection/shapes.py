"""Kernels that f may be made of, and their features on landmarks among the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dualembed import kernels
from dualembed.selection.rows import Rows, deviations
from dualembed.spaces.features import FeatureMap, to_numpy
from dualembed.spaces.trended import ActionFeatures, action_mixing, trended

MOST_ACTIONS = 12  # that have features of their own
MOST_CURVED = 13  # coordinates, of which all pairs are features


class Shape(NamedTuple):
    """A kernel of standardised points: its family, its bandwidth in √d standard deviations, and whether f is curved.

    `scales` (d,) are the relative lengths of the coordinates; all alike where they are left out.
    """

    family: type[Any]
    bandwidth: float
    curved: bool = False
    scales: tuple[float, ...] | None = None

    def kernel(self, dimension: int) -> Any:
        """The kernel itself."""
        lengths = 1.0 if self.scales is None else np.asarray(self.scales)
        return to_numpy(self.family(self.bandwidth * np.sqrt(dimension) * lengths))


KERNELS = (Shape(kernels.Matern32, 1.0), Shape(kernels.Matern32, 3.0), Shape(kernels.Matern52, 1.0))
MORE_KERNELS = (
    *KERNELS,
    Shape(kernels.Matern52, 3.0),
    Shape(kernels.Gaussian, 1.5, True),
    Shape(kernels.Gaussian, 3.0, True),
)
OFFSET_KERNELS = tuple(Shape(kernels.Matern52, width, True) for width in (0.2, 1.0, 3.0))
STRETCHED = (
    Shape(kernels.Matern52, 1.5),
    Shape(kernels.Gaussian, 1.0, True),
    Shape(kernels.Gaussian, 2.0, True),
)  # each coordinate by its own length


def feature_maps(rows: Rows, shapes: Sequence[Shape], most: int, rng: np.random.Generator) -> list[FeatureMap]:
    """The features of each kernel, on landmarks among the distinct points: the order of rows does not matter."""
    width = rows.points.shape[2] - rows.actions
    used = rows.used
    places, centre, scale = np.unique(used, axis=0), used.mean(axis=0), deviations(used)
    codes = np.unique(rows.points[:, :, width:].reshape(-1, rows.actions), axis=0) if rows.actions else np.empty((0, 0))
    apart = 0 < len(codes) <= MOST_ACTIONS
    if apart:
        places, centre, scale, most = (
            np.unique(places[:, :width], axis=0),
            centre[:width],
            scale[:width],
            most // len(codes),
        )
    found: list[FeatureMap] = []
    for shape in shapes:
        chosen = places if len(places) <= most else places[np.sort(rng.permutation(len(places))[:most])]
        curved = shape.curved and 1 < len(centre) <= MOST_CURVED
        base = trended(shape.kernel(len(centre)), chosen, centre, scale, curved=curved)
        found.append(ActionFeatures(base, codes, action_mixing(len(codes))) if apart else base)
    return found
