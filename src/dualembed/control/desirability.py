"""The optimal control of a linearly-solvable process, recovered from its desirability z."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from dualembed import checks

Desirability = Callable[[Any], Any]
Dynamics = Callable[[jax.Array, jax.Array], jax.Array]


def controlled_probabilities(passive: Any, desirability: Any) -> Any:
    """p*(s'|s) = p(s'|s) z(s') / E_p[z(s') | s] for passive probabilities (n, m), dense or sparse, and z (m,).

    The desirability stands at s', where the process goes, not at s. At terminal s' it is e^(-q_T(s')).

    >>> controlled_probabilities(np.array([[0.5, 0.5]]), np.array([1.0, 3.0])).tolist()
    [[0.25, 0.75]]
    """
    values = np.asarray(desirability, dtype=np.float64)
    is_sparse = sparse.issparse(passive)
    given = passive.tocsr() if is_sparse else np.asarray(passive, dtype=np.float64)
    if values.shape != given.shape[1:]:
        raise checks.InputError(
            f"desirability must have one value for each of the {given.shape[1]} next states, but has {values.shape}"
        )
    if not np.all(values >= 0):
        raise checks.InputError(
            f"desirability must not be negative, not {np.min(values):.3g}; it is exp(-cost to go), so a negative "
            "value is an error of estimation: clip it at a small positive number"
        )
    total = given @ values
    if np.any(total <= 0):
        row = int(np.flatnonzero(total <= 0)[0])
        raise checks.InputError(f"every next state of row {row} has desirability 0; there is no way to go from there")
    if is_sparse:
        return sparse.diags_array(1.0 / total) @ given @ sparse.diags_array(values)
    return given * values / total[:, None]


def controlled_sampler(desirability: Desirability, passive: Dynamics, *, draws: int = 64) -> Dynamics:
    """A sampler (key, states (n, d)) -> next states (n, d) of the controlled process.

    `passive` samples the uncontrolled one in the same way. Of `draws` passive next states one is chosen with
    probability proportional to z: as draws grow that is p*(s'|s) = p(s'|s) z(s') / E_p[z(s')|s]. Values of z below
    zero, errors of estimation, count as zero.
    """
    checks.count("draws", draws)

    def controlled(key: jax.Array, states: jax.Array) -> jax.Array:
        draw_key, choice_key = jax.random.split(key)
        proposals = jnp.stack([jnp.asarray(passive(each, states)) for each in jax.random.split(draw_key, draws)])
        values = jnp.asarray(desirability(proposals.reshape(-1, proposals.shape[-1]))).reshape(proposals.shape[:2])
        chosen = jax.random.categorical(choice_key, jnp.log(jnp.maximum(values, 1e-30)), axis=0)
        return jnp.take_along_axis(proposals, chosen[None, :, None], axis=0)[0]

    return controlled
