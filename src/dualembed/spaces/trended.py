"""Features for functions of which nothing is known: a level, slopes and a kernel's landmarks, for each action."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.arrays import AnyArray, Floats
from dualembed.kernels import Kernel
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.nystrom import whiten

CUT = 1e-10  # eigenvalues of the landmarks' kernel below this share of the largest are left out


class TrendedLandmarks(FeatureMap):
    """ψ(x) = (1, z/√d, pairs of coordinates, K_mm^(-1/2) k_m(z)) of z = (x - centre)/scale, the pairs where `curved`.

    The first feature is the constant, which nobody should penalise. A ridge on the others is the kernel's own norm.
    """

    kernel: Kernel
    landmarks: AnyArray  # (m, d), values of z
    whitener: AnyArray  # (m, r)
    centre: AnyArray  # (d,)
    scale: AnyArray  # (d,)
    curved: bool = eqx.field(default=False, static=True)

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.landmarks.shape[1]

    @property
    def size(self) -> int:
        """The number of features."""
        d = self.dimension
        return 1 + d + (d * (d + 1) // 2 if self.curved else 0) + self.whitener.shape[1]

    def __call__(self, xs: AnyArray) -> AnyArray:
        """The features (n, size) at points (n, d)."""
        xp: Any = jnp if isinstance(xs, jax.Array) else np
        zs = (xs - self.centre) / self.scale
        return xp.concatenate([*self._trend(xp, zs), self.kernel.gram(zs, self.landmarks) @ self.whitener], axis=1)

    def combined(self, xs: Floats, weights: Floats) -> Floats:
        """The functions with weights (p, m) at points (n, d), (n, p): few functions need no whitened features."""
        if len(weights) > self.whitener.shape[1]:
            return super().combined(xs, weights)
        zs = (xs - self.centre) / self.scale
        trend = np.concatenate(self._trend(np, zs), axis=1)
        smooth = np.asarray(self.kernel.gram(zs, self.landmarks)) @ (self.whitener @ weights[:, trend.shape[1] :].T)
        return np.asarray(trend @ weights[:, : trend.shape[1]].T + smooth)

    def _trend(self, xp: Any, zs: AnyArray) -> list[AnyArray]:
        """The features that are not the kernel's."""
        parts = [xp.ones((len(zs), 1)), zs / np.sqrt(self.dimension)]
        if self.curved:
            first, second = np.triu_indices(self.dimension)
            parts.append(zs[:, first] * zs[:, second] / (np.sqrt(2) * self.dimension))
        return parts


def trended(
    kernel: Kernel, landmarks: Floats, centre: Floats, scale: Floats, *, curved: bool = False
) -> TrendedLandmarks:
    """The features of a kernel of (x - centre)/scale at landmarks x (m, d), orthonormal in its RKHS."""
    places = (landmarks - centre) / scale
    return TrendedLandmarks(kernel, places, whiten(kernel, places, CUT), centre, scale, curved)


