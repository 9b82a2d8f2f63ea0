"""Columns are found by name, and read as numbers, or refused with the nearest way out."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dualembed.checks import InputError
from dualembed.data import missing_rows, select_columns, to_numbers
from dualembed.data.columns import names_categories

NAMES = ["s10", "s2", "s1", "reward", "a,b", "x*"]


@pytest.mark.parametrize(
    ("spec", "chosen"),
    [
        ("s1,s2", ["s1", "s2"]),
        (" s2 , s1 ", ["s2", "s1"]),
        ("s*", ["s1", "s2", "s10"]),
        ("reward,s1*", ["reward", "s1", "s10"]),
        ("a,b", ["a,b"]),
        ("s1,a,b,reward", ["s1", "a,b", "reward"]),
        ("x*", ["x*"]),
        ('"a,b",s1', ["a,b", "s1"]),
        (' s2 , "a,b" ', ["s2", "a,b"]),
        ('"x*"', ["x*"]),
    ],
)
def test_a_spec_names_columns_in_its_own_order_and_an_asterisk_in_natural_order(spec: str, chosen: list[Any]) -> None:
    assert select_columns(NAMES, spec, "--state") == chosen


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "rewrad",
            "--state names the column 'rewrad', which is not there (there are s10, s2, s1, reward, \"a,b\", x*)",
        ),
        ("rewrad", "; did you mean 'reward'?"),
        ("S1", "did you mean 's1'?"),
        ("qqqq", "which is not there (there are s10, s2, s1"),
        ("t*", "--state 't*' matches no column; there are s10"),
        ("s1,s*", "names the column 's1' more than once"),
        ("s1,,s2", "--state has an empty name in it"),
        ("", "--state has an empty name in it"),
        ('"s*"', "names the column 's*', which is not there"),
        ("qqqq,s1", "put a name with a comma in it into double quotes"),
    ],
)
def test_a_spec_that_fits_no_column_is_refused(spec: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        select_columns(NAMES, spec, "--state")
    assert message in str(caught.value)


def test_quotes_tell_names_apart_that_commas_do_not() -> None:
    names = ["left, right", "left", "right", 'so-called "speed"']
    assert select_columns(names, "left, right", "--x") == ["left, right"]
    assert select_columns(names, '"left",right', "--x") == ["left", "right"]
    assert select_columns(names, '"so-called ""speed""",left', "--x") == ['so-called "speed"', "left"]


def test_columns_that_are_taken_are_not_proposed() -> None:
    names = ["pos", "posn", "reward"]
    with pytest.raises(InputError, match="did you mean 'posn'"):
        select_columns(names, "poss", "--next-state", taken=["pos"])
    with pytest.raises(InputError, match="did you mean 'posn'"):
        select_columns(names, "pos,poss", "--state")
    with pytest.raises(InputError) as caught:
        select_columns(["pos", "reward"], "poss", "--next-state", taken=["pos"])
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array(["red", "blue", None]), True),
        (pa.array(["1", "red", "blue"]), True),
        (pa.array(["1", "2", "red"]), False),  # a cell of it is rather wrong
        (pa.array(["1", "2.5"]), False),
        (pa.array(["1", "2"]).dictionary_encode(), True),
        (pa.array([1, 2, 1]).dictionary_encode(), True),
        (pa.array([1.0, 2.0]), False),
        (pa.array([True, False]), False),  # 1 and 0
    ],
)
def test_text_and_what_is_declared_so_names_categories(values: pa.Array, expected: bool) -> None:
    assert names_categories(pa.table({"x": values}), "x") is expected


@pytest.mark.parametrize(
    ("values", "numbers"),
    [
        (pa.array([True, False]), [1.0, 0.0]),
        (pa.array([1, 2], pa.uint8()), [1.0, 2.0]),
        (pa.array([2**53 + 1, 0]), [2.0**53, 0.0]),
        (pa.array([decimal.Decimal("1.25"), decimal.Decimal("-3.00")]), [1.25, -3.0]),
        (pa.array(["1e3", " -0.5 "]), [1000.0, -0.5]),
        (pa.array(["7", "8"], pa.string_view()), [7.0, 8.0]),
        (pa.array(["3", "4"]).dictionary_encode(), [3.0, 4.0]),
        (pa.array([0.5, 1.5], pa.float32()), [0.5, 1.5]),
    ],
    ids=lambda each: str(getattr(each, "type", "")),
)
def test_columns_of_every_numeric_kind_are_numbers(values: pa.Array, numbers: list[Any]) -> None:
    found = to_numbers(pa.table({"x": values}), "x", "--state")
    assert found.dtype == np.float64
    assert found.tolist() == numbers


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1", "left", "up"], "--state needs numbers, but the column 'x' holds 'left' in data row 2"),
        (["1", None, "up"], "holds 'up' in data row 3"),
        (["1", "1_0", "2"], "holds '1_0' in data row 2"),
        ([1.0, None, float("nan")], "has none in 2 of 3 rows, the first in data row 2; fill them, or drop these rows "),
        ([None, None, None], "has none in 3 of 3 rows"),
        ([1.0, float("inf"), 2.0], "is infinite in 1 of 3 rows, the first in data row 2"),
        ([datetime.date(2020, 1, 1)] * 3, "holds dates or times; give days or seconds"),
        ([[1.0], [2.0], [3.0]], "holds list<"),
        ([b"\xff", b"1", b"2"], "holds binary; give one number a row"),
    ],
)
def test_what_is_no_number_is_named_with_its_row(values: list[Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        to_numbers(pa.table({"x": values}), "x", "--state")
    assert message in str(caught.value)


def test_an_error_of_missing_numbers_says_how_to_drop_them_and_dropping_helps() -> None:
    table = pa.table({"x": [1.0, None, float("nan"), 4.0], "who": ["a", "b", "c", None]})
    with pytest.raises(InputError, match="--drop-missing"):
        to_numbers(table, "x", "--state")
    assert missing_rows(table, ["x"]).tolist() == [False, True, True, False]
    assert missing_rows(table, ["x", "who"]).tolist() == [False, True, True, True]
    assert to_numbers(table.filter(pa.array(~missing_rows(table, ["x"]))), "x", "--state").tolist() == [1.0, 4.0]


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match=r"'speeed', which is not there \(there are speed\); did you mean 'speed'"):
        to_numbers(pa.table({"speed": [1.0]}), "speeed", "--state")


@pytest.mark.parametrize(
    ("spec", "chosen"),
    [
        ('x,5" pipe', ["x", '5" pipe']),
        ('5" pipe,6" pipe', ['5" pipe', '6" pipe']),
        (' "left, right" , x', ["left, right", "x"]),
        ("left, right,x", ["left, right", "x"]),
    ],
)
def test_a_quote_inside_a_name_is_part_of_it_and_one_around_it_is_not(spec: str, chosen: list[str]) -> None:
    names = ["x", '5" pipe', '6" pipe', "left, right"]
    assert select_columns(names, spec, "--state") == chosen
