"""The optimal control of a linearly-solvable process, recovered from its desirability z."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import sparse

from dualembed import checks
from dualembed.data.policies import numbers, state_rows

Desirability = Callable[[Any], Any]
Dynamics = Callable[[Any, Any], Any]


def controlled_probabilities(passive: Any, desirability: Any) -> Any:
    """p*(s'|s) = p(s'|s) z(s') / E_p[z(s') | s] for passive probabilities (n, m), dense or sparse, and z (m,).

    The desirability stands at s', where the process goes, not at s. At terminal s' it is e^(-q_T(s')).

    >>> controlled_probabilities(np.array([[0.5, 0.5]]), np.array([1.0, 3.0])).tolist()
    [[0.25, 0.75]]
    """
    values = numbers("desirability", desirability)
    is_sparse = sparse.issparse(passive)
    given = passive.tocsr() if is_sparse else numbers("passive", passive)
    _check_passive(given, given.data if is_sparse else given)
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


def controlled_sampler(
    desirability: Desirability, passive: Dynamics, *, draws: int = 64, terminal: Desirability | None = None
) -> Dynamics:
    """A sampler (key, states (n, d) or (n,)) -> next states (n, d) of the controlled process.

    `passive` samples the uncontrolled one in the same way. Of `draws` passive next states one is chosen with
    probability proportional to z: as draws grow that is p*(s'|s) = p(s'|s) z(s') / E_p[z(s')|s]. Values of z below
    zero, errors of estimation, count as zero.

    `FirstExit` learns z only where the process goes on. `terminal` says what it is elsewhere: a function from next
    states (m, d) to z = e^(-q_T) (m,) at terminal states and NaN at others; without, none of them is ever entered.

    >>> z = lambda s: np.where(s[:, 0] < 2, 0.5, 0.0)  # a solution's: it knows nothing of state 2, the end
    >>> goal = lambda s: np.where(s[:, 0] == 2, 1.0, np.nan)
    >>> move = controlled_sampler(z, lambda key, s: s + np.array([[1.0]]), terminal=goal)
    >>> move(0, [[1.0]]).tolist()
    [[2.0]]
    """
    checks.count("draws", draws)

    def controlled(key: jax.Array | int, states: Any) -> Any:
        draw_key, choice_key = jax.random.split(checks.as_key(key))
        states = states if isinstance(states, jax.Array) else state_rows(states)
        states = states[:, None] if states.ndim == 1 else states
        drawn = [passive(each, states) for each in jax.random.split(draw_key, draws)]
        for each in drawn:
            if np.shape(each) != states.shape:
                raise checks.InputError(f"passive must give next states of shape {states.shape}, not {np.shape(each)}")
        # What comes as NumPy stays in float64: a table looks states up by equality.
        xp = jnp if any(isinstance(each, jax.Array) for each in drawn) else np
        proposals = xp.stack(drawn)
        values = _desirabilities(desirability, terminal, proposals)
        chosen = jax.random.categorical(choice_key, jnp.asarray(_log_shares(values)), axis=0)
        moved = xp.take_along_axis(proposals, xp.asarray(chosen)[None, :, None], axis=0)[0]
        # Compiled code cannot raise: where no draw is desirable, the next state says so by being NaN.
        return jnp.where(jnp.any(values > 0, axis=0)[:, None], moved, jnp.nan) if checks.traced(values) else moved

    return controlled


def _desirabilities(desirability: Desirability, terminal: Desirability | None, proposals: Any) -> Any:
    """z (draws, n) at the proposals (draws, n, d), in float64 unless it is being traced."""
    flat = proposals.reshape(-1, proposals.shape[-1])
    # A closed form hands over float32 unless asked for more, in which e^(-cost to go) is 0 beyond a cost of 103.
    with contextlib.nullcontext() if checks.traced(flat) else jax.enable_x64(True):
        known = [each(flat) for each in (desirability, terminal) if each is not None]
    for name, each in zip(("desirability", "terminal"), known, strict=False):
        if np.shape(each) != flat.shape[:1]:
            raise checks.InputError(
                f"{name} must give one value for each next state, {flat.shape[:1]}, not {np.shape(each)}"
            )
    if not checks.traced(known):
        known = [numbers("desirability and terminal", each) for each in known]
    xp = jnp if checks.traced(known) else np
    values = known[0] if terminal is None else xp.where(xp.isnan(known[1]), known[0], known[1])
    return values.reshape(proposals.shape[:2])


def _log_shares(values: Any) -> Any:
    """log of z (draws, n) over the largest of its state: however small z is, its ratios decide; -inf at zero."""
    traced = checks.traced(values)
    xp = jnp if traced else np
    positive = xp.maximum(values, 0.0)
    largest = xp.max(positive, axis=0)
    if not traced and not np.all((largest > 0) & np.isfinite(largest)):
        row = int(np.flatnonzero(~((largest > 0) & np.isfinite(largest)))[0])
        raise checks.InputError(
            f"of the {len(values)} passive next states drawn for row {row} none has a desirability above 0 (or one is "
            "not finite): give more draws, or terminal where the way leads to an end"
        )
    share = positive / xp.where(largest > 0, largest, 1.0)
    return xp.where(share > 0, xp.log(xp.where(share > 0, share, 1.0)), -xp.inf)


def _check_passive(passive: Any, entries: Any) -> None:
    if passive.ndim != 2:
        raise checks.InputError(f"passive must have shape (states, next states), but has {passive.shape}")
    if not (np.all(entries >= 0) and np.all(np.isfinite(entries))):
        raise checks.InputError("passive must hold probabilities, but some are negative, infinite or NaN")
