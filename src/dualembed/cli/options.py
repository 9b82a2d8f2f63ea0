"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Table = Annotated[
    Path, typer.Argument(metavar="TABLE", help="A CSV, Parquet or Arrow file, or a folder of Parquet files.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file that `dualembed fit` has written.")]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Drop rows that lack a number.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else.")]
