"""An answer: a number with its error, and one word on how much it rests on, by stated rules."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from dualembed.estimates import Estimate, check_level, format_estimate, format_interval

NEXT_TO_NOTHING = 3.0  # errors in values, above which the logarithm of a positive number tells nothing


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
    where that is larger. `carried` is the share of groups of rows, below which few of them carry all that an answer
    varies by, as where rewards are rare: 0.64 where they carry alike, by the normal distribution. `small` are standard
    errors, as shares in the same terms, below which that does not matter. Of 24 answers by action values about the
    policies that played 12 logs of CartPole (2,000 steps, discounts 0.95 and 0.99), 7 were carried by few episodes; the
    errors of 6 of these were small, and the intervals of all 7 right. `starts` are those of episodes, below which their
    mean says little of where episodes start. `negligible` are standard errors, as shares in the same terms, below which
    all fits agree so well that it does not matter by which rows: of a process without noise each answer is a sum over a
    few points, which smooth weights of rows can only come close to.
    """

    negative: tuple[float, float] = (0.10, 0.25)
    outside: tuple[float, float] = (0.05, 0.50)
    relative: tuple[float, float] = (0.5, 3.0)
    carried: float = 0.4
    small: float = 0.05
    starts: int = 5
    negligible: float = 1e-3


RULES = VerdictRules()


