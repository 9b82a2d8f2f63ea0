"""The linear model as econometricians print it: coefficients, errors, and what its tests say, each in a sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from dualembed.answers.anderson_rubin import ConfidenceSet, anderson_rubin_set
from dualembed.answers.coefficients import Coefficients, Printed, aligned, format_p
from dualembed.answers.iv_strength import FirstStageTest, effective_f, first_stage_tests, rank_test
from dualembed.answers.iv_tests import IVTest, hansen_test, sargan_test, wu_hausman_test
from dualembed.answers.linearity import linearity_test
from dualembed.arrays import Floats
from dualembed.checks import InputError
from dualembed.estimates import format_number
from dualembed.linear.iv_covariance import ClusterJackknife, Covariance, can_leave_out
from dualembed.linear.iv_design import IVDesign
from dualembed.linear.two_stage import fit_two_stage

Test = TypeVar("Test")

FEW_CLUSTERS = 40  # below which errors come from leaving clusters out: the usual ones are too small


@dataclasses.dataclass(frozen=True)
class LinearResults(Coefficients):
    """A linear model with instruments, or without: all that is printed of it, and none of its rows.

    Attributes
    ----------
    outcome : str
        Name of y.
    method : str
        How it was fitted, in words.
    errors : str
        Which noise its errors allow for, in words.
    names : tuple of str
        Names of the coefficients: treatments, controls, intercept.
    values : array of shape (K,)
        The coefficients.
    covariance : array of shape (K, K)
        Their covariance.
    freedom : float
        Degrees of freedom of t intervals; infinite for normal ones.
    rows : int
        Rows.
    r_squared : float
        Share of the variance of y that it explains; below 0 where hidden causes move X far.
    endogenous : tuple of str
        Names of the columns that instruments move.
    instruments : tuple of str
        Names of the excluded instruments.
    first_stage : tuple of FirstStageTest
        How far the instruments move each endogenous column.
    tests : tuple of IVTest
        What else was tested: rank, effective F, over-identification, whether instruments were needed.
    anderson_rubin : ConfidenceSet or None
        The set of effects that data do not speak against, however weak instruments are; of one endogenous column.
    dropped : tuple of str
        Columns that were left out, with the reason.
    residual_variance : float
        Sum of squares of residuals over n - k; NaN where it was not kept.
    library : str
        That of the frames that it was fitted to, of which `tidy` makes one; nothing where there were none.
    """

    outcome: str
    method: str
    errors: str
    names: tuple[str, ...]
    values: Floats
    covariance: Floats
    freedom: float
    rows: int
    r_squared: float
    endogenous: tuple[str, ...] = ()
    instruments: tuple[str, ...] = ()
    first_stage: tuple[FirstStageTest, ...] = ()
    tests: tuple[IVTest, ...] = ()
    anderson_rubin: ConfidenceSet | None = None
    dropped: tuple[str, ...] = ()
    residual_variance: float = float("nan")
    library: str = ""

    @staticmethod
    def of(design: IVDesign, covariance: Covariance | None = None) -> LinearResults:
        """Fit the design by two stages, or by least squares without instruments, and run every test that applies.

        Parameters
        ----------
        design : IVDesign
            The columns.
        covariance : Covariance, optional
            Which noise errors allow for; by default robust, or clustered where there are clusters, by leaving clusters
            out where these are few.

        Returns
        -------
        LinearResults
            The results.

        Raises
        ------
        InputError
            If the columns do not identify the coefficients; it names them.
        """
        factored = design.factored
        if covariance is None and can_leave_out(factored) and factored.clusters[0].max() + 1 < FEW_CLUSTERS:
            covariance = ClusterJackknife()
        fit = fit_two_stage(design, covariance)
        errors = None if isinstance(covariance, ClusterJackknife) else covariance  # tests are of scores
        moved = bool(factored.endogenous_names)
        attempts: list[Callable[[], IVTest]] = [lambda: linearity_test(design)]
        if moved:
            attempts = [
                lambda: rank_test(design, errors),
                lambda: effective_f(design, errors),
                lambda: sargan_test(design),
                lambda: hansen_test(design, errors),
                lambda: wu_hausman_test(design, errors),
                *attempts,
            ]
        tests = [test for test in map(_attempt, attempts) if test is not None]
        return LinearResults(
            design.outcome_name,
            fit.method,
            fit.errors.words(),
            fit.names,
            fit.params,
            fit.covariance,
            fit.freedom,
            fit.rows,
            fit.r_squared,
            factored.endogenous_names,
            factored.instrument_names,
            (_attempt(lambda: first_stage_tests(design, errors)) or ()) if moved else (),
            tuple(tests),
            _attempt(lambda: anderson_rubin_set(design, 0.95, errors)) if moved else None,
            tuple(str(each) for each in fit.dropped),
            fit.residual_variance,
        )

    @property
    def nobs(self) -> int:
        """Rows, as statsmodels and linearmodels call them."""
        return self.rows

    @property
    def title(self) -> str:
        """What was fitted to what, and which noise errors allow for, in a line."""
        return f"{self.method} of {self.outcome} on {self.rows:,} rows, errors {self.errors}"

    @property
    def rsquared(self) -> float:
        """R², as statsmodels and linearmodels call it."""
        return self.r_squared

    @property
    def error_words(self) -> str:
        """Which noise errors allow for, in words."""
        return self.errors

    def statistics(self) -> dict[str, tuple[str, Any]]:
        """What tables for papers have below the coefficients: (name, number) by a key that reads as one.

        Returns
        -------
        dict of str to tuple
            None for what there is not.
        """
        found: dict[str, tuple[str, Any]] = {"N": ("Observations", self.rows), "r2": ("R²", self.r_squared)}
        found["First-stage F"] = "First-stage F", min((each.statistic for each in self.first_stage), default=None)
        for name, word in (("Hansen's J", "Hansen"), ("Wu-Hausman", "Hausman"), ("Linearity", "linearity")):
            test = self.test(word)
            found[f"{name} (p)"] = f"{name} (p)", None if test is None else test.pvalue
        return found

    def test(self, name: str) -> IVTest | None:
        """One of the tests, by a word of its name such as "Sargan"; None where it does not apply.

        Parameters
        ----------
        name : str
            A part of its name.

        Returns
        -------
        IVTest or None
            The test.
        """
        return next((test for test in self.tests if name.lower() in test.name.lower()), None)

    @property
    def sargan(self) -> IVTest | None:
        """Whether the instruments agree with each other, taking noise to have one variance."""
        return self.test("Sargan")

    @property
    def j_stat(self) -> IVTest | None:
        """The same whatever the noise: Hansen's J."""
        return self.test("Hansen")

    def wu_hausman(self) -> IVTest | None:
        """Whether instruments were needed at all.

        Returns
        -------
        IVTest or None
            The test; None without instruments.
        """
        return self.test("Hausman")

    @property
    def weak(self) -> bool:
        """Whether a test says that the instruments are weak, or do not identify the effects."""
        rank = self.test("rank")
        return any(each.worry for each in self.first_stage) or (rank is not None and rank.worry)

    def warnings(self) -> list[str]:
        """What speaks against believing the coefficients, a sentence each."""
        worrying = [stage.sentence for stage in self.first_stage if stage.worry]
        worrying += [test.sentence for test in self.tests if test.worry]
        if self.weak and self.anderson_rubin is not None:
            worrying.append(self.anderson_rubin.sentence)
        return [sentence.rstrip(".") for sentence in dict.fromkeys(worrying)]

    def to_dict(self) -> dict[str, Any]:
        """All of it in terms that JSON has.

        Returns
        -------
        dict
            Coefficients, tests, and what they say.
        """
        tests = [
            {"name": each.name, "statistic": each.statistic, "p_value": each.pvalue, "says": each.sentence}
            for each in self.tests
        ]
        stages = [
            {"column": each.column, "f": each.statistic, "p_value": each.pvalue, "says": each.sentence}
            for each in self.first_stage
        ]
        pieces = None if self.anderson_rubin is None else [list(piece) for piece in self.anderson_rubin.pieces]
        return {
            "method": self.method,
            "errors": self.errors,
            "rows": self.rows,
            "r_squared": self.r_squared,
            "coefficients": self.records(),
            "first_stage": stages,
            "tests": tests,
            "anderson_rubin": pieces,
            "dropped": list(self.dropped),
        }

    def sentences(self) -> list[str]:
        """What the tests say."""
        sets = [] if self.anderson_rubin is None else [self.anderson_rubin.sentence]
        stages, tests = [each.sentence for each in self.first_stage], [each.sentence for each in self.tests]
        return [*stages, *tests, *sets, *self.dropped]

    def summary(self) -> Printed:
        """All of it as text: coefficients, the tests with what they are distributed as, and what each says.

        Returns
        -------
        str
            The text.
        """
        return Printed(self)

    def test_table(self) -> list[str]:
        """The tests as lines of text, under heads.

        Returns
        -------
        list of str
            Lines; none where nothing was tested.
        """
        shown: list[tuple[str, FirstStageTest | IVTest]] = [
            (f"first-stage F of {stage.column}", stage) for stage in self.first_stage
        ]
        shown += [(test.name, test) for test in self.tests]
        cells = [
            (name, format_number(test.statistic), _degrees(test.freedom), format_p(test.pvalue)) for name, test in shown
        ]
        return aligned([("", "statistic", "degrees", "p"), *cells]) if cells else []

    def __str__(self) -> str:
        share = f"R² {format_number(self.r_squared)}"
        if np.isfinite(self.residual_variance):
            share += f", standard deviation of residuals {format_number(self.residual_variance**0.5)}"
        lines = [self.title, share, "", *self.table()]
        lines += ["", *self.test_table()] if self.tests or self.first_stage else []
        return "\n".join([*lines, "", *self.sentences()]).rstrip()


def _degrees(freedom: tuple[float, ...]) -> str:
    """Degrees of freedom as a table has them; a test by draws has none."""
    return ", ".join("∞" if np.isinf(each) else format_number(each) for each in freedom) or "–"


def _attempt(compute: Callable[[], Test]) -> Test | None:
    """What it computes; None where that does not apply to the design."""
    try:
        return compute()
    except InputError:
        return None
