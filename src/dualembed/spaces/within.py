"""Features within the levels of factors: what an effect of each level leaves of them; and features about their mean."""

from __future__ import annotations

import equinox as eqx
import numpy as np

from dualembed.arrays import AnyArray, Floats
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.linear import TransformedMap


class WithinMap(FeatureMap):
    """φ(x) less an effect of each factor's level, at points whose last coordinates number the levels; in NumPy.

    `share` is that of the rows which such effects leave free: sums over rows count as so many.
    """

    features: FeatureMap
    effects: tuple[Floats, ...]  # (levels, m) of each factor
    share: float = eqx.field(default=1.0, static=True)

    @property
    def dimension(self) -> int:
        """Coordinates of a point with those of its levels."""
        return self.features.dimension + len(self.effects)

    @property
    def size(self) -> int:
        """The number of features."""
        return self.features.size

    @property
    def free(self) -> float:
        """The share of the rows that is left free."""
        return self.share

    def __call__(self, xs: AnyArray) -> AnyArray:
        """The features (n, m) at points (n, d + factors)."""
        points, end = np.asarray(xs), self.features.dimension
        values = np.array(self.features(points[:, :end]), dtype=np.float64)
        for place, own in enumerate(self.effects):
            values -= np.asarray(own)[points[:, end + place].astype(int)]
        return values


class CentredMap(FeatureMap):
    """(1, φ(x) - centre): what a function is made of whose constant is its mean over the data."""

    features: FeatureMap
    centre: AnyArray  # (m,)

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.features.dimension

    @property
    def size(self) -> int:
        """One more than the features."""
        return self.features.size + 1

    def __call__(self, xs: AnyArray) -> AnyArray:
        """The features (n, m + 1) at points (n, d)."""
        values = np.asarray(self.features(np.asarray(xs)), dtype=np.float64)
        return np.concatenate([np.ones((len(values), 1)), values - np.asarray(self.centre)], axis=1)


def without_levels(features: FeatureMap) -> FeatureMap:
    """The features that are taken within levels, as they are at a point without its levels."""
    if isinstance(features, TransformedMap):
        return TransformedMap(without_levels(features.features), features.transform)
    return features.features if isinstance(features, WithinMap) else features
