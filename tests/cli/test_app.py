"""The command line answers at once, speaks in sentences, and keeps its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dualembed import __version__
from dualembed.checks import InputError
from dualembed.cli import main
from dualembed.experiments import NAMES
from dualembed.experiments.experiment import Contender, Curve, Experiment

# Importing any of these takes longer than the whole of --help may.
HEAVY = ("jax", "numpy", "scipy", "matplotlib", "equinox", "optax", "pyarrow", "sklearn")


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


class Method(Contender):
    """A method that remembers how it was called, and raises an error if it is given one."""

    def __init__(self) -> None:
        self.calls: list[tuple[dict[str, Any], int, int]] = []
        self.error: BaseException | None = None

    def run(self, settings: dict[str, Any], seed: int, samples: int) -> Curve:
        self.calls.append((settings, seed, samples))
        if self.error is not None:
            raise self.error
        return Curve([samples], [0.5 + settings.get("rate", 0.0)])

    def grid(self) -> list[dict[str, Any]]:
        return [{"rate": 2.0}, {"rate": 1.0}]


@pytest.fixture
def method(monkeypatch: pytest.MonkeyPatch) -> Method:
    method, module = Method(), ModuleType("dualembed.experiments.noisy")
    experiment = Experiment("unswept", "", "MSE", {}, {"embedding-sgd": method}, samples=100, quick_samples=10)
    module.EXPERIMENT = experiment
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(Experiment, "chosen", lambda self: {"embedding-sgd": {"rate": 0.0}})
    return method


# What main answers to each of the lists of arguments, and which of the modules are there by then.
ANSWERS = """
import contextlib, io, json, sys
from dualembed.cli import main
questions, modules = json.loads(sys.argv[1])
answers = []
for arguments in questions:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        code = main(arguments)
    answers.append([code, errors.getvalue(), [name for name in modules if name in sys.modules]])
