"""A model file: safetensors, whose one metadata entry holds the format's number, a checksum and the description.

"dualembed": "1 <sha256 of all that follows and of all arrays> <description in JSON>"
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from dualembed import checks

FORMAT = 1
ENTRY = "dualembed"
LENGTH = 8  # bytes, at the beginning, of the length of the header
BEGINNING = f'{{"__metadata__":{{"{ENTRY}":"'.encode()


def packed(description: Any, tensors: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a model file; equal models have equal bytes."""
    text = json.dumps(description, allow_nan=False, separators=(",", ":"))
    entry = f"{FORMAT} {_checksum(text, tensors)} {text}"
    return safetensors.save(dict(tensors), metadata={ENTRY: entry})


def read(path: str | os.PathLike[str]) -> bytes:
    """The bytes of the file at path."""
    file = Path(path)
    if not file.exists():
        raise checks.InputError(f"{file} does not exist; check the path of the model file")
    if not file.is_file():
        raise checks.InputError(f"{file} is not a file; give the path of one that save has written")
    try:
        return file.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise checks.InputError(f"{file} cannot be read ({reason}); check its permissions") from error


def unpacked(data: bytes, path: str | os.PathLike[str]) -> tuple[Any, dict[str, np.ndarray]]:
    """(description, arrays) of a model file's bytes, refused unless they are whole and of a known format."""
    try:
        number, checksum, text = _entry(_header(data, path), data, path)
        tensors = safetensors.load(data)
        if number != FORMAT or _checksum(text, tensors) != checksum:
            raise ValueError("the checksum does not fit")
        description = json.loads(text)
    except checks.InputError:
        raise
    except (SafetensorError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise checks.InputError(f"{path} is damaged ({error}); copy it again, or save the model again") from None
    for array in tensors.values():
        array.flags.writeable = False
    return description, tensors


def _header(data: bytes, path: str | os.PathLike[str]) -> Any:
    """The header of the safetensors file, refused where the file is of another kind or ends within it."""
    start = data[LENGTH : LENGTH + len(BEGINNING)]
    if not start or start != BEGINNING[: len(start)]:
        raise checks.InputError(f"{path} is not a model file of dualembed; give one that save has written")
    end = LENGTH + int.from_bytes(data[:LENGTH], "little")
    if len(data) < end:
        raise _cut_off(path)
    return json.loads(data[LENGTH:end])


def _entry(header: Any, data: bytes, path: str | os.PathLike[str]) -> tuple[int, str, str]:
    """(format, checksum, description), refused where the format is newer or the arrays are not all there."""
    number, checksum, text = header["__metadata__"][ENTRY].split(" ", 2)
    if int(number) > FORMAT:
        raise checks.InputError(
            f"{path} has format {number}, and this version of dualembed reads formats up to {FORMAT}; use a newer one"
        )
    ends = [array["data_offsets"][1] for name, array in header.items() if name != "__metadata__"]
    if len(data) < LENGTH + int.from_bytes(data[:LENGTH], "little") + max(ends, default=0):
        raise _cut_off(path)
    return int(number), checksum, text


def _checksum(text: str, tensors: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(repr((name, array.dtype.str, array.shape)).encode("utf-8", "surrogatepass"))
        digest.update(array.tobytes())
    return digest.hexdigest()


def _cut_off(path: str | os.PathLike[str]) -> checks.InputError:
    return checks.InputError(f"{path} is cut off; copy it again, or save the model again")
