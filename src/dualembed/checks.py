"""Checks at the entrance: one sentence with the offending value, the rule and the way out, such as the nearest name.

Every check lets JAX tracers through, because a value under `jit` or `vmap` has no value to look at yet. JAX is imported
by the checks that need it alone: what is wrong with a file or a column is said without waiting for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import jax


class InputError(ValueError):
    """Something given by the caller breaks a rule; the message says which, and what to do instead."""


def traced(*values: Any) -> bool:
    """Whether any leaf of the values is a JAX tracer."""
    import jax

    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def real(value: Any) -> Any:
    """The value as a hyper-parameter leaf: a Python float, or a float array for several.

    Python floats are traced weakly, so that a new number never recompiles and never changes a dtype.
    """
    import jax
    import jax.numpy as jnp

    if value is None or isinstance(value, jax.Array):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, np.ndarray, np.generic, list, tuple)):
        return value  # left for `positive` and its kin to name; pytree machinery passes placeholders here
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        return value
    if array.ndim == 0:
        return float(array)
    with np.errstate(over="ignore"):  # beyond float32 it becomes inf, which `positive` and its kin refuse
        return jnp.asarray(array, dtype=float)


def number(name: str, value: Any, hint: str = "") -> None:
    """Raise unless value is one or several finite real numbers."""
    if traced(value):
        return
    try:
        array = np.asarray(value)
    except Exception:  # an array-like that refuses conversion is bad input like any other
        array = np.asarray("not a number")
    if array.dtype.kind not in "iuf" or array.size == 0:
        raise InputError(f"{name} must be a number, not {value!r}{_tail(hint)}")
    if not np.all(np.isfinite(array)):
        raise InputError(f"{name} must be finite, not {value!r}{_tail(hint)}")


def positive(name: str, value: Any, hint: str = "") -> None:
    """Raise unless every entry of value is a finite number above zero."""
    if traced(value):
        return
    number(name, value, hint)
    if not np.all(np.asarray(value) > 0):
        raise InputError(f"{name} must be positive, not {value!r}{_tail(hint)}")


def not_negative(name: str, value: Any, hint: str = "") -> None:
    """Raise unless every entry of value is a finite number, zero or above."""
    if traced(value):
        return
    number(name, value, hint)
    if not np.all(np.asarray(value) >= 0):
        raise InputError(f"{name} must not be negative, not {value!r}{_tail(hint)}")


def single(name: str, value: Any, hint: str = "sweep over several with vmap") -> None:
    """Raise unless value is one number."""
    if np.ndim(value) != 0:
        raise InputError(f"{name} must be one number, but its shape is {np.shape(value)}{_tail(hint)}")


def count(name: str, value: Any, at_least: int = 1) -> None:
    """Raise unless value is a whole number of at least `at_least`."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < at_least:
        raise InputError(f"{name} must be a whole number of at least {at_least}, not {value!r}")


def array(name: str, value: Any, *, ndim: int | tuple[int, ...] | None = None) -> jax.Array:
    """The value as a floating JAX array, refused when empty, not numeric, not finite or of the wrong rank."""
    import jax
    import jax.numpy as jnp

    if traced(value):
        return jnp.asarray(value)
    try:
        given = np.asarray(value)
    except Exception as error:
        raise InputError(f"{name} could not be read as an array ({error}); give equal rows of numbers") from None
    if given.dtype.kind not in "iufb":
        raise InputError(f"{name} must hold numbers, not {given.dtype}; encode text or objects as numbers first")
    ranks = (ndim,) if isinstance(ndim, int) else ndim
    if ranks is not None and given.ndim not in ranks:
        wanted = " or ".join(str(rank) for rank in ranks)
        raise InputError(f"{name} must have {wanted} dimension(s), but its shape is {given.shape}")
    if given.size == 0:
        raise InputError(f"{name} is empty (shape {given.shape}); give at least one row")
    if given.dtype.kind == "f" and not np.all(np.isfinite(given)):
        bad = int(np.argwhere(~np.isfinite(given))[0][0]) if given.ndim else 0
        raise InputError(
            f"{name} has {int((~np.isfinite(given)).sum())} NaN or infinite value(s), the first in row {bad}; "
            "drop or fill those rows"
        )
    with np.errstate(over="ignore"):  # a number too large for float32 becomes infinite and is named below
        # In NumPy and by device_put: JAX's own operations, asarray among them, are compiled for every new shape.
        kept = given.astype(jax.dtypes.canonicalize_dtype(float))
    result: jax.Array = jax.device_put(kept)
    if not np.all(np.isfinite(kept)):
        raise InputError(f"{name} has values beyond the range of {result.dtype}; rescale it")
    return result


def points(name: str, value: Any, dimension: int) -> jax.Array:
    """The value as points of shape (n, dimension); (n,) numbers will do where the dimension is 1."""
    given = array(name, value, ndim=(1, 2))
    if given.ndim == 1 and dimension == 1:
        given = given[:, None]
    if given.ndim != 2 or given.shape[1] != dimension:
        raise InputError(f"{name} must have shape (n, {dimension}), but has {given.shape}")
    return given


def as_key(key: jax.Array | int) -> jax.Array:
    """A JAX key, made from a seed where a whole number is given."""
    import jax
    import jax.numpy as jnp

    if isinstance(key, (int, np.integer)) and not isinstance(key, bool) and 0 <= key < 2**32:
        if jax.config.jax_default_prng_impl == "threefry2x32":  # type: ignore[attr-defined]
            # The same as jax.random.key gives, without a compilation.
            return jax.random.wrap_key_data(jnp.asarray(np.array([0, key], dtype=np.uint32)), impl="threefry2x32")
        return jax.random.key(int(key))
    if isinstance(key, jax.Array) and (jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or key.dtype == jnp.uint32):
        return key
    raise InputError(f"key must be a JAX random key or a whole number from 0 to 2**32 - 1, not {key!r}")


def instance(name: str, value: Any, kind: type | tuple[type, ...], hint: str = "") -> None:
    """Raise unless value is an instance of kind."""
    if not isinstance(value, kind):
        wanted = kind.__name__ if isinstance(kind, type) else " or ".join(each.__name__ for each in kind)
        raise InputError(f"{name} must be a {wanted}, not {value!r}{_tail(hint)}")


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The known name most like this one, or None where none is.

    >>> nearest_name("rewrad", ["state", "reward"])
    'reward'
    """
    from difflib import get_close_matches

    known = {each.lower(): each for each in names}
    close = get_close_matches(name.lower(), known, n=1)
    return known[close[0]] if close else None


def nearest(name: str, names: Iterable[str]) -> str:
    """The words '; did you mean ...?' with the known name most like this one, or nothing where none is."""
    close = nearest_name(name, names)
    return "" if close is None else f"; did you mean {close!r}?"


def some(names: Iterable[str], most: int = 8) -> str:
    """The names with commas between them, the first few where they are many; one that has a comma is in quotes."""
    listed = [f'"{name}"' if "," in name else name for name in names]
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest} more" if rest > 0 else "")


def _tail(hint: str) -> str:
    return f"; {hint}" if hint else ""
