"""All that a fit says: computed once, and given as text, as a dictionary and as a frame."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dualembed.answers.answer import Answer, meaning
from dualembed.answers.task import Task
from dualembed.estimates import format_estimate, format_interval, format_number
from dualembed.selection import Choice, HeldOut

if TYPE_CHECKING:
    from dualembed.answers.subgroups import Subgroups

SIGNIFICANT = 2.0  # standard errors
SHOWN = 12  # answers of a printed table


class Findings(NamedTuple):
    """What an estimator says of its fit besides the headline.

    `answers` to other questions, with `about`, what they are of together, `subject`, what each is of, and `measure`,
    what each is; `facts` in terms that JSON has; `remarks`, a sentence each; and `lines`, a table in text with what
    belongs to it.
    """

    answers: tuple[Answer, ...] = ()
    about: str = ""
    subject: str = "question"
    measure: str = "value"
    facts: Mapping[str, Any] = {}
    remarks: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a fit has found, and how far to trust it; `model.summary()` gives it.

    Parameters
    ----------
    task
        What the fit is for.
    headline
        The answer to what was asked: what a policy is worth, what a column does, how long something takes.
    findings
        What else there is to say: other answers, facts, remarks.
    diagnostics
        How far the fit can be trusted; `error` is the honest one among them.
    selection
        What was chosen from the data, in order.
    """

    task: Task
    headline: Answer
    findings: Findings
    diagnostics: Any
    selection: tuple[Choice, ...] = ()

    @property
    def answers(self) -> tuple[Answer, ...]:
        """All answers, the headline first."""
        return (self.headline, *self.findings.answers)

    @property
    def rows(self) -> int:
        """How many rows it was fitted to."""
        return int(self.diagnostics.rows)

    @property
    def error(self) -> HeldOut | None:
        """The honest error on rows left out; None where there is none, of which `error_text` says why."""
        error: HeldOut | None = self.diagnostics.held_out
        return error

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the fit and about the headline, each once."""
        return tuple(dict.fromkeys([*self.diagnostics.warnings, *self.headline.warnings]))

    def led_by(self, answers: Sequence[Answer], groups: Sequence[Subgroups] = ()) -> Summary:
        """The same with the first of these answers as the headline, the others and their groups in sentences."""
        told = [headline_text(answer) for answer in answers[1:]] + [each.sentence() for each in groups]
        facts = {
            **self.findings.facts,
            "asked": [answer.to_dict() for answer in answers],
            "subgroups": [each.to_dict() for each in groups],
        }
        findings = self.findings._replace(remarks=(*told, *self.findings.remarks), facts=facts)
        return dataclasses.replace(self, headline=answers[0], findings=findings)

    def to_dict(self) -> dict[str, Any]:
        """The summary in terms that JSON has."""
        return {
            "task": self.task.name,
            "headline": self.headline.to_dict(),
            "answer": dict(self.findings.facts),
            "answers": [answer.to_dict() for answer in self.findings.answers],
            "honest_error": self._error_dict(),
            "why_no_honest_error": self.diagnostics.unjudged if self.error is None else None,
            "warnings": list(self.warnings),
            "selection": [
                {"question": step.question, "answer": step.answer, **step.numbers} for step in self.selection
            ],
        }

    def tidy(self, level: float = 0.95) -> Any:
        """A frame with a row for each answer, the headline first: of pandas where that is installed, else of Arrow."""
        names = ("question", "value", "stderr", "lower", "upper", "freedom", "verdict")
        rows = [answer.to_dict(level) for answer in self.answers]
        columns = {name: [row[name] for row in rows] for name in names}
        try:
            import pandas
        except ImportError:
            import pyarrow

            return pyarrow.table(columns)
        return pandas.DataFrame(columns)

    def sentences(self) -> list[str]:
        """The headline with the verdict on it, and remarks."""
        return [headline_text(self.headline), *self.findings.remarks]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """(heads, rows) of the other answers; no rows where there are none."""
        heads = [self.findings.subject, self.findings.measure, "95 % interval"]
        return heads, [[answer.question, *estimate_cells(answer)] for answer in self.findings.answers]

    def error_text(self) -> str:
        """The honest error in a sentence, or why there is none."""
        error = self.error
        if error is None:
            reason = f": {self.diagnostics.unjudged}" if self.diagnostics.unjudged else ""
            return f"There is no honest error on rows left out{reason}. {ASK_ELSEWHERE}"
        return (
            f"Honest error on rows left out: {format_estimate(error.value, error.stderr)} ({self.task.error}; the "
            f"naive one, {format_number(error.squared)}, counts the noise of single rows). {self.error_verdict()}"
        )

    def error_verdict(self) -> str:
        """What the honest error says, in a sentence; nothing where there is none."""
        if self.error is None:
            return ""
        return NOISY_ERROR if self.task.noisy_error else error_verdict(self.error)

    @property
    def is_wrong(self) -> bool:
        """Whether the honest error tells that the function is wrong by more than chance."""
        return self.error is not None and not self.task.noisy_error and is_wrong(self.error)

    def __str__(self) -> str:
        lines = self.sentences()
        _, rows = self.table()
        if rows:
            width = max(len(row[0]) for row in rows[:SHOWN])
            lines += [f"{self.findings.about}:"]
            lines += [f"  {name:<{width}}  {value}  {ends}".rstrip() for name, value, ends in rows[:SHOWN]]
        if len(rows) > SHOWN:
            lines.append(f"{len(rows) - SHOWN} more are left out here.")
        if self.findings.lines:
            lines += ["", *self.findings.lines, ""]
        return "\n".join([*lines, self.error_text(), *(f"Warning: {each}." for each in self.warnings)])

    def _error_dict(self) -> dict[str, Any] | None:
        error = self.error
        if error is None:
            return None
        return {
            "what": self.task.error,
            "value": error.value,
            "stderr": error.stderr,
            "rows": error.rows,
            "naive": error.squared,
            "naive_on_fitted_rows": error.fitted,
        }


NOISY_ERROR = (
    "The noise of y is a part of it, so that it is not zero for the best function either: compare models by it."
)
ASK_ELSEWHERE = "`model.error` and `dualembed score` tell it on other rows."


def headline_text(answer: Answer) -> str:
    """The answer in a sentence, with the verdict on it and what that means."""
    text = f"{answer.title} is {answer.text()}"
    return f"{text}." if answer.verdict is None else f"{text}, which is {verdict_text(answer)}"


def verdict_text(answer: Answer) -> str:
    """The verdict on an answer with what it means; nothing where there is none."""
    return "" if answer.verdict is None else f"{answer.verdict}: {meaning(answer.verdict, answer.because)}."


def estimate_cells(answer: Answer, level: float = 0.95) -> list[str]:
    """[the number with its error, its interval], as cells of a table."""
    lower, upper = answer.interval(level)
    ends = "–" if not lower <= upper else format_interval(lower, upper)
    return [format_estimate(answer.value, answer.stderr), ends]


def is_wrong(error: HeldOut) -> bool:
    """Whether the honest error is more than chance."""
    return bool(error.value > SIGNIFICANT * error.stderr)


def error_verdict(error: HeldOut) -> str:
    """Whether the data can tell the function from a right one, in a sentence."""
    if is_wrong(error):
        return (
            "The data can tell that the function is still wrong: its equation is off by about "
            f"{format_number(error.value**0.5)} on typical rows."
        )
    if error.inconclusive:
        return (
            "The data cannot tell how wrong the function is: the noise of the honest error is as large as anything it "
            "could be. More rows or episodes would tell."
        )
    return (
        "The data cannot tell the function from one that is exactly right: the honest error is zero within its noise."
    )
