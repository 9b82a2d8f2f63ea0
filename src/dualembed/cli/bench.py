"""`dualembed bench`: side by side with rivals, on errors that are known exactly."""

from __future__ import annotations

import difflib
import importlib
import json
from collections.abc import Iterable
from typing import Annotated, Any, NoReturn

import typer

_TRIALS, _QUICK_TRIALS = 10, 2

# A benchmark is a function of a module, `bench(*, trials, seed, quick, progress)` where no other is named, which gives
# dictionaries with the keys below and whatever else it has to say of a comparison. Naming it here imports nothing.
BENCHES: dict[str, tuple[str, str]] = {
    "garnet": ("dualembed.experiments.garnet_bench", "off-policy evaluation in random finite decision processes"),
    "fqe": ("dualembed.experiments.bench_fqe", "a policy's value from logs of another, against d3rlpy's FQE"),
    "fqe-worlds": (
        "dualembed.experiments.bench_fqe:bench_worlds",
        "the same in five environments, at several lengths of training",
    ),
    "answers": ("dualembed.experiments.bench_answers", "default answers, told nothing, where the truth is known"),
}
"""Every benchmark's name, with its module and one line about it, in the order in which they are listed and run."""

# Of these the function takes `case` and `kind` too, and gives its lines one by one; `tables(lines)` are their tables.
WITH_CASES = {"answers": 20, "fqe-worlds": 3}
"""Benchmarks whose cases can be chosen, with the trials of a case."""

KEYS = ("bench", "case", "peer", "value", "unit", "ratio", "target")

_HELP = "\n\n".join(
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
        typer.Option(metavar="PATTERN", help="Only cases of such a name, as in 'cartpole*' (answers, fqe-worlds)."),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option("--set", metavar="NAME", help="Only this set: hitting, on-policy, off-policy, garnet (answers)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, and nothing else.")] = False,
) -> None:
    if name is not None and name not in BENCHES:
        _no_such(name)
    only = {key: given for key, given in (("case", case), ("kind", kind)) if given is not None}
    if only and name not in WITH_CASES:
        typer.echo(f"dualembed: --case and --set are for the benchmark {' and '.join(WITH_CASES)}; name it", err=True)
        raise typer.Exit(2)
    for each in BENCHES if name is None else [name]:
        count = trials or (_QUICK_TRIALS if quick else WITH_CASES.get(each, _TRIALS))
        run = _run_or_say if name is None else _run
        run(each, as_json=as_json, trials=count, seed=seed, quick=quick, **only)


bench.__doc__ = _HELP


def _run_or_say(name: str, *, as_json: bool, **settings: Any) -> None:
    """Run one of all benchmarks; where its rival is not installed, say so and leave the others their turn."""
    from dualembed.checks import InputError

    try:
        _run(name, as_json=as_json, **settings)
    except InputError as error:
        typer.echo(f"dualembed: left out '{name}': {error}", err=True)


def _run(name: str, *, as_json: bool, **settings: Any) -> None:
    from dualembed.cli.interrupts import ending_at_once
    from dualembed.progress import track

    with ending_at_once(f"stopped; nothing is kept of '{name}'"):
        place, _, function = BENCHES[name][0].partition(":")
        module = importlib.import_module(place)
        lines = []
        for line in getattr(module, function or "bench")(progress=track, **settings):
            lines.append(line)
            if as_json:
                typer.echo(json.dumps(line, ensure_ascii=False, allow_nan=False))
    if as_json:
        return
    if name in WITH_CASES:
        _print(module.tables(lines))
    else:
        _show(lines)


def _print(tables: Iterable[Any]) -> None:
    from rich.console import Console

    for table in tables:
        Console().print(table)


def _show(lines: list[dict[str, Any]]) -> None:
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


def _no_such(name: str) -> NoReturn:
    near = difflib.get_close_matches(name.lower(), BENCHES, n=1, cutoff=0.5)
    advice = f"did you mean '{near[0]}'?" if near else f"choose one of: {', '.join(BENCHES)}"
    typer.echo(f"dualembed: there is no benchmark named '{name}'; {advice}", err=True)
    raise typer.Exit(2)
