"""Docstrings say what signatures say; `make lint` holds all public ones to it."""

from __future__ import annotations

import inspect

import pytest
from tests.docstrings import methods, mistakes

import dualembed as de
from dualembed import estimators


def short(points: object, level: float = 0.95) -> float:
    """The number of points.

    Parameters
    ----------
    points : array of shape (n,)
        Points.

    Returns
    -------
    float
        How many there are.
    """
    return level


def test_a_parameter_that_is_not_described_is_named() -> None:
    (found,) = mistakes(short)
    assert "PR01" in found
    assert "level" in found


@pytest.mark.parametrize("name", estimators.__all__)
def test_methods_describe_all_that_they_take(name: str) -> None:
    kind = getattr(de, name)
    things = [kind, *(method for method, _ in methods(kind) if inspect.isroutine(method))]
    assert [line for thing in things for line in mistakes(thing)] == []


def test_what_fit_takes_is_described_alike_in_methods_that_take_it_too() -> None:
    for method in (de.ActionValueEvaluator.predict, de.ActionValueEvaluator.error):
        assert "    Actions a.\n" in (inspect.getdoc(method) or "")
