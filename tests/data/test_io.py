"""Tables are read by their ending, written whole, and refused in one sentence that names the file."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from dualembed.checks import InputError
from dualembed.data import read_table, write_table

COLUMNS = {"s1": np.array([0.1, 1 / 3, -2e-300]), "action": np.array([0, 1, 2]), "who": np.array(["a", "b,c", "d"])}


def plain(table: pa.Table) -> dict[str, Any]:
    return {name: column.to_pylist() for name, column in zip(table.column_names, table.columns, strict=True)}


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "feather", "CSV"])
def test_what_is_written_is_read_again_to_the_last_bit(tmp_path: Path, ending: str) -> None:
    write_table(COLUMNS, tmp_path / f"log.{ending}")
    assert plain(read_table(tmp_path / f"log.{ending}")) == {name: list(each) for name, each in COLUMNS.items()}
    assert os.listdir(tmp_path) == [f"log.{ending}"]


def test_tables_of_pandas_and_polars_are_read(tmp_path: Path) -> None:
    frame = {"s1": [0.5, 1.5], "name": ["x", "y"]}
    pd.DataFrame(frame).to_csv(tmp_path / "pandas.csv", index=False)
    pl.DataFrame(frame).write_csv(tmp_path / "polars.tsv", separator="\t")
    (tmp_path / "zipped.csv.gz").write_bytes(gzip.compress(b"s1,name\n0.5,x\n1.5,y\n"))
    pd.DataFrame(frame).to_parquet(tmp_path / "pandas.parquet", index=False)
    pl.DataFrame(frame).write_parquet(tmp_path / "polars.parquet")
    pd.DataFrame(frame).to_feather(tmp_path / "pandas.feather")
    pl.DataFrame(frame).write_ipc(tmp_path / "polars.arrow", compression="zstd")
    pl.DataFrame(frame).write_ipc_stream(tmp_path / "stream.arrow")
    for path in tmp_path.iterdir():
        assert plain(read_table(path)) == frame, path.name


def test_a_folder_is_read_in_the_order_of_names_and_its_columns_by_name(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"b": [2.5], "a": [1]}), tmp_path / "part-1.parquet")
    parquet.write_table(pa.table({"a": [0], "b": [1]}), tmp_path / "part-0.parquet")
    (tmp_path / "_SUCCESS").touch()
    assert plain(read_table(tmp_path)) == {"a": [0, 1], "b": [1.0, 2.5]}


def test_a_folder_of_different_columns_is_refused_with_their_names(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [0], "b": [1]}), tmp_path / "0.parquet")
    parquet.write_table(pa.table({"a": [0], "c": [1]}), tmp_path / "1.parquet")
    with pytest.raises(InputError, match=r"same columns, but 0\.parquet and 1\.parquet differ in b, c"):
        read_table(tmp_path)


def test_a_folder_of_different_types_is_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"a": [0]}), tmp_path / "0.parquet")
    parquet.write_table(pa.table({"a": ["x"]}), tmp_path / "1.parquet")
    with pytest.raises(InputError, match="one name but different types"):
        read_table(tmp_path)


@pytest.mark.parametrize("late", ["0.5", "far"])
def test_a_late_row_of_another_type_does_not_stop_the_reading(tmp_path: Path, late: str) -> None:
    # More than a block of whole numbers, from which the type of the column is told.
    (tmp_path / "long.csv").write_text("t,s1\n" + "7,1\n" * 400_000 + f"7,{late}\n")
    table = read_table(tmp_path / "long.csv")
    assert table.num_rows == 400_001
    assert str(table["s1"][-1].as_py()) == late
    assert table["t"].type == pa.int64()


BAD_FILES = {
    "empty.csv": (b"", "is empty"),
    "empty.parquet": (b"", "is empty"),
    "header.csv": (b"s1,s2\n", r"has columns \(s1, s2\) but no rows"),
    "ragged.csv": (b"s1,s2\n1,2\n3\n", r"ragged\.csv cannot be read as \.csv .*Row #3: Expected 2 columns, got 1"),
    "twice.csv": (b"s1,s1\n1,2\n", "has 2 columns named 's1'"),
    "broken.parquet": (b"PAR1 no more", r"broken\.parquet cannot be read as \.parquet"),
    "broken.arrow": (b"nothing of the kind", r"broken\.arrow cannot be read as \.arrow"),
    "broken.csv.gz": (b"not gzipped", r"broken\.csv\.gz cannot be read as \.csv\.gz"),
    "latin.csv": ("größe\n1\n".encode("latin-1"), r"latin\.csv cannot be read as \.csv"),
    "sheet.xlsx": (b"PK", r"sheet\.xlsx ends in \.xlsx, but a table's name must end in one of \.csv"),
    "noending": (b"1", "noending has no ending"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    content, message = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_table(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "transitions.csv").write_text("a\n1\n")
    with pytest.raises(InputError, match=r"no file .*transition\.csv; did you mean 'transitions\.csv'\?"):
        read_table(tmp_path / "transition.csv")
    with pytest.raises(InputError, match=r"no file .*zzz\.parquet; check the path"):
        read_table(tmp_path / "zzz.parquet")
    with pytest.raises(InputError, match=r"no folder .*nowhere, so log\.csv"):
        read_table(tmp_path / "nowhere" / "log.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"folder .*folder has no \.parquet files"):
        read_table(tmp_path / "folder")


def test_an_unknown_ending_is_refused_before_any_work(tmp_path: Path) -> None:
    class Untouchable(dict[str, Any]):
        def items(self) -> None:  # type: ignore[override]
            raise AssertionError("the columns were read")

    with pytest.raises(InputError, match=r"ends in \.txt, but a table's name must end in one of \.csv, \.parquet"):
        write_table(Untouchable(), tmp_path / "out.txt")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "needs columns"),
        ({"state": np.zeros((2, 3))}, r"state has \(2, 3\); split it"),
        ({"a": [1], "b": [1, 2]}, "equally long, but have these numbers of rows: a 1, b 2"),
    ],
)
def test_bad_columns_leave_the_old_file(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    target = tmp_path / "out.csv"
    target.write_text("old")
    with pytest.raises(InputError, match=message):
        write_table(columns, target)
    assert target.read_text() == "old"


def test_reading_a_table_does_not_wait_for_jax(tmp_path: Path) -> None:
    write_table({"a": [1, 2]}, tmp_path / "a.csv")
    code = (
        "import sys; from dualembed.data import read_table, to_numbers, select_columns, condition\n"
        f"to_numbers(read_table({str(tmp_path / 'a.csv')!r}), 'a', '--state')\n"
        "assert 'jax' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
