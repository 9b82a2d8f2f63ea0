"""One question about every level of a column: answers with their joint covariance."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.stats import chi2

from dualembed import checks
from dualembed.answers.answer import Answer
from dualembed.answers.summary import estimate_cells
from dualembed.arrays import Floats
from dualembed.estimates import format_estimate


@dataclasses.dataclass(frozen=True)
class Subgroups:
    """The answers to one question about each of several groups of rows, which `ask(question, by=column)` gives.

    Attributes
    ----------
    column : str
        The column that tells the groups apart.
    levels : tuple of str
        What each group has there.
    shares : array of shape (K,)
        Shares of the rows; the mean of the answers by these is the answer about all rows.
    answers : tuple of Answer
        An answer for each group.
    covariance : array of shape (K, K)
        The covariance of the answers.
    whole : Answer, optional
        The answer about all rows, whose error knows that the shares of groups are those of a sample.
    """

    column: str
    levels: tuple[str, ...]
    shares: Floats
    answers: tuple[Answer, ...]
    covariance: Floats
    whole: Answer | None = None

    @property
    def values(self) -> Floats:
        """The numbers alone, (K,)."""
        return np.array([answer.value for answer in self.answers])

    def average(self) -> Answer:
        """The mean over all groups by their shares: the answer about all rows.

        Returns
        -------
        Answer
            The mean.
        """
        if self.whole is not None:
            return self.whole
        return self._combined(self.shares, f"the mean over all levels of {self.column}")

    def difference(self, first: Any, second: Any) -> Answer:
        """The answer about one group less that about another.

        Parameters
        ----------
        first : object
            A level.
        second : object
            Another one.

        Returns
        -------
        Answer
            The difference, with an error that knows how the two vary together.
        """
        weights = np.zeros(len(self.levels))
        weights[self._place(first)] += 1.0
        weights[self._place(second)] -= 1.0
        return self._combined(weights, f"the difference between {self.column} {first} and {second}")

    def equality_test(self) -> float:
        """The p-value of all groups having the same answer, by Wald's test.

        Returns
        -------
        float
            The p-value; 1 where there is one group only.
        """
        if len(self.levels) < 2:
            return 1.0
        contrasts = np.diff(np.eye(len(self.levels)), axis=0)
        moved = contrasts @ self.values
        spread = contrasts @ self.covariance @ contrasts.T
        values, vectors = np.linalg.eigh(spread)
        kept = values > 1e-10 * max(float(values[-1]), np.finfo(float).tiny)
        statistic = float(np.sum((vectors[:, kept].T @ moved) ** 2 / values[kept]))
        return float(chi2.sf(statistic, int(kept.sum())))

    def tidy(self, level: float = 0.95) -> Any:
        """A frame with a row for each group: of pandas where that is installed, else of Arrow.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        frame
            term, estimate, std_error, conf_low, conf_high, share.
        """
        ends = np.array([answer.interval(level) for answer in self.answers])
        columns = {
            "term": [f"{self.column}={each}" for each in self.levels],
            "estimate": self.values,
            "std_error": np.array([answer.stderr for answer in self.answers]),
            "conf_low": ends[:, 0],
            "conf_high": ends[:, 1],
            "share": self.shares,
        }
        try:
            import pandas
        except ImportError:
            import pyarrow

            return pyarrow.table(columns)
        return pandas.DataFrame(columns)

    def to_dict(self, level: float = 0.95) -> dict[str, Any]:
        """The groups in terms that JSON has.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        dict
            Levels with shares and answers, their mean and the test of their being equal.
        """
        groups = zip(self.levels, self.shares.tolist(), self.answers, strict=True)
        return {
            "column": self.column,
            "groups": [{"group": group, "share": share, **answer.to_dict(level)} for group, share, answer in groups],
            "average": self.average().to_dict(level),
            "covariance": self.covariance.tolist(),
            "equality_p_value": self.equality_test(),
        }

    def sentence(self) -> str:
        """The groups in a sentence.

        Returns
        -------
        str
            What each group has, and whether the data can tell them apart.
        """
        groups = zip(self.levels, self.shares, self.answers, strict=True)
        told = ", ".join(
            f"{format_estimate(answer.value, answer.stderr)} where it is {group} ({share:.0%} of rows)"
            for group, share, answer in groups
        )
        return f"By {self.column} it is {told}; that all are equal has p = {self.equality_test():.2g}."

    def __str__(self) -> str:
        return self.text()

    def text(self, level: float = 0.95) -> str:
        """The groups as a table.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        str
            A line for each group, one for all, and the test of their being equal.
        """
        rows = [
            (group, f"{share:.0%}", *estimate_cells(answer, level))
            for group, share, answer in zip(self.levels, self.shares, self.answers, strict=True)
        ]
        rows.append(("all", "100%", *estimate_cells(self.average(), level)))
        heads = (self.column, "share", "estimate", f"{100 * level:g} % interval")
        widths = [max(len(row[k]) for row in (heads, *rows)) for k in range(len(heads))]
        pairs = [zip(row, widths, strict=True) for row in (heads, *rows)]
        lines = ["  ".join(cell.ljust(width) for cell, width in pair).rstrip() for pair in pairs]
        return "\n".join([*lines, f"That all are equal has p = {self.equality_test():.2g}."])

    def _place(self, level: Any) -> int:
        if str(level) not in self.levels:
            raise checks.InputError(f"{self.column} has no group {level!r}; there are {', '.join(self.levels)}")
        return self.levels.index(str(level))

    def _combined(self, weights: Floats, words: str) -> Answer:
        stderr = float(np.sqrt(max(float(weights @ self.covariance @ weights), 0.0)))
        return Answer(float(weights @ self.values), stderr, freedom=self.answers[0].freedom, question=words)
