"""What a comparison of policies found: values, differences, overlap, and what other estimators say, in one table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from dualembed import checks
from dualembed.answers import Answer
from dualembed.comparison.joint import Joint, bonferroni
from dualembed.data.libraries import make_frame
from dualembed.estimates import Estimate, format_number

OURS = "debiased"  # the estimator whose answers the values are
MEASURES = ("value", "stderr", "lower", "upper")


@dataclasses.dataclass(frozen=True)
class Best:
    """The best of several policies, and a value that its having been picked does not flatter.

    Attributes
    ----------
    name : str
        The policy with the highest value.
    value : Answer
        What picking the policy with the highest value is worth: three tenths of the log judge the policy that the
        rest picks, in all ways to part it. It is not biased upwards by the choice, as the highest of several values is.
    picked : Mapping[str, float]
        How often each policy was picked, as shares of the log. Where it is not one alone, the data do not tell which is
        best.
    lower : float
        What the policy is worth at least, by intervals of all values and differences that hold together (95 %).
    """

    name: str
    value: Answer
    picked: Mapping[str, float]
    lower: float

    def __str__(self) -> str:
        often = ", ".join(f"{name} {share:.0%}" for name, share in self.picked.items() if share)
        return f"best: {self.name}, {self.value.text()} when it is not judged by what picked it (picked: {often})"


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The values of policies, and their differences, from `compare`.

    Attributes
    ----------
    values : Mapping[str, Answer]
        The value of each policy by its name.
    differences : Mapping[tuple[str, str], Answer]
        The difference of two policies by their names, the first minus the second, each pair once.
    estimates : Mapping[str, Mapping[str, Estimate]]
        What other estimators say of each policy, by its name and theirs.
    overlap : Mapping[str, float]
        How many rows each policy's value rests on, as a share of the log's.
    joint : Joint or None
        How values vary together; None for fits by other solvers, which do not know it.
    notes : tuple of str
        What to know of the log, and of what other estimators make of it.
    library : str
        The library of frames that the log came in.
    """

    values: Mapping[str, Answer]
    differences: Mapping[tuple[str, str], Answer]
    estimates: Mapping[str, Mapping[str, Estimate]] = dataclasses.field(default_factory=dict)
    overlap: Mapping[str, float] = dataclasses.field(default_factory=dict)
    joint: Joint | None = None
    notes: tuple[str, ...] = ()
    library: str = ""

    def difference(self, first: str, second: str) -> Answer:
        """Tell by how much the first policy is worth more than the second.

        Parameters
        ----------
        first, second : str
            Names of policies.

        Returns
        -------
        Answer
            The difference, with its own error.

        Raises
        ------
        InputError
            If there is no policy of that name.
        """
        for name in (first, second):
            if name not in self.values:
                raise checks.InputError(f"there is no policy {name!r}; there are {', '.join(self.values)}")
        if (first, second) in self.differences:
            return self.differences[first, second]
        if first == second:
            return Answer(0.0, 0.0, question=f"{first} minus {second}")
        other = self.differences[second, first]
        return dataclasses.replace(other, value=-other.value, question=f"{first} minus {second}")

    def best(self) -> Best:
        """Pick the policy with the highest value, and say what it is worth although it was picked.

        The highest of several estimates is too high on average, the more so the more policies there are. Here three of
        ten groups of the log's episodes judge the policy that the other seven pick, in all ways to choose them.

        Returns
        -------
        Best
            The policy, and its value.

        Raises
        ------
        InputError
            If fits do not know how values vary together.
        """
        if self.joint is None:
            raise checks.InputError(
                "the best policy is told from default fits, which know how values vary together; compare without "
                "solver=, primal= and dual="
            )
        names = list(self.values)
        place = int(np.argmax(self.joint.values))
        value, stderr, counts = self.joint.best()
        own = self.values[names[place]]
        warnings = own.warnings
        answer = Answer(
            value,
            stderr,
            freedom=float(len(self.joint.shares) - 1),
            question="the value of the policy that the rest of the log picks",
            verdict=own.verdict,
            warnings=warnings,
        )
        shares = {name: float(count) for name, count in zip(names, counts, strict=True)}
        return Best(names[place], answer, shares, own.value - self.reach() * own.stderr)

    def reach(self, level: float = 0.95) -> float:
        """Tell how many standard errors intervals reach that hold for all values and differences at once.

        Parameters
        ----------
        level : float, default=0.95
            Probability that all of them cover.

        Returns
        -------
        float
            That many: by draws of what groups of rows add to all of them, or by Bonferroni's inequality where fits do
            not know that.
        """
        if self.joint is not None:
            return self.joint.quantile(level)
        count = len(self.values) + len(self.differences)
        return bonferroni(level, count, [each.freedom for each in self.values.values()])

    def table(self, level: float = 0.95) -> list[dict[str, Any]]:
        """List all values, all differences, and what other estimators say, for a data frame.

        Intervals of values and differences hold together; those of other estimators are one by one.

        Parameters
        ----------
        level : float, default=0.95
            Level of the intervals.

        Returns
        -------
        list of dict
            Rows with the keys what, estimator, value, stderr, lower, upper, overlap and verdict.
        """
        reach = self.reach(level)
        rows = [self._row(name, answer, reach) for name, answer in self.values.items()]
        rows += [self._row(f"{a} minus {b}", answer, reach) for (a, b), answer in self.differences.items()]
        for name, others in self.estimates.items():
            for estimator, found in others.items():
                ends = dict(zip(("lower", "upper"), found.interval(level), strict=True))
                numbers = {"value": found.value, "stderr": found.stderr, **ends}
                rows.append({"what": name, "estimator": estimator, **numbers, "overlap": None, "verdict": None})
        return rows

    def _row(self, what: str, answer: Answer, reach: float) -> dict[str, Any]:
        ends = {"lower": answer.value - reach * answer.stderr, "upper": answer.value + reach * answer.stderr}
        numbers = {"value": answer.value, "stderr": answer.stderr, **ends, "overlap": self.overlap.get(what)}
        verdict = None if answer.verdict is None else str(answer.verdict)
        return {"what": what, "estimator": OURS, **numbers, "verdict": verdict}

    def tidy(self, level: float = 0.95) -> Any:
        """List the same as a frame, in the names that other libraries have.

        Parameters
        ----------
        level : float, default=0.95
            Level of the intervals.

        Returns
        -------
        frame
            The columns what, estimator, estimate, std_error, conf_low, conf_high, overlap and verdict; of the log's
            library where it came as a frame, else of pandas where that is installed, or of Arrow.
        """
        named = {"value": "estimate", "stderr": "std_error", "lower": "conf_low", "upper": "conf_high"}
        rows = self.table(level)
        return make_frame({named.get(key, key): [row[key] for row in rows] for key in rows[0]}, self.library)

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """Give all in terms that JSON has.

        Parameters
        ----------
        level : float, default=0.95
            Level of the intervals.

        Returns
        -------
        dict
            The rows of the table, the best policy where it can be told, the level, notes and warnings.
        """
        rows = [{key: _plain(value) for key, value in row.items()} for row in self.table(level)]
        found: dict[str, Any] = {"answers": rows, "level": level, "reach": _plain(self.reach(level))}
        if self.joint is not None and len(self.values) > 1:
            best = self.best()
            found["best"] = {
                "policy": best.name,
                **{key: best.value.to_dict(level)[key] for key in MEASURES},
                "picked": dict(best.picked),
                "at_least": _plain(best.lower),
            }
        return found | {"notes": list(self.notes), "warnings": list(self.warnings)}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to worry about in each policy's value."""
        own = [f"{name}: {each}" for name, answer in self.values.items() for each in answer.warnings]
        return tuple(dict.fromkeys(own))

    def __str__(self) -> str:
        return self.text()

    def text(self, level: float = 0.95) -> str:
        """Write the table out, with what is best and what to worry about.

        Parameters
        ----------
        level : float, default=0.95
            Level of the intervals.

        Returns
        -------
        str
            The lines.
        """
        rows = self.table(level)
        heads = ("", "estimator", "value", "± error", f"{100 * level:g} % interval", "rows used", "verdict")
        cells = [heads, *(_cells(row) for row in rows)]
        widths = [max(len(row[place]) for row in cells) for place in range(len(heads))]
        lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in cells]
        notes = [f"Intervals of {OURS} values and differences hold all at once; those of others one by one."]
        if self.joint is not None and len(self.values) > 1:
            text = str(self.best())
            notes.append(f"{text[0].upper()}{text[1:]}.")
        notes += [f"{each[0].upper()}{each[1:]}." for each in self.notes]
        notes += [f"Warning: {each}." for each in self.warnings]
        return "\n".join([*(line.rstrip() for line in lines), *notes])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    verdict = row["verdict"] or ""
    overlap = "" if row["overlap"] is None else f"{row['overlap']:.0%}"
    if not np.isfinite(row["value"]):
        return row["what"], row["estimator"], "diverges", "", "", overlap, verdict
    ends = f"[{format_number(row['lower'])}, {format_number(row['upper'])}]"
    return row["what"], row["estimator"], f"{row['value']:.4g}", f"± {row['stderr']:.2g}", ends, overlap, verdict


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
