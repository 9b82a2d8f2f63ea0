"""The value of one policy with how it varies by groups of rows, and the difference of two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dualembed.answers import Answer, Verdict
from dualembed.arrays import Floats
from dualembed.comparison.joint import Joint
from dualembed.estimates import Estimate
from dualembed.linear.path import Average, Estimates


class Compared(NamedTuple):
    """The value of a policy, what others say of it, and the share of rows that it rests on.

    `spread` is how it varies, None where that is not known, `shares` (K,) how much of the data each left-out group is,
    and `average` what its errors are made by, None where they are those of a mean over rows.
    """

    answer: Answer
    spread: Estimates | None
    shares: Floats
    rivals: Mapping[str, Estimate]
    overlap: float | None
    average: Average | None = None


def joint_of(compared: Sequence[Compared]) -> Joint | None:
    """How the values vary together; None where one of them does not know."""
    spreads = [each.spread for each in compared if each.spread is not None]
    if len(spreads) < len(compared):
        return None
    return Joint(
        np.array([each.answer.value for each in compared]),
        np.stack([spread.replicates for spread in spreads]),
        np.asarray(compared[0].shares),
        np.stack([spread.influence for spread in spreads]),
        np.array([each.answer.stderr for each in compared]),
        compared[0].answer.freedom,
    )


def difference(question: str, first: Compared, second: Compared) -> Answer:
    """The value of the first policy minus that of the second, group for group."""
    both = first.answer, second.answer
    value = both[0].value - both[1].value
    a, b = first.spread, second.spread
    if a is None or b is None:  # by other solvers, which know nothing of groups
        return Answer(value, float(np.hypot(both[0].stderr, both[1].stderr)), question=question)
    replicates, influence = a.replicates - b.replicates, a.influence - b.influence
    if first.average is None:
        sampling = np.asarray(np.sum((influence - influence.mean()) ** 2) * len(influence) / (len(influence) - 1))
    else:
        sampling = first.average.sampling(np.append(value, replicates), influence)
    # Biases of ridges and choices between candidates may or may not be shared: they count as if they were not.
    bias, between = np.hypot(a.bias, b.bias), a.between + b.between
    spread = float(Estimates(np.asarray(value), sampling, bias, between, replicates, influence).stderr)
    # So does what is guessed, where a policy does what no row shows.
    guessed = [max(answer.stderr**2 - float(own.stderr) ** 2, 0.0) for answer, own in zip(both, (a, b), strict=True)]
    stderr = float(np.sqrt(spread**2 + sum(guessed)))
    verdicts = [each.verdict for each in both if each.verdict is not None]
    order = list(Verdict)
    return Answer(
        value,
        stderr,
        freedom=both[0].freedom,
        question=question,
        verdict=max(verdicts, key=order.index) if verdicts else None,
        warnings=tuple(dict.fromkeys([*both[0].warnings, *both[1].warnings])),
    )
