"""Tables in parts: read and written a few rows at a time, so that memory does not grow with the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualembed.checks import InputError
from dualembed.data import read_table
from dualembed.files import atomic

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 50_000
BLOCK = 2**24  # bytes of text that are read at a time

Change = Callable[["pa.Table"], "pa.Table"]


class PartError(Exception):
    """A part cannot be judged by itself: types, or numbers of rows, are those of the whole table."""


def change_table(source: Path, path: Path, change: Change) -> tuple[int, int]:
    """Write to path what `change` makes of the table at source, part after part: (rows read, rows written).

    Where something is wrong with a later part (text may turn out to be of another type than it began with), all is done
    once more with the whole table: its types are then known, and errors count rows from the first.
    """
    import pyarrow as pa

    try:
        return _changed(_parts(source), path, change)
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
            writer = writer or closing.enter_context(_writer(temporary, changed.schema))
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


def _writer(path: Path, schema: pa.Schema) -> Any:
    """What writes tables of the schema one after the other, by the ending of the name."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    ending = path.suffix.lower()
    if ending == ".csv":
        return csv.CSVWriter(path, schema)
    return parquet.ParquetWriter(path, schema) if ending == ".parquet" else pa.ipc.new_file(str(path), schema)


def _parts(path: Path) -> Iterator[pa.Table]:
    """The table in parts; what is wrong with the file is for `read_table` to say."""
    path = path.expanduser()
    name = path.name.lower().removesuffix(".gz")
    if path.is_dir():
        return _folder_parts(path)
    if name.endswith(".parquet"):
        return _parquet_parts(path)
    if name.endswith((".csv", ".tsv")):
        return _text_parts(path, "\t" if name.endswith(".tsv") else ",")
    return iter([read_table(path)])  # Arrow files are memory as it is


def _parquet_parts(path: Path) -> Iterator[pa.Table]:
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        _check_names(file.schema_arrow.names)
        for batch in file.iter_batches(ROWS):
            yield pa.Table.from_batches([batch])


def _folder_parts(folder: Path) -> Iterator[pa.Table]:
    import pyarrow as pa
    from pyarrow import parquet

    paths = sorted(path for path in folder.glob("*.parquet") if not path.name.startswith((".", "_")))
    schemas = [parquet.read_schema(path) for path in paths]
    if not paths or any(set(schema.names) != set(schemas[0].names) for schema in schemas):
        raise PartError
    joint = pa.unify_schemas(schemas, promote_options="permissive")
    for path in paths:
        for part in _parquet_parts(path):
            yield part.select(joint.names).cast(joint)


def _text_parts(path: Path, delimiter: str) -> Iterator[pa.Table]:
    import pyarrow as pa
    from pyarrow import csv

    reader = csv.open_csv(
        path,
        read_options=csv.ReadOptions(block_size=BLOCK),
        parse_options=csv.ParseOptions(delimiter=delimiter),
        convert_options=csv.ConvertOptions(strings_can_be_null=True),
    )
    with reader:
        _check_names(reader.schema.names)
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _check_names(names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise PartError
