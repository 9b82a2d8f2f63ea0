"""Nyström features: the part of an RKHS spanned by landmarks from the data, also beside a trend and for each action."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from dualembed import checks
from dualembed.arrays import AnyArray, Floats
from dualembed.kernels import Kernel
from dualembed.spaces.base import Layout
from dualembed.spaces.features import FeatureMap
from dualembed.spaces.linear import LinearSpace

CUT = 1e-10  # eigenvalues of the landmarks' kernel below this share of the largest are left out


class Landmarks(eqx.Module):
    """A rule that picks landmarks among points of the data."""

    @abstractmethod
    def choose(self, key: jax.Array, points: jax.Array, *, count: int, kernel: Kernel) -> jax.Array:
        """Row numbers (count,) of the chosen points."""


class Uniform(Landmarks):
    """Every point equally likely, none twice."""

    def choose(self, key: jax.Array, points: jax.Array, *, count: int, kernel: Kernel) -> jax.Array:
        """A random subset."""
        return jax.random.permutation(key, points.shape[0])[:count]


class KMeansPlusPlus(Landmarks):
    """Each next landmark with probability proportional to its squared distance, in the RKHS, from those before.

    The kernel's own geometry, k(x,x) + k(c,c) - 2 k(x,c), so that landmarks spread as the functions see it.
    """

    def choose(self, key: jax.Array, points: jax.Array, *, count: int, kernel: Kernel) -> jax.Array:
        """Seeding of k-means++ in O(n · count)."""
        diagonal = kernel.diagonal(points)
        first_key, key = jax.random.split(key)
        first = jax.random.randint(first_key, (), 0, points.shape[0])

        def distance2(row: jax.Array) -> jax.Array:
            return jnp.maximum(diagonal + diagonal[row] - 2 * kernel.gram(points, points[row][None])[:, 0], 0.0)

        def pick(nearest: jax.Array, step_key: jax.Array) -> tuple[jax.Array, jax.Array]:
            # Gumbel trick; the floor keeps duplicates possible rather than undefined once all distances are zero.
            row = jnp.argmax(jnp.log(nearest + 1e-30) + jax.random.gumbel(step_key, nearest.shape))
            return jnp.minimum(nearest, distance2(row)), row

        _, rest = jax.lax.scan(pick, distance2(first), jax.random.split(key, count - 1))
        return jnp.concatenate([first[None], rest])


class LeverageScores(Landmarks):
    """Points with probability proportional to their ridge leverage score, k_xᵀ(K + n·ridge)⁻¹k_x, none twice.

    The scores are estimated from a uniform pilot of at most `pilot` points, in O(n · pilot²).
    """

    ridge: float | jax.Array = eqx.field(default=1e-3, converter=checks.real)
    pilot: int = eqx.field(default=512, static=True)

    def __check_init__(self) -> None:
        checks.positive("ridge", self.ridge)
        checks.count("pilot", self.pilot)

    def choose(self, key: jax.Array, points: jax.Array, *, count: int, kernel: Kernel) -> jax.Array:
        """Sampling without replacement by the Gumbel top-k trick."""
        pilot_key, draw_key = jax.random.split(key)
        rows = jax.random.permutation(pilot_key, points.shape[0])[: self.pilot]
        features = whitened(kernel, points[rows])(points)
        n, m = features.shape
        covariance = features.T @ features / n + self.ridge * jnp.eye(m)
        residual = jnp.maximum(kernel.diagonal(points) - jnp.sum(features**2, axis=1), 0.0) / self.ridge
        scores = jnp.sum(features * jnp.linalg.solve(covariance, features.T).T, axis=1) + residual
        return jnp.argsort(-(jnp.log(scores + 1e-30) + jax.random.gumbel(draw_key, (n,))))[:count]


class Nystrom(LinearSpace):
    """The part of an RKHS spanned by landmarks, f = Σ_j c_j k(landmark_j, ·).

    Coordinates w are whitened: |w| is exactly the RKHS norm of f. With every distinct point of the data a landmark
    it is the RKHS itself on that data, up to directions that rounding of the kernel's values would swamp.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    size : int, default=256
        Number of landmarks.
    landmarks : Landmarks, default=Uniform()
        How they are picked among the points: nystrom.Uniform, KMeansPlusPlus or LeverageScores.
    """

    kernel: Kernel
    size: int = eqx.field(default=256, static=True)
    landmarks: Landmarks = eqx.field(default_factory=Uniform)

    def __check_init__(self) -> None:
        checks.instance("kernel", self.kernel, Kernel, "such as kernels.Gaussian(0.5)")
        checks.instance("landmarks", self.landmarks, Landmarks, "such as nystrom.Uniform()")
        checks.count("size", self.size)

    def check(self, dimension: int) -> None:
        """The kernel must fit the dimension."""
        self.kernel.check(dimension)

    def feature_map(self, key: jax.Array, layout: Layout) -> LandmarkMap:
        """Landmarks from the pilot points; all of them where there are fewer than `size`."""
        points = layout.pilot
        if self.size < points.shape[0]:
            points = points[self.landmarks.choose(key, points, count=self.size, kernel=self.kernel)]
        return whitened(self.kernel, points)


class LandmarkValues(FeatureMap):
    """φ(x) = k_m(x)."""

    kernel: Kernel
    landmarks: AnyArray  # (m, d)

    @property
    def dimension(self) -> int:
        """Coordinates of a landmark."""
        return self.landmarks.shape[1]

    @property
    def size(self) -> int:
        """The number of landmarks."""
        return len(self.landmarks)

    def __call__(self, xs: AnyArray) -> AnyArray:
        """k(x, landmarks)."""
        return self.kernel.gram(xs, self.landmarks)


class LandmarkMap(FeatureMap):
    """φ(x) = K_mm^(-1/2) k_m(x)."""

    kernel: Kernel
    landmarks: AnyArray  # (m, d)
    whitener: AnyArray  # (m, r)

    @property
    def dimension(self) -> int:
        """Coordinates of a landmark."""
        return self.landmarks.shape[1]

    @property
    def size(self) -> int:
        """The number of features."""
        return self.whitener.shape[1]

    def __call__(self, xs: AnyArray) -> AnyArray:
        """k(x, landmarks) times the whitener."""
        return self.kernel.gram(xs, self.landmarks) @ self.whitener

    def plain(self) -> LandmarkValues:
        """The kernel's values."""
        return LandmarkValues(self.kernel, self.landmarks)

    def from_plain(self, values: Floats) -> Floats:
        """Times the whitener."""
        return np.asarray(values @ self.whitener)

    def plain_weights(self, weights: Floats) -> Floats:
        """The whitener times them."""
        return np.asarray(weights @ self.whitener.T)


