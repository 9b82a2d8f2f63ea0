"""`dualembed reproduce` and `dualembed bench`: the paper's experiments, and comparisons with rivals on known errors."""

from __future__ import annotations

import importlib
import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from dualembed.experiments import NAMES

if TYPE_CHECKING:
    from dualembed.experiments.experiment import Experiment, Settings
    from dualembed.experiments.run import Ledger

_TRIALS, _QUICK_TRIALS = 10, 2
_TRIALS_LEDGER, _SWEEP_LEDGER = "trials.jsonl", "sweep.jsonl"
_JOBS = 4

_REPRODUCE_HELP = "\n\n".join(
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
        _refuse("experiment", name, NAMES)
    from dualembed.cli.console import on_interrupt
    from dualembed.files import folder_for_writing

    # Before hours of work rather than after them.
    folder = folder_for_writing(out if out is not None else Path("results") / name)
    if fresh:
        for ledger in (_TRIALS_LEDGER, _SWEEP_LEDGER):
            (folder / ledger).unlink(missing_ok=True)
    count = trials or (_QUICK_TRIALS if quick else _TRIALS)
    workers = jobs or min(os.cpu_count() or 1, _JOBS)
    stopped = f"stopped; what was computed is kept in {folder}, and the same command goes on from there"
    with on_interrupt(stopped):
        _reproduce(name, count, seed=seed, quick=quick, sweep=sweep, jobs=workers, folder=folder, stopped=stopped)


reproduce.__doc__ = _REPRODUCE_HELP


def _reproduce(
    name: str, trials: int, *, seed: int, quick: bool, sweep: bool, jobs: int, folder: Path, stopped: str
) -> None:
    from rich.console import Console

    from dualembed.cli.console import exit_on_interrupt
    from dualembed.progress import track

    with exit_on_interrupt(stopped):  # JAX comes with these, during whose import interrupts get lost, too
        from dualembed.experiments.experiment import find_experiment
        from dualembed.experiments.report import table, write
        from dualembed.experiments.run import run

        experiment = find_experiment(name)
    chosen = _sweep(experiment, quick=quick, jobs=jobs, folder=folder, stopped=stopped) if sweep else None
    ledger = _ledger(folder / _TRIALS_LEDGER)
    with exit_on_interrupt(stopped):
        report = run(
            experiment, trials=trials, seed=seed, quick=quick, progress=track, ledger=ledger, chosen=chosen, jobs=jobs
        )
    results, figure = write(report, folder)
    Console().print(table(report))
    typer.echo(f"Wrote {results} and {figure}")


def _sweep(experiment: Experiment, *, quick: bool, jobs: int, folder: Path, stopped: str) -> dict[str, Settings]:
    """The settings that the sweep chooses, written to the folder."""
    from dualembed.cli.console import exit_on_interrupt
    from dualembed.experiments.sweep import sweep, write_settings
    from dualembed.progress import track

    ledger = _ledger(folder / _SWEEP_LEDGER)
    with exit_on_interrupt(stopped):
        results = sweep(experiment, quick=quick, progress=track, ledger=ledger, jobs=jobs)
    typer.echo(f"Wrote {write_settings(results, folder)}")
    return results["chosen"]


def _ledger(path: Path) -> Ledger:
    from dualembed.experiments.run import Ledger

    ledger = Ledger(path)
    if len(ledger):
        typer.echo(f"Going on with {path}; --fresh starts anew.")
    return ledger


# A benchmark is a function of a module, `bench(*, trials, seed, quick, progress)` where no other is named, which gives
# dictionaries with the keys below and whatever else it has to say of a comparison. Naming it here imports nothing.
BENCHES: dict[str, tuple[str, str]] = {
    "garnet": ("dualembed.experiments.bench_garnet", "off-policy evaluation in random finite decision processes"),
    "fqe": ("dualembed.experiments.bench_fqe", "a policy's value from logs of another, against d3rlpy's FQE"),
    "fqe-worlds": (
        "dualembed.experiments.bench_fqe:bench_worlds",
        "the same in five environments, at several lengths of training",
    ),
    "answers": ("dualembed.experiments.bench_answers", "default answers, told nothing, where the truth is known"),
    "worlds": ("dualembed.experiments.bench_processes", "committors, long-run averages and rates of known processes"),
    "speed": ("dualembed.experiments.bench_speed", "what a user waits for, beside the machine's limits and other ways"),
}
"""Every benchmark's name, with its module and one line about it, in the order in which they are listed and run."""

# Of these the function takes `case` and `kind` too, and gives its lines one by one; `tables(lines)` are their tables.
WITH_CASES = {"answers": 20, "fqe-worlds": 3, "worlds": 20, "speed": 1}
"""Benchmarks whose cases can be chosen, with the trials of a case."""

KEYS = ("bench", "case", "peer", "value", "unit", "ratio", "target")

_BENCH_HELP = "\n\n".join(
    [
        "Compare with rivals at their best settings: one benchmark, or all of them.",
        "\b\nBenchmarks:\n" + "\n".join(f"  {name:<14}{line}" for name, (_, line) in BENCHES.items()),
        "A ratio is the rival's error over ours, and holds where it is at least its target. What is compared is the "
        "error named in the first column; another one, where there is one, is shown in the last.",
        "\b\nExamples:\n  dualembed bench garnet --quick\n  dualembed bench garnet --trials 10 --json\n"
        "  dualembed bench answers --set on-policy --case 'cartpole*'",
    ]
)


def bench(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="The benchmark's name; all of them where none is given.",
            show_default=False,
            autocompletion=lambda: list(BENCHES),
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="Independent trials.", show_default=f"{_TRIALS}, or {_QUICK_TRIALS} with --quick"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31 - 1, help="Seeds everything random.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, in about a minute.")] = False,
    case: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Only cases of such a name, as in 'cartpole*' (answers, worlds ...)."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--set", metavar="NAME", help="Only this set: hitting, on-policy, off-policy, garnet (answers)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, and nothing else.")] = False,
) -> None:
    if name is not None and name not in BENCHES:
        _refuse("benchmark", name, BENCHES)
    only = {key: value for key, value in (("case", case), ("kind", kind)) if value is not None}
    if only and name not in WITH_CASES:
        typer.echo(f"dualembed: --case and --set are for the benchmark {' and '.join(WITH_CASES)}; name it", err=True)
        raise typer.Exit(2)
    for each in BENCHES if name is None else [name]:
        count = trials or (_QUICK_TRIALS if quick else WITH_CASES.get(each, _TRIALS))
        run = _bench_or_skip if name is None else _bench
        run(each, as_json=as_json, trials=count, seed=seed, quick=quick, **only)


