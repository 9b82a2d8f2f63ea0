"""Ctrl-C ends long work at once, with one sentence and code 130, and leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send")

PATIENCE = 600.0
"""Seconds after which a process that should have ended is taken to hang: no measure of speed, only no endless wait."""

# Work that loses interrupts, as callbacks of JAX do.
DEAF = """
import sys, time, types
import dualembed.experiments
from dualembed.cli import main
from dualembed.experiments.experiment import Contender, Experiment
def work(*_, **__):
    print("ready", flush=True)
    while True:
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            pass
"""
REPRODUCE = """
class Deaf(Contender):
    run = work
    def grid(self):
        return [{"rate": 1.0}, {"rate": 2.0}]
noisy = types.ModuleType("dualembed.experiments.noisy")
noisy.EXPERIMENT = Experiment("unnamed", "", "MSE", {}, {"deaf": Deaf()}, 10, 10)
Experiment.chosen = lambda self: {"deaf": {"rate": 1.0}}
sys.modules[noisy.__name__] = noisy
"""
BENCH = """
garnet = types.ModuleType("dualembed.experiments.bench_garnet")
garnet.bench = work
sys.modules[garnet.__name__] = garnet
"""

# Read by every process as it starts: a trial that ends by itself would hide a process that nobody ends.
ENDLESS = """
import os, time
from pathlib import Path
from dualembed.experiments.run import TrialTask
def answer(self, contender):
    Path(__file__).with_name(f"at-work-{os.getpid()}").touch()
    while True:
        time.sleep(60)
TrialTask.answer = answer
"""


def interrupted(program: str, *arguments: str) -> tuple[int, str]:
    """The exit code and standard error of a program that is interrupted when it says that it is ready."""
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    return process.returncode, errors


@pytest.mark.parametrize("sweep", [[], ["--sweep"]])
def test_reproduce_ends_though_the_work_is_deaf_and_says_where_it_goes_on(sweep: list[str], tmp_path: Path) -> None:
    folder = str(tmp_path)
    code, errors = interrupted(
        DEAF + REPRODUCE + "sys.exit(main())", "reproduce", "noisy", "--jobs", "1", "--out", folder, *sweep
    )
    assert code == 130
    kept = f"what was computed is kept in {folder}, and the same command goes on from there"
    assert errors == f"dualembed: stopped; {kept}\n"


def test_bench_ends_though_the_work_is_deaf() -> None:
    code, errors = interrupted(DEAF + BENCH + "sys.exit(main())", "bench", "garnet")
    assert code == 130
    assert errors == "dualembed: stopped; nothing is kept of 'garnet'\n"


def test_in_somebody_elses_process_an_interruption_stays_an_exception(tmp_path: Path) -> None:
    program = DEAF.replace("pass", "raise") + REPRODUCE
    program += "print(main(['reproduce', 'noisy', '--jobs', '1', '--out', sys.argv[1]]), file=sys.stderr)\n"
    code, errors = interrupted(program, str(tmp_path))
    assert code == 0
    assert errors.startswith("dualembed: stopped; ")
    assert errors.endswith("\n130\n")
    assert errors.count("\n") == 2


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux tells a process's children in /proc")
@pytest.mark.parametrize("late", [False, True], ids=["while they start", "while they work"])
def test_processes_that_work_are_gone_after_ctrl_c_on_a_terminal(late: bool, tmp_path: Path) -> None:
    with working_in_two_processes(tmp_path) as process:
        workers = children(process.pid)
        if late:
            wait_until(lambda: len(at_work(tmp_path)) == 2)
        os.killpg(process.pid, signal.SIGINT)  # a terminal interrupts the whole group
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors.startswith("dualembed: stopped; ")
    assert errors.count("\n") == 1
    wait_until(lambda: not any(map(alive, workers)))


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux tells a process's children in /proc")
def test_processes_leave_interruptions_to_the_one_that_started_them_from_their_start_on(tmp_path: Path) -> None:
    with working_in_two_processes(tmp_path) as process:
        workers = children(process.pid)
        for worker in workers:
            os.kill(worker, signal.SIGINT)
        wait_until(lambda: len(at_work(tmp_path)) == 2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors.count("\n") == 1


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="only Linux tells a process's children in /proc")
def test_processes_that_work_do_not_outlive_one_that_is_killed(tmp_path: Path) -> None:
    with working_in_two_processes(tmp_path) as process:
        workers = children(process.pid)
        wait_until(lambda: len(at_work(tmp_path)) == 2)
        process.kill()
    wait_until(lambda: not any(map(alive, workers)))


def working_in_two_processes(folder: Path) -> subprocess.Popen[str]:
    """A run of the illustration whose trials never end, once its two processes have been started."""
    (folder / "sitecustomize.py").write_text(ENDLESS)
    command = [sys.executable, "-m", "dualembed", "reproduce", "illustration", "--jobs", "2", "--out", str(folder)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])},
    )
    wait_until(lambda: len(children(process.pid)) >= 3)  # with the one that keeps account of semaphores
    return process


def children(process: int) -> list[int]:
    return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))


def at_work(folder: Path) -> list[Path]:
    """What the processes leave behind as they begin with a trial."""
    return list(folder.glob("at-work-*"))


def alive(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def wait_until(met: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
