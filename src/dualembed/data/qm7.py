"""QM7: 7,165 small organic molecules as Coulomb matrices, their atomisation energies, and five folds to test on.

The data set is that of Rupp et al. (2012) and Montavon et al. (2013). It comes from a file, or is downloaded once.
"""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np

from dualembed.checks import InputError
from dualembed.files import write_atomically

ADDRESS = "http://quantum-machine.org/data/qm7.mat"
SHA256 = "fd6c26c1086887310518e6a6da778253bc5d3ceb8166007a679a740fff9ee6ea"
SIZE = 17_884_280
VARIABLE = "DUALEMBED_QM7"
SECONDS = 60.0  # that the server may stay silent
BY_HAND = f"download {ADDRESS} elsewhere and set {VARIABLE} to the file"


@dataclass(frozen=True)
class Molecules:
    """Coulomb matrices (n, atoms, atoms), zero beyond a molecule's own atoms; atomisation energies (n,) in kcal/mol.

    `folds` (5, n/5) holds the row numbers of each fold: a fold is tested on after training on the four others.
    """

    coulomb: np.ndarray
    energy: np.ndarray
    folds: np.ndarray

    def split(self, fold: int) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers (training, testing) of a fold."""
        if not 0 <= fold < len(self.folds):
            raise InputError(f"fold must be a whole number from 0 to {len(self.folds) - 1}, not {fold!r}")
        return np.concatenate([rows for number, rows in enumerate(self.folds) if number != fold]), self.folds[fold]


def load(path: str | os.PathLike[str] | None = None) -> Molecules:
    """The molecules in the .mat or .npz file at `path`, else at $DUALEMBED_QM7, else in the original, downloaded once.

    The download is checked against its known sum and kept in the user's cache folder.
    """
    chosen = path if path is not None else os.environ.get(VARIABLE) or None
    return _molecules(Path(chosen).expanduser() if chosen is not None else downloaded())


def downloaded() -> Path:
    """The original file in the user's cache folder, downloaded if it is not there whole."""
    from platformdirs import user_cache_dir

    kept = Path(user_cache_dir("dualembed")) / "qm7.mat"
    try:
        if _genuine(kept.read_bytes()):
            return kept
    except OSError:
        pass  # not there, or not readable: either way a new one is needed
    content = _fetched()
    if not _genuine(content):
        raise InputError(
            f"{ADDRESS} gave {len(content):,} bytes that are not the {SIZE:,} of the original (their SHA-256 differs); "
            f"try again, or {BY_HAND}"
        )
    write_atomically(kept, content)
    return kept


def _genuine(content: bytes) -> bool:
    return len(content) == SIZE and hashlib.sha256(content).hexdigest() == SHA256


def _fetched() -> bytes:
    try:
        with urllib.request.urlopen(ADDRESS, timeout=SECONDS) as response:
            # One byte more than wanted shows that a file is too long, without reading an endless one.
            content: bytes = response.read(SIZE + 1)
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise InputError(f"QM7 could not be downloaded ({reason}); connect to the internet, or {BY_HAND}") from error
    return content


def _molecules(path: Path) -> Molecules:
    """The file's contents, checked to fit together."""
    table = _read(path)
    missing = [name for name in ("X", "T", "P") if name not in table]
    if missing:
        raise InputError(f"{path} has no {' and no '.join(missing)}, which QM7's file has; {BY_HAND}")
    coulomb, energy = np.asarray(table["X"], dtype=float), np.asarray(table["T"], dtype=float).reshape(-1)
    folds = np.asarray(table["P"]).astype(int)
    square = coulomb.ndim == 3 and coulomb.shape[1] == coulomb.shape[2]
    if not square or len(coulomb) != len(energy) or folds.ndim != 2:
        raise InputError(
            f"{path} has X, T and P of shapes {coulomb.shape}, {energy.shape} and {folds.shape}, but QM7 has a square "
            f"matrix and an energy for each molecule and five rows of folds; {BY_HAND}"
        )
    if not np.array_equal(np.sort(folds, axis=None), np.arange(len(energy))):
        raise InputError(f"the folds P of {path} do not hold each of its {len(energy)} molecules once; {BY_HAND}")
    if not (np.all(np.isfinite(coulomb)) and np.all(np.isfinite(energy))):
        raise InputError(f"{path} has NaN or infinite values in X or T; {BY_HAND}")
    return Molecules(coulomb, energy, folds)


def _read(path: Path) -> Mapping[str, Any]:
    """The arrays of a .mat or .npz file by name."""
    if not path.is_file():
        raise InputError(f"{path} is no file; give the path of qm7.mat, or leave it out to download the original")
    try:
        if path.suffix == ".npz":
            # A file that NumPy opened itself would stay open where it turns out to be damaged.
            with path.open("rb") as file, np.load(file) as arrays:
                return dict(arrays)
        from scipy.io import loadmat

        table: dict[str, Any] = loadmat(path)
        return table
    except Exception as error:  # NumPy, scipy, zipfile and zlib each have errors of their own for damaged bytes
        raise InputError(
            f"{path} cannot be read as a .mat or .npz file ({type(error).__name__}), maybe it was cut short; {BY_HAND}"
        ) from error
