"""Effects of moving X for those who come from EconML: its words where they fit, and ours where they do not."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from dualembed import checks
from dualembed.answers import Question
from dualembed.answers.question import values
from dualembed.arrays import Floats
from dualembed.linear.moment_fit import Spread
from dualembed.spaces.features import evaluate_features

Found = TypeVar("Found")

# EconML's methods, and what asks the same here.
OURS = {
    "ate": "effect(T0, T1)",
    "ate_interval": "effect(T0, T1).interval()",
    "ate_inference": "effect(T0, T1)",
    "effect_interval": "effects(T0, T1, controls=W, return_std=True)",
    "effect_inference": "effects(T0, T1, controls=W, return_std=True)",
    "marginal_effect": "ask(mean_derivative(column, X, controls))",
    "marginal_ate": "ask(mean_derivative(column))",
    "const_marginal_effect": "ask(mean_derivative(column, X, controls))",
    "const_marginal_ate": "ask(mean_derivative(column))",
}


def no_such_method(kind: str, name: str) -> AttributeError:
    """That there is no such attribute, with the method that asks what EconML's of this name does."""
    way = f"; ask {OURS[name]}, which has its standard error" if name in OURS else ""
    return AttributeError(f"{kind!r} object has no attribute {name!r}{way}")


def by_places(method: Callable[..., Found]) -> Callable[..., Found]:
    """The method, which refuses rows in front of T0 and T1, where EconML has those that effects are told at."""

    @functools.wraps(method)
    def asked(self: Any, *given: Any, **named: Any) -> Found:
        if given and "T0" in named:
            raise checks.InputError(
                f"{method.__name__} was given rows before T0; give T0 and T1 first and rows of controls by name, as in "
                f"{method.__name__}(0, 1, controls=W)"
            )
        return method(self, *given, **named)

    return asked


def as_controls(controls: Any, X: Any) -> Any:
    """The controls, which EconML calls X, as what effects differ by."""
    if X is not None and controls is not None:
        raise checks.InputError("controls and X both say at which controls effects are asked for; give one of them")
    return controls if X is None else X


def row_effects(
    function: Any, spreads: tuple[Spread, ...], question: Question, *, size: float
) -> tuple[Floats, Floats]:
    """Each row's Σ_j shares_j f(points_j) of a question about rows, and its standard error, the largest of the spreads.

    `size` is what f may be off by where points stray from all that the fit could learn of.
    """
    ((factor, part),) = question.parts
    count, sides, width = part.points.shape
    counted = 1.0 if part.mass is None else part.mass[:, None]  # of rows, which says nothing of one of them
    points, shares = part.points.reshape(-1, width), factor * part.shares / counted

    def mixed(each: Floats) -> Floats:
        return np.einsum("nj,njm->nm", shares, each.reshape(count, sides, -1))

    found = mixed(values(function, points)[:, None])[:, 0]
    errors = np.zeros(count)
    for spread in spreads:
        errors = np.maximum(
            errors, np.linalg.norm(mixed(evaluate_features(spread.features, points)) @ spread.root, axis=1)
        )
    guessed = 0.0 if part.strays is None else size * np.sum(np.abs(shares) * part.strays, axis=1)
    return found, np.hypot(errors, guessed)
