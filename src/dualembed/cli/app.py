"""The command `dualembed` and its options; each subcommand is in a module of its own.

Nothing here imports JAX, NumPy or matplotlib: `--help` must answer at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from dualembed import __version__
from dualembed.cli.ask import ask
from dualembed.cli.experiments import bench, reproduce
from dualembed.cli.fit import fit_command
from dualembed.cli.options import FitCommand, load_plug_in
from dualembed.cli.policies import compare
from dualembed.cli.saved import info, predict, score


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dualembed {__version__}")
        raise typer.Exit


def dualembed(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Learn from conditional distributions with dual embeddings."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def command(arguments: Sequence[str] | None = None) -> Any:
    """The whole command line as one callable command, for these arguments (default: the process's own)."""
    load_plug_in(sys.argv[1:] if arguments is None else arguments)
    # Plain help texts: rich ones would double the time that --help takes.
    app = typer.Typer(
        name="dualembed",
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(dualembed)
    app.command("fit", cls=FitCommand, short_help="Fit a model to a table and say what it found.")(fit_command())
    app.command(short_help="Write a model's predictions beside a table.")(predict)
    app.command(short_help="Ask a model for one number, its error and a verdict.")(ask)
    app.command(short_help="Compare policies on one log: values, differences, the best.")(compare)
    app.command(short_help="Tell a model's honest error on other rows.")(score)
    app.command(short_help="Show what a model file holds.")(info)
    app.command(short_help="Run one of the paper's experiments.")(reproduce)
    app.command(short_help="Compare with rivals on known errors.")(bench)
    return typer.main.get_command(app)
