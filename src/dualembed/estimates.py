"""A number with its error, and how both are written."""

from __future__ import annotations

import dataclasses
import math

from dualembed import checks


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A number and its standard error.

    Attributes
    ----------
    value : float
        The number.
    stderr : float
        Its standard error.
    """

    value: float
    stderr: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval that covers the truth with probability `level` if the error is normal.

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
        >>> [round(end, 2) for end in Estimate(1.0, 0.5).interval()]
        [0.02, 1.98]
        """
        from scipy.stats import norm

        check_level(level)
        half = float(norm.ppf(0.5 + level / 2)) * self.stderr
        return self.value - half, self.value + half

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.stderr:.2g}"


def check_level(level: float) -> None:
    """Raise unless the level is a probability that an interval can have."""
    if not 0 < level < 1:
        raise checks.InputError(f"level must lie between 0 and 1, such as 0.95, not {level!r}")


def format_number(value: float) -> str:
    """The number with four digits that count.

    >>> format_number(0.123456), format_number(-98765.4)
    ('0.1235', '-98,765')
    """
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def format_short(value: float, digits: int = 3) -> str:
    """The number with few digits and no powers of ten, as beside a mark of a figure.

    >>> format_short(1289.4), format_short(-0.67342), format_short(14.14)
    ('1,289', '-0.673', '14.1')
    """
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def format_to(value: float, stderr: float) -> str:
    """The number with as many digits as its standard error leaves it: two of the error's own.

    >>> format_to(1234.5678, 3.21), format_to(1.5, 0.0)
    ('1,234.6', '1.5')
    """
    if not (stderr > 0 and math.isfinite(stderr) and math.isfinite(value)):
        return format_number(value)
    places = 1 - math.floor(math.log10(stderr))
    return f"{round(value, places):,.{max(places, 0)}f}" if -3 <= places <= 6 else format_number(value)


def format_estimate(value: float, stderr: float | None) -> str:
    """The number with its standard error, where there is one.

    >>> format_estimate(0.017253, 0.2468), format_estimate(2.0, None)
    ('0.02 ± 0.25', '2')
    """
    if stderr is None or math.isnan(stderr):
        return format_number(value)
    return f"{format_to(value, stderr)} ± {format_to(stderr, stderr)}"


def format_interval(lower: float, upper: float) -> str:
    """The ends of a 95 % interval, with the digits that its width leaves them.

    >>> format_interval(-0.51951, 0.19071)
    '-0.52 to 0.19'
    """
    stderr = (upper - lower) / 3.92
    return f"{format_to(lower, stderr)} to {format_to(upper, stderr)}"


def pluralise(count: int, noun: str) -> str:
    """So many of these: 1 row, 2 rows."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
