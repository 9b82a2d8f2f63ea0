"""A regression by the names that econometricians know its numbers by, and as tables for papers have it.

Where f is a straight line they are those of `linear_`. Of any other f they are average effects: the mean derivative
along a number, the mean difference between a category's levels, over the rows of the fit. What scikit-learn sets in
`fit` ends with `_`; these names are made of that when they are asked for, and raise NotFittedError before.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dualembed import checks
from dualembed.answers import Answer, AverageEffects, Findings, FirstStageTest, IVTest, LinearResults, Question, Verdict
from dualembed.answers.anderson_rubin import ConfidenceSet
from dualembed.answers.coefficients import Coefficients, Intervals
from dualembed.answers.side_by_side import econometric_lines
from dualembed.arrays import Floats
from dualembed.estimators.effects import Effects
from dualembed.linear.iv_columns import INTERCEPT
from dualembed.linear.moment_fit import Spread


class Econometrics(Effects):
    """A regression with the names of econometrics."""

    linear_: LinearResults | None = None
    outcome_: str = "y"
    clusters_: int | None = None
    path_: bool = False
    absorbed_: tuple[str, ...] = ()  # names of the factors whose effects were absorbed
    library_: str = ""  # of the frames that it was fitted to
    unidentified_: str = ""  # why the effects of X cannot be told by any f; nothing where they can
    _averages: tuple[Any, AverageEffects] | None = None  # of the fit that had this uncertainty

    def ask(self, question: Question) -> Answer:
        """Answer a question that is linear in f, with its standard error and a verdict on what it rests on.

        Where the instruments do not identify f, nothing about it is answerable.

        Parameters
        ----------
        question : Question
            What methods such as `at` and `difference` make. Questions add and subtract; a difference has its own error,
            which is not that of its two sides.

        Returns
        -------
        Answer
            The answer.
        """
        answer = super().ask(question)
        if not self.unidentified_:
            return answer
        because = (self.unidentified_, *answer.because)
        return dataclasses.replace(answer, verdict=Verdict.NOT_ANSWERABLE, because=because)

    def average_effects(self) -> AverageEffects:
        """What one unit of each column adds on average over the rows of the fit, with the effects' joint covariance.

        It is the mean derivative along a number, the mean difference between the values of a column that has two, and
        for each level of a category but the first the mean difference from that. The same for a straight line, whose
        slopes these are.

        Returns
        -------
        AverageEffects
            The effects.
        """
        check_is_fitted(self, "function_")
        if self.uncertainty_ is None:
            raise checks.InputError(
                "average effects have errors where the square loss is solved in closed form, which this fit was not; "
                "use solver='auto'"
            )
        if self._averages is None or self._averages[0] is not self.uncertainty_:
            self._averages = self.uncertainty_, self._averaged()
        return self._averages[1]

    @property
    def _results(self) -> Coefficients:
        """The coefficients of a line, or the average effects of any other f."""
        check_is_fitted(self, "function_")
        return self.linear_ if self._is_line and self.linear_ is not None else self.average_effects()

    @property
    def params(self) -> dict[str, float]:
        """Coefficients by name, where f is a straight line; else the average effect of each column."""
        return self._results.params

    @property
    def std_errors(self) -> dict[str, float]:
        """Their standard errors."""
        return self._results.std_errors

    @property
    def bse(self) -> dict[str, float]:
        """Their standard errors, as statsmodels calls them."""
        return self._results.std_errors

    @property
    def tvalues(self) -> dict[str, float]:
        """`params` over `std_errors`."""
        return self._results.tvalues

    @property
    def tstats(self) -> dict[str, float]:
        """The same, as linearmodels calls them."""
        return self._results.tvalues

    @property
    def pvalues(self) -> dict[str, float]:
        """Two-sided p-values of each of `params` being 0."""
        return self._results.pvalues

    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> Intervals:
        """Intervals of `params`.

        Parameters
        ----------
        level : float, default=0.95
            Probability, between 0 and 1.
        alpha : float, optional
            1 less the level, as statsmodels has it; in place of the level.

        Returns
        -------
        Intervals
            A dictionary from names to lower and upper ends.
        """
        return self._results.conf_int(level, alpha=alpha)

    def cov_params(self) -> Floats:
        """The covariance of `params`, in their order.

        Returns
        -------
        array of shape (K, K)
            The covariance.
        """
        return self._results.cov_params()

    def tidy(self, level: float = 0.95) -> Any:
        """`params` with all of the above, as a frame of the library whose frames the fit was given.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        frame
            Columns term, estimate, std_error, statistic, p_value, conf_low, conf_high.
        """
        return self._results.tidy(level)

    @property
    def nobs(self) -> int:
        """Rows of the fit."""
        check_is_fitted(self, "function_")
        return int(self.diagnostics_.rows)

    @property
    def rsquared(self) -> float | None:
        """R² of a straight line, as statsmodels and linearmodels call it; None of any other f."""
        return self._results.rsquared

    @property
    def endog_names(self) -> str:
        """The outcome's name, as statsmodels calls it; tables ask for it."""
        return self._results.outcome

    @property
    def cov_type(self) -> str:
        """Which noise the errors of `params` allow for, as statsmodels calls it."""
        return self._results.error_words

    @property
    def first_stage(self) -> tuple[FirstStageTest, ...]:
        """How far instruments move each column of X, along a straight line; nothing without instruments."""
        return () if self._line is None else self._line.first_stage

    @property
    def sargan(self) -> IVTest | None:
        """Whether instruments agree with each other, for noise of one variance; None where they cannot but agree."""
        return None if self._line is None else self._line.sargan

    @property
    def j_stat(self) -> IVTest | None:
        """Hansen's J, whether instruments agree with each other whatever the noise; None where they cannot but."""
        return None if self._line is None else self._line.j_stat

    def wu_hausman(self) -> IVTest | None:
        """Whether least squares would do, in a linear model.

        Returns
        -------
        IVTest or None
            The test; None without instruments.
        """
        return None if self._line is None else self._line.wu_hausman()

    @property
    def anderson_rubin(self) -> ConfidenceSet | None:
        """The slopes that the data do not speak against however weak instruments are; None of several columns of X."""
        return None if self._line is None else self._line.anderson_rubin

    @property
    def linearity(self) -> IVTest | None:
        """Whether the data speak against a straight line."""
        return None if self._line is None else self._line.test("linearity")

    @property
    def _line(self) -> LinearResults | None:
        check_is_fitted(self, "function_")
        return self.linear_

    def _findings(self, headline: Answer) -> Findings:
        """With average effects, and what econometricians print of them and of the linear model."""
        findings = super()._findings(headline)
        known = self.uncertainty_ is not None and (self.sample_ is not None or (self._is_line and self.linear_))
        effects = self.average_effects() if known else None
        lines = econometric_lines(effects, self.linear_, is_line=self._is_line)
        facts = {**findings.facts, "average_effects": [] if effects is None else effects.records()}
        return findings._replace(facts=facts, lines=tuple(lines))

    def _averaged(self) -> AverageEffects:
        """The average effects, found anew; of a straight line its slopes, so that no number has two errors."""
        if self._is_line and self.linear_ is not None:
            return _slopes(self.linear_)
        pairs, spreads = list(self._unit_questions()), self._spreads()
        if len(spreads) == 1 and isinstance(spreads[0], Spread):
            found, stderr, joint = _at_once(spreads[0], [question for _, question in pairs])
        else:
            answers = [self.ask(question) for _, question in pairs]
            found, stderr = (np.array([getattr(each, name) for each in answers]) for name in ("value", "stderr"))
            flat = [question.flat() for _, question in pairs]
            joint = max((spread.covariance(flat) for spread in spreads), key=np.trace) if flat else np.zeros((0, 0))
        sizes = np.sqrt(np.maximum(np.diag(joint), np.finfo(float).tiny))
        freedom = self._freedom
        return AverageEffects(
            self.outcome_,
            self._noise_words(),
            tuple(name for name, _ in pairs),
            found,
            # What is known of each by itself counts: a mean over a sample of rows varies with these, too.
            joint * np.outer(stderr / sizes, stderr / sizes),
            np.inf if freedom is None else freedom,
            int(self.diagnostics_.rows),
            self.library_,
        )

    def _noise_words(self) -> str:
        if self.path_:
            return "clustered by blocks of time"
        return "robust to unequal variances" if self.clusters_ is None else "clustered"

    def _unit_questions(self) -> Iterator[tuple[str, Question]]:
        """(the name, the question) of what one unit of each column does."""
        over = self._asked_rows(None, None, "average_effects()")
        rows = over.rows
        for number, (_, place) in enumerate(self._places()):
            column = place.column
            if not column.width:
                continue
            if column.levels:
                for level in column.levels[1:]:
                    ends = level, column.levels[0]
                    name = f"{column.name}={level}"
                    yield name, self._contrast(f"the average effect of {name}", place, ends, over)
                continue
            seen = np.unique(rows[:, place.coordinates])
            if len(seen) == 2:
                both = rows[[np.argmin(rows[:, place.coordinates]), np.argmax(rows[:, place.coordinates])]]
                low, high = (float(f"{each:.9g}") for each in place.values(both).ravel())
                contrast = self._contrast(f"the average effect of {column.name}", place, (high, low), over)
                yield column.name, contrast * (1 / (high - low))
            else:
                yield column.name, self._mean_derivative(number, None, None)

    @property
    def __maketables_coef_table__(self) -> Any:
        """What maketables' `ETable` shows of each of `params`."""
        return self._results.__maketables_coef_table__

    def __maketables_stat__(self, key: str) -> Any:
        """One of the statistics below a table's column; those of instruments are of the linear model."""
        value = self._results.__maketables_stat__(key)
        if value is None and self.linear_ is not None and key != "r2":
            return self.linear_.__maketables_stat__(key)
        return value

    @property
    def __maketables_depvar__(self) -> str:
        """The outcome's name."""
        return self._results.outcome

    @property
    def __maketables_fixef_string__(self) -> str | None:
        """Names of the factors whose effects were absorbed, as pyfixest writes them; None without any."""
        return "+".join(self.absorbed_) or None

    @property
    def __maketables_var_labels__(self) -> dict[str, str] | None:
        """Labels of columns other than their names: none."""
        return None

    @property
    def __maketables_vcov_info__(self) -> dict[str, Any]:
        """Which noise errors allow for."""
        return self._results.__maketables_vcov_info__

    @property
    def __maketables_stat_labels__(self) -> dict[str, str]:
        """What the statistics are called."""
        source = self._results if self.linear_ is None else self.linear_
        return source.__maketables_stat_labels__

    @property
    def __maketables_default_stat_keys__(self) -> list[str]:
        """The statistics that are shown unless others are asked for."""
        source = self._results if self.linear_ is None else self.linear_
        return [key for key in source.__maketables_default_stat_keys__ if self.__maketables_stat__(key) is not None]


