"""`dualembed reproduce`: run one of the paper's experiments and write its results."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from dualembed.experiments import NAMES

_TRIALS, _QUICK_TRIALS = 10, 2
_LEDGER = "trials.jsonl"
_JOBS = 4

_HELP = "\n\n".join(
    [
        "Run an experiment; write results.json, figure.png and figure.pdf, and print the final table.",
        "\b\nExperiments:\n" + "\n".join(f"  {name:<14}{line}" for name, line in NAMES.items()),
        "Every method is run at the settings on record; --sweep chooses among those of its grid again and uses what "
        "it finds. What has been computed is kept in DIR/trials.jsonl: an interrupted run goes on where it stopped, "
        "and a finished one is drawn again at once.",
        "\b\nExamples:\n"
        "  dualembed reproduce illustration\n"
        "  dualembed reproduce noisy --quick\n"
        "  dualembed reproduce noisy --trials 10 --seed 1 --out results/noisy-1\n"
        "  dualembed reproduce navigation --sweep",
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
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Choose all settings anew first; writes DIR/settings.json. Takes hours.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what DIR has of earlier runs.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes at a time.", show_default="one a core, at most 4")
    ] = None,
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
    if fresh:
        (folder / _LEDGER).unlink(missing_ok=True)
    count = trials or (_QUICK_TRIALS if quick else _TRIALS)
    workers = jobs or min(os.cpu_count() or 1, _JOBS)
    _run(name, count, seed=seed, quick=quick, sweep=sweep, jobs=workers, folder=folder)


reproduce.__doc__ = _HELP


def _run(name: str, trials: int, *, seed: int, quick: bool, sweep: bool, jobs: int, folder: Path) -> None:
    from rich.console import Console

    from dualembed.experiments.base import table, write
    from dualembed.experiments.experiment import named, run
    from dualembed.experiments.ledger import Ledger
    from dualembed.experiments.sweep import sweep as sweep_of
    from dualembed.experiments.sweep import write_settings
    from dualembed.progress import track

    experiment, ledger = named(name), Ledger(folder / _LEDGER)
    if len(ledger):
        typer.echo(f"Going on with {folder / _LEDGER}; --fresh starts anew.")
    chosen = None
    if sweep:
        found = sweep_of(experiment, quick=quick, progress=track, ledger=ledger)
        chosen = found["chosen"]
        typer.echo(f"Wrote {write_settings(found, folder)}")
    report = run(
        experiment, trials=trials, seed=seed, quick=quick, progress=track, ledger=ledger, chosen=chosen, jobs=jobs
    )
    results, figure = write(report, folder)
    Console().print(table(report))
    typer.echo(f"Wrote {results} and {figure}")


def _no_such(name: str) -> NoReturn:
    near = difflib.get_close_matches(name.lower(), NAMES, n=1, cutoff=0.5)
    advice = f"did you mean '{near[0]}'?" if near else f"choose one of: {', '.join(NAMES)}"
    typer.echo(f"dualembed: there is no experiment named '{name}'; {advice}", err=True)
    raise typer.Exit(2)
