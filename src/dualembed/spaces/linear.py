"""Spaces with finitely many features: f = wᵀφ, |f| = |w|, also in other coordinates. What closed forms can solve."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from dualembed.arrays import AnyArray, Floats
from dualembed.spaces.base import Function, FunctionSpace, Layout, Regulariser, Update
from dualembed.spaces.features import FeatureMap


class Weights(eqx.Module):
    """The state of a linear space: current weights and their γ-weighted running average."""

    features: FeatureMap
    current: jax.Array
    average: jax.Array
    total: jax.Array  # Σ γ_i so far


class LinearSpace(FunctionSpace):
    """A space of functions wᵀφ with |f| = |w|; a concrete one says how φ is made."""

    @abstractmethod
    def feature_map(self, key: jax.Array, layout: Layout) -> FeatureMap:
        """The features, fixed for the run."""

    def init(self, key: jax.Array, layout: Layout) -> Weights:
        """Zero weights."""
        features = self.feature_map(key, layout)
        zeros = jnp.zeros(features.size, layout.pilot.dtype)
        return Weights(features, zeros, zeros, jnp.zeros((), layout.pilot.dtype))

    def evaluate(self, state: Weights, xs: jax.Array) -> jax.Array:
        """wᵀφ(x)."""
        return state.features(xs) @ state.current

    def descend(self, state: Weights, update: Update, step: jax.Array, regulariser: Regulariser) -> Weights:
        """w <- Π[(1 - step λ) w - step Σ_b slopes_b φ(points_b)]."""
        # The compiler merges these features with those of the evaluation that came before in the same step.
        features = state.features(update.points.reshape(-1, update.points.shape[-1]))
        moved = regulariser.shrinkage(step) * state.current - step * (update.slopes.reshape(-1) @ features)
        moved = regulariser.projection(jnp.sum(moved**2)) * moved
        average, total = running_average(state.average, state.current, state.total, step)
        return Weights(state.features, moved, average, total)

    def norm2(self, state: Weights) -> jax.Array:
        """|w|²."""
        return jnp.sum(state.current**2)

    def last(self, state: Weights) -> LinearFunction:
        """The current weights."""
        return LinearFunction(state.features, state.current)

    def averaged(self, state: Weights) -> LinearFunction:
        """The averaged weights."""
        return LinearFunction(state.features, state.average)


class LinearFunction(Function):
    """The function f = wᵀφ.

    Attributes
    ----------
    features : FeatureMap
        The features φ.
    weights : array of shape (m,)
        The weights w; NumPy from closed forms.
    """

    features: FeatureMap
    weights: AnyArray

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.features.dimension

    def evaluate(self, xs: jax.Array) -> jax.Array:
        """wᵀφ(x)."""
        return self.features(xs) @ self.weights

    def norm2(self) -> jax.Array:
        """|w|²."""
        return jnp.sum(self.weights**2)

    def features_on(self, points: jax.Array) -> FeatureMap:
        """φ, wherever the points are."""
        return self.features


class Preconditioned(FunctionSpace):
    """Functions f = (T w)ᵀφ: steps are taken in w, norms and penalties stay those of θ = T w.

    Gradient steps in w are steps along T Tᵀ in θ. A ball of θ is an ellipsoid of w, onto which scaling is not the
    projection, so there is no ball. Functions come back in the features' own coordinates, as linear ones.

    Parameters
    ----------
    features : FeatureMap
        The features φ.
    transform : array of shape (m, m')
        The matrix T.
    """

    has_ball: ClassVar[bool] = False

    features: FeatureMap
    transform: jax.Array  # T, (m, m')

    def check(self, dimension: int) -> None:
        """The features were made for this data."""

    def feature_map(self, key: jax.Array, layout: Layout) -> FeatureMap:
        """The features, in their own coordinates."""
        return self.features

    def init(self, key: jax.Array, layout: Layout) -> Weights:
        """Zero weights."""
        zeros = jnp.zeros(self.transform.shape[1], layout.pilot.dtype)
        return Weights(TransformedMap(self.features, self.transform), zeros, zeros, jnp.zeros((), layout.pilot.dtype))

    def evaluate(self, state: Weights, xs: jax.Array) -> jax.Array:
        """(T w)ᵀφ(x)."""
        return state.features(xs) @ state.current

    def descend(self, state: Weights, update: Update, step: jax.Array, regulariser: Regulariser) -> Weights:
        """w <- w - step λ TᵀT w - step Σ_b slopes_b Tᵀφ(points_b)."""
        # The compiler merges these features with those of the evaluation that came before in the same step.
        features = state.features(update.points.reshape(-1, update.points.shape[-1]))
        kept = state.current
        if regulariser.penalty is not None:
            kept = kept - step * regulariser.penalty * ((self.transform @ state.current) @ self.transform)
        moved = kept - step * (update.slopes.reshape(-1) @ features)
        average, total = running_average(state.average, state.current, state.total, step)
        return Weights(state.features, moved, average, total)

    def norm2(self, state: Weights) -> jax.Array:
        """|T w|²."""
        return jnp.sum((self.transform @ state.current) ** 2)

    def last(self, state: Weights) -> LinearFunction:
        """The current function, back in the features' own coordinates."""
        return LinearFunction(self.features, self.transform @ state.current)

    def averaged(self, state: Weights) -> LinearFunction:
        """The averaged function, likewise."""
        return LinearFunction(self.features, self.transform @ state.average)


class TransformedMap(FeatureMap):
    """x -> Tᵀφ(x)."""

    features: FeatureMap
    transform: AnyArray

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.features.dimension

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return self.transform.shape[1]

    def __call__(self, xs: AnyArray) -> AnyArray:
        """Tᵀφ(x)."""
        return self.features(xs) @ self.transform

    def plain(self) -> FeatureMap:
        """Those of the features."""
        return self.features.plain()

    def from_plain(self, values: Floats) -> Floats:
        """Those of the features, transformed."""
        return self.features.from_plain(values) @ self.transform

    def plain_weights(self, weights: Floats) -> Floats:
        """Those of the features."""
        return self.features.plain_weights(weights @ self.transform.T)


def running_average(average: Any, current: Any, total: jax.Array, step: jax.Array) -> tuple[Any, jax.Array]:
    """(Σ γ_k w_k / Σ γ_k, Σ γ_k) with the iterate before this step counted in by its step size."""
    total = total + step
    share = step / jnp.maximum(total, jnp.finfo(total.dtype).tiny)
    return jax.tree.map(lambda mean, value: (mean + share * (value - mean)).astype(mean.dtype), average, current), total