def whitened(kernel: Kernel, landmarks: AnyArray) -> LandmarkMap:
    """The features of these landmarks, orthonormal in the RKHS; directions lost to rounding are dropped."""
    traced = checks.traced(kernel, landmarks)
    xp = jnp if traced else np
    # In float64 wherever the numbers are known: float32 would lose most directions of a smooth kernel.
    points = landmarks if traced else np.asarray(landmarks, dtype=np.float64)
    values, vectors = xp.linalg.eigh(kernel.gram(points, points))
    # Dropped: what the decomposition cannot resolve, and what rounding of kernel values would swamp at use,
    # where a direction of eigenvalue v comes out with an error of about eps √(trace / v).
    rounding = 100 * float(jnp.finfo(landmarks.dtype).eps)
    floor = xp.maximum(4 * xp.finfo(values.dtype).eps * values[-1], rounding**2 * xp.sum(xp.maximum(values, 0)))
    kept = values > floor
    whitener = vectors * xp.where(kept, 1 / xp.sqrt(xp.where(kept, values, 1.0)), 0.0)
    if isinstance(landmarks, jax.Array):
        whitener = jnp.asarray(whitener, landmarks.dtype)
    return LandmarkMap(kernel, landmarks, whitener)


def whiten(kernel: Kernel, landmarks: Floats, cut: float) -> Floats:
    """K_mm^(-1/2) (m, r) in NumPy, without the directions whose eigenvalue is at most `cut` times the largest."""
    values, vectors = np.linalg.eigh(np.asarray(kernel.gram(landmarks, landmarks)))
    kept = values > cut * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept])


