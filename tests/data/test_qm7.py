"""QM7 comes from a file or a checked download."""

from __future__ import annotations

import hashlib
import io
import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pytest
from scipy.io import savemat
from tests.recorded import DATA, needs_data

from dualembed.checks import InputError
from dualembed.data import qm7


def table(molecules: int = 10, atoms: int = 4) -> dict[str, np.ndarray]:
    """A made-up data set laid out as the original's."""
    rng = np.random.default_rng(0)
    coulomb = rng.uniform(1, 40, (molecules, atoms, atoms))
    folds = rng.permutation(molecules).reshape(5, -1)
    return {"X": coulomb + coulomb.transpose(0, 2, 1), "T": rng.normal(size=(1, molecules)), "P": folds}


def mat(**changes: Any) -> bytes:
    """The bytes of a .mat file with the table, changed."""
    buffer = io.BytesIO()
    savemat(buffer, {**table(), **changes})
    return b"MATLAB 5.0 MAT-file".ljust(116) + buffer.getvalue()[116:]  # without the second of its writing


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, with no file named by the environment and no network."""
    monkeypatch.delenv(qm7.VARIABLE, raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "cache" / name))
    serve(monkeypatch, urllib.error.URLError("no route to host"))
    return tmp_path / "cache" / "dualembed" / "qm7.mat"


def serve(monkeypatch: pytest.MonkeyPatch, answer: bytes | Exception) -> list[str]:
    """Let every download give the answer; the list fills with the addresses asked for."""
    asked: list[str] = []

    def urlopen(address: str, timeout: float) -> io.BytesIO:
        asked.append(address)
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer)

    monkeypatch.setattr(qm7.urllib.request, "urlopen", urlopen)
    return asked


def expect(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Let the content pass for the original."""
    monkeypatch.setattr(qm7, "SIZE", len(content))
    monkeypatch.setattr(qm7, "SHA256", hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("ending", ["npz", "mat"])
def test_both_kinds_of_file_hold_the_same(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"some.{ending}"
    if ending == "npz":
        np.savez(path, **table())
    else:
        path.write_bytes(mat())
    found = qm7.load(path)
    np.testing.assert_array_equal(found.coulomb, table()["X"])
    np.testing.assert_array_equal(found.energy, table()["T"][0])
    np.testing.assert_array_equal(found.folds, table()["P"])


def test_a_split_tests_on_one_fold_and_trains_on_the_others(tmp_path: Path) -> None:
    (tmp_path / "some.mat").write_bytes(mat())
    molecules = qm7.load(tmp_path / "some.mat")
    training, testing = molecules.split(2)
    np.testing.assert_array_equal(testing, table()["P"][2])
    assert sorted([*training, *testing]) == list(range(10))
    with pytest.raises(InputError, match="from 0 to 4, not 5"):
        molecules.split(5)


def test_the_environment_names_the_file(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.mat").write_bytes(mat())
    monkeypatch.setenv(qm7.VARIABLE, str(tmp_path / "some.mat"))
    assert len(qm7.load().energy) == 10
    assert not cache.exists()


def test_a_path_comes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.mat").write_bytes(mat())
    monkeypatch.setenv(qm7.VARIABLE, str(tmp_path / "absent.mat"))
    assert len(qm7.load(tmp_path / "some.mat").energy) == 10
    with pytest.raises(InputError, match=r"absent\.mat is no file"):
        qm7.load()


def test_the_download_is_made_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expect(monkeypatch, mat())
    asked = serve(monkeypatch, mat())
    first, second = qm7.load(), qm7.load()
    assert asked == [qm7.ADDRESS]
    assert cache.read_bytes() == mat()
    np.testing.assert_array_equal(first.coulomb, second.coulomb)


def test_a_damaged_file_in_the_cache_is_downloaded_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expect(monkeypatch, mat())
    serve(monkeypatch, mat())
    cache.parent.mkdir(parents=True)
    cache.write_bytes(mat()[:-1])
    assert len(qm7.load().energy) == 10
    assert cache.read_bytes() == mat()


@pytest.mark.parametrize(
    "change", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b""]
)
def test_a_wrong_download_is_refused_and_not_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes]
) -> None:
    expect(monkeypatch, mat())
    serve(monkeypatch, change(mat()))
    with pytest.raises(InputError, match=r"are not the .* of the original.*set DUALEMBED_QM7"):
        qm7.load()
    assert not cache.exists()


@pytest.mark.parametrize("error", [urllib.error.URLError("no route to host"), TimeoutError("timed out")])
def test_offline_it_says_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    serve(monkeypatch, error)
    with pytest.raises(InputError, match=r"\((no route|timed out).*\); connect to the internet, or download http.*set"):
        qm7.load()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cut short"),
        (mat()[: len(mat()) // 2], "cut short"),
        (b"<html>not found</html>" * 100, "cut short"),
        (mat(T=np.zeros((1, 9))), r"shapes \(10, 4, 4\), \(9,\) and \(5, 2\)"),
        (mat(X=np.zeros((10, 16))), r"shapes \(10, 16\)"),
        (mat(P=np.zeros((5, 2))), "do not hold each of its 10 molecules once"),
        (mat(T=np.full((1, 10), np.nan)), "NaN or infinite"),
    ],
)
def test_a_file_that_is_not_qm7_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "wrong.mat"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"wrong\.mat.*{words}"):
        qm7.load(path)


def test_a_truncated_npz_and_one_without_folds_are_named(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    np.savez(path, X=table()["X"], T=table()["T"])
    with pytest.raises(InputError, match="has no P, which"):
        qm7.load(path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match="cut short"):
        qm7.load(path)


@needs_data
def test_the_real_data_have_their_known_shape_and_range() -> None:
    molecules = qm7.load(DATA / "qm7.npz")
    assert molecules.coulomb.shape == (7165, 23, 23)
    assert molecules.folds.shape == (5, 1433)
    np.testing.assert_allclose(molecules.coulomb, molecules.coulomb.transpose(0, 2, 1))
    assert -2193 < molecules.energy.min() < -2000
    assert -500 < molecules.energy.max() < -400
