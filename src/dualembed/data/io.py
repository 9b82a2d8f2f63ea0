"""Tables in files: CSV, Parquet and Arrow, read by the ending of their name, whole or in parts, and written whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dualembed.checks import InputError, nearest, some
from dualembed.files import atomic

if TYPE_CHECKING:
    import pyarrow as pa

Change = Callable[["pa.Table"], "pa.Table"]
READABLE = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".arrow", ".feather")
WRITABLE = (".csv", ".parquet", ".arrow", ".feather")
ROWS = 50_000  # in a part
BLOCK = 2**24  # bytes of text in a part


class NeedsWholeTableError(Exception):
    """A part cannot be judged by itself: types, or numbers of rows, are those of the whole table."""


def read_table(path: str | os.PathLike[str]) -> pa.Table:
    """Read a table from a file, or from a folder of Parquet files.

    Parameters
    ----------
    path : str or path
        A CSV or TSV file (either may be gzipped), a Parquet, Arrow or Feather file, or a folder of Parquet files with
        the same columns, read in the order of their names. A column of vectors becomes one for each coordinate, such
        as obs_0 and obs_1.

    Returns
    -------
    pyarrow.Table
        The table.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table({"s1": [0.5, 1.0], "action": [0, 1]}, f"{folder}/log.csv")
    ...     read_table(f"{folder}/log.csv").to_pydict()
    {'s1': [0.5, 1.0], 'action': [0, 1]}
    """
    path = Path(path).expanduser()
    check_exists(path)
    table = _read_folder(path) if path.is_dir() else _read_file(path)
    if not table.num_rows:
        raise InputError(f"{path} has columns ({some(table.column_names)}) but no rows; give a table with data")
    return _spread(table)


def _spread(table: pa.Table) -> pa.Table:
    """The table with a column for each coordinate of those that hold vectors, all of one length."""
    import pyarrow as pa
    from pyarrow import compute

    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    for place, name in reversed(list(enumerate(table.column_names))):
        column = table.column(name)
        if not any(kind(column.type) for kind in kinds) or column.null_count:
            continue
        lengths = compute.unique(compute.list_value_length(column)).to_pylist()
        if len(lengths) != 1 or not lengths[0]:
            continue
        table = table.remove_column(place)
        for number in range(lengths[0]):
            table = table.add_column(place + number, f"{name}_{number}", compute.list_element(column, number))
    return table


def write_table(columns: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write columns to a file, whole or not at all.

    Parameters
    ----------
    columns : dict of arrays of shape (n,)
        Columns by name.
    path : str or path
        A CSV, Parquet, Arrow or Feather file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_table({"s1": [0.5], "value": [2.0]}, f"{folder}/values.csv")
    ...     print(Path(folder, "values.csv").read_text(), end="")
    "s1","value"
    0.5,2
    """
    path = Path(path).expanduser()
    ending = _ending(path, WRITABLE)
    table = _table(columns)
    with atomic(path) as temporary:
        if ending == ".csv":
            from pyarrow import csv

            csv.write_csv(table, temporary)
        elif ending == ".parquet":
            from pyarrow import parquet

            parquet.write_table(table, temporary)
        else:
            from pyarrow import feather

            feather.write_feather(table, str(temporary))


def read_parts(path: str | os.PathLike[str]) -> Iterator[pa.Table]:
    """The table that `read_table` reads, a few rows at a time; what is wrong with the file is for that one to say.

    A `NeedsWholeTableError` says that parts will not do.
    """
    path = Path(path).expanduser()
    name = path.name.lower().removesuffix(".gz")
    if path.is_dir():
        return _folder_parts(path)
    if name.endswith(".parquet"):
        return _parquet_parts(path)
    if name.endswith((".csv", ".tsv")):
        return _text_parts(path, "\t" if name.endswith(".tsv") else ",")
    return iter([read_table(path)])  # Arrow files are memory as it is


