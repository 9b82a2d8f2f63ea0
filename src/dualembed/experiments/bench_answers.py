"""The benchmark `answers`: what estimators say by default, told nothing, where the truth is known.

Four sets of cases: hitting times, the value of the policy that played the log, the value of other policies, and values
in Garnets, random finite processes. A case asks the same question of many logs, each Garnet's of its own process.
Its line compares the error with that of the best rival in hindsight (median error of hitting times, else root mean
square), and says how many 95 % intervals cover the truth. An error below a thousandth of the truth is none to compare:
in ratios it counts as that much, for both sides ("raw ratio" has it as it is). Of Garnets there are lines of other
errors too, with the key "measure": of V in each state, of its Bellman equation, and of density ratios.

    from dualembed.experiments.bench_answers import CASES, run_case
    outcome = run_case(CASES["cartpole clumsy, 0.99"], range(20), lambda case, log: my_estimate(case.discount, log))
    outcome.line()
"""

from __future__ import annotations

import fnmatch
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dualembed import checks
from dualembed.experiments import bench_hitting
from dualembed.experiments.bench_cases import (
    GARNET_DISCOUNTS,
    GARNET_SIZES,
    GARNET_TARGETS,
    OFF_POLICY_DISCOUNTS,
    ON_POLICY_DISCOUNTS,
    Case,
    OffPolicy,
    OnGarnet,
    OnPolicy,
    Reply,
)
from dualembed.experiments.bench_worlds import POLICIES
from dualembed.progress import Track, Tracker

LOGGED = {
    "cartpole": ("clumsy", "better"),
    "acrobot": ("logged",),
    "pendulum": ("logged",),
    "mountaincarcontinuous": ("logged",),
    "mountaincar": ("logged",),
}
TARGETS = ("mild", "soft", "sharp")
SETS = ("hitting", "on-policy", "off-policy", "garnet")
NEGLIGIBLE = 1e-3  # of the truth

# Times the rival's error, of any case; and in the geometric mean over cases.
MOST = {"hitting": 1.1, "on-policy": 1.15, "off-policy": 1.35, "garnet": 1.15, "worlds": 1.3}
MOST_TOGETHER = {"hitting": 1.1, "on-policy": 1.02, "off-policy": 1.05, "garnet": 1.02, "worlds": 1.0}
# Shares of all intervals of a set that cover.
LEAST_COVER = {"hitting": 0.93, "on-policy": 0.93, "off-policy": 0.92, "garnet": 0.9, "worlds": 0.93}
MOST_COVER = {"hitting": 0.99, "on-policy": 0.99, "off-policy": 1.0, "garnet": 1.0, "worlds": 0.99}
LEAST_COVER_OF_CASE = 0.8
MOST_REFUSED = 0.1  # of the logs of a case where an answer can be had
WIDEST = 1.6  # standard errors in errors, in the median case on-policy
SHOWN = 6  # rivals whose other errors a line has
TARGET = 1.0  # another error of a rival, over ours
TINY = float(np.finfo(float).tiny)

Measures = dict[str, dict[str, np.ndarray]]
Answering = Callable[[Any, Any], Any]


def _cases() -> Iterator[Case]:
    yield from bench_hitting.CASES
    for world, played in LOGGED.items():
        for policy in played:
            yield from (OnPolicy(world, policy, discount) for discount in ON_POLICY_DISCOUNTS)
    for world in (*LOGGED, "noisy cartpole", "chain"):
        policy = next(iter(POLICIES[world]))
        for target in (policy, *TARGETS):
            yield from (OffPolicy(world, policy, target, discount) for discount in OFF_POLICY_DISCOUNTS)
    for (states, actions), discount in itertools.product(GARNET_SIZES, GARNET_DISCOUNTS):
        yield from (OnGarnet(states, actions, discount, target) for target in GARNET_TARGETS)


CASES: dict[str, Case] = {case.name: case for case in _cases()}
"""Every case by its name."""


