"""Named numbers with their covariance, under the names that econometricians know them by, and as rows of tables.

Packages of tables for papers ask models by a protocol of attributes, `__maketables_coef_table__` and its like, so that
one table holds models of several libraries. Nothing of theirs is imported here. Of objects that have `params`, `bse`
and `pvalues` maketables 0.2 takes what statsmodels' results have, and asks no further; so these have that too.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import norm, t

from dualembed.arrays import Floats
from dualembed.data.libraries import make_frame
from dualembed.estimates import check_level, format_number

TIDY = ("term", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high")
LEAST = 5e-4  # p-value below which no digits are printed


class Coefficients(abc.ABC):
    """Numbers by name with a covariance: the coefficients of a linear model, or average effects of any.

    `names` are what the numbers `values` (K,) are of, `covariance` (K, K) is theirs, `freedom` are the degrees of
    freedom of t intervals, infinite for normal ones, and `library` is that of the frames that a fit was given.
    """

    outcome: str
    names: tuple[str, ...]
    values: Floats
    covariance: Floats
    freedom: float
    library: str

    @property
    @abc.abstractmethod
    def nobs(self) -> int:
        """Rows."""

    @property
    @abc.abstractmethod
    def title(self) -> str:
        """What these are of, and which noise errors allow for, in a line."""

    @abc.abstractmethod
    def statistics(self) -> dict[str, tuple[str, Any]]:
        """(what it is called in a table, the statistic) by a short key; None for what there is not."""

    @property
    @abc.abstractmethod
    def error_words(self) -> str:
        """Which noise errors allow for, in words."""

    @property
    def params(self) -> dict[str, float]:
        """The numbers by name."""
        return self._named(self.values)

    @property
    def std_errors(self) -> dict[str, float]:
        """Standard errors by name."""
        return self._named(self._stderr())

    @property
    def bse(self) -> dict[str, float]:
        """Standard errors by name, as statsmodels calls them."""
        return self.std_errors

    @property
    def tvalues(self) -> dict[str, float]:
        """The numbers over their standard errors, by name."""
        return self._named(self._ratios())

    @property
    def tstats(self) -> dict[str, float]:
        """The same, as linearmodels calls them."""
        return self.tvalues

    @property
    def pvalues(self) -> dict[str, float]:
        """Two-sided p-values of each number being 0, by name."""
        return self._named(self._tails())

    @property
    def endog_names(self) -> str:
        """The outcome's name, as statsmodels calls it; tables ask for it."""
        return self.outcome

    @property
    def cov_type(self) -> str:
        """Which noise errors allow for, as statsmodels calls it."""
        return self.error_words

    @property
    def rsquared(self) -> float | None:
        """R², as statsmodels and linearmodels call it; None where there is none to tell."""
        return None

    def conf_int(self, level: float = 0.95, *, alpha: float | None = None) -> Intervals:
        """Intervals, by name.

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
        lower, upper = self._ends(level if alpha is None else 1 - alpha)
        return Intervals(zip(self.names, zip(lower.tolist(), upper.tolist(), strict=True), strict=True))

    def cov_params(self) -> Floats:
        """The covariance (K, K), in the order of the names.

        Returns
        -------
        array of shape (K, K)
            The covariance.
        """
        return self.covariance

    def records(self, level: float = 0.95) -> list[dict[str, Any]]:
        """A row for each number, in the words of broom's `tidy`.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        list of dict
            term, estimate, std_error, statistic, p_value, conf_low, conf_high.
        """
        lower, upper = self._ends(level)
        columns = (self.values, self._stderr(), self._ratios(), self._tails(), lower, upper)
        rows = zip(self.names, *(column.tolist() for column in columns), strict=True)
        return [dict(zip(TIDY, row, strict=True)) for row in rows]

    def tidy(self, level: float = 0.95) -> Any:
        """The same as a frame: of the library that the fit was given frames of, else of pandas, or of Arrow.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        frame
            One row for each number.
        """
        records = self.records(level)
        return make_frame({name: [row[name] for row in records] for name in TIDY}, self.library)

    def table(self, level: float = 0.95) -> list[str]:
        """The numbers as lines of text, under heads.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals.

        Returns
        -------
        list of str
            Lines.
        """
        ratio = "z" if np.isinf(self.freedom) else "t"
        heads = ("", "estimate", "std. error", ratio, "p", f"{100 * level:g} % from", "to")
        rows = [
            (
                row["term"],
                *(format_number(row[name]) for name in ("estimate", "std_error")),
                f"{row['statistic']:.2f}",
                format_p(row["p_value"]),
                format_number(row["conf_low"]),
                format_number(row["conf_high"]),
            )
            for row in self.records(level)
        ]
        return aligned([heads, *rows])

    def _named(self, numbers: Floats) -> dict[str, float]:
        return dict(zip(self.names, numbers.tolist(), strict=True))

    def _stderr(self) -> Floats:
        return np.sqrt(np.diag(self.covariance))

    def _ratios(self) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.values / self._stderr())

    def _tails(self) -> Floats:
        sizes = np.abs(self._ratios())
        return np.asarray(2 * (norm.sf(sizes) if np.isinf(self.freedom) else t.sf(sizes, self.freedom)))

    def _ends(self, level: float) -> tuple[Floats, Floats]:
        check_level(level)
        place = 0.5 + level / 2
        half = float(norm.ppf(place) if np.isinf(self.freedom) else t.ppf(place, self.freedom)) * self._stderr()
        return self.values - half, self.values + half

    @property
    def __maketables_coef_table__(self) -> Any:
        """What maketables' `ETable` shows of each number: a frame of pandas, by name."""
        import pandas

        found = {"b": self.values, "se": self._stderr(), "t": self._ratios(), "p": self._tails()}
        for level in (95, 90):
            found[f"ci{level}l"], found[f"ci{level}u"] = self._ends(level / 100)
        return pandas.DataFrame(found, index=pandas.Index(self.names, name="Coefficient"))

    def __maketables_stat__(self, key: str) -> Any:
        """One of the statistics below a table's column, by its key; None where there is none."""
        if key == "se_type":
            return self.error_words
        _, value = self.statistics().get(key, ("", None))
        return value

    @property
    def __maketables_depvar__(self) -> str:
        """The outcome's name."""
        return self.outcome

    @property
    def __maketables_fixef_string__(self) -> str | None:
        """Absorbed effects: none."""
        return None

    @property
    def __maketables_var_labels__(self) -> dict[str, str] | None:
        """Labels of columns other than their names: none."""
        return None

    @property
    def __maketables_vcov_info__(self) -> dict[str, Any]:
        """Which noise errors allow for."""
        return {"vcov_type": self.error_words, "clustervar": None}

    @property
    def __maketables_stat_labels__(self) -> dict[str, str]:
        """What the statistics are called."""
        return {key: label for key, (label, _) in self.statistics().items()}

    @property
    def __maketables_default_stat_keys__(self) -> list[str]:
        """The statistics that are shown unless others are asked for."""
        return [key for key, (_, value) in self.statistics().items() if value is not None]


class Intervals(dict[str, tuple[float, float]]):
    """Lower and upper ends by name; by places too, as of a frame of pandas, since packages of tables ask so."""

    @property
    def iloc(self) -> Any:
        """Places in a frame of pandas with the columns lower and upper."""
        import pandas

        return pandas.DataFrame.from_dict(self, orient="index", columns=["lower", "upper"]).iloc


def format_p(value: float) -> str:
    """A p-value with three digits.

    >>> format_p(0.0321), format_p(1e-9), format_p(float("nan"))
    ('0.032', '<0.001', '–')
    """
    return "–" if np.isnan(value) else "<0.001" if value < LEAST else f"{value:.3f}"


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows of cells as lines of text, the first column to the left and the others to the right.

    >>> aligned([("", "p"), ("educ", "0.01")])
    ['         p', 'educ  0.01']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines


class Printed(str):
    """A text that shows as it is where it is the last thing in a notebook's cell, too."""

    def __repr__(self) -> str:
        return str(self)
