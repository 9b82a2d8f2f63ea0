"""JAX's persistent compilation cache, so that the second run of a program does not compile again."""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

LEAST_COMPILE_SECONDS = 0.2
"""Shorter compilations are not kept: reading an entry back costs a few hundredths of a second."""

_JAX_DEFAULT_SECONDS = 1.0


def enable_cache() -> Path | None:
    """The folder in which JAX keeps compiled programs from now on, or None where it keeps none.

    The folder is `xla` in the user's cache folder for dualembed; `DUALEMBED_CACHE=/some/folder` chooses
    another and `DUALEMBED_CACHE=off` none. A folder already given to JAX (`JAX_COMPILATION_CACHE_DIR`
    or its configuration) is left alone and returned, and a folder that cannot be written means no cache:
    a program must not fail for want of one. Calling again changes nothing.
    """
    import jax

    config: Any = jax.config  # its options are not known to type checkers
    chosen = os.environ.get("DUALEMBED_CACHE", "")
    if config.jax_compilation_cache_dir:
        return Path(config.jax_compilation_cache_dir)
    if chosen.lower() in {"off", "0", "no", "none", "false"}:
        return None
    folder = _writable(chosen)
    if folder is None:
        return None
    # JAX does not write entries atomically, so that a process can meet another's half-written one. It compiles anew
    # where it cannot read or write one, which is all that matters.
    warnings.filterwarnings(
        "ignore", message="Error (reading|writing) persistent compilation cache", category=UserWarning
    )
    config.update("jax_compilation_cache_dir", str(folder))
    if config.jax_persistent_cache_min_compile_time_secs == _JAX_DEFAULT_SECONDS:
        config.update("jax_persistent_cache_min_compile_time_secs", LEAST_COMPILE_SECONDS)
    return folder


def _writable(chosen: str) -> Path | None:
    """The chosen folder, or the user's own, created and tried; None if it cannot be written."""
    from platformdirs import user_cache_dir

    try:
        folder = Path(chosen).expanduser() if chosen else Path(user_cache_dir("dualembed")) / "xla"
        # Entries hold machine code that JAX will run, so nobody else may write here.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        return folder.resolve()
    except (OSError, RuntimeError):  # RuntimeError: no home folder to expand "~" to
        return None
