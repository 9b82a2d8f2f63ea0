"""The one form of every problem: min over f of E[loss_y(E[moment(f) | context])], moment affine in f."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from dualembed import checks
from dualembed.losses import Loss, Square
from dualembed.sources import Sample, Source


class Terms(eqx.Module):
    """What a batch of B samples says about f: moment = Σ_k weights_k f(points_k) + offset, in a context, with a target.

    points (B, K, d), weights (B, K), offset (B,), context (B, c), target (B,). `known` says for each of the K points
    whether the context determines its weights_k f(points_k) (V(s) given s), and `offset_known` whether it determines
    the offset; the honest score uses both. Empty means none of the points.
    """

    points: jax.Array
    weights: jax.Array
    offset: jax.Array
    context: jax.Array
    target: jax.Array
    known: tuple[bool, ...] = eqx.field(default=(), static=True)
    offset_known: bool = eqx.field(default=False, static=True)

    def moment(self, values: jax.Array) -> jax.Array:
        """Σ_k weights_k values_k + offset for values (B, K) of f at the points: shape (B,)."""
        return jnp.sum(self.weights * values, axis=1) + self.offset

    def check(self) -> None:
        """Raise one clear sentence when the shapes do not belong together."""
        if self.points.ndim != 3:
            raise checks.InputError(
                f"Terms.points must have shape (batch, points, dimension), but has {self.points.shape}; "
                "a single point per sample is points[:, None, :]"
            )
        batch, count, _ = self.points.shape
        wanted = {"weights": (batch, count), "offset": (batch,), "target": (batch,)}
        for name, shape in wanted.items():
            if getattr(self, name).shape != shape:
                raise checks.InputError(f"Terms.{name} must have shape {shape}, but has {getattr(self, name).shape}")
        if self.context.ndim != 2 or self.context.shape[0] != batch:
            raise checks.InputError(f"Terms.context must have shape ({batch}, dimension), but has {self.context.shape}")
        if self.known and len(self.known) != count:
            raise checks.InputError(f"Terms.known must say yes or no for each of the {count} points, not {self.known}")


class Problem(eqx.Module):
    """Samples, a loss, and what each sample says about f."""

    source: eqx.AbstractVar[Source]
    loss: eqx.AbstractVar[Loss]

    @abstractmethod
    def terms(self, sample: Sample) -> Terms:
        """The terms of a batch of samples, each row's from its own row alone: batches may be cut, mixed or padded."""


class Moment(Problem):
    """The user's own problem: any function from a batch of samples to `Terms`.

    >>> from dualembed.sources import Dataset
    >>> data = Dataset(x=[0.0, 1.0], z=[0.1, 0.9], y=[1.0, 2.0])
    >>> def instrument(sample):
    ...     zeros = jnp.zeros_like(sample["y"])
    ...     return Terms(sample["x"][:, None, None], jnp.ones_like(sample["y"])[:, None], zeros,
    ...                  sample["z"][:, None], sample["y"])
    >>> Moment(data, instrument).terms(data.columns).points.shape
    (2, 1, 1)
    """

    source: Source
    function: Callable[[Sample], Terms]
    loss: Loss

    def __init__(self, source: Source, function: Callable[[Sample], Terms], loss: Loss | None = None) -> None:
        self.source = source
        self.function = function if isinstance(function, eqx.Module) else jax.tree_util.Partial(function)
        self.loss = Square() if loss is None else loss

    def terms(self, sample: Sample) -> Terms:
        """What the user's function says."""
        return self.function(sample)


def require(problem: str, sample: Sample, *names: str) -> None:
    """Raise one clear sentence unless the sample has every column the problem needs."""
    missing = [name for name in names if name not in sample]
    if missing:
        wanted = ", ".join(names[:-1]) + f" and {names[-1]}"
        raise checks.InputError(
            f"{problem} needs the columns {wanted}; {', '.join(missing)} missing from {sorted(sample)}"
        )


def vector_of(name: str, value: Any) -> jax.Array:
    """An array of shape (B,)."""
    array = jnp.asarray(value)
    if array.ndim != 1:
        raise checks.InputError(f"{name} must have shape (rows,), but has {array.shape}")
    return array


def columns_of(name: str, value: Any) -> jax.Array:
    """An array of shape (B,) or (B, d) as (B, d)."""
    array = jnp.asarray(value)
    if array.ndim == 1:
        return array[:, None]
    if array.ndim != 2:
        raise checks.InputError(f"{name} must have shape (rows,) or (rows, dimension), but has {array.shape}")
    return array
