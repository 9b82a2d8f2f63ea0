"""Conditions on states are read as they are written, never run as code, and refused with the nearest way out."""

from __future__ import annotations

import pickle
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from dualembed.checks import InputError
from dualembed.data import condition
from dualembed.problems.hitting_time import arrivals

STATES = np.array([[0.0, 0.0], [1.0, 0.2], [2.0, 0.5], [-1.0, 3.0]])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s1>=1", [0, 1, 1, 0]),
        ("s1>1", [0, 0, 1, 0]),
        ("s1 <= -1e0", [0, 0, 0, 1]),
        ("s1 < .5", [1, 0, 0, 1]),
        ("s1==2", [0, 0, 1, 0]),
        ("s1!=2", [1, 1, 0, 1]),
        ("1 <= s1", [0, 1, 1, 0]),
        ("0.2<=s2<=0.5", [0, 1, 1, 0]),
        ("s2 > s1", [0, 0, 0, 1]),
        # "and" binds tighter: the other reading, (s1==0 or s1==1) and s2>0, would leave the first out.
        ("s1==0 or s1==1 and s2>0", [1, 1, 0, 0]),
        ("s1>=1 AND s2<0.5", [0, 1, 0, 0]),
        ("'s1' >= 1", [0, 1, 1, 0]),
    ],
)
def test_a_condition_holds_where_it_says(text: str, expected: list[Any]) -> None:
    inside = condition(text, ["s1", "s2"])
    assert inside(STATES).tolist() == [bool(each) for each in expected]
    assert np.asarray(inside(jnp.asarray(STATES))).tolist() == [bool(each) for each in expected]


def test_names_with_spaces_signs_and_digits_are_found() -> None:
    states = np.array([[1.0, 2.0, 3.0, 4.0]])
    names = ["pole angle", "order", "0", "s1-dot"]
    assert condition("pole angle == 1 and order == 2 and s1-dot == 4", names)(states).all()
    assert condition('"0" == 3', names)(states).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s3>=1", "names the column 's3', which is not there (there are s1, s2)"),
        ("s1 > 1 and ss2 > 1", "'ss2', which is not there (there are s1, s2); did you mean 's2'?"),
        ("speed>1", "names the column 'speed', which is not there (there are s1, s2)"),
        ("'s9' > 1", "names the column 's9'"),
        ("s1", "a part that is no comparison"),
        ("", "a part that is no comparison"),
        ("s1>=1 and", "a part that is no comparison"),
        ("s1>=", "a part that is no comparison"),
        (">=1", "a part that is no comparison"),
        ("s1 1", "a part that is no comparison"),
        ("s1 = 1", "cannot be read at '= 1'"),
        ("(s1>=1)", "without parentheses"),
        ("1 < 2", "compares two numbers"),
        ("__import__('os')", "names the column \"__import__('os')\", which is not there"),
    ],
)
def test_a_condition_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        condition(text, ["s1", "s2"])
    assert message in str(caught.value)


def test_a_condition_is_rebuilt_from_what_it_keeps() -> None:
    inside = condition("s1>=1 or s2<0", ["s1", "s2"])
    assert condition(inside.text, inside.names) == eval(repr(inside)) == inside
    assert pickle.loads(pickle.dumps(inside)) == inside
    assert hash(inside) == hash(condition("s1>=1 or s2<0", ("s1", "s2")))


def test_a_condition_is_a_target_of_hitting_times() -> None:
    assert arrivals(STATES, condition("s1>=1", ["s1", "s2"])).tolist() == [0.0, 1.0, 1.0, 0.0]
    assert condition("x>1", ["x"])(np.array([0.0, 2.0])).tolist() == [False, True]
    with pytest.raises(InputError, match=r"states of shape \(n, 2\), but is given \(4, 1\)"):
        condition("s1>=1", ["s1", "s2"])(STATES[:, :1])
