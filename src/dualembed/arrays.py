"""What arrays are called in signatures; `numpy.typing.ArrayLike` is what users may give for one."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
"""Real numbers of NumPy."""

Integers: TypeAlias = NDArray[np.integer[Any]]
"""Whole numbers of NumPy: labels, row numbers, counts."""

Booleans: TypeAlias = NDArray[np.bool_]
"""Marks of NumPy: which rows or columns are meant."""

AnyArray: TypeAlias = Any
"""Numbers of NumPy or of JAX, and of the same kind where a function returns them; a union of both suits neither."""
