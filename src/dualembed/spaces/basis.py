"""A finite basis of the user's own: polynomials, splines, one indicator per state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from dualembed import checks
from dualembed.spaces.base import FeatureMap, Layout
from dualembed.spaces.linear import LinearSpace


class Basis(LinearSpace):
    """f = wᵀφ for any function φ from points (n, d) to features (n, m).

    >>> import jax.numpy as jnp
    >>> quadratics = Basis(lambda x: jnp.stack([jnp.ones(len(x)), x[:, 0], x[:, 0] ** 2], axis=1))
    """

    function: Callable[[jax.Array], jax.Array]

    def __init__(self, function: Callable[[jax.Array], jax.Array]) -> None:
        if not callable(function):
            raise checks.InputError(f"a Basis needs a function from points (n, d) to features (n, m), not {function!r}")
        self.function = function if isinstance(function, eqx.Module) else jax.tree_util.Partial(function)

    def check(self, dimension: int) -> None:
        """The function must turn (n, d) points into (n, m) features."""
        probe = jax.ShapeDtypeStruct((3, dimension), jnp.zeros(()).dtype)
        try:
            shape = jax.eval_shape(self.function, probe).shape
        except Exception as error:
            raise checks.InputError(f"the basis function failed on points of dimension {dimension}: {error}") from error
        if len(shape) != 2 or shape[0] != 3:
            raise checks.InputError(
                f"the basis function must turn points of shape (n, {dimension}) into features (n, m), "
                f"but 3 points gave shape {shape}"
            )

    def feature_map(self, key: jax.Array, layout: Layout) -> BasisMap:
        """The function as it is."""
        size = jax.eval_shape(self.function, layout.pilot).shape[1]
        return BasisMap(self.function, layout.dimension, size)


class BasisMap(FeatureMap):
    """The user's φ."""

    function: Callable[[jax.Array], jax.Array]
    inputs: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)

    @property
    def dimension(self) -> int:
        """Coordinates of a point."""
        return self.inputs

    @property
    def size(self) -> int:
        """The number of features."""
        return self.outputs

    def __call__(self, xs: Any) -> Any:
        """φ(x)."""
        return self.function(xs)