@final
@dataclass(frozen=True)
class Outcome:
    """What was said of each log of a case, (logs,) each: answers, rivals' answers, processor seconds, verdicts."""

    case: Case
    truths: np.ndarray
    stderr_of_truth: float
    values: np.ndarray
    stderrs: np.ndarray
    covers: np.ndarray
    seconds: np.ndarray
    verdicts: list[str]
    rivals: dict[str, np.ndarray]
    pointwise: np.ndarray  # shares of the case's points whose intervals cover; none where nothing was asked of them
    measures: Measures

    @property
    def truth(self) -> float:
        """The truth, or its mean where every log has its own."""
        return float(self.truths.mean())

    def error(self, values: np.ndarray) -> float:
        """The error of answers as the case measures it: root mean square, or median."""
        away = np.nan_to_num(np.abs(values - self.truths), nan=np.inf)
        return float(np.median(away) if self.case.error == "median" else np.sqrt(np.mean(away**2)))

    @property
    def rival(self) -> str:
        """The best rival in hindsight."""
        return min(self.rivals, key=lambda name: self.error(self.rivals[name]))

    @property
    def ratio(self) -> float:
        """The best rival's error over ours, negligible ones aside."""
        least = NEGLIGIBLE * abs(self.truth)
        return max(self.error(self.rivals[self.rival]), least) / max(self.error(self.values), least)

    @property
    def refused(self) -> int:
        """Logs from which it says that there is no answer."""
        return self.verdicts.count("not answerable")

    @property
    def rms(self) -> float:
        """The root mean square error; infinite where an answer is."""
        return float(np.sqrt(np.mean(np.nan_to_num(self.values - self.truths, nan=np.inf) ** 2)))

    @property
    def width(self) -> float:
        """The median standard error in root mean square errors."""
        return float(np.median(self.stderrs) / self.rms) if 0 < self.rms < np.inf else np.inf

    def line(self) -> dict[str, Any]:
        """The case's line, as `dualembed bench` has it."""
        own, other = self.error(self.values), self.error(self.rivals[self.rival])
        line = {
            "bench": "answers",
            "case": self.case.name,
            "peer": self.rival,
            "value": _number(other),
            "unit": f"{self.case.error} error",
            "ratio": self.ratio,
            "target": 1 / MOST[self.case.kind],
            "set": self.case.kind,
            "ours": _number(own),
            "raw ratio": _number(other / own) if own else None,
            "logs": len(self.values),
            "cover": int(self.covers.sum()),
            "truth": self.truth,
            "stderr of truth": self.stderr_of_truth,
            "rms": _number(self.rms),
            "bias": _number(np.mean(self.values - self.truths)),
            "median stderr": _number(np.median(self.stderrs)),
            "seconds": float(np.median(self.seconds)),
            "most seconds": float(np.max(self.seconds)),
            "verdicts": dict(Counter(self.verdicts)),
            "refused too often": not self.case.may_refuse and self.refused > self._allowed * len(self.values),
            "errors of rivals": {name: _number(self.error(values)) for name, values in self.rivals.items()},
        }
        return line | ({"pointwise cover": float(self.pointwise.mean())} if len(self.pointwise) else {})

    def lines(self) -> list[dict[str, Any]]:
        """The case's line, and one for each other measure."""
        return [self.line(), *measure_lines(self.case.name, self.case.kind, self.measures)]

    @property
    def _allowed(self) -> float:
        """The share of logs from which no answer may be had: none where the asked policy played the log."""
        case = self.case
        if isinstance(case, OnGarnet):
            return 0.0 if case.on_policy else MOST_REFUSED
        return MOST_REFUSED if isinstance(case, OffPolicy) and case.policy != case.target else 0.0