print(json.dumps(answers))
"""


def answers(questions: list[list[str]], modules: tuple[str, ...]) -> list[Any]:
    """The exit code, the errors and the modules imported so far of each command, given one after the other."""
    outcome = python("-c", ANSWERS, json.dumps([questions, modules]))
    assert outcome.returncode == 0, outcome.stderr
    found: list[Any] = json.loads(outcome.stdout)
    return found


def test_help_answers_at_once_without_heavy_imports() -> None:
    commands = (["fit"], ["fit", "iv"], ["ask"], ["reproduce"])
    questions = [["--help"], *([*command, "--help"] for command in commands), ["--version"], []]
    assert answers(questions, HEAVY) == [[0, "", []]] * len(questions)


def test_mistakes_with_files_and_columns_are_told_without_waiting_for_jax(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "log.csv").write_text("state,reward,next_state,kind\n0,1,0.5,red\n0.5,2,1,blue\n")
    policy = ["fit", "policy-evaluation"]
    told = [
        ([*policy, "lag.csv", "--out", "m"], "did you mean 'log.csv'?"),
        ([*policy, "log.csv", "--out", "m", "--discount", "2"], "--discount must be from 0 to 1"),
        ([*policy, "log.csv", "--out", "m", "--reward", "rewad"], "did you mean 'reward'?"),
        ([*policy, "log.csv", "--out", "m", "--reward", "kind"], "'kind' holds 'red' in data row 1"),
        (["fit", "hitting-time", "log.csv", "--out", "m", "--target", "sped > 1"], "names the column 'sped'"),
        (["predict", "mm", "log.csv", "--out", "values.csv"], "there is no file mm"),
        (["score", "mm", "log.csv"], "there is no file mm"),
        (["ask", "mm"], "there is no file mm"),
        (["ask", "log.csv", "--level", "2"], "--level must lie between 0 and 1"),
        (["info", "log.cvs"], "did you mean 'log.csv'?"),
    ]
    found = answers([arguments for arguments, _ in told], ("jax", "scipy", "sklearn", "matplotlib"))
    for (_, words), (code, errors, late) in zip(told, found, strict=True):
        assert (code, words in errors, late) == (2, True, []), errors


def test_package_imports_no_jax_until_a_name_is_used() -> None:
    program = (
        "import sys, dualembed\n"
        "assert 'jax' not in sys.modules and 'numpy' not in sys.modules\n"
        "assert 'solve' in dir(dualembed)\n"
        "dualembed.losses\n"
        "assert 'jax' in sys.modules\n"
        "dualembed.nonsense\n"
    )
    outcome = python("-c", program)
    assert "AttributeError: module 'dualembed' has no attribute 'nonsense'" in outcome.stderr


def test_every_public_name_can_be_imported() -> None:
    import dualembed

    for name in dualembed.__all__:
        assert getattr(dualembed, name) is not None


def test_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dualembed {__version__}\n"
    assert version("dualembed") == __version__


def test_help_of_reproduce_names_the_experiments_and_gives_examples(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["reproduce", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Examples:" in shown
    for name, description in NAMES.items():
        assert name in shown
        assert description in shown


def test_module_runs_as_a_program() -> None:
    outcome = python("-m", "dualembed", "reproduce", "nosy")
    assert outcome.returncode == 2
    assert outcome.stderr == "dualembed: there is no experiment named 'nosy'; did you mean 'noisy'?\n"
    assert outcome.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce", "ilustration"], "did you mean 'illustration'?"),
        (["reproduce", "Noisy"], "did you mean 'noisy'?"),
        (["reproduce", "zzz"], "choose one of: illustration, noisy"),
        (["reproduce"], "NAME"),
        (["reproduce", "noisy", "--trials", "0"], "--trials"),
        (["reproduce", "noisy", "--trials", "many"], "--trials"),
        (["reproduce", "noisy", "--seed", "-1"], "--seed"),
        (["reproduce", "noisy", "--nonsense"], "--nonsense"),
        (["nonsense"], "nonsense"),
        (["fit"], "TASK"),
        (["fit", "iv", "table.csv"], "there is no file table.csv"),
        (["predict", "model"], "TABLE"),
        (["info"], "MODEL"),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.err.startswith("dualembed: ")
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_reproduce_runs_writes_and_prints(method: Method, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    assert main(["reproduce", "noisy", "--trials", "3", "--seed", "7", "--out", str(folder)]) == 0
    assert method.calls == [({"rate": 0.0}, seed, 100) for seed in (7, 8, 9)]
    assert json.loads((folder / "results.json").read_text())["trials"] == 3
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr()
    assert "embedding-sgd" in shown.out
    assert "results.json" in shown.out
    assert "figure.png" in shown.out
    assert shown.err == ""


def test_reproduce_has_defaults_that_quick_reduces(
    method: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "noisy"]) == 0
    assert method.calls == [({"rate": 0.0}, seed, 100) for seed in range(10)]
    method.calls.clear()
    assert main(["reproduce", "noisy", "--quick"]) == 0
    assert method.calls == [({"rate": 0.0}, 0, 10), ({"rate": 0.0}, 1, 10)]
    written = ["figure.pdf", "figure.png", "results.json", "trials.jsonl"]
    assert sorted(os.listdir(tmp_path / "results" / "noisy")) == written


def test_reproduce_goes_on_where_it_was_interrupted_unless_it_is_to_start_afresh(
    method: Method, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["reproduce", "noisy", "--quick", "--out", str(tmp_path), "--trials"]
    assert main([*arguments, "2"]) == 0
    assert "Going on" not in capsys.readouterr().out
    assert main([*arguments, "3"]) == 0
    assert [seed for _, seed, _ in method.calls] == [0, 1, 2]
    assert "Going on with" in capsys.readouterr().out
    assert main([*arguments, "1", "--fresh"]) == 0
    assert [seed for _, seed, _ in method.calls] == [0, 1, 2, 0]


def test_a_sweep_chooses_the_settings_that_the_run_uses(method: Method, tmp_path: Path) -> None:
    assert main(["reproduce", "noisy", "--quick", "--sweep", "--trials", "1", "--out", str(tmp_path)]) == 0
    assert json.loads((tmp_path / "settings.json").read_text())["chosen"] == {"embedding-sgd": {"rate": 1.0}}
    assert method.calls[-1] == ({"rate": 1.0}, 0, 10)
    written = json.loads((tmp_path / "results.json").read_text())["methods"]["embedding-sgd"]
    assert written["hyperparameters"] == {"rate": 1.0}
    assert written["final"] == [1.5]


def test_folder_that_cannot_be_written_is_refused_before_the_work(
    method: Method, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main(["reproduce", "noisy", "--out", str(tmp_path / "file" / "folder")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert method.calls == []


def test_input_error_inside_is_code_2_and_any_other_error_is_raised(
    method: Method, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["reproduce", "noisy", "--out", str(tmp_path)]
    method.error = InputError("bandwidth must be positive, not -1")
    assert main(arguments) == 2
    assert capsys.readouterr().err == "dualembed: bandwidth must be positive, not -1\n"
    method.error = ValueError("a mistake of ours")
    with pytest.raises(ValueError, match="a mistake of ours"):
        main(arguments)


def test_interruption_is_code_130_and_one_sentence(
    method: Method, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    method.error = KeyboardInterrupt()
    assert main(["reproduce", "noisy", "--out", str(tmp_path)]) == 130
    shown = capsys.readouterr().err
    assert shown.startswith(f"dualembed: stopped; what was computed is kept in {tmp_path}, ")
    assert shown.count("\n") == 1
