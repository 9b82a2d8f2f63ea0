"""`dualembed reproduce`: run one of the paper's experiments and write its results."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from dualembed.experiments import NAMES

if TYPE_CHECKING:
    from dualembed.experiments.experiment import Experiment, Settings
    from dualembed.experiments.run import Ledger

_TRIALS, _QUICK_TRIALS = 10, 2
_TRIALS_LEDGER, _SWEEP_LEDGER = "trials.jsonl", "sweep.jsonl"
_JOBS = 4

_HELP = "\n\n".join(
    [
        "Run an experiment; write results.json, figure.png and figure.pdf, and print the final table.",
        "\b\nExperiments:\n" + "\n".join(f"  {name:<14}{line}" for name, line in NAMES.items()),
        "Every method is run at the settings on record; --sweep chooses among those of its grid again and uses what "
        "it finds. What has been computed is kept in DIR, in trials.jsonl and sweep.jsonl: an interrupted run goes on "
        "where it stopped, and a finished one is drawn again at once.",
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
    from dualembed.cli.interrupts import saying
    from dualembed.files import folder_for_writing

    # Before hours of work rather than after them.
    folder = folder_for_writing(out if out is not None else Path("results") / name)
    if fresh:
        for ledger in (_TRIALS_LEDGER, _SWEEP_LEDGER):
            (folder / ledger).unlink(missing_ok=True)
    count = trials or (_QUICK_TRIALS if quick else _TRIALS)
    workers = jobs or min(os.cpu_count() or 1, _JOBS)
    stopped = f"stopped; what was computed is kept in {folder}, and the same command goes on from there"
    with saying(stopped):
        _run(name, count, seed=seed, quick=quick, sweep=sweep, jobs=workers, folder=folder, stopped=stopped)


reproduce.__doc__ = _HELP


def _run(name: str, trials: int, *, seed: int, quick: bool, sweep: bool, jobs: int, folder: Path, stopped: str) -> None:
    from rich.console import Console

    from dualembed.cli.interrupts import ending_at_once
    from dualembed.progress import track

    with ending_at_once(stopped):  # JAX comes with these, during whose import interrupts get lost, too
        from dualembed.experiments.experiment import named
        from dualembed.experiments.report import table, write
        from dualembed.experiments.run import run

        experiment = named(name)
    chosen = _swept(experiment, quick=quick, jobs=jobs, folder=folder, stopped=stopped) if sweep else None
    ledger = _ledger(folder / _TRIALS_LEDGER)
    with ending_at_once(stopped):
        report = run(
            experiment, trials=trials, seed=seed, quick=quick, progress=track, ledger=ledger, chosen=chosen, jobs=jobs
        )
    results, figure = write(report, folder)
    Console().print(table(report))
    typer.echo(f"Wrote {results} and {figure}")


def _swept(experiment: Experiment, *, quick: bool, jobs: int, folder: Path, stopped: str) -> dict[str, Settings]:
    """The settings that the sweep chooses, written to the folder."""
    from dualembed.cli.interrupts import ending_at_once
    from dualembed.experiments.sweep import sweep, write_settings
    from dualembed.progress import track

    ledger = _ledger(folder / _SWEEP_LEDGER)
    with ending_at_once(stopped):
        found = sweep(experiment, quick=quick, progress=track, ledger=ledger, jobs=jobs)
    typer.echo(f"Wrote {write_settings(found, folder)}")
    return found["chosen"]


def _ledger(path: Path) -> Ledger:
    from dualembed.experiments.run import Ledger

    ledger = Ledger(path)
    if len(ledger):
        typer.echo(f"Going on with {path}; --fresh starts anew.")
    return ledger


def _no_such(name: str) -> NoReturn:
    near = difflib.get_close_matches(name.lower(), NAMES, n=1, cutoff=0.5)
    advice = f"did you mean '{near[0]}'?" if near else f"choose one of: {', '.join(NAMES)}"
    typer.echo(f"dualembed: there is no experiment named '{name}'; {advice}", err=True)
    raise typer.Exit(2)