def _at_once(spread: Spread, questions: Sequence[Question]) -> tuple[Floats, Floats, Floats]:
    """(answers, their errors with what a sample of rows adds, their covariance without that), features made once."""
    values, rows, sampled = [], [], []
    for question in questions:
        points, coefficients = question.flat()
        features = spread.features_at(points)
        f = features @ spread.weights
        values.append(float(coefficients @ f))
        rows.append((coefficients @ features) @ spread.root)
        ((factor, part),) = question.parts
        sampled.append(factor**2 * part.sampling_variance(functools.partial(_known, f)))
    moves = np.stack(rows) if rows else np.zeros((0, 1))
    joint = moves @ moves.T
    return np.array(values), np.sqrt(np.diag(joint) + np.array(sampled)), joint


def _known(values: Floats, points: Floats) -> Floats:
    """The values at these points."""
    return values


def _slopes(line: LinearResults) -> AverageEffects:
    """The coefficients of a line but for the constant."""
    kept = [place for place, name in enumerate(line.names) if name != INTERCEPT]
    return AverageEffects(
        line.outcome,
        line.errors,
        tuple(line.names[place] for place in kept),
        line.values[kept],
        line.covariance[np.ix_(kept, kept)],
        line.freedom,
        line.rows,
        line.library,
    )
