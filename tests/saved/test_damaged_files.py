"""Files that are cut off, damaged, forged or of another kind: one InputError each, and never much memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from dualembed.checks import InputError
from dualembed.estimators import IVRegressor
from dualembed.saving import describe, load, models, save

LINE = Path(__file__).parent / "line-1.dualembed"
CURVE = Path(__file__).parent / "curve-1.dualembed"


def refusal(path: Path) -> str:
    """The sentence by which load refuses the file."""
    with pytest.raises(InputError) as caught:
        load(path)
    return str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.dualembed").endswith("does not exist; check the path of the model file")
    assert "is not a file" in refusal(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{}", b"\x80\x04pickle" * 30, b"PK\x03\x04" * 100, b"\xff" * 200])
def test_files_of_other_kinds_are_not_ours(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(content)
    assert "is not a model file of dualembed" in refusal(tmp_path / "other")


def test_other_safetensors_are_not_ours(tmp_path: Path) -> None:
    save_file({"x": np.ones(100)}, tmp_path / "other", metadata={"format": "np"})
    assert "is not a model file of dualembed" in refusal(tmp_path / "other")


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.999])
def test_a_file_that_is_cut_off_is_said_to_be(kept: float, tmp_path: Path) -> None:
    data = CURVE.read_bytes()
    (tmp_path / "part").write_bytes(data[: int(kept * len(data))])
    assert refusal(tmp_path / "part").endswith("is cut off; copy it again, or save the model again")


def test_a_newer_format_asks_for_a_newer_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "FORMAT", 7)
    save(IVRegressor(), tmp_path / "newer")
    monkeypatch.undo()
    for read in (load, describe):
        with pytest.raises(InputError, match="has format 7, and this version of dualembed reads formats up to 3"):
            read(tmp_path / "newer")


@pytest.mark.parametrize("path", [LINE, CURVE], ids=["line", "curve"])
def test_another_number_of_the_format_is_damage(path: Path, tmp_path: Path) -> None:
    save(load(path), tmp_path / "newest")
    for written, number in ((path, b"2"), (tmp_path / "newest", b"1"), (tmp_path / "newest", b"0")):
        changed = bytearray(written.read_bytes())
        place = models.LENGTH + len(models.BEGINNING)
        changed[place : place + 1] = number
        (tmp_path / "changed").write_bytes(changed)
        assert "is damaged" in refusal(tmp_path / "changed")


@pytest.mark.parametrize(("path", "count"), [(LINE, 600), (CURVE, 200)], ids=["line", "curve"])
def test_damage_anywhere_is_refused_or_does_not_matter(path: Path, count: int, tmp_path: Path) -> None:
    data, same = path.read_bytes(), tmp_path / "same"
    save(load(path), same)
    rng = np.random.default_rng(0)
    for place in [*range(100), *rng.choice(len(data), count, replace=False)]:
        changed = bytearray(data)
        changed[place] ^= int(rng.integers(1, 256))
        (tmp_path / "changed").write_bytes(changed)
        assert_refused_or_same(tmp_path / "changed", same.read_bytes())


def test_any_part_of_a_file_is_refused(tmp_path: Path) -> None:
    data = LINE.read_bytes()
    for length in [*range(100), *range(100, len(data), 17), len(data) - 1]:
        (tmp_path / "part").write_bytes(data[:length])
        refusal(tmp_path / "part")
    (tmp_path / "part").write_bytes(data + b"\x00")
    refusal(tmp_path / "part")


def assert_refused_or_same(path: Path, data: bytes) -> None:
    """An InputError, or the model that is saved as these bytes."""
    try:
        model = load(path)
    except InputError:
        return
    save(model, path)
    assert path.read_bytes() == data


def forged(path: Path, fitted: Any, **description: Any) -> Path:
    """A file with a right checksum, by someone who knows the format."""
    whole = {"class": "IVRegressor", "version": "0.1.0", "rows": 3, "parameters": {}, "fitted": fitted}
    arrays = [np.arange(4, dtype=np.uint32), np.array([[0x110000]], dtype=np.uint32), np.empty((3, 0), np.uint32)]
    tensors = {str(number): array for number, array in enumerate(arrays)}
    path.write_bytes(models.packed({**whole, **description}, tensors))
    return path


def test_a_forgery_without_a_fault_is_a_model(tmp_path: Path) -> None:
    assert load(forged(tmp_path / "forged", {"x_": {"text": "0", "scalar": False}})).x_ == "\0\1\2\3"


def nested(depth: int) -> Any:
    """Lists in lists."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


