"""Tables of the benchmark `answers`, made of its lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def tables(lines: list[dict[str, Any]]) -> Iterator[Any]:
    """A table for each set: a row a case, and the set's own line below."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    measured = [line for line in lines if "measure" in line]
    lines = [line for line in lines if "measure" not in line]
    for name in dict.fromkeys(line["set"] for line in lines):
        own = [line for line in lines if line["set"] == name and "holds" not in line]
        grid = Table(title=f"answers: {name}", title_justify="left", caption_justify="left", box=SIMPLE_HEAD)
        grid.add_column("case")
        for heading in ("truth", "bias", "error", "rival's", "ratio", "±", "cover", "s"):
            grid.add_column(heading, justify="right", no_wrap=True)
        for line in own:
            numbers = [line[key] for key in ("truth", "bias", "ours", "value", "ratio", "median stderr")]
            cover = f"{line['cover']}/{line['logs']}" + ("*" if line["verdicts"].get("not answerable") else "")
            grid.add_row(line["case"], *map(_rounded, numbers), cover, f"{line['seconds']:.2g}")
        (whole,) = [line for line in lines if line["set"] == name and "holds" in line]
        missed = ", ".join(key for key, held in whole["holds"].items() if not held) or "nothing"
        grid.caption = (
            f"covered {whole['cover']} of {whole['logs']}, at worst {whole['worst cover']}\n"
            f"ratio {whole['ratio']:.3g} in the geometric mean, at worst {whole['worst ratio']}\n"
            f"standard errors are {_rounded(whole['stderr over rms'])} times the error in the median case\n"
            f"seconds a log: {whole['seconds']:.2g}, at most {whole['most seconds']:.2g}; targets missed: {missed}"
        )
        yield grid
    yield from measure_tables(measured)


def _rounded(number: float | None) -> str:
    return "∞" if number is None else f"{number:.3g}"


def measure_tables(lines: Sequence[dict[str, Any]]) -> Iterator[Any]:
    """A table for each measure: a row a case, and what holds of all below."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    for measure in dict.fromkeys(line["measure"] for line in lines):
        own = [line for line in lines if line["measure"] == measure]
        grid = Table(title=f"answers: {measure}", title_justify="left", caption_justify="left", box=SIMPLE_HEAD)
        grid.add_column("case")
        for heading in ("ours", "rival's", "ratio"):
            grid.add_column(heading, justify="right", no_wrap=True)
        grid.add_column("rival")
        for line in own:
            if "together" not in line:
                numbers = [f"{line[key]:.3g}" for key in ("ours", "value", "ratio")]
                grid.add_row(line["case"].removesuffix(f": {measure}"), *numbers, line["peer"])
        (whole,) = [line for line in own if "together" in line]
        each = "; ".join(f"{ratio:.3g} to {who}" for who, ratio in whole["ratios"].items())
        grid.caption = (
            f"ratio {whole['ratio']:.3g} in the geometric mean, at worst {whole['worst ratio']}\n"
            f"to one rival for all cases: {each}"
        )
        yield grid
