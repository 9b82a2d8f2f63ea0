"""Files are written whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dualembed.checks import InputError
from dualembed.files import atomic, folder_for_writing, write_atomically


def test_content_arrives_and_nothing_else_is_left(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "result.txt"
    write_atomically(target, "κ = 1\n")
    assert target.read_text(encoding="utf-8") == "κ = 1\n"
    write_atomically(target, b"\x00\xff")
    assert target.read_bytes() == b"\x00\xff"
    assert os.listdir(target.parent) == ["result.txt"]


def test_failure_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "result.txt"
    target.write_text("old")

    def fail() -> None:
        with atomic(target) as temporary:
            temporary.write_text("half of the n")
            raise RuntimeError("as planned")

    with pytest.raises(RuntimeError, match="as planned"):
        fail()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["result.txt"]


def test_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "result.txt"
    target.write_text("old")
    program = (
        "import os, sys\n"
        "from dualembed.files import atomic\n"
        "with atomic(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half of the n')\n"
        "    os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(target)]).returncode == 9
    assert target.read_text() == "old"


def test_temporary_path_keeps_folder_and_ending(tmp_path: Path) -> None:
    with atomic(tmp_path / "figure.png") as temporary:
        assert temporary.parent == tmp_path.resolve()
        assert temporary.suffix == ".png"
        temporary.write_bytes(b"picture")
    assert (tmp_path / "figure.png").read_bytes() == b"picture"


def test_mode_follows_the_umask_and_then_the_file(tmp_path: Path) -> None:
    target, plain = tmp_path / "result.txt", tmp_path / "plain.txt"
    plain.write_text("")
    write_atomically(target, "new")
    assert target.stat().st_mode == plain.stat().st_mode
    target.chmod(0o640)
    write_atomically(target, "newer")
    assert target.stat().st_mode & 0o777 == 0o640


def test_link_keeps_pointing_at_the_replaced_target(tmp_path: Path) -> None:
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_folder_that_cannot_be_made_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for attempt in (
        lambda: write_atomically(tmp_path / "file" / "result.txt", "new"),
        lambda: folder_for_writing(tmp_path / "file" / "folder"),
        lambda: write_atomically(tmp_path, "a folder is no file"),
    ):
        with pytest.raises(InputError, match="cannot be written"):
            attempt()
    assert os.listdir(tmp_path) == ["file"]


def test_full_disk_is_bad_input_but_other_failures_are_not(tmp_path: Path) -> None:
    def fail(error: OSError) -> None:
        with atomic(tmp_path / "result.txt"):
            raise error

    with pytest.raises(InputError, match="no space left on device"):
        fail(OSError(28, "No space left on device"))
    with pytest.raises(FileNotFoundError, match="elsewhere"):
        fail(FileNotFoundError(2, "No such file or directory", "elsewhere"))
    assert os.listdir(tmp_path) == []


def test_writable_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    folder = folder_for_writing(tmp_path / "a" / "b")
    assert folder == tmp_path / "a" / "b"
    assert os.listdir(folder) == []
