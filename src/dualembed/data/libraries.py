"""Frames of the caller's own library: which one it is, and how one is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw

EAGER = ("pandas", "polars", "pyarrow", "modin", "cudf")  # libraries of frames that hold their values


def library_of(*tables: Any) -> str:
    """The library of the first of these that is a data frame or a series, such as "pandas"; nothing where none is.

    >>> import pyarrow
    >>> library_of([1.0, 2.0], pyarrow.table({"x": [1.0]}))
    'pyarrow'
    """
    for table in tables:
        known = None if isinstance(table, dict) else nw.from_native(table, pass_through=True, allow_series=True)
        if isinstance(known, nw.DataFrame | nw.LazyFrame | nw.Series):
            return str(known.implementation.value)
    return ""


def make_frame(columns: Mapping[str, Sequence[Any]], library: str = "") -> Any:
    """A frame of that library; where it makes none, or is not installed, of pandas, or else of Arrow.

    >>> make_frame({"term": ["educ"], "estimate": [0.13]}, "pyarrow").column_names
    ['term', 'estimate']
    """
    for name in (library, "pandas"):
        if name in EAGER:
            try:
                return nw.from_dict(dict(columns), backend=nw.Implementation(name)).to_native()  # type: ignore[arg-type]
            except ImportError:
                continue
    import pyarrow

    return pyarrow.table(dict(columns))