def run_case(case: Case, seeds: Iterable[int], answer: Answering | None = None) -> Outcome:
    """What is answered from the case's logs of these seeds: by `answer(case, log)`, or by the library's estimator.

    An answer has `value`, `stderr` and `interval(level)`, or is a `Reply` with one.
    """
    truths, replies, seconds, said, pointwise, measured = [], [], [], [], [], []
    for seed in seeds:
        log = case.log(seed)
        began = time.process_time()
        reply = case.answer(log) if answer is None else answer(case, log)
        seconds.append(time.process_time() - began)
        truths.append(case.truth_of(log))
        said.append(case.rivals(log))
        if isinstance(reply, Reply):
            if reply.intervals is not None:
                (lower, upper), exact = reply.intervals, case.at_points(log)
                pointwise.append(np.mean((lower <= exact) & (exact <= upper)))
            if reply.model is not None:
                measured.append(case.measures(log, reply))
            reply = reply.answer
        replies.append(reply)
    ends, (truth, errors) = np.array([reply.interval(0.95) for reply in replies]), np.transpose(truths)
    return Outcome(
        case,
        truths=truth,
        stderr_of_truth=float(errors.max()),
        values=np.array([reply.value for reply in replies]),
        stderrs=np.array([reply.stderr for reply in replies]),
        covers=(ends[:, 0] <= truth) & (truth <= ends[:, 1]),
        seconds=np.array(seconds),
        verdicts=[verdict_of(reply) for reply in replies],
        rivals={name: np.array([each[name] for each in said]) for name in said[0]},
        pointwise=np.array(pointwise),
        measures=stack_measures(measured),
    )


def _number(value: Any) -> float | None:
    """The number, or None where it is not finite, which JSON cannot say."""
    return float(value) if np.isfinite(value) else None


def verdict_of(answer: Any) -> str:
    """ "solid", "fragile" or "not answerable"; "" of an answer without a verdict."""
    return str(answer.verdict) if hasattr(answer, "verdict") else ""


def together(outcomes: list[Outcome]) -> dict[str, Any]:
    """The line of a set: the geometric mean of ratios, and pooled coverage, widths and times."""
    kind, lines = outcomes[0].case.kind, [outcome.line() for outcome in outcomes]
    covers = np.concatenate([outcome.covers for outcome in outcomes])
    seconds = np.concatenate([outcome.seconds for outcome in outcomes])
    worst, farthest = min(outcomes, key=lambda each: each.covers.mean()), min(outcomes, key=lambda each: each.ratio)
    ratio = _geometric([outcome.ratio for outcome in outcomes])
    width = float(np.median([outcome.width for outcome in outcomes]))
    holds = {
        "pooled cover": bool(LEAST_COVER[kind] <= covers.mean() <= MOST_COVER[kind]),
        "cover of every case": bool(worst.covers.mean() >= LEAST_COVER_OF_CASE),
        "errors together": ratio >= 1 / MOST_TOGETHER[kind],
        "error of every case": farthest.ratio >= 1 / MOST[kind],
        "refusals": not any(line["refused too often"] for line in lines),
    }
    if kind == "on-policy":
        holds["width"] = width <= WIDEST
    summary = {
        "bench": "answers",
        "case": f"all {kind}",
        "peer": "best of each case",
        "value": _number(1 / ratio if ratio else np.inf),
        "unit": "errors of ours in the rival's, geometric mean",
        "ratio": ratio,
        "target": 1 / MOST_TOGETHER[kind],
        "set": kind,
        "raw ratio": _geometric([line["raw ratio"] for line in lines if line["raw ratio"] is not None]),
        "cases": len(outcomes),
        "logs": len(covers),
        "cover": int(covers.sum()),
        "pooled cover": float(covers.mean()),
        "worst cover": f"{int(worst.covers.sum())} of {len(worst.covers)}: {worst.case.name}",
        "worst ratio": f"{farthest.ratio:.3g}: {farthest.case.name}",
        "stderr over rms": _number(width),
        "seconds": float(np.median(seconds)),
        "most seconds": float(seconds.max()),
        "verdicts": dict(Counter(verdict for outcome in outcomes for verdict in outcome.verdicts)),
        "holds": holds,
    }
    pointwise = [line["pointwise cover"] for line in lines if "pointwise cover" in line]
    return summary | ({"pointwise cover": float(np.mean(pointwise))} if pointwise else {})


def stack_measures(logs: Sequence[dict[str, dict[str, float]]]) -> Measures:
    """The measures of every log, by measure and by whose they are: (logs,) each.

    Rivals that not every log has, such as those in a kernel that one fit left out, are none to choose from.
    """
    names = logs[0] if logs else {}
    return {
        measure: {
            who: np.array([each[measure][who] for each in logs])
            for who in logs[0][measure]
            if all(who in each[measure] for each in logs)
        }
        for measure in names
    }