@dataclasses.dataclass(frozen=True)
class Answer(Estimate):
    """An estimate that knows its question.

    Attributes
    ----------
    value : float
        The number.
    stderr : float
        Its plain standard error; NaN for fits that have no errors.
    freedom : float or None
        Degrees of freedom of the error, which `interval` takes into account, and nothing else.
    question : str
        The question in words.
    verdict : Verdict or None
        How far to trust it; None if nothing was judged.
    warnings : tuple of str
        What speaks against trusting it.
    negative : float or None
        Share of the rows' weights that is negative (docs/guide.md).
    effective : float or None
        How many rows the answer rests on (docs/guide.md).
    positive : bool
        Whether it cannot be below zero, such as a time: its interval is then one of ratios.
    least : float or None
        What no end of the interval is below.
    because : tuple of str
        The rules that the verdict is by, in a few words each.
    most : float or None
        What no end of the interval is above.
    """

    freedom: float | None = None
    question: str = ""
    verdict: Verdict | None = None
    warnings: tuple[str, ...] = ()
    negative: float | None = None
    effective: float | None = None
    positive: bool = False
    least: float | None = None
    because: tuple[str, ...] = ()
    most: float | None = None

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval that covers the truth with probability `level`.

        Parameters
        ----------
        level : float, default=0.95
            Probability, between 0 and 1.

        Returns
        -------
        lower : float
            Lower end.
        upper : float
            Upper end.

        Examples
        --------
        >>> [round(end, 2) for end in Answer(1.0, 0.5, freedom=9).interval()]
        [-0.13, 2.13]
        >>> Answer(math.inf, math.inf, least=0.0).interval()
        (0.0, inf)
        """
        check_level(level)
        from scipy.stats import norm, t

        half = float(norm.ppf(0.5 + level / 2) if self.freedom is None else t.ppf(0.5 + level / 2, self.freedom))
        if math.isinf(self.stderr):
            lower, upper = -math.inf, math.inf
        elif self.positive and self.stderr <= NEXT_TO_NOTHING * self.value:
            factor = math.exp(half * self.stderr / self.value)
            lower, upper = self.value / factor, self.value * factor
        else:
            lower, upper = self.value - half * self.stderr, self.value + half * self.stderr
        least = -math.inf if self.least is None else self.least
        most = math.inf if self.most is None else self.most
        return min(max(lower, least), most), min(max(upper, least), most)

    @property
    def title(self) -> str:
        """The question as a sentence begins; a symbol such as h(s) stays as it is."""
        return f"The{self.question[3:]}" if self.question.startswith("the ") else self.question

    def text(self, level: float = 0.95) -> str:
        """The number, its error and an interval, as a sentence has them.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the interval.

        Returns
        -------
        str
            The words.

        Examples
        --------
        >>> Answer(1.0, 0.5, freedom=9).text()
        '1.00 ± 0.50 (95 % interval -0.13 to 2.13)'
        """
        if math.isnan(self.stderr):
            return format_estimate(self.value, None)
        if math.isinf(self.stderr):
            return f"{format_estimate(self.value, None)}, with an error that the data cannot tell"
        ends = format_interval(*self.interval(level))
        return f"{format_estimate(self.value, self.stderr)} ({100 * level:g} % interval {ends})"

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """The answer in terms that JSON has.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the interval.

        Returns
        -------
        dict
            Its fields and the ends lower and upper; None for what is not known, or has no end.
        """
        lower, upper = self.interval(level)
        numbers = {"value": self.value, "stderr": self.stderr, "lower": lower, "upper": upper}
        return {
            "question": self.question,
            **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
            "level": level,
            "freedom": self.freedom,
            "verdict": None if self.verdict is None else str(self.verdict),
            "warnings": list(self.warnings),
            "negative": self.negative,
            "effective": self.effective,
        }

    def __str__(self) -> str:
        return super().__str__() + (f" ({self.verdict})" if self.verdict is not None else "")


def meaning(verdict: Verdict, because: Sequence[str] = ()) -> str:
    """What a verdict says of an answer, in plain words: the rules that it is by, where they are known.

    >>> print(meaning(Verdict.FRAGILE, ["it is partly extrapolated", "its error is not small beside the answer"]))
    it is partly extrapolated, and its error is not small beside the answer
    """
    if verdict is Verdict.SOLID:
        return "the data show what is asked about"
    if because:
        return ", and ".join(because)
    if verdict is Verdict.FRAGILE:
        return "it is partly extrapolated, or its error is not small beside the answer"
    return "the data do not show what is asked about, or say next to nothing of it"


def outside_warning(share: float) -> tuple[str, ...]:
    """What to say where so large a share of the points asked about lies outside the data; nothing where it is small."""
    if share < RULES.outside[0]:
        return ()
    return (f"{share:.0%} of the points asked about lie outside the data",)


class Judgement(NamedTuple):
    """A verdict, the rules that it is by in a few words each, and what to worry about in sentences."""

    verdict: Verdict
    because: tuple[str, ...]
    warnings: tuple[str, ...]


def judge(
    *,
    negative: float | None,
    outside: float,
    relative: float,
    finite: bool,
    of_answer: bool = True,
    unseen: float = 0.0,
    carried: float | None = None,
    constant: bool = False,
    starts: int | None = None,
) -> Judgement:
    """The verdict on an answer, by the rules.

    `relative` is the error in terms of the answer, or of what f varies by where that is larger, and not `of_answer`;
    `unseen` the share of points asked about, outside the data too, of a kind that no row shows; `carried` the share of
    groups of rows that carry what the answer varies by; `constant` whether the data vary in nothing that f is of;
    `starts` the number of starts of episodes that are asked about, if it is such.
    """
    verdicts, because = [Verdict.SOLID], list[str]()
    reasons: list[str] = []

    def add(value: float, rule: tuple[float, float], words: tuple[str, str], *sentences: str) -> None:
        if value >= rule[0]:
            verdicts.append(Verdict.NOT_ANSWERABLE if value >= rule[1] else Verdict.FRAGILE)
            because.append(words[value >= rule[1]])
            reasons.extend(sentences)

    if not finite:
        add(math.inf, (0.0, 0.0), (NO_ANSWER, NO_ANSWER), f"{NO_ANSWER}, so that its error is not known")
    agreed = finite and relative < RULES.negligible and not outside
    if negative is not None and not agreed:
        add(negative, RULES.negative, EXTRAPOLATED, _negative_reason(negative))
    if outside >= RULES.outside[0]:
        add(outside, RULES.outside, OUTSIDE, *outside_warning(outside - unseen))  # of the others it is said why
    add(unseen, RULES.outside, UNSEEN, _unseen_reason(unseen))
    if finite:
        beside = "the answer" if of_answer else "all that f varies by"
        words = f"its error is not small beside {beside}", f"its error is far larger than {beside}"
        add(relative, RULES.relative, words, _relative_reason(relative, of_answer))
    few = carried is not None and carried < RULES.carried
    few = few and not (finite and relative < RULES.small and not outside)
    add(few, ALONE, (CARRIED,) * 2, CARRIED_BY_FEW)
    add(constant, ALONE, (CONSTANT,) * 2, NOTHING_VARIES)
    if starts is not None and starts < RULES.starts:
        add(True, ALONE, (FEW_STARTS,) * 2, _starts_reason(starts))
    order = list(Verdict)
    return Judgement(max(verdicts, key=order.index), tuple(because), tuple(reasons))


NO_ANSWER = "without some of the data there is no answer at all"
CARRIED = "a handful of rows or of episodes carry it"
CONSTANT = "the data vary in nothing that is asked about"
FEW_STARTS = "it is taken at few starts"
ALONE = 1.0, math.inf  # of what holds or does not, and makes an answer fragile at most
# Fragile, and not answerable.
EXTRAPOLATED = "it is partly extrapolated", "it is extrapolated"
OUTSIDE = "some of what is asked about lies outside the data", "most of what is asked about lies outside the data"
UNSEEN = "some of what is asked about is shown by no row", "most of what is asked about is shown by no row"
CARRIED_BY_FEW = (
    "a handful of rows or of episodes carry nearly all that the answer varies by, as where rewards are rare, so that "
    "its interval may be too narrow; gather more data that show them"
)
NOTHING_VARIES = (
    "the data vary in nothing that is asked about, as where all rewards are the same, so that an error of 0 says "
    "nothing of what they do not show"
)


def _negative_reason(share: float) -> str:
    return (
        f"{share:.0%} of the weight that rows have in the answer is below zero: the data hardly show what is asked "
        "about, and the answer is extrapolated; gather data closer to the question"
    )


def _unseen_reason(share: float) -> str:
    return (
        f"{share:.0%} of what is asked about has a category, or a combination of categories, that no row of the data "
        "starts from, so that nothing is known of it; give rows that do"
    )


def _starts_reason(count: int) -> str:
    where = "the start of 1 episode" if count == 1 else f"the starts of {count} episodes"
    return (
        f"it is taken at {where} alone, which says little of where others start; give more episodes, or initial_states"
    )


def _relative_reason(times: float, of_answer: bool) -> str:
    beside = "the answer" if of_answer else "the standard deviation of f over the data, which is more than the answer"
    said = "next to nothing" if times >= RULES.relative[1] else "little"
    return f"the standard error is {times:.1f} times {beside}: the data say {said} of it; gather more of them"