FORGED: dict[str, Any] = {
    "a class of another library": {"x_": {"class": "subprocess:Popen", "fields": {"args": "true"}}},
    "a class that is found through dualembed": {"x_": {"class": "dualembed.files:Path", "fields": {}}},
    "the command line": {"x_": {"class": "dualembed.__main__:main", "fields": {}}},
    "a function for a class": {"x_": {"class": "dualembed.files:write_atomically", "fields": {}}},
    "no such module": {"x_": {"class": "dualembed.nowhere:Gaussian", "fields": {}}},
    "a strange field": {"x_": {"class": "kernels.Gaussian", "fields": {"gram": 1}}},
    "a strange field of an old name": {"x_": {"class": "dualembed.kernels.stationary:Gaussian", "fields": {"gram": 1}}},
    "fields that are no dictionary": {"x_": {"class": "kernels.Gaussian", "fields": [1]}},
    "an abstract class": {"x_": {"class": "kernels.Kernel", "fields": {}}},
    "the old name of an abstract class": {"x_": {"class": "dualembed.kernels.base:Kernel", "fields": {}}},
    "a class whose name is no text": {"x_": {"class": ["kernels.Gaussian"], "fields": {}}},
    "a class of equinox that is none": {"x_": {"class": "equinox.nn._linear:jax", "fields": {}}},
    "an unknown function": {"x_": {"function": "os:system"}},
    "an unknown kind": {"x_": {"pickle": "gASVAAAA"}},
    "an empty kind": {"x_": {}},
    "no such array": {"x_": {"numpy": "7"}},
    "an array for a name": {"x_": {"numpy": [1]}},
    "letters beyond the last": {"x_": {"text": "1", "scalar": False}},
    "letters without a width": {"x_": {"text": "2", "scalar": False}},
    "a shape that does not fit": {"x_": {"objects": [1, 2], "shape": [2**62, 2**62]}},
    "a shape that is none": {"x_": {"objects": [1, 2], "shape": "ab"}},
    "an unhashable key": {"x_": {"dict": [[[1], 2]]}},
    "a random key of no method": {"x_": {"key": "0", "method": "none"}},
    "bytes that are none": {"x_": {"bytes": "zz"}},
    "a float that is none": {"x_": {"float": "much"}},
    "a partial of nothing": {"x_": {"partial": [1, [], {"dict": []}]}},
    "a method": {"predict": 3},
    "a private name": {"__class__": 3},
    "no dictionary": [1, 2],
    "great depth": {"x_": nested(500)},
}


@pytest.mark.parametrize("number", [1, models.FORMAT])
@pytest.mark.parametrize("name", FORGED)
def test_forged_descriptions_are_refused(
    name: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(models, "FORMAT", number)
        path = forged(tmp_path / "forged", FORGED[name])
    refusal(path)


@pytest.mark.parametrize(
    "description",
    [{"class": "Estimator"}, {"class": ["IVRegressor"]}, {"class": "os:system"}, {"parameters": {"strange": 1}}],
    ids=str,
)
def test_forged_estimators_are_refused(description: Any, tmp_path: Path) -> None:
    refusal(forged(tmp_path / "forged", {}, **description))


def test_a_depth_beyond_any_stack_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '{"class":"IVRegressor","parameters":{},"fitted":{"x_":' + "[" * 10**6 + "]" * 10**6 + "}}"
    with monkeypatch.context() as patch:
        patch.setattr(models.json, "dumps", lambda *_, **__: text)
        path = forged(tmp_path / "forged", {})
    for read in (load, describe):
        with pytest.raises(InputError, match="is damaged"):
            read(path)


@pytest.mark.parametrize(
    "header",
    [
        (2**62).to_bytes(8, "little") + models.BEGINNING + b'1 0 {}"}}',
        b'{"__metadata__":{"dualembed":"1 0 {}"},"0":{"dtype":"F64","shape":[1099511627776],"data_offsets":[0,8]}}',
        b'{"__metadata__":{"dualembed":"1 0 {}"},"0":{"dtype":"F64","shape":[1],"data_offsets":[0,8796093022208]}}',
    ],
    ids=["length", "shape", "offsets"],
)
def test_a_forged_header_takes_no_memory(header: bytes, tmp_path: Path) -> None:
    whole = header if not header.startswith(b"{") else len(header).to_bytes(8, "little") + header
    (tmp_path / "forged").write_bytes(whole + bytes(8))
    assert memory_of_refusal(tmp_path / "forged") < 2**20


def test_an_array_named_often_takes_no_more_memory(tmp_path: Path) -> None:
    big = np.zeros(2**20, dtype=np.uint8)
    fitted = {"x_": [{"numpy": "0"} for _ in range(1000)], "y": 0}
    whole = {"class": "IVRegressor", "version": "0", "rows": 3, "parameters": {}, "fitted": fitted}
    (tmp_path / "forged").write_bytes(models.packed(whole, {"0": big}))
    assert memory_of_refusal(tmp_path / "forged") < 10 * 2**20


def memory_of_refusal(path: Path) -> int:
    """Bytes at most while load refuses the file."""
    tracemalloc.start()
    try:
        refusal(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