def table_writer(path: Path, schema: pa.Schema) -> Any:
    """What writes tables of the schema one after the other, by the ending of the name."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    ending = path.suffix.lower()
    if ending == ".csv":
        return csv.CSVWriter(path, schema)
    return parquet.ParquetWriter(path, schema) if ending == ".parquet" else pa.ipc.new_file(str(path), schema)


def transform_file(source: Path, path: Path, change: Change) -> tuple[int, int]:
    """Write to path what `change` makes of the table at source, part after part: (rows read, rows written).

    Where something is wrong with a later part (text may turn out to be of another type than it began with), all is done
    once more with the whole table: its types are then known, and errors count rows from the first.
    """
    import pyarrow as pa

    try:
        return _changed(read_parts(source), path, change)
    except (NeedsWholeTableError, pa.ArrowException, OSError):
        whole = read_table(source)
    try:
        return _changed([whole], path, change)
    except pa.ArrowException as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{path} cannot hold this table's columns ({reason}); write a .parquet file instead") from None


def check_exists(path: Path) -> None:
    """Raise unless there is a file or folder at path, with the nearest name that there is."""
    if path.exists():
        return
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}, so {path.name} cannot be read from it; check the path")
    names = [each.name for each in path.parent.iterdir()]
    raise InputError(f"there is no file {path}{nearest(path.name, names) or '; check the path'}")


def _table(columns: Mapping[str, Any]) -> pa.Table:
    import pyarrow as pa

    arrays = {name: np.asarray(column) for name, column in columns.items()}
    if not arrays:
        raise InputError("a table to be written needs columns, but there are none; give at least one")
    for name, array in arrays.items():
        if array.ndim != 1:
            raise InputError(
                f"a column of a table must have shape (rows,), but {name} has {array.shape}; split it first"
            )
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) > 1:
        each = ", ".join(f"{name} {len(array)}" for name, array in arrays.items())
        raise InputError(f"columns of a table must be equally long, but have these numbers of rows: {each}")
    return pa.table({name: pa.array(array) for name, array in arrays.items()})


def _ending(path: Path, known: tuple[str, ...]) -> str:
    """The one of the known endings that the name has, the longest where several fit."""
    fitting = [ending for ending in known if path.name.lower().endswith(ending)]
    if not fitting:
        found = f"ends in {path.suffix}" if path.suffix else "has no ending"
        raise InputError(f"the name {path.name} {found}, but a table's name must end in one of {', '.join(known)}")
    return max(fitting, key=len)


def _parquet_files(folder: Path) -> list[Path]:
    # Names that start with a dot or an underscore are marks that other programs leave, not data.
    return sorted(path for path in folder.glob("*.parquet") if not path.name.startswith((".", "_")))


def _read_folder(folder: Path) -> pa.Table:
    import pyarrow as pa

    paths = _parquet_files(folder)
    if not paths:
        raise InputError(f"the folder {folder} has no .parquet files in it; name a file, or a folder of Parquet files")
    tables = [_read_file(path) for path in paths]
    names = tables[0].column_names
    for path, table in zip(paths, tables, strict=True):
        odd = sorted(set(names) ^ set(table.column_names))
        if odd:
            raise InputError(
                f"the files of {folder} must have the same columns, but {paths[0].name} and {path.name} differ in "
                f"{some(odd)}; move one of them elsewhere"
            )
    try:
        # Permissive: a column that is whole numbers in one file and fractions in another is fractions.
        return pa.concat_tables([table.select(names) for table in tables], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InputError(
            f"the files of {folder} have columns of one name but different types: {_reason(error)}"
        ) from None


def _read_file(path: Path) -> pa.Table:
    import pyarrow as pa

    ending = _ending(path, READABLE)
    try:
        if not path.stat().st_size:
            raise InputError(f"{path} is empty; give a file with a table in it")
        table = _reader(ending)(path)
        names = table.column_names
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as {ending} ({_reason(error)}); mend it or write it again") from None
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"{path} has {twice.count(twice[0])} columns named {twice[0]!r}; give each a name of its own")
    return table


def _reason(error: Exception) -> str:
    """The first line of what went wrong."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.strip().splitlines()[0][:200].rstrip(".") if text.strip() else type(error).__name__


def _reader(ending: str) -> Callable[[Path], pa.Table]:
    if ending == ".parquet":
        return _read_parquet
    if ending in (".arrow", ".feather"):
        return _read_arrow
    return lambda path: _read_text(path, "\t" if ending.startswith(".tsv") else ",")


def _read_parquet(path: Path) -> pa.Table:
    from pyarrow import parquet

    # Opened as one file: `parquet.read_table` would take folder names like year=2024 for columns.
    return parquet.ParquetFile(path).read()


def _read_arrow(path: Path) -> pa.Table:
    import pyarrow as pa
    from pyarrow import feather

    try:
        return feather.read_table(str(path), memory_map=False)
    except pa.ArrowInvalid as error:
        # The streaming format has the same ending and no mark of its own at the start.
        try:
            with pa.OSFile(str(path)) as file:
                return pa.ipc.open_stream(file).read_all()
        except (pa.ArrowException, OSError):
            raise error from None


def _read_text(path: Path, delimiter: str) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    options = _text_options(delimiter)
    try:
        return csv.read_csv(path, **options)
    except pa.ArrowInvalid:
        # Once more for a better message: only one thread alone knows the number of the row it stumbles over.
        return csv.read_csv(path, read_options=csv.ReadOptions(use_threads=False), **options)


def _text_options(delimiter: str) -> dict[str, Any]:
    from pyarrow import csv

    return {
        "parse_options": csv.ParseOptions(delimiter=delimiter),
        "convert_options": csv.ConvertOptions(strings_can_be_null=True),
    }


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

    paths = _parquet_files(folder)
    schemas = [parquet.read_schema(path) for path in paths]
    if not paths or any(set(schema.names) != set(schemas[0].names) for schema in schemas):
        raise NeedsWholeTableError
    joint = pa.unify_schemas(schemas, promote_options="permissive")
    for path in paths:
        for part in _parquet_parts(path):
            yield part.select(joint.names).cast(joint)


def _text_parts(path: Path, delimiter: str) -> Iterator[pa.Table]:
    import pyarrow as pa
    from pyarrow import csv

    reader = csv.open_csv(path, read_options=csv.ReadOptions(block_size=BLOCK), **_text_options(delimiter))
    with reader:
        _check_names(reader.schema.names)
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _check_names(names: list[str]) -> None:
    if len(set(names)) < len(names):
        raise NeedsWholeTableError


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
            raise NeedsWholeTableError
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
        raise NeedsWholeTableError from error
