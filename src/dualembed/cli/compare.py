"""`dualembed fit iv --compare`: the model beside least squares, two stages and their like, with tests between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from dualembed.comparison import ModelComparison

Compare = Annotated[
    bool,
    typer.Option(
        "--compare",
        help="Of iv: print least squares, two-stage least squares, LIML, moments and a sieve beside it, the tests "
        "between them, and which to report.",
    ),
]


def check_compare(name: str, takes_instruments: bool, columns: Mapping[str, str | None]) -> None:
    """Raise where the task has no instruments to compare models by, or its columns are not for all of the models."""
    from dualembed.checks import InputError

    if not takes_instruments:
        raise InputError(f"--compare has no use in {name}, which has no instruments; leave it out")
    for word in ("absorb", "time", "weight"):
        if columns.get(word):
            raise InputError(f"--compare goes without --{word}, of which not all models know; leave one of them out")


def compared(model: Any, data: Any) -> ModelComparison:
    """Models of the same rows beside the fitted one; refused without instruments."""
    from dualembed.checks import InputError
    from dualembed.comparison import compare_models

    if data.instruments is None:
        raise InputError("--compare compares models by instruments, and there are none; name some with --instrument")
    more = {"controls": data.controls, "groups": data.groups, "smooth": model}
    return compare_models(data.X, data.y, instruments=data.instruments, **more)


def print_comparison(found: ModelComparison) -> None:
    """Print the table with the verdict; what the tests say is in the summary."""
    typer.echo("")
    typer.echo(found.text(tests=False))
