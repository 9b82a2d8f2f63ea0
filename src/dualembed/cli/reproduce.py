"""`dualembed reproduce`: run one of the paper's experiments and write its results."""

from __future__ import annotations

import difflib
import importlib
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from dualembed.experiments import NAMES

_TRIALS, _QUICK_TRIALS = 10, 2

_HELP = "\n\n".join(
    [
        "Run an experiment; write results.json and figure.png, and print the final table.",
        "\b\nExperiments:\n" + "\n".join(f"  {name:<14}{line}" for name, line in NAMES.items()),
        "\b\nExamples:\n"
        "  dualembed reproduce illustration\n"
        "  dualembed reproduce noisy --quick\n"
        "  dualembed reproduce noisy --trials 10 --seed 1 --out results/noisy-1",
    ]
)


def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The experiment's name.", autocompletion=lambda: list(NAMES))
    ],
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="Independent trials.", show_default=f"{_TRIALS}, or {_QUICK_TRIALS} with --quick"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seeds everything random.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in under a minute.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the results.", show_default="results/NAME"),
    ] = None,
) -> None:
    if name not in NAMES:
        _no_such(name)
    from dualembed.files import folder_for_writing

    # Before hours of work rather than after them.
    folder = folder_for_writing(out if out is not None else Path("results") / name)
    _run(name, trials or (_QUICK_TRIALS if quick else _TRIALS), seed=seed, quick=quick, folder=folder)


reproduce.__doc__ = _HELP


def _run(name: str, trials: int, *, seed: int, quick: bool, folder: Path) -> None:
    from rich.console import Console

    from dualembed.experiments.base import table, write
    from dualembed.progress import track

    experiment = importlib.import_module(f"dualembed.experiments.{name}")
    report = experiment.run(trials=trials, seed=seed, quick=quick, progress=track)
    results, figure = write(report, folder)
    Console().print(table(report))
    typer.echo(f"Wrote {results} and {figure}")


def _no_such(name: str) -> NoReturn:
    near = difflib.get_close_matches(name.lower(), NAMES, n=1, cutoff=0.5)
    advice = f"did you mean '{near[0]}'?" if near else f"choose one of: {', '.join(NAMES)}"
    typer.echo(f"dualembed: there is no experiment named '{name}'; {advice}", err=True)
    raise typer.Exit(2)