def measure_lines(case: str, kind: str, measures: Measures) -> Iterator[dict[str, Any]]:
    """A line for each measure of a case: means over its logs, of ours and of the best rival's."""
    for measure, errors in measures.items():
        means = {who: float(np.mean(each)) for who, each in errors.items()}
        own = means.pop("ours")
        best = sorted(means, key=lambda who: means[who])[:SHOWN]
        yield _measure_line(f"{case}: {measure}", kind, measure) | {
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
        ratios = {who: _geometric([line["ratios"][who] for line in own], least=TINY) for who in every}
        ratio = _geometric([line["ratio"] for line in own], least=TINY)
        worst = min(own, key=lambda line: float(line["ratio"]))
        yield _measure_line(f"all {own[0]['set']}: {measure}", own[0]["set"], measure) | {
            "peer": "best of each case",
            "value": 1 / ratio,
            "unit": f"{measure}, of ours in the rival's, geometric mean",
            "ratio": ratio,
            "cases": len(own),
            "worst ratio": f"{worst['ratio']:.3g}: {worst['case']}",
            "ratios": {who: ratios[who] for who in sorted(ratios, key=lambda who: ratios[who])[:SHOWN]},
            "together": True,
        }


def _measure_line(case: str, kind: str, measure: str) -> dict[str, Any]:
    shared = {"bench": "answers", "case": case, "peer": "", "value": 0.0, "unit": measure, "ratio": 0.0}
    return shared | {"target": TARGET, "set": kind, "measure": measure}


def _geometric(ratios: list[float], *, least: float = 0.0) -> float:
    """The geometric mean of ratios, each at least so much; 0 where one is."""
    floored = np.maximum(ratios, least)
    return float(np.exp(np.mean(np.log(floored)))) if ratios and floored.min() > 0 else 0.0


def select_cases(case: str | None, kind: str | None, *, quick: bool = False) -> list[Case]:
    """The cases whose names match a pattern such as `cartpole*`, of one set or of all; `quick` keeps the small ones."""
    if kind is not None and kind not in SETS:
        raise checks.InputError(f"there is no set of cases named '{kind}'; choose one of: {', '.join(SETS)}")
    cases = [
        each
        for each in CASES.values()
        if (kind is None or each.kind == kind) and (case is None or fnmatch.fnmatchcase(each.name, case))
    ]
    if not cases:
        raise checks.InputError(
            f"no case is named '{case}'; names are such as '{next(iter(CASES))}', '*' stands for any"
        )
    return ([each for each in cases if each.quick] or cases[:1]) if quick else cases


def bench(
    *, trials: int, seed: int, quick: bool, progress: Track, case: str | None = None, kind: str | None = None
) -> Iterator[dict[str, Any]]:
    """A line for each case as soon as it is known, and one for each set; `trials` is the number of logs of a case."""
    cases = select_cases(case, kind, quick=quick)
    outcomes: list[Outcome] = []
    measured: list[dict[str, Any]] = []
    with progress(len(cases) * trials, "answers") as bar:
        for number, each in enumerate(cases):
            outcomes.append(run_case(each, _seeds(range(seed, seed + trials), bar, number * trials)))
            lines = outcomes[-1].lines()
            measured += lines[1:]
            yield from lines
    for name in SETS:
        if own := [outcome for outcome in outcomes if outcome.case.kind == name]:
            yield together(own)
            yield from measures_together([line for line in measured if line["set"] == name])


def _seeds(seeds: range, bar: Tracker, before: int) -> Iterator[int]:
    """The seeds, each counted when the next one is asked for."""
    for number, seed in enumerate(seeds):
        yield seed
        bar.advance(to=before + number + 1)


def tables(lines: list[dict[str, Any]]) -> Iterator[Any]:
    """A table for each set: a row a case, and the set's own line below."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    measured = [line for line in lines if "measure" in line]
    lines = [line for line in lines if "measure" not in line]
    for name in dict.fromkeys(line["set"] for line in lines):
        own = [line for line in lines if line["set"] == name and "holds" not in line]
        grid = Table(title=f"{own[0]['bench']}: {name}", title_justify="left", caption_justify="left", box=SIMPLE_HEAD)
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
