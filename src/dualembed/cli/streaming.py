"""Tables changed part after part, so that memory does not grow with the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualembed.checks import InputError
from dualembed.data.io import PartError, read_parts, read_table, table_writer
from dualembed.files import atomic

if TYPE_CHECKING:
    import pyarrow as pa

Change = Callable[["pa.Table"], "pa.Table"]


def change_table(source: Path, path: Path, change: Change) -> tuple[int, int]:
    """Write to path what `change` makes of the table at source, part after part: (rows read, rows written).

    Where something is wrong with a later part (text may turn out to be of another type than it began with), all is done
    once more with the whole table: its types are then known, and errors count rows from the first.
    """
    import pyarrow as pa

    try:
        return _changed(read_parts(source), path, change)
    except (PartError, pa.ArrowException, OSError):
        whole = read_table(source)
    try:
        return _changed([whole], path, change)
    except pa.ArrowException as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path} cannot hold this table's columns ({reason}); write a .parquet file instead") from None


def _changed(parts: Iterable[pa.Table], path: Path, change: Change) -> tuple[int, int]:
    rows = written = 0
    with atomic(path) as temporary, ExitStack() as closing:
        writer: Any = None
        for part in parts:
            changed = _judged(part, change, first=not rows)
            writer = writer or closing.enter_context(table_writer(temporary, changed.schema))
            writer.write_table(changed)
            rows, written = rows + part.num_rows, written + changed.num_rows
        if not rows:
            raise PartError
        if not written:
            raise InputError(
                f"every one of {rows:,} rows lacks a number, so that --drop-missing leaves none; fill them"
            )
    return rows, written


def _judged(part: pa.Table, change: Change, *, first: bool) -> pa.Table:
    try:
        return change(part)
    except InputError as error:
        if first:
            raise
        raise PartError from error