class ActionFeatures(FeatureMap):
    """ψ(s, a) = base(s) ⊗ mixing_a: one function of the state for each discrete action, a part of which all share.

    `codes` (A, a) are the coordinates of the actions, which stand behind those of the state. With rows of `mixing` of
    covariance (I + 11ᵀ)/2 half of the prior variance is common to all actions. The first feature is the constant.
    """

    base: TrendedLandmarks
    codes: AnyArray  # (A, a)
    mixing: AnyArray  # (A, A)

    @property
    def dimension(self) -> int:
        """Coordinates of a state and an action."""
        return self.base.dimension + self.codes.shape[1]

    @property
    def size(self) -> int:
        """The number of features."""
        return self.base.size * self.mixing.shape[1]

    def __call__(self, xs: AnyArray) -> AnyArray:
        """The features (n, size) at pairs (n, d + a)."""
        features = self.base(xs[:, : self.base.dimension])
        return (features[:, :, None] * self._mixed(xs)[:, None]).reshape(len(xs), -1)

    def combined(self, xs: Floats, weights: Floats) -> Floats:
        """The functions with weights (p, m) at pairs (n, d + a), (n, p), each the base's functions of the action."""
        actions = self.mixing.shape[1]
        own = weights.reshape(len(weights), -1, actions).transpose(0, 2, 1).reshape(-1, self.base.size)
        by_action = self.base.combined(xs[:, : self.base.dimension], own).reshape(len(xs), len(weights), actions)
        return np.asarray(np.einsum("npa,na->np", by_action, self._mixed(xs)))

    def weighted(self, points: Floats, weights: Floats) -> Floats:
        """Σ_k weights_k ψ(points_k), (n, size); the features of a state that several points of a row share, once."""
        states = points[:, :, : self.base.dimension]
        mixed = self._mixed(points.reshape(-1, points.shape[2])).reshape(*weights.shape, -1) * weights[:, :, None]
        total, start = np.zeros((len(points), self.base.size, mixed.shape[2])), 0
        while start < points.shape[1]:
            stop = start + 1
            while stop < points.shape[1] and np.array_equal(states[:, stop], states[:, start]):
                stop += 1
            total += self.base(states[:, start])[:, :, None] * mixed[:, start:stop].sum(axis=1)[:, None]
            start = stop
        return total.reshape(len(points), -1)

    def _mixed(self, xs: AnyArray) -> AnyArray:
        """The rows of `mixing` (n, A) of the actions in pairs (n, d + a)."""
        xp: Any = jnp if isinstance(xs, jax.Array) else np
        distance = ((xs[:, None, self.base.dimension :] - self.codes) ** 2).sum(axis=2)
        if xp is np and len(xs) and distance.min(axis=1).max() > 1e-12:
            row = int(np.argmax(distance.min(axis=1)))
            raise checks.InputError(
                f"the action in row {row} is none of the {len(self.codes)} that the fit knows of, each of which has "
                "its own function; fit again with rows that take it"
            )
        return xp.asarray(self.mixing)[xp.argmin(distance, axis=1)]


def action_mixing(actions: int) -> Floats:
    """R (A, A) with R Rᵀ = (I + 11ᵀ)/2, whose first column is the part that all actions share.

    >>> root = action_mixing(3)
    >>> bool(np.allclose(root @ root.T, (np.eye(3) + 1) / 2)), bool(np.ptp(root[:, 0]) < 1e-12)
    (True, True)
    """
    start = np.concatenate([np.ones((actions, 1)), np.eye(actions)[:, : actions - 1]], axis=1)
    basis = np.linalg.qr(start)[0]
    basis[:, 0] = np.abs(basis[:, 0])
    return basis * np.sqrt(np.concatenate([[(1 + actions) / 2], np.full(actions - 1, 0.5)]))


class Stack(FeatureMap):
    """The features of several maps side by side."""

    parts: tuple[FeatureMap, ...]

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.parts[0].dimension

    @property
    def size(self) -> int:
        """The number of features of all."""
        return sum(part.size for part in self.parts)

    def __call__(self, xs: AnyArray) -> AnyArray:
        """The features (n, size) at points (n, d)."""
        xp: Any = jnp if isinstance(xs, jax.Array) else np
        return xp.concatenate([part(xs) for part in self.parts], axis=1)

    def combined(self, xs: Floats, weights: Floats) -> Floats:
        """The functions with weights (p, m) at points (n, d), (n, p)."""
        ends = np.cumsum([part.size for part in self.parts])[:-1]
        pairs = zip(self.parts, np.split(weights, ends, axis=1), strict=True)
        return np.asarray(np.sum([part.combined(xs, own) for part, own in pairs], axis=0))

    def weighted(self, points: Floats, weights: Floats) -> Floats:
        """Each map's own."""
        return np.concatenate([part.weighted(points, weights) for part in self.parts], axis=1)