class TrendedLandmarks(FeatureMap):
    """ψ(x) = (1, z/√d, pairs of coordinates, K_mm^(-1/2) k_m(z)) of z = (x - centre)/scale, the pairs where `curved`.

    The first feature is the constant, which nobody should penalise. A ridge on the others is the kernel's own norm.
    Plain ones have no whitener: kernel values themselves.
    """

    kernel: Kernel
    landmarks: AnyArray  # (m, d), values of z
    whitener: AnyArray | None  # (m, r)
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
        return self._straight + (len(self.landmarks) if self.whitener is None else self.whitener.shape[1])

    @property
    def _straight(self) -> int:
        """The number of features that are not the kernel's."""
        d = self.dimension
        return 1 + d + (d * (d + 1) // 2 if self.curved else 0)

    def __call__(self, xs: AnyArray) -> AnyArray:
        """The features (n, size) at points (n, d)."""
        xp: Any = jnp if isinstance(xs, jax.Array) else np
        zs = (xs - self.centre) / self.scale
        values = self.kernel.gram(zs, self.landmarks)
        return xp.concatenate(
            [*self._trend(xp, zs), values if self.whitener is None else values @ self.whitener], axis=1
        )

    def plain(self) -> TrendedLandmarks:
        """The trend and the kernel values: whitening takes longer than both where there are many rows."""
        return TrendedLandmarks(self.kernel, self.landmarks, None, self.centre, self.scale, self.curved)

    def from_plain(self, values: Floats) -> Floats:
        """Kernel values whitened."""
        straight, smooth = values[..., : self._straight], values[..., self._straight :]
        return values if self.whitener is None else np.concatenate([straight, smooth @ self.whitener], axis=-1)

    def plain_weights(self, weights: Floats) -> Floats:
        """The whitener times those of the kernel's features."""
        if self.whitener is None:
            return weights
        straight = self._straight
        return np.concatenate([weights[:, :straight], weights[:, straight:] @ self.whitener.T], axis=1)

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

    base: FeatureMap
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

    def plain(self) -> ActionFeatures:
        """Those of the base's plain features."""
        return ActionFeatures(self.base.plain(), self.codes, self.mixing)

    def from_plain(self, values: Floats) -> Floats:
        """The base's own for each action."""
        by_action = np.swapaxes(values.reshape(*values.shape[:-1], -1, self.mixing.shape[1]), -1, -2)
        whitened = np.swapaxes(self.base.from_plain(by_action), -1, -2)
        return whitened.reshape(*values.shape[:-1], -1)

    def plain_weights(self, weights: Floats) -> Floats:
        """The base's own for each action."""
        by_action = self.base.plain_weights(self._by_action(weights)).reshape(len(weights), self.mixing.shape[1], -1)
        return by_action.transpose(0, 2, 1).reshape(len(weights), -1)

    def _by_action(self, weights: Floats) -> Floats:
        """The base's weights (p A, m) of each action's part of functions with weights (p, m A)."""
        parts = weights.reshape(len(weights), self.base.size, -1).transpose(0, 2, 1)
        return parts.reshape(-1, self.base.size)

    def combined(self, xs: Floats, weights: Floats) -> Floats:
        """The functions with weights (p, m) at pairs (n, d + a), (n, p), each the base's functions of the action."""
        by_action = self.base.combined(xs[:, : self.base.dimension], self._by_action(weights))
        by_action = by_action.reshape(len(xs), len(weights), self.mixing.shape[1])
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

    def plain(self) -> Stack:
        """Those of each map."""
        return Stack(tuple(part.plain() for part in self.parts))

    def from_plain(self, values: Floats) -> Floats:
        """Each map's own."""
        ends = np.cumsum([part.plain().size for part in self.parts])[:-1]
        pairs = zip(self.parts, np.split(values, ends, axis=-1), strict=True)
        return np.concatenate([part.from_plain(own) for part, own in pairs], axis=-1)

    def plain_weights(self, weights: Floats) -> Floats:
        """Each map's own."""
        ends = np.cumsum([part.size for part in self.parts])[:-1]
        pairs = zip(self.parts, np.split(weights, ends, axis=1), strict=True)
        return np.concatenate([part.plain_weights(own) for part, own in pairs], axis=1)

    def combined(self, xs: Floats, weights: Floats) -> Floats:
        """The functions with weights (p, m) at points (n, d), (n, p)."""
        ends = np.cumsum([part.size for part in self.parts])[:-1]
        pairs = zip(self.parts, np.split(weights, ends, axis=1), strict=True)
        return np.asarray(np.sum([part.combined(xs, own) for part, own in pairs], axis=0))

    def weighted(self, points: Floats, weights: Floats) -> Floats:
        """Each map's own."""
        return np.concatenate([part.weighted(points, weights) for part in self.parts], axis=1)
