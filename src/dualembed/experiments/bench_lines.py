"""Lines and tables of the benchmark `answers`.

Lines of other errors than the answer's have each the best rival's in hindsight beside it; tables are made of all lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

SHOWN = 6  # rivals whose errors a line has
TARGET = 1.0  # a rival's error over ours

Measures = dict[str, dict[str, np.ndarray]]


def stacked(found: Sequence[dict[str, dict[str, float]]]) -> Measures:
    """The measures of every log, by measure and by whose they are: (logs,) each.

    Rivals that not every log has, such as those in a kernel that one fit left out, are none to choose from.
    """
    names = found[0] if found else {}
    return {
        measure: {
            who: np.array([each[measure][who] for each in found])
            for who in found[0][measure]
            if all(who in each[measure] for each in found)
        }
        for measure in names
    }


def measure_lines(case: str, kind: str, measures: Measures) -> Iterator[dict[str, Any]]:
    """A line for each measure of a case: means over its logs, of ours and of the best rival's."""
    for measure, errors in measures.items():
        means = {who: float(np.mean(each)) for who, each in errors.items()}
        own = means.pop("ours")
        best = sorted(means, key=lambda who: means[who])[:SHOWN]
        yield _line(f"{case}: {measure}", kind, measure) | {
            "peer": best[0],
            "value": means[best[0]],
            "ratio": means[best[0]] / own if own > 0 else np.finfo(float).max,
            "ours": own,
            "logs": len(errors["ours"]),
            "errors of rivals": {who: means[who] for who in best},
            "ratios": {who: each / own if own > 0 else np.finfo(float).max for who, each in means.items()},
        }


def measures_together(lines: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """A line for each measure of a set: geometric means over cases of ratios, to each case's best rival and to each."""
    for measure in dict.fromkeys(line["measure"] for line in lines):
        own = [line for line in lines if line["measure"] == measure]
        every = [who for who in own[0]["ratios"] if all(who in line["ratios"] for line in own)]
        ratios = {who: _geometric([line["ratios"][who] for line in own]) for who in every}
        ratio = _geometric([line["ratio"] for line in own])
        worst = min(own, key=lambda line: float(line["ratio"]))
        yield _line(f"all {own[0]['set']}: {measure}", own[0]["set"], measure) | {
            "peer": "best of each case",
            "value": 1 / ratio,
            "unit": f"{measure}, of ours in the rival's, geometric mean",
            "ratio": ratio,
            "cases": len(own),
            "worst ratio": f"{worst['ratio']:.3g}: {worst['case']}",
            "ratios": {who: ratios[who] for who in sorted(ratios, key=lambda who: ratios[who])[:SHOWN]},
            "together": True,
        }


def _line(case: str, kind: str, measure: str) -> dict[str, Any]:
    shared = {"bench": "answers", "case": case, "peer": "", "value": 0.0, "unit": measure, "ratio": 0.0}
    return shared | {"target": TARGET, "set": kind, "measure": measure}


def _geometric(ratios: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(np.maximum(ratios, np.finfo(float).tiny)))))


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
