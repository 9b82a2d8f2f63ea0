"""An answer: a number with its error, and one word on how much it rests on, by stated rules."""

from __future__ import annotations

import dataclasses
import enum
import math

from dualembed.estimates import Estimate, check_level


class Verdict(enum.StrEnum):
    """How much an answer rests on."""

    SOLID = "solid"
    FRAGILE = "fragile"
    NOT_ANSWERABLE = "not answerable"


@dataclasses.dataclass(frozen=True)
class VerdictRules:
    """From where on an answer is fragile, or the data cannot give one.

    `negative` are shares of the weights of rows that are below zero: an answer is a weighted sum of what rows show, and
    weights below zero mean that it was extrapolated. `outside` are shares of the points asked about that lie outside
    the data. `relative` are standard errors as shares of the answer, or of the standard deviation of f over the data
    where that is larger.
    """

    negative: tuple[float, float] = (0.10, 0.25)
    outside: tuple[float, float] = (0.05, 0.50)
    relative: tuple[float, float] = (0.5, 3.0)


RULES = VerdictRules()


@dataclasses.dataclass(frozen=True)
class Answer(Estimate):
    """An estimate that knows its question.

    `stderr` is the plain standard error; `freedom` are its degrees of freedom, which `interval` takes into account, and
    nothing else. `negative` and `effective` say how the rows count (docs/guide.md). `positive` is for what cannot be
    below zero, such as a time: its interval is one of ratios. The `verdict` is None where nothing was judged.
    """

    freedom: float | None = None
    question: str = ""
    verdict: Verdict | None = None
    warnings: tuple[str, ...] = ()
    negative: float | None = None
    effective: float | None = None
    positive: bool = False

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """(lower, upper), which cover the truth with that probability.

        >>> [round(end, 2) for end in Answer(1.0, 0.5, freedom=9).interval()]
        [-0.13, 2.13]
        """
        check_level(level)
        from scipy.stats import norm, t

        half = float(norm.ppf(0.5 + level / 2) if self.freedom is None else t.ppf(0.5 + level / 2, self.freedom))
        if self.positive and self.value > 0 and math.isfinite(self.stderr):
            factor = math.exp(min(half * self.stderr / self.value, 700.0))
            return self.value / factor, self.value * factor
        return self.value - half * self.stderr, self.value + half * self.stderr

    def __str__(self) -> str:
        return super().__str__() + (f" ({self.verdict})" if self.verdict is not None else "")


def meaning(verdict: Verdict) -> str:
    """What a verdict says of an answer by the rules, in plain words.

    >>> print(meaning(Verdict.NOT_ANSWERABLE))
    the data do not show what is asked about, or say next to nothing of it
    """
    if verdict is Verdict.SOLID:
        return "the data show what is asked about"
    if verdict is Verdict.FRAGILE:
        return "it is partly extrapolated, or its error is not small beside the answer"
    return "the data do not show what is asked about, or say next to nothing of it"


def outside_warning(share: float) -> tuple[str, ...]:
    """What to say where so large a share of the points asked about lies outside the data; nothing where it is small."""
    if share < RULES.outside[0]:
        return ()
    return (f"{share:.0%} of the points asked about lie outside the data",)


def judge(
    *, negative: float | None, outside: float, relative: float, finite: bool, unseen: float = 0.0
) -> tuple[Verdict, tuple[str, ...]]:
    """(verdict, the reasons for it in plain words); `relative` is the error in terms of the answer, or of f.

    `unseen` is the share of points asked about, outside the data too, of a kind that no row shows.
    """
    found, reasons = [Verdict.SOLID], []

    def add(value: float, rule: tuple[float, float], reason: str) -> None:
        if value >= rule[0]:
            found.append(Verdict.NOT_ANSWERABLE if value >= rule[1] else Verdict.FRAGILE)
            reasons.append(reason)

    if not finite:
        found.append(Verdict.NOT_ANSWERABLE)
        reasons.append("without some of the data there is no answer at all, so that its error is not known")
    if negative is not None:
        add(
            negative,
            RULES.negative,
            f"{negative:.0%} of the weight that rows have in the answer is below zero: the data hardly show what is "
            "asked about, and the answer is extrapolated; gather data closer to the question",
        )
    for reason in outside_warning(outside):
        add(outside, RULES.outside, reason)
    add(
        unseen,
        RULES.outside,
        f"{unseen:.0%} of what is asked about has a category, or a combination of categories, that no row of the data "
        "starts from, so that nothing is known of it; give rows that do",
    )
    if finite:
        add(
            relative,
            RULES.relative,
            f"the standard error is {relative:.1f} times the answer or all that f varies by: the data say next to "
            "nothing of it; gather more of them",
        )
    order = list(Verdict)
    return max(found, key=order.index), tuple(reasons)
