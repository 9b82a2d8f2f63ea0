"""What each column does on average over the rows, by any f: where tables have the slopes of a straight line."""

from __future__ import annotations

import dataclasses
from typing import Any

from dualembed.answers.coefficients import Coefficients, Printed
from dualembed.arrays import Floats


@dataclasses.dataclass(frozen=True)
class AverageEffects(Coefficients):
    """The average derivative of f along each number, and the average effect of each level of a category.

    Attributes
    ----------
    outcome : str
        Name of y.
    errors : str
        Which noise errors allow for, in words.
    names : tuple of str
        Names of the columns; of categories with their levels, each against the first.
    values : array of shape (K,)
        The average effects.
    covariance : array of shape (K, K)
        Their covariance.
    freedom : float
        Degrees of freedom of t intervals; infinite for normal ones.
    rows : int
        Rows of the fit.
    library : str
        That of the frames that it was fitted to, of which `tidy` makes one.
    """

    outcome: str
    errors: str
    names: tuple[str, ...]
    values: Floats
    covariance: Floats
    freedom: float
    rows: int
    library: str = ""

    @property
    def nobs(self) -> int:
        """Rows, as statsmodels and linearmodels call them."""
        return self.rows

    @property
    def title(self) -> str:
        """What these are of, and which noise errors allow for, in a line."""
        return (
            f"average effects on {self.outcome} of one unit of each column, f being as the data choose it, on "
            f"{self.rows:,} rows, errors {self.errors}"
        )

    @property
    def error_words(self) -> str:
        """Which noise errors allow for, in words."""
        return self.errors

    def statistics(self) -> dict[str, tuple[str, Any]]:
        """What tables for papers have below the effects.

        Returns
        -------
        dict of str to tuple
            The number of rows.
        """
        return {"N": ("Observations", self.rows)}

    def summary(self) -> Printed:
        """The table as text.

        Returns
        -------
        str
            The text.
        """
        return Printed(self)

    def __str__(self) -> str:
        return "\n".join([self.title, "", *self.table()])
