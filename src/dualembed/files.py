"""Files written whole or not at all: a reader, or a crash, never meets half of one."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn


def folder_for_writing(path: str | os.PathLike[str]) -> Path:
    """The folder at path, created with its parents if need be and known to be writable."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = _sibling(folder / "probe")
        _create(probe)
        probe.unlink()
    except OSError as error:
        _refuse(folder, error)
    return folder


@contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside `path`, with the same ending, that becomes `path` when the block succeeds.

    The file is flushed to the disk before it is renamed, so that after a crash `path` holds either the
    old bytes or the new ones. When the block raises, the temporary file goes and `path` is untouched.
    """
    # Of a link the target is replaced, not the link.
    target = Path(os.path.realpath(path))
    temporary = _sibling(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _create(temporary)
        yield temporary
        _flush(temporary)
        if target.is_file():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
        _flush(target.parent)
    except OSError as error:
        # The block may do other things; only failures of this file (a full disk names none) are ours.
        if error.filename not in (None, *map(str, (temporary, target, target.parent))):
            raise
        _refuse(Path(path), error)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_atomically(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Replace the file at path by the content (text in UTF-8), whole or not at all."""
    data = content.encode() if isinstance(content, str) else content
    with atomic(path) as temporary:
        temporary.write_bytes(data)


def _sibling(target: Path) -> Path:
    return target.with_name(f".{target.stem}-{secrets.token_hex(4)}{target.suffix}")


def _create(path: Path) -> None:
    # Not `tempfile`, whose files only their owner may read: the mode is what the user's umask says.
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))


def _flush(path: Path) -> None:
    """Wait until the file, or a folder's list of names, is on the disk."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders, and needs no such flush
        return
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refuse(path: Path, error: OSError) -> NoReturn:
    # Imported here: checks brings NumPy, which --help and --version need not wait for.
    from dualembed.checks import InputError

    reason = (error.strerror or str(error)).lower()
    raise InputError(f"{path} cannot be written ({reason}); choose a folder you may write to") from error
