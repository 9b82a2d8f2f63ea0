"""Nyström features: the part of an RKHS spanned by landmarks from the data."""

from __future__ import annotations

from abc import abstractmethod

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


class LandmarkMap(FeatureMap):
    """φ(x) = K_mm^(-1/2) k_m(x)."""

    kernel: Kernel
    landmarks: AnyArray  # (m, d)
    whitener: AnyArray  # (m, m)

    @property
    def dimension(self) -> int:
        """Coordinates of a landmark."""
        return self.landmarks.shape[1]

    @property
    def size(self) -> int:
        """The number of landmarks."""
        return self.whitener.shape[1]

    def __call__(self, xs: AnyArray) -> AnyArray:
        """k(x, landmarks) times the whitener."""
        return self.kernel.gram(xs, self.landmarks) @ self.whitener


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