bench.__doc__ = _BENCH_HELP


def _bench_or_skip(name: str, *, as_json: bool, **settings: Any) -> None:
    """Run one of all benchmarks; where its rival is not installed, say so and leave the others their turn."""
    from dualembed.checks import InputError

    try:
        _bench(name, as_json=as_json, **settings)
    except InputError as error:
        typer.echo(f"dualembed: left out '{name}': {error}", err=True)


def _bench(name: str, *, as_json: bool, **settings: Any) -> None:
    from dualembed.cli.console import exit_on_interrupt
    from dualembed.progress import track

    with exit_on_interrupt(f"stopped; nothing is kept of '{name}'"):
        place, _, function = BENCHES[name][0].partition(":")
        module = importlib.import_module(place)
        lines = []
        for line in getattr(module, function or "bench")(progress=track, **settings):
            lines.append(line)
            if as_json:
                typer.echo(json.dumps(_finite(line), ensure_ascii=False, allow_nan=False))
    if as_json:
        return
    if name in WITH_CASES:
        _print_tables(module.tables(lines))
    else:
        _print_lines(lines)


def _finite(found: Any) -> Any:
    """The same with null for numbers that are none, such as the error of an answer that is infinite."""
    if isinstance(found, dict):
        return {name: _finite(each) for name, each in found.items()}
    return None if isinstance(found, float) and not math.isfinite(found) else found


def _print_tables(tables: Iterable[Any]) -> None:
    from rich.console import Console

    for table in tables:
        Console().print(table)


def _print_lines(lines: list[dict[str, Any]]) -> None:
    """A table for each case, rivals in the order they come, and how many of the comparisons hold."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for case in dict.fromkeys(line["case"] for line in lines):
        own = [line for line in lines if line["case"] == case]
        grid = Table(title=f"{own[0]['bench']}: {case}", title_justify="left")
        grid.add_column("rival")
        for heading in (own[0]["unit"], "ratio", "target", "holds", *(["RMSE"] if "rmse" in own[0] else [])):
            grid.add_column(heading, justify="right", no_wrap=True)
        if "ours" in own[0]:
            grid.add_row("(ours)", f"{own[0]['ours']:.3g}", "", "", "", *_rounded(own[0], "rmse of ours"))
        for line in own:
            ratio, target = f"{line['ratio']:.2f}", f"{line['target']:.3g}"
            holds = "yes" if line["ratio"] >= line["target"] else "no"
            grid.add_row(str(line["peer"]), f"{line['value']:.3g}", ratio, target, holds, *_rounded(line, "rmse"))
        console.print(grid)
    holding = sum(line["ratio"] >= line["target"] for line in lines)
    compared = " and ".join(dict.fromkeys(line["unit"] for line in lines))
    beside = "; RMSE is shown beside it, not compared" if any("rmse" in line for line in lines) else ""
    rule = f"the ratio of the rival's {compared} to ours is at its target"
    typer.echo(f"{holding} of {len(lines)} comparisons hold: {rule}{beside}.")


def _rounded(line: dict[str, Any], name: str) -> list[str]:
    return [f"{line[name]:.3g}"] if name in line else []


def _refuse(kind: str, name: str, names: Iterable[str]) -> NoReturn:
    """Raise with the nearest name that there is, or with all of them."""
    from dualembed.checks import InputError, nearest

    advice = nearest(name, names) or f"; choose one of: {', '.join(names)}"
    raise InputError(f"there is no {kind} named {name!r}{advice}")
