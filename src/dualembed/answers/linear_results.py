"""The linear model as econometricians print it: coefficients, errors, and what its tests say, each in a sentence."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from scipy.stats import norm, t

from dualembed.answers.anderson_rubin import ConfidenceSet, anderson_rubin_set
from dualembed.answers.iv_strength import FirstStageTest, effective_f, first_stage_tests, rank_test
from dualembed.answers.iv_tests import IVTest, hansen_test, sargan_test, wu_hausman_test
from dualembed.arrays import Floats
from dualembed.checks import InputError
from dualembed.estimates import check_level, format_number
from dualembed.linear.iv_covariance import ClusterJackknife, Covariance
from dualembed.linear.iv_design import IVDesign
from dualembed.linear.two_stage import fit_two_stage

Test = TypeVar("Test")

FEW_CLUSTERS = 40  # below which errors come from leaving clusters out: the usual ones are too small


@dataclasses.dataclass(frozen=True)
class LinearResults:
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
        if covariance is None and len(factored.clusters) == 1 and factored.clusters[0].max() + 1 < FEW_CLUSTERS:
            covariance = ClusterJackknife()
        fit = fit_two_stage(design, covariance)
        errors = None if isinstance(covariance, ClusterJackknife) else covariance  # tests are of scores
        moved = bool(factored.endogenous_names)
        tests: list[IVTest] = []
        if moved:
            attempts: list[Callable[[], IVTest]] = [
                lambda: rank_test(design, errors),
                lambda: effective_f(design, errors),
                lambda: sargan_test(design),
                lambda: hansen_test(design, errors),
                lambda: wu_hausman_test(design, errors),
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
        )

    @property
    def params(self) -> dict[str, float]:
        """The coefficients by name."""
        return dict(zip(self.names, self.values.tolist(), strict=True))

    @property
    def std_errors(self) -> dict[str, float]:
        """Standard errors by name."""
        return dict(zip(self.names, np.sqrt(np.diag(self.covariance)).tolist(), strict=True))

    @property
    def bse(self) -> dict[str, float]:
        """Standard errors by name, as statsmodels calls them."""
        return self.std_errors

    @property
    def tvalues(self) -> dict[str, float]:
        """Coefficients over their standard errors, by name."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = self.values / np.sqrt(np.diag(self.covariance))
        return dict(zip(self.names, ratios.tolist(), strict=True))

    @property
    def pvalues(self) -> dict[str, float]:
        """Two-sided p-values of each coefficient being 0, by name."""
        sizes = np.abs(list(self.tvalues.values()))
        tails = 2 * (norm.sf(sizes) if np.isinf(self.freedom) else t.sf(sizes, self.freedom))
        return dict(zip(self.names, tails.tolist(), strict=True))

    def conf_int(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Intervals of the coefficients, by name.

        Parameters
        ----------
        level : float, default=0.95
            Probability, between 0 and 1.

        Returns
        -------
        dict of str to tuple of float
            Lower and upper ends.
        """
        check_level(level)
        place = 0.5 + level / 2
        half = float(norm.ppf(place) if np.isinf(self.freedom) else t.ppf(place, self.freedom))
        errors = self.std_errors
        return {name: (value - half * errors[name], value + half * errors[name]) for name, value in self.params.items()}

    def cov_params(self) -> Floats:
        """The covariance (K, K) of the coefficients, in the order of `names`.

        Returns
        -------
        array of shape (K, K)
            The covariance.
        """
        return self.covariance

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

    def records(self, level: float = 0.95) -> list[dict[str, Any]]:
        """A row for each coefficient, in the words of broom's `tidy`.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        list of dict
            term, estimate, std_error, statistic, p_value, conf_low, conf_high.
        """
        ends = self.conf_int(level)
        return [
            {
                "term": name,
                "estimate": value,
                "std_error": self.std_errors[name],
                "statistic": self.tvalues[name],
                "p_value": self.pvalues[name],
                "conf_low": ends[name][0],
                "conf_high": ends[name][1],
            }
            for name, value in self.params.items()
        ]

    def tidy(self, level: float = 0.95) -> Any:
        """The same as a frame: of pandas where that is installed, else of Arrow.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        frame
            One row for each coefficient.
        """
        records = self.records(level)
        columns = {name: [row[name] for row in records] for name in records[0]}
        try:
            import pandas
        except ImportError:
            import pyarrow

            return pyarrow.table(columns)
        return pandas.DataFrame(columns)

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

    def __str__(self) -> str:
        heads = ("", "estimate", "std. error", "t", "p", "95 % interval")
        ends = self.conf_int()
        rows = [
            (
                name,
                format_number(value),
                format_number(self.std_errors[name]),
                f"{self.tvalues[name]:.2f}",
                f"{self.pvalues[name]:.3f}",
                f"{format_number(ends[name][0])} to {format_number(ends[name][1])}",
            )
            for name, value in self.params.items()
        ]
        widths = [max(len(row[k]) for row in (heads, *rows)) for k in range(len(heads))]
        lines = [f"{self.method} of {self.outcome} on {self.rows:,} rows, errors {self.errors}", ""]
        for row in (heads, *rows):
            cells = [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
            lines.append("  ".join(cells).rstrip())
        return "\n".join([*lines, "", *self.sentences()]).rstrip()


def _attempt(compute: Callable[[], Test]) -> Test | None:
    """What it computes; None where that does not apply to the design."""
    try:
        return compute()
    except InputError:
        return None
