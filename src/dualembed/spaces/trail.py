"""The average of iterates of a growing expansion, from one number per step and no second expansion."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp


class Trail(eqx.Module):
    """What each step did: f_{i+1} = ratio_i f_i + Δ_i, taken with step size γ_i; deltas are the coefficients of Δ_i."""

    steps: jax.Array  # (T,) γ_i; zero for steps not taken yet
    ratios: jax.Array  # (T,)
    deltas: jax.Array  # (T, ...)

    @staticmethod
    def empty(count: int, shape: tuple[int, ...], dtype: jnp.dtype) -> Trail:
        """Room for `count` steps whose Δ has coefficients of that shape."""
        return Trail(jnp.zeros(count, dtype), jnp.ones(count, dtype), jnp.zeros((count, *shape), dtype))

    def record(self, number: jax.Array, step: jax.Array, ratio: jax.Array, delta: jax.Array) -> Trail:
        """The trail with one more step."""
        return Trail(
            self.steps.at[number].set(step),
            self.ratios.at[number].set(ratio),
            self.deltas.at[number].set(delta),
        )

    def weights(self) -> jax.Array:
        """Weight of each Δ_i in Σ γ_k f_k / Σ γ_k: w_i = γ_{i+1} + ratio_{i+1} w_{i+1}, w_T = 0, then normalised.

        Backwards, because differences of running sums lose every digit in float32 once shrinkage has acted.
        """

        def backward(weight: jax.Array, later: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            step, ratio = later
            return step + ratio * weight, weight

        zero = jnp.zeros((), self.steps.dtype)
        _, weights = jax.lax.scan(backward, zero, (self.steps, self.ratios), reverse=True)
        return weights / jnp.maximum(jnp.sum(self.steps), jnp.finfo(self.steps.dtype).tiny)

    def averages(self) -> jax.Array:
        """The coefficients Δ_i contributes to the average, same shape as deltas."""
        weights = self.weights()
        return self.deltas * weights.reshape(weights.shape + (1,) * (self.deltas.ndim - 1))
