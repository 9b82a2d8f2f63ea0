"""A table of models of one effect: what each says and assumes, what tests between them say, and which to report."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from dualembed.answers import LinearResults
from dualembed.answers.coefficients import TIDY, Coefficients, aligned, format_p
from dualembed.answers.iv_tests import SIZE
from dualembed.data.libraries import make_frame
from dualembed.estimates import format_estimate, format_interval, format_number
from dualembed.report.html import Markup, element, listed, paragraph, table

HEADS = ("model", "column", "effect", "std. error", "p", "95 % from", "to", "assumes")


@dataclasses.dataclass(frozen=True)
class ComparedModel:
    """One model of a comparison.

    Attributes
    ----------
    name : str
        Its name.
    assumes : str
        What has to hold for its numbers to be the effect.
    results : Coefficients or None
        Its coefficients, or average effects; None where it could not be fitted.
    refusal : str
        Why it could not.
    """

    name: str
    assumes: str
    results: Coefficients | None
    refusal: str = ""

    def effect(self, column: str) -> str:
        """What it says of a column of X, as a number with its error.

        Parameters
        ----------
        column : str
            A column of X.

        Returns
        -------
        str
            The words.
        """
        if self.results is None or column not in self.results.params:
            return "–"
        return format_estimate(self.results.params[column], self.results.std_errors[column])


@dataclasses.dataclass(frozen=True)
class ModelComparison:
    """Models of one effect on the same rows, from `compare_models`.

    Attributes
    ----------
    outcome : str
        Name of y.
    columns : tuple of str
        The terms of X, whose effects are compared.
    models : tuple of ComparedModel
        The models, from the one that assumes most.
    linear : LinearResults or None
        Two-stage least squares with its tests; None where a straight line is not identified.
    reported : str
        The model to report; nothing where there is none.
    verdict : str
        Which model to report and why, in words.
    rows : int
        Rows.
    library : str
        That of the frames that were given, of which `tidy` makes one.
    """

    outcome: str
    columns: tuple[str, ...]
    models: tuple[ComparedModel, ...]
    linear: LinearResults | None
    reported: str
    verdict: str
    rows: int
    library: str = ""

    def __getitem__(self, name: str) -> ComparedModel:
        for model in self.models:
            if model.name == name:
                return model
        raise KeyError(f"there is no model {name!r}; there are {', '.join(model.name for model in self.models)}")

    def records(self, level: float = 0.95) -> list[dict[str, Any]]:
        """A row for each model and column of X.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        list of dict
            The keys model, term, estimate, std_error, statistic, p_value, conf_low, conf_high, reported and assumes.
        """
        found = []
        for model in self.models:
            own = {} if model.results is None else {row["term"]: row for row in model.results.records(level)}
            for column in self.columns:
                numbers = own.get(column, dict.fromkeys(TIDY, math.nan) | {"term": column})
                more = {"reported": model.name == self.reported, "assumes": model.assumes}
                found.append({"model": model.name, **numbers, **more})
        return found

    def tidy(self, level: float = 0.95) -> Any:
        """The same as a frame: of the library whose frames were given, else of pandas, or of Arrow.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        frame
            One row for each model and column of X.
        """
        rows = self.records(level)
        return make_frame({name: [row[name] for row in rows] for name in rows[0]}, self.library)

    def tests(self) -> list[str]:
        """What the tests between the models say.

        Returns
        -------
        list of str
            A sentence each.
        """
        if self.linear is None:
            return []
        return self.linear.sentences()

    def to_dict(self) -> dict[str, Any]:
        """All of it in terms that JSON has.

        Returns
        -------
        dict
            The rows, the tests, and the verdict.
        """
        refusals = {model.name: model.refusal for model in self.models if model.refusal}
        linear = None if self.linear is None else self.linear.to_dict()
        return {
            "outcome": self.outcome,
            "rows": self.rows,
            "models": self.records(),
            "refused": refusals,
            "tests": [] if linear is None else [*linear["first_stage"], *linear["tests"]],
            "anderson_rubin": None if linear is None else linear["anderson_rubin"],
            "reported": self.reported or None,
            "verdict": self.verdict,
        }

    def text(self, *, tests: bool = True) -> str:
        """The table, what the tests say, and the verdict.

        Parameters
        ----------
        tests : bool, default=True
            Whether to say what the tests say; their verdict is there anyway.

        Returns
        -------
        str
            Lines.
        """
        cells = [HEADS, *self._cells()]
        if len(self.columns) == 1:
            cells = [(row[0], *row[2:]) for row in cells]
        *front, last = zip(*cells, strict=True)
        lines = aligned(list(zip(*front, strict=True)))
        width = max(map(len, lines))
        lines = [f"{line:<{width}}  {words}".rstrip() for line, words in zip(lines, last, strict=True)]
        said = [*self.tests(), ""] if tests else []
        return "\n".join([self._title(), "", *lines, "", *said, self.verdict])

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        rows = [[row[0], *row[1:]] for row in self._cells()]
        marked = [[element("strong", f"{row[0]} ✓") if row[0] == self.reported else row[0], *row[1:]] for row in rows]
        return str(
            Markup(
                "".join(
                    [
                        table(self._title(), HEADS, marked),
                        paragraph(element("strong", self.verdict)),
                        listed(self.tests()),
                    ]
                )
            )
        )

    def _title(self) -> str:
        of = self.columns[0] if len(self.columns) == 1 else "each column of X"
        return f"What one unit of {of} adds to {self.outcome}, on average over {self.rows:,} rows"

    def _cells(self) -> list[tuple[str, ...]]:
        found = []
        for row in self.records():
            model = self[row["model"]]
            if model.results is None:
                found.append((model.name, row["term"], *["–"] * 5, f"not fitted: {model.refusal}"))
                continue
            numbers = [format_number(row[name]) for name in ("estimate", "std_error")]
            ends = [format_number(row[name]) for name in ("conf_low", "conf_high")]
            found.append((model.name, row["term"], *numbers, format_p(row["p_value"]), *ends, model.assumes))
        return found


def choose(
    linear: LinearResults | None,
    smooth: ComparedModel,
    lines: dict[str, ComparedModel],
    *,
    unidentified: str,
    answerable: bool,
    wrong: bool,
    straight: bool,
    column: str,
) -> tuple[str, str]:
    """(the model to report, why); no model where the data tell nothing, or the instruments contradict each other.

    `answerable` is whether the smooth f has an answer, `wrong` whether rows left out speak against it, and
    `straight` whether it is a straight line, too.
    """
    if unidentified:
        return "", f"Report none of these: {unidentified}."
    told = f"{smooth.effect(column)} for {column}"
    if linear is None:
        return smooth.name, f"Report the smooth f ({told}): a straight line is not identified."
    line, agree = linear.test("linearity"), linear.j_stat or linear.sargan
    contradict = agree is not None and agree.pvalue < SIZE
    if line is not None and line.pvalue < SIZE:
        words = f"A straight line is rejected (p = {line.pvalue:.2g})"
        if straight:
            return "", f"{words}, and all but the sieve are one: compare with an f that may bend."
        if wrong:
            words += ", and so is the smooth f on rows left out: an instrument may act past X"
            return "", f"{words}. Report none of these before it is clear which instruments are valid."
        if contradict:
            words += ", and along it the instruments contradict each other, which a curve explains"
        if not answerable:
            return "", f"{words}, and of a curved f the data do not say enough: report none of these as the effect."
        return smooth.name, (
            f"{words}: report the average effect by the smooth f ({told}), with its curve; a line's slope weighs rows "
            "by how far the instruments move them."
        )
    if agree is not None and contradict:
        return "", (
            f"The instruments contradict each other (p = {agree.pvalue:.2g}), though a straight line is not rejected "
            "otherwise: report none of these before it is clear which instrument is valid."
        )
    best = "two-stage least squares"
    if linear.weak:
        best = "LIML" if agree is not None and lines["LIML"].results is not None else best
        found = linear.anderson_rubin
        instead = "" if found is None else f", with the Anderson-Rubin set in place of its interval: {set_words(found)}"
        return best, f"The instruments are weak: report {best} ({lines[best].effect(column)} for {column}){instead}."
    told = f"{lines[best].effect(column)} for {column}"
    exogenous = linear.wu_hausman()
    if exogenous is not None and not exogenous.pvalue < SIZE:
        return best, (
            f"Report {best} ({told}): a straight line is not rejected. It does not differ from least squares by more "
            f"than chance (p = {exogenous.pvalue:.2g}), which is more precise where nothing hidden moves {column}."
        )
    return best, f"Report {best} ({told}): a straight line is not rejected, and least squares is."


def set_words(found: Any) -> str:
    """The pieces of a set of effects in a few words.

    >>> from dualembed.answers.anderson_rubin import ConfidenceSet
    >>> set_words(ConfidenceSet("x", 0.95, ((-math.inf, -1.0), (2.0, math.inf)), ""))
    'at most -1 or at least 2'
    """
    if found.empty:
        return "no effect at all agrees with the instruments"
    if not found.bounded and len(found.pieces) == 1 and found.pieces[0][0] == -found.pieces[0][1]:
        return "any effect at all"
    return " or ".join(_piece(*piece) for piece in found.pieces)


def _piece(lower: float, upper: float) -> str:
    if lower == -math.inf:
        return f"at most {format_number(upper)}"
    return f"at least {format_number(lower)}" if upper == math.inf else format_interval(lower, upper)
