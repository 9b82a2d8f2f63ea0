"""The compilation cache is filled once, read afterwards, silent, and never in the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from dualembed import compilation

PROGRAM = """
import json, os
from pathlib import Path
import jax
import dualembed as de

hits = []
jax.monitoring.register_event_listener(lambda event, **_: "cache_hits" in event and hits.append(event))
data = de.sources.Dataset(x=[0.0, 0.5, 1.0], z=[0.1, 0.4, 1.1], y=[0.0, 0.5, 1.0])
space = de.spaces.RKHS(de.kernels.Gaussian(0.5))
de.solve(0, de.Saddle(de.problems.Invariance(data), space, space), de.solvers.EmbeddingSGD(20, 3))
entries = sorted(path.name for path in Path(os.environ["DUALEMBED_CACHE"]).iterdir())
print(json.dumps({"hits": len(hits), "entries": [name for name in entries if name.endswith("-cache")]}))
"""


@pytest.fixture(autouse=True)
def unconfigured_jax(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """JAX without a cache folder, and everything as it was afterwards."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update(names[0], None)
    jax.config.update(names[1], 1.0)
    monkeypatch.delenv("DUALEMBED_CACHE", raising=False)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def test_a_second_run_of_the_same_fit_compiles_nothing_again(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    environment["DUALEMBED_CACHE"] = str(tmp_path / "cache")
    # Everything is kept, so that the outcome does not depend on the speed of the machine.
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    runs = [subprocess.run(command, env=environment, capture_output=True, text=True) for _ in range(2)]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr + runs[1].stderr
    assert [run.stderr for run in runs] == ["", ""]
    first, second = (json.loads(run.stdout) for run in runs)
    assert first["hits"] < len(first["entries"])
    assert any("advance" in entry for entry in first["entries"])
    assert second["hits"] >= len(first["entries"]) > 1
    assert second["entries"] == first["entries"]


def test_default_folder_is_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(tmp_path / name))
    folder = compilation.enable_cache()
    assert folder == (tmp_path / "dualembed" / "xla").resolve()
    assert folder.is_dir()
    assert jax.config.jax_compilation_cache_dir == str(folder)
    assert jax.config.jax_persistent_cache_min_compile_time_secs == compilation.LEAST_COMPILE_SECONDS


def test_enabling_twice_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALEMBED_CACHE", str(tmp_path))
    first = compilation.enable_cache()
    monkeypatch.setenv("DUALEMBED_CACHE", str(tmp_path / "other"))
    assert compilation.enable_cache() == first == tmp_path.resolve()


def test_folder_given_to_jax_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "mine"))
    monkeypatch.setenv("DUALEMBED_CACHE", str(tmp_path / "yours"))
    assert compilation.enable_cache() == tmp_path / "mine"
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 1.0
    assert not (tmp_path / "yours").exists()


def test_threshold_chosen_by_the_user_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALEMBED_CACHE", str(tmp_path))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 5.0)
    compilation.enable_cache()
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 5.0


def test_off_means_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUALEMBED_CACHE", "off")
    assert compilation.enable_cache() is None
    assert jax.config.jax_compilation_cache_dir is None


def test_folder_that_cannot_be_written_means_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DUALEMBED_CACHE", str(tmp_path / "file" / "cache"))
    assert compilation.enable_cache() is None
    assert jax.config.jax_compilation_cache_dir is None
