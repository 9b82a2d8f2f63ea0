"""A number with its error."""

from __future__ import annotations

import dataclasses

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
