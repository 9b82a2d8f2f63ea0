"""Tables as people have them become coordinates, and coordinates tables."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dualembed as de
from dualembed.data.coding import Coding
from dualembed.data.roles import MOST_LEVELS

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "speed": RNG.normal(3, 2, size=50),
        "gear": RNG.choice(["low", "mid", "high"], size=50),
        "wet": RNG.choice([True, False], size=50),
        "unit": 1.5,
    }
)


GAP = "speed (lacks a value|is NaN or infinity) in row 2"  # by pandas' own ways


def with_gap(column: pd.Series, dtype: str) -> pd.Series:
    """The column in a type of pandas that knows missing values, with one in row 2."""
    found = column.astype(dtype)
    found[2] = pd.NA
    return found


def test_numbers_are_standardised() -> None:
    numbers = RNG.normal(5, 3, size=(40, 2))
    coded = Coding.fit("states", numbers).encode(numbers)
    np.testing.assert_allclose(coded.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(coded.std(axis=0), 1)


def test_a_gaussian_kernel_of_a_coded_category_is_a_delta_kernel() -> None:
    gears = FRAME[["gear"]]
    coded = Coding.fit("states", gears).encode(gears)
    gram = de.kernels.Gaussian(0.7)(coded, coded)
    same = gears["gear"].to_numpy()[:, None] == gears["gear"].to_numpy()[None]
    np.testing.assert_allclose(gram[same], 1.0)
    assert np.ptp(gram[~same]) < 1e-12
    assert gram[~same].max() < 1


@pytest.mark.parametrize(
    "convert", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas, lambda frame: frame.to_dict("list")]
)
def test_every_kind_of_frame_is_coded_alike(convert: Any) -> None:
    expected = Coding.fit("states", FRAME).encode(FRAME)
    given = convert(FRAME)
    np.testing.assert_array_equal(Coding.fit("states", given).encode(given), expected)


def test_columns_are_found_by_name_in_any_order() -> None:
    coding = Coding.fit("states", FRAME)
    np.testing.assert_array_equal(coding.encode(FRAME[FRAME.columns[::-1]]), coding.encode(FRAME))


def test_constant_columns_and_copies_take_no_coordinates() -> None:
    numbers = RNG.normal(size=(30, 1))
    table = np.concatenate([numbers, np.full((30, 1), 7.0), numbers], axis=1)
    coding = Coding.fit("states", table)
    assert coding.dimension == 1
    np.testing.assert_allclose(coding.decode(coding.encode(table)), table)


def test_a_table_without_any_variation_has_one_coordinate_that_is_zero() -> None:
    assert Coding.fit("states", np.ones((5, 2))).encode(np.ones((5, 2))).tolist() == [[0.0]] * 5


def test_decoding_undoes_coding() -> None:
    coding = Coding.fit("states", FRAME)
    found = coding.decode(coding.encode(FRAME))
    np.testing.assert_allclose(found["speed"], FRAME["speed"])
    assert found["gear"].tolist() == FRAME["gear"].tolist()
    assert found["wet"].tolist() == FRAME["wet"].astype(float).tolist()


def test_whole_numbers_can_be_categories() -> None:
    states = RNG.integers(4, size=60)
    assert Coding.fit("states", states).dimension == 1
    assert Coding.fit("states", states, categorical=[0]).dimension == 4
    assert Coding.fit("states", pd.DataFrame({"room": states}), categorical=["room"]).dimension == 4


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (FRAME.assign(gear="reverse"), r"gear has the value 'reverse', which was not among .*high"),
        (FRAME.rename(columns={"speed": "spead"}), r"no column speed.*did you mean spead\?"),
        (FRAME[["speed"]].to_numpy(), "have 1 columns, but were fitted with 4"),
        (FRAME.assign(speed=np.nan), "speed is NaN or infinity in 50 rows"),
        (FRAME.assign(gear=None), "gear lacks a value in 50 rows, the first of them row 0"),
        (FRAME.assign(gear=with_gap(FRAME["gear"], "string")), "gear lacks a value in row 2"),
        (FRAME.assign(gear=with_gap(FRAME["gear"], "category")), "gear lacks a value in row 2"),
        (FRAME.assign(speed=with_gap(FRAME["speed"], "Float64")), GAP),
        (FRAME.assign(speed=with_gap(FRAME["unit"] * 2, "Int64")), GAP),
        (FRAME.assign(speed="fast"), "speed has the text 'fast', but was fitted with numbers"),
        (FRAME.assign(gear=[["low"]] * 50), r"gear holds \['low'\], which is neither a number nor text"),
        (pd.concat([FRAME, FRAME], axis=1), "two columns named speed"),
        (FRAME.assign(speed=pd.Timestamp("2020-01-01")), "speed holds dates"),
    ],
)
def test_other_tables_are_refused_in_one_sentence(table: Any, words: str) -> None:
    with pytest.raises(de.InputError, match=words) as refusal:
        Coding.fit("states", FRAME).encode(table)
    assert "\n" not in str(refusal.value)


def test_a_category_of_one_level_refuses_others() -> None:
    coding = Coding.fit("states", pd.DataFrame({"gear": ["low", "low"]}))
    with pytest.raises(de.InputError, match="gear has the value 'high'"):
        coding.encode(pd.DataFrame({"gear": ["high"]}))


def test_categories_are_named_placed_or_masked() -> None:
    numbers = RNG.integers(3, size=(60, 2))
    for given in ([1], ["x1"], [False, True], np.array([1])):
        assert Coding.fit("states", numbers, categorical=given).dimension == 4
    for wrong in ("x1", ["nope"], [2], [True]):
        with pytest.raises(de.InputError, match="categorical_features must be names or places"):
            Coding.fit("states", numbers, categorical=wrong)


def test_names_without_end_are_refused() -> None:
    with pytest.raises(de.InputError, match=f"column name has {MOST_LEVELS + 1} different values"):
        Coding.fit("states", pd.DataFrame({"name": [f"n{number}" for number in range(MOST_LEVELS + 1)]}))


def test_next_states_may_have_names_of_their_own() -> None:
    states = pd.DataFrame({"stock": [1.0, 2.0, 4.0], "demand": [3.0, 1.0, 2.0]})
    coding = Coding.fit("states", states, states.add_prefix("next_"))
    np.testing.assert_array_equal(coding.encode(states.add_prefix("next_"), renamed=True), coding.encode(states))
    with pytest.raises(de.InputError, match="no column stock"):
        coding.encode(states.add_prefix("next_"))
    # One name that is known is taken by name, so that a misspelt one is not.
    with pytest.raises(de.InputError, match=r"no column demand.*did you mean deman\?"):
        coding.encode(states.rename(columns={"demand": "deman"}), renamed=True)


@pytest.mark.parametrize("lack", [None, np.nan, pd.NA])
def test_an_array_of_labels_that_lacks_some_is_refused_as_a_table_is(lack: Any) -> None:
    labels = np.array(["low", lack, "high", lack], dtype=object)
    with pytest.raises(de.InputError, match="column x0 lacks a value in 2 rows, the first of them row 1"):
        Coding.fit("states", labels)


def test_a_category_of_pandas_is_one_though_its_levels_are_numbers() -> None:
    rooms = pd.DataFrame({"room": pd.Categorical(RNG.integers(4, size=60))})
    coding = Coding.fit("states", rooms)
    assert coding.columns[0].levels == (0, 1, 2, 3)
    np.testing.assert_array_equal(coding.encode(rooms), coding.encode(rooms.astype(int)))
    # One table that says so is enough.
    assert Coding.fit("states", rooms.astype(int), rooms).columns[0].levels == (0, 1, 2, 3)


def test_a_series_without_a_name_is_taken_by_its_place() -> None:
    numbers = RNG.normal(size=60)
    named, unnamed = pd.Series(numbers, name="speed"), pd.Series(numbers)
    assert not Coding.fit("states", unnamed).named
    np.testing.assert_array_equal(
        Coding.fit("states", named).encode(unnamed), Coding.fit("states", numbers).encode(named)
    )


def test_levels_that_occur_are_told_from_coordinates() -> None:
    coding = Coding.fit("states", FRAME)
    here = FRAME[FRAME["gear"] != "mid"]
    assert coding.levels_at(coding.encode(here)) == {"gear": {"low", "high"}}
    assert coding.levels_at(coding.encode(here)[:0]) == {"gear": set()}


def test_arrays_of_objects_and_decimals_are_read_column_by_column() -> None:
    mixed = np.array([[1.0, "low"], [2.5, "high"], [4.0, "low"]], dtype=object)
    coding = Coding.fit("states", mixed)
    assert [column.levels for column in coding.columns] == [(), ("high", "low")]
    prices = pa.table({"price": pa.array([Decimal("1.50"), Decimal("2.25"), Decimal("9.00")])})
    floats = np.array([1.5, 2.25, 9.0])
    np.testing.assert_allclose(Coding.fit("states", prices).encode(prices), Coding.fit("states", floats).encode(floats))
