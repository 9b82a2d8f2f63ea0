"""The options that name columns, and those that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def _columns(option: str, text: str, metavar: str = "COLUMNS") -> Any:
    return typer.Option(option, metavar=metavar, help=text, show_default=False)


State = Annotated[str | None, _columns("--state", "Where the process is.")]
Action = Annotated[str | None, _columns("--action", "What was done there.")]
Reward = Annotated[str | None, _columns("--reward", "What it brought.", "COLUMN")]
NextState = Annotated[str | None, _columns("--next-state", "Where it led, one for each of --state.")]
Terminated = Annotated[str | None, _columns("--terminated", "1 where nothing follows; 0 at a time limit.", "COLUMN")]
Weight = Annotated[str | None, _columns("--weight", "Importance weights, for data of another policy.", "COLUMN")]
Episode = Annotated[str | None, _columns("--episode", "Label of rows that depend on each other.", "COLUMN")]
X = Annotated[str | None, _columns("--x", "Causes, whose effect is asked for.")]
Y = Annotated[str | None, _columns("--y", "The outcome.", "COLUMN")]
Instrument = Annotated[str | None, _columns("--instrument", "What moves x, and y through x only.")]
Control = Annotated[str | None, _columns("--control", "What y depends on besides, moved by nothing hidden.")]
NextAction = Annotated[str | None, _columns("--next-action", "What the evaluated policy does at the next state.")]
Cost = Annotated[str | None, _columns("--cost", "What being in the state costs.", "COLUMN")]
Terminal = Annotated[str | None, _columns("--terminal", "1 where the next state is an end.", "COLUMN")]
TerminalCost = Annotated[str | None, _columns("--terminal-cost", "What that end costs; 0 if left out.", "COLUMN")]

Table = Annotated[
    Path, typer.Argument(metavar="TABLE", help="A CSV, Parquet or Arrow file, or a folder of Parquet files.")
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file that `dualembed fit` has written.")]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Drop rows that lack a number.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else.")]
